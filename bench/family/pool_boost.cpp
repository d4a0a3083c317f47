// pool_boost.cpp: table 003's rows of Boost.Pool: boost::pool, whose free puts the object first,
// and boost::object_pool, whose free walks its list to keep it in the order of addresses: O(n),
// unless objects of one block go back from the last to the first.

#include "pool.h"

#include <boost/pool/object_pool.hpp>
#include <boost/pool/pool.hpp>
#include <boost/version.hpp>

#include <type_traits>

namespace {

void *boost_pool_create(size_t size, uint64_t) { return new boost::pool<>(size); }
inline void *boost_pool_alloc(void *pool, size_t) {
    return static_cast<boost::pool<> *>(pool)->malloc();
}
inline void boost_pool_free(void *pool, void *object, size_t) {
    static_cast<boost::pool<> *>(pool)->free(object);
}
void boost_pool_destroy(void *pool) { delete static_cast<boost::pool<> *>(pool); }

#define POOL boost_pool
#include "pool.h"
FAMILY_ROW(boost_pool, "boost-pool", BOOST_LIB_VERSION, "boost::pool", FAMILY_RIVAL,
           boost_pool_cells)

// object_pool takes its size from a type: the constant in each call says which.
template <size_t size> struct Object {
    char bytes[size];
};
template <size_t size> using Objects = boost::object_pool<Object<size>>;

// f(a pointer to the pool of that size)
template <typename F> inline auto of_size(void *pool, size_t size, F f) {
    switch (size) {
    case 16: return f(static_cast<Objects<16> *>(pool));
    case 64: return f(static_cast<Objects<64> *>(pool));
    case 256: return f(static_cast<Objects<256> *>(pool));
    case 1024: return f(static_cast<Objects<1024> *>(pool));
    default: return f(static_cast<Objects<4096> *>(pool));
    }
}
template <typename Pool> using Element = typename std::remove_pointer_t<Pool>::element_type;

struct Sized {
    void *pool;
    size_t size;
};

void *boost_object_create(size_t size, uint64_t) {
    return new Sized{of_size(nullptr, size,
                             [](auto none) {
                                 return static_cast<void *>(
                                     new std::remove_pointer_t<decltype(none)>);
                             }),
                     size};
}
inline void *boost_object_alloc(void *pool, size_t size) {
    return of_size(static_cast<Sized *>(pool)->pool, size,
                   [](auto objects) { return static_cast<void *>(objects->malloc()); });
}
inline void boost_object_free(void *pool, void *object, size_t size) {
    of_size(static_cast<Sized *>(pool)->pool, size, [object](auto objects) {
        objects->free(static_cast<Element<decltype(objects)> *>(object));
    });
}
void boost_object_destroy(void *pool) {
    Sized *sized = static_cast<Sized *>(pool);
    of_size(sized->pool, sized->size, [](auto objects) { delete objects; });
    delete sized;
}

#define POOL boost_object
#include "pool.h"
FAMILY_ROW(boost_object, "boost-object-pool", BOOST_LIB_VERSION, "boost::object_pool", FAMILY_RIVAL,
           boost_object_cells)

} // namespace
