/*
 * dlopen_loam.c - loam loaded late into a process that lives on another malloc: by dlopen with
 * RTLD_DEEPBIND, when little static TLS is left.
 *
 * Catches: an initial-exec TLS block so large that dlopen fails with "cannot allocate memory in
 * static TLS block"; threads that existed before the load; threads that exit after dlclose, when
 * the code of a TLS destructor may be gone; blocks of the two allocators mixed up.
 *
 * Arguments: the path of libloam.so, the path of tls_eater. The program counts how many copies of
 * tls_eater (64 bytes of static TLS each) can be loaded, starts itself again, loads so many that
 * 512 bytes are left, and then loam. What is left is less than a third of what the C library
 * reserves, and more than an allocator should need.
 */
#include "works.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

enum { left_bytes = 512, eater_bytes = 64, most_eaters = 200 };

static void *(*late_malloc)(size_t);
static void (*late_free)(void *);
static void *(*late_realloc)(void *, size_t);
static atomic_int stage; /* 0: loam not loaded yet, 1: loaded, 2: closed */

static void copy_file(const char *from, const char *to) {
    int in = open(from, O_RDONLY | O_CLOEXEC),
        out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
    CHECK(in >= 0 && out >= 0, "copying %s to %s: %s", from, to, strerror(errno));
    char text[8192];
    ssize_t n;
    while ((n = read(in, text, sizeof text)) > 0) works_write(out, text, (size_t)n);
    close(in);
    close(out);
}

/* Loads up to `wanted` copies of tls_eater, each under its own name as the loader knows files by
   inode. */
static int load_eaters(const char *eater, const char *folder, int wanted) {
    int loaded = 0;
    for (; loaded < wanted; loaded++) {
        char path[4200];
        snprintf(path, sizeof path, "%s/eater%d.so", folder, loaded);
        copy_file(eater, path);
        void *library = dlopen(path, RTLD_NOW);
        unlink(path);
        if (!library) break;
        char *(*touch)(void);
        *(void **)&touch = dlsym(library, "tls_eater_touch");
        CHECK(touch && touch() != NULL, "tls_eater_touch");
    }
    return loaded;
}

static void late_exercise(uint64_t seed) {
    char *blocks[64] = {0};
    size_t sizes[64] = {0};
    for (int i = 0; i < 3000; i++) {
        size_t at = works_random(&seed) % 64;
        if (blocks[at]) {
            CHECK(works_filled(blocks[at], sizes[at], at), "a block of the late allocator changed");
            if (i % 3 == 0) {
                blocks[at] = late_realloc(blocks[at], sizes[at] + 3000);
                CHECK(blocks[at] && works_filled(blocks[at], sizes[at], at),
                      "realloc of the late allocator lost contents");
            }
            late_free(blocks[at]);
        }
        sizes[at] = works_random_size(&seed);
        blocks[at] = late_malloc(sizes[at]);
        CHECK(blocks[at] != NULL, "the late allocator returned NULL");
        works_fill(blocks[at], sizes[at], at);
    }
    for (size_t at = 0; at < 64; at++) late_free(blocks[at]);
}

/* A thread older than loam, that uses it, and exits after its dlclose. */
static void *old_thread(void *argument) {
    uint64_t seed = (uint64_t)(uintptr_t)argument + 1;
    works_exercise(seed, 100);
    while (atomic_load(&stage) == 0) works_sleep_ms(1);
    late_exercise(seed);
    works_exercise(seed, 100);
    while (atomic_load(&stage) == 1) works_sleep_ms(1);
    return NULL;
}

static void *young_thread(void *argument) {
    late_exercise((uint64_t)(uintptr_t)argument + 100);
    works_exercise(3, 100);
    return NULL;
}

static void load_loam(const char *loam) {
    pthread_t old[3], young[3];
    for (size_t t = 0; t < 3; t++)
        CHECK(pthread_create(&old[t], NULL, old_thread, (void *)(uintptr_t)t) == 0,
              "pthread_create");
    void *library = dlopen(loam, RTLD_NOW | RTLD_DEEPBIND);
    CHECK(library != NULL, "with %d bytes of static TLS left: %s", left_bytes, dlerror());
    *(void **)&late_malloc = dlsym(library, "malloc");
    *(void **)&late_free = dlsym(library, "free");
    *(void **)&late_realloc = dlsym(library, "realloc");
    CHECK(late_malloc && late_free && late_realloc, "dlsym: %s", dlerror());
    void *(*process_malloc)(size_t) = malloc;
    CHECK(process_malloc != late_malloc,
          "the process already lived on this malloc: nothing is tested");
    atomic_store(&stage, 1);
    late_exercise(1);
    for (size_t t = 0; t < 3; t++)
        CHECK(pthread_create(&young[t], NULL, young_thread, (void *)(uintptr_t)t) == 0,
              "pthread_create");
    for (size_t t = 0; t < 3; t++) pthread_join(young[t], NULL);
    pid_t pid = fork();
    if (pid == 0) {
        works_limit(20);
        late_exercise(2);
        works_exercise(2, 100);
        _exit(0);
    }
    works_expect_ok(works_wait(pid), "a forked child");
    char *large =
        late_malloc(32 * WORKS_MIB); /* so that something is left to give back after dlclose */
    CHECK(large != NULL, "32 MiB from the late allocator");
    works_touch(large, 32 * WORKS_MIB);
    late_free(large);
    dlclose(library);
    works_sleep_ms(500);
    atomic_store(&stage, 2);
    for (size_t t = 0; t < 3; t++) pthread_join(old[t], NULL);
    works_exercise(4, 200);
}

int main(int argc, char **argv) {
    works_limit(60);
    CHECK(argc >= 3, "usage: %s LIBLOAM TLS_EATER", argv[0]);
    char folder[] = "/tmp/loam-works-XXXXXX";
    CHECK(mkdtemp(folder) != NULL, "mkdtemp: %s", strerror(errno));
    if (argc == 3) {
        int room = load_eaters(argv[2], folder, most_eaters);
        rmdir(folder);
        CHECK(room < most_eaters && room * eater_bytes >= left_bytes,
              "%d copies of tls_eater fit: nothing is tested", room);
        char count[16];
        snprintf(count, sizeof count, "%d", room - left_bytes / eater_bytes);
        execl(works_self(), argv[0], argv[1], argv[2], count, (char *)NULL);
        CHECK(false, "exec: %s", strerror(errno));
    }
    int wanted = atoi(argv[3]);
    int loaded = load_eaters(argv[2], folder, wanted);
    rmdir(folder);
    CHECK(loaded == wanted, "only %d of %d copies of tls_eater were loaded", loaded, wanted);
    load_loam(argv[1]);
    return 0;
}
