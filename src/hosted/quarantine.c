/* quarantine.c: keeps chunks that the sources `pages` and `heap` took back hidden for a while, if a
 * tool watches.
 *
 *   an allocator ends ──> put ──> held[ oldest ... newest ], hidden ──> shown, to the heap
 *
 * An allocator shows a chunk as a whole before it gives the chunk back, because the memory's next
 * owner is another one. Without a quarantine, AddressSanitizer and Memcheck would not see the use
 * of an object whose allocator has ended, been trimmed, or given a large object back. The
 * quarantine holds at most HELD_BYTES in HELD_MOST chunks; the oldest leave first. A use of an
 * object is reported as long as its chunk is held.
 *
 * It cannot hold a chunk of more than HELD_BYTES. It is never called unless a tool watches.
 *
 * The lock is held for a few instructions, within which no other lock is taken. A fork may copy the
 * process at that moment. A thread that waits too long for the lock does without the quarantine
 * from then on; in the child that is for good. So fork need not know of the lock. Invariant:
 * held_bytes is the sum of the sizes of the held chunks, of which there are `count` from `oldest`
 * on.
 */
#include "hosted/quarantine.h"
#include "heap/heap.h"
#include "os/os.h"

#include "family/family.h"

enum { QUARANTINE_HELD_MOST = 4096, AT_A_TIME = 64, QUARANTINE_TURNS = 200 };
#define HELD_BYTES (128 * LM_MIB)

typedef struct quarantine_held {
    void *chunk;
    size_t bytes;
    lm_release_t *release;
} held_t;

static lm_lock_t quarantine_lock;
static bool quarantine_out_of_order; /* atomic: the lock cannot be had */
static held_t *quarantine_held;      /* ring of HELD_MOST entries; NULL before the first chunk */
static size_t oldest, count, held_bytes;

static bool quarantine_lock_taken(void) {
    if (lm_load_relaxed(&quarantine_out_of_order)) return false;
    for (unsigned turn = 0; turn < QUARANTINE_TURNS; turn++) {
        if (lm_lock_try(&quarantine_lock)) return true;
        lm_os_nap(turn);
    }
    lm_store_relaxed(&quarantine_out_of_order, true);
    return false;
}

/* Removes and returns the oldest chunk. */
static held_t quarantine_pop(void) {
    LM_ASSERT(lm_lock_held(&quarantine_lock) && count > 0);
    held_t chunk = quarantine_held[oldest];
    oldest = (oldest + 1) % QUARANTINE_HELD_MOST;
    count--;
    LM_ASSERT(held_bytes >= chunk.bytes);
    held_bytes -= chunk.bytes;
    return chunk;
}

static void release(const held_t *chunks, size_t n) {
    for (size_t i = 0; i < n; i++) {
        lm_tool_show(chunks[i].chunk, chunks[i].bytes);
        chunks[i].release(chunks[i].chunk, chunks[i].bytes);
    }
}

/* Allocates the ring, whose pages are touched as it fills. Returns false iff there is no memory.
 * The lock is not held, because the heap has locks of its own. */
static bool has_ring(void) {
    /* Acquire: the ring's memory may be used. */
    if (lm_load_acquire(&quarantine_held) != NULL) return true;
    held_t *ring = (held_t *)lm_block_alloc_lasting(QUARANTINE_HELD_MOST * sizeof(held_t), 1),
           *none = NULL;
    if (ring == NULL) return false;
    /* Acquire and release: the ring's memory may be used by the thread that sees it. */
    if (!__atomic_compare_exchange_n(&quarantine_held, &none, ring, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE))
        lm_block_give_back(ring);
    return true;
}

bool lm_chunk_hold(void *chunk, size_t bytes, lm_release_t *to) {
    held_t leaving[AT_A_TIME];
    size_t n = 0;
    if (bytes > HELD_BYTES || !has_ring() || !quarantine_lock_taken()) return false;
    while (count > 0 && n < AT_A_TIME &&
           (count == QUARANTINE_HELD_MOST || held_bytes + bytes > HELD_BYTES))
        leaving[n++] = quarantine_pop();
    LM_ASSERT(count <= QUARANTINE_HELD_MOST && held_bytes <= HELD_BYTES);
    bool taken = count < QUARANTINE_HELD_MOST && held_bytes + bytes <= HELD_BYTES;
    if (taken) {
        lm_tool_hide(chunk, bytes);
        quarantine_held[(oldest + count) % QUARANTINE_HELD_MOST] = (held_t){chunk, bytes, to};
        count++;
        held_bytes += bytes;
    }
    lm_lock_give(&quarantine_lock);
    release(leaving, n);
    return taken || lm_chunk_hold(chunk, bytes, to);
}

bool lm_chunks_release(void) {
    bool any = false;
    for (;;) {
        held_t leaving[AT_A_TIME];
        size_t n = 0;
        if (!quarantine_lock_taken()) return any;
        while (count > 0 && n < AT_A_TIME) leaving[n++] = quarantine_pop();
        lm_lock_give(&quarantine_lock);
        if (n == 0) return any;
        any = true;
        release(leaving, n);
    }
}
