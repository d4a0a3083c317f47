/* reserved.c: ranges that loam reserves itself: ordinary memory, or huge pages of the system's pool
 * (range.h).
 *
 *   pages of 1 GiB ── the pool has none left ──> of 2 MiB ── none left ──> ordinary memory, with
 *                                                                          transparent huge pages
 *
 * A part of the arena is taken as a whole, at a multiple of the page's size. Then it is replaced
 * page by page without the lock, because the system takes a tenth of a second or more to find and
 * clear a page of 1 GiB. Nodes provide pages in turn, one each, so that all have about as many when
 * time runs out; what has not been replaced by then goes back to the arena. If only pages of the
 * pool are wanted (pool_only: options at the start), what the pool has no page for goes back as
 * well: as a range it would be ordinary memory that is never purged. A caller of the public
 * functions gets a range of the requested size; if it has no page of the pool at all, it may be
 * purged.
 *
 * One line tells what differs from the request.
 */
#include "span/internal.h"

#include <errno.h>

#define PAGE_2M (2 * LM_MIB)

enum { RESERVED_NODES = 64 };

/* Results of a call, over all nodes. */
typedef struct tally {
    /* Bytes: in pages as wanted, in smaller pages, and in ordinary memory. */
    size_t huge, medium, ordinary;
    size_t missing; /* bytes for which there was no time */
    /* Bytes for which the pool had no page, and nothing else was wanted. */
    size_t left_out;
    uint64_t start_ms;
} tally_t;

/* The future range of one node. */
typedef struct part {
    lm_page_t *span;
    size_t bytes, done; /* bytes wanted; bytes in place */
    int node;
    /* of_pool: some of it is memory of the pool. */
    bool zero, of_pool;
    bool pool_empty, medium_empty;
    bool over, late;
} part_t;

static bool late(const lm_reserve_t *want, const tally_t *tally) {
    bool first = tally->huge + tally->medium == 0;
    return want->timeout_ms != 0 && !first && lm_os_ms() - tally->start_ms >= want->timeout_ms;
}

static void bind(int node, char *at, size_t bytes) {
    /* Only a preference: memory of another node is better than none. */
    int real = lm_node_real(node);
    if (real >= 0) (void)lm_os_bind(at, bytes, (unsigned)real);
}

/* Puts a page of that size in place. Returns false iff the pool has none, or time is up. */
static bool fill_page(const lm_reserve_t *want, part_t *part, size_t page_bytes, tally_t *tally) {
    part->late = late(want, tally);
    char *at = lm_span_start(part->span) + part->done;
    LM_ASSERT(page_bytes <= part->bytes - part->done);
    LM_ASSERT(lm_is_pow2(page_bytes) && ((uintptr_t)at & (page_bytes - 1)) == 0);
    if (part->late || !lm_os_pool_pages(at, page_bytes, page_bytes, lm_node_real(part->node)))
        return false;
    *(page_bytes == want->page_bytes ? &tally->huge : &tally->medium) += page_bytes;
    part->done += page_bytes;
    part->of_pool = true;
    return true;
}

/* Puts as many bytes in place as a page of the wanted size has, in smaller pages if needed. */
static void reserved_fill(const lm_reserve_t *want, part_t *part, tally_t *tally) {
    size_t end = part->done + want->page_bytes;
    LM_ASSERT(!part->over && end <= part->bytes);
    if (!part->pool_empty) part->pool_empty = !fill_page(want, part, want->page_bytes, tally);
    if (want->page_bytes == PAGE_2M) part->medium_empty = part->pool_empty;
    while (!part->late && part->done < end && !part->medium_empty)
        part->medium_empty = !fill_page(want, part, PAGE_2M, tally);
    /* If the pool is empty, ordinary memory takes no time. */
    if (!part->late && part->done < end && !want->pool_only) {
        char *at = lm_span_start(part->span) + part->done;
        bind(part->node, at, end - part->done);
        lm_os_huge_pages(at, end - part->done);
        tally->ordinary += end - part->done;
        part->done = end;
    }
    part->over = part->done < end || part->done == part->bytes;
}

static void reserved_tell(const lm_reserve_t *want, const tally_t *tally) {
    size_t other = tally->ordinary + tally->left_out, mib = LM_MIB;
    /* Relaxed: an independent word. */
    if (tally->medium + other + tally->missing == 0 || lm_load_relaxed(&lm_misuse_policy.quiet))
        return;
    lm_print("loam: of %zu MiB wanted in huge pages of %zu MiB, %zu MiB are; "
             "%zu MiB are in pages of 2 MiB, %zu MiB %s, and for %zu MiB there was no time",
             (tally->huge + tally->medium + other + tally->missing) / mib, want->page_bytes / mib,
             tally->huge / mib, tally->medium / mib, other / mib,
             want->pool_only ? "not reserved" : "in the system's own", tally->missing / mib);
}

/* Returns all but the first `bytes` bytes of the span to the arena, before these become a range.
 * The returned memory is clean, because no code has used it. */
