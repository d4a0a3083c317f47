/*
 * dlopen_many.c - a library that allocates is loaded, used and unloaded ten thousand times.
 *
 * Catches: memory that every load leaves behind (per-library state, thread-exit records, blocks
 * from a destructor that are not reused), and blocks of an unloaded library that can no longer be
 * freed. Every tenth time the library is called from a thread of its own, so that its thread-local
 * storage is made and taken down as well.
 *
 * Argument: the path of the plugin (plugin.c).
 */
#include "works.h"

#include <pthread.h>

enum { loads = 10000, warm = 500 };

typedef void *work_function(size_t, size_t);

static void *call(void *argument) {
    work_function *work;
    *(void **)&work = argument;
    return work(30, 500);
}

static void cycle(const char *path, int i) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    CHECK(library != NULL, "dlopen, time %d: %s", i, dlerror());
    void *symbol = dlsym(library, "plugin_work");
    CHECK(symbol != NULL, "dlsym: %s", dlerror());
    char *result;
    if (i % 10 == 0) {
        pthread_t id;
        void *answer;
        CHECK(pthread_create(&id, NULL, call, symbol) == 0 && pthread_join(id, &answer) == 0,
              "a thread in the plugin");
        result = answer;
    } else {
        result = call(symbol);
    }
    CHECK(result != NULL, "malloc in the plugin returned NULL");
    CHECK(dlclose(library) == 0, "dlclose: %s", dlerror());
    CHECK(result[0] == 'p' && result[499] == 'p', "a block changed when its library was unloaded");
    free(result);
}

int main(int argc, char **argv) {
    works_require_loam();
    works_limit(120);
    CHECK(argc == 2, "usage: %s PLUGIN", argv[0]);
    for (int i = 0; i < warm; i++) cycle(argv[1], i);
    CHECK(dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD) == NULL,
          "the plugin is not unloaded by dlclose: nothing is tested");
    works_sleep_ms(800);
    size_t start = works_rss_bytes();
    for (int i = warm; i < loads; i++) cycle(argv[1], i);
    size_t allowed = start + start / 10 + 256 * WORKS_KIB,
           end = works_settled(works_rss_bytes, allowed);
    CHECK(end <= allowed, "resident memory rose from %zu KiB after %d loads to %zu KiB after %d",
          start / 1024, warm, end / 1024, loads);
    return 0;
}
