/* range.c: spans in ranges of memory that are not the arena's own (range.h has the drawing).
 *
 * Spare spans carry their length at both ends and are in bins by the logarithm of their size, like
 * those of the arena (boundary tags). A request takes the best fit of the first bin that has one.
 * There is one kind of free memory: it is not purged by age, so there is no clean and dirty. How
 * far the range has ever been used (`touched`) tells what reads as zero.
 *
 * It takes the arena's lock. It cannot bound a search: a bin is walked to its end if its first
 * spans are all too short.
 */
#include "span/internal.h"

#include <errno.h>
#include <string.h>

enum { RANGE_LOOK_IN_BIN = 32, ADDRESS_BITS = 48 };

struct loam_arena lm_ranges[LM_RANGES];
size_t lm_ranges_open;

/* Atomic: number of table entries that have ever been in use; those above are empty. */
static size_t entries;

static struct loam_arena *range_of(const lm_page_t *span) { return &lm_ranges[span->range - 1]; }

static size_t range_index_of(const struct loam_arena *range, const lm_page_t *span) {
    return (size_t)(span - range->pages);
}

char *lm_range_span_start(const lm_page_t *span) {
    const struct loam_arena *range = range_of(span);
    return (char *)(lm_range_start(range) + (range_index_of(range, span) << LM_SLICE_SHIFT));
}

lm_page_t **lm_range_map_of(const lm_page_t *span) {
    const struct loam_arena *range = range_of(span);
    return &range->map[range_index_of(range, span)];
}

/* ---- The table ---- */

#define FOR_EACH_RANGE(range) \
    for (struct loam_arena *range = lm_ranges, *end_ = lm_ranges + lm_load_acquire(&entries); \
         range < end_; range++)

struct loam_arena *lm_range_around(const void *p) {
    FOR_EACH_RANGE(range) {
        /* Acquire: see the map. Both bounds are in one word, so that no thread sees the start of
         * one range with the length of another. */
        uint64_t bounds = lm_load_acquire(&range->bounds);
        uint64_t slice = ((uint64_t)(uintptr_t)p >> LM_SLICE_SHIFT) - (bounds >> 32);
        if (slice < (uint32_t)bounds) return range;
    }
    return NULL;
}

lm_page_t *lm_range_page_of(const void *p) {
    const struct loam_arena *range = lm_range_around(p);
    if (range == NULL) return &lm_nobody;
    return lm_peek(&range->map[((uintptr_t)p - lm_range_start(range)) >> LM_SLICE_SHIFT]);
}

/* ---- Spare spans; the lock is held ---- */

static void range_count(struct loam_arena *range, size_t slices, bool used) {
    LM_ASSERT(lm_lock_held(&lm_space.lock));
    LM_ASSERT(used ? slices <= lm_range_slices(range) - range->used : slices <= range->used);
    LM_ASSERT(!used || range->memory != NULL || slices <= lm_space.spare_slices);
    range->used += used ? slices : 0 - slices;
    if (range->memory == NULL) lm_space.spare_slices -= used ? slices : 0 - slices;
}

static void label(struct loam_arena *range, size_t first, size_t slices, lm_kind_t kind) {
    lm_page_t *head = &range->pages[first], *tail = &range->pages[first + slices - 1];
    LM_ASSERT(slices > 0 && first + slices <= lm_range_slices(range));
    tail->slices = (uint32_t)slices;
    tail->kind = (uint8_t)kind;
    head->slices = (uint32_t)slices;
    head->kind = (uint8_t)kind;
}

static void range_add(struct loam_arena *range, size_t first, size_t slices) {
    lm_page_t *span = &range->pages[first];
    unsigned bin = lm_log2(slices);
    lm_list_t *list = &range->bins[bin];
    label(range, first, slices, LM_KIND_SPARE);
    /* The lowest address comes first, as far as one comparison can tell, so that unused memory
     * stays unused. */
    lm_node_t *lowest = list->first;
    if (lowest == NULL || LM_CONTAINER(lowest, lm_page_t, link) > span)
        lm_list_add_first(list, &span->link);
    else
        lm_list_add_last(list, &span->link);
    range->filled |= (uint64_t)1 << bin;
}

