/*
 * cancel.c - threads are cancelled (deferred) in loops that are mostly malloc and free; two
 * thousand of them.
 *
 * Catches: a cancellation point inside the allocator (open, read, write, nanosleep of the C
 * library): a thread would leave in the middle of malloc, with a lock held or a block lost, as
 * threads here malloc with a cancellation pending; and memory of cancelled threads that nobody
 * gets back.
 */
#include "works.h"

#include <pthread.h>
#include <stdatomic.h>

enum { groups_warm = 30, groups = 250, group = 8 };

static atomic_int cleaned, passed;

typedef struct kept {
    works_block *block[16];
} kept;

static void cleanup(void *argument) {
    kept *k = argument;
    for (int i = 0; i < 16; i++)
        if (k->block[i]) works_block_free(k->block[i]);
    atomic_fetch_add(&cleaned, 1);
}

/* Loops until cancelled; the only cancellation point is the one written here. */
static void work_until_cancelled(kept *k, uint64_t seed) {
    for (;;) {
        size_t at = works_random(&seed) % 16;
        if (k->block[at]) works_block_free(k->block[at]);
        /* a cancellation point in the next malloc loses a block, one in free frees it twice */
        k->block[at] = NULL;
        k->block[at] = works_block_new(works_random_size(&seed) % 30000, seed);
        if (works_random(&seed) % 8 == 0) pthread_testcancel();
    }
}

static void *until_cancelled(void *argument) {
    kept k = {{NULL}};
    pthread_cleanup_push(cleanup, &k);
    work_until_cancelled(&k, (uint64_t)(uintptr_t)argument + 1);
    pthread_cleanup_pop(0);
    return NULL;
}

/* Cancelled before its first malloc: must nevertheless come to its own pthread_testcancel. */
static void *cancelled_before(void *argument) {
    uint64_t seed = (uint64_t)(uintptr_t)argument + 1;
    pthread_cancel(pthread_self());
    works_exercise(seed, 30);
    char *large = malloc(4 * WORKS_MIB);
    CHECK(large != NULL, "malloc(4 MiB)");
    works_touch(large, 4 * WORKS_MIB);
    char *larger = realloc(large, 24 * WORKS_MIB);
    CHECK(larger != NULL, "realloc to 24 MiB");
    free(larger);
    atomic_fetch_add(&passed, 1);
    pthread_testcancel();
    CHECK(false, "a thread with a pending cancellation went past pthread_testcancel");
    return NULL;
}

static void run(int count) {
    for (int g = 0; g < count; g++) {
        pthread_t ids[group];
        for (int t = 0; t < group; t++)
            CHECK(pthread_create(&ids[t], NULL, t % 4 ? until_cancelled : cancelled_before,
                                 (void *)(uintptr_t)(g * group + t)) == 0,
                  "pthread_create");
        for (int t = 0; t < group; t++)
            if (t % 4) pthread_cancel(ids[t]);
        for (int t = 0; t < group; t++) {
            void *result;
            pthread_join(ids[t], &result);
            CHECK(result == PTHREAD_CANCELED,
                  "a thread ended by itself instead of being cancelled");
        }
    }
}

int main(void) {
    works_require_loam();
    works_limit(60);
    run(groups_warm);
    works_sleep_ms(800);
    size_t start = works_rss_bytes();
    run(groups);
    size_t allowed = start + start / 10 + 512 * WORKS_KIB + WORKS_KEPT,
           end = works_settled(works_rss_bytes, allowed);
    int all = (groups + groups_warm) * group;
    CHECK(atomic_load(&passed) == all / 4,
          "%d of %d threads came through malloc with a cancellation pending", atomic_load(&passed),
          all / 4);
    CHECK(atomic_load(&cleaned) <= all - all / 4, "%d clean-ups for %d threads",
          atomic_load(&cleaned), all - all / 4);
    CHECK(end <= allowed, "resident memory rose from %zu KiB to %zu KiB over %d cancelled threads",
          start / 1024, end / 1024, groups * group);
    return 0;
}
