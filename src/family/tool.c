/* tool.c: tells AddressSanitizer and Valgrind which bytes of a chunk are objects.
 *
 * AddressSanitizer's functions are weak: there in a program that was built with it, whatever loam was built
 * with. Valgrind's requests are instructions that do nothing outside of it; they need its header when
 * loam is built, and nothing when it runs. A freestanding build has neither.
 */
#include "family/family.h"

#if LM_HOSTED
__attribute__((weak)) void __asan_poison_memory_region(const volatile void *p, size_t bytes);
__attribute__((weak)) void __asan_unpoison_memory_region(const volatile void *p, size_t bytes);
#endif
#if LM_VALGRIND
#include <valgrind/memcheck.h>
#endif

unsigned char lm_tool_state;

static bool is_watched(void) {
#if LM_VALGRIND
    /* Memcheck alone answers so. Its siblings measure, and must see the program as it runs without them. */
    if (VALGRIND_MAKE_MEM_DEFINED(NULL, 0) != 0) return true;
#endif
#if LM_HOSTED
    return __asan_poison_memory_region != NULL;
#else
    return false;
#endif
}

bool lm_tool_watches_now(void) {
    unsigned char state = lm_load_relaxed(&lm_tool_state); /* every thread finds the same */
    if (state == LM_TOOL_UNKNOWN) {
        state = is_watched() ? LM_TOOL_SOME : LM_TOOL_NONE;
        lm_store_relaxed(&lm_tool_state, state);
    }
    return state == LM_TOOL_SOME;
}

void lm_tool_hide_now(const void *p, size_t bytes) {
    if (!lm_tool_watches()) return;
#if LM_HOSTED
    if (__asan_poison_memory_region != NULL) __asan_poison_memory_region(p, bytes);
#endif
#if LM_VALGRIND
    (void)VALGRIND_MAKE_MEM_NOACCESS(p, bytes);
#endif
    (void)p, (void)bytes;
}

void lm_tool_show_now(const void *p, size_t bytes) {
    if (!lm_tool_watches()) return;
#if LM_HOSTED
    if (__asan_unpoison_memory_region != NULL) __asan_unpoison_memory_region(p, bytes);
#endif
#if LM_VALGRIND
    (void)VALGRIND_MAKE_MEM_DEFINED(p, bytes);
#endif
    (void)p, (void)bytes;
}

void lm_tool_show_undefined_now(const void *p, size_t bytes) {
    if (!lm_tool_watches()) return;
#if LM_HOSTED
    if (__asan_unpoison_memory_region != NULL) __asan_unpoison_memory_region(p, bytes);
#endif
#if LM_VALGRIND
    (void)VALGRIND_MAKE_MEM_UNDEFINED(p, bytes);
#endif
    (void)p, (void)bytes;
}

void lm_tool_pause_now(void) {
#if LM_VALGRIND
    VALGRIND_DISABLE_ERROR_REPORTING;
#endif
}

void lm_tool_resume_now(void) {
#if LM_VALGRIND
    VALGRIND_ENABLE_ERROR_REPORTING;
#endif
}
