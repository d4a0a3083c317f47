/* sampled.c: places one in N allocations on pages of its own, between pages without access.
 *
 *   slice     guard 0   slot 0                guard 1   slot 1                guard 2
 *           [ ------- | ----------- [object]| ------- | ----------- [object]| ------- ] 64 KiB each
 *                                   ^ the slice's last page or pages; all other pages are closed,
 *                                     and these once the object is freed
 *
 * Choose it (LOAM_GUARD_SAMPLING, loam/sampling.h) where a debug build is too slow: in production.
 * An object ends where its last page does, or begins where its first does, by chance: one byte too
 * far is a fault. The rest of its pages has a pattern that free checks. A free closes the pages,
 * and the slot waits in a queue as long as there are other slots. sampled_report.c reports what was
 * recorded.
 *
 * It costs the fast path of free nothing: free meets an owner that is no thread. It cannot sample
 * objects above 64 KiB. sample_turns.c decides which allocations are sampled.
 * Invariant: a slot is in the queue iff no object in use lies in it. Pages are open only in slots
 * in use, and in slots that were opened on purpose (LOAM_ON_ERROR=ignore), until their next use.
 * Checker: lm_sampled_check.
 */
#include "sampling/sampling.h"

#include <string.h>

lm_sampling_t lm_sampling = {0, 256, false};
LM_AT_START lm_sampled_t lm_sampled;

enum { PATTERN = 0xb7, PATIENCE = 200 /* largest number of turns of lm_os_nap */ };

void lm_sampled_lock(void) { lm_lock_take(&lm_sampled.lock); }
bool lm_sampled_lock_soon(void) {
    for (int i = 0; i < PATIENCE; i++) {
        if (lm_lock_try(&lm_sampled.lock)) return true;
        lm_os_nap((unsigned)i);
    }
    return false;
}
void lm_sampled_unlock(void) { lm_lock_give(&lm_sampled.lock); }
lm_lock_t *lm_sampled_fork_lock(void) { return &lm_sampled.lock; }

/* ---- Slots ---- */

static char *slot_start(uint32_t slot) {
    LM_ASSERT(slot < lm_sampled.count);
    return lm_sampled.base + ((2 * (size_t)slot + 1) << LM_SLICE_SHIFT);
}

static lm_page_t *sampled_page_of(uint32_t slot) {
    LM_ASSERT(slot < lm_sampled.count);
    return lm_sampled.span + 2 * (size_t)slot + 1;
}

static uint32_t sampled_slot_of(const lm_page_t *page) {
    LM_ASSERT(page->kind == LM_KIND_SAMPLED && (page - lm_sampled.span) % 2 == 1);
    LM_ASSERT((size_t)(page - lm_sampled.span) <= 2 * (size_t)lm_sampled.count);
    return (uint32_t)(page - lm_sampled.span - 1) / 2;
}

static void enqueue(uint32_t slot) {
    LM_ASSERT(lm_lock_held(&lm_sampled.lock));
    LM_ASSERT(slot < lm_sampled.count && lm_sampled.slots[slot].state != LM_SLOT_USED);
    lm_sampled.slots[slot].next = LM_SLOT_NONE;
    if (lm_sampled.first == LM_SLOT_NONE)
        lm_sampled.first = slot;
    else
        lm_sampled.slots[lm_sampled.last].next = slot;
    lm_sampled.last = slot;
}

