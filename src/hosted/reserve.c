/* reserve.c: a source over one large range of addresses, committed as it is used (loam/source.h).
 *
 *   start [ chunks ] at ... idle ... committed ── mapped without access ── end
 *
 * Invariant: start <= at <= committed <= end, and all but `at` are multiples of LM_OS_UNIT. Commits
 * run ahead of use and releases behind it, in proportion to the memory used. So the number of
 * system calls is logarithmic in the distance that `at` moves one way, and zero while it moves to
 * and fro. It cannot release holes between chunks.
 */
#include "os/os.h"

#include "family/family.h"

#include <errno.h>

#define STEP_MOST (8 * LM_MIB)
#define KEEP_LEAST (1 * LM_MIB)

static bool reserve_grow(loam_reserve *reserve, size_t least) {
    size_t left = (size_t)(reserve->end - reserve->committed);
    LM_ASSERT(least > 0 && least <= left && left % LM_OS_UNIT == 0);
    size_t step = (size_t)(reserve->committed - reserve->start) / 4;
    least = lm_align_up(least, LM_OS_UNIT); /* `left` is also such a multiple, so it still fits */
    step = lm_align_down(step < STEP_MOST ? step : STEP_MOST, LM_OS_UNIT);
    if (step > left) step = left;
    if (step <= least || lm_os_commit(reserve->committed, step, true) != LM_COMMIT_DONE) {
        step = least; /* the larger step was only a wish */
        if (lm_os_commit(reserve->committed, step, true) != LM_COMMIT_DONE) return false;
    }
    reserve->committed += step;
    LM_ASSERT(reserve->committed <= reserve->end);
    return true;
}

static void *reserve_get(loam_source *source, size_t bytes, size_t align, size_t *got) {
    loam_reserve *reserve = (loam_reserve *)source;
    size_t gap = (0 - (uintptr_t)reserve->at) & (align - 1);
    size_t left = (size_t)(reserve->end - reserve->at);
    if (gap > left || bytes > left - gap) return NULL;
    char *chunk = reserve->at + gap;
    if (chunk + bytes > reserve->committed &&
        !reserve_grow(reserve, (size_t)(chunk + bytes - reserve->committed)))
        return NULL;
    reserve->at = chunk + bytes;
    LM_ASSERT(reserve->at <= reserve->committed);
    reserve->out++;
    lm_tool_show(chunk, bytes); /* it may have been put back before */
    *got = bytes;
    return chunk;
}

/* Releases idle memory. Nothing is given back until half as much as is used is idle; a quarter as
 * much is kept then. */
static void reserve_trim(loam_reserve *reserve) {
    size_t keep = (size_t)(reserve->at - reserve->start) / 4;
    if (keep < KEEP_LEAST) keep = KEEP_LEAST;
    if ((size_t)(reserve->committed - reserve->at) <= 2 * keep) return;
    char *to =
        reserve->start + lm_align_up((size_t)(reserve->at - reserve->start) + keep, LM_OS_UNIT);
    LM_ASSERT(to >= reserve->at && to < reserve->committed);
    lm_tool_show(to, (size_t)(reserve->committed - to));
    (void)lm_os_release(to, (size_t)(reserve->committed - to), true);
    reserve->committed = to;
}

static void reserve_put(loam_source *source, void *chunk, size_t got) {
    loam_reserve *reserve = (loam_reserve *)source;
    LM_ASSERT(reserve->out > 0 && (char *)chunk >= reserve->start);
    LM_ASSERT((char *)chunk + got <= reserve->at);
    lm_tool_hide(chunk, got); /* until it is got again */
    if ((char *)chunk + got == reserve->at) reserve->at = (char *)chunk;
    if (--reserve->out == 0) reserve->at = reserve->start;
    reserve_trim(reserve);
}

int loam_reserve_init(loam_reserve *reserve, size_t bytes) {
    *reserve = (loam_reserve){
        .source = {.get = reserve_get,
                   .put = reserve_put,
                   .name = "reserve",
                   .flags = LOAM_SOURCE_CONTIGUOUS},
    };
    if (bytes > (size_t)PTRDIFF_MAX - LM_OS_UNIT) return -ENOMEM;
    bytes = lm_align_up(bytes > 0 ? bytes : 1, LM_OS_UNIT);
    char *start = (char *)lm_os_reserve(bytes);
    if (start == NULL) return -ENOMEM;
    reserve->start = reserve->at = reserve->committed = start;
    reserve->end = start + bytes;
    return 0;
}

void loam_reserve_deinit(loam_reserve *reserve) {
    if (reserve->start == NULL) return;
    /* The next owner of these addresses must not inherit what a tool was told about them. */
    lm_tool_show(reserve->start, (size_t)(reserve->committed - reserve->start));
    (void)lm_os_release(reserve->start, (size_t)(reserve->end - reserve->start), false);
    reserve->start = reserve->at = reserve->committed = reserve->end = NULL;
    reserve->out = 0;
}
