/* meter.c: the meters of all allocators (loam/meter.h): which allocator has which meter, and what
 * is counted. Empty at level 0.
 *
 *   owners[]   heap │ entry │ entry │ GONE │ entry │ ... │ (others)     one meter each, in meters[]
 *
 * The address of an allocator's entry identifies the owner of a meter. The calling thread remembers
 * a few. Otherwise the owners are searched, and an entry that is not found gets a meter under the
 * port's LIST: that of a GONE owner of the same kind and name, or a new one. Only threads that use
 * an allocator look for its meter, so the meter can neither appear nor disappear meanwhile.
 * Invariant: an address is in owners[] at most once; kind, name and shared never change once a
 * meter is used.
 */
#include "family/family.h"

#if LOAM_METER

enum { RECENT = 16 };
#define GONE ((uintptr_t)1)

static uintptr_t owners[LM_METERS] = {(uintptr_t)&loam_meter_heap};

static const loam_kind heap_kind = {.name = "heap"};
const loam_entry loam_meter_heap = {.kind = &heap_kind};

lm_meter_t lm_meters[LM_METERS] = {
    [0] = {.kind = "heap", .shared = true}, [LM_METER_OTHERS] = {.kind = "others", .shared = true}};
unsigned lm_meters_used = 1;

LM_METER_TLS bool lm_meter_was_slow;
size_t lm_meter_system_calls, lm_meter_system_bytes;

/* Indices at which the calling thread found entries last. */
static LM_METER_TLS uint16_t recent[RECENT];

/* ---- Owners ---- */

static bool is_named(const lm_meter_t *meter, const char *name) {
    size_t i = 0;
    for (; i < LM_METER_NAME - 1 && name[i] != '\0' && meter->name[i] != '\0'; i++) {
        bool plain = name[i] > ' ' && name[i] <= '~' && name[i] != ',' && name[i] != '"';
        if (meter->name[i] != (plain ? name[i] : '_')) return false;
    }
    return meter->name[i] == '\0' && (name[i] == '\0' || i == LM_METER_NAME - 1);
}

static void set_name(lm_meter_t *meter, const char *name) {
    for (size_t i = 0; i < LM_METER_NAME - 1 && name[i] != '\0'; i++) {
        bool plain = name[i] > ' ' && name[i] <= '~' && name[i] != ',' && name[i] != '"';
        meter->name[i] = plain ? name[i] : '_';
    }
}

/* Gives the entry a meter and returns its index. LIST is held. */
static unsigned meter_take(const loam_entry *entry) {
    const char *name = entry->name != NULL ? entry->name : "";
    unsigned used = lm_meters_used, i = 0;
    LM_ASSERT(used > 0 && used <= LM_METER_OTHERS);
    while (i < used && lm_load_relaxed(&owners[i]) != (uintptr_t)entry) i++;
    if (i < used) return i; /* another thread was faster */
    for (i = 0; i < used; i++) {
        if (lm_load_relaxed(&owners[i]) == GONE && lm_meters[i].kind == entry->kind->name &&
            lm_meters[i].shared == (entry->kind->hold != NULL) && is_named(&lm_meters[i], name))
            break;
    }
    if (i == LM_METER_OTHERS) return i;
    lm_meter_t *meter = &lm_meters[i];
    if (i == used) {
        meter->kind = entry->kind->name;
        meter->shared = entry->kind->hold != NULL;
        set_name(meter, name);
        /* Release: a thread that sees the new count sees the meter's kind and name. */
        lm_store_release(&lm_meters_used, used + 1);
    }
    lm_store_relaxed(&meter->stats.used, 0);
    lm_store_relaxed(&meter->stats.held, 0);
    lm_store_relaxed(&meter->depth, 0);
    lm_store_relaxed(&owners[i], (uintptr_t)entry);
    return i;
}

/* Returns the index of the entry's meter, or LM_METERS iff it has none. */
static unsigned meter_find(const loam_entry *entry) {
    uintptr_t owner = (uintptr_t)entry;
    uint16_t *last = &recent[(owner >> 4 ^ owner >> 10) % RECENT];
    LM_ASSERT(*last < LM_METER_OTHERS);
    if (LM_LIKELY(lm_load_relaxed(&owners[*last]) == owner)) return *last;
    unsigned used = lm_load_acquire(&lm_meters_used);
    for (unsigned i = 0; i < used; i++) {
        if (lm_load_relaxed(&owners[i]) != owner) continue;
        *last = (uint16_t)i;
        return i;
    }
    return LM_METERS;
}

