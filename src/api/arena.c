/* arena.c: the public functions of arenas (loam/arena.h), and the arenas that options request at
 * the start. */
#define LM_API_ITSELF
#include "loam/arena.h"
#include "api/api.h"

#include <errno.h>

enum {
    OF_MANAGED = LOAM_ARENA_EXCLUSIVE | LOAM_ARENA_ZERO | LOAM_ARENA_PURGE,
    OF_RESERVED = LOAM_ARENA_EXCLUSIVE | LOAM_ARENA_PURGE | LOAM_ARENA_BACKED | LOAM_ARENA_HUGE,
};

LM_STATIC_ASSERT((int)LOAM_NODE_ANY == (int)LM_NODE_ANY, "as documented");

static lm_range_kind_t kind_of(unsigned flags, int node) {
    return (lm_range_kind_t){.node = node,
                             .zero = (flags & LOAM_ARENA_ZERO) != 0,
                             .exclusive = (flags & LOAM_ARENA_EXCLUSIVE) != 0,
                             .purges = (flags & LOAM_ARENA_PURGE) != 0};
}

/* Stores the new arena in *arena, unless NULL, and returns `result`. */
static int api_arena_given(int result, loam_arena *made, loam_arena **arena) {
    LM_ASSERT(result != 0 || made != NULL);
    if (arena != NULL) *arena = made;
    return result;
}

int loam_manage_memory(void *start, size_t bytes, unsigned flags, int node, loam_arena **arena) {
    loam_arena *made = NULL;
    if ((flags & ~(unsigned)OF_MANAGED) != 0 || !lm_node_exists(node))
        return api_arena_given(-EINVAL, NULL, arena);
    lm_range_kind_t kind = kind_of(flags, node);
    int result = lm_range_manage(start, bytes, &kind, &made);
    return api_arena_given(result, made, arena);
}

int loam_reserve_memory(size_t bytes, unsigned flags, int node, loam_arena **arena) {
    loam_arena *made = NULL;
    if ((flags & ~(unsigned)OF_RESERVED) != 0) return api_arena_given(-EINVAL, NULL, arena);
    lm_reserve_t want = {.bytes = bytes,
                         .backed = (flags & LOAM_ARENA_BACKED) != 0,
                         .huge = (flags & LOAM_ARENA_HUGE) != 0,
                         .kind = kind_of(flags, node)};
    int result = lm_range_reserve(&want, &made);
    lm_limit_answer_if_crossed();
    return api_arena_given(result, made, arena);
}

/* Describes a request for huge pages. Returns false iff pages of that size do not exist, count is
 * 0, or count is too large. */
static bool huge(lm_reserve_t *want, size_t page_bytes, size_t count, unsigned timeout_ms) {
    *want = (lm_reserve_t){.page_bytes = page_bytes, .timeout_ms = timeout_ms};
    return (page_bytes == 2 * LM_MIB || page_bytes == LM_GIB) && count > 0 &&
           lm_mul(page_bytes, count, &want->bytes);
}

int loam_reserve_huge_pages(size_t page_bytes, size_t count, unsigned flags, int node,
                            unsigned timeout_ms, loam_arena **arena) {
    loam_arena *made = NULL;
    lm_reserve_t want;
    if (!huge(&want, page_bytes, count, timeout_ms) ||
        (flags & ~(unsigned)LOAM_ARENA_EXCLUSIVE) != 0)
        return api_arena_given(-EINVAL, NULL, arena);
    want.kind = kind_of(flags, node);
    int result = lm_range_reserve(&want, &made);
    lm_limit_answer_if_crossed();
    return api_arena_given(result, made, arena);
}

int loam_reserve_huge_pages_interleave(size_t page_bytes, size_t count, unsigned nodes,
                                       unsigned timeout_ms) {
    lm_reserve_t want;
    if (!huge(&want, page_bytes, count, timeout_ms)) return -EINVAL;
    want.kind = kind_of(0, LM_NODE_ANY);
    int result = lm_range_reserve_on_nodes(&want, nodes);
    lm_limit_answer_if_crossed();
    return result;
}

loam_heap *loam_heap_create_in(loam_arena *arena, bool spill) {
    if (arena == NULL) return (loam_heap *)lm_failed(EINVAL);
    errno = EBUSY; /* the heap sets ENOMEM if that is the reason */
    return lm_fheap_create_in(arena, spill);
}

