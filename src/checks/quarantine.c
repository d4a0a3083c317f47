/* quarantine.c: freed blocks of the secure build wait, in random order, before malloc may have them
 * again.
 *
 *               taken            ready           ready + mask + 1
 *   malloc <────── [ block | block | block | block |   | block ] <── free: takes the place
 *                  └── malloc may ──┘ └── must wait, 8 ──┘      of one of the youngest, which
 *                                                               moves to the end; in a full ring
 *                                                               the ready blocks leave first
 *
 * The thread's heap has a ring for each small class, and one for all others. So an address that was
 * just freed does not come back at once, and which comes back when nobody can foretell; but only
 * the youngest four change places, because what a program frees together it uses together, and
 * where blocks of the class are many none do (secure_page.c, lm_order). What waits is wiped
 * already, so that a double free and a write meanwhile are seen. Malloc takes the next small one
 * that has waited from here, before it looks into lists of pages: most blocks never go back to
 * theirs. Larger ones do: else pages of few blocks would stay for one each. Blocks of any thread
 * wait here; those of first-class heaps do not, which may be destroyed.
 * It holds back at most LM_QUARANTINE_MOST blocks of a small class or BYTES, but LEAST, and BYTES_ALL in
 * all for a thread (those of LEAST apart); OTHERS of the larger ones; less where threads are many.
 * To its page a block that waits is in use: more of them would keep more pages. How long one waits
 * is chance: one free of its ring at least, as many as must wait on average. While somebody counts
 * allocations (lm_quiet_most) malloc takes none. Emptied by the owner when it ends or collects, by
 * the worker when it sleeps, and in the child of a fork. Blocks that are between their places and
 * their pages while another thread forks are lost to the child. Invariant: ready - taken <= most,
 * most + mask + 1 == places; those from `taken` to the end hold free blocks of the classes, or
 * NULL, and no block is in two of them.
 */
#include "checks/inner.h"

#if LM_SECURE

enum { WAIT = 8, LEAST = 2, OTHERS = 8, BYTES = 8192, BYTES_ALL = 256 * 1024 };

uint64_t lm_random(lm_heap_t *heap) {
    /* Nobody else's: only the owner, or who has the heap's lock, comes here. */
    if (LM_UNLIKELY(heap->quarantine.random == 0))
        heap->quarantine.random =
            (lm_load_relaxed(&lm_secret) ^ (uintptr_t)heap) * 0xbf58476d1ce4e5b9u;
    /* xorshift, Marsaglia 2003, for the lower half. */
    uint64_t x = heap->quarantine.random = lm_random_after(heap->quarantine.random);
    x ^= x << 13;
    x ^= x >> 7;
    return x ^ x << 17;
}

void lm_quarantine_keep_order(lm_heap_t *heap, unsigned ring, bool in_order) {
    lm_quarantine_ring_t *later = &heap->quarantine.ring[ring];
    later->in_order = in_order;
    later->among = in_order ? 0 : later->mask & 3;
}

static bool heap_holds(const lm_heap_t *heap, unsigned ring, const void *p) {
    const lm_quarantine_ring_t *later = &heap->quarantine.ring[ring];
    lm_block_t *const *places = lm_load_relaxed(&later->places);
    if (places == NULL) return false;
    size_t first = lm_load_relaxed(&later->taken);
    size_t behind = lm_load_relaxed(&later->ready) + later->mask + 1;
    if (behind - first > LM_QUARANTINE_PLACES) return false;
    for (size_t i = first; i != behind; i++) {
        if (lm_load_relaxed(&places[i & later->last]) == p) return true;
    }
    return false;
}

/* What empties a heap's rings for another thread holds the registry's lock, and may come here. */
bool lm_quarantine_holds(const lm_page_t *page, const void *p) {
    unsigned size_class = lm_load_relaxed(&page->foreign_class),
             ring = lm_quarantine_ring(size_class);
    bool found = false;
    if (lm_os_worker_self() || !lm_lock_try(&lm_registry_lock)) return false;
    for (lm_node_t *at = lm_registry.first; at != NULL && !found;
         at = lm_list_after(&lm_registry, at))
        found = heap_holds(LM_CONTAINER(at, lm_heap_t, link), ring, p);
    lm_lock_give(&lm_registry_lock);
    return found;
}

/* How many blocks of a small class may wait. */
static size_t places_for(lm_heap_t *heap, size_t bytes, bool many) {
    size_t places = LM_QUARANTINE_MOST, most = many ? BYTES / 4 : BYTES;
    while (places * bytes > most && places > LEAST) places /= 2;
    if (heap->quarantine.bytes + places * bytes > (many ? BYTES_ALL / 8 : BYTES_ALL))
        places = LEAST;
    if (places > LEAST) heap->quarantine.bytes += places * bytes;
    return places;
}

static void grant(lm_heap_t *heap, unsigned ring) {
    /* Relaxed: a number. */
    bool many = lm_load_relaxed(&lm_heaps_active) > lm_load_relaxed(&lm_heaps_many);
    size_t others = many ? OTHERS / 2 : OTHERS,
           places =
               ring == LM_QUARANTINE_OTHERS ? others : places_for(heap, lm_class_bytes(ring), many),
           wait = places / 2 < WAIT ? places / 2 : WAIT;
    unsigned first = heap->quarantine.places;
    heap->quarantine.places += (unsigned)places;
    LM_ASSERT(heap->quarantine.places <= LM_QUARANTINE_PLACES); /* if all rings have some */
    lm_quarantine_ring_t *later = &heap->quarantine.ring[ring];
    memset(&heap->quarantine.place[first], 0, places * sizeof *later->places);
    later->ready = later->taken = heap->quarantine.left[ring] = 0;
    later->mask = (uint8_t)(wait - 1);
    later->last = (uint8_t)(places - 1);
    later->places = &heap->quarantine.place[first];
    lm_quarantine_keep_order(heap, ring, later->in_order);
    /* Release, free on x86-64: what the child of a fork finds hangs together. */
    lm_store_release(&later->most, (uint8_t)(places - wait));
}

