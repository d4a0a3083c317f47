/* memory.h: memcpy and memset, the only functions that loam's freestanding part needs from a C
 * library.
 *
 * A compiler for bare metal comes without <string.h>, but emits calls of these two functions and
 * requires every program to provide them. They are declared here, so that family/ includes no
 * header of a C library.
 */
#ifndef LM_BASE_MEMORY_H
#define LM_BASE_MEMORY_H

#include "base/compiler.h"

#if LM_HOSTED
#include <string.h>
#else
void *memcpy(void *__restrict to, const void *__restrict from, size_t bytes);
void *memset(void *to, int byte, size_t bytes);
#endif

#endif
