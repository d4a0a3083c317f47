/* verify.c: checks every object and every free block of the process, of any thread and heap, when
 * the program asks.
 *
 *   every span ──> list ──> page    blocks in use: their ends; free ones: what they are filled with
 *                        ├─> large   its end
 *                        └─> sampled objects: the memory around each
 *
 *   debug     fences, end words and fills (fence.c, reuse.c)
 *   secure    canaries and zeros (secure.c)
 *   release   links of free lists that lead out of their page, blocks that are listed twice, blocks
 *             that were never used and are not zero: nothing lies around an object to check
 *
 * Mistakes are reported as by free, so the first one ends the program unless the user chose
 * otherwise. No lock is held during a report. It cannot be used while other threads allocate or
 * free: their unfinished work would look like a mistake. It cannot see what lies in objects, what
 * was freed and returned to the system, or, in checked builds, lists themselves, whose links are
 * checked as they are used.
 * Invariant: without a mistake of the program it reports nothing and returns 0.
 */
#include "survey/survey.h"

#include <string.h>

typedef struct spans {
    lm_page_t **at;
    size_t count, room;
    lm_page_t *memory;
} verify_spans_t;

static void verify_add(lm_page_t *span, void *context) {
    verify_spans_t *spans = (verify_spans_t *)context;
    if (span->kind != LM_KIND_PAGE && span->kind != LM_KIND_LARGE) return;
    if (spans->count < spans->room) spans->at[spans->count] = span;
    spans->count++;
}

/* Returns false iff there is no memory for the list. */
static bool verify_collect(verify_spans_t *spans) {
    *spans = (verify_spans_t){NULL, 0, 0, NULL};
    for (;;) {
        spans->count = 0;
        lm_span_visit(verify_add, spans);
        if (spans->count <= spans->room) return true;
        if (spans->memory != NULL) lm_span_give_meta(spans->memory, false);
        size_t slices = spans->count * sizeof(lm_page_t *) / LM_SLICE_BYTES + 1;
        spans->memory = lm_span_take(slices, 1, LM_KIND_META, NULL);
        if (spans->memory == NULL) return false;
        LM_ASSERT(slices * LM_SLICE_BYTES / sizeof(lm_page_t *) >= spans->count);
        spans->at = (lm_page_t **)(void *)lm_span_start(spans->memory);
        spans->room = slices * LM_SLICE_BYTES / sizeof(lm_page_t *);
    }
}

#if LOAM_DEBUG

/* Checks the blocks of a page. Damage between two blocks is reported with the first; for the second
 * only its own end is checked then. */
static void look_at_page(const lm_page_t *page) {
    /* Acquire: pairs with the release store that comes before a write to a block without an end
     * word. */
    bool damaged = false, raw = lm_load_acquire(&page->raw);
    for (size_t i = 0; i < page->carved; i++) {
        const char *block = lm_span_start(page) + i * page->block_bytes;
        const char *end = block + page->block_bytes;
        size_t requested;
        lm_state_t state = lm_word_get(end, &requested);
        bool was_damaged = damaged;
        damaged = false;
        if (state == LM_STATE_FREED) {
            damaged = !lm_reuse_intact(page, block);
            continue;
        }
        const void *object = lm_block_object(page, block);
        if (object == NULL || (raw && state == LM_STATE_BROKEN)) continue;
        if (was_damaged && state == LM_STATE_USED && lm_fence_past(object, requested, end) == 0)
            continue;
        damaged = !lm_intact(page, object, "check");
    }
    lm_fence_check_page(page);
}

static void look_at_large(const lm_page_t *page) {
    const void *object = lm_block_object(page, lm_span_start(page));
    if (object != NULL) (void)lm_intact(page, object, "check");
}

#elif LM_SECURE

static void look_at_page(const lm_page_t *page) {
    /* Acquire: pairs with the release store that comes before a write to a block without a
     * canary. */
    bool raw = lm_load_acquire(&page->raw);
    for (size_t i = 0; i < page->carved; i++) {
        const char *block = lm_span_start(page) + i * page->block_bytes;
        size_t slack;
        if (lm_is_offset(page)) {
            const void *object = lm_block_object(page, block);
            if (object != NULL) (void)lm_intact(page, object, "check");
        } else if (lm_block_is_free(page, block)) {
            if (!raw) lm_secure_look_at_free(page, block);
        } else if (!raw || lm_has_canary(block, page->block_bytes, &slack)) {
            (void)lm_intact(page, block, "check");
        }
    }
}

static void look_at_large(const lm_page_t *page) {
    /* An object at an offset also ends where its span's usable bytes end. */
    (void)lm_large_intact(page, "check");
}

#else

enum { VERIFY_BLOCKS_MOST = LM_SLICE_BYTES * 8 / 16 };