static lm_meter_t *meter_of(const loam_entry *entry) {
    unsigned i = meter_find(entry);
    if (LM_LIKELY(i < LM_METERS)) return &lm_meters[i];
    lm_port_lock(LM_PORT_LIST);
    i = meter_take(entry);
    lm_port_unlock(LM_PORT_LIST);
    LM_ASSERT(i < LM_METERS);
    return &lm_meters[i];
}

/* Returns the entry's meter, or NULL iff it has none yet. */
static lm_meter_t *known_meter(const loam_entry *entry) {
    unsigned i = meter_find(entry);
    return i < LM_METERS ? &lm_meters[i] : NULL;
}

/* ---- Events of allocators ---- */

static void hold(lm_meter_t *meter, size_t bytes) {
    LM_ASSERT(meter != &lm_meters[LM_METER_OTHERS]);
    lm_meter_most(&meter->stats.held_most, lm_meter_add(meter, &meter->stats.held, bytes));
    (void)lm_meter_add(meter, &meter->stats.held_in_all, bytes);
}

/* Notes a new allocator. Its address may have been that of another one, which ended without
 * notice. */
void lm_meter_began(const loam_entry *entry, size_t held_bytes, size_t requests) {
    lm_meter_over(entry);
    lm_meter_t *meter = meter_of(entry);
    if (meter == &lm_meters[LM_METER_OTHERS]) return;
    hold(meter, held_bytes);
    (void)lm_meter_add(meter, &meter->stats.requests, requests);
}

void lm_meter_got(const loam_entry *entry, size_t bytes) {
    lm_meter_slow();
    if (entry->kind == NULL) return;
    lm_meter_t *meter = meter_of(entry);
    if (meter == &lm_meters[LM_METER_OTHERS]) return;
    hold(meter, bytes);
    (void)lm_meter_add(meter, &meter->stats.requests, 1);
}

void lm_meter_put(const loam_entry *entry, size_t bytes) {
    lm_meter_slow();
    lm_meter_t *meter = known_meter(entry);
    if (meter != NULL) (void)lm_meter_add(meter, &meter->stats.held, 0 - bytes);
}

static void push_at(lm_meter_t *meter, size_t depth) {
    LM_ASSERT(meter != &lm_meters[LM_METER_OTHERS]);
    if (depth < LOAM_METER_DEPTH) {
        lm_store_relaxed(&meter->used_at[depth], lm_load_relaxed(&meter->stats.used));
        lm_store_relaxed(&meter->place[depth], LM_METER_FRAME);
    }
    lm_store_relaxed(&meter->depth, depth + 1);
}

static bool is_frame(const lm_meter_t *meter, size_t depth) {
    return depth >= LOAM_METER_DEPTH || lm_load_relaxed(&meter->place[depth]) == LM_METER_FRAME;
}

static void pop_to(lm_meter_t *meter, size_t depth) {
    if (depth >= lm_load_relaxed(&meter->depth)) return; /* it was pushed before the first call */
    if (depth < LOAM_METER_DEPTH)
        lm_store_relaxed(&meter->stats.used, lm_load_relaxed(&meter->used_at[depth]));
    lm_store_relaxed(&meter->depth, depth);
}

void lm_meter_mark(const loam_entry *entry, size_t depth) {
    lm_meter_t *meter = meter_of(entry);
    if (meter != &lm_meters[LM_METER_OTHERS]) push_at(meter, depth);
}

void lm_meter_rewind(const loam_entry *entry, size_t depth) {
    lm_meter_t *meter = known_meter(entry);
    if (meter != NULL) pop_to(meter, depth);
}

void loam_meter_push(const loam_entry *entry) {
    lm_meter_t *meter = meter_of(entry);
    if (meter != &lm_meters[LM_METER_OTHERS]) push_at(meter, lm_load_relaxed(&meter->depth));
}

void loam_meter_pop(const loam_entry *entry) {
    lm_meter_t *meter = known_meter(entry);
    if (meter == NULL || lm_load_relaxed(&meter->depth) == 0) return;
    size_t depth = lm_load_relaxed(&meter->depth) - 1;
    while (depth != 0 && !is_frame(meter, depth)) depth--; /* skip the marks in the frame */
    if (is_frame(meter, depth)) pop_to(meter, depth);
}

