/* static_pools_c.c: the second C file of static_pools.c. */
#include <loam/xallocator.h>

void *static_pools_c(void);
void *static_pools_c(void) { return xmalloc(100); }
