/* xallocator_c.c: part of xallocator_test: a C file, which has no static object of the header's. */
#include "family/xallocator_statics.h"

#include <loam/xallocator.h>

void *xallocator_left[3];

void *xallocator_c_alloc(unsigned size) { return xmalloc(size); }
void xallocator_c_free(void *p) { xfree(p); }
