/* huge.c: huge pages, once a program is large enough to fill them.
 *
 * A page fault costs 1.5 microseconds for each 4 KiB, and an eighth of that within a huge page,
 * whose TLB entry also covers 512 times as much. But a huge page under a few objects wastes memory,
 * and if the kernel makes huge pages out of purged memory later, the purge is lost. So the kernel
 * is told not to (grow.c), and huge pages are made here on purpose:
 *
 *   clean, 2 MiB, aligned  ── backed at once, without the lock ──>  dirty: resident and free
 *
 * A huge page is made when a page of blocks is wanted because the others of its class are full, no
 * span is dirty, and pages occupy so much already that the 2 MiB are at most an eighth of it. The
 * part that is not used soon is purged like any dirty memory. The first page of a class may stay
 * nearly empty: a thousand threads have many of those.
 *
 * A large object that is likely to be filled is only marked. The system makes each huge page when
 * the program touches it. At most 16 marked objects may be empty at a time, because each byte that
 * a program touches in such an object makes 2 MiB resident.
 *
 * A huge page may cost thirty times its usual time: the system may move memory to make room for it,
 * or be a virtual machine whose host has taken its free memory back page by page. So each one is
 * timed. After one that took longer than 512 small pages would, no huge pages are made for a while.
 *
 * These are the defaults. A user may choose huge pages wherever one fits, or none (lm_huge_policy).
 *
 * It cannot know whether the system had a huge page available; if it had none, only 4 KiB of the 2
 * MiB are resident.
 */
#include "span/internal.h"

enum {
    WANTED_MOST = 8, /* slices; larger spans may never be touched as a whole */
    EMPTY_MOST = 16, /* maximum marked large objects that may be empty */
    /* Maximum marked large objects: each takes a map entry or two, and those are few. */
    MARKED_MOST = 4096,
    FILL_LEAST = 4 << 20, /* minimum bytes of a large object that is worth huge pages */
    SLOW_US = 2000,       /* usual: 0.2 ms; 512 small pages: 0.4 to 0.7 ms */
    /* Slices without huge pages after a slow one: 16 MiB. The number doubles ... */
    PAUSE_LEAST = 256,
    /* ... after each slow one that follows, up to 4 GiB. */
    PAUSE_MOST = 65536,
};

#define HUGE_BYTES ((size_t)LM_HUGE_SLICES << LM_SLICE_SHIFT)

lm_huge_policy_t lm_huge_policy = {.when = LM_HUGE_AUTO, .least_bytes = 16 << 20};

/* Relaxed, here and below: independent words, which take effect at a later look. */
static lm_huge_when_t when(void) { return lm_load_relaxed(&lm_huge_policy.when); }

bool lm_huge_due(size_t slices, bool crowded) {
    LM_ASSERT(lm_lock_held(&lm_space.lock));
    if (slices > WANTED_MOST || when() == LM_HUGE_NEVER) return false;
    if (when() == LM_HUGE_ALWAYS) return true;
    size_t page_bytes = lm_space.page_slices << LM_SLICE_SHIFT;
    if (!crowded || page_bytes < lm_load_relaxed(&lm_huge_policy.least_bytes)) return false;
    if (lm_space.huge_rest == 0) return true;
    size_t rest = lm_space.huge_rest;
    lm_store_relaxed(&lm_space.huge_rest, rest > slices ? rest - slices : 0);
    return false;
}

void lm_huge_took(uint64_t us) {
    size_t pause = us < SLOW_US ? 0 : 2 * lm_space.huge_pause;
    if (us >= SLOW_US && pause < PAUSE_LEAST) pause = PAUSE_LEAST;
    if (pause > PAUSE_MOST) pause = PAUSE_MOST;
    lm_space.huge_pause = pause;
    lm_store_relaxed(&lm_space.huge_rest, pause);
}

bool lm_huge_back(lm_group_t group) {
    LM_ASSERT(lm_lock_held(&lm_space.lock));
#if LM_SECURE
    /* The group's own addresses come first; otherwise a group that is purged again and again would
     * take more and more. */
    lm_page_t *span = lm_space_clean_of(group, LM_HUGE_SPAN);
    if (span == NULL) span = lm_gone_open(group, LM_HUGE_SPAN);
    if (span == NULL) span = lm_space_clean(LM_HUGE_SPAN);
#else
    lm_page_t *span = lm_space_clean(LM_HUGE_SPAN);
#endif
    if (span == NULL) return false;
    size_t first = lm_space_aligned(span, LM_HUGE_SLICES);
    lm_space_carve(span, first, LM_HUGE_SLICES, LM_KIND_BUSY);
    lm_space.busy++;
    lm_lock_give(&lm_space.lock);
    /* Clearing 2 MiB takes too long to hold the lock meanwhile. */
    bool timed = lm_ask_begin();
    uint64_t start = timed ? lm_os_thread_us() : 0;
    lm_os_back_huge((void *)(lm_arena.base + (first << LM_SLICE_SHIFT)));
    uint64_t end = timed ? lm_os_thread_us() : 0;
    if (timed) lm_ask_end();
    lm_lock_take(&lm_space.lock);
    /* No other thread has used the span meanwhile. */
    LM_ASSERT(lm_space_slot(first)->kind == LM_KIND_BUSY);
    LM_ASSERT(lm_space_slot(first)->slices == LM_HUGE_SLICES);
    lm_space_not_busy();
    lm_huge_took(end - start);
#if LM_SECURE
    lm_group_backed(group, first, LM_HUGE_SLICES);
#else
    lm_purge_retaken(LM_HUGE_SLICES);
#endif
    (void)group;
    lm_space_insert(first, LM_HUGE_SLICES, LM_KIND_DIRTY, lm_space.tick);
    return true;
}