static void unlink_span(struct loam_arena *range, lm_page_t *span) {
    unsigned bin = lm_log2(span->slices);
    LM_ASSERT(span->kind == LM_KIND_SPARE && lm_node_linked(&span->link));
    LM_ASSERT(((range->filled >> bin) & 1) != 0);
    lm_list_remove(&range->bins[bin], &span->link);
    if (range->bins[bin].first == NULL) range->filled &= ~((uint64_t)1 << bin);
}

/* Makes [first, first+slices) spare and merges it with its neighbours. */
static void insert(struct loam_arena *range, size_t first, size_t slices) {
    range_count(range, slices, false);
    if (first > 0 && range->pages[first - 1].kind == LM_KIND_SPARE) {
        size_t before = range->pages[first - 1].slices;
        LM_ASSERT(before <= first && range->pages[first - before].slices == before);
        first -= before;
        slices += before;
        unlink_span(range, &range->pages[first]);
    }
    if (first + slices < lm_range_slices(range) &&
        range->pages[first + slices].kind == LM_KIND_SPARE) {
        lm_page_t *after = &range->pages[first + slices];
        slices += after->slices;
        unlink_span(range, after);
    }
    range_add(range, first, slices);
}

static size_t aligned_first(const struct loam_arena *range, const lm_page_t *span, size_t align) {
    LM_ASSERT(lm_is_pow2(align));
    size_t start = lm_range_start(range) >> LM_SLICE_SHIFT;
    return lm_align_up(start + range_index_of(range, span), align) - start;
}

static bool range_fits(const struct loam_arena *range, const lm_page_t *span, size_t slices,
                       size_t align) {
    size_t skipped = aligned_first(range, span, align) - range_index_of(range, span);
    return skipped < span->slices && span->slices - skipped >= slices;
}

static lm_page_t *best_in(const struct loam_arena *range, unsigned bin, size_t slices,
                          size_t align) {
    const lm_list_t *list = &range->bins[bin];
    lm_page_t *best = NULL;
    unsigned looks = 0;
    for (lm_node_t *n = list->first; n != NULL; n = lm_list_after(list, n)) {
        lm_page_t *span = LM_CONTAINER(n, lm_page_t, link);
        if (range_fits(range, span, slices, align) && (best == NULL || span->slices < best->slices))
            best = span;
        if (++looks >= RANGE_LOOK_IN_BIN && best != NULL) break;
    }
    return best;
}

static lm_page_t *range_take(struct loam_arena *range, size_t slices, size_t align, lm_kind_t kind,
                             bool *zero) {
    LM_ASSERT(lm_lock_held(&lm_space.lock) && slices > 0 && kind >= LM_KIND_PAGE);
    if (range->closing || slices > lm_range_slices(range)) return NULL;
    uint64_t bins = range->filled & (~(uint64_t)0 << lm_log2(slices));
    lm_page_t *span = NULL;
    for (; bins != 0 && span == NULL; bins &= bins - 1)
        span = best_in(range, lm_lowest_bit(bins), slices, align);
    if (span == NULL) return NULL;
    size_t start = range_index_of(range, span), length = span->slices;
    size_t first = aligned_first(range, span, align), end = first + slices;
    LM_ASSERT(first >= start && end <= start + length);
    unlink_span(range, span);
    if (first > start) range_add(range, start, first - start);
    if (end < start + length) range_add(range, end, start + length - end);
    label(range, first, slices, kind);
    range_count(range, slices, true);
    if (zero != NULL) *zero = range->zero && first >= range->touched;
    if (range->touched < end) range->touched = end;
    span = &range->pages[first];
    span->range = (uint8_t)(range - lm_ranges + 1);
    span->reused_total = 0; /* other threads may read it before the page is ready */
    return span;
}

/* ---- Taking and giving ---- */

lm_page_t *lm_range_take(struct loam_arena *range, size_t slices, size_t align_slices,
                         lm_kind_t kind, bool *zero) {
    lm_lock_take(&lm_space.lock);
    lm_page_t *span = range_take(range, slices, align_slices, kind, zero);
    lm_lock_give(&lm_space.lock);
    return span;
}

lm_page_t *lm_range_take_page(struct loam_arena *range, size_t slices, size_t block_bytes,
                              bool *zero) {
    LM_ASSERT(block_bytes > 0); /* so `slices` stays above 0 below */
    lm_lock_take(&lm_space.lock);
    lm_page_t *span = range_take(range, slices, 1, LM_KIND_PAGE, zero);
    while (span == NULL && --slices << LM_SLICE_SHIFT >= 2 * block_bytes)
        span = range_take(range, slices, 1, LM_KIND_PAGE, zero);
    lm_lock_give(&lm_space.lock);
    return span;
}

