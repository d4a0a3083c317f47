/* watched.c: one mistake a run, for tools to find: watched CASE; the library is a build for tools (tools_test.py).
 *
 * The mistakes are with loam's own names, which no tool replaces.
 */
#include <loam/loam.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static volatile char sink;

static char *hidden(void *p) {
    __asm__ volatile("" : "+r"(p) : : "memory");
    return (char *)p;
}

/* Of everything a little, without a mistake. */
static int clean(void) {
    static char *list[300];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 300; i++) {
            size_t bytes = (size_t)i * i % 5000 + (i % 50 == 7 ? 100000 : 1);
            list[i] = i % 3 == 0 ? loam_calloc(1, bytes) : loam_malloc(bytes);
            if (list[i] == NULL) return 1;
            if (i % 3 == 0 && (list[i][0] != 0 || list[i][bytes - 1] != 0)) return 2;
            memset(list[i], i, bytes);
            list[i] = loam_realloc(list[i], bytes + 1 + (size_t)(i % 4) * 400);
            if (list[i] == NULL || list[i][bytes - 1] != (char)i) return 3;
            list[i][bytes] = 1;
        }
        for (int i = 0; i < 300; i++) loam_free(list[i]);
    }
    char *at = loam_malloc_aligned(1000, 256), *off = loam_malloc_aligned_offset(500, 64, 8);
    memset(at, 1, 1000);
    memset(off, 1, 500);
    loam_free(at);
    loam_free(off);
    off = loam_calloc_aligned_offset(1, 500, 64, 8);
    if (off == NULL || off[499] != 0) return 4;
    loam_free(off);
    loam_heap *heap = loam_heap_create();
    for (int i = 0; i < 100; i++) memset(loam_heap_malloc(heap, 700), i, 700);
    loam_free(loam_heap_malloc(heap, 700));
    memset(loam_heap_malloc(heap, 100000), 1, 100000);
    loam_heap_destroy(heap);
    /* What the family takes is no object, wherever it lies; what lies there later is one. */
    loam_source *pages = loam_pages();
    size_t got[3];
    char *chunk[] = {pages->get(pages, 8000000, 16, &got[0]),
                     pages->get(pages, 100000, 8192, &got[1]),
                     pages->get(pages, 10000, 8192, &got[2])};
    for (int i = 0; i < 3; i++) {
        memset(chunk[i], 1, got[i]);
        pages->put(pages, chunk[i], got[i]);
    }
    (void)loam_collect();
    char *last = loam_malloc(3000000);
    (void)loam_expand(last, 2999000);
    loam_free(last);
    return 0;
}

static int run(const char *name) {
    char *p = loam_malloc(100), *other = loam_malloc(100);
    memset(p, 1, 100);
    if (strcmp(name, "past_end") == 0) sink = hidden(p)[100];
    if (strcmp(name, "before_start") == 0) hidden(other)[-1] = 1;
    if (strcmp(name, "past_large") == 0) sink = hidden(loam_malloc(200000))[200000];
    if (strcmp(name, "after_shrink") == 0) sink = hidden(loam_realloc(p, 80))[90];
    if (strcmp(name, "after_free") == 0) {
        loam_free(p);
        sink = hidden(p)[20];
        return 0;
    }
    if (strcmp(name, "large_after_free") == 0) {
        char *large = loam_malloc(200000);
        loam_free(large);
        sink = hidden(large)[5000];
    }
    if (strcmp(name, "uninitialised") == 0 && hidden(other)[3] == 5) puts("five");
    if (strcmp(name, "leak") == 0) p = other = NULL;
    loam_free(p);
    loam_free(other);
    return 0;
}

int main(int argc, char **argv) {
    if (argc != 2) return 9;
    return strcmp(argv[1], "clean") == 0 ? clean() : run(argv[1]);
}
