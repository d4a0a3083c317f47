/* quarantine.c: freed blocks of the secure build wait, in random order, before malloc reuses them.
 *
 *                taken            ready           ready + mask + 1
 *   malloc <────── [ block | block | block | block |   | block ] <── free: takes the place
 *                  └── malloc may ──┘ └── must wait, 8 ──┘      of one of the youngest, which
 *                                                               moves to the end; in a full ring
 *                                                               the ready blocks leave first
 *
 * Each thread heap has one ring for each small class and one ring for all other classes. So an
 * address that was just freed does not come back at once, and its return cannot be predicted. Only
 * the youngest four blocks change places, because a program uses together what it frees together.
 * Where a class has many blocks, no block changes places (secure_page.c, lm_order). Blocks in the
 * rings are wiped, so that a double free or a write meanwhile shows. Malloc takes the next small
 * block from its ring before it looks into the lists of pages: most small blocks never return to
 * their page. Larger blocks do, because pages of few blocks would otherwise stay for one block
 * each. Blocks of any thread's pages wait here. Blocks of first-class heaps do not: those heaps may
 * be destroyed.
 *
 * Limits: a ring of a small class holds back at most LM_QUARANTINE_MOST blocks and BYTES bytes, but
 * at least LEAST blocks. All rings of a thread hold back at most BYTES_ALL bytes; rings of LEAST
 * blocks do not count. The ring of larger classes holds back OTHERS blocks. Where threads are many,
 * these limits are smaller. A block that waits counts as in use for its page, so longer rings would
 * keep more pages. Chance decides how long a block waits: at least one free into its ring, and on
 * average as many frees as blocks must wait. While some thread counts allocations
 * (lm_slowpath_hook_limit), malloc takes no block from a ring. The owner empties the rings when it
 * ends or collects, the worker when the owner sleeps, and the child after a fork. Blocks between
 * their ring and their page while another thread forks are lost to the child.
 * Invariant: ready - taken <= most, and most + mask + 1 == places. The places from `taken` to the
 * end hold free blocks of the classes, or NULL, and no block is in two of them.
 */
#include "checks/inner.h"

#if LM_SECURE

enum {
    WAIT = 8,
    QUARANTINE_LEAST = 2,
    OTHERS = 8,
    QUARANTINE_BYTES = 8192,
    BYTES_ALL = 256 * 1024
};

uint64_t lm_random(lm_theap_t *heap) {
    /* Only the owner, or a thread with the heap's lock, comes here, so the state needs no order. */
    LM_ASSERT(lm_load_relaxed(&lm_secret) != 0);
    if (LM_UNLIKELY(heap->quarantine.random == 0))
        heap->quarantine.random =
            (lm_load_relaxed(&lm_secret) ^ (uintptr_t)heap) * 0xbf58476d1ce4e5b9u;
    /* xorshift (Marsaglia 2003) improves the lower half. */
    uint64_t x = heap->quarantine.random = lm_random_after(heap->quarantine.random);
    x ^= x << 13;
    x ^= x >> 7;
    return x ^ x << 17;
}

void lm_quarantine_keep_order(lm_theap_t *heap, unsigned ring, bool in_order) {
    LM_ASSERT(ring > 0 && ring < LM_QUARANTINE_RINGS);
    lm_quarantine_ring_t *later = &heap->quarantine.ring[ring];
    later->in_order = in_order;
    later->among = in_order ? 0 : later->mask & 3;
}

