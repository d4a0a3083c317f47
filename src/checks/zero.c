/* zero.c: objects of 0 bytes in the secure build: addresses in memory without access.
 *
 *   chunk    [ 65,536 slots of 16 bytes, no access | bitmap: slots in use, 8 KiB | no access ]
 *
 * The standard lets malloc(0) return a unique pointer, through which nothing may be accessed. Here
 * a read or a write through it ends the program by SIGSEGV at once, before and after its free.
 * malloc_usable_size of it is 0. A slot is reused only after all others of its chunk had their
 * turn. A program that is known to write to such objects runs with LOAM_IGNORE=overflow: then they
 * are ordinary blocks.
 *
 * It serves malloc, calloc and operator new. Aligned objects, and objects of first-class heaps, are
 * ordinary blocks of 0 requested bytes. If CHUNKS_MOST chunks are full, or no chunk can be made,
 * ordinary blocks serve as well.
 *
 * All is lock-free, so that a fork at any moment leaves nothing locked.
 * Invariant: a set bit is an object in use.
 */
#include "checks/inner.h"

#if LM_SECURE

enum {
    SLOT = 16,
    ZERO_SLOTS = 65536, /* number of slots in a chunk */
    WORD_BITS = 64,
    WORDS = ZERO_SLOTS / WORD_BITS,
    CHUNK_BYTES = SLOT * ZERO_SLOTS,
    BITMAP_BYTES = LM_OS_UNIT, /* bytes committed for the bitmap; more than SLOTS / 8 */
    CHUNKS_MOST = 64,
};

typedef struct chunk {
    /* Address of slot 0; 0: the chunk does not exist yet. Atomic; written once, after `used`. */
    uintptr_t start;
    uint64_t *used; /* WORDS words of the bitmap, each atomic */
    uint32_t next;  /* atomic: number of the word to search first, modulo WORDS */
    uint32_t count; /* atomic: approximate number of slots in use */
} chunk_t;

static chunk_t chunks[CHUNKS_MOST];
static bool refused; /* atomic: the system refused a chunk, and is not asked again */

/* The descriptor of all objects of 0 bytes: no page, no heap, 0 bytes. */
lm_page_t lm_zero_descriptor = {.kind = LM_KIND_META, .owner = LM_OWNER_NONE};

/* Makes the chunk. Returns false iff that is not possible. Of several threads that make it at once,
 * one succeeds; the others release their memory. */
