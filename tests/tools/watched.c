/* watched.c: one mistake a run, for tools to find: watched CASE; the library is a build for tools
 * (tools_test.py).
 *
 * The mistakes are with loam's own names, which no tool replaces.
 */
#include <loam/loam.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#if WATCHED_ASAN
#include <sanitizer/asan_interface.h>
#elif WATCHED_MEMCHECK
#include <valgrind/memcheck.h>
#endif

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

/* ---- The end of many objects at once ---- */

/* Whether the tool reports an access to each of these bytes, or to none of them; -1: to some. */
static int is_hidden(const void *p, size_t bytes) {
    size_t seen = 0, step = bytes / 100 + 1, asked = 0;
    for (size_t i = 0; i < bytes; i += step, asked++) {
#if WATCHED_ASAN
        seen += __asan_address_is_poisoned((const char *)p + i) == 0;
#elif WATCHED_MEMCHECK
        char bits;
        seen += VALGRIND_GET_VBITS((const char *)p + i, &bits, 1) != 3;
#else
        (void)p, abort(); /* no tool is asked */
#endif
    }
    return seen == 0 ? 1 : seen == asked ? 0 : -1;
}

enum { OBJECTS = 100 };
typedef struct crowd {
    loam_heap *heap;
    struct object {
        char *p;
        size_t bytes;
    } objects[OBJECTS];
    unsigned seed;
} crowd_t;

static unsigned draw(crowd_t *crowd, unsigned below) {
    crowd->seed = crowd->seed * 1664525u + 1013904223u;
    return (crowd->seed >> 8) % below;
}

/* Objects of every size and form, some freed. */
static void *fill_crowd(void *argument) {
    crowd_t *crowd = argument;
    for (int i = 0; i < OBJECTS; i++) {
        size_t bytes = draw(crowd, 20) == 0  ? 60000 + draw(crowd, 1000000)
                       : draw(crowd, 4) == 0 ? 1 + draw(crowd, 60000)
                                             : 1 + draw(crowd, 600);
        char *p;
        switch (draw(crowd, 5)) {
        case 0: p = loam_heap_calloc(crowd->heap, 1, bytes); break;
        case 1:
            p = loam_heap_malloc_aligned(crowd->heap, bytes, (size_t)16 << draw(crowd, 14));
            break;
        case 2: p = loam_heap_realloc(crowd->heap, loam_heap_malloc(crowd->heap, 40), bytes); break;
        default: p = loam_heap_malloc(crowd->heap, bytes);
        }
        if (p == NULL) abort();
        memset(p, i, bytes);
        crowd->objects[i] = (struct object){p, bytes};
        if (draw(crowd, 8) == 0) {
            loam_free(p);
            crowd->objects[i--].p = NULL;
        }
    }
    return NULL;
}

/* Returns how many objects are not hidden as a whole, or not as they should be. */
static int count_wrong(const crowd_t *crowd, int hidden) {
    int wrong = 0;
    for (int i = 0; i < OBJECTS; i++)
        wrong += is_hidden(crowd->objects[i].p, crowd->objects[i].bytes) != hidden;
    return wrong;
}

/* Memory that comes again is the program's, all of it. */
static int use_again(void) {
    for (int i = 0; i < 300; i++) {
        size_t bytes = (size_t)i * 997 % 90000 + 1;
        char *p = loam_malloc(bytes);
        if (p == NULL || is_hidden(p, bytes) != 0) return 1;
        memset(p, 1, bytes);
        if (i % 2 == 0) loam_free(p);
    }
    return 0;
}

static loam_heap *begin_heap(loam_arena *arena) {
    return arena != NULL ? loam_heap_create_in(arena, false) : loam_heap_create();
}

/* The heap, with objects of this thread and of others, ends. */
static int destroy_crowds(unsigned seed, loam_arena *arena) {
    static crowd_t crowds[3];
    pthread_t threads[2];
    loam_heap *heap = begin_heap(arena);
    for (unsigned i = 0; i < 3; i++) crowds[i] = (crowd_t){.heap = heap, .seed = seed + i};
    (void)fill_crowd(&crowds[0]);
    for (unsigned i = 0; i < 2; i++) pthread_create(&threads[i], NULL, fill_crowd, &crowds[1 + i]);
    for (unsigned i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < 3; i++)
        if (count_wrong(&crowds[i], 0) > 0) return 10;
    loam_heap_destroy(heap);
    int wrong = 0;
    for (int i = 0; i < 3; i++) wrong += count_wrong(&crowds[i], 1);
    if (wrong > 0) return fprintf(stderr, "%d of %d are not hidden\n", wrong, 3 * OBJECTS), 11;
    return use_again();
}

