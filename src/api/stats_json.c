/* stats_json.c: writes loam_stats_t as one JSON object, a row per line, into a buffer or to the
 * output handler.
 *
 * Every line is shorter than LM_LINE_BYTES: a class has eight numbers of at most 20 digits. It
 * neither allocates nor calls printf.
 */
#include "api/api.h"

#include <errno.h>
#include <string.h>

typedef struct out {
    lm_sink_t *sink;
    void *context;
} out_t;

static void stats_json_send(const out_t *out, const lm_line_t *line) {
    LM_ASSERT(line->used < LM_LINE_BYTES - 1); /* nothing was cut off */
    out->sink(out->context, line->text, line->used);
}

static void stats_json_add_row(lm_line_t *line, const loam_stats_count *row) {
    lm_line_add(line, "\"total\": %zu, \"freed\": %zu, \"current\": %zu, \"peak\": %zu", row->total,
                row->freed, row->current, row->peak);
}

static void write_classes(const out_t *out, const loam_stats_t *stats) {
    lm_line_t first = {0};
    lm_line_add(&first, " \"classes\": [");
    stats_json_send(out, &first);
    bool any = false;
    for (size_t i = 0; i < LOAM_STATS_CLASSES; i++) {
        const loam_stats_class *class = &stats->of_class[i];
        if (class->objects.total == 0 && class->pages == 0) continue;
        lm_line_t line = {0};
        lm_line_add(&line, "%s\n  {\"object_bytes\": %zu, ", any ? "," : "", class->object_bytes);
        stats_json_add_row(&line, &class->objects);
        lm_line_add(&line, ", \"pages\": %zu, \"capacity\": %zu}", class->pages, class->capacity);
        stats_json_send(out, &line);
        any = true;
    }
    lm_line_t last = {0};
    lm_line_add(&last, "],\n");
    stats_json_send(out, &last);
}

#define ROW(name) \
    { #name, offsetof(loam_stats_t, name) }

void lm_stats_write_json(const loam_stats_t *stats, lm_sink_t *sink, void *context) {
    static const struct {
        const char *name;
        size_t at;
    } rows[] = {ROW(small_objects), ROW(small_bytes), ROW(large_objects), ROW(large_bytes),
                ROW(bytes_in_all),  ROW(committed),   ROW(reserved),      ROW(pages),
                ROW(abandoned),     ROW(threads),     ROW(segments),      ROW(sampled_objects),
                ROW(sampled_bytes)},
      numbers[] = {ROW(metadata_bytes), ROW(held_bytes),     ROW(dirty_bytes),
                   ROW(purged_bytes),   ROW(purges),         ROW(heaps),
                   ROW(arena_grown),    ROW(arenas_bytes),   ROW(arenas_free_bytes),
                   ROW(system_calls),   ROW(mmaps),          ROW(munmaps),
                   ROW(madvises),       ROW(commits),        ROW(elapsed_us),
                   ROW(user_us),        ROW(system_us),      ROW(faults),
                   ROW(disk_faults),    ROW(resident_bytes), ROW(resident_peak),
                   ROW(requested_bytes)};
    const char *from = (const char *)stats;
    out_t out = {sink, context};
    lm_line_t first = {0};
    lm_line_add(&first,
                "{\"version\": %u, \"library\": \"%s\", \"build\": \"%s\", \"verdict\": \"%s\",\n",
                stats->version, LOAM_VERSION_TEXT, lm_build_name(),
                lm_stats_verdict(stats->bytes_in_all.current));
    stats_json_send(&out, &first);
    write_classes(&out, stats);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        lm_line_t line = {0};
        lm_line_add(&line, " \"%s\": {", rows[i].name);
        stats_json_add_row(&line, (const loam_stats_count *)(const void *)(from + rows[i].at));
        lm_line_add(&line, "},\n");
        stats_json_send(&out, &line);
    }
    size_t count = sizeof numbers / sizeof numbers[0];
    for (size_t i = 0; i < count; i++) {
        lm_line_t line = {0};
        lm_line_add(&line, " \"%s\": %zu%s", numbers[i].name,
                    *(const uint64_t *)(const void *)(from + numbers[i].at),
                    i + 1 < count ? ",\n" : "}\n");
        stats_json_send(&out, &line);
    }
}

/* ---- Destinations ---- */

typedef struct buffer {
    char *text;
    size_t room, used; /* `used` may exceed `room`: the bytes that the text needs */
} buffer_t;

static void into_buffer(void *context, const char *text, size_t length) {
    buffer_t *buffer = (buffer_t *)context;
    if (buffer->used < buffer->room) {
        size_t left = buffer->room - buffer->used;
        memcpy(buffer->text + buffer->used, text, length < left ? length : left);
    }
    buffer->used += length;
}

int loam_stats_json(char *buffer, size_t bytes) {
    loam_stats_t stats;
    (void)loam_stats_get(&stats, sizeof stats);
    return loam_stats_json_of(&stats, buffer, bytes);
}

int loam_stats_json_of(const loam_stats_t *stats, char *buffer, size_t bytes) {
    if (stats == NULL || stats->bytes != sizeof *stats || (buffer == NULL && bytes > 0))
        return -EINVAL;
    buffer_t out = {buffer, bytes > 0 ? bytes - 1 : 0, 0};
    lm_stats_write_json(stats, into_buffer, &out);
    if (bytes > 0) buffer[out.used < out.room ? out.used : out.room] = '\0';
    return (int)out.used;
}

/* Passes whole lines to the handler: a piece may begin or end in the middle of a line. */
static void into_lines(void *context, const char *text, size_t length) {
    lm_line_t *line = (lm_line_t *)context;
    for (size_t i = 0; i < length; i++) {
        if (text[i] != '\n') {
            lm_line_add(line, "%c", text[i]);
            continue;
        }
        LM_ASSERT(line->used < LM_LINE_BYTES);
        line->text[line->used] = '\0';
        lm_print("%s", line->text);
        line->used = 0;
    }
}

void lm_stats_print_json(void) {
    loam_stats_t stats;
    (void)loam_stats_get(&stats, sizeof stats);
    lm_line_t line = {0};
    lm_stats_write_json(&stats, into_lines, &line);
}
