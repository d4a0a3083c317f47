/* 
 * crashing_malloc: an allocator that passes 20,000 blocks through from glibc and then aborts.
 *
 * Preloaded in loam's place by run_test.py, which checks that the demo reports the crash and goes
 * on. It counts without atomics: one more or less does not matter, and it is used on programs of
 * one thread.
 */
#include <stddef.h>
#include <stdlib.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *block, size_t size);
extern void __libc_free(void *block);

static int blocks;

static void count(void) {
    if (++blocks > 20000) abort();
}

void *malloc(size_t size) {
    count();
    return __libc_malloc(size);
}

void *calloc(size_t members, size_t size) {
    count();
    return __libc_calloc(members, size);
}

void *realloc(void *block, size_t size) {
    count();
    return __libc_realloc(block, size);
}

void free(void *block) { __libc_free(block); }
