/* count.c: sums the counts of count.h, and counts what is rare.
 *
 *   page->carved + page->reused_total ──┐ when the page is returned (span/arena.c, page.c)
 *                                v
 *   lm_span_counts.of_class[].handed     of the process; for a first-class heap: its `handed`
 *
 * lm_heap_stats (survey.c) and lm_fheap_count_all call it. It cannot tell what another running
 * thread has ready in its lists: only that thread may follow them.
 */
#include "survey/survey.h"

#include <string.h>

lm_heap_counts_t lm_heap_counts;

void lm_count_large(size_t was, size_t is) {
    lm_span_counts_t *counts = &lm_span_counts;
    if (is >= was) {
        (void)lm_add_relaxed(&counts->large_bytes_else, is - was); /* relaxed: a statistic */
        return;
    }
    lm_most(&counts->large_bytes_most, lm_large_bytes_now());
    (void)lm_add_relaxed(&counts->large_bytes_less, was - is); /* relaxed: a statistic */
}

/* ---- Sums of the process ---- */

static void less(lm_heap_stats_t *stats, unsigned size_class, size_t n) {
    LM_ASSERT(size_class > 0 && size_class < LM_CLASSES);
    size_t there = stats->of_class[size_class].blocks, bytes = lm_class_bytes(size_class);
    if (n > there) n = there; /* the rest was taken meanwhile */
    LM_ASSERT(stats->small_blocks >= n);
    stats->of_class[size_class].blocks -= n;
    stats->small_blocks -= n;
    stats->small_bytes -= n * bytes;
    stats->held_bytes += n * bytes;
}

/* Returns about how many blocks are on a list that a running thread adds to without a lock.
 * Relaxed: a momentary guess is enough. */
static LM_READS_RACING uint32_t listed(const lm_foreign_t *foreign) {
    uint32_t granted = lm_load_relaxed(&foreign->granted), room = lm_load_relaxed(&foreign->room);
    return granted > room ? granted - room : 0;
}

static void less_ready(lm_theap_t *heap, void *context) {
    lm_heap_stats_t *stats = (lm_heap_stats_t *)context;
    for (unsigned c = 1; c < LM_CLASSES; c++) {
        for (const lm_block_t *b = heap->head[c]; b != NULL; b = lm_link_get(b)) {
            unsigned of = lm_page_of(b)->size_class;
            less(stats, of, 1);
            stats->of_class[of].total--;
        }
        /* Blocks in the quarantine are freed, as far as the program knows. */
        less(stats, c, lm_quarantine_count(heap, c));
        stats->of_class[c].freed += lm_quarantine_count(heap, c);
    }
}

static size_t greater(size_t a, size_t b) { return a > b ? a : b; }

void lm_count_sum(lm_heap_stats_t *stats) {
    lm_lock_take(&lm_registry_lock);
    for (unsigned c = 1; c < LM_CLASSES; c++) {
        size_t away = lm_transfer_blocks(c);
        LM_EACH_HEAP(heap) {
            away += listed(&heap->foreign[c]);
            if (c < LM_SMALL_CLASSES) stats->of_class[c].total += lm_quarantine_reused(heap, c);
        }
        stats->of_class[c].total += lm_load_relaxed(&lm_span_counts.of_class[c].handed);
        less(stats, c, away);
        stats->of_class[c].freed += away;
    }
    LM_EACH_HEAP(heap) stats->heaps++;
    lm_lock_give(&lm_registry_lock);
    lm_theap_t *own = lm_heap_mine();
    if (own != NULL) {
        less_ready(own, stats);
        lm_branch_each(own, less_ready, stats);
    }
    for (unsigned c = 1; c < LM_CLASSES; c++) {
        /* Up to here, `most` is what is carved of the pages that exist. */
        stats->of_class[c].most = greater(stats->of_class[c].most,
                                          lm_load_relaxed(&lm_span_counts.of_class[c].room_most));
        /* Blocks may have moved during the walk. */
        size_t now = stats->of_class[c].blocks;
        if ((int64_t)(stats->of_class[c].total - now) < 0) stats->of_class[c].total = now;
    }
    const lm_span_counts_t *counts = &lm_span_counts;
    stats->pages_gone = lm_load_relaxed(&counts->pages_gone);
    stats->pages_most = greater(lm_load_relaxed(&counts->pages_most), stats->pages);
    stats->large_total = lm_large_ever();
    stats->large_bytes_total = lm_large_bytes_ever();
    stats->large_most = greater(lm_load_relaxed(&counts->large_most), stats->large_blocks);
    stats->large_bytes_most =
        greater(lm_load_relaxed(&counts->large_bytes_most), stats->large_bytes);
    stats->threads = lm_load_relaxed(&lm_heaps_active);
    stats->threads_most = lm_load_relaxed(&lm_heap_counts.most);
    stats->threads_total = lm_load_relaxed(&lm_heap_counts.total);
    stats->orphans = lm_orphan_tally(false);
}

void lm_heap_forget_peaks(void) {
    lm_store_relaxed(&lm_heap_counts.most, lm_load_relaxed(&lm_heaps_active));
    (void)lm_orphan_tally(true);
    lm_sampled_forget_peaks();
}

/* ---- Of a first-class heap ---- */

static bool add_area(const loam_heap_area *area, void *context) {
    lm_fheap_counts_t *counts = (lm_fheap_counts_t *)context;
    const lm_page_t *page = lm_page_of(area->start);
    counts->spans++;
    if (page->kind == LM_KIND_LARGE) {
        counts->large++;
        counts->large_bytes += page->bytes;
        return true;
    }
    LM_ASSERT(page->kind == LM_KIND_PAGE && page->size_class < LM_CLASSES);
    LM_ASSERT(area->objects <= page->carved && page->carved <= area->capacity);
    lm_fheap_class_t *class = &counts->of_class[page->size_class];
    class->blocks += area->objects;
    class->capacity += area->capacity;
    class->total += page->carved + page->reused_total;
    class->pages++;
    return true;
}

bool lm_fheap_count_all(struct loam_heap *fheap, lm_fheap_counts_t *counts) {
    memset(counts, 0, sizeof *counts);
    if (!lm_fheap_visit(fheap, add_area, NULL, counts)) return false;
    lm_lock_take(&lm_registry_lock);
    for (lm_node_t *n = fheap->branches.first; n != NULL; n = lm_list_after(&fheap->branches, n)) {
        const lm_theap_t *branch = LM_CONTAINER(n, lm_theap_t, fheap.sibling);
        for (unsigned c = 1; c < LM_CLASSES; c++) {
            for (const lm_block_t *b = branch->head[c]; b != NULL; b = lm_link_get(b))
                counts->of_class[lm_page_of(b)->size_class].total--;
        }
    }
    for (unsigned c = 1; c < LM_CLASSES && fheap->handed != NULL; c++)
        counts->of_class[c].total += lm_load_relaxed(&fheap->handed[c]);
    lm_lock_give(&lm_registry_lock);
    counts->large_total = lm_load_relaxed(&fheap->large_total);
    counts->large_bytes_total = lm_load_relaxed(&fheap->large_bytes_total);
    return true;
}
