// region_boost.cpp: table 000's rows of Boost.Pool: boost::pool and boost::object_pool.
//
// Both are for one size and double what they ask of the system. object_pool keeps its free list
// ordered, so a free may walk all of it; the columns here free what came last, which hides that.
// Table 003 frees in other orders.

#include "region.h"

#include <boost/pool/object_pool.hpp>
#include <boost/pool/pool.hpp>
#include <boost/version.hpp>

namespace {

void *boost_pool_create(size_t size, uint64_t) { return new boost::pool<>(size); }
inline void *boost_pool_alloc(void *pool, size_t) {
    return static_cast<boost::pool<> *>(pool)->malloc();
}
inline void boost_pool_free(void *pool, void *object, size_t) {
    static_cast<boost::pool<> *>(pool)->free(object);
}
void boost_pool_destroy(void *pool) { delete static_cast<boost::pool<> *>(pool); }

#define REGION boost_pool
#define REGION_SIZES REGION_ONE
#define REGION_FREES REGION_ALL
#include "region.h"
FAMILY_ROW(boost_pool, "boost-pool", BOOST_LIB_VERSION, "boost::pool", FAMILY_RIVAL,
           boost_pool_cells)

// Its size is a type; the constant in each call picks it.
template <size_t size> struct Object {
    char bytes[size];
};
using Smalls = boost::object_pool<Object<REGION_SMALL>>;
using Bigs = boost::object_pool<Object<REGION_BIG>>;

struct ObjectPool {
    Smalls *smalls;
    Bigs *bigs;
};

void *boost_object_create(size_t size, uint64_t) {
    bool small = size == REGION_SMALL;
    return new ObjectPool{small ? new Smalls : nullptr, small ? nullptr : new Bigs};
}
inline void *boost_object_alloc(void *pool, size_t size) {
    ObjectPool *both = static_cast<ObjectPool *>(pool);
    if (size == REGION_SMALL) {
        return both->smalls->malloc();
    }
    return both->bigs->malloc();
}
inline void boost_object_free(void *pool, void *object, size_t size) {
    ObjectPool *both = static_cast<ObjectPool *>(pool);
    if (size == REGION_SMALL) {
        both->smalls->free(static_cast<Object<REGION_SMALL> *>(object));
    } else {
        both->bigs->free(static_cast<Object<REGION_BIG> *>(object));
    }
}
// Its destructor goes through every object to destroy those that are not free.
void boost_object_destroy(void *pool) {
    ObjectPool *both = static_cast<ObjectPool *>(pool);
    delete both->smalls;
    delete both->bigs;
    delete both;
}

#define REGION boost_object
#define REGION_SIZES REGION_ONE
#define REGION_FREES REGION_ALL
#include "region.h"
FAMILY_ROW(boost_object, "boost-object-pool", BOOST_LIB_VERSION, "boost::object_pool", FAMILY_RIVAL,
           boost_object_cells)

} // namespace
