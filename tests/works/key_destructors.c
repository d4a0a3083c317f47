/*
 * key_destructors.c - frees and mallocs in pthread-key destructors, after the heap of the thread
 * is gone.
 *
 * Catches: an allocator that frees its thread heap in a destructor of its own and is then called
 * by the destructors that run later (their order is the order of the keys, and each may run up to
 * four rounds): a crash, a heap made anew that nobody ever gives back (resident memory grows with
 * the number of threads that have come and gone), or blocks lost.
 *
 * Keys are made before any library's constructor, and in main: on both sides of whatever key the
 * allocator has.
 */
#include "works.h"

#include <limits.h>
#include <pthread.h>

enum {
    early_keys = 3,
    keys = 8,
    threads_first = 400,
    threads_more = 2000,
    rounds = PTHREAD_DESTRUCTOR_ITERATIONS
};

/* What a key holds: blocks to free now, and in which round of destructors this is. */
typedef struct holding {
    works_block *small;
    works_block *large;
    int key;
    int round;
} holding;

static pthread_key_t key[keys];
static unsigned long long destructions;

static holding *hold(int at, int round, uint64_t seed) {
    holding *h = malloc(sizeof *h);
    CHECK(h != NULL, "malloc of %zu bytes in round %d of the destructors", sizeof *h, round);
    h->small = works_block_new(16 + works_random(&seed) % 2000, seed);
    h->large = works_block_new(2000 + works_random(&seed) % 20000, seed);
    h->key = at;
    h->round = round;
    return h;
}

static void destroy(void *argument) {
    holding *h = argument;
    __atomic_fetch_add(&destructions, 1, __ATOMIC_RELAXED);
    works_block_free(h->small);
    works_block_free(h->large);
    if (h->round < rounds)
        pthread_setspecific(key[h->key], hold(h->key, h->round + 1, (uint64_t)h->round + 1));
    free(h);
}

static void earliest(void) {
    for (int i = 0; i < early_keys; i++) pthread_key_create(&key[i], destroy);
}
__attribute__((section(".preinit_array"),
               used)) static void (*const before_libraries)(void) = earliest;

static void *work(void *argument) {
    uint64_t seed = (uint64_t)(uintptr_t)argument + 1;
    for (int i = 0; i < keys; i++)
        CHECK(pthread_setspecific(key[i], hold(i, 1, works_random(&seed))) == 0,
              "pthread_setspecific");
    works_exercise(seed, 5);
    return NULL;
}

/* A thread whose first call of malloc is in a destructor. */
static void destroy_late(void *argument) {
    (void)argument;
    works_exercise(5, 30);
}

static void *idle(void *argument) {
    pthread_setspecific(*(pthread_key_t *)argument, argument);
    return NULL;
}

static void run(int count, pthread_key_t *late) {
    for (int i = 0; i < count; i += 4) {
        pthread_t ids[5];
        for (int t = 0; t < 4; t++)
            CHECK(pthread_create(&ids[t], NULL, work, (void *)(uintptr_t)(i + t)) == 0,
                  "pthread_create");
        CHECK(pthread_create(&ids[4], NULL, idle, late) == 0, "pthread_create");
        for (int t = 0; t < 5; t++) pthread_join(ids[t], NULL);
    }
}

int main(void) {
    works_require_loam();
    works_limit(60);
    pthread_key_t late;
    for (int i = early_keys; i < keys; i++)
        CHECK(pthread_key_create(&key[i], destroy) == 0, "pthread_key_create");
    CHECK(pthread_key_create(&late, destroy_late) == 0, "pthread_key_create");
    run(threads_first, &late);
    works_sleep_ms(800);
    size_t start = works_rss_bytes(), most = start + start / 10 + 512 * WORKS_KIB;
    run(threads_more, &late);
    size_t end = works_settled(works_rss_bytes, most);
    unsigned long long expected =
        (unsigned long long)(threads_first + threads_more) * keys * rounds;
    CHECK(destructions == expected, "%llu destructor calls instead of %llu", destructions,
          expected);
    CHECK(end <= most,
          "heaps made in destructors stay: %zu KiB are resident after %d threads, "
          "%zu KiB after %d more",
          start / 1024, threads_first, end / 1024, threads_more);
    return 0;
}