/* Of heaps in loam's own memory, in an arena of the system's memory and in one of the program's. */
static int many_end(void) {
    enum { ROOM = 64 << 20 };
    int result = 0;
    for (unsigned round = 0; round < 2 && result == 0; round++)
        result = destroy_crowds(round, NULL);
    loam_arena *arena;
    if (result != 0 || loam_reserve_memory(ROOM, LOAM_ARENA_EXCLUSIVE, LOAM_NODE_ANY, &arena) != 0)
        return result != 0 ? result : 12;
    if ((result = destroy_crowds(7, arena)) != 0) return result;
    if (loam_arena_destroy(arena) != 0) return 13;
    char *memory = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED ||
        loam_manage_memory(memory, ROOM, LOAM_ARENA_EXCLUSIVE, LOAM_NODE_ANY, &arena) != 0)
        return 14;
    /* More in all than there is: what is hidden goes where the arena is full. */
    for (unsigned round = 0; round < 4; round++)
        if ((result = destroy_crowds(20 + round, arena)) != 0) return result;
    if (loam_arena_destroy(arena) != 0) return 15;
    for (size_t i = 0; i < ROOM; i += 16) memory[i] = 1;
    munmap(memory, ROOM);
    (void)loam_collect();
    return use_again();
}

/* A loam_heap ends, with an object of so many bytes, aligned to `align`. */
static char *destroyed(size_t bytes, size_t align) {
    loam_heap *heap = loam_heap_create();
    char *p = loam_heap_malloc_aligned(heap, bytes, align);
    memset(p, 1, bytes);
    loam_heap_destroy(heap);
    return hidden(p);
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
    if (strcmp(name, "huge_after_free") == 0) {
        char *large = loam_malloc(20000000);
        loam_free(large);
        sink = hidden(large)[5000];
    }
    if (strcmp(name, "after_destroy") == 0) sink = destroyed(100, 16)[20];
    if (strcmp(name, "aligned_after_destroy") == 0) destroyed(1000, 4096)[999] = 1;
    if (strcmp(name, "large_after_destroy") == 0) sink = destroyed(200000, 16)[5000];
    if (strcmp(name, "huge_after_destroy") == 0) sink = destroyed(20000000, 16)[5000];
    if (strcmp(name, "uninitialised") == 0 && hidden(other)[3] == 5) puts("five");
    if (strcmp(name, "leak") == 0) p = other = NULL;
    loam_free(p);
    loam_free(other);
    return 0;
}

/* Says what the probes must have had as arguments. */
static int probed(void) {
    void *large = loam_malloc(200000);
    loam_heap *heap = loam_heap_create(), *other = loam_heap_create();
    printf("given large_alloc %lu %lu\n", (unsigned long)large,
           (unsigned long)loam_good_size(200000) + 16);
    printf("given heap_create %lu %lu\n", (unsigned long)heap, (unsigned long)heap);
    char *block = loam_heap_malloc(heap, 20000);
    /* Its class, with the trailer, and the page's start: the first block's. */
    printf("given page_create %lu %lu\n", (unsigned long)block / 65536 * 65536,
           (unsigned long)loam_usable_size(block) > 0 ? (unsigned long)loam_good_size(20000) + 16
                                                      : 0);
    loam_free(large);
    printf("given large_free %lu %lu\n", (unsigned long)large,
           (unsigned long)loam_good_size(200000) + 16);
    loam_heap_destroy(heap);
    printf("given heap_destroy %lu %lu\n", (unsigned long)heap, (unsigned long)heap);
    printf("given page_retire %lu %lu\n", (unsigned long)block / 65536 * 65536,
           (unsigned long)loam_good_size(20000) + 16);
    loam_heap_delete(other);
    printf("given heap_delete %lu %lu\n", (unsigned long)other, (unsigned long)other);
    return 0;
}

int main(int argc, char **argv) {
    if (argc != 2) return 9;
    if (strcmp(argv[1], "probes") == 0) return probed();
    if (strcmp(argv[1], "many_end") == 0) return many_end();
    return strcmp(argv[1], "clean") == 0 ? clean() : run(argv[1]);
}
