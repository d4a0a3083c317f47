/*
 * plugin.c - the library that dlopen_many.c and namespaces.c load: it allocates when loaded, when
 * called, in thread-local state and when unloaded, and hands blocks to its caller that outlive it.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void *plugin_work(size_t blocks, size_t bytes);
void plugin_free(void *block);

static __thread char
    *per_thread[8]; /* dynamic TLS: the loader may allocate it at first use, through malloc */
static char *at_load[16];

__attribute__((constructor)) static void loaded(void) {
    for (size_t i = 0; i < 16; i++) {
        at_load[i] = malloc(i * 700 + 1);
        if (at_load[i]) memset(at_load[i], (int)i, i * 700 + 1);
    }
}

__attribute__((destructor)) static void unloaded(void) {
    for (size_t i = 0; i < 16; i++) {
        if (!at_load[i] || at_load[i][i * 700] != (char)i) abort();
        free(at_load[i]);
    }
}

/* Allocates and frees, and returns one block of `bytes` bytes of 'p' that the caller frees; NULL if
   a malloc failed. */
void *plugin_work(size_t blocks, size_t bytes) {
    for (size_t i = 0; i < blocks; i++) {
        char *block = malloc(i % 97 * 16 + 1);
        if (!block) return NULL;
        memset(block, 1, i % 97 * 16 + 1);
        free(per_thread[i % 8]);
        per_thread[i % 8] = block;
    }
    for (size_t i = 0; i < 8; i++) {
        free(per_thread[i]);
        per_thread[i] = NULL;
    }
    char *result = malloc(bytes);
    if (result) memset(result, 'p', bytes);
    return result;
}

/* Frees by the malloc that the plugin uses, which in a namespace of its own is not the caller's. */
void plugin_free(void *block) { free(block); }
