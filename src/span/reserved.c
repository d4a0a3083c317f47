/* reserved.c: ranges that loam reserves itself: ordinary memory, or huge pages of the system's pool (range.h).
 *
 *   pages of 1 GiB  ── pool has none left ──>  of 2 MiB  ── none left ──>  ordinary memory that may have
 *                                                                          transparent huge pages as it is touched
 *
 * A piece of the arena is taken as a whole, at a multiple of the page's size, and then replaced page by page, without
 * the lock: a page of 1 GiB takes the system a tenth of a second and more, to find and to clear. Where time runs out,
 * what has not been replaced goes back to the arena. Whatever is not as it was wanted is told in one line.
 */
#include "span/room.h"

#include <errno.h>

#define PAGE_2M (2 * LM_MIB)

/* What a call has got, over all nodes. */
typedef struct tally {
    size_t huge, medium, ordinary; /* bytes: pages as wanted, smaller ones, none of the pool's */
    size_t missing;                /* there was no time for these */
    uint64_t start_ms;
    bool pool_empty, medium_empty;
} tally_t;

static bool late(const lm_reserve_t *want, const tally_t *tally) {
    return want->timeout_ms != 0 && lm_os_ms() - tally->start_ms >= want->timeout_ms;
}

static void bind(const lm_reserve_t *want, char *at, size_t bytes) {
    /* A wish: memory of another node is better than none. */
    if (want->kind.node >= 0) (void)lm_os_bind(at, bytes, (unsigned)want->kind.node);
}

/* One page of the wanted size, in smaller ones if need be. false iff time ran out before it was there. */
static bool fill_page(const lm_reserve_t *want, char *at, tally_t *tally) {
    size_t bytes = want->page_bytes;
    if (!tally->pool_empty && lm_os_pool_pages(at, bytes, bytes, want->kind.node)) {
        tally->huge += bytes;
        return true;
    }
    tally->pool_empty = true;
    for (size_t done = 0; done < bytes; done += PAGE_2M) {
        if (bytes == PAGE_2M) tally->medium_empty = true;
        if (!tally->medium_empty && late(want, tally)) return false;
        if (!tally->medium_empty &&
            lm_os_pool_pages(at + done, PAGE_2M, PAGE_2M, want->kind.node)) {
            tally->medium += PAGE_2M;
            continue;
        }
        tally->medium_empty = true;
        bind(want, at + done, bytes - done);
        lm_os_huge_pages(at + done, bytes - done);
        tally->ordinary += bytes - done;
        break;
    }
    return true;
}

/* Returns the bytes that are in place, whole pages of the wanted size. */
static size_t fill(const lm_reserve_t *want, char *at, tally_t *tally) {
    size_t done = 0;
    /* A call each time where there are pages; where the pool is empty, the rest costs nothing. */
    for (; done < want->bytes; done += want->page_bytes) {
        if (done > 0 && !tally->medium_empty && late(want, tally)) break;
        if (!fill_page(want, at + done, tally)) break;
    }
    tally->missing += want->bytes - done;
    return done;
}

static void tell(const lm_reserve_t *want, const tally_t *tally) {
    if (tally->medium + tally->ordinary + tally->missing == 0) return;
    size_t mib = LM_MIB;
    lm_report(
        "loam: of %zu MiB wanted in huge pages of %zu MiB, %zu MiB are; %zu MiB are in pages of 2 MiB, %zu MiB in "
        "the system's own, and for %zu MiB there was no time",
        (tally->huge + tally->medium + tally->ordinary + tally->missing) / mib,
        want->page_bytes / mib, tally->huge / mib, tally->medium / mib, tally->ordinary / mib,
        tally->missing / mib);
}

/* Before [0, bytes) of the span become a range: the rest is the arena's again. */
static void give_rest(lm_page_t *span, size_t bytes) {
    size_t had = span->slices;
    size_t slices = bytes >> LM_SLICE_SHIFT;
    if (slices == had) return;
    /* What was replaced in part. */
    char *rest = lm_span_start(span) + bytes;
    (void)lm_os_commit(rest, (had - slices) << LM_SLICE_SHIFT, true);
    lm_os_no_huge_pages(rest, (had - slices) << LM_SLICE_SHIFT);
    lm_lock_take(&lm_space.lock);
    lm_space.meta_slices -= had - slices;
    lm_lock_give(&lm_space.lock);
    if (slices > 0)
        lm_span_shrink(span, slices);
    else
        lm_span_give(span, true);
}

static void prepare_ordinary(const lm_reserve_t *want, char *at, size_t bytes) {
    bind(want, at, bytes);
    if (want->huge) lm_os_huge_pages(at, bytes);
    if (want->backed) (void)lm_os_populate(at, bytes);
}

static int reserve(const lm_reserve_t *want, struct loam_arena **range, tally_t *tally) {
    *range = NULL;
    bool pool = want->page_bytes != 0, zero = false;
    size_t slices = (want->bytes + LM_SLICE_BYTES - 1) >> LM_SLICE_SHIFT;
    size_t align = (pool         ? want->page_bytes
                    : want->huge ? PAGE_2M
                                 : LM_SLICE_BYTES) >>
                   LM_SLICE_SHIFT;
    lm_page_t *span = lm_span_take(slices, align, LM_KIND_META, &zero);
    if (span == NULL) return -ENOMEM;
    char *at = lm_span_start(span);
    size_t done = slices << LM_SLICE_SHIFT;
    if (pool)
        done = fill(want, at, tally);
    else
        prepare_ordinary(want, at, done);
    give_rest(span, done);
    if (done == 0) return -ETIMEDOUT;
    lm_range_kind_t kind = want->kind;
    kind.zero = zero;
    int result = lm_range_open_inside(span, &kind, range);
    if (result < 0) give_rest(span, 0);
    return result < 0 ? result : done < want->bytes ? -ETIMEDOUT : 0;
}

static bool possible(const lm_reserve_t *want) {
    return want->bytes > 0 && want->bytes <= (size_t)PTRDIFF_MAX - 2 * LM_GIB &&
           lm_node_exists(want->kind.node);
}

int lm_range_reserve(const lm_reserve_t *want, struct loam_arena **range) {
    if (!possible(want)) return -EINVAL;
    tally_t tally = {.start_ms = lm_os_ms()};
    int result = reserve(want, range, &tally);
    if (want->page_bytes != 0) tell(want, &tally);
    return result;
}

int lm_range_reserve_on_nodes(const lm_reserve_t *want, unsigned nodes) {
    if (!possible(want)) return -EINVAL;
    uint64_t mask = lm_nodes();
    unsigned there = (unsigned)__builtin_popcountll(mask);
    if (nodes == 0 || nodes > there) nodes = there;
    size_t pages = want->bytes / want->page_bytes, left = nodes;
    tally_t tally = {.start_ms = lm_os_ms()};
    int result = 0;
    for (; left > 0; left--, mask &= mask - 1) {
        /* The first nodes have one more where it does not come out even. */
        size_t part = (pages + left - 1) / left;
        pages -= part;
        if (part == 0) break;
        lm_reserve_t one = *want;
        one.bytes = part * want->page_bytes;
        one.kind.node = (int)lm_lowest_bit(mask);
        if (nodes == 1 && there == 1) one.kind.node = LM_NODE_ANY;
        struct loam_arena *range;
        int got = reserve(&one, &range, &tally);
        tally.pool_empty = tally.medium_empty = false; /* another node's may not be */
        if (got < 0) result = got;
    }
    tell(want, &tally);
    return result;
}
