// batch.h: what the workloads share in which threads hand objects to each other.
//
//   Item    an object that carries its size and a tag, so that whoever frees it can check it
//   Batch   a hundred or so of them, handed over at once
//   Queue   of batches, between any number of threads; waiting is sleeping
//
// A queue's lock is taken once for a batch, about 50 ns for 128 objects: what is left is the
// allocator's. Nobody spins: with more threads than cores, time spent spinning would be counted as
// the allocator's CPU time. There is a fixed number of batches, so a workload's memory is bounded
// by them, however much faster than another a thread runs.
#ifndef LOAM_BENCH_BATCH_H
#define LOAM_BENCH_BATCH_H

#include "workload.h"

#include <pthread.h>

// ---- items --------------------------------------------------------------------------------------

enum { ITEM_LEAST = 16 };

typedef struct {
    uint32_t size;
    uint32_t tag; // of the bytes behind, 0 to 255
} Item;

static inline void item_write(Item *item, size_t size, unsigned char tag) {
    item->size = (uint32_t)size;
    item->tag = tag;
    wl_write(item + 1, size - sizeof *item, tag);
}

static inline uint64_t item_check(const Item *item) {
    return wl_check(item + 1, item->size - sizeof *item, (unsigned char)item->tag);
}

// size is at least ITEM_LEAST.
static inline Item *item_make(size_t size, unsigned char tag) {
    Item *item = wl_malloc(size);
    item_write(item, size, tag);
    return item;
}

// As a program grows or shrinks something: what was in it must still be there.
static inline Item *item_resize(Item *item, size_t size) {
    item_check(item);
    item = wl_realloc(item, size);
    size_t kept = size < item->size ? size : item->size;
    unsigned char tag = (unsigned char)item->tag;
    const unsigned char *bytes = (const unsigned char *)item;
    // The old end can be looked at only where the block did not become shorter.
    if (bytes[sizeof *item] != tag || (kept == item->size && bytes[kept - 1] != tag)) {
        wl_fail("realloc from %u to %zu bytes lost what was in the block", item->size, size);
    }
    item_write(item, size, tag);
    return item;
}

static inline uint64_t item_free(Item *item) {
    uint64_t tag = item_check(item);
    free(item);
    return tag;
}

// ---- batches ------------------------------------------------------------------------------------

enum { BATCH = 128 };

typedef struct Batch {
    struct Batch *next;
    int owner, stage; // the workload's own
    uint32_t count;
    Item *items[BATCH];
} Batch;

// How many batches `objects` come to, the last one perhaps not full.
static inline uint64_t batches_of(uint64_t objects) { return (objects + BATCH - 1) / BATCH; }

// ---- queues -------------------------------------------------------------------------------------

// First in, first out. A cache line pair of its own: queues lie side by side in tables.
typedef struct {
    _Alignas(128) pthread_mutex_t lock;
    pthread_cond_t more;
    Batch *first, **last;
    uint32_t count, sleepers;
    uint32_t wake; // a thread that found it empty sleeps until so many batches are in it
    bool closed;
} Queue;

// A `wake` above 1 lets a thread that is faster than its partner sleep long and seldom, rather than
// after every batch. It is safe only where so many batches are sure to come, or queue_close.
static inline void queue_make(Queue *queue, uint32_t wake) {
    pthread_mutex_init(&queue->lock, NULL);
    pthread_cond_init(&queue->more, NULL);
    queue->last = &queue->first;
    queue->wake = wake;
}

static inline void queue_put(Queue *queue, Batch *batch) {
    batch->next = NULL;
    pthread_mutex_lock(&queue->lock);
    *queue->last = batch;
    queue->last = &batch->next;
    bool call = ++queue->count >= queue->wake && queue->sleepers > 0;
    pthread_mutex_unlock(&queue->lock);
    if (call) pthread_cond_signal(&queue->more);
}

// The oldest batch; waits for one, and returns NULL if the queue is closed and empty.
static inline Batch *queue_take(Queue *queue) {
    pthread_mutex_lock(&queue->lock);
    if (queue->count == 0) {
        queue->sleepers++;
        while (queue->count < queue->wake && !queue->closed) {
            pthread_cond_wait(&queue->more, &queue->lock);
        }
        queue->sleepers--;
    }
    Batch *batch = queue->first;
    if (batch != NULL) {
        queue->first = batch->next;
        if (queue->first == NULL) queue->last = &queue->first;
        queue->count--;
    }
    pthread_mutex_unlock(&queue->lock);
    return batch;
}

// No batch will come any more: wakes all who wait.
static inline void queue_close(Queue *queue) {
    pthread_mutex_lock(&queue->lock);
    queue->closed = true;
    pthread_mutex_unlock(&queue->lock);
    pthread_cond_broadcast(&queue->more);
}

#endif
