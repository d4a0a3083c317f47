// blocks_xallocator.cpp: the rows of seed 001's own allocator in the table `blocks`.
//
// `xallocator` is what the seed measured: heap blocks and one lock. Static pools hold a fixed
// number of blocks of each of twelve sizes, here as many as the benchmark needs and at least 100.
// The last three are the class below it, one object for each size, in its three modes: no class to
// look for, no word before the block, no lock.
#include "blocks_work.hpp"
#include "xallocator_rules.hpp"

#include <mutex>
#include <string_view>

using namespace xallocator_rules;

namespace {

bool is_benchmark(const FamilyRequest &asked) {
    return std::string_view(asked.column->name) == "benchmark";
}

constexpr unsigned objects_most = 1 << 14;

unsigned pool_objects(const FamilyRequest &asked) {
    if (!is_benchmark(asked) || asked.n < 100) return 100;
    if (asked.n > objects_most) family_fail("the static pools end at %u blocks", objects_most);
    return static_cast<unsigned>(asked.n);
}

template <class Lock> class Heap {
  public:
    explicit Heap(const FamilyRequest &) {}
    void *alloc(std::size_t size) { return heap_.allocate(size); }
    void free(void *block, std::size_t) { heap_.deallocate(block); }

  private:
    Xallocator<Lock> heap_;
};

class Pools {
  public:
    explicit Pools(const FamilyRequest &asked) : heap_(pool_objects(asked), pool_) {}
    void *alloc(std::size_t size) { return heap_.allocate(size); }
    void free(void *block, std::size_t) { heap_.deallocate(block); }

  private:
    using Heap = Xallocator<std::mutex>;
    alignas(16) static char pool_[Heap::pool_bytes(objects_most)];
    Heap heap_;
};
alignas(16) char Pools::pool_[Heap::pool_bytes(objects_most)];

enum class Mode { heap_blocks, heap_pool, static_pool };

template <Mode mode> class Sizes {
  public:
    explicit Sizes(const FamilyRequest &asked)
        : small_(is_benchmark(asked) ? blocks_work::small_size : blocks_work::pair_size,
                 objects(asked), pool(0)),
          large_(blocks_work::large_size, objects(asked), pool(1)) {}
    void *alloc(std::size_t size) { return of(size).allocate(size); }
    void free(void *block, std::size_t size) { of(size).deallocate(block); }

  private:
    static unsigned objects(const FamilyRequest &asked) {
        return mode == Mode::heap_blocks ? 0 : pool_objects(asked);
    }
    static char *pool(int which) {
        if constexpr (mode == Mode::static_pool) {
            alignas(16) static char pools[2][objects_most * blocks_work::large_size];
            return pools[which];
        }
        return nullptr;
    }
    Block_allocator &of(std::size_t size) { return size > small_.block_size() ? large_ : small_; }

    Block_allocator small_, large_;
};

// One block size has no place for any size at all.
template <class Row>
constexpr FamilyCell cells_of_fixed_sizes[] = {{"benchmark", blocks_work::benchmark<Row>},
                                               {"pair", blocks_work::pair<Row>},
                                               {nullptr, nullptr}};

} // namespace

FAMILY_ROW(locked_row, "xallocator", "as published", "heap blocks, one lock", FAMILY_RENDITION,
           blocks_work::cells<Heap<std::mutex>>)
FAMILY_ROW(unlocked_row, "xallocator-unlocked", "as published", "heap blocks, no lock",
           FAMILY_RENDITION, blocks_work::cells_of_one_thread<Heap<No_lock>>)
FAMILY_ROW(pools_row, "xallocator-pools", "as published", "static pools, one lock",
           FAMILY_RENDITION, blocks_work::cells<Pools>)
FAMILY_ROW(heap_blocks_row, "allocator-heap-blocks", "1.0",
           "one object a size: heap blocks, no lock", FAMILY_RENDITION,
           cells_of_fixed_sizes<Sizes<Mode::heap_blocks>>)
FAMILY_ROW(heap_pool_row, "allocator-heap-pool", "as published",
           "one object a size: heap pool, no lock", FAMILY_RENDITION,
           cells_of_fixed_sizes<Sizes<Mode::heap_pool>>)
FAMILY_ROW(static_pool_row, "allocator-static-pool", "1.0",
           "one object a size: static pool, no lock", FAMILY_RENDITION,
           cells_of_fixed_sizes<Sizes<Mode::static_pool>>)
