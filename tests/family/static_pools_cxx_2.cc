// static_pools_cxx_2.cc: a C++ file of static_pools.c.
#include <loam/xallocator.h>

extern "C" void *static_pools_cxx_2();
void *static_pools_cxx_2() { return xmalloc(100); }
