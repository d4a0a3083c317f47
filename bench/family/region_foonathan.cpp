// region_foonathan.cpp: table 000's rows of foonathan/memory: memory_pool and memory_stack.
//
// Both take blocks that double, the first of 4 KiB here. A stack frees only by unwinding to a
// marker, which is no free of an object: it has no column with frees.

#include "region.h"

#include <foonathan/memory/memory_pool.hpp>
#include <foonathan/memory/memory_stack.hpp>

#define VERSION \
    FAMILY_STRING(FOONATHAN_MEMORY_VERSION_MAJOR) \
    "." FAMILY_STRING(FOONATHAN_MEMORY_VERSION_MINOR) "." FAMILY_STRING( \
        FOONATHAN_MEMORY_VERSION_PATCH)

namespace {

using Pool = foonathan::memory::memory_pool<>;
using Stack = foonathan::memory::memory_stack<>;

void *foonathan_pool_create(size_t size, uint64_t) { return new Pool(size, REGION_PAGE); }
inline void *foonathan_pool_alloc(void *pool, size_t) {
    return static_cast<Pool *>(pool)->allocate_node();
}
inline void foonathan_pool_free(void *pool, void *object, size_t) {
    static_cast<Pool *>(pool)->deallocate_node(object);
}
void foonathan_pool_destroy(void *pool) { delete static_cast<Pool *>(pool); }

#define REGION foonathan_pool
#define REGION_SIZES REGION_ONE
#define REGION_FREES REGION_ALL
#include "region.h"
FAMILY_ROW(foonathan_pool, "foonathan-pool", VERSION, "foonathan memory_pool", FAMILY_RIVAL,
           foonathan_pool_cells)

// Nothing larger than the next block can be had, so the first one has to take a huge object.
void *foonathan_stack_create(size_t size, uint64_t) {
    return new Stack(size ? REGION_PAGE : 4 * REGION_PAGE);
}
inline void *foonathan_stack_alloc(void *pool, size_t size) {
    return static_cast<Stack *>(pool)->allocate(size, 8);
}
void foonathan_stack_destroy(void *pool) { delete static_cast<Stack *>(pool); }

#define REGION foonathan_stack
#define REGION_SIZES REGION_ANY
#define REGION_FREES REGION_NONE
#include "region.h"
FAMILY_ROW(foonathan_stack, "foonathan-stack", VERSION, "foonathan memory_stack", FAMILY_RIVAL,
           foonathan_stack_cells)

} // namespace