/* Takes a span of a range that serves every thread and is on that node. */
static lm_page_t *take_of_node(int node, size_t slices, size_t align, lm_kind_t kind, bool *zero) {
    lm_page_t *span = NULL;
    FOR_EACH_RANGE(range) {
        if (!range->exclusive && range->node == node && lm_range_slices(range) > 0)
            span = range_take(range, slices, align, kind, zero);
        if (span != NULL) break;
    }
    return span;
}

/* Returns whether the node of a thread makes a difference. */
static bool on_nodes(void) {
    FOR_EACH_RANGE(range) {
        if (!range->exclusive && range->node != LM_NODE_ANY && lm_range_slices(range) > 0)
            return true;
    }
    return false;
}

lm_page_t *lm_range_take_near(size_t slices, size_t align_slices, lm_kind_t kind, bool *zero) {
    lm_lock_take(&lm_space.lock);
    lm_page_t *span = NULL;
    if (on_nodes()) span = take_of_node(lm_node_here(), slices, align_slices, kind, zero);
    if (span == NULL) span = take_of_node(LM_NODE_ANY, slices, align_slices, kind, zero);
    lm_lock_give(&lm_space.lock);
    return span;
}

lm_page_t *lm_range_take_far(size_t slices, size_t align_slices, lm_kind_t kind, bool *zero) {
    lm_page_t *span = NULL;
    lm_lock_take(&lm_space.lock);
    FOR_EACH_RANGE(range) {
        if (!range->exclusive && lm_range_slices(range) > 0)
            span = range_take(range, slices, align_slices, kind, zero);
        if (span != NULL) break;
    }
    lm_lock_give(&lm_space.lock);
    return span;
}

void lm_range_give(lm_page_t *span) {
    LM_ASSERT(lm_lock_held(&lm_space.lock));
    struct loam_arena *range = range_of(span);
    /* The span keeps its range's number: another thread that frees the same object may ask for its
     * address at this moment. */
    insert(range, range_index_of(range, span), span->slices);
}

bool lm_range_extend(lm_page_t *span, size_t slices) {
    struct loam_arena *range = range_of(span);
    size_t first = range_index_of(range, span), end = first + span->slices, want = first + slices;
    lm_lock_take(&lm_space.lock);
    lm_page_t *after = end < lm_range_slices(range) ? &range->pages[end] : NULL;
    bool fit = slices > span->slices && after != NULL && after->kind == LM_KIND_SPARE &&
               end + after->slices >= want && !range->closing;
    if (fit) {
        size_t length = after->slices;
        unlink_span(range, after);
        if (end + length > want) range_add(range, want, end + length - want);
        range_count(range, want - end, true);
        label(range, first, slices, (lm_kind_t)span->kind);
        if (range->touched < want) range->touched = want;
    }
    lm_lock_give(&lm_space.lock);
    return fit;
}

void lm_range_shrink(lm_page_t *span, size_t slices) {
    struct loam_arena *range = range_of(span);
    size_t first = range_index_of(range, span), cut = span->slices - slices;
    if (cut == 0) return;
    lm_lock_take(&lm_space.lock);
    label(range, first, slices, (lm_kind_t)span->kind);
    insert(range, first + slices, cut);
    lm_lock_give(&lm_space.lock);
}

/* ---- Opening and closing ---- */

/* Returns an empty entry of the table, or NULL iff there is none. */
static struct loam_arena *new_entry(void) {
    LM_ASSERT(lm_lock_held(&lm_space.lock));
    for (size_t i = 0; i < LM_RANGES; i++) {
        if (lm_ranges[i].taken) continue;
        LM_ASSERT(lm_range_slices(&lm_ranges[i]) == 0);
        /* Clears everything but the bounds, which are 0, and which other threads read at any
         * time. */
        LM_STATIC_ASSERT(offsetof(struct loam_arena, bounds) == 0, "first");
        memset(&lm_ranges[i].map, 0, sizeof lm_ranges[i] - offsetof(struct loam_arena, map));
        lm_ranges[i].taken = true;
        /* Release: a thread that walks so far sees that its bounds are 0. */
        if (i >= entries) lm_store_release(&entries, i + 1);
        return &lm_ranges[i];
    }
    return NULL;
}

