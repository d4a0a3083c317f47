/* survey.c: walks every page of the process, to count (with count.c) and to check.
 *
 *   lm_heap_stats   every span ──> sums by class ──> count.c
 *   lm_heap_check   the calling thread's heap and branches ──> the invariants of each
 *
 * The fast paths keep nothing for it. It reads pages of other threads while these run: sums are
 * exact while those threads rest, and otherwise off by the blocks in flight.
 */
#include "survey/survey.h"

#include <string.h>

static LM_READS_RACING void count_span(lm_page_t *span, void *context) {
    lm_heap_stats_t *stats = (lm_heap_stats_t *)context;
    if (span->kind == LM_KIND_LARGE) {
        stats->large_blocks++;
        stats->large_bytes += span->bytes;
        if (lm_slice_of(lm_span_start(span)) >= lm_arena.slices)
            stats->lent_large_bytes += span->bytes;
        return;
    }
    if (span->kind != LM_KIND_PAGE) return;
    size_t outside = lm_page_outside(span),
           remote = lm_remote_count(lm_load_relaxed(&span->remote));
    size_t blocks = outside > remote ? outside - remote : 0;
    stats->pages++;
    stats->of_class[span->size_class].pages++;
    stats->of_class[span->size_class].blocks += blocks;
    stats->of_class[span->size_class].capacity += span->capacity;
    size_t carved = lm_load_relaxed(&span->carved); /* relaxed: a statistic */
    stats->of_class[span->size_class].freed += carved > blocks ? carved - blocks : 0;
    stats->of_class[span->size_class].most += lm_load_relaxed(&span->carved);
    stats->of_class[span->size_class].total +=
        lm_load_relaxed(&span->carved) + lm_load_relaxed(&span->reused_total);
    stats->small_blocks += blocks;
    stats->small_bytes += blocks * span->block_bytes;
    stats->held_bytes += ((size_t)span->slices << LM_SLICE_SHIFT) - blocks * span->block_bytes;
}

void lm_heap_stats(lm_heap_stats_t *stats) {
    memset(stats, 0, sizeof *stats);
    lm_idle_unkeep(); /* blocks that ended threads left ready would count as in use */
    if (lm_heap_mine() != NULL)
        (void)lm_heap_get(); /* the heap may be parked, and the worker in its lists */
    lm_span_visit(count_span, stats);
    lm_sampled_tally(&stats->sampled, &stats->sampled_bytes);
    stats->small_blocks += stats->sampled.now;
    stats->small_bytes += stats->sampled_bytes.now;
    lm_count_sum(stats);
}

static void survey_broken(const char *what, const lm_page_t *page) {
    lm_report("loam: heap invariant broken: %s in page %zu (class %u B)", what, lm_span_slice(page),
              page->block_bytes);
    lm_port_abort();
}

static void check_page(const lm_theap_t *heap, const lm_page_t *page, unsigned place) {
    if (page->in_list != place || page->heap != heap || page->kind != LM_KIND_PAGE)
        survey_broken("place", page);
    if (page->owner != heap->token) survey_broken("owner", page);
    if (place != LM_AT_FULL && page->bias != 0) survey_broken("bias", page);
    uint32_t n = 0;
    for (lm_block_t *b = page->free; b != NULL; b = lm_link_get(b)) {
        if (lm_page_of(b) != page || ++n > page->carved) survey_broken("free list", page);
    }
    if (page->live + page->bias + n != page->carved) survey_broken("count", page);
    if (lm_remote_count(page->remote) > page->live + page->bias)
        survey_broken("remote count", page);
}

static bool zero_but_for_its_link(const lm_block_t *block, size_t bytes) {
    const uint64_t *words = (const uint64_t *)(const void *)block;
    for (size_t i = sizeof *block / sizeof *words; i < bytes / sizeof *words; i++) {
        if (words[i] != 0) return false;
    }
    return true;
}

static void check_heap(lm_theap_t *heap, void *context) {
    (void)context;
    lm_biased_enter(&heap->lock);
    size_t pages = 0;
    for (unsigned c = 1; c < LM_CLASSES; c++) {
        lm_page_t *current = heap->current[c];
        if (current != NULL) check_page(heap, current, LM_AT_CURRENT);
        pages += current != NULL;
        for (lm_block_t *b = heap->head[c]; b != NULL; b = lm_link_get(b)) {
            bool foreign = heap->holds[c] == LM_HOLDS_OTHERS;
            if (heap->holds[c] == LM_HOLDS_ZERO && !zero_but_for_its_link(b, lm_class_bytes(c)))
                survey_broken("zero", lm_page_of(b));
            if (foreign ? lm_page_of(b)->size_class < c : lm_page_of(b) != current)
                survey_broken("head", lm_page_of(b));
        }
        lm_list_t *list = &heap->partial[c];
        for (lm_node_t *n = list->first; n != NULL; n = lm_list_after(list, n), pages++) {
            check_page(heap, LM_CONTAINER(n, lm_page_t, link), LM_AT_PARTIAL);
        }
        list = &heap->full[c];
        for (lm_node_t *n = list->first; n != NULL; n = lm_list_after(list, n), pages++) {
            check_page(heap, LM_CONTAINER(n, lm_page_t, link), LM_AT_FULL);
        }
    }
    if (pages != heap->pages) {
        lm_report("loam: heap invariant broken: %zu pages counted, %zu found", heap->pages, pages);
        lm_port_abort();
    }
    lm_biased_leave(&heap->lock);
}

void lm_heap_check(void) {
    lm_sampled_check();
    if (lm_heap_self == &lm_heap_empty) return;
    lm_theap_t *own = lm_heap_mine();
    check_heap(own, NULL);
    lm_branch_each(own, check_heap, NULL);
}
