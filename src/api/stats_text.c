/* stats_text.c: writes loam_stats_t as a table of 79 columns for people, in human units.
 *
 *    size class      peak     total     freed   current  unit      count
 *             1   8.0 KiB  12.1 MiB  12.1 MiB     0   B    16    792,101 ok
 *
 * A row of objects ends with its verdict: "ok" if no object is in use, otherwise "not freed". It
 * neither allocates nor calls printf.
 */
#include "api/api.h"

enum { STATS_TEXT_NAME = 12, COLUMN = 10, STATS_TEXT_UNIT = 6, COUNT = 11 };

static void pad(lm_line_t *line, size_t to) {
    LM_ASSERT(to < LM_LINE_BYTES); /* a full line would never reach it */
    while (line->used < to) lm_line_add(line, " ");
}

/* Appends the text, aligned to the right in a column of that width. */
static void add_right(lm_line_t *line, const lm_line_t *text, size_t width) {
    pad(line, line->used + (width > text->used ? width - text->used : 0));
    lm_line_add(line, "%s", text->text);
}

/* Appends n in units of `one`, rounded to a tenth: "12.3". From 1000 on it omits the tenth, to fit
 * a column. */
static void add_tenths(lm_line_t *line, uint64_t n, uint64_t one) {
    LM_ASSERT(one > 0);
    uint64_t whole = n / one, tenth = (n % one * 10 + one / 2) / one;
    if (tenth == 10) {
        whole++;
        tenth = 0;
    }
    LM_ASSERT(tenth < 10);
    if (whole >= 1000)
        lm_line_add(line, "%zu", whole);
    else
        lm_line_add(line, "%zu.%zu", whole, tenth);
}

