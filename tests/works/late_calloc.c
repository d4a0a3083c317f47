/*
 * late_calloc.c - calloc from threads past their end gives zeroes, like any other.
 *
 * Catches: a calloc that spares itself the writing of zeroes where memory comes fresh from the
 * system, and asks that of a record which other threads use at the same time. Threads have heaps
 * of their own, but in the last round of their key destructors these are gone and all threads
 * share one: between taking a block and asking about it, another thread may have had the record,
 * and the same memory, for something else.
 *
 * Threads meet in the last round of destructors the C library grants, and there take, check, spoil
 * and free blocks, and leave some.
 */
#include "works.h"

#include <limits.h>
#include <pthread.h>

enum { threads = 4, blocks = 500000, words = 500, left_every = 64 };

static pthread_key_t late;
static pthread_barrier_t together;
static __thread int rounds; /* of this thread's destructors so far */
static unsigned finished;

static void take_and_spoil(void) {
    const size_t bytes = words * sizeof(uint64_t);
    for (int i = 0; i < blocks; i++) {
        uint64_t *block = calloc(words, sizeof *block);
        CHECK(block != NULL, "calloc of %zu bytes", bytes);
        for (int w = 0; w < words; w++)
            CHECK(block[w] == 0, "calloc gave a block whose word %d is %llx", w,
                  (unsigned long long)block[w]);
        memset(block, 0x55, bytes);
        free(block);
        if (i % left_every) continue;
        void *left = malloc(bytes); /* stays: the next blocks come from elsewhere */
        CHECK(left != NULL, "malloc of %zu bytes", bytes);
        memset(left, 0x55, bytes);
    }
}

static void destroy(void *value) {
    if (++rounds < PTHREAD_DESTRUCTOR_ITERATIONS) {
        pthread_setspecific(late, value);
        return;
    }
    pthread_barrier_wait(&together);
    take_and_spoil();
    __atomic_fetch_add(&finished, 1, __ATOMIC_RELAXED);
}

static void *work(void *argument) {
    works_block_free(works_block_new(100, 1)); /* this thread has a heap, and will lose it */
    CHECK(pthread_setspecific(late, argument) == 0, "pthread_setspecific");
    return NULL;
}

int main(void) {
    works_require_loam();
    works_limit(60);
    works_block_free(works_block_new(100, 1)); /* before the key: the allocator's is older */
    CHECK(pthread_key_create(&late, destroy) == 0, "pthread_key_create");
    CHECK(pthread_barrier_init(&together, NULL, threads) == 0, "pthread_barrier_init");
    pthread_t ids[threads];
    for (int t = 0; t < threads; t++)
        CHECK(pthread_create(&ids[t], NULL, work, &late) == 0, "pthread_create");
    for (int t = 0; t < threads; t++) pthread_join(ids[t], NULL);
    CHECK(finished == threads, "%u of %d destructors reached their last round", finished, threads);
    return 0;
}
