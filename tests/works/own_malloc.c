/* 
 * own_malloc.c - a program that defines malloc and free itself, and asks dlsym for the next ones,
 * has loam behind its own.
 *
 * Catches: a dlsym of loam's that answers with the program's malloc, which then calls itself for
 * ever.
 */
#include "works.h"

#include <stdatomic.h>

static atomic_size_t taken, given;

static void *next(const char *name) {
    void *volatile found = dlsym(RTLD_NEXT, name); /* not a jump: dlsym looks who calls */
    return found;
}

void *malloc(size_t bytes) {
    static void *(*real)(size_t);
    if (real == NULL) *(void **)&real = next("malloc");
    atomic_fetch_add(&taken, 1);
    return real(bytes);
}

void free(void *p) {
    static void (*real)(void *);
    if (real == NULL) *(void **)&real = next("free");
    atomic_fetch_add(&given, 1);
    real(p);
}

int main(void) {
    works_limit(30);
    Dl_info of_next, of_loam;
    CHECK(dladdr(next("malloc"), &of_next) && dladdr(next("loam_version"), &of_loam), "dladdr");
    CHECK(of_next.dli_fbase == of_loam.dli_fbase, "the next malloc is %s's", of_next.dli_fname);
    for (size_t bytes = 0; bytes < 4 * WORKS_MIB; bytes = bytes * 3 / 2 + 1) {
        char *block = malloc(bytes);
        CHECK(block != NULL, "malloc(%zu) returned NULL", bytes);
        works_fill(block, bytes, bytes);
        CHECK(works_filled(block, bytes, bytes), "%zu bytes changed", bytes);
        free(block);
    }
    free(strdup("a text"));
    CHECK(taken > 20 && given > 20, "%zu and %zu calls", (size_t)taken, (size_t)given);
    return 0;
}