static void add_bytes(lm_line_t *line, uint64_t bytes, size_t width) {
    static const char *const units[] = {"  B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    unsigned u = 0;
    uint64_t one = 1;
    for (; u < 6 && bytes / one >= 1024; u++) one *= 1024;
    lm_line_t text = {0};
    if (u == 0)
        lm_line_add(&text, "%zu", bytes);
    else
        add_tenths(&text, bytes, one);
    lm_line_add(&text, " %s", units[u]);
    add_right(line, &text, width);
}

/* Appends n with a comma after each group of three digits. */
static void add_count(lm_line_t *line, uint64_t n, size_t width) {
    lm_line_t text = {0};
    uint64_t part = 1;
    while (n / part >= 1000) part *= 1000;
    lm_line_add(&text, "%zu", n / part);
    while (part > 1) {
        uint64_t rest = n % part;
        part /= 1000;
        uint64_t group = rest / part;
        LM_ASSERT(group < 1000);
        lm_line_add(&text, ",%zu%zu%zu", group / 100, group / 10 % 10, group % 10);
    }
    add_right(line, &text, width);
}

static void add_seconds(lm_line_t *line, uint64_t us) {
    uint64_t ms = (us + 500) / 1000;
    lm_line_add(line, "%zu.%zu%zu%zu s", ms / 1000, ms / 100 % 10, ms / 10 % 10, ms % 10);
}

/* Appends whether all objects of the row were freed. */
static void add_verdict(lm_line_t *line, const loam_stats_count *objects) {
    lm_line_add(line, " %s", lm_stats_verdict(objects->current));
}

typedef void add_t(lm_line_t *line, uint64_t n, size_t width);

static lm_line_t stats_text_begin(const char *name) {
    lm_line_t line = {0};
    pad(&line,
        STATS_TEXT_NAME > __builtin_strlen(name) ? STATS_TEXT_NAME - __builtin_strlen(name) : 0);
    lm_line_add(&line, "%s", name);
    return line;
}

static void stats_text_add_row(lm_line_t *line, const loam_stats_count *row, uint64_t unit,
                               add_t *add) {
    add(line, row->peak * unit, COLUMN);
    add(line, row->total * unit, COLUMN);
    add(line, row->freed * unit, COLUMN);
    add(line, row->current * unit, COLUMN);
}

static LM_NOINLINE void print_row(const char *name, const loam_stats_count *row, add_t *add) {
    lm_line_t line = stats_text_begin(name);
    stats_text_add_row(&line, row, 1, add);
    lm_print("%s", line.text);
}

static LM_NOINLINE void print_heading(const char *name, const char *last) {
    static const char *const columns[] = {"peak", "total", "freed", "current"};
    lm_line_t line = stats_text_begin(name);
    for (size_t i = 0; i < 4; i++) {
        lm_line_t text = {0};
        lm_line_add(&text, "%s", columns[i]);
        add_right(&line, &text, COLUMN);
    }
    lm_print("%s%s", line.text, last);
}

static LM_NOINLINE void print_objects(const char *name, const loam_stats_count *bytes,
                                      const loam_stats_count *objects) {
    lm_line_t line = stats_text_begin(name);
    stats_text_add_row(&line, bytes, 1, add_bytes);
    pad(&line, STATS_TEXT_NAME + 4 * COLUMN + STATS_TEXT_UNIT);
    add_count(&line, objects->total, COUNT);
    add_verdict(&line, bytes);
    lm_print("%s", line.text);
}

static LM_NOINLINE void print_classes(const loam_stats_t *stats) {
    print_heading("size class", "  unit      count");
    for (size_t i = 0; i < LOAM_STATS_CLASSES; i++) {
        const loam_stats_class *class = &stats->of_class[i];
        if (class->objects.total == 0) continue;
        lm_line_t name = {0};
        lm_line_add(&name, "%zu", i + 1);
        lm_line_t line = stats_text_begin(name.text);
        stats_text_add_row(&line, &class->objects, class->object_bytes, add_bytes);
        lm_line_t unit = {0};
        lm_line_add(&unit, "%zu", class->object_bytes);
        add_right(&line, &unit, STATS_TEXT_UNIT);
        add_count(&line, class->objects.total, COUNT);
        add_verdict(&line, &class->objects);
        lm_print("%s", line.text);
    }
}

static LM_NOINLINE void print_number(const char *name, add_t *add, uint64_t n, const char *behind) {
    lm_line_t line = stats_text_begin(name);
    add(&line, n, COLUMN);
    lm_print("%s%s", line.text, behind);
}

/* Prints the sum of the requested sizes, below the totals of the allocated ones. */
static LM_NOINLINE void print_requested(const loam_stats_t *stats) {
    lm_line_t line = {0};
    lm_line_add(&line, "malloc requested");
#if LOAM_DEBUG
    add_bytes(&line, stats->requested_bytes, STATS_TEXT_NAME + 2 * COLUMN - line.used);
#else
    (void)stats;
    lm_line_add(&line, ": the debug build counts it, or a meter (loam/meter.h)");
#endif
    lm_print("%s", line.text);
}

static LM_NOINLINE void print_calls(const loam_stats_t *stats) {
    lm_line_t line = stats_text_begin("system calls");
    add_count(&line, stats->system_calls, COLUMN);
    lm_line_add(&line, ": %zu mmap, %zu munmap, %zu madvise; %zu commits", stats->mmaps,
                stats->munmaps, stats->madvises, stats->commits);
    lm_print("%s", line.text);
}

static LM_NOINLINE void print_process(const loam_stats_t *stats) {
    lm_line_t time = stats_text_begin("time");
    lm_line_add(&time, "   elapsed ");
    add_seconds(&time, stats->elapsed_us);
    lm_line_add(&time, ", user ");
    add_seconds(&time, stats->user_us);
    lm_line_add(&time, ", system ");
    add_seconds(&time, stats->system_us);
    lm_print("%s", time.text);
    lm_line_t process = stats_text_begin("process");
    lm_line_add(&process, "   faults ");
    add_count(&process, stats->faults, 0);
    lm_line_add(&process, " (disk %zu), rss ", stats->disk_faults);
    add_bytes(&process, stats->resident_bytes, 0);
    lm_line_add(&process, ", peak rss ");
    add_bytes(&process, stats->resident_peak, 0);
    lm_print("%s", process.text);
}

/* Each of these functions has its own frame, one after the other, so stacks of 16 KiB suffice. */
static LM_NOINLINE void print_memory(const loam_stats_t *stats) {
    print_heading("memory", "");
    print_row("committed", &stats->committed, add_bytes);
    print_row("reserved", &stats->reserved, add_bytes);
    print_row("segments", &stats->segments, add_count);
    print_row("threads", &stats->threads, add_count);
    print_row("abandoned", &stats->abandoned, add_count);
    print_row("pages", &stats->pages, add_count);
    lm_line_t purged = {0};
    lm_line_add(&purged, " in %zu calls", stats->purges);
    print_number("reset", add_bytes, stats->purged_bytes, purged.text);
    print_number("held ready", add_bytes, stats->held_bytes, " in pages, not in use");
    print_number("dirty", add_bytes, stats->dirty_bytes, " free, not purged yet");
    print_number("metadata", add_bytes, stats->metadata_bytes, "");
}

static LM_NOINLINE void print_system(const loam_stats_t *stats) {
    lm_line_t heaps = {0};
    lm_line_add(&heaps, "; arena grew %zu times", stats->arena_grown);
    print_number("heaps", add_count, stats->heaps, heaps.text);
    if (stats->arenas_bytes > 0) {
        lm_line_t rest = {0};
        lm_line_add(&rest, " of loam/arena.h; free");
        add_bytes(&rest, stats->arenas_free_bytes, COLUMN);
        print_number("arenas", add_bytes, stats->arenas_bytes, rest.text);
    }
}

void loam_stats_print_of(const loam_stats_t *stats) {
    if (stats == NULL || stats->bytes != sizeof *stats) return;
    lm_print("loam %s, %s: heap statistics", LOAM_VERSION_TEXT, lm_build_name());
    print_classes(stats);
    print_heading("heap", "            count");
    print_objects("to 64 KiB", &stats->small_bytes, &stats->small_objects);
    print_objects("large", &stats->large_bytes, &stats->large_objects);
    loam_stats_count objects = stats->small_objects;
    objects.total += stats->large_objects.total + stats->sampled_objects.total;
    if (stats->sampled_objects.total > 0)
        print_objects("sampled", &stats->sampled_bytes, &stats->sampled_objects);
    print_objects("total", &stats->bytes_in_all, &objects);
    print_requested(stats);
    print_memory(stats);
    print_system(stats);
    print_calls(stats);
    print_process(stats);
}

void loam_stats_print(void) {
    loam_stats_t stats;
    (void)loam_stats_get(&stats, sizeof stats);
    loam_stats_print_of(&stats);
}