bool loam_arena_contains(const loam_arena *arena, const void *p) {
    return arena != NULL &&
           ((uintptr_t)p - lm_range_start(arena)) >> LM_SLICE_SHIFT < lm_range_slices(arena);
}

void loam_arena_usage(loam_arena *arena, loam_arena_numbers *numbers) {
    if (numbers == NULL) return;
    *numbers = (loam_arena_numbers){.node = LOAM_NODE_ANY};
    if (arena == NULL) return;
    lm_range_numbers_t range;
    /* Objects that a tool's quarantine holds do not count: see loam_arena_destroy. */
    (void)lm_tools_let_go();
    lm_range_numbers(arena, &range);
    *numbers = (loam_arena_numbers){.start = (void *)lm_range_start(arena),
                                    .bytes = range.bytes,
                                    .free_bytes = range.free_bytes,
                                    .longest_bytes = range.longest_bytes,
                                    .heaps = range.heaps,
                                    .node = arena->node};
}

static void print_arena(loam_arena *arena, size_t number) {
    loam_arena_numbers numbers;
    loam_arena_usage(arena, &numbers);
    lm_line_t node = {0};
    if (numbers.node == LOAM_NODE_ANY)
        lm_line_add(&node, "any node");
    else
        lm_line_add(&node, "node %d", numbers.node);
    lm_print(
        "  %zu: %p, %zu KiB, %s, %s, %zu KiB in use, %zu KiB free (%zu KiB in a row), %zu heaps%s",
        number, numbers.start, numbers.bytes / LM_KIB, node.text,
        arena->exclusive ? "for its heaps only" : "for everybody",
        (numbers.bytes - numbers.free_bytes) / LM_KIB, numbers.free_bytes / LM_KIB,
        numbers.longest_bytes / LM_KIB, numbers.heaps, arena->closing ? ", being destroyed" : "");
}

void loam_arenas_print(void) {
    size_t found = 0;
    lm_print("loam %s, %s: arenas", LOAM_VERSION_TEXT, lm_build_name());
    for (size_t i = 0; i < LM_RANGES; i++) {
        /* Relaxed: an arena that comes or goes meanwhile may or may not be printed. */
        if (lm_load_relaxed(&lm_ranges[i].bounds) == 0) continue;
        print_arena(&lm_ranges[i], ++found);
    }
    if (found == 0) lm_print("  none: all memory is loam's own range of addresses");
}

int loam_arena_destroy(loam_arena *arena) {
    if (arena == NULL) return 0;
    /* What a tool's quarantine holds lies in the arena, but belongs to no object. */
    (void)lm_tools_let_go();
    return lm_range_destroy(arena);
}

unsigned loam_numa_nodes(void) { return (unsigned)__builtin_popcountll(lm_nodes()); }

int loam_numa_node(void) { return lm_node_here(); }

/* ---- At the start ---- */

static void api_arena_failed(const char *what, size_t mib, int result) {
    if (result >= 0 || result == -ETIMEDOUT) return;      /* a timeout has had its line already */
    if (lm_load_relaxed(&lm_misuse_policy.quiet)) return; /* relaxed: an independent word */
    lm_print("loam: %s: %zu MiB cannot be had%s", lm_option_called(what).text, mib,
             result == -EINVAL ? ", or there is no such node" : "");
}

static void reserve_pages(const char *what, size_t page_bytes, size_t count,
                          const lm_at_start_t *want) {
    if (count == 0) return;
    LM_ASSERT(want->timeout_ms <= UINT32_MAX);
    lm_reserve_t pages;
    struct loam_arena *range;
    int result = -EINVAL;
    if (huge(&pages, page_bytes, count, (unsigned)want->timeout_ms)) {
        pages.kind = kind_of(0, want->node);
        pages.pool_only = true;
        result = want->node == LM_NODE_ANY ? lm_range_reserve_on_nodes(&pages, 0)
                                           : lm_range_reserve(&pages, &range);
    }
    api_arena_failed(what, count * (page_bytes / LM_MIB), result);
}

void lm_arenas_at_start(const lm_at_start_t *want) {
    reserve_pages("RESERVE_HUGE_OS_PAGES", LM_GIB, want->pages_1g, want);
    reserve_pages("RESERVE_LARGE_OS_PAGES", 2 * LM_MIB, want->pages_2m, want);
    if (want->bytes == 0) return;
    int result = loam_reserve_memory(want->bytes, LOAM_ARENA_PURGE, LOAM_NODE_ANY, NULL);
    api_arena_failed("RESERVE_OS_MEMORY", want->bytes / LM_MIB, result);
}
