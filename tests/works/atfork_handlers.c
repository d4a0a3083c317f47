/*
 * atfork_handlers.c - pthread_atfork handlers that allocate, registered before loam started and
 * after.
 *
 * Catches: an allocator that takes its locks in its own prepare handler and so hangs in handlers
 * that run after it. Prepare handlers run in reverse order of registration, so those registered
 * first (here from .preinit_array, before the constructor of any library) run when loam's own
 * handler has run; and in parent and child they run before loam's.
 */
#include "works.h"

#include <pthread.h>
#include <stdatomic.h>

enum { threads = 2, forks = 150, held_blocks = 40, sets = 3 };

static works_block
    *held[sets]
         [held_blocks]; /* allocated in prepare, freed once in the parent and once in the child */
static works_block *passing[sets]; /* allocated after the fork, freed by the next prepare */
static int calls[sets][3];
static atomic_bool stop;

static void prepare(int set) {
    uint64_t seed = (uint64_t)(calls[set][0]++ * 3 + set + 1);
    for (int i = 0; i < held_blocks; i++)
        held[set][i] = works_block_new(works_random_size(&seed) % 20000, seed);
    if (passing[set]) works_block_free(passing[set]);
    passing[set] = NULL;
}
static void after(int set, int side) {
    calls[set][side]++;
    for (int i = 0; i < held_blocks; i++) works_block_free(held[set][i]);
    passing[set] = works_block_new(300 + (size_t)calls[set][0], 1);
}
/* The last to run before the process is copied. Sometimes it waits until the worker, too, waits for
 * a lock that the fork has taken. */
static void prepare_0(void) {
    prepare(0);
    if (calls[0][0] % 10 == 0) usleep(30000);
}
static void prepare_1(void) { prepare(1); }
static void prepare_2(void) { prepare(2); }
static void parent_0(void) { after(0, 1); }
static void parent_1(void) { after(1, 1); }
static void parent_2(void) { after(2, 1); }
static void child_0(void) { after(0, 2); }
static void child_1(void) { after(1, 2); }
static void child_2(void) { after(2, 2); }

static void earliest(void) { pthread_atfork(prepare_0, parent_0, child_0); }
__attribute__((section(".preinit_array"),
               used)) static void (*const before_libraries)(void) = earliest;

__attribute__((constructor)) static void at_start(void) {
    pthread_atfork(prepare_1, parent_1, child_1);
}

static void *work(void *argument) {
    uint64_t seed = (uint64_t)(uintptr_t)argument + 1;
    while (!atomic_load(&stop)) works_exercise(works_random(&seed), 200);
    return NULL;
}

int main(void) {
    works_require_loam();
    works_limit(60);
    works_exercise(1, 500);
    CHECK(pthread_atfork(prepare_2, parent_2, child_2) == 0, "pthread_atfork");
    pthread_t ids[threads];
    for (size_t t = 0; t < threads; t++)
        CHECK(pthread_create(&ids[t], NULL, work, (void *)(uintptr_t)t) == 0, "pthread_create");
    for (int i = 0; i < forks; i++) {
        pid_t pid = fork();
        CHECK(pid >= 0, "fork: %s", strerror(errno));
        if (pid == 0) {
            works_limit(20);
            for (int set = 0; set < sets; set++) {
                CHECK(calls[set][2] == 1, "child handler %d ran %d times", set, calls[set][2]);
                works_block_free(passing[set]);
            }
            works_exercise((uint64_t)i + 1, 200);
            _exit(0);
        }
        works_expect_ok(works_wait(pid), "a forked child");
    }
    atomic_store(&stop, true);
    for (size_t t = 0; t < threads; t++) pthread_join(ids[t], NULL);
    for (int set = 0; set < sets; set++)
        CHECK(calls[set][0] == forks && calls[set][1] == forks,
              "handlers %d ran %d and %d times in %d forks", set, calls[set][0], calls[set][1],
              forks);
    return 0;
}
