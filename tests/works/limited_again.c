/*
 * limited_again.c - under RLIMIT_AS or RLIMIT_DATA, what was freed can be had again: by other
 * sizes, by streams, by threads, and by the program's own mmap.
 *
 *   limited_again address BYTES...     RLIMIT_AS: what is mapped counts
 *   limited_again data BYTES...        RLIMIT_DATA: private memory that may be written counts
 *
 * For each size a child fills the limit with objects of that size, until malloc returns NULL, and
 * frees all. Then it needs other sizes at once, half of the filled addresses by mmap after the
 * purge delay (and again after a peak of another size), and its own size again.
 *
 * Catches: an allocator that keeps the addresses of freed memory for one kind of object; one
 * that can no longer use freed memory because a guard in it cannot be opened; a malloc that
 * returns NULL although an object of the requested size was freed.
 */
#include "works.h"

#include <pthread.h>
#include <sys/resource.h>

enum { limit_mib = 160, objects_most = 4 << 20, smalls = 52 };

static void *object[objects_most];

static void *nothing(void *unused) { return unused; }

static bool thread_runs(void) {
    pthread_t thread;
    return pthread_create(&thread, NULL, nothing, NULL) == 0 && pthread_join(thread, NULL) == 0;
}

/* Takes objects until malloc returns NULL. Returns how many. */
static size_t fill(size_t bytes) {
    size_t n = 0;
    while (n < objects_most && (object[n] = malloc(bytes)) != NULL) works_touch(object[n++], bytes);
    return n;
}

static void free_all(size_t n) {
    while (n > 0) free(object[--n]);
}

static void other_sizes(size_t before) {
    void *taken[smalls];
    for (size_t i = 0; i < smalls; i++) {
        size_t bytes = 16 + i * (i + 1) * 19;
        taken[i] = malloc(bytes);
        CHECK(taken[i] != NULL, "malloc(%zu) returns NULL after all of %zu bytes was freed", bytes,
              before);
    }
    for (size_t i = 0; i < smalls; i++) free(taken[i]);
    FILE *stream = fopen("/dev/null", "r");
    CHECK(stream != NULL, "no stream after all of %zu bytes was freed", before);
    fclose(stream);
    CHECK(thread_runs(), "no thread after all of %zu bytes was freed", before);
}

/* Waits until the program can map so much memory itself. */
static void map_own(size_t bytes, bool trim, size_t before) {
    uint64_t end = works_now_ms() + 30000;
    void *mine;
    while ((mine = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) ==
               MAP_FAILED &&
           works_now_ms() < end) {
        if (trim) malloc_trim(0);
        works_sleep_ms(20);
    }
    CHECK(mine != MAP_FAILED, "mmap(%zu MiB) fails after all of %zu bytes was freed",
          bytes / WORKS_MIB, before);
    munmap(mine, bytes);
}

static void one_size(int resource, size_t bytes, bool trim) {
    CHECK(thread_runs(), "no thread"); /* what the C library keeps for one is there */
    struct rlimit limit = {limit_mib * WORKS_MIB, limit_mib * WORKS_MIB};
    CHECK(setrlimit(resource, &limit) == 0, "setrlimit: %s", strerror(errno));
    size_t n = fill(bytes), filled = n * bytes;
    CHECK(filled > limit_mib / 4 * WORKS_MIB, "only %zu bytes could be had", filled);
    free_all(n);
    other_sizes(bytes);
    map_own(filled / 2 < limit_mib / 2 * WORKS_MIB ? filled / 2 : limit_mib / 2 * WORKS_MIB, trim,
            bytes);
    size_t other = bytes > 3000 ? bytes / 7 : bytes * 11, of_other = fill(other) * other;
    free_all(of_other / other);
    CHECK(of_other > filled / 3, "%zu MiB of %zu bytes, then only %zu of %zu bytes",
          filled / WORKS_MIB, bytes, of_other / WORKS_MIB, other);
    map_own(limit_mib / 3 * WORKS_MIB, trim, other);
    size_t again = fill(bytes);
    CHECK(again > n / 2, "%zu objects of %zu bytes, then only %zu", n, bytes, again);
    works_say("%zu bytes: %zu objects, %zu MiB of %zu bytes, then %zu", bytes, n,
              of_other / WORKS_MIB, other, again);
    free_all(again);
}

int main(int count, char **arguments) {
    works_require_loam();
    CHECK(count > 2, "usage: limited_again address|data BYTES...");
    int resource = strcmp(arguments[1], "data") == 0 ? RLIMIT_DATA : RLIMIT_AS;
    for (int i = 2; i < count; i++) {
        pid_t child = fork();
        CHECK(child >= 0, "fork: %s", strerror(errno));
        if (child == 0) {
            one_size(resource, (size_t)atol(arguments[i]), i % 2 == 0);
            _exit(0);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0, "the child of %s bytes: %#x",
              arguments[i], (unsigned)status);
    }
    return 0;
}
