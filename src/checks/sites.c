/* sites.c: call stacks that allocated and freed an object, for the debug build's reports. Only if
 * the user requests it.
 *
 *   pointer ── hash ──> bucket of 8 [ pointer | trace of malloc, thread | trace of free, thread ]
 *                                              │                         │
 *                                              └──> traces, each once <──┘      [ depth | sites ]
 *
 * Both tables are loam's own memory, out of the objects' reach. A full bucket reuses the entries of
 * freed objects. If it has none, the next table of buckets is searched or made, up to TABLES_MOST
 * tables; beyond these, new objects are not recorded. It cannot record allocations that dladdr
 * makes for a report. One lock guards all tables; it is taken before the arena's lock. Names of
 * places need libc's locks, so they are looked up outside of it.
 */
#include "checks/inner.h"

#include <string.h>

#if LOAM_DEBUG

enum {
    TABLE_SLICES = 16,
    BUCKET = 8,
    TABLES_MOST = 128,
    TRACES = 1 << 15,
    PROBES_MOST = 64, /* large enough that a trace finds no slot only in a nearly full table */
    SITES_MOST = 16,  /* largest number of places in a trace */
};

typedef struct entry {
    uintptr_t object;
    /* Number of the trace of its allocation and of its free; 0: unknown, or not freed. */
    uint32_t allocated, freed;
    /* Number of the thread that allocated and of the one that freed it; freed_by 0: in use. */
    unsigned by, freed_by;
} entry_t;

typedef struct trace {
    uint32_t depth; /* number of places; 0: the slot is empty */
    lm_site_t places[SITES_MOST];
} trace_t;

#define BUCKETS (TABLE_SLICES * LM_SLICE_BYTES / (BUCKET * sizeof(entry_t)))

/* Depth of traces; 0: nothing is recorded; UNSETTLED: options are not read yet. Atomic. */
enum { UNSETTLED = SITES_MOST + 1 };
static LM_AT_START unsigned recorded = UNSETTLED;
static lm_lock_t sites_lock; /* guards the tables below */
static entry_t *sites_tables[TABLES_MOST];
static unsigned sites_count;
static trace_t *traces; /* [0] is unused */
static bool lost;       /* atomic: a trace or object had no room */

static LM_TLS bool inside;          /* this thread is in code whose allocations are not recorded */
static LM_TLS const void *about;    /* the object that the thread's next report is about */
static const void *about_of_worker; /* `about` of the worker, which has no thread-local storage */

static uint64_t mixed(uint64_t value) {
    value *= 0x9e3779b97f4a7c15u;
    return value ^ value >> 29;
}

static void *room(size_t bytes) {
    bool zero = false;
    size_t slices = (bytes + LM_SLICE_BYTES - 1) >> LM_SLICE_SHIFT;
    lm_page_t *span = lm_span_take(slices, 1, LM_KIND_META, &zero);
    if (span == NULL) return NULL;
    return zero ? lm_span_start(span) : memset(lm_span_start(span), 0, bytes);
}

/* ---- Traces ---- */

/* Records that the tables are full, which reports say from now on. Returns 0. Relaxed: the flag
 * stands alone. */
static uint32_t sites_no_room(void) {
    lm_store_relaxed(&lost, true);
    return 0;
}

/* Returns the trace's number, after it was added if it was new. Returns 0 iff it is empty or has no
 * room. */
static uint32_t trace_number(const trace_t *trace) {
    LM_ASSERT(lm_lock_held(&sites_lock));
    LM_ASSERT(trace->depth <= SITES_MOST);
    if (trace->depth == 0) return 0;
    if (traces == NULL) traces = (trace_t *)room(TRACES * sizeof(trace_t));
    if (traces == NULL) return sites_no_room();
    uint64_t hash = trace->depth;
    for (uint32_t i = 0; i < trace->depth; i++) hash = mixed(hash ^ trace->places[i]);
    for (uint32_t i = 0; i < PROBES_MOST; i++) {
        uint32_t number = (uint32_t)((hash >> 8) + i) % (TRACES - 1) + 1;
        trace_t *there = &traces[number];
        size_t bytes = trace->depth * sizeof trace->places[0];
        if (there->depth == trace->depth && memcmp(there->places, trace->places, bytes) == 0)
            return number;
        if (there->depth != 0) continue;
        memcpy(there->places, trace->places, bytes);
        there->depth = trace->depth;
        return number;
    }
    return sites_no_room();
}

uint32_t lm_sites_number(const lm_site_t *places, size_t depth) {
    trace_t trace = {.depth = (uint32_t)(depth < SITES_MOST ? depth : SITES_MOST)};
    memcpy(trace.places, places, trace.depth * sizeof *places);
    lm_lock_take(&sites_lock);
    uint32_t number = trace_number(&trace);
    lm_lock_give(&sites_lock);
    return number;
}

static trace_t sites_here(void) {
    trace_t trace = {0};
    trace.depth = (uint32_t)lm_os_trace(NULL, trace.places, lm_load_relaxed(&recorded));
    LM_ASSERT(trace.depth <= SITES_MOST);
    return trace;
}

/* ---- Objects ---- */

static entry_t *bucket_of(unsigned table, const void *p) {
    LM_ASSERT(table < sites_count && sites_tables[table] != NULL);
    return sites_tables[table] + mixed((uintptr_t)p >> 4) % BUCKETS * BUCKET;
}

static entry_t *sites_find(const void *p) {
    LM_ASSERT(lm_lock_held(&sites_lock));
    for (unsigned t = 0; t < sites_count; t++) {
        entry_t *entry = bucket_of(t, p);
        for (unsigned i = 0; i < BUCKET; i++, entry++) {
            if (entry->object == (uintptr_t)p) return entry;
        }
    }
    return NULL;
}

