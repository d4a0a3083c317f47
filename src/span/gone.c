/* gone.c: free spans whose addresses the system has back, and what changes near a limit of the
 * program's.
 *
 *   clean span ── lm_os_release ──> gone: labelled and in bins as before, but not mapped
 *   gone       ── lm_os_commit  ──> clean, in front of the rest that stays gone
 *              └─ another mapping lies there ──> out of use for ever, as what the arena has stepped over
 *
 * A page in use keeps all that lies below it in the arena. In secure builds, groups keep their
 * addresses as well (group.c), so that clean memory of one size serves no other size. Where the
 * program's addresses or its private memory are limited (RLIMIT_AS, RLIMIT_DATA), clean memory
 * counts against the limit although it holds nothing: the program cannot map a file or start a
 * thread in what it has freed. There a purged span of 1 MiB or more goes. Where the system refuses
 * memory, all clean spans go, the longest first. A span that is gone still belongs to its group:
 * other groups take new addresses at the arena's end, which cost nothing more.
 *
 * A limit is near where loam has half of it, or has been refused memory. Then the worker would
 * come too late: a program that frees what it has may start a thread at once, and no call tells
 * loam that this failed. So the thread that frees gives memory back itself (lm_purge_inline), and
 * the arena maps no more than it needs. A refusal counts until loam has a quarter of the addresses
 * that it had then.
 *
 * A large object's guard (secure builds) is no private memory that may be written. Under
 * RLIMIT_DATA others may have taken its share by the time that the object is freed, and the system
 * then refuses to make the guard accessible. Such a span is given back here as a whole.
 *
 * Each gap takes an entry in the system's map, of which a process has 65,530: at most SPANS_MOST
 * spans are gone. It cannot give back what a page in use keeps, and does nothing where a sandbox
 * forbids munmap.
 * Invariant (lm_span_check): spans of kind GONE tile the arena as others do; neighbours of one
 * group are merged; gone_slices counts them. A span is labelled GONE before it is unmapped: so a
 * copy of the process (repair.c) never takes memory for clean that is not there.
 */
#include "span/room.h"

enum {
    SPANS_MOST = 8192,
    OPEN_LEAST = 16, /* slices made accessible at once, where the system gives them: 1 MiB */
    OPEN_PART = 16,  /* or that part of the arena, if it is more, */
    OPEN_MOST = 512, /* but no more than so many: 32 MiB */
    NEAR_PART = 2,   /* part of a limit from which it is near, */
    CALM_PART = 4,   /* and, after a refusal, part of the addresses that loam had then */
    /* Slices of the arena below which no thread looks at limits by itself: 16 MiB. Secure builds
     * put no random distances between objects where addresses are limited, and look at once. */
    LOOK_LEAST = LM_SECURE ? 0 : 256,
};

bool lm_span_at_large(void) { return !lm_load_relaxed(&lm_space.worker_forbidden); }

/* Under the arena's lock: the limits as they were seen last; the arena's length at which growth
 * looks again; the number of mapped slices above which a refusal counts, 0 where none does. */
static unsigned limits;
static size_t look_at = LOOK_LEAST, refused_at;

static size_t mapped(void) { return lm_arena.slices - lm_space.gone_slices; }

/* A filter of system calls may forbid the question. */
static void look_at_limits(void) {
    size_t least;
    if (!lm_span_at_large() || lm_os_filtered()) return;
    limits = lm_os_limits(&least);
    if (mapped() <= refused_at) refused_at = 0;
    size_t near_at = limits == 0 ? 0 : (least / NEAR_PART >> LM_SLICE_SHIFT) + 1;
    lm_space.near_at = refused_at != 0 && refused_at < near_at ? refused_at : near_at;
}

/* The worker looks each time. Other threads rely on what was seen last: they may have a filter that
 * nobody announced, and purge where malloc would make no other call than mmap and madvise. */
static bool is_limited(void) {
    if (lm_os_worker_self()) look_at_limits();
    return limits != 0 && lm_span_at_large();
}

void lm_gone_look_at_limits(void) {
    if (lm_arena.slices < look_at) return;
    look_at_limits();
    look_at = 2 * lm_arena.slices;
    /* Relaxed: a hint. */
    if ((limits & LM_OS_ADDRESSES_LIMITED) != 0) lm_store_relaxed(&lm_space.scarce, true);
}

void lm_gone_refused(void) {
    refused_at = mapped() / CALM_PART + 1;
    look_at_limits();
}

static bool unmap(size_t first, size_t slices) {
    void *at = (void *)(lm_arena.base + (first << LM_SLICE_SHIFT));
    return lm_os_release(at, slices << LM_SLICE_SHIFT, lm_space.reserved);
}

/* Gives the addresses of slices in no list back. Lock held. Returns false iff the system
 * refused. */
static bool go(size_t first, size_t slices, lm_group_t group) {
    if (lm_space.gone_spans >= SPANS_MOST) return false;
    lm_space_label(first, slices, LM_KIND_GONE);
    /* for a copy of the process, which has the worker's writes in their order */
    lm_fence_release();
    if (!unmap(first, slices)) return false;
#if LM_SECURE
    for (size_t i = first; i < first + slices; i++) {
        lm_page_t *slot = lm_space_slot(i);
        slot->wiped_class = 0;
        slot->marked = slot->backed = false;
    }
#endif
    lm_space_look_at_mapped();
    lm_space.mapped.gone += slices;
    lm_space_set_group(first, group);
    lm_space_insert(first, slices, LM_KIND_GONE, 0);
    return true;
}

