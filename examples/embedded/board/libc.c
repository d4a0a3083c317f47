/* libc.c: memcpy and memset, which compilers call by themselves and loam calls as well.
 *
 * Bytewise: short rather than fast. A device whose toolchain brings a C library uses that one's.
 * Compiled with -fno-tree-loop-distribute-patterns, or the loops would become calls of what they
 * are.
 */
#include <stddef.h>

void *memcpy(void *restrict to, const void *restrict from, size_t bytes);
void *memset(void *to, int byte, size_t bytes);

void *memcpy(void *restrict to, const void *restrict from, size_t bytes) {
    char *t = to;
    const char *f = from;
    while (bytes-- > 0) *t++ = *f++;
    return to;
}

void *memset(void *to, int byte, size_t bytes) {
    char *t = to;
    while (bytes-- > 0) *t++ = (char)byte;
    return to;
}