/* A bit for each block of one page that was met in a list. */
typedef struct met {
    uint8_t bit[VERIFY_BLOCKS_MOST / 8];
} met_t;

static void damaged_list(const lm_page_t *page, const void *block) {
    lm_wrong(LM_WRONG_DAMAGE + LM_MISTAKE_USE_AFTER_FREE,
             "free list damaged at %p: written after free (size class %u B, ", block,
             page->block_bytes);
}

/* Returns whether a block of the page begins at p. */
static bool verify_is_block(const lm_page_t *page, const void *p) {
    size_t at = (size_t)((const char *)p - lm_span_start(page));
    return at / page->block_bytes < page->carved && at % page->block_bytes == 0;
}

/* Follows a list of blocks of the page as long as its links lead to blocks of the page. Reports a
 * link that does not, and a block that was met before. */
static void look_at_list(const lm_page_t *page, const lm_block_t *list, met_t *met) {
    const lm_block_t *before = NULL;
    for (; list != NULL; before = list, list = lm_link_get(list)) {
        if (!verify_is_block(page, list)) {
            damaged_list(page, before != NULL ? before : list);
            return;
        }
        size_t i = (size_t)((const char *)list - lm_span_start(page)) / page->block_bytes;
        if ((met->bit[i / 8] >> i % 8 & 1) != 0) {
            lm_wrong(LM_MISTAKE_DOUBLE_FREE,
                     "double free of %p: it is free twice (size class %u B, ", (const void *)list,
                     page->block_bytes);
            return;
        }
        met->bit[i / 8] |= (uint8_t)(1u << i % 8);
    }
}

/* Reports a block in the heap's head that was never handed out and is not zero: calloc takes such a
 * block for zero. */
static void look_at_zeroes(const lm_page_t *page, const lm_block_t *list) {
    for (; list != NULL && verify_is_block(page, list); list = lm_link_get(list)) {
        const char *p = (const char *)list, *end = p + page->block_bytes;
        for (p += sizeof *list; p < end && *p == 0;) p++;
        if (p == end) continue;
        lm_wrong(LM_WRONG_DAMAGE + LM_MISTAKE_OVERFLOW,
                 "write to %p, of a block at %p that was never allocated (size class %u B, ",
                 (const void *)p, (const void *)list, page->block_bytes);
        return;
    }
}

static void look_at_page(const lm_page_t *page) {
    met_t met = {{0}};
    look_at_list(page, page->free, &met);
    /* Acquire: the links of threads that pushed blocks are visible. */
    uint64_t remote = lm_load_acquire(&page->remote);
    if (lm_remote_count(remote) > 0) look_at_list(page, lm_remote_at(page, remote >> 48), &met);
    const lm_theap_t *heap = page->heap;
    unsigned c = page->size_class;
    if (page->in_list != LM_AT_CURRENT || heap == NULL || heap->current[c] != page) return;
    if (heap->holds[c] == LM_HOLDS_OTHERS) return;
    look_at_list(page, heap->head[c], &met);
    if (heap->holds[c] == LM_HOLDS_ZERO) look_at_zeroes(page, heap->head[c]);
}

static void look_at_large(const lm_page_t *page) { (void)page; }

#endif

/* Checks sampled objects. Damage is reported without the lock. */
static void look_at_sampled(void) {
    for (uint32_t i = 0;; i++) {
        ptrdiff_t beyond = 0;
        lm_sampled_lock();
        bool end = lm_sampled.base == NULL || i >= lm_sampled.count;
        const lm_slot_t *slot = end ? NULL : &lm_sampled.slots[i];
        if (!end && slot->state == LM_SLOT_USED)
            beyond = lm_sampled_beyond(slot, lm_page_of(slot->object)->bytes);
        lm_sampled_unlock();
        if (end) return;
        if (beyond != 0) lm_sampled_damaged(i, beyond, "a check");
    }
}

size_t lm_verify(bool *all) {
    /* Relaxed: only this thread counts, if the others rest. */
    size_t before = lm_load_relaxed(&lm_wrong_count);
    verify_spans_t spans;
    if (lm_heap_mine() != NULL) (void)lm_heap_get(); /* the heap may be parked */
    lm_purge_pause();
    lm_idle_hold();
    *all = verify_collect(&spans);
    for (size_t i = 0; *all && i < spans.count; i++) {
        const lm_page_t *span = spans.at[i];
        if (span->kind == LM_KIND_PAGE) look_at_page(span);
        if (span->kind == LM_KIND_LARGE) look_at_large(span);
    }
    look_at_sampled();
    if (spans.memory != NULL) lm_span_give_meta(spans.memory, false);
    lm_idle_let();
    lm_purge_resume();
    return lm_load_relaxed(&lm_wrong_count) - before;
}
