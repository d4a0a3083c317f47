/*
 * fork_threads.c - fork while other threads are in the middle of malloc and free.
 *
 * Catches: a lock of the allocator held by a thread that does not exist in the child (the child
 * hangs, its alarm says so); lists caught half-changed; blocks of the vanished threads that the
 * child cannot free or whose memory it hands out twice.
 *
 * Four threads keep replacing blocks in tables that all can see; two threads fork again and again.
 * Each child checks and frees every block of every table, then works on. It cannot judge blocks in
 * flight at the moment of the fork: those belong to nobody in the child.
 */
#include "works.h"

#include <pthread.h>
#include <stdatomic.h>

enum { threads = 4, forkers = 2, forks_each = 100, slots = 300 };

static _Atomic(works_block *) table[threads][slots];
static atomic_bool stop;

static void *replace(void *argument) {
    size_t self = (size_t)(uintptr_t)argument;
    uint64_t seed = self + 1;
    while (!atomic_load(&stop)) {
        /* mostly the own table, sometimes another's: foreign frees are under way too */
        size_t owner = works_random(&seed) % 4 ? self : works_random(&seed) % threads;
        size_t at = works_random(&seed) % slots;
        works_block *old = atomic_exchange(&table[owner][at], NULL);
        if (old) works_block_free(old);
        works_block *fresh = works_block_new(works_random_size(&seed) % (32 * WORKS_KIB), seed);
        old = atomic_exchange(&table[owner][at], fresh);
        if (old) works_block_free(old);
    }
    return NULL;
}

static void child(uint64_t seed) {
    works_limit(20);
    works_block *mine[400];
    for (size_t i = 0; i < 400; i++)
        mine[i] = works_block_new(works_random_size(&seed) % 4096, seed);
    for (size_t t = 0; t < threads; t++)
        for (size_t s = 0; s < slots; s++) {
            works_block *block = atomic_exchange(&table[t][s], NULL);
            if (!block) continue;
            works_block_check(block);
            if (s % 8 == 0) { /* growing a block of a thread that is gone */
                works_block *grown = realloc(block, block->bytes + 5000);
                CHECK(grown != NULL, "realloc in the child returned NULL");
                CHECK(works_filled(grown + 1, grown->bytes - sizeof *grown, grown->seed),
                      "realloc in the child lost contents");
                block = grown;
            }
            free(block);
        }
    works_exercise(seed, 300);
    for (size_t i = 0; i < 400; i++) works_block_free(mine[i]);
    _exit(0);
}

static void *fork_often(void *argument) {
    uint64_t seed = (uint64_t)(uintptr_t)argument * 77 + 5;
    for (int i = 0; i < forks_each; i++) {
        works_random(&seed);
        pid_t pid = fork();
        CHECK(pid >= 0, "fork: %s", strerror(errno));
        if (pid == 0) child(seed);
        works_exercise(seed, 50);
        works_expect_ok(works_wait(pid), "a forked child");
    }
    return NULL;
}

int main(void) {
    works_require_loam();
    pthread_t ids[threads], forking[forkers];
    for (size_t t = 0; t < threads; t++)
        CHECK(pthread_create(&ids[t], NULL, replace, (void *)(uintptr_t)t) == 0, "pthread_create");
    for (size_t t = 0; t < forkers; t++)
        CHECK(pthread_create(&forking[t], NULL, fork_often, (void *)(uintptr_t)t) == 0,
              "pthread_create");
    for (size_t t = 0; t < forkers; t++) pthread_join(forking[t], NULL);
    atomic_store(&stop, true);
    for (size_t t = 0; t < threads; t++) pthread_join(ids[t], NULL);
    for (size_t t = 0; t < threads; t++)
        for (size_t s = 0; s < slots; s++)
            if (table[t][s]) works_block_free(table[t][s]);
    return 0;
}
