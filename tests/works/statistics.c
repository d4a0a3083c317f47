/* 
 * statistics.c - the numbers of a program that uses malloc alone, in every form that they come in.
 *
 * Catches: forms that contradict each other; text that is no JSON or no XML; nothing at exit.
 *
 * statistics.py runs it, and reads what it writes: loam_stats_json, malloc_info and mallinfo2,
 * taken one after the other by a single thread that allocates nothing between; and what
 * LOAM_SHOW_STATS prints at exit.
 */
#include "works.h"

#include <loam/arena.h>
#include <loam/stats.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>

enum { OBJECTS = 1000, THREADS = 3 };

/* More than all that loam has of the system. */
#define LENT (256 * WORKS_MIB)
#define LENT_LARGE (200 * WORKS_MIB)

static void lend(void) {
    void *range = mmap(NULL, LENT + 65536, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(range != MAP_FAILED, "mmap");
    range = (void *)(((uintptr_t)range + 65535) & ~(uintptr_t)65535);
    loam_arena *arena;
    int result = loam_manage_memory(range, LENT, LOAM_ARENA_EXCLUSIVE, LOAM_NODE_ANY, &arena);
    CHECK(result == 0, "loam_manage_memory: %d", result);
    loam_heap *heap = loam_heap_create_in(arena, false);
    CHECK(heap != NULL && loam_heap_malloc(heap, LENT_LARGE) != NULL, "no object in it");
    CHECK(loam_heap_malloc(heap, 100) != NULL, "no small object in it");
}

static void *work(void *argument) {
    static char *kept[THREADS][OBJECTS];
    char **mine = kept[(size_t)argument];
    for (int i = 0; i < OBJECTS; i++) mine[i] = (char *)malloc(4000);
    for (int i = 0; i < OBJECTS; i += 2) free(mine[i]);
    return NULL;
}

int main(void) {
    works_require_loam();
    works_limit(60);
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, work, (void *)i) == 0, "pthread_create");
    for (size_t i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    char *large = (char *)malloc(10 * WORKS_MIB);
    works_touch(large, 10 * WORKS_MIB);
    lend();

    static char xml[65536], json[65536], text[512];
    static char stream_room[8192];
    FILE *stream = fmemopen(xml, sizeof xml, "w");
    CHECK(stream != NULL, "fmemopen");
    setvbuf(stream, stream_room, _IOFBF, sizeof stream_room);
    struct mallinfo2 info = mallinfo2();
    int length = loam_stats_json(json, sizeof json);
    CHECK(malloc_info(0, stream) == 0, "malloc_info");
    CHECK(fclose(stream) == 0, "fclose");
    CHECK(length > 0 && (size_t)length < sizeof json, "%d bytes of JSON", length);
    snprintf(text, sizeof text,
             "{\"arena\": %zu, \"hblks\": %zu, \"hblkhd\": %zu, "
             "\"uordblks\": %zu, \"fordblks\": %zu, \"keepcost\": %zu}\n",
             info.arena, info.hblks, info.hblkhd, info.uordblks, info.fordblks, info.keepcost);
    works_write(1, json, (size_t)length);
    works_write(1, "===\n", 4);
    works_write(1, text, strlen(text));
    works_write(1, "===\n", 4);
    works_write(1, xml, strlen(xml));
    free(large);
    return 0;
}
