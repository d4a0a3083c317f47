// pool_foonathan.cpp: table 003's row of foonathan/memory's memory_pool, which is told how many
// objects its first block shall have room for.

#include "pool.h"

#include <foonathan/memory/memory_pool.hpp>

#define VERSION \
    FAMILY_STRING(FOONATHAN_MEMORY_VERSION_MAJOR) \
    "." FAMILY_STRING(FOONATHAN_MEMORY_VERSION_MINOR) "." FAMILY_STRING( \
        FOONATHAN_MEMORY_VERSION_PATCH)

namespace {

using Pool = foonathan::memory::memory_pool<>;

void *foonathan_create(size_t size, uint64_t count) {
    return new Pool(size, Pool::min_block_size(size, count));
}
inline void *foonathan_alloc(void *pool, size_t) {
    return static_cast<Pool *>(pool)->allocate_node();
}
inline void foonathan_free(void *pool, void *object, size_t) {
    static_cast<Pool *>(pool)->deallocate_node(object);
}
void foonathan_destroy(void *pool) { delete static_cast<Pool *>(pool); }

#define POOL foonathan
#include "pool.h"
FAMILY_ROW(foonathan, "foonathan-pool", VERSION, "foonathan memory_pool", FAMILY_RIVAL,
           foonathan_cells)

} // namespace
