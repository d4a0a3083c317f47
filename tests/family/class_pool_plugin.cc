// class_pool_plugin.cc: a shared library that hides its symbols, with the pooled classes of
// class_pool_shapes.h in it.
#include "family/class_pool_shapes.h"

using namespace shapes;

extern "C" __attribute__((visibility("default"))) const Plugin class_pool_plugin;
const Plugin class_pool_plugin = {
    [] { return new Free; },
    [] { return new Limited; },
    [] { return new Node<int>; },
    [] { return new Based; },
    [](Free *p) { delete p; },
    [](Limited *p) { delete p; },
    [] { return loam::class_pool<Free>::get(); },
};