/* Makes the slots, unless they exist. Returns false iff that is not possible. */
static bool make_slots(void) {
    LM_ASSERT(lm_lock_held(&lm_sampled.lock));
    if (lm_sampled.base != NULL) return true;
    uint32_t count = lm_load_relaxed(&lm_sampling.slots);
    size_t room = lm_align_up(count * sizeof(lm_slot_t), LM_SLICE_BYTES);
    bool zero;
    lm_page_t *table = lm_span_take(room >> LM_SLICE_SHIFT, 1, LM_KIND_META, &zero);
    if (table == NULL) return false;
    size_t slices = 2 * (size_t)count + 1;
    lm_page_t *span = lm_span_take(slices, 1, LM_KIND_SAMPLED, NULL);
    if (span == NULL || !lm_os_protect(lm_span_start(span), slices << LM_SLICE_SHIFT, false)) {
        if (span != NULL) lm_span_give(span, false);
        lm_span_give_meta(table, false);
        return false;
    }
    (void)lm_os_purge(lm_span_start(span), slices << LM_SLICE_SHIFT);
    lm_sampled.slots = (lm_slot_t *)(void *)lm_span_start(table);
    if (!zero) memset(lm_sampled.slots, 0, room);
    lm_sampled.span = span;
    lm_sampled.count = count;
    lm_sampled.page_bytes = lm_os_page_bytes();
    lm_sampled.first = LM_SLOT_NONE;
    char *base = lm_span_start(span);
    for (uint32_t slot = 0; slot < count; slot++) {
        lm_page_t *page = span + 2 * (size_t)slot + 1;
        memset(page, 0, sizeof *page);
        page->kind = LM_KIND_SAMPLED;
        page->slices = 1;
        lm_store_relaxed(&page->owner, LM_OWNER_NONE);
        lm_span_map(page, 1, page);
        enqueue(slot);
    }
    /* Release: a signal handler that reads the address without the lock sees all other fields. */
    lm_store_release(&lm_sampled.base, base);
    return true;
}

bool lm_sampling_start(void) {
    lm_os_trace_prepare();
    lm_sampled_lock();
    bool made = make_slots();
    lm_sampled_unlock();
    if (made) lm_os_judge_faults(lm_sampled_judge);
    return made;
}

lm_page_t *lm_sampled_near(const void *p, uint32_t *index) {
    /* Acquire: all other fields are visible. */
    const char *base = lm_load_acquire(&lm_sampled.base);
    if (base == NULL) return NULL;
    size_t slice = ((uintptr_t)p - (uintptr_t)base) >> LM_SLICE_SHIFT;
    if (slice > 2 * (size_t)lm_sampled.count) return NULL;
    size_t slot = slice / 2;
    /* A guard belongs to the nearer neighbour, or to the other one if only that has been used. */
    if (slice % 2 == 0) {
        size_t before = slot > 0 ? slot - 1 : slot, after = slot < lm_sampled.count ? slot : before;
        bool low = (uintptr_t)p % LM_SLICE_BYTES < LM_SLICE_BYTES / 2;
        slot = low ? before : after;
        if (lm_sampled.slots[slot].state == LM_SLOT_FRESH) slot = low ? after : before;
    }
    *index = (uint32_t)slot;
    return sampled_page_of((uint32_t)slot);
}

/* ---- Objects ---- */

/* Stores in *low and *high the bounds of what is checked around the object. */
static void surroundings(const lm_slot_t *slot, size_t bytes, char **low, char **high) {
    char *p = slot->object, *end = slot->end;
    LM_ASSERT(slot->start <= p && p <= end && bytes <= (size_t)(end - p));
    *low = p - slot->start > LM_SAMPLED_FENCE ? p - LM_SAMPLED_FENCE : slot->start;
    *high = (size_t)(end - p) - bytes > LM_SAMPLED_FENCE ? p + bytes + LM_SAMPLED_FENCE : end;
}

static void set_object(lm_slot_t *slot, lm_page_t *page, char *p, size_t bytes) {
    char *low, *high;
    slot->object = p;
    page->bytes = bytes;
    /* The secure build's free would look before an object that ends where a block of this size
     * ends. */
    page->block_bytes = LM_SECURE ? 0 : (uint32_t)bytes;
    surroundings(slot, bytes, &low, &high);
    memset(low, PATTERN, (size_t)(p - low));
    memset(p + bytes, PATTERN, (size_t)(high - p) - bytes);
}

ptrdiff_t lm_sampled_beyond(const lm_slot_t *slot, size_t bytes) {
    LM_ASSERT(lm_lock_held(&lm_sampled.lock));
    char *low, *high, *p = slot->object;
    surroundings(slot, bytes, &low, &high);
    while (high > p + bytes && (unsigned char)high[-1] == PATTERN) high--;
    if (high > p + bytes) return high - (p + bytes);
    while (low < p && (unsigned char)*low == PATTERN) low++;
    return low - p;
}

/* Returns the least alignment of an object; with LOAM_GUARD_SAMPLING_EXACT, the largest that an
 * object of exactly this size can need. */
