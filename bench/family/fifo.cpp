// fifo.cpp: the table `fifo` of seed 002: blocks that are freed in about the order they came in.
//
// Rows that need nothing but libc and the C++ library: malloc, calloc and std::pmr. A FIFO pool
// gives zeroed memory: calloc is the fair comparison, malloc and pmr do less.
#include "fifo_work.hpp"

#include <cstdlib>
#include <gnu/libc-version.h>
#include <memory_resource>

static const FamilyColumn columns[] = {
    {"immediate", "a block of 1 to 512 bytes, freed at once", 20000000, 0},
    {"cyclic", "10,000 slots in turn: free the oldest, take a new one", 10000000, 0},
    {"random", "10,000 slots, one at random each time", 4000000, 0},
    {"grow", "arrays that grow from 16 to 1024 bytes by realloc of the last object", 10000000, 0},
    {"grow-copy", "the same by a new block, a copy and a free", 10000000, 0},
    {"cyclic-memory", "memory held and used, slots in turn", 200000, 0},
    {"random-memory", "memory held and used, slots at random", 200000, 0},
};
const FamilyTable family_table = {"002", "FIFO: 1 to 512 bytes, freed in about the order they came",
                                  columns, sizeof columns / sizeof *columns};

struct Malloc {
    explicit Malloc(const FamilyRequest &) {}
    void *alloc(std::size_t size) { return std::malloc(size); }
    void free(void *block, std::size_t) { std::free(block); }
    void *realloc(void *block, std::size_t, std::size_t size) { return std::realloc(block, size); }
};

struct Calloc {
    explicit Calloc(const FamilyRequest &) {}
    void *alloc(std::size_t size) { return std::calloc(1, size); }
    void free(void *block, std::size_t) { std::free(block); }
};

struct Pmr_pool {
    explicit Pmr_pool(const FamilyRequest &) {}
    void *alloc(std::size_t size) { return pool_.allocate(size, 8); }
    void free(void *block, std::size_t size) { pool_.deallocate(block, size, 8); }

  private:
    std::pmr::unsynchronized_pool_resource pool_;
};

FAMILY_ROW(calloc_row, "calloc", gnu_get_libc_version(), "libc's calloc and free: zeroed memory",
           FAMILY_RIVAL, fifo_work::cells<Calloc>)
FAMILY_ROW(malloc_row, "malloc", gnu_get_libc_version(), "libc's malloc and free: not zeroed",
           FAMILY_RIVAL, fifo_work::cells<Malloc>)
FAMILY_ROW(pmr_row, "pmr-pool", FAMILY_STRING(_GLIBCXX_RELEASE),
           "std::pmr::unsynchronized_pool_resource: not zeroed", FAMILY_RIVAL,
           fifo_work::cells<Pmr_pool>)
