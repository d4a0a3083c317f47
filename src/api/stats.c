/* stats.c: statistics of the process and of a heap as in loam/stats.h, and the document of
 * malloc_info.
 *
 *   heap/count.h, span, os ──> take ──> minus the values at the last reset ──> loam_stats_t
 *                                                                    │
 *                          text (stats_text.c), JSON (stats_json.c) <┘
 *
 * malloc and free keep no statistics. What other threads do while the numbers are read may be in
 * one number and not yet in another. Each row is made to add up.
 */
#include "api/api.h"

#include <errno.h>
#include <string.h>

LM_STATIC_ASSERT(LOAM_STATS_CLASSES == LM_CLASSES - 1, "class 0 serves no request");

static uint64_t began_us;

void lm_stats_begin(void) { began_us = lm_os_clock_us(); }

const char *lm_stats_verdict(uint64_t in_use) { return in_use == 0 ? "ok" : "not freed"; }

void lm_stats_take(lm_stats_t *stats) {
    lm_span_stats(&stats->span);
    lm_heap_stats(&stats->heap);
}

/* ---- The last reset ---- */

/* Values at the last reset: what had been freed, for each row of counts in the struct; then the
 * numbers that only grow. */
enum { ROWS_MOST = LOAM_STATS_CLASSES + 16 };
static struct {
    /* Atomic, relaxed: a thread that reads between two resets gets some numbers of each. */
    uint64_t freed[ROWS_MOST];
    uint64_t purged_bytes, purges, requested_bytes, began_us;
} base;

/* Calls `change` for each row of counts in the struct, always in the same order. */
static void each_row(loam_stats_t *stats, void (*change)(loam_stats_count *row, size_t index)) {
    loam_stats_count *rows[] = {
        &stats->small_objects, &stats->small_bytes, &stats->large_objects, &stats->large_bytes,
        &stats->bytes_in_all,  &stats->committed,   &stats->reserved,      &stats->pages,
        &stats->abandoned,     &stats->threads,     &stats->segments,      &stats->sampled_objects,
        &stats->sampled_bytes};
    size_t n = sizeof rows / sizeof rows[0];
    LM_STATIC_ASSERT(sizeof rows / sizeof rows[0] + LOAM_STATS_CLASSES <= ROWS_MOST, "room");
    for (size_t i = 0; i < n; i++) change(rows[i], i);
    for (size_t c = 0; c < LOAM_STATS_CLASSES; c++) change(&stats->of_class[c].objects, n + c);
}

static void set_base(loam_stats_count *row, size_t index) {
    LM_ASSERT(index < ROWS_MOST);
    lm_store_relaxed(&base.freed[index], row->freed);
}

static void less_base(loam_stats_count *row, size_t index) {
    LM_ASSERT(index < ROWS_MOST);
    uint64_t freed = lm_load_relaxed(&base.freed[index]);
    if (freed > row->freed) freed = row->freed; /* it was read before the reset */
    row->total -= freed;
    row->freed -= freed;
}

/* ---- Taking ---- */

/* Returns a row that adds up, in whatever order its numbers were read. */
static loam_stats_count stats_row_of(uint64_t total, uint64_t current, uint64_t peak) {
    if (total < current) total = current;
    return (loam_stats_count){total, total - current, current, peak < current ? current : peak};
}

static loam_stats_count row_of_tally(const lm_tally_t *tally) {
    return stats_row_of(tally->now + tally->gone, tally->now, tally->most);
}

static void stats_add_row(loam_stats_count *sum, const loam_stats_count *row, uint64_t times) {
    sum->total += row->total * times;
    sum->freed += row->freed * times;
    sum->current += row->current * times;
    sum->peak += row->peak * times;
}