static size_t least_align(size_t bytes) {
    size_t exact = bytes == 0 ? 1 : (bytes | 16) & (0 - (bytes | 16));
    return lm_load_relaxed(&lm_sampling.exact) ? exact : 16; /* relaxed: the setting stands alone */
}

/* Returns where an object lies in pages that end at `end`: at their end, or, if left, at the start
 * of a page. */
static char *sampled_place(char *end, size_t bytes, size_t align, bool left) {
    LM_ASSERT(lm_is_pow2(align) && bytes <= LM_BLOCK_MOST);
    size_t room = bytes == 0 ? 1 : bytes;
    if (left) {
        room = lm_align_up(room, lm_sampled.page_bytes);
        if (align < lm_sampled.page_bytes) align = lm_sampled.page_bytes;
    }
    return (char *)lm_align_down((uintptr_t)end - room, align);
}

static unsigned thread_of(const lm_theap_t *heap) {
    return heap != NULL && heap->tid != 0 ? heap->tid : lm_port_thread_id();
}

static lm_trace_t trace_here(void) {
    lm_trace_t trace;
    trace.depth = (uint32_t)lm_os_trace(trace.frames, trace.sites, LM_TRACE_FRAMES);
    LM_ASSERT(trace.depth <= LM_TRACE_FRAMES);
    return trace;
}

static void sampled_record(lm_trace_t *to, const lm_trace_t *trace, unsigned thread) {
    memcpy(to->frames, trace->frames, trace->depth * sizeof *trace->frames);
    memcpy(to->sites, trace->sites, trace->depth * sizeof *trace->sites);
    to->depth = trace->depth;
    to->thread = thread;
}

/* Takes the first slot of the queue for an object and opens its pages. Returns LM_SLOT_NONE iff the
 * queue is empty or the system refused. */
static uint32_t open_slot(size_t bytes, size_t align, bool left) {
    LM_ASSERT(lm_lock_held(&lm_sampled.lock));
    uint32_t index = lm_sampled.first;
    if (index == LM_SLOT_NONE) return index;
    lm_slot_t *slot = &lm_sampled.slots[index];
    LM_ASSERT(slot->state != LM_SLOT_USED);
    char *whole = slot_start(index), *end = whole + LM_SLICE_BYTES;
    /* The program went on after a bad access to the slot or a guard beside it. */
    if (LM_UNLIKELY(slot->opened))
        slot->opened = !lm_os_protect(whole - LM_SLICE_BYTES, 3 * LM_SLICE_BYTES, false);
    if (slot->state == LM_SLOT_FRESH)
        lm_os_keep_apart(end - lm_sampled.page_bytes, lm_sampled.page_bytes);
    char *p = sampled_place(end, bytes, align, left);
    LM_ASSERT(whole <= p);
    char *start = (char *)lm_align_down((uintptr_t)p, lm_sampled.page_bytes);
    if (slot->opened || !lm_os_protect(start, (size_t)(end - start), true)) return LM_SLOT_NONE;
    lm_sampled.first = slot->next;
    slot->start = start;
    slot->end = end;
    slot->left = left;
    set_object(slot, sampled_page_of(index), p, bytes);
    return index;
}

void *lm_sampled_alloc(lm_theap_t *heap, size_t bytes, unsigned size_class) {
    LM_ASSERT(size_class < LM_CLASSES && bytes <= lm_class_bytes(size_class));
    if (lm_load_relaxed(&lm_sampled.base) == NULL && !lm_sampling_start()) return NULL;
    /* Before the lock, because a trace may read memory that is slow to load. */
    lm_trace_t trace = trace_here();
    /* A caller that requests all bytes of a class may rely on its blocks' alignment (resize.c). */
    bool whole = bytes > 0 && bytes == lm_class_bytes(size_class);
    size_t align = whole ? bytes & -bytes : least_align(bytes);
    lm_sampled_lock();
    uint32_t index = open_slot(bytes, align, lm_sampled_random(heap) % 2 != 0);
    if (index == LM_SLOT_NONE) {
        lm_sampled.missed++;
        lm_sampled_unlock();
        return NULL;
    }
    lm_slot_t *slot = &lm_sampled.slots[index];
    sampled_record(&slot->allocated, &trace, thread_of(heap));
    slot->freed.depth = slot->freed.thread = 0;
    slot->state = LM_SLOT_USED;
    lm_tally_add(&lm_sampled.objects, 1);
    lm_tally_add(&lm_sampled.bytes, bytes);
    void *p = slot->object;
    lm_sampled_unlock();
    lm_bytes_mine(bytes, 0);
    return p;
}

