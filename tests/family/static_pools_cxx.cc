// static_pools_cxx.cc: a C++ file of static_pools.c.
#include <loam/xallocator.h>

extern "C" void *static_pools_cxx();
void *static_pools_cxx() { return xmalloc(100); }