/* Marks beyond the maximum depth are not kept; all entries there are frames. */
void lm_meter_mark_at(const loam_entry *entry, const void *place) {
    lm_meter_t *meter = meter_of(entry);
    size_t depth = lm_load_relaxed(&meter->depth);
    if (meter == &lm_meters[LM_METER_OTHERS] || depth > LOAM_METER_DEPTH) return;
    /* The newest mark at this place serves for both. */
    if (depth != 0 && lm_load_relaxed(&meter->place[depth - 1]) == (uintptr_t)place) depth--;
    if (depth == LOAM_METER_DEPTH) return;
    push_at(meter, depth);
    lm_store_relaxed(&meter->place[depth], (uintptr_t)place);
}

void lm_meter_rewind_to(const loam_entry *entry, const void *place) {
    lm_meter_t *meter = known_meter(entry);
    if (meter == NULL) return;
    for (size_t i = lm_load_relaxed(&meter->depth); i-- > 0 && !is_frame(meter, i);) {
        if (lm_load_relaxed(&meter->place[i]) != (uintptr_t)place) continue;
        pop_to(meter, i);
        lm_store_relaxed(&meter->depth, i + 1); /* the mark may be used again */
        return;
    }
}

void lm_meter_less(const loam_entry *entry, size_t bytes) {
    lm_meter_t *meter = bytes != 0 ? known_meter(entry) : NULL;
    if (meter == NULL) return;
    size_t used = lm_load_relaxed(&meter->stats.used);
    (void)lm_meter_add(meter, &meter->stats.used, 0 - (bytes < used ? bytes : used));
}

void lm_meter_freed(const loam_entry *entry, size_t objects) {
    lm_meter_t *meter = meter_of(entry);
    (void)lm_meter_add(meter, &meter->stats.of[LOAM_METER_FREE].calls, objects);
}

void lm_meter_drop(const loam_entry *entry) {
    lm_meter_t *meter = known_meter(entry);
    if (meter == NULL) return;
    lm_store_relaxed(&meter->stats.used, 0);
    lm_store_relaxed(&meter->depth, 0);
}

void lm_meter_over(const loam_entry *entry) {
    unsigned i = meter_find(entry);
    if (i == LM_METERS) return;
    LM_ASSERT(i > 0 && i < LM_METER_OTHERS); /* the heap's never ends */
    lm_store_relaxed(&lm_meters[i].stats.used, 0);
    lm_store_relaxed(&lm_meters[i].stats.held, 0);
    /* A thread that takes the meter under LIST sees the stores above. */
    lm_port_lock(LM_PORT_LIST);
    lm_store_relaxed(&owners[i], GONE);
    lm_port_unlock(LM_PORT_LIST);
}

/* ---- Calls ---- */

loam_meter_call loam_meter_begin(void) {
    loam_meter_call call = {.outer = lm_meter_was_slow};
    lm_meter_was_slow = false;
    return call;
}

lm_meter_t *lm_meter_count(const loam_entry *entry, loam_meter_function function, size_t requested,
                           size_t more, size_t less, bool failed, bool *slow, size_t *operation) {
    lm_meter_t *meter = meter_of(entry);
    loam_meter_stats *stats = &meter->stats;
    loam_meter_calls *calls = &stats->of[function];
    *slow = lm_meter_was_slow;
    *operation = lm_meter_add(meter, &meter->operations, 1);
    (void)lm_meter_add(meter, &calls->calls, 1);
    if (LM_UNLIKELY(*slow)) (void)lm_meter_add(meter, &calls->slow, 1);
    if (LM_UNLIKELY(failed)) (void)lm_meter_add(meter, &calls->failed, 1);
    if (requested != 0) (void)lm_meter_add(meter, &stats->requested, requested);
    if (more != less && meter != &lm_meters[LM_METER_OTHERS])
        lm_meter_most(&stats->used_most, lm_meter_add(meter, &stats->used, more - less));
    return meter;
}

void loam_meter_end(loam_meter_call call, const loam_entry *entry, loam_meter_function function,
                    size_t requested, size_t more, size_t less, bool failed) {
    bool slow;
    size_t operation;
    (void)lm_meter_count(entry, function, requested, more, less, failed, &slow, &operation);
    lm_meter_was_slow = slow || call.outer;
}