void lm_sampled_note_size(lm_page_t *page, void *p, size_t bytes) {
    lm_sampled_lock();
    lm_bytes_mine(bytes - page->bytes, 0);
    if (bytes >= page->bytes)
        lm_tally_add(&lm_sampled.bytes, bytes - page->bytes);
    else
        lm_tally_sub(&lm_sampled.bytes, page->bytes - bytes);
    set_object(&lm_sampled.slots[sampled_slot_of(page)], page, (char *)p, bytes);
    lm_sampled_unlock();
}

void *lm_sampled_place(lm_page_t *page, void *p, size_t bytes, size_t align) {
    lm_slot_t *slot = &lm_sampled.slots[sampled_slot_of(page)];
    size_t least = least_align(bytes);
    if (!slot->left) p = sampled_place(slot->end, bytes, align > least ? align : least, false);
    lm_sampled_lock();
    /* The object was counted with all bytes of its class; nothing was freed. */
    lm_sampled.bytes.now -= page->bytes - bytes;
    lm_bytes_mine(bytes - page->bytes, 0);
    set_object(slot, page, (char *)p, bytes);
    lm_sampled_unlock();
    return p;
}

bool lm_sampled_shrink(lm_page_t *page, size_t bytes) {
    uint32_t index = sampled_slot_of(page);
    if (bytes > page->bytes) return false;
    /* The pattern is written anew, which would hide damage to it. */
    lm_sampled_lock();
    ptrdiff_t beyond = lm_sampled_beyond(&lm_sampled.slots[index], page->bytes);
    lm_sampled_unlock();
    if (LM_UNLIKELY(beyond != 0)) lm_sampled_damaged(index, beyond, "a resize");
    lm_sampled_note_size(page, lm_sampled.slots[index].object, bytes);
    return true;
}

void *lm_sampled_resized(void *p, size_t bytes) {
    lm_page_t *page = lm_page_of(p);
    return page->kind == LM_KIND_SAMPLED ? lm_sampled_place(page, p, bytes, 1) : p;
}

lm_page_t *lm_sampled_checked(lm_page_t *page, const void *p, const char *function) {
    const lm_slot_t *slot = &lm_sampled.slots[sampled_slot_of(page)];
    /* Relaxed: a thread that passes an object in use has it from the thread that allocated it. */
    if (lm_load_relaxed(&slot->state) == LM_SLOT_USED && slot->object == p) return page;
    lm_sampled_misuse(sampled_slot_of(page), p, function);
    return NULL;
}

/* Closes the pages of a slot. All pages except the last are purged; the last stays, and costs no
 * fault at its next use. */
static void close_slot(lm_slot_t *slot) {
    LM_ASSERT(lm_lock_held(&lm_sampled.lock));
    LM_ASSERT(slot->start < slot->end && slot->state != LM_SLOT_USED);
    char *last = slot->end - lm_sampled.page_bytes;
    if (slot->start < last) (void)lm_os_purge(slot->start, (size_t)(last - slot->start));
    /* If the system refuses, the pages stay open, which only hides a use after free. */
    (void)lm_os_protect(slot->start, (size_t)(slot->end - slot->start), false);
}

void lm_sampled_free(lm_page_t *page, void *p) {
    uint32_t index = sampled_slot_of(page);
    lm_slot_t *slot = &lm_sampled.slots[index];
    lm_trace_t trace = trace_here();
    lm_sampled_lock();
    if (slot->state != LM_SLOT_USED || slot->object != p) {
        lm_sampled_unlock();
        lm_sampled_misuse(index, p, "free");
        return;
    }
    ptrdiff_t beyond = lm_sampled_beyond(slot, page->bytes);
    if (LM_UNLIKELY(beyond != 0)) {
        lm_sampled_unlock();
        lm_sampled_damaged(index, beyond, "free");
        lm_sampled_lock(); /* the user's policy is to go on */
    }
    if (slot->state == LM_SLOT_USED) {
        sampled_record(&slot->freed, &trace, thread_of(lm_heap_mine()));
        lm_store_relaxed(&slot->state, LM_SLOT_FREED);
        LM_ASSERT(lm_sampled.objects.now > 0 && lm_sampled.bytes.now >= page->bytes);
        lm_tally_sub(&lm_sampled.objects, 1);
        lm_tally_sub(&lm_sampled.bytes, page->bytes);
        lm_bytes_mine(0, page->bytes);
        close_slot(slot);
        enqueue(index);
    }
    lm_sampled_unlock();
}

