/* gone.c: free spans whose addresses are returned to the system, and what changes near a limit of
 * the program.
 *
 *   clean span ── lm_os_release ──> gone: labelled and in bins as before, but not mapped
 *   gone       ── lm_os_commit  ──> clean, in front of the rest that stays gone
 *              └─ another mapping lies there ──> out of use, like a gap that the arena stepped over
 *
 * A page in use keeps everything below it in the arena. In secure builds, groups also keep their
 * addresses (group.c), so clean memory of one size serves no other size. If the program's addresses
 * or its private memory are limited (RLIMIT_AS, RLIMIT_DATA), clean memory counts against the limit
 * although it holds nothing: the program cannot map a file or start a thread in memory that it has
 * freed. In that case, purged spans of 1 MiB or more are unmapped. If the system refuses memory,
 * all clean spans are unmapped, the longest first. A span that is gone still belongs to its group:
 * other groups take new addresses at the arena's end, at no extra cost.
 *
 * A limit is near if loam has half of it, or has been refused memory. The worker would then come
 * too late: a program that frees memory may start a thread at once, and no call tells loam that
 * this failed. So the thread that frees gives memory back itself (lm_purge_inline), and the arena
 * maps no more than it needs. A refusal counts until loam has a quarter of the addresses that it
 * had at the refusal.
 *
 * The guard of a large object (secure builds) is not private writable memory. Under RLIMIT_DATA,
 * other mappings may have taken its share by the time the object is freed, and the system then
 * refuses to make the guard accessible. Such a span is given back here as a whole.
 *
 * Each gap takes an entry in the system's map, of which a process has 65,530 by default, so at most
 * SPANS_MOST spans are gone. It cannot return memory that a page in use keeps, and does nothing if
 * a sandbox forbids munmap. Invariant (lm_span_check): spans of kind GONE tile the arena like
 * others; neighbours of one group are merged; gone_slices counts them. A span is labelled GONE
 * before it is unmapped, so a copy of the process (repair.c) never takes missing memory for clean.
 */
#include "span/internal.h"

enum {
    SPANS_MOST = 8192,
    /* Minimum slices mapped again at once, if the system gives them: 1 MiB. */
    OPEN_LEAST = 16,
    /* Or this part of the arena, if it is more, ... */
    OPEN_PART = 16,
    /* ... but at most 32 MiB. */
    OPEN_MOST = 512,
    NEAR_PART = 2, /* part of a limit from which on it is near */
    /* After a refusal: the limit is near down to this part of the addresses that loam had. */
    CALM_PART = 4,
    /* Minimum length of the arena in slices, 16 MiB, for a thread to read limits by itself. Secure
     * builds put no random distances between objects if addresses are limited, so they read limits
     * at once. */
    LOOK_LEAST = LM_SECURE ? 0 : 256,
};

bool lm_span_at_large(void) { return !lm_load_relaxed(&lm_space.worker_forbidden); }

/* Protected by the arena's lock. limits: those seen last. look_at: length of the arena at which
 * growth reads them again. refused_at: number of mapped slices above which a refusal counts; 0:
 * none does. */
static unsigned limits;
static size_t gone_look_at = LOOK_LEAST, refused_at;

static size_t mapped(void) { return lm_arena.slices - lm_space.gone_slices; }

/* Reads the limits, unless a filter of system calls may forbid it. */
static void gone_look_at_limits(void) {
    size_t least;
    if (!lm_span_at_large() || lm_os_filtered()) return;
    limits = lm_os_limits(&least);
    if (mapped() <= refused_at) refused_at = 0;
    size_t near_at = limits == 0 ? 0 : (least / NEAR_PART >> LM_SLICE_SHIFT) + 1;
    lm_space.near_at = refused_at != 0 && refused_at < near_at ? refused_at : near_at;
}

/* Returns whether limits are set. The worker reads them each time. Other threads use what was seen
 * last: they may have a filter that loam was not told of, and they purge where malloc would make no
 * other call than mmap and madvise. */
static bool gone_is_limited(void) {
    if (lm_os_worker_self()) gone_look_at_limits();
    return limits != 0 && lm_span_at_large();
}

