/* visit.c: what is in a heap: its spans, its blocks in use, and whether a pointer is its own.
 *
 *   pages of its branches ──> list of spans (in memory of its own)
 *                               └──> for each: which blocks are free? ──> area, blocks
 *
 * A block is in use iff it was carved and is on no list: neither the page's own, nor that of remote
 * frees, nor a head of the branch, where blocks of a larger class may lie as well. Each page costs
 * a walk of these lists. The worker pauses meanwhile, so nothing moves if no thread uses the heap.
 * It cannot find blocks of a thread's own heap that other threads have freed and still hold: they
 * count as in use. A first-class heap has no such blocks.
 */
#include "survey/survey.h"

#include <string.h>

enum { VISIT_BLOCKS_MOST = LM_SLICE_BYTES / 16 };

typedef struct spans {
    lm_page_t **at;
    size_t count, room;
    lm_page_t *memory;
} visit_spans_t;

static void visit_add(visit_spans_t *spans, lm_page_t *span) {
    if (spans->count < spans->room) spans->at[spans->count] = span;
    spans->count++;
}

static void add_list(visit_spans_t *spans, const lm_list_t *list) {
    for (lm_node_t *n = list->first; n != NULL; n = lm_list_after(list, n))
        visit_add(spans, LM_CONTAINER(n, lm_page_t, link));
}

static void add_pages(visit_spans_t *spans, const lm_theap_t *heap) {
    for (unsigned c = 1; c < LM_CLASSES; c++) {
        if (heap->current[c] != NULL) visit_add(spans, heap->current[c]);
        add_list(spans, &heap->partial[c]);
        add_list(spans, &heap->full[c]);
    }
}

static void visit_add_all(visit_spans_t *spans, struct loam_heap *fheap) {
    if (fheap == NULL) {
        const lm_theap_t *own = lm_heap_mine();
        if (own != NULL) add_pages(spans, own);
        return;
    }
    for (lm_node_t *n = fheap->branches.first; n != NULL; n = lm_list_after(&fheap->branches, n))
        add_pages(spans, LM_CONTAINER(n, lm_theap_t, fheap.sibling));
    lm_lock_take(&fheap->lock);
    add_list(spans, &fheap->large);
    lm_lock_give(&fheap->lock);
}

/* Lists the heap's spans. Returns false iff there is no memory for the list. */
static bool visit_collect(visit_spans_t *spans, struct loam_heap *fheap) {
    *spans = (visit_spans_t){NULL, 0, 0, NULL};
    for (;;) {
        lm_lock_take(&lm_registry_lock);
        spans->count = 0;
        visit_add_all(spans, fheap);
        lm_lock_give(&lm_registry_lock);
        if (spans->count <= spans->room) return true;
        if (spans->memory != NULL) lm_span_give_meta(spans->memory, false);
        size_t bytes = spans->count * sizeof(lm_page_t *), slices = bytes / LM_SLICE_BYTES + 1;
        spans->memory = lm_span_take(slices, 1, LM_KIND_META, NULL);
        if (spans->memory == NULL) return false;
        spans->at = (lm_page_t **)(void *)lm_span_start(spans->memory);
        spans->room = slices * LM_SLICE_BYTES / sizeof(lm_page_t *);
    }
}

/* ---- Blocks of a page ---- */

typedef struct used {
    uint8_t bit[VISIT_BLOCKS_MOST / 8];
    size_t count;
} used_t;

static size_t visit_index_of(const lm_page_t *page, const lm_block_t *block) {
    return (size_t)((const char *)block - lm_span_start(page)) / page->block_bytes;
}

static void strike(used_t *used, const lm_page_t *page, const lm_block_t *list) {
    for (; list != NULL; list = lm_link_get(list)) {
        if (lm_page_of(list) != page) continue;
        size_t i = visit_index_of(page, list);
        LM_ASSERT(i < page->carved && used->count > 0);
        used->bit[i / 8] &= (uint8_t) ~(1u << i % 8);
        used->count--;
    }
}

static bool is_used(const used_t *used, size_t i) { return used->bit[i / 8] >> i % 8 & 1; }

static void find_used(used_t *used, lm_page_t *page) {
    LM_ASSERT(page->kind == LM_KIND_PAGE && page->carved <= page->capacity);
    LM_ASSERT(page->carved <= VISIT_BLOCKS_MOST);
    memset(used->bit, 0, sizeof used->bit);
    used->count = page->carved;
    for (size_t i = 0; i < page->carved; i++) used->bit[i / 8] |= (uint8_t)(1u << i % 8);
    strike(used, page, page->free);
    /* Acquire: the links of threads that pushed blocks are visible. */
    uint64_t remote = lm_load_acquire(&page->remote);
    if (lm_remote_count(remote) > 0) strike(used, page, lm_remote_at(page, remote >> 48));
    /* A head may hold blocks of a class up to a quarter larger (refill.c). */
    const lm_theap_t *heap = page->heap;
    for (unsigned c = page->size_class; c > 0; c--) {
        if (4 * (size_t)page->block_bytes > 5 * lm_class_bytes(c)) break;
        strike(used, page, heap->head[c]);
    }
#if LM_SECURE
    /* Blocks that wait in any thread's quarantine are free (quarantine.c). */
    for (size_t i = 0; i < page->carved; i++) {
        if (!is_used(used, i) ||
            !lm_block_is_free(page, lm_span_start(page) + i * page->block_bytes))
            continue;
        used->bit[i / 8] &= (uint8_t) ~(1u << i % 8);
        used->count--;
    }
#endif
}

