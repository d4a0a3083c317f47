// region_pmr.cpp: table 000's rows of the C++ library's own memory resources, called directly (no
// virtual call through a container's allocator but that of do_allocate).

#include "region.h"

#include <memory_resource>

namespace {

using Monotonic = std::pmr::monotonic_buffer_resource;
using Pools = std::pmr::unsynchronized_pool_resource;

#define VERSION "libstdc++ " FAMILY_STRING(_GLIBCXX_RELEASE)

void *pmr_monotonic_create(size_t, uint64_t) { return new Monotonic; }
inline void *pmr_monotonic_alloc(void *pool, size_t size) {
    return static_cast<Monotonic *>(pool)->allocate(size, 8);
}
void pmr_monotonic_destroy(void *pool) { delete static_cast<Monotonic *>(pool); }

#define REGION pmr_monotonic
#define REGION_SIZES REGION_ANY
#define REGION_FREES REGION_NONE
#include "region.h"
FAMILY_ROW(pmr_monotonic, "pmr-monotonic", VERSION, "std::pmr::monotonic_buffer_resource",
           FAMILY_RIVAL, pmr_monotonic_cells)

void *pmr_pool_create(size_t, uint64_t) { return new Pools; }
inline void *pmr_pool_alloc(void *pool, size_t size) {
    return static_cast<Pools *>(pool)->allocate(size, 8);
}
inline void pmr_pool_free(void *pool, void *object, size_t size) {
    static_cast<Pools *>(pool)->deallocate(object, size, 8);
}
void pmr_pool_destroy(void *pool) { delete static_cast<Pools *>(pool); }

#define REGION pmr_pool
#define REGION_SIZES REGION_ANY
#define REGION_FREES REGION_ALL
#include "region.h"
FAMILY_ROW(pmr_pool, "pmr-pool", VERSION, "std::pmr::unsynchronized_pool_resource", FAMILY_RIVAL,
           pmr_pool_cells)

} // namespace
