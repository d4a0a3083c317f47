/* huge.c: huge pages, once a program is large enough to fill them.
 *
 * A page fault costs a microsecond and a half for each 4 KiB, and an eighth of that within a huge page,
 * whose entry in the processor's address cache also reaches 512 times as far. But a huge page under a
 * few objects is memory lost, and the kernel's habit of making huge pages out of what was purged loses
 * it again later. So the system is told not to (arena.c), and huge pages are made here, by decision:
 *
 *   clean, 2 MiB, aligned  ── backed at once, without the lock ──>  dirty: resident and free
 *
 * when a page is wanted because the others of its class are full, none is dirty, and pages occupy so much
 * already that the 2 MiB are an eighth of it at most. What is not used soon is purged like all that is
 * dirty. The first page of a class may stay nearly empty: a thousand threads have many of those. And who
 * knows how much of a large object will be touched.
 *
 * It cannot know whether the system had a huge page at hand; without one, 4 KiB of it are resident.
 */
#include "span/room.h"

enum {
    DENSE_LEAST = 256, /* slices of pages of blocks: 16 MiB */
    WANTED_MOST = 8,   /* larger spans may never be touched as a whole */
};

bool lm_huge_wanted(size_t slices) {
    return slices <= WANTED_MOST && lm_space.page_slices >= DENSE_LEAST;
}

bool lm_huge_back(void) {
    lm_page_t *span = lm_space_clean(LM_HUGE_SPAN);
    if (span == NULL) return false;
    size_t first = lm_space_aligned(span, LM_HUGE_SLICES);
    lm_space_carve(span, first, LM_HUGE_SLICES, LM_KIND_BUSY);
    lm_space.busy++;
    lm_lock_give(&lm_space.lock);
    /* Clearing 2 MiB takes longer than anybody should wait for a lock. */
    lm_os_back_huge((void *)(lm_arena.base + (first << LM_SLICE_SHIFT)));
    lm_lock_take(&lm_space.lock);
    lm_space.busy--;
    lm_space_insert(first, LM_HUGE_SLICES, LM_KIND_DIRTY, lm_space.tick);
    return true;
}
