// region_limit.c: table 000's row of no allocator: an addition in memory that was mapped before,
// with nothing asked and nothing checked. What is left is the system that clears pages and the loop
// that writes: the bulk columns cannot be done faster by anybody who takes fresh memory.

#include "region.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { LIMIT_HUGE_PAGE = 2 << 20 };

typedef struct {
    char *at, *memory;
    size_t bytes;
} Limit;

static void *limit_create(size_t size, uint64_t count) {
    Limit *limit = (Limit *)family_need(malloc(sizeof *limit));
    // Mixed ones: 3/4 of 24 bytes, 1/4 of 240, 1 in 4096 of 8305.
    limit->bytes = (size_t)(count * (size ? size : 82)) + 2 * LIMIT_HUGE_PAGE;
    limit->memory = (char *)mmap(NULL, limit->bytes, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (limit->memory == MAP_FAILED) {
        family_fail("no memory");
    }
    // Refused where huge pages are forbidden: then it has small ones, as everybody.
    (void)madvise(limit->memory, limit->bytes, MADV_HUGEPAGE);
    uintptr_t first = (uintptr_t)limit->memory + LIMIT_HUGE_PAGE - 1;
    limit->at = (char *)(first / LIMIT_HUGE_PAGE * LIMIT_HUGE_PAGE);
    return limit;
}
static inline void *limit_alloc(void *pool, size_t size) {
    Limit *limit = (Limit *)pool;
    char *object = limit->at;
    limit->at = object + (size + 7) / 8 * 8;
    return object;
}
static inline void limit_free(void *pool, void *object, size_t size) {
    (void)size;
    ((Limit *)pool)->at = (char *)object;
}
static void limit_destroy(void *pool) {
    Limit *limit = (Limit *)pool;
    munmap(limit->memory, limit->bytes);
    free(limit);
}

#define REGION limit
#define REGION_SIZES REGION_ANY
#define REGION_FREES REGION_ALL
#define REGION_BULK_ONLY
#define REGION_ONCE true
#include "region.h"
FAMILY_ROW(limit, "limit", "-", "no allocator: fresh memory, an addition", FAMILY_LIMIT,
           limit_cells)
