/* later.c: freed blocks of the secure build wait, in random places, before malloc may have them again.
 *
 *   free ──> [ block |   | block | ... ]      places for each class in the thread's heap
 *                 │ chosen at random: who is in it leaves
 *                 └──> lm_block_free: page, other thread's page, ...
 *
 * So an address that was just freed does not come back at once, and which comes back when nobody can foretell. What
 * waits is wiped already, so that a double free and a write meanwhile are seen. Blocks of any thread wait here; those
 * of first-class heaps do not, which may be destroyed. It holds back at most LM_LATER_MOST blocks of a class or BYTES,
 * but LEAST, and about BYTES_ALL in all for a thread; to its page a block that waits is in use. How long one waits is
 * chance: one free of its class at least, as many as there are places on average.
 * Emptied by the owner when it ends or collects, by the worker when it sleeps, and in the child of a fork. A block that
 * is between its place and its page while another thread forks is lost to the child.
 */
#include "heap/room.h"
#include "heap/secure.h"

#if LM_SECURE

enum { LEAST = 2, BYTES = 16384, BYTES_ALL = 512 * 1024 };

uint64_t lm_random(lm_heap_t *heap) {
    /* Nobody else's: only the owner, or who has the heap's lock, comes here. */
    if (LM_UNLIKELY(heap->random == 0))
        heap->random = (lm_load_relaxed(&lm_secret) ^ (uintptr_t)heap) * 0xbf58476d1ce4e5b9u;
    /* xorshift, Marsaglia 2003, of a counter that lm_later_turn moves on, too. */
    uint64_t x = lm_later_turn(heap);
    x ^= x << 13;
    x ^= x >> 7;
    return x ^ x << 17;
}

/* Places: a power of two. */
static void grant(lm_heap_t *heap, unsigned size_class, size_t bytes) {
    size_t places = LM_LATER_MOST;
    while (places * bytes > BYTES && places > LEAST) places /= 2;
    if (heap->later_bytes + places * bytes > BYTES_ALL) places = LEAST;
    heap->later_bytes += places * bytes;
    heap->later_mask[size_class] = (uint8_t)(places - 1);
}

void lm_later_first(const lm_page_t *page, void *p) {
    lm_heap_t *heap = lm_heap_get();
    unsigned size_class = lm_load_relaxed(&page->foreign_class);
    if (LM_UNLIKELY(heap == NULL) || size_class == 0) {
        lm_block_free(p);
        return;
    }
    heap = heap->main;
    if (heap->later_mask[size_class] == 0) {
        (void)lm_random(heap);
        grant(heap, size_class, page->block_bytes);
    }
    lm_block_t *leaves = lm_later_change(heap, size_class, p);
    if (leaves == NULL) return;
    lm_check_waited(leaves, page->block_bytes);
    lm_block_free(leaves);
}

/* Takes out what is in it. Emptied before that is freed: the child of a fork must not find it in two places. */
static lm_block_t *take(lm_block_t **place) {
    lm_block_t *block = *place;
    lm_store_release(place,
                     NULL); /* release, free on x86-64: in this order, as seen by that child */
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    return block;
}

void lm_later_empty(lm_heap_t *heap) {
    if (heap->later_bytes == 0) return;
    for (unsigned c = 1; c < LM_CLASSES; c++) {
        for (unsigned i = 0; heap->later_mask[c] != 0 && i <= heap->later_mask[c]; i++) {
            lm_block_t *block = take(&heap->later[c][i]);
            if (block == NULL) continue;
            lm_check_waited(block, lm_class_bytes(c));
            lm_block_free(block);
        }
        heap->later_mask[c] = 0;
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
        lm_block_t *list = NULL;
        for (unsigned i = 0; i < LM_LATER_MOST; i++) {
            lm_block_t *block = take(&heap->later[c][i]);
            if (block == NULL) continue;
            lm_link_set(block, list);
            list = block;
        }
        lm_foreign_send(NULL, list);
        heap->later_mask[c] = 0;
    }
    heap->later_bytes = 0;
}

#endif