static uint32_t marked; /* atomic: number of large objects that are marked */

/* Atomic: an address in the middle of each marked object that was empty when it was last
 * checked. */
static uintptr_t huge_empty[EMPTY_MOST];
static uint32_t empty_next;

/* Returns the address of a page in [from, to) that does not become resident if a program touches
 * only the ends of the object. [first, end) is about to be marked. The page is in a huge page that
 * contains neither end, or is a small one beside the one or two huge pages. */
static uintptr_t midst(uintptr_t from, uintptr_t first, uintptr_t end, uintptr_t to) {
    /* An object that grows in place is filled from the middle of a huge page on. */
    size_t before = first > from ? first - from : 0, after = to - end, page = lm_os_page_bytes();
    if (end - first > 2 * HUGE_BYTES || (before < 4 * page && after < 4 * page))
        return lm_align_down(first + (end - first) / 2, HUGE_BYTES);
    return lm_align_down(before > after ? from + before / 2 : end + after / 2, page);
}

/* Records an address of a new marked object. Returns false iff too many marked objects may be
 * empty. Relaxed, both: independent words. An address whose page is filled, or belongs to another
 * object by now, costs or gains one mark. A program that has shut itself in must not ask, so there
 * each object counts as empty. */
static bool may_be_empty(uintptr_t at) {
    uintptr_t *place = &huge_empty[lm_add_relaxed(&empty_next, 1) % EMPTY_MOST];
    uintptr_t before = lm_load_relaxed(place);
    bool shut_in = lm_load_relaxed(&lm_space.worker_forbidden); /* relaxed: an independent word */
    if (before != 0 && (shut_in || lm_os_resident_pages((void *)before, lm_os_page_bytes()) == 0))
        return false;
    lm_store_relaxed(place, at);
    return true;
}

static bool may_mark(uintptr_t at) {
    if (when() == LM_HUGE_AUTO && !may_be_empty(at)) return false;
    /* Relaxed: the bound may be exceeded by a few. */
    if (lm_add_relaxed(&marked, 1) < MARKED_MOST) return true;
    (void)lm_add_relaxed(&marked, (uint32_t)-1);
    return false;
}

static void huge_forget(uintptr_t start, uintptr_t end) {
    for (unsigned i = 0; i < EMPTY_MOST; i++) {
        uintptr_t at = lm_load_relaxed(&huge_empty[i]);
        if (at >= start && at < end) lm_store_relaxed(&huge_empty[i], 0);
    }
}

/* Out of line, so that objects that are too small do not save registers for it. */
static LM_NOINLINE void huge_fill(lm_page_t *span, size_t from, size_t to) {
    /* Relaxed: a hint. */
    if (lm_load_relaxed(&lm_space.huge_rest) > 0 && when() == LM_HUGE_AUTO) return;
    uintptr_t start = (uintptr_t)lm_span_start(span);
    uintptr_t first = lm_align_down(start + from, HUGE_BYTES),
              end = lm_align_down(start + to, HUGE_BYTES);
    if (first < start) first += HUGE_BYTES;
    if (first >= end) return;
    if (!span->huge && !may_mark(midst(start + from, first, end, start + to))) return;
    span->huge = true;
    lm_os_huge_pages((void *)first, end - first);
}

void lm_span_fill(lm_page_t *span, size_t from, size_t to) {
    LM_ASSERT(span->kind == LM_KIND_LARGE);
    LM_ASSERT(from <= to && to <= (size_t)span->slices << LM_SLICE_SHIFT);
    static const size_t least[] = {SIZE_MAX, 0, FILL_LEAST};
    if (to >= least[when()] && span->range == 0) huge_fill(span, from, to);
}

void lm_span_unfill(lm_page_t *span, size_t slice) {
    LM_ASSERT(slice <= span->slices);
    if (!span->huge) return;
    char *from = lm_span_start(span) + (slice << LM_SLICE_SHIFT);
    size_t bytes = (span->slices - slice) << LM_SLICE_SHIFT;
    huge_forget((uintptr_t)from, (uintptr_t)from + bytes);
    lm_os_no_huge_pages(from, bytes);
    if (slice > 0) return;
    LM_ASSERT(lm_load_relaxed(&marked) > 0);
    span->huge = false;
    (void)lm_add_relaxed(&marked, (uint32_t)-1);
}