static bool zero_make(chunk_t *chunk) {
    if (lm_load_relaxed(&refused) || !lm_span_at_large()) return false;
    size_t bytes = CHUNK_BYTES + BITMAP_BYTES + LM_OS_UNIT;
    char *at = (char *)lm_os_reserve(bytes);
    if (at == NULL || lm_os_commit(at + CHUNK_BYTES, BITMAP_BYTES, true) != LM_COMMIT_DONE) {
        if (at != NULL) lm_os_release(at, bytes, false);
        lm_store_relaxed(&refused, true);
        return false;
    }
    uint64_t *none = NULL;
    /* Release: a thread that sees the bitmap sees it zeroed. Acquire, on failure: this thread then
     * uses the other thread's bitmap. */
    if (!__atomic_compare_exchange_n(&chunk->used, &none, (uint64_t *)(void *)(at + CHUNK_BYTES),
                                     false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        lm_os_release(at, bytes, false);
        at = (char *)none - CHUNK_BYTES;
    }
    LM_ASSERT(lm_load_relaxed(&chunk->used) == (uint64_t *)(void *)(at + CHUNK_BYTES));
    /* All threads store an equal value. Release: the store of the bitmap comes before it. */
    lm_store_release(&chunk->start, (uintptr_t)at);
    return true;
}

static void *zero_take(chunk_t *chunk, uintptr_t start) {
    LM_ASSERT(start != 0);
    /* Relaxed: a starting point, which other threads move as well. */
    uint32_t first = lm_add_relaxed(&chunk->next, 1);
    for (uint32_t i = 0; i < WORDS; i++) {
        uint32_t at = (first + i) % WORDS;
        uint64_t word = lm_load_relaxed(&chunk->used[at]);
        while (word != UINT64_MAX) {
            unsigned bit = (unsigned)__builtin_ctzll(~word);
            /* Relaxed: no memory behind a slot could need an order. */
            if (!__atomic_compare_exchange_n(&chunk->used[at], &word, word | (uint64_t)1 << bit,
                                             true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
                continue;
            (void)lm_add_relaxed(&chunk->count, 1);
            if (i > 0) lm_store_relaxed(&chunk->next, at + 1);
            return (void *)(start + ((size_t)at * WORD_BITS + bit) * SLOT);
        }
    }
    return NULL;
}

void *lm_zero_alloc(void) {
    if (lm_wrong_goes_on(LM_MISTAKE_OVERFLOW)) return NULL;
    for (unsigned c = 0; c < CHUNKS_MOST; c++) {
        chunk_t *chunk = &chunks[c];
        /* Acquire: pairs with the release store of `start`; the bitmap is visible. */
        if (lm_load_acquire(&chunk->start) == 0 && !zero_make(chunk)) return NULL;
        /* Relaxed: a chunk that seems full by mistake serves later. */
        if (lm_load_relaxed(&chunk->count) >= ZERO_SLOTS - ZERO_SLOTS / 16) continue;
        void *p = zero_take(chunk, chunk->start);
        if (p != NULL) return p;
    }
    return NULL;
}

static chunk_t *chunk_of(const void *p) {
    for (unsigned c = 0; c < CHUNKS_MOST; c++) {
        uintptr_t start = lm_load_acquire(&chunks[c].start); /* acquire: the bitmap is visible */
        if (start == 0) return NULL;
        if ((uintptr_t)p - start < CHUNK_BYTES) return &chunks[c];
    }
    return NULL;
}

static size_t zero_slot_of(const chunk_t *chunk, const void *p) {
    LM_ASSERT((uintptr_t)p - lm_load_relaxed(&chunk->start) < CHUNK_BYTES);
    return ((uintptr_t)p - chunk->start) / SLOT;
}

lm_page_t *lm_zero_checked(const void *p, const char *function, bool *inside) {
    const chunk_t *chunk = chunk_of(p);
    *inside = chunk != NULL;
    if (chunk == NULL) return NULL;
    size_t slot = zero_slot_of(chunk, p);
    bool used = (lm_load_relaxed(&chunk->used[slot / WORD_BITS]) >> slot % WORD_BITS & 1) != 0;
    bool begins = (uintptr_t)p % SLOT == 0;
    if (used && begins) return &lm_zero_descriptor;
    if (function == NULL) return NULL;
    bool freeing = function[0] == 'f';
    if (begins)
        lm_wrong(LM_MISTAKE_DOUBLE_FREE, "%s%s of %p (object of 0 B, ",
                 freeing ? "double free" : function, freeing ? "" : " after free", p);
    else
        lm_wrong(LM_MISTAKE_MISALIGNED, "misaligned pointer %p passed to %s (object of 0 B, ", p,
                 function);
    return NULL;
}

/* Frees p, or reports a double free: of two frees at once, one finds the bit cleared. */
void lm_zero_free(void *p) {
    chunk_t *chunk = chunk_of(p);
    LM_ASSERT(chunk != NULL && (uintptr_t)p % SLOT == 0);
    size_t slot = zero_slot_of(chunk, p);
    uint64_t bit = (uint64_t)1 << slot % WORD_BITS;
    bool inside;
    /* Relaxed: no memory behind a slot could need an order. */
    if ((__atomic_fetch_and(&chunk->used[slot / WORD_BITS], ~bit, __ATOMIC_RELAXED) & bit) != 0)
        (void)lm_add_relaxed(&chunk->count, (uint32_t)-1);
    else
        (void)lm_zero_checked(p, "free", &inside);
}

#endif