/* Sets the rows that are sums of other rows. */
static void stats_add_up(loam_stats_t *stats) {
    for (size_t i = 0; i < LOAM_STATS_CLASSES; i++) {
        const loam_stats_class *class = &stats->of_class[i];
        stats_add_row(&stats->small_objects, &class->objects, 1);
        stats_add_row(&stats->small_bytes, &class->objects, class->object_bytes);
        stats->pages.current += class->pages;
    }
    stats_add_row(&stats->bytes_in_all, &stats->small_bytes, 1);
    stats_add_row(&stats->bytes_in_all, &stats->large_bytes, 1);
    stats_add_row(&stats->bytes_in_all, &stats->sampled_bytes, 1);
}

static void name_classes(loam_stats_t *stats) {
    memset(stats, 0, sizeof *stats);
    stats->bytes = (uint32_t)sizeof *stats;
    stats->version = LOAM_STATS_VERSION;
    for (unsigned c = 1; c < LM_CLASSES; c++)
        stats->of_class[c - 1].object_bytes = lm_class_bytes(c);
}

static void take_into(loam_stats_t *stats, lm_stats_t *now) {
    lm_stats_take(now);
    const lm_heap_stats_t *heap = &now->heap;
    const lm_span_stats_t *span = &now->span;
    name_classes(stats);
    for (unsigned c = 1; c < LM_CLASSES; c++) {
        loam_stats_class *class = &stats->of_class[c - 1];
        class->objects =
            stats_row_of(heap->of_class[c].total, heap->of_class[c].blocks, heap->of_class[c].most);
        class->pages = heap->of_class[c].pages;
        class->capacity = heap->of_class[c].capacity;
    }
    stats->large_objects = stats_row_of(heap->large_total, heap->large_blocks, heap->large_most);
    stats->large_bytes =
        stats_row_of(heap->large_bytes_total, heap->large_bytes, heap->large_bytes_most);
    stats->sampled_objects = row_of_tally(&heap->sampled);
    stats->sampled_bytes = row_of_tally(&heap->sampled_bytes);
    stats_add_up(stats);
    stats->pages = stats_row_of(heap->pages_gone + stats->pages.current, stats->pages.current,
                                heap->pages_most);
    stats->committed = row_of_tally(&span->committed);
    stats->reserved = row_of_tally(&span->reserved);
    stats->segments = (loam_stats_count){
        stats->reserved.total >> LM_SLICE_SHIFT, stats->reserved.freed >> LM_SLICE_SHIFT,
        stats->reserved.current >> LM_SLICE_SHIFT, stats->reserved.peak >> LM_SLICE_SHIFT};
    stats->abandoned = row_of_tally(&heap->orphans);
    stats->threads = stats_row_of(heap->threads_total, heap->threads, heap->threads_most);
    stats->metadata_bytes = span->metadata_bytes + span->meta_bytes;
    stats->held_bytes = heap->held_bytes;
    stats->dirty_bytes = span->dirty_bytes;
    stats->purged_bytes = span->purged_bytes;
    stats->purges = span->purges;
    stats->heaps = heap->heaps;
    stats->arena_grown = span->grown;
    stats->arenas_bytes = span->range_bytes;
    stats->arenas_free_bytes = span->range_free_bytes;
    stats->requested_bytes = lm_requested_in_all();
}

static LM_NOINLINE void take_on_stack(loam_stats_t *stats) {
    lm_stats_t now;
    take_into(stats, &now);
}

/* Reads all statistics since the start. A stack of 16 KiB has no room for both structs. The lock is
 * only tried, because it may stay taken in the child of a fork. */
static void stats_take_all(loam_stats_t *stats) {
    static lm_lock_t lock;
    static lm_stats_t now;
    if (lm_lock_try(&lock)) {
        take_into(stats, &now);
        lm_lock_give(&lock);
    } else {
        take_on_stack(stats);
    }
}