/* ---- Reading the counts ---- */

void lm_meter_held(const lm_meter_t *meter, size_t *held, size_t *in_all, size_t *requests) {
    *held = lm_load_relaxed(&meter->stats.held);
    *in_all = lm_load_relaxed(&meter->stats.held_in_all);
    *requests = lm_load_relaxed(&meter->stats.requests);
#if LM_HOSTED
    if (meter != lm_meters) return;
    *held = lm_meter_heap_held();
    *in_all += lm_load_relaxed(&lm_meter_system_bytes);
    *requests += lm_load_relaxed(&lm_meter_system_calls);
#endif
}

static void add_calls(loam_meter_calls *sum, const loam_meter_calls *calls) {
    sum->calls += lm_load_relaxed(&calls->calls);
    sum->slow += lm_load_relaxed(&calls->slow);
    sum->failed += lm_load_relaxed(&calls->failed);
    sum->timed += lm_load_relaxed(&calls->timed);
    sum->ns += lm_load_relaxed(&calls->ns);
    size_t most = lm_load_relaxed(&calls->ns_most);
    if (most > sum->ns_most) sum->ns_most = most;
    for (int b = 0; b < LOAM_METER_BUCKETS; b++) sum->ns_of[b] += lm_load_relaxed(&calls->ns_of[b]);
}

static bool meter_same_text(const char *a, const char *b) {
    while (*a == *b && *a != '\0') a++, b++;
    return *a == *b;
}

bool loam_meter_read(const char *kind, const char *name, loam_meter_stats *sum) {
    bool found = false;
    unsigned used = lm_load_acquire(&lm_meters_used);
    memset(sum, 0, sizeof(*sum));
    for (unsigned i = 0; i < LM_METERS; i = i + 1 == used ? LM_METER_OTHERS : i + 1) {
        const lm_meter_t *meter = &lm_meters[i];
        const loam_meter_stats *stats = &meter->stats;
        if (lm_load_relaxed(&meter->operations) == 0 && lm_load_relaxed(&stats->requests) == 0)
            continue;
        if (kind != NULL && !meter_same_text(kind, meter->kind)) continue;
        if (name != NULL && !is_named(meter, name)) continue;
        size_t held, in_all, requests;
        lm_meter_held(meter, &held, &in_all, &requests);
        found = true;
        for (int f = 0; f < LOAM_METER_FUNCTIONS; f++) add_calls(&sum->of[f], &stats->of[f]);
        sum->allocators += i != LM_METER_OTHERS && lm_load_relaxed(&owners[i]) != GONE;
        sum->requested += lm_load_relaxed(&stats->requested);
        sum->used += lm_load_relaxed(&stats->used);
        sum->used_most += lm_load_relaxed(&stats->used_most);
        sum->held += held;
        size_t most = lm_load_relaxed(&stats->held_most);
        sum->held_most += most > held ? most : held;
        sum->held_in_all += in_all;
        sum->requests += requests;
    }
    return found;
}

/* Calls made meanwhile may or may not be included. */
void loam_meter_reset(void) {
    unsigned used = lm_load_acquire(&lm_meters_used);
    for (unsigned i = 0; i < LM_METERS; i = i + 1 == used ? LM_METER_OTHERS : i + 1) {
        lm_meter_t *meter = &lm_meters[i];
        loam_meter_stats *stats = &meter->stats;
        for (int f = 0; f < LOAM_METER_FUNCTIONS; f++) {
            size_t *words = (size_t *)(void *)&stats->of[f];
            for (size_t w = 0; w < sizeof(stats->of[f]) / sizeof(size_t); w++)
                lm_store_relaxed(&words[w], 0);
        }
        lm_store_relaxed(&meter->operations, 0);
        lm_store_relaxed(&stats->requested, 0);
        lm_store_relaxed(&stats->requests, 0);
        lm_store_relaxed(&stats->held_in_all, 0);
        lm_store_relaxed(&stats->used_most, lm_load_relaxed(&stats->used));
        lm_store_relaxed(&stats->held_most, lm_load_relaxed(&stats->held));
    }
    lm_store_relaxed(&lm_meter_system_calls, 0);
    lm_store_relaxed(&lm_meter_system_bytes, 0);
}

#endif