/* The first n places are empty, whatever they say. Before anything in them is freed: the child of a
 * fork must not find it in two places. Returns the number of the first. */
LM_INLINE size_t take(lm_heap_t *heap, unsigned ring, size_t n) {
    lm_quarantine_ring_t *later = &heap->quarantine.ring[ring];
    size_t taken = later->taken;
    lm_store_relaxed(&heap->quarantine.left[ring], heap->quarantine.left[ring] + n);
    lm_store_release(&later->taken, taken + n); /* release, free on x86-64: for that child */
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    return taken;
}

/* The n that have waited longest. */
static void leave(lm_heap_t *heap, unsigned ring, size_t n) {
    lm_quarantine_ring_t *later = &heap->quarantine.ring[ring];
    size_t bytes = lm_class_bytes(ring), first = take(heap, ring, n);
    for (size_t i = first; i != first + n; i++) {
        lm_block_t *block = *lm_quarantine_place(later, i);
        if (block == NULL) continue;
        lm_check_waited(block,
                        ring == LM_QUARANTINE_OTHERS ? lm_page_of(block)->block_bytes : bytes);
        lm_block_free(block);
    }
}

void lm_quarantine_make_room(const lm_page_t *page, void *p) {
    lm_heap_t *heap = lm_heap_get();
    unsigned size_class = lm_load_relaxed(&page->foreign_class),
             ring = lm_quarantine_ring(size_class);
    if (LM_UNLIKELY(heap == NULL) || size_class == 0) {
        lm_block_free(p);
        return;
    }
    heap = heap->fheap.own_heap;
    lm_quarantine_ring_t *later = &heap->quarantine.ring[ring];
    if (!lm_quarantine_has_coins(heap))
        heap->quarantine.coins = lm_random(heap) | (uint64_t)1 << 63;
    if (later->most == 0)
        grant(heap, ring);
    else if (later->ready - later->taken >= later->most)
        leave(heap, ring, later->most);
    if (LM_UNLIKELY(!lm_quarantine_put(heap, ring, p))) lm_block_free(p);
}

/* Places in use, by blocks or NULL. */
LM_INLINE size_t waiting(const lm_quarantine_ring_t *later) {
    return later->most != 0 ? later->ready + later->mask + 1 - later->taken : 0;
}

size_t lm_quarantine_count(const lm_heap_t *heap, unsigned size_class) {
    unsigned ring = lm_quarantine_ring(size_class);
    const lm_quarantine_ring_t *later = &heap->quarantine.ring[ring];
    size_t count = 0, end = later->taken + waiting(later);
    for (size_t i = later->taken; i != end; i++) {
        const lm_block_t *block = *lm_quarantine_place(later, i);
        count += block != NULL &&
                 (ring != LM_QUARANTINE_OTHERS || lm_page_of(block)->size_class == size_class);
    }
    return count;
}

/* They are empty. */
static void end_ring(lm_heap_t *heap, unsigned ring) {
    lm_quarantine_ring_t *later = &heap->quarantine.ring[ring];
    if (ring != LM_QUARANTINE_OTHERS) {
        size_t reused = lm_quarantine_reused(heap, ring), bytes = reused * lm_class_bytes(ring);
        lm_count_others(ring, reused);
        lm_bytes_add(heap, bytes, bytes);
    }
    later->most = 0;
    lm_store_release(&heap->quarantine.left[ring], 0); /* release: as in grant */
    lm_store_release(&later->taken, 0);
    lm_store_release(&later->ready, 0);
}

void lm_quarantine_empty(lm_heap_t *heap) {
    if (heap->quarantine.places == 0) return;
    for (unsigned r = 1; r < LM_QUARANTINE_RINGS; r++) {
        lm_quarantine_ring_t *later = &heap->quarantine.ring[r];
        if (later->most == 0) continue;
        leave(heap, r, waiting(later));
        end_ring(heap, r);
    }
    heap->quarantine.bytes = 0;
    heap->quarantine.places = 0;
}

bool lm_quarantine_waits(void) {
    const lm_heap_t *heap = lm_heap_mine();
    return heap != NULL && heap->quarantine.places > 0;
}

void lm_quarantine_return(lm_heap_t *heap) {
    if (heap->quarantine.places == 0) return;
    for (unsigned r = 1; r < LM_QUARANTINE_RINGS; r++) {
        lm_quarantine_ring_t *later = &heap->quarantine.ring[r];
        if (later->most == 0) continue;
        lm_block_t *list = NULL;
        size_t n = waiting(later), first = take(heap, r, n);
        for (size_t i = first; i != first + n; i++) {
            lm_block_t *block = *lm_quarantine_place(later, i);
            if (block == NULL) continue;
            lm_link_set(block, list);
            list = block;
        }
        lm_bytes_freed(heap, list);
        lm_foreign_send(NULL, list);
        end_ring(heap, r);
    }
    heap->quarantine.bytes = 0;
    heap->quarantine.places = 0;
}

#endif
