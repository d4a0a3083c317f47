/*
 * unload_inside.c - a plugin with libloam.a inside, which unload.c loads and closes: everything
 * that makes a key of a thread, and what makes the worker start.
 */
#include <loam/loam.h>

#include <string.h>

enum { OBJECTS = 100, LARGE = 3 << 20 };

int work(int keep);

__attribute__((visibility("default"))) int work(int keep) {
    int made = 0;
    loam_region *region = loam_region_create(NULL, NULL);
    loam_shared_pool pool;
    loam_scratch scratch = loam_scratch_begin(NULL);
    LOAM_SCOPE;
    (void)keep;
    if (region == NULL || scratch.region == NULL ||
        loam_shared_pool_init(&pool, NULL, 64, NULL) != 0)
        return 0;
    for (int i = 0; i < OBJECTS; i++) {
        void *p = loam_malloc((size_t)i * 16 + 1), *block = loam_shared_pool_alloc(&pool);
        char *text = loam_region_strdup(region, "region"), *more = loam_scope_strdup("scope");
        if (p != NULL && block != NULL && text != NULL && more != NULL &&
            loam_region_alloc(scratch.region, 100) != NULL)
            made++;
        loam_shared_pool_free(&pool, block);
        loam_free(p);
    }
    void *large = loam_malloc(LARGE);
    if (large == NULL) return 0;
    memset(large, 1, LARGE);
    loam_free(large);
    loam_scratch_end(&scratch);
    loam_shared_pool_deinit(&pool);
    loam_region_destroy(region);
    return made;
}
