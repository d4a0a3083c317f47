// pool_pmr.cpp: table 003's row of the C++ library's unsynchronized_pool_resource.

#include "pool.h"

#include <memory_resource>

namespace {

using Pools = std::pmr::unsynchronized_pool_resource;

void *pmr_create(size_t, uint64_t) { return new Pools; }
inline void *pmr_alloc(void *pool, size_t size) {
    return static_cast<Pools *>(pool)->allocate(size, 16);
}
inline void pmr_free(void *pool, void *object, size_t size) {
    static_cast<Pools *>(pool)->deallocate(object, size, 16);
}
void pmr_destroy(void *pool) { delete static_cast<Pools *>(pool); }

#define POOL pmr
#include "pool.h"
FAMILY_ROW(pmr, "pmr-pool", "libstdc++ " FAMILY_STRING(_GLIBCXX_RELEASE),
           "std::pmr::unsynchronized_pool_resource", FAMILY_RIVAL, pmr_cells)

} // namespace
