// class_pool_shapes.h: pooled classes that class_pool_test.cc and its plugin have in common, and
// what the plugin does.
#ifndef LOAM_TESTS_FAMILY_CLASS_POOL_SHAPES_H
#define LOAM_TESTS_FAMILY_CLASS_POOL_SHAPES_H

#include <loam/pool.hpp>

namespace shapes {

/* Plain structs without a table of functions: who deletes one calls its own delete. */
struct Free {
    LOAM_POOLED(Free)
    double v[6];
};
struct Limited {
    LOAM_POOLED_BLOCKS(Limited, 48, 0, 8)
    double v[6];
};
template <typename T> struct Node {
    LOAM_POOLED(Node)
    T value;
    Node *next;
};
struct Based : loam::pooled<Based> {
    long v[5];
};

/* What a plugin offers, under the name class_pool_plugin. */
struct Plugin {
    Free *(*free)();
    Limited *(*limited)();
    Node<int> *(*node)();
    Based *(*based)();
    void (*give_free)(Free *);
    void (*give_limited)(Limited *);
    loam_shared_pool *(*pool)();
};

} // namespace shapes

#endif