static bool release(lm_page_t *span) {
    size_t first = lm_span_slice(span), slices = span->slices;
    lm_group_t group = lm_space_group(span);
    lm_space_remove(span);
    if (go(first, slices, group)) return true;
    lm_space_add(first, slices, LM_KIND_CLEAN, group, 0);
    return false;
}

/* Whether a clean span is worth a gap: it is long, or makes a gap beside it longer. */
static bool worth(const lm_page_t *span, size_t least) {
    if (span->slices >= least) return true;
    size_t first = lm_span_slice(span), end = first + span->slices;
    lm_group_t group = lm_space_group(span);
    return (first > 0 && lm_space_is_free_as(first - 1, LM_KIND_GONE, group)) ||
           (end < lm_arena.slices && lm_space_is_free_as(end, LM_KIND_GONE, group));
}

bool lm_gone_settle(lm_page_t *span) {
    return worth(span, OPEN_LEAST) && is_limited() && release(span);
}

bool lm_gone_all(size_t least) {
    bool any = false, refused = !lm_span_at_large();
    for (size_t bin = LM_BINS; bin-- > 0 && !refused;) {
        for (unsigned group = 0; group < LM_GROUPS && !refused; group++) {
            lm_list_t *list = &lm_space.bins[lm_free_kind(LM_KIND_CLEAN, (lm_group_t)group)][bin];
            for (lm_node_t *node = list->first; node != NULL && !refused;) {
                lm_page_t *span = LM_CONTAINER(node, lm_page_t, link);
                node = lm_list_after(list, node);
                if (!worth(span, least)) continue;
                refused = !release(span);
                any = any || !refused;
            }
        }
    }
    if (any) lm_gone_lower_end();
    return any;
}

void lm_gone_trim(void) {
    if (lm_space.clean_slices < OPEN_LEAST) return;
    look_at_limits();
    if (is_limited()) (void)lm_gone_all(OPEN_LEAST);
}

void lm_gone_lower_end(void) {
    size_t end = lm_arena.slices;
    const lm_page_t *last = end > 0 ? lm_space_slot(end - 1) : NULL;
    if (last == NULL || last->kind != LM_KIND_GONE || lm_space_group(last) != LM_GROUP_LARGE)
        return;
    lm_page_t *span = lm_space_slot(end - last->slices);
    lm_space_remove(span);
    lm_space_end_at(lm_span_slice(span));
}

/* ---- Back ---- */

/* Makes the first slices of a gone span accessible: as many as are worth a call, `least` if the
 * system gives no more. Returns how many; *got says how that went. */
static size_t open_part(lm_page_t *span, size_t least, lm_commit_t *got) {
    size_t slices = lm_gone_near() ? 0 : lm_arena.slices / OPEN_PART;
    if (slices < OPEN_LEAST) slices = OPEN_LEAST;
    if (slices > OPEN_MOST) slices = OPEN_MOST;
    if (slices < least) slices = least;
    if (slices > span->slices) slices = span->slices;
    *got = lm_os_commit(lm_span_start(span), slices << LM_SLICE_SHIFT, lm_space.reserved);
    if (*got != LM_COMMIT_DONE && slices > least) {
        slices = least;
        *got = lm_os_commit(lm_span_start(span), slices << LM_SLICE_SHIFT, lm_space.reserved);
    }
    return slices;
}

lm_page_t *lm_gone_open(lm_group_t group, size_t slices) {
    if (lm_space.gone_slices < slices) return NULL;
    for (lm_page_t *span; (span = lm_space_find_gone(group, slices)) != NULL;) {
        lm_commit_t got;
        size_t first = lm_span_slice(span), all = span->slices, n = open_part(span, slices, &got);
        if (got == LM_COMMIT_NO_MEMORY) return NULL;
        lm_space_remove(span);
        if (n < all) lm_space_add(first + n, all - n, LM_KIND_GONE, group, 0);
        if (got == LM_COMMIT_TAKEN) {
            lm_space_label(first, n, LM_KIND_NONE);
            lm_space.gap_slices += n;
            continue;
        }
        lm_os_no_huge_pages((void *)(lm_arena.base + (first << LM_SLICE_SHIFT)),
                            n << LM_SLICE_SHIFT);
        lm_space_set_group(first, group);
        return lm_space_insert(first, n, LM_KIND_CLEAN, 0);
    }
    return NULL;
}

/* ---- Held spans ---- */

#if LM_SECURE
void lm_gone_drop(lm_page_t *span) {
    size_t first = lm_span_slice(span), slices = span->slices;
    lm_space_enter_to_give();
    if (lm_span_at_large() && go(first, slices, lm_space_group(span))) {
        lm_gone_lower_end();
    } else {
        lm_space_label(first, slices, LM_KIND_META);
    }
    lm_space_leave();
}

#endif
