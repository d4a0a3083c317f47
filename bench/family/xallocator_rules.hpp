// xallocator_rules.hpp: xallocator's rules, written from their description.
//
// Question: what does the original fixed block allocator cost, on this machine, by the rules it was
// published with? Use it as the "before" rows of the table `blocks`. Blocks are never given back to
// the heap while the allocator lives; freed ones form a list.
//
//   Block_allocator   one block size. Heap blocks: each new block is a `new char[]` of its own.
//                     Heap pool: one array for all, made at the start. Static pool: the caller's
//                     array. Popped from the list first.
//   Xallocator        malloc and free by size classes: powers of two from 8 on, with 396 and 768
//                     tuned in; the class is looked for in the order in which the classes came to
//                     be; a word before each block says whose it is; one lock around all, or none.
//
// As in the original: blocks of 396 bytes are not aligned, and a request gets 8-byte alignment at
// best. Unlike it, which writes through NULL there, a pool that is exhausted gives std::bad_alloc.
// Not rendered: xrealloc and the statistics' output (the counters are kept, their upkeep is part of
// the cost), and the automatic start and end.
#ifndef LOAM_BENCH_XALLOCATOR_RULES_HPP
#define LOAM_BENCH_XALLOCATOR_RULES_HPP

#include <cstddef>
#include <mutex>

namespace xallocator_rules {

class Block_allocator {
  public:
    // No OBJECTS: heap blocks. OBJECTS without POOL: heap pool. Both: static pool.
    explicit Block_allocator(std::size_t size, unsigned objects = 0, char *pool = nullptr,
                             const char *name = nullptr);
    ~Block_allocator();
    Block_allocator(const Block_allocator &) = delete;
    Block_allocator &operator=(const Block_allocator &) = delete;

    void *allocate(std::size_t size);
    void deallocate(void *block);

    std::size_t block_size() const { return block_size_; }
    const char *name() const { return name_; }
    unsigned blocks() const { return pool_ ? pool_index_ : blocks_; }
    unsigned blocks_in_use() const { return in_use_; }
    unsigned allocations() const { return allocations_; }
    unsigned deallocations() const { return deallocations_; }

  private:
    enum class Mode { heap_blocks, heap_pool, static_pool };
    struct Free_block {
        Free_block *next;
    };

    void push(void *block);
    void *pop();

    const std::size_t block_size_;
    const std::size_t object_size_;
    const unsigned max_objects_;
    Mode mode_;
    Free_block *head_ = nullptr;
    char *pool_ = nullptr;
    unsigned pool_index_ = 0;
    unsigned blocks_ = 0;
    unsigned in_use_ = 0;
    unsigned allocations_ = 0;
    unsigned deallocations_ = 0;
    const char *name_;
};

// What the four lock hooks of the original are where there is one thread: empty.
struct No_lock {
    void lock() {}
    void unlock() {}
};

template <class Lock> class Xallocator {
  public:
    static constexpr int max_allocators = 15;
    static constexpr std::size_t tuned_sizes[] = {8,   16,  32,  64,   128,  256,
                                                  396, 512, 768, 1024, 2048, 4096};

    Xallocator() = default; // heap blocks: classes are made as they are asked for
    // Static pools: the twelve classes above and no others, OBJECTS blocks each, all in POOL, which
    // has pool_bytes. (The twelve objects themselves come from new, once.)
    Xallocator(unsigned objects, char *pool);
    ~Xallocator();
    Xallocator(const Xallocator &) = delete;
    Xallocator &operator=(const Xallocator &) = delete;

    void *allocate(std::size_t size);
    void deallocate(void *memory);

    const Block_allocator *classes(int index) const {
        return index < max_allocators ? allocators_[index] : nullptr;
    }
    static constexpr std::size_t pool_bytes(unsigned objects) {
        std::size_t all = 0;
        for (std::size_t size : tuned_sizes) all += size * objects;
        return all;
    }

  private:
    Block_allocator *find(std::size_t block_size);
    void insert(Block_allocator *allocator);
    Block_allocator *for_size(std::size_t size);

    Block_allocator *allocators_[max_allocators] = {};
    bool static_pools_ = false;
    Lock lock_;
};

extern template class Xallocator<No_lock>;
extern template class Xallocator<std::mutex>;

// The class of a request of SIZE bytes: with the word that says whose block it is.
std::size_t class_of(std::size_t size);

} // namespace xallocator_rules
#endif