static void give_rest(lm_page_t *span, size_t bytes) {
    size_t first = lm_span_slice(span), had = span->slices, slices = bytes >> LM_SLICE_SHIFT;
    LM_ASSERT(span->kind == LM_KIND_META && bytes % LM_SLICE_BYTES == 0 && slices <= had);
    if (slices == had) return;
    /* A part of it may have been replaced. */
    char *rest = lm_span_start(span) + bytes;
    size_t rest_bytes = (had - slices) << LM_SLICE_SHIFT;
    bool clean = lm_os_commit(rest, rest_bytes, true) == LM_COMMIT_DONE;
    lm_os_no_huge_pages(rest, rest_bytes);
    lm_lock_take(&lm_space.lock);
    LM_ASSERT(lm_space.meta_slices >= had - slices);
    lm_space.meta_slices -= had - slices;
    if (slices > 0) lm_space_label(first, slices, LM_KIND_META);
    lm_space_set_group(first + slices, lm_space_group(span));
    if (clean) lm_space_cleaned(had - slices);
    lm_page_t *free = lm_space_insert(first + slices, had - slices,
                                      clean ? LM_KIND_CLEAN : LM_KIND_DIRTY, lm_space.tick);
    if (clean) lm_space_settle(free);
    lm_lock_give(&lm_space.lock);
    if (!clean) lm_purge_poke(false);
}

static void prepare_ordinary(const lm_reserve_t *want, char *at, size_t bytes) {
    bind(want->kind.node, at, bytes);
    if (want->huge) lm_os_huge_pages(at, bytes);
    if (want->backed) (void)lm_os_populate(at, bytes);
}

/* Returns NULL iff there is no memory, or the hard limit does not allow it. */
static lm_page_t *reserved_take(const lm_reserve_t *want, size_t bytes, bool *zero) {
    size_t align = want->page_bytes != 0 ? want->page_bytes : want->huge ? PAGE_2M : LM_SLICE_BYTES;
    return lm_span_take((bytes + LM_SLICE_BYTES - 1) >> LM_SLICE_SHIFT, align >> LM_SLICE_SHIFT,
                        LM_KIND_META, zero);
}

static int reserved_open_range(const lm_reserve_t *want, const part_t *part,
                               struct loam_arena **range) {
    lm_range_kind_t kind = want->kind;
    kind.node = part->node;
    kind.zero = part->zero;
    kind.purges |= want->page_bytes != 0 && !part->of_pool;
    int result = lm_range_open_inside(part->span, &kind, range);
    if (result < 0) give_rest(part->span, 0);
    return result;
}

static int reserved_open_part(const lm_reserve_t *want, part_t *part, tally_t *tally,
                              struct loam_arena **range) {
    LM_ASSERT(part->over && part->done <= part->bytes);
    *(part->late ? &tally->missing : &tally->left_out) += part->bytes - part->done;
    give_rest(part->span, part->done);
    int result = part->done > 0 ? reserved_open_range(want, part, range) : 0;
    return result < 0 ? result : part->late ? -ETIMEDOUT : 0;
}

/* Fills the parts in turn, and opens a range for each part that has memory. *range is that of the
 * last part. */
static int reserved_make(const lm_reserve_t *want, part_t *parts, size_t n,
                         struct loam_arena **range) {
    tally_t tally = {.start_ms = lm_os_ms()};
    int result = 0;
    for (size_t i = 0; i < n; i++) {
        parts[i].span = reserved_take(want, parts[i].bytes, &parts[i].zero);
        parts[i].over = parts[i].span == NULL;
    }
    for (bool more = true; more;) {
        more = false;
        for (size_t i = 0; i < n; i++) {
            if (!parts[i].over) reserved_fill(want, &parts[i], &tally);
            more |= !parts[i].over;
        }
    }
    for (size_t i = 0; i < n; i++) {
        int got =
            parts[i].span != NULL ? reserved_open_part(want, &parts[i], &tally, range) : -ENOMEM;
        if (got < 0) result = got;
    }
    reserved_tell(want, &tally);
    return result;
}

static int reserve_ordinary(const lm_reserve_t *want, struct loam_arena **range) {
    part_t part = {.node = want->kind.node};
    part.span = reserved_take(want, want->bytes, &part.zero);
    if (part.span == NULL) return -ENOMEM;
    prepare_ordinary(want, lm_span_start(part.span), (size_t)part.span->slices << LM_SLICE_SHIFT);
    return reserved_open_range(want, &part, range);
}

static bool reserved_possible(const lm_reserve_t *want) {
    return want->bytes > 0 && want->bytes <= (size_t)PTRDIFF_MAX - 2 * LM_GIB &&
           lm_node_exists(want->kind.node);
}

int lm_range_reserve(const lm_reserve_t *want, struct loam_arena **range) {
    *range = NULL;
    if (!reserved_possible(want)) return -EINVAL;
    if (want->page_bytes == 0) return reserve_ordinary(want, range);
    LM_ASSERT(want->bytes % want->page_bytes == 0);
    part_t part = {.bytes = want->bytes, .node = want->kind.node};
    return reserved_make(want, &part, 1, range);
}

int lm_range_reserve_on_nodes(const lm_reserve_t *want, unsigned nodes) {
    if (!reserved_possible(want)) return -EINVAL;
    LM_ASSERT(want->page_bytes != 0 && want->bytes % want->page_bytes == 0);
    uint64_t mask = lm_nodes();
    unsigned there = (unsigned)__builtin_popcountll(mask);
    if (nodes == 0 || nodes > there) nodes = there;
    part_t parts[RESERVED_NODES] = {{.span = NULL}};
    size_t pages = want->bytes / want->page_bytes, n = 0;
    for (size_t left = nodes; left > 0; left--, mask &= mask - 1) {
        /* If the pages do not divide evenly, the first nodes get one more. */
        LM_ASSERT(mask != 0);
        size_t some = (pages + left - 1) / left;
        pages -= some;
        if (some == 0) break;
        parts[n].bytes = some * want->page_bytes;
        parts[n++].node = there == 1 ? LM_NODE_ANY : (int)lm_lowest_bit(mask);
    }
    LM_ASSERT(pages == 0);
    struct loam_arena *range;
    return reserved_make(want, parts, n, &range);
}
