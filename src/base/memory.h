/* memory.h: memcpy and memset, all that loam's freestanding part asks of a C library.
 *
 * A compiler for bare metal comes without <string.h>, but calls these two by itself and has every
 * program provide them: so they are declared here, and family includes no header of a C library.
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
