/* 
 * refusals.c - near a limit of the system's, what was freed serves whatever is requested next, and
 * a request that cannot be served is refused at once.
 *
 *   refusals address    RLIMIT_AS
 *   refusals data       RLIMIT_DATA
 *
 * Catches: an allocator that refuses an object larger than the free memory that it keeps, although
 * that memory and what the system still gives are enough together; one that collects from all
 * threads, or purges, at each of many refusals in a row; and one that asks the system page by page
 * what a huge object has in memory.
 */
#include "works.h"

#include <loam/stats.h>
#include <pthread.h>
#include <sys/resource.h>

enum { limit_mib = 800, refusals_each = 2000, calls_most = 16, sleepers = 3 };

static int resource;

static void limit(void) {
    struct rlimit most = {limit_mib * WORKS_MIB, limit_mib * WORKS_MIB};
    CHECK(setrlimit(resource, &most) == 0, "setrlimit: %s", strerror(errno));
}

static uint64_t system_calls(void) {
    loam_stats_t stats;
    CHECK(loam_stats_get(&stats, sizeof stats) == 0, "no statistics");
    return stats.system_calls;
}

/* Eight ways to ask for so many bytes. */
static void *request(unsigned way, size_t bytes, void *old) {
    void *result = NULL;
    switch (way % 8) {
    case 0: return malloc(bytes);
    case 1: return calloc(1, bytes);
    case 2: return realloc(NULL, bytes);
    case 3: return aligned_alloc(64, bytes);
    case 4: return posix_memalign(&result, 4096, bytes) == 0 ? result : NULL;
    case 5: return reallocarray(NULL, bytes / 8, 8);
    case 6: return valloc(bytes);
    default: return realloc(old, bytes);
    }
}

/* Each is freed before the next is requested, so that one of them is all that is needed at a
 * time. */
static void expect_served(const int *percent, int count) {
    limit();
    for (int i = 0; i < count; i++) {
        for (unsigned way = 0; way < 7; way++) {
            size_t bytes = limit_mib * WORKS_MIB / 100 * (size_t)percent[(i + (int)way) % count];
            char *object = request(way, bytes, NULL);
            CHECK(object, "way %u: NULL for %zu MiB of %d, and nothing else is in use", way,
                  bytes / WORKS_MIB, limit_mib);
            object[0] = object[bytes - 1] = 1;
            free(object);
        }
    }
}

static void *sleep_with_memory(void *ready) {
    void *some[200];
    for (int i = 0; i < 200; i++) some[i] = malloc(16 + (size_t)i * 16);
    for (int i = 0; i < 200; i += 2) free(some[i]);
    pthread_barrier_wait(ready);
    pause();
    return NULL;
}

static void expect_cheap(void) {
    static pthread_barrier_t ready;
    pthread_barrier_init(&ready, NULL, sleepers + 1);
    for (int i = 0; i < sleepers; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, sleep_with_memory, &ready) == 0, "no thread");
    }
    pthread_barrier_wait(&ready);
    /* Half of it is in use: the arena is larger than some of what is requested below. */
    char *half = malloc(limit_mib / 2 * WORKS_MIB), *old = malloc(200000);
    CHECK(half && old, "malloc returned NULL");
    limit();
    size_t sizes[] = {
        SIZE_MAX - 8192,  (size_t)1 << 62,       (size_t)8 << 40, (size_t)100 << 30,
        2000 * WORKS_MIB, limit_mib * WORKS_MIB, 700 * WORKS_MIB, 2 * limit_mib / 4 * WORKS_MIB};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint64_t before = system_calls();
        for (unsigned n = 0; n < refusals_each; n++) {
            errno = 0;
            void *none = request(n, sizes[i], old);
            CHECK(none == NULL && errno == ENOMEM, "%zu bytes: %p, errno %d", sizes[i], none,
                  errno);
        }
        uint64_t calls = system_calls() - before;
        CHECK(calls <= (uint64_t)refusals_each * calls_most,
              "%d refusals of %zu bytes took %llu system calls", refusals_each, sizes[i],
              (unsigned long long)calls);
    }
    free(half);
    free(old);
}

/* Much address space, and two system pages in memory. */
static void expect_cheap_free(void) {
    uint64_t before = system_calls();
    for (int i = 0; i < 3; i++) {
        size_t bytes = (size_t)8 << 30;
        char *object = malloc(bytes);
        CHECK(object || errno == ENOMEM, "NULL and errno %d", errno);
        if (!object) return;
        object[0] = object[bytes - 1] = 1;
        free(object);
    }
    uint64_t calls = system_calls() - before;
    CHECK(calls < 2000, "three objects of 8 GiB took %llu system calls", (unsigned long long)calls);
}

static void in_child(void (*what)(void), const char *name) {
    pid_t pid = fork();
    CHECK(pid >= 0, "fork: %s", strerror(errno));
    if (pid == 0) {
        works_limit(40);
        what();
        _exit(0);
    }
    works_expect_ok(works_wait(pid), name);
}

static void grows(void) {
    static const int percent[] = {15, 30, 45, 60, 75};
    expect_served(percent, 5);
}
static void shrinks(void) {
    static const int percent[] = {75, 40, 70, 20, 74, 10};
    expect_served(percent, 6);
}

int main(int count, char **arguments) {
    works_require_loam();
    CHECK(count == 2, "usage: refusals address|data");
    resource = strcmp(arguments[1], "data") == 0 ? RLIMIT_DATA : RLIMIT_AS;
    in_child(grows, "growing sizes");
    in_child(shrinks, "sizes up and down");
    in_child(expect_cheap, "refusals");
    /* Debug builds fill what is freed. */
    if (WORKS_KEPT == 0) in_child(expect_cheap_free, "huge objects");
    return 0;
}
