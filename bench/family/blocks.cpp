// blocks.cpp: the table `blocks` of seed 001: blocks of few sizes, freed and taken again.
//
// Rows that need nothing but libc and the C++ library: malloc and std::pmr's two pools. `benchmark`
// ends with its memory freed from the top down, and glibc then gives it back to the system, to
// fault it in again in the next run: that, not its search for a block, is nearly all of its time
// there. `malloc-untrimmed` is the same malloc told to keep what it has. The rows of other general
// allocators, preloaded, are in blocks_preload.cpp.
#include "blocks_work.hpp"

#include <cstdlib>
#include <gnu/libc-version.h>
#include <malloc.h>
#include <memory_resource>

static const FamilyColumn columns[] = {
    {"benchmark", "2000 and 4000 bytes, every other one freed in between, three runs", 10000, 6000},
    {"pair", "100 bytes and their free, over and over", 20000000, 0},
    {"pair-sizes", "1 to 4000 bytes at random and their free", 10000000, 0},
    {"pair-threads", "the same as pair, half of it by another thread", 20000000, 0},
};
const FamilyTable family_table = {"001", "Blocks: few sizes, freed and taken again", columns,
                                  sizeof columns / sizeof *columns};

struct Malloc {
    explicit Malloc(const FamilyRequest &) {}
    void *alloc(std::size_t size) { return std::malloc(size); }
    void free(void *block, std::size_t) { std::free(block); }
};

struct Untrimmed : Malloc {
    explicit Untrimmed(const FamilyRequest &asked) : Malloc(asked) {
        constexpr int never = 1 << 30;
        if (!mallopt(M_TRIM_THRESHOLD, never)) family_fail("mallopt refused");
    }
};

// Without the option, libstdc++ passes requests above 4032 bytes or so to the heap; 4000 are below.
template <class Resource> class Pmr {
  public:
    explicit Pmr(const FamilyRequest &) {}
    void *alloc(std::size_t size) { return pool_.allocate(size, 8); }
    void free(void *block, std::size_t size) { pool_.deallocate(block, size, 8); }

  private:
    Resource pool_{std::pmr::pool_options{0, 4096}};
};

FAMILY_ROW(malloc_row, "malloc", gnu_get_libc_version(), "libc's malloc", FAMILY_RIVAL,
           blocks_work::cells<Malloc>)
FAMILY_ROW(untrimmed_row, "malloc-untrimmed", gnu_get_libc_version(),
           "libc's malloc that gives nothing back", FAMILY_RIVAL, blocks_work::cells<Untrimmed>)
FAMILY_ROW(pmr_row, "pmr-pool", FAMILY_STRING(_GLIBCXX_RELEASE),
           "std::pmr::unsynchronized_pool_resource: no locks", FAMILY_RIVAL,
           blocks_work::cells_of_one_thread<Pmr<std::pmr::unsynchronized_pool_resource>>)
FAMILY_ROW(pmr_locked_row, "pmr-pool-locked", FAMILY_STRING(_GLIBCXX_RELEASE),
           "std::pmr::synchronized_pool_resource: locks", FAMILY_RIVAL,
           blocks_work::cells<Pmr<std::pmr::synchronized_pool_resource>>)
