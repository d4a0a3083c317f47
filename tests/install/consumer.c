/* consumer.c: a program in C that uses an installed loam.
 *
 * TAKES_OVER=1 where malloc itself has to be loam's. The proof: loam_free takes what malloc gave,
 * and free what loam_malloc gave; a foreign pointer would be reported and abort. It checks that
 * linking works, not that the allocator does.
 */
#include <loam/loam.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A pool, a region and blocks, of one thread and of many, one of them checked; what is not given
 * back shows. */
static int family(void) {
    loam_count count;
    loam_count_init(&count, loam_pages());
    loam_pool pool;
    loam_pool_options checked = {0};
    checked.flags = LOAM_CHECK;
    checked.name = "box";
    loam_shared_pool shared;
    loam_blocks blocks;
    loam_blocks_options options = {0};
    options.source = &count.source;
    options.flags = LOAM_THREADS;
    if (loam_pool_init(&pool, &count.source, 48, &checked) != 0) return 1;
    if (loam_shared_pool_init(&shared, &count.source, 48, NULL) != 0) return 1;
    if (loam_blocks_init(&blocks, &options) != 0) return 1;
    loam_region *region = loam_region_create(&count.source, NULL);
    if (region == NULL) return 1;
    for (int i = 0; i < 1000; i++) {
        void *a = loam_pool_alloc(&pool), *b = loam_shared_pool_alloc(&shared);
        void *c = loam_blocks_alloc(&blocks, (size_t)i);
        char *d = loam_region_sprintf(region, "number %d", i);
        if (a == NULL || b == NULL || c == NULL || d == NULL || d[0] != 'n') return 1;
        memset(a, 1, 48);
        memset(b, 2, 48);
        memset(c, 3, (size_t)i);
        loam_blocks_free(&blocks, c);
        loam_shared_pool_free(&shared, b);
        loam_pool_free(&pool, a);
    }
    if (loam_registry_check() != 0) return 1;
    loam_region_reset(region); /* a debug build counts its objects as leaks */
    if (loam_registry_leaks() != 0) return 1;
    loam_region_destroy(region);
    loam_blocks_deinit(&blocks);
    loam_shared_pool_deinit(&shared);
    loam_pool_deinit(&pool);
    return count.gets == 0 || count.used_bytes != 0;
}

int main(void) {
    char *own = loam_malloc(100);
    if (own == NULL) return 1;
    memset(own, 1, 100);
    loam_free(own);
    if (family() != 0) return 1;
#if TAKES_OVER
    /* Volatile: no compiler may see through which function is called. */
    void *(*volatile take)(size_t) = malloc;
    void (*volatile give)(void *) = free;
    char *text = take(100);
    if (text == NULL) return 1;
    memset(text, 2, 100);
    loam_free(text);
    give(loam_malloc(3000));
    give(strdup("from inside the C library"));
#endif
    printf("consumer: loam %d, malloc %s\n", loam_version(),
           TAKES_OVER ? "taken over" : "untouched");
    return 0;
}
