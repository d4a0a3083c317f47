/* impossible.c: requests that nobody can fulfil: a block that is smaller than was asked for is an
 * overflow.
 *
 * Prevented: NULL, or the process dies.
 */
#include "misuse.h"

CASE(calloc_product, "calloc of numbers whose product wraps to 16") {
    expect(NULL);
    size_t count = (SIZE_MAX / 16) + 2;
    judged(hide(calloc((size_t)(uintptr_t)hide((void *)count), 16)) != NULL);
}

CASE(negative_malloc, "malloc of -8") {
    expect(NULL);
    judged(hide(malloc((size_t)(uintptr_t)hide((void *)(uintptr_t)-8))) != NULL);
}

CASE(negative_realloc, "realloc of a block to -8; the block stays") {
    char *p = block(100);
    expect(p);
    char *q = hide(realloc(p, (size_t)(uintptr_t)hide((void *)(uintptr_t)-8)));
    judged(q != NULL || hide(p)[99] != 0x11);
}

CASE(negative_aligned, "aligned_alloc of -8, aligned to 4096: rounding up wraps") {
    expect(NULL);
    judged(hide(aligned_alloc(4096, (size_t)(uintptr_t)hide((void *)(uintptr_t)-8))) != NULL);
}

CASE(odd_alignment, "posix_memalign aligned to 24, which is no power of two") {
    void *p = NULL;
    expect(NULL);
    judged(posix_memalign(&p, 24, 100) == 0);
}