static void take_of_system(loam_stats_t *stats) {
    const lm_os_counts_t *counts = &lm_os_counts;
    lm_os_usage_t usage;
    lm_os_usage(&usage);
    stats->user_us = usage.user_us;
    stats->system_us = usage.system_us;
    stats->faults = usage.faults;
    stats->disk_faults = usage.disk_faults;
    stats->resident_bytes = lm_os_resident_bytes();
    stats->resident_peak = usage.resident_most;
    if (stats->resident_peak < stats->resident_bytes) stats->resident_peak = stats->resident_bytes;
    /* Relaxed: statistics. */
    stats->system_calls = lm_load_relaxed(&counts->calls);
    stats->mmaps = lm_load_relaxed(&counts->maps);
    stats->munmaps = lm_load_relaxed(&counts->unmaps);
    stats->madvises = lm_load_relaxed(&counts->advices);
    stats->commits = lm_load_relaxed(&counts->commits);
}

/* Returns the difference to the value at the last reset. Relaxed: a statistic. */
static uint64_t since(uint64_t now, const uint64_t *then) {
    uint64_t before = lm_load_relaxed(then);
    return now > before ? now - before : 0;
}

static bool room_for(const loam_stats_t *stats, size_t bytes) {
    return stats != NULL && bytes >= offsetof(loam_stats_t, of_class);
}

static int stats_hand_over(loam_stats_t *to, size_t bytes, loam_stats_t *from) {
    LM_ASSERT(room_for(to, bytes));
    if (bytes > sizeof *from) bytes = sizeof *from;
    from->bytes = (uint32_t)bytes;
    memcpy(to, from, bytes);
    return 0;
}

/* Reads all statistics since the last reset. */
static LM_NOINLINE void take_since(loam_stats_t *stats) {
    stats_take_all(stats);
    each_row(stats, less_base);
    stats->purged_bytes = since(stats->purged_bytes, &base.purged_bytes);
    stats->purges = since(stats->purges, &base.purges);
    stats->requested_bytes = since(stats->requested_bytes, &base.requested_bytes);
    take_of_system(stats);
    uint64_t now = lm_os_clock_us();
    stats->elapsed_us =
        since(now, lm_load_relaxed(&base.began_us) != 0 ? &base.began_us : &began_us);
}

static LM_NOINLINE int get_part(loam_stats_t *stats, size_t bytes) {
    loam_stats_t all;
    take_since(&all);
    return stats_hand_over(stats, bytes, &all);
}

int loam_stats_get(loam_stats_t *stats, size_t bytes) {
    if (!room_for(stats, bytes)) return -EINVAL;
    int error = errno, result = 0;
    /* Stacks of 16 KiB have no room for two structs. */
    if (bytes >= sizeof *stats)
        take_since(stats);
    else
        result = get_part(stats, bytes);
    errno = error;
    return result;
}

int loam_thread_bytes(uint64_t *allocated, uint64_t *freed) {
    uint64_t both[2];
    if (!lm_thread_bytes(&both[0], &both[1])) return -EAGAIN;
    if (allocated != NULL) *allocated = both[0];
    if (freed != NULL) *freed = both[1];
    return 0;
}

void loam_stats_reset(void) {
    loam_stats_t all;
    lm_span_forget_peaks();
    lm_heap_forget_peaks();
    stats_take_all(&all);
    each_row(&all, set_base);
    lm_store_relaxed(&base.purged_bytes, all.purged_bytes);
    lm_store_relaxed(&base.purges, all.purges);
    lm_store_relaxed(&base.requested_bytes, all.requested_bytes);
    lm_store_relaxed(&base.began_us, lm_os_clock_us());
}

