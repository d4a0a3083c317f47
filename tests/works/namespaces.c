/*
 * namespaces.c - a library loaded ten times by dlmopen, each time into a namespace of its own with
 * its own C library.
 *
 * Catches: two allocators in one process, each of which believes the address space, the break or
 * the thread's state to be its own; with "loam in each", ten instances of loam, each growing its
 * own region, and the static TLS that ten take.
 *
 * Argument: the path of the plugin, and whether it is linked with loam ("own") or has its
 * namespace's C library ("libc"). Blocks are freed in the namespace they came from; the C library
 * promises nothing else.
 *
 * Every namespace's C library takes static TLS, and room is kept for four namespaces unless the
 * program's starter says otherwise (glibc.rtld.nns): the program starts itself again with room for
 * twelve.
 */
#include "works.h"

#include <pthread.h>

enum { namespaces = 10 };

typedef void *work_function(size_t, size_t);
typedef void free_function(void *);

static void *library[namespaces];
static work_function *work[namespaces];
static free_function *give[namespaces];

static void round_in(size_t n, size_t bytes) {
    char *mine = malloc(bytes);
    CHECK(mine != NULL, "malloc");
    memset(mine, 'm', bytes);
    char *theirs = work[n](300, bytes);
    CHECK(theirs != NULL, "namespace %zu: malloc returned NULL", n);
    CHECK(theirs + bytes <= mine || mine + bytes <= theirs,
          "namespace %zu gave out a block of the program's", n);
    for (size_t i = 0; i < bytes; i++)
        CHECK(mine[i] == 'm' && theirs[i] == 'p', "namespace %zu: a block changed", n);
    give[n](theirs);
    free(mine);
}

static void *rounds(void *argument) {
    uint64_t seed = (uint64_t)(uintptr_t)argument + 1;
    for (int i = 0; i < 300; i++)
        round_in(works_random(&seed) % namespaces,
                 works_random_size(&seed) % (128 * WORKS_KIB) + 1);
    return NULL;
}

int main(int argc, char **argv) {
    works_require_loam();
    works_limit(60);
    CHECK(argc == 3, "usage: %s PLUGIN own|libc", argv[0]);
    if (!getenv("GLIBC_TUNABLES")) { /* read when a program starts */
        /* Eight times loam's 340 bytes for each thread, where glibc keeps 512 for all that is
         * loaded later. */
        setenv("GLIBC_TUNABLES", "glibc.rtld.nns=12:glibc.rtld.optional_static_tls=4096", 1);
        execv(works_self(), argv);
        CHECK(false, "exec: %s", strerror(errno));
    }
    for (size_t n = 0; n < namespaces; n++) {
        library[n] = dlmopen(LM_ID_NEWLM, argv[1], RTLD_NOW | RTLD_LOCAL);
        CHECK(library[n] != NULL, "dlmopen, time %zu: %s", n, dlerror());
        *(void **)&work[n] = dlsym(library[n], "plugin_work");
        *(void **)&give[n] = dlsym(library[n], "plugin_free");
        CHECK(work[n] && give[n], "dlsym: %s", dlerror());
        CHECK(n == 0 || work[n] != work[n - 1],
              "two namespaces share one library: nothing is tested");
        bool loam_inside = dlsym(library[n], "loam_version") != NULL;
        CHECK(works_any_allocator() || loam_inside == (strcmp(argv[2], "own") == 0),
              "loam is %sin the namespace", loam_inside ? "" : "not ");
    }
    for (size_t n = 0; n < namespaces; n++) round_in(n, 100000);
    pthread_t ids[3];
    for (size_t t = 0; t < 3; t++)
        CHECK(pthread_create(&ids[t], NULL, rounds, (void *)(uintptr_t)t) == 0, "pthread_create");
    for (size_t t = 0; t < 3; t++) pthread_join(ids[t], NULL);
    pid_t pid = fork();
    if (pid == 0) {
        works_limit(20);
        rounds((void *)7);
        _exit(0);
    }
    works_expect_ok(works_wait(pid), "a forked child");
    works_sleep_ms(500);
    for (size_t n = 0; n < namespaces; n += 2)
        CHECK(dlclose(library[n]) == 0, "dlclose: %s", dlerror());
    for (size_t n = 1; n < namespaces; n += 2) round_in(n, 5000);
    works_exercise(5, 500);
    return 0;
}
