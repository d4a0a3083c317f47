/* user.c: a library that allocates by loam's own name; linked into programs as an archive. */
#include <loam/loam.h>

void *user_takes(size_t size);
void *user_takes(size_t size) { return loam_malloc(size); }