static bool heap_holds(const lm_theap_t *heap, unsigned ring, const void *p) {
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

/* Tries the registry's lock, because a caller that empties a heap's rings for another thread holds
 * it. */
bool lm_quarantine_holds(const lm_page_t *page, const void *p) {
    unsigned size_class = lm_load_relaxed(&page->foreign_class),
             ring = lm_quarantine_ring(size_class);
    bool found = false;
    if (lm_os_worker_self() || !lm_lock_try(&lm_registry_lock)) return false;
    LM_EACH_HEAP(heap) {
        found = heap_holds(heap, ring, p);
        if (found) break;
    }
    lm_lock_give(&lm_registry_lock);
    return found;
}

/* Returns the number of places of a small class's ring, and charges them to the heap's budget of
 * bytes. many: threads are many. */
static size_t places_for(lm_theap_t *heap, size_t bytes, bool many) {
    size_t places = LM_QUARANTINE_MOST, most = many ? QUARANTINE_BYTES / 4 : QUARANTINE_BYTES;
    while (places * bytes > most && places > QUARANTINE_LEAST) places /= 2;
    if (heap->quarantine.bytes + places * bytes > (many ? BYTES_ALL / 8 : BYTES_ALL))
        places = QUARANTINE_LEAST;
    if (places > QUARANTINE_LEAST) heap->quarantine.bytes += places * bytes;
    LM_ASSERT(heap->quarantine.bytes <= BYTES_ALL);
    LM_ASSERT(places >= QUARANTINE_LEAST && lm_is_pow2(places));
    return places;
}

static void quarantine_grant(lm_theap_t *heap, unsigned ring) {
    /* Relaxed: an estimate is enough. */
    bool many = lm_load_relaxed(&lm_heaps_active) > lm_load_relaxed(&lm_heaps_many);
    size_t others = many ? OTHERS / 2 : OTHERS,
           places =
               ring == LM_QUARANTINE_OTHERS ? others : places_for(heap, lm_class_bytes(ring), many),
           wait = places / 2 < WAIT ? places / 2 : WAIT;
    unsigned first = heap->quarantine.places;
    heap->quarantine.places += (unsigned)places;
    LM_ASSERT(heap->quarantine.places <= LM_QUARANTINE_PLACES); /* enough places for all rings */
    lm_quarantine_ring_t *later = &heap->quarantine.ring[ring];
    LM_ASSERT(later->most == 0);
    memset(&heap->quarantine.place[first], 0, places * sizeof *later->places);
    later->ready = later->taken = heap->quarantine.left[ring] = 0;
    later->mask = (uint8_t)(wait - 1);
    later->last = (uint8_t)(places - 1);
    later->places = &heap->quarantine.place[first];
    lm_quarantine_keep_order(heap, ring, later->in_order);
    /* Release, free on x86-64: the child of a fork finds a consistent ring. */
    lm_store_release(&later->most, (uint8_t)(places - wait));
    LM_ASSERT((size_t)later->most + later->mask == later->last);
    LM_ASSERT(lm_is_pow2((size_t)later->mask + 1));
}

/* Marks the first n places of the ring as empty, whatever they contain. Callers free the blocks
 * afterwards: the child of a fork must not find a block in two places. Returns the first place's
 * number. */
LM_INLINE size_t quarantine_take(lm_theap_t *heap, unsigned ring, size_t n) {
    lm_quarantine_ring_t *later = &heap->quarantine.ring[ring];
    size_t taken = later->taken;
    /* Release, free on x86-64, both: the child of a fork sees this before the frees. It counts what
     * lies between the two as in use, because these blocks are lost there. */
    lm_store_release(&later->taken, taken + n);
    lm_store_release(&heap->quarantine.left[ring], heap->quarantine.left[ring] + n);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    return taken;
}

/* Blocks that have left a ring, or NULL. They are here before the first of them is checked: a check
 * may call the program's error handler, which may free into the places that the blocks have left,
 * or wait, so that the worker ends the ring. */
typedef struct leaving {
    size_t n;
    lm_block_t *blocks[LM_QUARANTINE_MOST];
} leaving_t;

/* Takes the n blocks that have waited longest out of the ring. */
static void quarantine_leave(lm_theap_t *heap, unsigned ring, size_t n, leaving_t *leaving) {
    const lm_quarantine_ring_t *later = &heap->quarantine.ring[ring];
    LM_ASSERT(n <= later->ready + later->mask + 1 - later->taken && n <= LM_QUARANTINE_MOST);
    size_t first = quarantine_take(heap, ring, n);
    for (size_t i = 0; i < n; i++) leaving->blocks[i] = *lm_quarantine_place(later, first + i);
    leaving->n = n;
}

/* Moves blocks that have left a ring to where free puts blocks. */
static void quarantine_free(unsigned ring, const leaving_t *leaving) {
    size_t bytes = lm_class_bytes(ring);
    for (size_t i = 0; i < leaving->n; i++) {
        lm_block_t *block = leaving->blocks[i];
        if (block == NULL) continue;
        lm_check_waited(block,
                        ring == LM_QUARANTINE_OTHERS ? lm_page_of(block)->block_bytes : bytes);
        lm_block_free(block);
    }
}

/* The calling thread is emptying its rings. What the program's error handler frees meanwhile does
 * not wait: a ring that began anew would keep places that are about to be given up. */
static LM_TLS bool emptying;

void lm_quarantine_put_slow(const lm_page_t *page, void *p) {
    lm_theap_t *heap = lm_heap_get();
    unsigned size_class = lm_load_relaxed(&page->foreign_class),
             ring = lm_quarantine_ring(size_class);
    if (LM_UNLIKELY(heap == NULL) || size_class == 0 || emptying) {
        lm_block_free(p);
        return;
    }
    heap = heap->fheap.own_heap;
    lm_quarantine_ring_t *later = &heap->quarantine.ring[ring];
    LM_ASSERT(later->most == 0 || later->ready - later->taken <= later->most);
    if (!lm_quarantine_has_coins(heap))
        heap->quarantine.coins = lm_random(heap) | (uint64_t)1 << 63;
    if (later->most == 0) {
        quarantine_grant(heap, ring);
    } else if (later->ready - later->taken >= later->most) {
        leaving_t leaving;
        quarantine_leave(heap, ring, later->most, &leaving);
        quarantine_free(ring, &leaving);
    }
    if (LM_UNLIKELY(!lm_quarantine_put(heap, ring, p))) lm_block_free(p);
}

/* Returns the number of places in use, by a block or NULL. */
LM_INLINE size_t waiting(const lm_quarantine_ring_t *later) {
    return later->most != 0 ? later->ready + later->mask + 1 - later->taken : 0;
}

size_t lm_quarantine_count(const lm_theap_t *heap, unsigned size_class) {
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

/* Makes a ring one that holds nothing. Release, free on x86-64: in this order, as seen by the child
 * of a fork, which clears a ring that holds nothing once more. */
static void clear_ring(lm_theap_t *heap, unsigned ring) {
    lm_quarantine_ring_t *later = &heap->quarantine.ring[ring];
    lm_store_release(&later->most, 0);
    lm_store_release(&heap->quarantine.left[ring], 0);
    lm_store_release(&later->taken, 0);
    lm_store_release(&later->ready, 0);
}

/* Ends a ring whose places are all empty, and counts the blocks that malloc has reused from it. */
static void end_ring(lm_theap_t *heap, unsigned ring) {
    if (ring != LM_QUARANTINE_OTHERS) {
        size_t reused = lm_quarantine_reused(heap, ring), bytes = reused * lm_class_bytes(ring);
        lm_count_others(ring, reused);
        lm_bytes_add(heap, bytes, bytes);
    }
    clear_ring(heap, ring);
}

void lm_quarantine_empty(lm_theap_t *heap) {
    if (heap->quarantine.places == 0 || emptying) return;
    emptying = true;
    for (unsigned r = 1; r < LM_QUARANTINE_RINGS; r++) {
        lm_quarantine_ring_t *later = &heap->quarantine.ring[r];
        if (later->most == 0) continue;
        leaving_t leaving;
        quarantine_leave(heap, r, waiting(later), &leaving);
        end_ring(heap, r);
        quarantine_free(r, &leaving);
    }
    heap->quarantine.bytes = 0;
    heap->quarantine.places = 0;
    emptying = false;
}

bool lm_quarantine_waits(void) {
    const lm_theap_t *heap = lm_heap_mine();
    return heap != NULL && heap->quarantine.places > 0;
}

void lm_quarantine_return(lm_theap_t *heap) {
    if (heap->quarantine.places == 0) return;
    for (unsigned r = 1; r < LM_QUARANTINE_RINGS; r++) {
        lm_quarantine_ring_t *later = &heap->quarantine.ring[r];
        if (later->most == 0) {
            clear_ring(heap, r); /* a thread that the child of a fork lacks was clearing it */
            continue;
        }
        lm_block_t *list = NULL;
        size_t n = waiting(later), first = quarantine_take(heap, r, n);
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
