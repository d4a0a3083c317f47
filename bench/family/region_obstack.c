// region_obstack.c: table 000's row of obstack, glibc's own region. Freeing an object frees all
// that came after it too, so only what came last can be freed alone: as the columns do.

#include "region.h"

#include <obstack.h>
#include <stdlib.h>

#define obstack_chunk_alloc malloc
#define obstack_chunk_free free

static void *obstacks_create(size_t size, uint64_t count) {
    (void)size, (void)count;
    struct obstack *stack = (struct obstack *)family_need(malloc(sizeof *stack));
    obstack_init(stack);
    return stack;
}
static inline void *obstacks_alloc(void *pool, size_t size) {
    return obstack_alloc((struct obstack *)pool, size);
}
static inline void obstacks_free(void *pool, void *object, size_t size) {
    (void)size;
    obstack_free((struct obstack *)pool, object);
}
static void obstacks_destroy(void *pool) {
    obstack_free((struct obstack *)pool, NULL);
    free(pool);
}

#define REGION obstacks
#define REGION_SIZES REGION_ANY
#define REGION_FREES REGION_ALL
#include "region.h"
FAMILY_ROW(obstacks, "obstack",
           "glibc " FAMILY_STRING(__GLIBC__) "." FAMILY_STRING(__GLIBC_MINOR__), "obstack",
           FAMILY_RIVAL, obstacks_cells)