int loam_heap_stats(loam_heap *heap, loam_stats_t *stats, size_t bytes) {
    if (heap == NULL || !room_for(stats, bytes)) return -EINVAL;
    if (!lm_fheap_alive(heap, "loam_heap_stats")) return -EINVAL;
    lm_fheap_counts_t counts;
    if (!lm_fheap_count_all(heap, &counts)) return -ENOMEM;
    loam_stats_t all;
    name_classes(&all);
    for (unsigned c = 1; c < LM_CLASSES; c++) {
        loam_stats_class *class = &all.of_class[c - 1];
        class->objects = stats_row_of(counts.of_class[c].total, counts.of_class[c].blocks, 0);
        class->pages = counts.of_class[c].pages;
        class->capacity = counts.of_class[c].capacity;
        all.held_bytes += (class->capacity - class->objects.current) * class->object_bytes;
    }
    all.large_objects = stats_row_of(counts.large_total, counts.large, 0);
    all.large_bytes = stats_row_of(counts.large_bytes_total, counts.large_bytes, 0);
    stats_add_up(&all);
    all.pages = stats_row_of(0, all.pages.current, 0);
    loam_heap_numbers numbers;
    lm_fheap_numbers(heap, &numbers);
    all.committed = stats_row_of(0, numbers.committed_bytes, numbers.committed_bytes_most);
    return stats_hand_over(stats, bytes, &all);
}

/* ---- malloc_info: elements and their meaning as in the C library ---- */

/* Free blocks of all pages. */
typedef struct rest {
    size_t count, bytes;
} rest_t;

static void write_sizes(FILE *stream, const lm_heap_stats_t *heap, rest_t *rest) {
    fprintf(stream, "<sizes>\n");
    for (unsigned c = 1; c < LM_CLASSES; c++) {
        if (heap->of_class[c].pages == 0) continue;
        size_t bytes = lm_class_bytes(c), room = heap->of_class[c].capacity,
               used = heap->of_class[c].blocks, left = room > used ? room - used : 0;
        fprintf(stream, "<size from=\"%zu\" to=\"%zu\" total=\"%zu\" count=\"%zu\"/>\n",
                c == 1 ? 0 : lm_class_bytes(c - 1) + 1, bytes, left * bytes, left);
        rest->count += left;
        rest->bytes += left * bytes;
    }
    fprintf(stream, "</sizes>\n");
}

static void write_free(FILE *stream, const rest_t *rest) {
    fprintf(stream,
            "<total type=\"fast\" count=\"0\" size=\"0\"/>\n"
            "<total type=\"rest\" count=\"%zu\" size=\"%zu\"/>\n",
            rest->count, rest->bytes);
}

static void write_system(FILE *stream, const lm_span_stats_t *span) {
    fprintf(stream,
            "<system type=\"current\" size=\"%zu\"/>\n"
            "<system type=\"max\" size=\"%zu\"/>\n",
            span->arena_bytes, span->reserved.most);
}

static void write_addresses(FILE *stream, const lm_span_stats_t *span) {
    fprintf(stream,
            "<aspace type=\"total\" size=\"%zu\"/>\n"
            "<aspace type=\"mprotect\" size=\"%zu\"/>\n",
            span->arena_bytes + span->metadata_bytes, span->arena_bytes + span->metadata_bytes);
}

int lm_stats_write_xml(FILE *stream) {
    lm_stats_t stats;
    lm_stats_take(&stats);
    const lm_span_stats_t *span = &stats.span;
    const lm_heap_stats_t *heap = &stats.heap;
    rest_t rest = {0, 0};
    fprintf(stream, "<malloc version=\"1\">\n<heap nr=\"0\">\n");
    write_sizes(stream, heap, &rest);
    write_free(stream, &rest);
    write_system(stream, span);
    fprintf(stream,
            "<system type=\"arena\" size=\"%zu\"/>\n"
            "<system type=\"metadata\" size=\"%zu\"/>\n"
            "<system type=\"dirty\" size=\"%zu\"/>\n",
            span->arena_bytes, span->metadata_bytes, span->dirty_bytes);
    write_addresses(stream, span);
    fprintf(stream, "</heap>\n");
    write_free(stream, &rest);
    fprintf(stream, "<total type=\"mmap\" count=\"%zu\" size=\"%zu\"/>\n", heap->large_blocks,
            heap->large_bytes);
    write_system(stream, span);
    write_addresses(stream, span);
    fprintf(stream, "</malloc>\n");
    return ferror(stream) ? -1 : 0;
}
