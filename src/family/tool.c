/* tool.c: tells AddressSanitizer and Valgrind which bytes of a chunk are objects, and
 * ThreadSanitizer when an object passes from one thread to another.
 *
 * The sanitizers' functions are weak: a program that was built with a sanitizer has them, however
 * loam was built. Valgrind's requests are instructions that do nothing outside of it; they need its
 * header when loam is built, and nothing at run time. A freestanding build supports none of the
 * three.
 *
 *   free   release ──> slots[line % SLOTS] ──> acquire   alloc     one slot per 64 bytes
 *
 * ThreadSanitizer cannot be told that memory is new. So a free releases the slots of all lines that
 * contain the object, and a thread that gets any memory in these lines, from any allocator,
 * acquires them. Two objects may share a slot; a true race between their threads may be missed in
 * that case. A library that was compiled with ThreadSanitizer does not need this, because the
 * sanitizer sees it, and runs as without a tool.
 */
#include "family/family.h"

#if LM_HOSTED
__attribute__((weak)) void __asan_poison_memory_region(const volatile void *p, size_t bytes);
__attribute__((weak)) void __asan_unpoison_memory_region(const volatile void *p, size_t bytes);
__attribute__((weak)) void __tsan_acquire(void *slot);
__attribute__((weak)) void __tsan_release(void *slot);
#endif
#if LM_VALGRIND
#include <valgrind/memcheck.h>
#endif

unsigned char lm_tool_state;

static bool is_memcheck(void) {
#if LM_VALGRIND
    /* Only Memcheck answers this request. Valgrind's other tools measure, and must see the program
     * as it is without them. */
    return VALGRIND_MAKE_MEM_DEFINED(NULL, 0) != 0;
#else
    return false;
#endif
}

static bool is_watched(void) {
    if (is_memcheck()) return true;
#if LM_HOSTED
    return __asan_poison_memory_region != NULL || (!LM_TSAN && __tsan_acquire != NULL);
#else
    return false;
#endif
}

bool lm_tool_watches_now(void) {
    /* Relaxed: every thread finds the same value. */
    unsigned char state = lm_load_relaxed(&lm_tool_state);
    if (state == LM_TOOL_UNKNOWN) {
        state = is_watched() ? LM_TOOL_SOME : LM_TOOL_NONE;
        lm_store_relaxed(&lm_tool_state, state);
    }
    return state == LM_TOOL_SOME;
}

bool lm_tool_sees_all(void) { return lm_tool_watches() && is_memcheck(); }

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

#if LM_HOSTED && !LM_TSAN
enum { LINE_SHIFT = 6, TOOL_SLOTS = 4096 };

static void each_slot(void (*visit)(void *slot), const void *p, size_t bytes) {
    static char slots[TOOL_SLOTS]; /* only their addresses are used */
    uintptr_t line = (uintptr_t)p >> LINE_SHIFT;
    uintptr_t lines = (((uintptr_t)p + bytes - 1) >> LINE_SHIFT) - line + 1;
    if (bytes == 0 || !lm_tool_watches()) return;
    LM_ASSERT(!lm_passes_the_end(p, bytes));
    if (lines > TOOL_SLOTS) lines = TOOL_SLOTS;
    for (; lines > 0; line++, lines--) visit(&slots[line % TOOL_SLOTS]);
}

void lm_tool_give_now(const void *p, size_t bytes) {
    if (__tsan_release != NULL) each_slot(__tsan_release, p, bytes);
}
void lm_tool_take_now(const void *p, size_t bytes) {
    if (__tsan_acquire != NULL) each_slot(__tsan_acquire, p, bytes);
}
#else
void lm_tool_give_now(const void *p, size_t bytes) { (void)p, (void)bytes; }
void lm_tool_take_now(const void *p, size_t bytes) { (void)p, (void)bytes; }
#endif

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