/* Opens a range whose map and pages are set. */
static void range_open_range(struct loam_arena *range, uintptr_t start, size_t slices,
                             const lm_range_kind_t *kind) {
    LM_ASSERT(lm_lock_held(&lm_space.lock) && range->taken && lm_range_slices(range) == 0);
    LM_ASSERT(slices > 0 && start % LM_SLICE_BYTES == 0 && start >> ADDRESS_BITS == 0);
    range->node = kind->node;
    range->zero = kind->zero;
    range->exclusive = kind->exclusive;
    range->purges = kind->purges;
    for (size_t i = 0; i < slices; i++) lm_store_relaxed(&range->map[i], &lm_nobody);
    /* Release: a thread that finds the range sees everything above. */
    lm_store_release(&range->bounds, (uint64_t)(start >> LM_SLICE_SHIFT) << 32 | slices);
    range->used = slices;
    insert(range, 0, slices);
    if (!kind->exclusive) lm_store_relaxed(&lm_ranges_open, lm_ranges_open + 1);
}

static bool overlaps(uintptr_t start, size_t bytes) {
    LM_ASSERT(lm_lock_held(&lm_space.lock));
    uintptr_t arena = lm_arena.base;
    size_t most = lm_space.slices_most << LM_SLICE_SHIFT;
    /* Map and descriptors lie below the arena. */
    uintptr_t lowest = (uintptr_t)lm_arena.map;
    if (start < arena + most && lowest < start + bytes) return true;
    FOR_EACH_RANGE(range) {
        uintptr_t other = lm_range_start(range);
        size_t length = lm_range_slices(range) << LM_SLICE_SHIFT;
        if (start < other + length && other < start + bytes) return true;
    }
    return false;
}

static int open_outside(lm_page_t *memory, uintptr_t start, size_t slices,
                        const lm_range_kind_t *kind, struct loam_arena **range) {
    LM_ASSERT((size_t)memory->slices << LM_SLICE_SHIFT >=
              slices * (sizeof(lm_page_t) + sizeof(lm_page_t *)));
    if (overlaps(start, slices << LM_SLICE_SHIFT)) return -EEXIST;
    struct loam_arena *entry = new_entry();
    if (entry == NULL) return -ENOSPC;
    entry->memory = memory;
    entry->pages = (lm_page_t *)(void *)lm_span_start(memory);
    entry->map = (lm_page_t **)(void *)(entry->pages + slices);
    range_open_range(entry, start, slices, kind);
    *range = entry;
    return 0;
}

static bool is_taken(uintptr_t start, size_t bytes) {
    lm_lock_take(&lm_space.lock);
    bool taken = overlaps(start, bytes);
    lm_lock_give(&lm_space.lock);
    return taken;
}

int lm_range_manage(void *start, size_t bytes, const lm_range_kind_t *kind,
                    struct loam_arena **range) {
    uintptr_t given = (uintptr_t)start, first = lm_align_up(given, LM_SLICE_BYTES);
    if (start == NULL || first < given || bytes > UINTPTR_MAX - given) return -EINVAL;
    uintptr_t end = lm_align_down(given + bytes, LM_SLICE_BYTES);
    if (end <= first || end >> ADDRESS_BITS != 0) return -EINVAL;
    /* Check before anything is written there: loam's own memory may be writable or not. */
    if (is_taken(first, end - first)) return -EEXIST;
    /* Relaxed: if it matters, this thread has written it. */
    bool shut_in = lm_load_relaxed(&lm_space.worker_forbidden);
    if (!lm_os_writable((void *)first, end - first, shut_in)) return -EFAULT;
    size_t slices = (end - first) >> LM_SLICE_SHIFT;
    size_t needed = slices * (sizeof(lm_page_t) + sizeof(lm_page_t *));
    bool zero;
    lm_page_t *memory =
        lm_span_take((needed + LM_SLICE_BYTES - 1) >> LM_SLICE_SHIFT, 1, LM_KIND_META, &zero);
    if (memory == NULL) return -ENOMEM;
    /* The arena's descriptors begin as zero, too. */
    if (!zero) memset(lm_span_start(memory), 0, needed);
    lm_lock_take(&lm_space.lock);
    int result = open_outside(memory, first, slices, kind, range);
    lm_lock_give(&lm_space.lock);
    if (result < 0) lm_span_give_meta(memory, true);
    return result;
}

