/*
 * statistics.c - the numbers of a program that uses malloc alone, in every form that they come in.
 *
 * Catches: forms that contradict each other; text that is no JSON or no XML; nothing at exit.
 *
 * statistics.py runs it, and reads what it writes: loam_stats_json, malloc_info and mallinfo2, taken one after the
 * other by a single thread that allocates nothing between; and what LOAM_SHOW_STATS prints at exit.
 */
#include "works.h"

#include <loam/stats.h>
#include <malloc.h>
#include <pthread.h>

enum { OBJECTS = 1000, THREADS = 3 };

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
