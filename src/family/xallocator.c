/* xallocator.c: the set of blocks behind xmalloc (loam/xallocator.h): when it starts and ends.
 *
 *   state: none ──> starting ──> ready ──> none      the last step: only by xalloc_destroy
 *                  (one thread; others wait)
 *
 * The first caller starts it, whatever the order of static objects. The end of the last C++ file
 * does not end it: that file may belong to a plugin that is closed while a program in C, for which
 * no static object counts, has blocks and threads. Unused memory is given back at that time. After
 * xalloc_destroy a free does nothing, because the block's memory has another owner by then.
 */
/* The calls below are made on behalf of the program, so they are metered. */
#undef LOAM_METER_HOOKS
#define LOAM_METER_HOOKS 1
#include "loam/xallocator.h"
#include "family/family.h"

enum { NONE, STARTING, READY };

static loam_blocks the_blocks;
/* Acquire and release: a thread that sees READY sees the_blocks initialised. */
static unsigned state;
static unsigned files; /* atomic: number of C++ files that have begun and not ended */

__attribute__((weak)) const loam_blocks_options *loam_xalloc_options(void) {
#if LM_HOSTED
    static const loam_blocks_options options = {.name = "xallocator", .flags = LOAM_THREADS};
#else
    static const loam_blocks_options options = {.name = "xallocator"};
#endif
    return &options;
}

static LM_NOINLINE bool xallocator_start(void) {
    for (unsigned found = NONE; !lm_cas_weak_acquire(&state, &found, STARTING); found = NONE) {
        if (found == READY) return true;
        lm_cpu_relax();
    }
    bool started = loam_blocks_init_flags(&the_blocks, loam_xalloc_options(), 0) == 0;
    LM_ASSERT(lm_load_relaxed(&state) == STARTING);
    lm_store_release(&state, started ? READY : NONE);
    return started;
}

LM_INLINE bool ready(void) { return LM_LIKELY(lm_load_acquire(&state) == READY); }

loam_blocks *loam_xalloc_blocks(void) { return ready() || xallocator_start() ? &the_blocks : NULL; }

void loam_xalloc_init(void) { (void)loam_xalloc_blocks(); }

void loam_xalloc_destroy(void) {
    if (!ready()) return;
    lm_store_release(&state, NONE);
    loam_blocks_deinit(&the_blocks);
}

void loam_xalloc_begin(void) {
    if (lm_add_relaxed(&files, 1) == 0) loam_xalloc_init();
}
void loam_xalloc_end(void) {
    /* Relaxed: the count publishes no other data. */
    if (lm_add_relaxed(&files, 0u - 1) == 1 && ready()) (void)loam_blocks_trim(&the_blocks);
}

void *loam_xmalloc_at(size_t bytes, const char *file, unsigned line) {
    if (LM_UNLIKELY(!ready()) && !xallocator_start()) return NULL;
    return loam_blocks_alloc_at(&the_blocks, bytes, file, line);
}

void *loam_xmalloc_aligned_at(size_t bytes, size_t align, const char *file, unsigned line) {
    if (LM_UNLIKELY(!ready()) && !xallocator_start()) return NULL;
    return loam_blocks_alloc_aligned_at(&the_blocks, bytes, align, file, line);
}

void *loam_xrealloc_at(void *p, size_t bytes, const char *file, unsigned line) {
    if (LM_UNLIKELY(!ready()) && !xallocator_start()) return NULL;
    return loam_blocks_realloc_at(&the_blocks, p, bytes, file, line);
}

void loam_xfree_at(void *p, const char *file, unsigned line) {
    if (LM_LIKELY(ready())) loam_blocks_free_at(&the_blocks, p, file, line);
}

void loam_xalloc_stats(loam_print *print, void *context) {
    if (ready()) loam_blocks_print(&the_blocks, print, context);
}
