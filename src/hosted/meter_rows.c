/* meter_rows.c: what meters need of an operating system (loam/meter.h): time, rows of a CSV file,
 * the table. Empty at level 0.
 *
 *   call ──> ticks of the processor ──> ns ──> histogram
 *        └─> every 300 operations, or slow ──> row ──> text[64 KiB] ──> write(2)
 *
 * Rows are written under a lock inside which nothing else is called. A process that has not started
 * the rows itself (the child of a fork or a vfork) finds so before it looks at the lock, and leaves
 * everything alone.
 */
#include "heap/heap.h"

#include "family/family.h"

#if LOAM_METER

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- Time ---- */

static uint64_t now_ns(void) {
    struct timespec now;
    if (clock_gettime(CLOCK_MONOTONIC, &now) != 0) return 0;
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#if LM_TICKS
enum { CALIBRATE_NS = 200 * 1000 };

/* Atomic: ns for 2^32 ticks; 0: not known yet. The results of different threads differ only by some
 * millionths. */
static uint64_t tick_scale;

/* Returns a tick count and stores the time at which it was read: of five tries the one that took
 * least. */
static uint64_t ticks_at(uint64_t *ns) {
    uint64_t best = UINT64_MAX, ticks = 0;
    for (int i = 0; i < 5; i++) {
        uint64_t before = lm_ticks(), time = now_ns(), after = lm_ticks();
        if (after - before >= best) continue;
        best = after - before;
        ticks = before + best / 2;
        *ns = time;
    }
    return ticks;
}

static LM_NOINLINE uint64_t calibrate(void) {
    uint64_t from_ns = 0, to_ns = 0, from = ticks_at(&from_ns), to;
    do {
        to = ticks_at(&to_ns);
    } while (to_ns - from_ns < CALIBRATE_NS && to_ns != 0);
    uint64_t ticks = to > from ? to - from : 1;
    uint64_t scale = ((to_ns - from_ns) << 32) / ticks;
    lm_store_relaxed(&tick_scale, scale != 0 ? scale : 1);
    return scale;
}

static uint64_t ns_of(uint64_t ticks) {
    uint64_t scale = lm_load_relaxed(&tick_scale);
    if (LM_UNLIKELY(scale == 0)) scale = calibrate();
    if (LM_LIKELY(ticks < UINT64_C(1) << 30)) return (ticks * scale) >> 32;
    return (ticks >> 16) * (scale >> 8) >> 8;
}

static uint64_t ticks_now(void) { return lm_ticks(); }
#else
static uint64_t ns_of(uint64_t ticks) { return ticks; }
static uint64_t ticks_now(void) { return now_ns(); }
#endif

/* ---- Text to a file ---- */

static bool meter_rows_write_all(int file, const char *text, size_t bytes) {
    while (bytes > 0) {
        intptr_t n = lm_os_write(file, text, bytes);
        if (n == -EINTR) continue;
        if (n <= 0) return false;
        LM_ASSERT((size_t)n <= bytes);
        text += n;
        bytes -= (size_t)n;
    }
    return true;
}

static const char *const function_names[LOAM_METER_FUNCTIONS] = {"alloc", "free", "realloc"};

/* ---- Rows ---- */

static struct {
    lm_lock_t lock;
    int file;  /* atomic; -1: rows go nowhere */
    bool ours; /* this file must be closed */
    unsigned process;
    uint64_t start_ns;
    size_t rows, used;
    char text[64 * 1024];
} out = {.file = -1};

static const char header[] =
    "entry,ns,allocator,name,meter,operation,function,slow,call_ns,used,held,held_in_all,"
    "requested,requests,allocs,frees,reallocs,slow_calls,alloc_ns,free_ns,realloc_ns\n";

/* Writes the buffered text to the file. */
static void flush(void) {
    LM_ASSERT(lm_lock_held(&out.lock) && out.used <= sizeof(out.text));
    if (out.used != 0 && !meter_rows_write_all(out.file, out.text, out.used)) {
        lm_report("loam: meter: rows cannot be written, and stop");
        lm_store_relaxed(&out.file, -1);
    }
    out.used = 0;
}

static void add_text(const char *text, size_t bytes) {
    if (sizeof(out.text) - out.used < bytes) flush();
    LM_ASSERT(lm_lock_held(&out.lock) && bytes <= sizeof(out.text) - out.used);
    memcpy(out.text + out.used, text, bytes);
    out.used += bytes;
}

static bool goes_somewhere(void) {
    return lm_load_relaxed(&out.file) >= 0 && out.process == lm_os_process();
}

static LM_NOINLINE void meter_rows_add_row(const lm_meter_t *meter, size_t operation,
                                           loam_meter_function function, bool slow,
                                           size_t call_ns) {
    if (!goes_somewhere()) return;
    const loam_meter_stats *stats = &meter->stats;
    const loam_meter_calls *of = stats->of;
    size_t held, in_all, requests, slow_calls = 0;
    lm_meter_held(meter, &held, &in_all, &requests);
    for (int f = 0; f < LOAM_METER_FUNCTIONS; f++) slow_calls += lm_load_relaxed(&of[f].slow);
    lm_lock_take(&out.lock);
    if (lm_load_relaxed(&out.file) >= 0) {
        lm_line_t line = {0};
        lm_line_add(&line, "%zu,%zu,%s,%s,%u,%zu,%s,%u,%zu,", ++out.rows,
                    (size_t)(now_ns() - out.start_ns), meter->kind, meter->name,
                    (unsigned)(meter - lm_meters), operation, function_names[function],
                    (unsigned)slow, call_ns);
        lm_line_add(&line, "%zu,%zu,%zu,%zu,%zu,%zu,%zu,%zu,%zu,%zu,%zu,%zu\n",
                    lm_load_relaxed(&stats->used), held, in_all, lm_load_relaxed(&stats->requested),
                    requests, lm_load_relaxed(&of[LOAM_METER_ALLOC].calls),
                    lm_load_relaxed(&of[LOAM_METER_FREE].calls),
                    lm_load_relaxed(&of[LOAM_METER_REALLOC].calls), slow_calls,
                    lm_load_relaxed(&of[LOAM_METER_ALLOC].ns),
                    lm_load_relaxed(&of[LOAM_METER_FREE].ns),
                    lm_load_relaxed(&of[LOAM_METER_REALLOC].ns));
        add_text(line.text, line.used);
    }
    lm_lock_give(&out.lock);
}

loam_meter_call loam_meter_begin_timed(void) {
    loam_meter_call call = loam_meter_begin();
    call.start = ticks_now();
    return call;
}

void loam_meter_end_timed(loam_meter_call call, const loam_entry *entry,
                          loam_meter_function function, size_t requested, size_t more, size_t less,
                          bool failed) {
    uint64_t ticks = ticks_now() - call.start;
    if (LM_UNLIKELY(ticks > UINT64_MAX / 2)) ticks = 0; /* two processors disagree */
    size_t operation, ns = ns_of(ticks);
    bool slow;
    lm_meter_t *meter =
        lm_meter_count(entry, function, requested, more, less, failed, &slow, &operation);
    loam_meter_calls *calls = &meter->stats.of[function];
    unsigned bucket = 63 - (unsigned)__builtin_clzll((unsigned long long)ns | 1);
    if (bucket >= LOAM_METER_BUCKETS) bucket = LOAM_METER_BUCKETS - 1;
    (void)lm_meter_add(meter, &calls->timed, 1);
    (void)lm_meter_add(meter, &calls->ns, ns);
    (void)lm_meter_add(meter, &calls->ns_of[bucket], 1);
    lm_meter_most(&calls->ns_most, ns);
    if (LM_UNLIKELY(slow || operation % LOAM_METER_EVERY == 0) && lm_load_relaxed(&out.file) >= 0)
        meter_rows_add_row(meter, operation, function, slow, ns);
    lm_meter_was_slow = slow || call.outer;
}

size_t lm_meter_heap_held(void) {
    lm_span_stats_t span;
    lm_span_stats(&span);
    return span.used_bytes + span.dirty_bytes;
}

/* ---- Start and stop ---- */

static int meter_rows_start(int file, bool ours) {
    if (out.process != lm_os_process()) { /* the state is that of a parent process */
        lm_lock_reset(&out.lock);
        lm_store_relaxed(&out.file, -1);
        out.used = 0;
    }
    loam_meter_stop();
    (void)ns_of(0); /* calibrates now, and not in the first call that is measured */
    lm_lock_take(&out.lock);
    out.process = lm_os_process();
    out.ours = ours;
    out.start_ns = now_ns();
    out.rows = 0;
    add_text(header, sizeof(header) - 1);
    lm_store_relaxed(&out.file, file);
    lm_lock_give(&out.lock);
    return 0;
}

int loam_meter_start_fd(int fd) { return fd < 0 ? LM_EINVAL : meter_rows_start(fd, false); }

int loam_meter_start(const char *path) {
    lm_line_t name = {0};
    for (const char *p = path; *p != '\0'; p++) {
        bool number = p[0] == '%' && p[1] == 'p';
        char one[2] = {*p, '\0'};
        if (number)
            lm_line_add(&name, "%u", lm_os_process());
        else
            lm_line_add(&name, "%s", one);
        p += number;
    }
    name.text[name.used < sizeof(name.text) ? name.used : sizeof(name.text) - 1] = '\0';
    int file = open(name.text, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file >= 0) return meter_rows_start(file, true);
    int error = errno;
    lm_report("loam: meter: cannot write %s: %s", name.text, strerror(error));
    return -error;
}

static void add_histogram(const lm_meter_t *meter, loam_meter_function function) {
    const loam_meter_calls *calls = &meter->stats.of[function];
    if (lm_load_relaxed(&calls->timed) == 0) return;
    lm_line_t line = {0};
    lm_line_add(&line, "# histogram,%s,%s,%u,%s", meter->kind, meter->name,
                (unsigned)(meter - lm_meters), function_names[function]);
    add_text(line.text, line.used);
    for (int b = 0; b < LOAM_METER_BUCKETS; b++) {
        size_t count = lm_load_relaxed(&calls->ns_of[b]);
        if (count == 0) continue;
        line.used = 0;
        lm_line_add(&line, ",%zu:%zu", b == 0 ? (size_t)0 : (size_t)1 << b, count);
        add_text(line.text, line.used);
    }
    add_text("\n", 1);
}

/* Calls visit for each meter that has counted something. */
static void visit_meters(void (*visit)(const lm_meter_t *meter, void *context), void *context) {
    unsigned used = lm_load_acquire(&lm_meters_used);
    for (unsigned i = 0; i < LM_METERS; i = i + 1 == used ? LM_METER_OTHERS : i + 1) {
        if (lm_load_relaxed(&lm_meters[i].operations) != 0) visit(&lm_meters[i], context);
    }
}

static void add_histograms(const lm_meter_t *meter, void *context) {
    (void)context;
    for (int f = 0; f < LOAM_METER_FUNCTIONS; f++) add_histogram(meter, (loam_meter_function)f);
}

void loam_meter_stop(void) {
    if (!goes_somewhere()) return;
    lm_lock_take(&out.lock);
    int file = out.file;
    if (file >= 0) {
        visit_meters(add_histograms, NULL);
        flush();
        lm_store_relaxed(&out.file, -1);
        if (out.ours) (void)close(file);
    }
    lm_lock_give(&out.lock);
}

__attribute__((destructor)) static void stop_at_exit(void) { loam_meter_stop(); }

/* ---- The table ---- */

static void print_bars(int fd, const loam_meter_calls *calls) {
    size_t most = 1;
    for (int b = 0; b < LOAM_METER_BUCKETS; b++) {
        size_t count = lm_load_relaxed(&calls->ns_of[b]);
        if (count > most) most = count;
    }
    for (int b = 0; b < LOAM_METER_BUCKETS; b++) {
        size_t count = lm_load_relaxed(&calls->ns_of[b]);
        if (count == 0) continue;
        char bar[41] = {0};
        size_t length = (count * (sizeof(bar) - 2) + most - 1) / most;
        for (size_t i = 0; i < length + 1 && i < sizeof(bar) - 1; i++) bar[i] = '#';
        lm_line_t line = {0};
        size_t least = b == 0 ? (size_t)0 : (size_t)1 << b;
        lm_line_add(&line, "    from ");
        for (size_t n = 100000000; n > 1 && n > least; n /= 10) lm_line_add(&line, " ");
        lm_line_add(&line, "%zu ns: %s %zu\n", least, bar, count);
        (void)meter_rows_write_all(fd, line.text, line.used);
    }
}

static void print_meter(const lm_meter_t *meter, void *context) {
    int fd = *(const int *)context;
    const loam_meter_stats *stats = &meter->stats;
    size_t held, in_all, requests;
    lm_meter_held(meter, &held, &in_all, &requests);
    lm_line_t line = {0};
    lm_line_add(&line, "%s %s: used %zu (at most %zu), held %zu (at most %zu), requested %zu, ",
                meter->kind, meter->name[0] != '\0' ? meter->name : "-",
                lm_load_relaxed(&stats->used), lm_load_relaxed(&stats->used_most), held,
                stats->held_most > held ? stats->held_most : held,
                lm_load_relaxed(&stats->requested));
    lm_line_add(&line, "%zu requests of %zu bytes in all\n", requests, in_all);
    (void)meter_rows_write_all(fd, line.text, line.used);
    for (int f = 0; f < LOAM_METER_FUNCTIONS; f++) {
        const loam_meter_calls *calls = &stats->of[f];
        size_t count = lm_load_relaxed(&calls->calls), timed = lm_load_relaxed(&calls->timed);
        if (count == 0) continue;
        line.used = 0;
        lm_line_add(&line, "  %s: %zu calls, %zu slow, %zu failed", function_names[f], count,
                    lm_load_relaxed(&calls->slow), lm_load_relaxed(&calls->failed));
        if (timed != 0) {
            lm_line_add(&line, "; %zu ns each, %zu at most", lm_load_relaxed(&calls->ns) / timed,
                        lm_load_relaxed(&calls->ns_most));
        }
        lm_line_add(&line, "\n");
        (void)meter_rows_write_all(fd, line.text, line.used);
        print_bars(fd, calls);
    }
}

void loam_meter_print(int fd) { visit_meters(print_meter, &fd); }

#endif
