/* later.c: freed blocks of the secure build wait, in a random order, before malloc may have them again.
 *
 *   free ──> [ block | block | ... | newest ]      an array for each class in the thread's heap
 *                 │ full: half of them, chosen at random, but never the newest
 *                 └──> lm_block_free: page, other thread's page, ...
 *
 * So an address that was just freed does not come back at once, and which comes back when nobody can foretell; and a
 * free's work on pages is done for several blocks at a time. What waits is wiped already, so that a double free and a
 * write meanwhile are seen. Blocks of any thread wait here; those of first-class heaps do not, which may be destroyed.
 * It holds back at most BLOCKS of a class or BYTES, but LEAST, and about BYTES_ALL in all for a thread; to its page a
 * block that waits is in use. It cannot delay for long: two frees of a large class, eight or more of a small one.
 * Emptied by the owner when it ends or collects, by the worker when it sleeps, and in the child of a fork.
 */
#include "heap/room.h"
#include "heap/secure.h"

#if LM_SECURE

enum { LEAST = 2, BYTES = 32768, BYTES_ALL = 512 * 1024 };

uint64_t lm_random(lm_heap_t *heap) {
    /* Nobody else's: only the owner, or who has the heap's lock, comes here. xorshift, Marsaglia 2003. */
    uint64_t x = heap->random;
    if (LM_UNLIKELY(x == 0))
        x = (lm_load_relaxed(&lm_secret) ^ (uintptr_t)heap) * 0xbf58476d1ce4e5b9u | 1;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    heap->random = x;
    return x;
}

static void grant(lm_heap_t *heap, lm_later_t *later, size_t bytes) {
    size_t room = BYTES / bytes;
    if (room > LM_LATER_MOST) room = LM_LATER_MOST;
    if (heap->later_bytes + room * bytes > BYTES_ALL || room < LEAST) room = LEAST;
    heap->later_bytes += room * bytes;
    later->room = (uint32_t)room;
}

/* The owner. Taken out before it is freed: the child of a fork must not find it in two places. */
static lm_block_t *take(lm_later_t *later, uint32_t i) {
    lm_block_t *block = later->block[i];
    uint32_t n = later->n - 1;
    lm_store_release(&later->n,
                     n); /* release, free on x86-64: in this order, as seen by that child */
    later->block[i] = later->block[n];
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    return block;
}

static void free_half(lm_heap_t *heap, lm_later_t *later, size_t bytes) {
    uint64_t random = lm_random(heap);
    lm_block_t *newest = later->block[later->n - 1];
    for (uint32_t left = (later->n + 1) / 2; left > 0; left--, random >>= 7) {
        uint32_t i = (uint32_t)((random & 127) * later->n >> 7);
        if (later->block[i] == newest) i = i == 0 ? later->n - 1 : i - 1;
        lm_block_t *block = take(later, i);
        lm_check_waited(block, bytes);
        lm_block_free(block);
    }
}

void lm_later_put(const lm_page_t *page, void *p) {
    lm_heap_t *heap = lm_heap_get();
    unsigned size_class = lm_load_relaxed(&page->foreign_class);
    if (LM_UNLIKELY(heap == NULL) || size_class == 0) {
        lm_block_free(p);
        return;
    }
    heap = heap->main;
    lm_later_t *later = &heap->later[size_class];
    if (later->room == 0) grant(heap, later, page->block_bytes);
    if (later->n == later->room) free_half(heap, later, page->block_bytes);
    uint32_t n = later->n;
    later->block[n] = (lm_block_t *)p;
    lm_store_release(&later->n, n + 1); /* as in free */
}

void lm_later_empty(lm_heap_t *heap) {
    if (heap->later_bytes == 0) return;
    for (unsigned c = 1; c < LM_CLASSES; c++) {
        lm_later_t *later = &heap->later[c];
        while (later->n > 0) {
            lm_block_t *block = take(later, later->n - 1);
            lm_check_waited(block, lm_class_bytes(c));
            lm_block_free(block);
        }
        later->room = 0;
    }
    heap->later_bytes = 0;
}

bool lm_later_waits(void) {
    const lm_heap_t *heap = lm_heap_mine();
    return heap != NULL && heap->later_bytes > 0;
}

void lm_later_return(lm_heap_t *heap) {
    if (heap->later_bytes == 0) return;
    for (unsigned c = 1; c < LM_CLASSES; c++) {
        lm_later_t *later = &heap->later[c];
        lm_block_t *list = NULL;
        for (; later->n > 0; later->n--) {
            lm_link_set(later->block[later->n - 1], list);
            list = later->block[later->n - 1];
        }
        lm_foreign_send(NULL, list);
        later->room = 0;
    }
    heap->later_bytes = 0;
}

#endif