/* Returns an entry for a new object: an empty one, or that of a freed object. Returns NULL iff
 * there is none. */
static entry_t *spare(const void *p) {
    LM_ASSERT(lm_lock_held(&sites_lock) && sites_count <= TABLES_MOST);
    for (unsigned t = 0; t < sites_count; t++) {
        entry_t *entry = bucket_of(t, p), *freed = NULL;
        for (unsigned i = 0; i < BUCKET; i++, entry++) {
            if (entry->object == 0) return entry;
            if (entry->freed_by != 0) freed = entry;
        }
        if (freed != NULL) return freed;
    }
    if (sites_count == TABLES_MOST) return NULL;
    sites_tables[sites_count] = (entry_t *)room(TABLE_SLICES * LM_SLICE_BYTES);
    return sites_tables[sites_count] != NULL ? bucket_of(sites_count++, p) : NULL;
}

/* Returns whether to record, as the options say, before loam's constructor has read them.
 * Constructors of other libraries may run earlier and call malloc. */
static LM_COLD bool sites_settle(void) {
    unsigned depth;
    inside = true; /* a preloaded tool's strncmp may allocate */
    bool known = lm_sites_expected(&depth);
    inside = false;
    if (!known) return false;
    if (depth != 0)
        lm_sites_record(depth);
    else
        lm_sites_settle();
    return depth != 0;
}

/* Returns whether this thread's allocations are recorded. Relaxed: the depth stands alone. */
static bool sites_wanted(void) {
    unsigned depth = lm_load_relaxed(&recorded);
    if (LM_UNLIKELY(depth == UNSETTLED) && !inside) return sites_settle();
    return depth != 0 && !inside;
}

void lm_sites_allocated(const void *p) {
    LM_ASSERT(p != NULL); /* an entry of NULL is an empty one */
    if (LM_LIKELY(!sites_wanted())) return;
    trace_t trace = sites_here();
    unsigned thread = lm_port_thread_id();
    lm_lock_take(&sites_lock);
    entry_t *entry = sites_find(p);
    if (entry == NULL) entry = spare(p);
    if (entry != NULL)
        *entry = (entry_t){(uintptr_t)p, trace_number(&trace), 0, thread, 0};
    else
        (void)sites_no_room();
    lm_lock_give(&sites_lock);
}

void lm_sites_freed(const void *p) {
    if (LM_LIKELY(!sites_wanted())) return;
    trace_t trace = sites_here();
    unsigned thread = lm_port_thread_id();
    lm_lock_take(&sites_lock);
    entry_t *entry = sites_find(p);
    if (entry != NULL) {
        entry->freed = trace_number(&trace);
        entry->freed_by = thread;
    }
    lm_lock_give(&sites_lock);
}

uint32_t lm_sites_of(const void *p) {
    lm_lock_take(&sites_lock);
    const entry_t *entry = sites_find(p);
    uint32_t number = entry != NULL ? entry->allocated : 0;
    LM_ASSERT(number < TRACES);
    lm_lock_give(&sites_lock);
    return number;
}

/* ---- Reports ---- */

/* Adds the place's name to the line. The worker is no thread of libc, so it gets module and
 * offset. */
static void name(lm_line_t *line, lm_site_t place) {
    if (lm_os_worker_self()) {
        lm_os_site_where(line, place);
        return;
    }
    inside = true;
    lm_os_site_name(line, place);
    inside = false;
}

void lm_sites_report(uint32_t number) {
    trace_t trace = {0};
    lm_lock_take(&sites_lock);
    if (traces != NULL) trace = traces[number];
    lm_lock_give(&sites_lock);
    /* Relaxed, both: each word stands alone. */
    if (number == 0 && lm_load_relaxed(&lost) && lm_load_relaxed(&recorded) != 0)
        lm_report("loam:     from where is not known: there was no room for more call sites");
    for (uint32_t i = 0; i < trace.depth; i++) {
        lm_line_t line = {0};
        name(&line, trace.places[i]);
        lm_report("loam:     #%u %s", i, line.text);
    }
}

static const void **about_here(void) { return lm_os_worker_self() ? &about_of_worker : &about; }

static void report_more(bool written) {
    const void **place = about_here(), *object = *place;
    /* Whether or not the line was written, the next report is about another object. */
    *place = NULL;
    if (object == NULL || !written) return;
    lm_lock_take(&sites_lock);
    const entry_t *found = sites_find(object);
    entry_t entry = found != NULL ? *found : (entry_t){0};
    lm_lock_give(&sites_lock);
    if (entry.object == 0) {
        if (lm_load_relaxed(&lost)) lm_sites_report(0);
        return;
    }
    lm_report("loam:   %p was allocated by thread %u", object, entry.by);
    lm_sites_report(entry.allocated);
    if (entry.freed_by == 0) return;
    lm_report("loam:   and freed by thread %u", entry.freed_by);
    lm_sites_report(entry.freed);
}

void lm_sites_about(const void *p) { *about_here() = p; }

void lm_sites_record(unsigned depth) {
    LM_ASSERT(depth <= SITES_MOST);
    inside = true;
    if (depth != 0) lm_os_trace_prepare();
    inside = false;
    lm_store_release(&lm_misuse_more, report_more);
    lm_store_relaxed(&recorded, depth);
}

void lm_sites_settle(void) {
    unsigned unsettled = UNSETTLED;
    (void)lm_cas_relaxed(&recorded, &unsettled, 0u);
}

/* ---- Fork ---- */

lm_lock_t *lm_sites_fork_lock(void) { return &sites_lock; }

#endif
