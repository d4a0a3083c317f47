/*
 * fork_generations.c - a child of a threaded process starts threads of its own and forks again,
 * four generations deep.
 *
 * Catches: an allocator whose fork handling works once (counts of threads, lists of heaps or lock
 * states that are right in the child but wrong in the grandchild), and thread heaps of the parent
 * that the child's threads cannot take over.
 */
#include "works.h"

#include <pthread.h>
#include <stdatomic.h>

enum { threads = 3, slots = 400, generations = 4, families = 8 };

static _Atomic(works_block *) table[slots];
static atomic_bool stop;

static void *replace(void *argument) {
    uint64_t seed = (uint64_t)(uintptr_t)argument;
    while (!atomic_load(&stop)) {
        size_t at = works_random(&seed) % slots;
        works_block *old = atomic_exchange(
            &table[at], works_block_new(works_random_size(&seed) % (16 * WORKS_KIB), seed));
        if (old) works_block_free(old);
    }
    return NULL;
}

/* One generation: threads that free what was inherited and replace it, and in the middle of that a
   fork. */
static void generation(int depth, uint64_t seed) {
    pthread_t ids[threads];
    atomic_store(&stop, false);
    for (size_t t = 0; t < threads; t++)
        CHECK(pthread_create(&ids[t], NULL, replace, (void *)(uintptr_t)(seed + t + 1)) == 0,
              "pthread_create, generation %d", depth);
    works_exercise(seed, 500);
    if (depth < generations) {
        pid_t pid = fork();
        CHECK(pid >= 0, "fork: %s", strerror(errno));
        if (pid == 0) {
            works_limit(30);
            generation(depth + 1, seed * 31 + 7);
            _exit(0);
        }
        works_expect_ok(works_wait(pid), "a child that starts threads");
    }
    atomic_store(&stop, true);
    for (size_t t = 0; t < threads; t++) pthread_join(ids[t], NULL);
    for (size_t s = 0; s < slots; s++) {
        works_block *block = atomic_exchange(&table[s], NULL);
        if (block) works_block_free(block);
    }
}

int main(void) {
    works_require_loam();
    for (int family = 0; family < families; family++) generation(1, (uint64_t)family * 1000 + 3);
    return 0;
}