int lm_range_open_inside(lm_page_t *span, const lm_range_kind_t *kind, struct loam_arena **range) {
    lm_lock_take(&lm_space.lock);
    struct loam_arena *entry = new_entry();
    if (entry != NULL) {
        size_t first = lm_span_slice(span), slices = span->slices;
        LM_ASSERT(span->kind == LM_KIND_META && span->range == 0);
        LM_ASSERT(lm_space.meta_slices >= slices);
        entry->pages = span;
        entry->map = &lm_arena.map[first];
        lm_space.meta_slices -= slices;
        range_open_range(entry, lm_arena.base + (first << LM_SLICE_SHIFT), slices, kind);
        *range = entry;
    }
    lm_lock_give(&lm_space.lock);
    return entry != NULL ? 0 : -ENOSPC;
}

/* Makes an empty range what it was before: a META span of plain memory. The memory of a range
 * outside is the user's; its META span is that of its map. Returns the META span, or NULL iff there
 * is no plain memory. */
static lm_page_t *take_apart(struct loam_arena *range) {
    LM_ASSERT(lm_lock_held(&lm_space.lock));
    LM_ASSERT(range->closing && range->used == 0 && range->heaps == 0);
    size_t slices = lm_range_slices(range);
    lm_page_t *span = range->memory != NULL ? range->memory : range->pages;
    if (range->memory == NULL) {
        void *start = (void *)lm_range_start(range);
        size_t bytes = slices << LM_SLICE_SHIFT;
        if (lm_os_commit(start, bytes, true) != LM_COMMIT_DONE) return NULL;
        lm_os_no_huge_pages(start, bytes);
        LM_ASSERT(range->pages->slices == slices && lm_space.spare_slices >= slices);
        unlink_span(range, range->pages);
        /* The descriptors belong to the arena again. */
        for (size_t i = 0; i < slices; i++) range->pages[i].range = 0;
        lm_space.spare_slices -= slices;
        lm_space.meta_slices += slices;
        lm_space_label(lm_span_slice(span), slices, LM_KIND_META);
    }
    lm_store_relaxed(&range->bounds, 0);
    range->taken = false;
    return span;
}

int lm_range_destroy(struct loam_arena *range) {
    lm_lock_take(&lm_space.lock);
    if (lm_range_slices(range) == 0) {
        lm_lock_give(&lm_space.lock);
        return -EINVAL;
    }
    if (!range->closing && !range->exclusive) lm_store_relaxed(&lm_ranges_open, lm_ranges_open - 1);
    range->closing = true;
    bool busy = range->used > 0 || range->heaps > 0;
    lm_page_t *span = busy ? NULL : take_apart(range);
    lm_lock_give(&lm_space.lock);
    if (span == NULL) return busy ? -EBUSY : -ENOMEM;
    lm_span_give_meta(span, true);
    return 0;
}

bool lm_range_hold(struct loam_arena *range) {
    lm_lock_take(&lm_space.lock);
    bool held = !range->closing;
    if (held) range->heaps++;
    lm_lock_give(&lm_space.lock);
    return held;
}

void lm_range_let(struct loam_arena *range) {
    lm_lock_take(&lm_space.lock);
    LM_ASSERT(range->heaps > 0);
    range->heaps--;
    lm_lock_give(&lm_space.lock);
}

/* ---- Walks; the lock is held ---- */

#define FOR_EACH_SPAN(range, i) \
    for (size_t i = 0; i < lm_range_slices(range); i += (range)->pages[i].slices)

size_t lm_range_purge(void) {
    LM_ASSERT(lm_lock_held(&lm_space.lock));
    size_t slices = 0;
    FOR_EACH_RANGE(range) {
        size_t last = 0; /* end of the last span in use */
        bool all = true;
        if (!range->purges) continue;
        FOR_EACH_SPAN(range, i) {
            const lm_page_t *span = &range->pages[i];
            void *start = (void *)(lm_range_start(range) + (i << LM_SLICE_SHIFT));
            if (span->kind != LM_KIND_SPARE) {
                last = i + span->slices;
                continue;
            }
            if (i >= range->touched) continue;
            bool purged = lm_os_purge(start, (size_t)span->slices << LM_SLICE_SHIFT);
            all = all && purged;
            if (purged) slices += span->slices;
        }
        if (all && range->zero && last < range->touched) range->touched = last;
    }
    return slices;
}