static bool visit_page(lm_page_t *page, loam_heap_area_visitor *area,
                       loam_heap_object_visitor *block, void *context) {
    used_t used;
    find_used(&used, page);
#if LM_SECURE
    size_t bytes = lm_span_room(page);
#else
    size_t bytes = (size_t)page->slices << LM_SLICE_SHIFT;
#endif
    loam_heap_area here = {lm_span_start(page), bytes, page->block_bytes - LM_TRAILER, used.count,
                           page->capacity};
    if (!area(&here, context)) return false;
    for (size_t i = 0; block != NULL && i < page->carved; i++) {
        void *p = lm_span_start(page) + i * page->block_bytes;
        if (is_used(&used, i) && !block(p, lm_requested(page, p), context)) return false;
    }
    return true;
}

static bool visit_large(lm_page_t *page, loam_heap_area_visitor *area,
                        loam_heap_object_visitor *block, void *context) {
    LM_ASSERT(page->kind == LM_KIND_LARGE);
    char *start = lm_span_start(page);
    size_t bytes = lm_requested(page, start);
    loam_heap_area here = {start, lm_large_slices(page) << LM_SLICE_SHIFT, bytes, 1, 1};
    return area(&here, context) && (block == NULL || block(start, bytes, context));
}

/* ---- For the layer above ---- */

bool lm_fheap_visit(struct loam_heap *fheap, loam_heap_area_visitor *area,
                    loam_heap_object_visitor *block, void *context) {
    visit_spans_t spans;
    lm_purge_pause();
    lm_idle_hold(); /* taken before the registry's lock */
    bool on = visit_collect(&spans, fheap);
    for (size_t i = 0; on && i < spans.count; i++) {
        lm_page_t *span = spans.at[i];
        if (span->kind == LM_KIND_PAGE) on = visit_page(span, area, block, context);
        if (span->kind == LM_KIND_LARGE) on = visit_large(span, area, block, context);
    }
    if (spans.memory != NULL) lm_span_give_meta(spans.memory, false);
    lm_idle_let();
    lm_purge_resume();
    return on;
}

bool lm_fheap_holds(const struct loam_heap *fheap, const void *p) {
    const lm_page_t *span = lm_page_of(p);
    /* p may lie in the middle of a large object. */
    if (span->kind == LM_KIND_NONE) span = lm_span_holding(p);
    if (span == NULL) return false;
    if (span->kind == LM_KIND_LARGE) /* a thread's own heap has no large objects */
        return fheap != NULL && lm_load_relaxed(&span->fheap) == fheap;
    /* Relaxed: no other thread may change the page meanwhile. The heap of an orphan is the last
     * that it had, which may be part of another heap by now. */
    if (span->kind != LM_KIND_PAGE || (lm_load_relaxed(&span->remote) & LM_REMOTE_ORPHAN) != 0)
        return false;
    const lm_theap_t *heap = lm_load_relaxed(&span->heap);
    return fheap != NULL ? lm_load_relaxed(&heap->fheap.fheap) == fheap : heap == lm_heap_mine();
}

bool lm_fheap_owns(const struct loam_heap *fheap, const void *p) {
    lm_page_t *span = lm_page_of(p);
    if (span->kind == LM_KIND_LARGE) return p == lm_span_start(span) && lm_fheap_holds(fheap, p);
    if (span->kind != LM_KIND_PAGE || !lm_fheap_holds(fheap, p)) return false;
    size_t offset = (size_t)((const char *)p - lm_span_start(span)), i = offset / span->block_bytes;
    if (offset % span->block_bytes != 0 || i >= span->carved) return false;
    used_t used;
    find_used(&used, span);
    return is_used(&used, i);
}

/* ---- The invariant ---- */

static bool visit_sum_up(const loam_heap_area *area, void *context) {
    *(size_t *)context += lm_align_up(area->bytes, LM_SLICE_BYTES); /* the guard counts as well */
    return true;
}

void lm_fheap_check(struct loam_heap *fheap) {
    size_t sum = 0;
    (void)lm_fheap_visit(fheap, visit_sum_up, NULL, &sum);
    if (sum == lm_load_relaxed(&fheap->used)) return;
    lm_report("loam: heap invariant broken: %zu bytes counted of a first-class heap, %zu found",
              fheap->used, sum);
    lm_port_abort();
}