/* ---- Numbers, check ---- */

void lm_sampled_tally(lm_tally_t *objects, lm_tally_t *bytes) {
    lm_sampled_lock();
    lm_tally_look(&lm_sampled.objects);
    lm_tally_look(&lm_sampled.bytes);
    *objects = lm_sampled.objects;
    *bytes = lm_sampled.bytes;
    lm_sampled_unlock();
}

void lm_sampled_forget_peaks(void) {
    lm_sampled_lock();
    lm_tally_forget(&lm_sampled.objects);
    lm_tally_forget(&lm_sampled.bytes);
    lm_sampled_unlock();
}

void lm_sampling_numbers(lm_sampling_numbers_t *numbers) {
    lm_sampled_lock();
    *numbers = (lm_sampling_numbers_t){
        .rate = lm_load_relaxed(&lm_sampling.rate),
        .slots = lm_sampled.base != NULL ? lm_sampled.count : 0,
        .live = lm_sampled.objects.now,
        .taken = lm_sampled.objects.now + lm_sampled.objects.gone,
        .missed = lm_sampled.missed,
        .found = lm_load_relaxed(&lm_sampled.found),
    };
    lm_sampled_unlock();
}

bool lm_sampling_holds(const void *p) {
    const lm_page_t *page = lm_page_of(p);
    if (page->kind != LM_KIND_SAMPLED) return false;
    lm_sampled_lock();
    const lm_slot_t *slot = &lm_sampled.slots[sampled_slot_of(page)];
    bool holds = slot->state == LM_SLOT_USED && slot->object == p;
    lm_sampled_unlock();
    return holds;
}

/* Copies the trace of the allocation or free of the object near p. Either array may be NULL.
 * Returns the number of frames. */
static size_t copy_trace(const void *p, bool of_free, uintptr_t *frames, lm_site_t *sites,
                         size_t most) {
    uint32_t index;
    if (lm_sampled_near(p, &index) == NULL) return 0;
    /* The thread of a signal handler may hold the lock itself. */
    bool locked = lm_sampled_lock_soon();
    const lm_slot_t *slot = &lm_sampled.slots[index];
    const lm_trace_t *trace = of_free ? &slot->freed : &slot->allocated;
    size_t depth = trace->depth < most ? trace->depth : most;
    if (frames != NULL) memcpy(frames, trace->frames, depth * sizeof *frames);
    if (sites != NULL) memcpy(sites, trace->sites, depth * sizeof *sites);
    if (locked) lm_sampled_unlock();
    return depth;
}

size_t lm_sampling_trace(const void *p, bool of_free, uintptr_t *frames, size_t most) {
    return copy_trace(p, of_free, frames, NULL, most);
}

size_t lm_sampled_sites(const void *p, lm_site_t *sites, size_t most) {
    return copy_trace(p, false, NULL, sites, most);
}

void lm_sampled_check(void) {
    lm_sampled_lock();
    size_t queued = 0, used = 0;
    for (uint32_t i = 0; lm_sampled.base != NULL && i < lm_sampled.count; i++)
        used += lm_sampled.slots[i].state == LM_SLOT_USED;
    for (uint32_t i = lm_sampled.base != NULL ? lm_sampled.first : LM_SLOT_NONE;
         i != LM_SLOT_NONE && queued <= lm_sampled.count; i = lm_sampled.slots[i].next) {
        queued++;
        if (lm_sampled.slots[i].state == LM_SLOT_USED) queued = SIZE_MAX / 2;
    }
    if (lm_sampled.base != NULL &&
        (used != lm_sampled.objects.now || queued + used != lm_sampled.count)) {
        lm_report("loam: sampling invariant broken: %zu slots in use, %zu queued", used, queued);
        lm_port_abort();
    }
    lm_sampled_unlock();
}