void lm_range_visit(void (*visit)(lm_page_t *span, void *context), void *context) {
    FOR_EACH_RANGE(range) {
        if (range->memory == NULL) continue; /* the arena's own walk visits them */
        FOR_EACH_SPAN(range, i) {
            if (range->pages[i].kind >= LM_KIND_PAGE) visit(&range->pages[i], context);
        }
    }
}

lm_page_t *lm_range_holding(const void *p) {
    struct loam_arena *range = lm_range_around(p);
    if (range == NULL) return NULL;
    size_t slice = ((uintptr_t)p - lm_range_start(range)) >> LM_SLICE_SHIFT;
    FOR_EACH_SPAN(range, i) {
        lm_page_t *span = &range->pages[i];
        if (slice < i + span->slices) return span->kind >= LM_KIND_PAGE ? span : NULL;
    }
    return NULL;
}

void lm_range_numbers(struct loam_arena *range, lm_range_numbers_t *numbers) {
    lm_lock_take(&lm_space.lock);
    size_t slices = lm_range_slices(range), longest = 0;
    FOR_EACH_SPAN(range, i) {
        const lm_page_t *span = &range->pages[i];
        if (span->kind == LM_KIND_SPARE && span->slices > longest) longest = span->slices;
    }
    *numbers = (lm_range_numbers_t){.bytes = slices << LM_SLICE_SHIFT,
                                    .free_bytes = (slices - range->used) << LM_SLICE_SHIFT,
                                    .longest_bytes = longest << LM_SLICE_SHIFT,
                                    .heaps = range->heaps};
    lm_lock_give(&lm_space.lock);
}

void lm_range_stats(lm_span_stats_t *stats) {
    LM_ASSERT(lm_lock_held(&lm_space.lock));
    stats->range_bytes = stats->range_free_bytes = 0;
    FOR_EACH_RANGE(range) {
        size_t slices = lm_range_slices(range);
        LM_ASSERT(slices == 0 || range->used <= slices);
        stats->range_bytes += slices << LM_SLICE_SHIFT;
        stats->range_free_bytes += (slices - (slices > 0 ? range->used : 0)) << LM_SLICE_SHIFT;
    }
}

static void range_broken(const char *what, const struct loam_arena *range, size_t slice) {
    lm_report("loam: range invariant broken: %s at slice %zu of range %zu", what, slice,
              (size_t)(range - lm_ranges));
    lm_port_abort();
}

static void check_range(const struct loam_arena *range) {
    size_t used = 0, spare = 0;
    bool before = false;
    FOR_EACH_SPAN(range, i) {
        const lm_page_t *span = &range->pages[i], *last = span + span->slices - 1;
        if (span->slices == 0 || i + span->slices > lm_range_slices(range))
            range_broken("length", range, i);
        if (last->kind != span->kind || last->slices != span->slices)
            range_broken("boundary tag", range, i);
        bool free = span->kind == LM_KIND_SPARE;
        if (free && before) range_broken("unmerged neighbours", range, i);
        if (!free && range_of(span) != range) range_broken("number", range, i);
        if (!free && i + span->slices > range->touched) range_broken("touched", range, i);
        for (size_t j = 0; free && j < span->slices; j++) {
            if (span[j].range != 0 && range_of(&span[j]) != range)
                range_broken("number of a spare slice", range, i + j);
        }
        used += free ? 0 : span->slices;
        spare += free;
        before = free;
    }
    for (unsigned bin = 0; bin < LM_RANGE_BINS; bin++) {
        const lm_list_t *list = &range->bins[bin];
        if ((list->first != NULL) != ((range->filled >> bin) & 1))
            range_broken("bin bit", range, bin);
        for (lm_node_t *n = list->first; n != NULL; n = lm_list_after(list, n)) {
            const lm_page_t *span = LM_CONTAINER(n, lm_page_t, link);
            if (span->kind != LM_KIND_SPARE || lm_log2(span->slices) != bin)
                range_broken("bin", range, range_index_of(range, span));
            spare--;
        }
    }
    if (used != range->used || spare != 0) range_broken("counts", range, used);
}

void lm_range_check(void) {
    size_t inside = 0;
    FOR_EACH_RANGE(range) {
        if (lm_range_slices(range) == 0) continue;
        check_range(range);
        if (range->memory == NULL) inside += lm_range_slices(range) - range->used;
    }
    if (inside != lm_space.spare_slices) range_broken("count of spare slices", lm_ranges, inside);
}
