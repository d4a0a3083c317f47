/* tools.c: shows loam's objects to Memcheck and AddressSanitizer, in builds for these tools.
 *
 *   block    [ object ....... | fence, word ]        free block   [ link | 0xdf ...... | word ]
 *              shown            hidden                              all hidden
 *
 * A build for tools (LOAM_VALGRIND, LOAM_POISON) is a debug build. It knows each object's exact
 * size, and calls this file whenever a block changes hands; its fences are the redzones. loam's own
 * accesses to hidden memory run with Memcheck's reports paused, in functions that AddressSanitizer
 * leaves alone (LM_READS_ANYTHING). If no tool runs, nothing happens. Returned spans stay hidden
 * for a while (tools_kept.c).
 */
#include "checks/inner.h"

#if LM_VALGRIND
#include <valgrind/memcheck.h>
#endif
/* Present in a program that was built with AddressSanitizer, however loam was built. */
__attribute__((weak)) void __asan_unpoison_memory_region(const volatile void *p, size_t bytes);

void lm_tools_forget(const void *p, size_t bytes) {
    if (__asan_unpoison_memory_region != NULL) __asan_unpoison_memory_region(p, bytes);
#if LM_VALGRIND
    (void)VALGRIND_MAKE_MEM_DEFINED(p, bytes);
#endif
}

#if LM_TOOLS

/* loam itself hides the fences. With redzones, Memcheck would at a block's free also hide the bytes
 * before the block, which may be another block's. */
enum { NO_REDZONE = 0 };

#if LOAM_POISON
__attribute__((weak)) void __asan_poison_memory_region(const volatile void *p, size_t bytes);
#endif

void lm_tools_hide(const void *p, size_t bytes) {
#if LOAM_POISON
    if (__asan_poison_memory_region != NULL) __asan_poison_memory_region(p, bytes);
#endif
#if LOAM_VALGRIND
    (void)VALGRIND_MAKE_MEM_NOACCESS(p, bytes);
#endif
}

/* Marks the memory as defined: loam's own words may have any contents. lm_tools_new marks the
 * program's bytes. */
void lm_tools_show(const void *p, size_t bytes) {
#if LOAM_POISON
    if (__asan_unpoison_memory_region != NULL) __asan_unpoison_memory_region(p, bytes);
#endif
#if LOAM_VALGRIND
    (void)VALGRIND_MAKE_MEM_DEFINED(p, bytes);
#endif
    (void)p, (void)bytes;
}

void lm_tools_undefined(const void *p, size_t bytes) {
#if LOAM_VALGRIND
    (void)VALGRIND_MAKE_MEM_UNDEFINED(p, bytes);
#endif
    (void)p, (void)bytes;
}

void lm_tools_new(const void *p, size_t bytes) {
#if LOAM_VALGRIND
    VALGRIND_MALLOCLIKE_BLOCK(p, bytes, NO_REDZONE, 1);
#endif
    (void)p, (void)bytes;
}

void lm_tools_resized(const void *p, size_t before, size_t bytes) {
#if LOAM_POISON
    if (__asan_unpoison_memory_region != NULL) __asan_unpoison_memory_region(p, bytes);
#endif
#if LOAM_VALGRIND
    if (before > 0 && bytes > 0) {
        VALGRIND_RESIZEINPLACE_BLOCK(p, before, bytes, NO_REDZONE);
        return;
    }
    VALGRIND_FREELIKE_BLOCK(p, NO_REDZONE);
    VALGRIND_MALLOCLIKE_BLOCK(p, bytes, NO_REDZONE, 0);
#endif
    (void)p, (void)before, (void)bytes;
}

void lm_tools_freed(const void *p) {
#if LOAM_VALGRIND
    VALGRIND_FREELIKE_BLOCK(p, NO_REDZONE);
#endif
    (void)p;
}

void lm_tools_dropped(const void *block, size_t bytes) {
    size_t requested;
    if (lm_word_get((const char *)block + bytes, &requested) == LM_STATE_USED)
        lm_tools_freed(block);
    lm_tools_show(block, bytes);
}

void lm_tools_pause(void) {
#if LOAM_VALGRIND
    VALGRIND_DISABLE_ERROR_REPORTING;
#endif
}

void lm_tools_resume(void) {
#if LOAM_VALGRIND
    VALGRIND_ENABLE_ERROR_REPORTING;
#endif
}

LM_READS_ANYTHING uintptr_t lm_tools_peek(const lm_block_t *block) {
    lm_tools_pause();
    uintptr_t word = (uintptr_t)block->next;
    lm_tools_resume();
    return word;
}

LM_READS_ANYTHING void lm_tools_poke(lm_block_t *block, uintptr_t word) {
    lm_tools_pause();
    block->next = (lm_block_t *)word;
    lm_tools_resume();
}

#endif
