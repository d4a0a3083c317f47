/* stats.c: what the process holds, as text and as XML.
 *
 * Counted by walking the descriptors when asked: malloc and free keep no statistics. Pages in use by
 * other threads are read while those go on, so that sums may be off by the blocks in flight.
 */
#include "api/api.h"

void lm_stats_take(lm_stats_t *stats) {
    lm_span_stats(&stats->span);
    lm_heap_stats(&stats->heap);
}

static size_t kib(size_t bytes) { return (bytes + 1023) / 1024; }

void loam_stats_print(void) {
    lm_stats_t stats;
    lm_stats_take(&stats);
    const lm_span_stats_t *span = &stats.span;
    const lm_heap_stats_t *heap = &stats.heap;
    lm_print("loam %s: %zu KiB in %zu blocks, %zu KiB in %zu large objects, %zu KiB held ready",
             LOAM_VERSION_TEXT, kib(heap->small_bytes), heap->small_blocks, kib(heap->large_bytes),
             heap->large_blocks, kib(heap->held_bytes));
    lm_print(
        "  arena %zu KiB: used %zu, free and resident %zu, free and empty %zu; metadata %zu KiB",
        kib(span->arena_bytes), kib(span->used_bytes), kib(span->dirty_bytes),
        kib(span->clean_bytes), kib(span->metadata_bytes));
    lm_print("  purged %zu KiB in %zu calls; %zu heaps; resident %zu KiB", kib(span->purged_bytes),
             span->purges, heap->heaps, kib(lm_os_resident_bytes()));
    for (unsigned c = 1; c < LM_CLASSES; c++) {
        if (heap->of_class[c].pages == 0) continue;
        lm_print("  class %zu B: %zu pages, %zu of %zu blocks", lm_class_bytes(c),
                 heap->of_class[c].pages, heap->of_class[c].blocks, heap->of_class[c].capacity);
    }
}

int lm_stats_write_xml(FILE *stream) {
    lm_stats_t stats;
    lm_stats_take(&stats);
    const lm_span_stats_t *span = &stats.span;
    const lm_heap_stats_t *heap = &stats.heap;
    fprintf(stream, "<malloc version=\"1\">\n<heap nr=\"0\">\n<sizes>\n");
    for (unsigned c = 1; c < LM_CLASSES; c++) {
        if (heap->of_class[c].pages == 0) continue;
        size_t bytes = lm_class_bytes(c),
               left = heap->of_class[c].capacity - heap->of_class[c].blocks;
        fprintf(stream, "<size from=\"%zu\" to=\"%zu\" total=\"%zu\" count=\"%zu\"/>\n",
                c == 1 ? 0 : lm_class_bytes(c - 1) + 1, bytes, left * bytes, left);
    }
    fprintf(stream,
            "</sizes>\n"
            "<total type=\"fast\" count=\"0\" size=\"0\"/>\n"
            "<total type=\"rest\" count=\"%zu\" size=\"%zu\"/>\n"
            "<total type=\"mmap\" count=\"%zu\" size=\"%zu\"/>\n"
            "<system type=\"current\" size=\"%zu\"/>\n"
            "<system type=\"max\" size=\"%zu\"/>\n"
            "<system type=\"arena\" size=\"%zu\"/>\n"
            "<system type=\"metadata\" size=\"%zu\"/>\n"
            "<system type=\"dirty\" size=\"%zu\"/>\n"
            "<aspace type=\"total\" size=\"%zu\"/>\n"
            "</heap>\n</malloc>\n",
            heap->small_blocks, heap->held_bytes, heap->large_blocks, heap->large_bytes,
            span->arena_bytes, span->arena_bytes, span->arena_bytes, span->metadata_bytes,
            span->dirty_bytes, span->arena_bytes + span->metadata_bytes);
    return ferror(stream) ? -1 : 0;
}