void lm_gone_look_at_limits(void) {
    if (lm_arena.slices < gone_look_at) return;
    gone_look_at_limits();
    gone_look_at = 2 * lm_arena.slices;
    /* Relaxed: a hint. */
    if ((limits & LM_OS_ADDRESSES_LIMITED) != 0) lm_store_relaxed(&lm_space.scarce, true);
}

void lm_gone_refused(void) {
    refused_at = mapped() / CALM_PART + 1;
    gone_look_at_limits();
}

static bool unmap(size_t first, size_t slices) {
    void *at = (void *)(lm_arena.base + (first << LM_SLICE_SHIFT));
    return lm_os_release(at, slices << LM_SLICE_SHIFT, lm_space.reserved);
}

/* Unmaps slices that are in no list. The lock is held. Returns false iff the system refused or too
 * many spans are gone. */
static bool go(size_t first, size_t slices, lm_group_t group) {
    if (lm_space.gone_spans >= SPANS_MOST) return false;
    lm_space_label(first, slices, LM_KIND_GONE);
    /* A copy of the process sees the worker's writes in their order. */
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

static bool gone_release(lm_page_t *span) {
    size_t first = lm_span_slice(span), slices = span->slices;
    lm_group_t group = lm_space_group(span);
    lm_space_remove(span);
    if (go(first, slices, group)) return true;
    lm_space_add(first, slices, LM_KIND_CLEAN, group, 0);
    return false;
}

/* Returns whether a clean span is worth a gap: it is long, or makes an adjacent gap longer. */
static bool worth(const lm_page_t *span, size_t least) {
    if (span->slices >= least) return true;
    size_t first = lm_span_slice(span), end = first + span->slices;
    lm_group_t group = lm_space_group(span);
    return (first > 0 && lm_space_is_free_as(first - 1, LM_KIND_GONE, group)) ||
           (end < lm_arena.slices && lm_space_is_free_as(end, LM_KIND_GONE, group));
}

bool lm_gone_settle(lm_page_t *span) {
    LM_ASSERT(lm_lock_held(&lm_space.lock));
    return worth(span, OPEN_LEAST) && gone_is_limited() && gone_release(span);
}

bool lm_gone_all(size_t least) {
    LM_ASSERT(lm_lock_held(&lm_space.lock));
    bool any = false, refused = !lm_span_at_large();
    for (size_t bin = LM_BINS; bin-- > 0 && !refused;) {
        for (unsigned group = 0; group < LM_GROUPS && !refused; group++) {
            lm_list_t *list = &lm_space.bins[lm_free_kind(LM_KIND_CLEAN, (lm_group_t)group)][bin];
            for (lm_node_t *node = list->first; node != NULL && !refused;) {
                lm_page_t *span = LM_CONTAINER(node, lm_page_t, link);
                node = lm_list_after(list, node);
                if (!worth(span, least)) continue;
                refused = !gone_release(span);
                any = any || !refused;
            }
        }
    }
    if (any) lm_gone_lower_end();
    return any;
}

void lm_gone_trim(void) {
    LM_ASSERT(lm_lock_held(&lm_space.lock));
    if (lm_space.clean_slices < OPEN_LEAST) return;
    gone_look_at_limits();
    if (gone_is_limited()) (void)lm_gone_all(OPEN_LEAST);
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

/* ---- Mapping again ---- */

/* Maps the first slices of a gone span again: as many as are worth a call, or `least` if the system
 * gives no more. Returns how many. *got tells how the call went. */
static size_t gone_open_part(lm_page_t *span, size_t least, lm_commit_t *got) {
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
    LM_ASSERT(lm_lock_held(&lm_space.lock));
    if (lm_space.gone_slices < slices) return NULL;
    for (lm_page_t *span; (span = lm_space_find_gone(group, slices)) != NULL;) {
        lm_commit_t got;
        size_t first = lm_span_slice(span), all = span->slices,
               n = gone_open_part(span, slices, &got);
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
    LM_ASSERT(span->kind == LM_KIND_META && span->range == 0);
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
