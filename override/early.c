/* early.c: makes malloc usable before thread-local storage is initialised.
 *
 *   dynamic linker:  relocates libc ─ ... ─ loam ─ ... ─ the program ─ copies TLS data
 *                                           └─ prepare()  └─ its resolvers may call malloc
 *
 *
 * The dynamic linker copies the initial values of thread-local variables only once everything is
 * relocated. Until then they are zero. malloc's fast path reads such a variable, lm_heap_self, and
 * must not test it. A program with an indirect function (an IFUNC) runs a resolver as it is
 * relocated, and that resolver may allocate. So loam has an indirect function, whose resolver sets
 * the variable. The copy overwrites it later; heap/thread.c then finds the thread's heap again.
 *
 * The resolver also registers a handler of exit, if LOAM_SHOW_STATS or LOAM_SHOW_LEAKS is set
 * (api/at_exit.c): exit runs the handler that was registered first last. This module's linkage is
 * not complete at that time, so libc's function is looked up in libc's tables.
 *
 * It cannot help a resolver of a library that is relocated before loam, or of a static program:
 * loam itself is not relocated yet, or has no thread-local storage.
 */
#define _GNU_SOURCE 1 /* struct dl_phdr_info */
#include "api/api.h"
#include "module.h"

#include <features.h>

typedef void early_function_t(void);

/* Only glibc's dynamic linker knows indirect functions. */
#ifdef __GLIBC__

static void nothing(void) {}

/* Weak, because their addresses may not be known yet; they are NULL in that case. */
extern struct r_debug _r_debug __attribute__((weak));
extern void *__libc_stack_end __attribute__((weak));

/* Returns whether the environment, which follows the arguments, has a variable that begins with
 * `name`. */
static bool asks_for(const char *name) {
    enum { ARGUMENTS_MOST = 1 << 24 };
    const uintptr_t *start = &__libc_stack_end != NULL ? (uintptr_t *)__libc_stack_end : NULL;
    if (start == NULL || *start >= ARGUMENTS_MOST || start[1 + *start] != 0) return false;
    for (const uintptr_t *at = start + 2 + *start; *at != 0; at++) {
        const char *entry = (const char *)*at, *c = name;
        while (*c != '\0' && *entry == *c) entry++, c++;
        if (*c == '\0') return true;
    }
    return false;
}

static void register_handler(void) {
    lm_module_t libc;
    lm_tables_t tables;
    if (!asks_for("LOAM_SHOW_") || &_r_debug == NULL) return;
    if (!lm_module_named("libc.so.6", &libc) || !lm_module_tables(&libc, &tables)) return;
    void *found = lm_module_find(&tables, "__cxa_atexit");
    lm_at_exit_t *at_exit;
    /* C has no cast from an object pointer to a function pointer */
    __builtin_memcpy(&at_exit, &found, sizeof found);
    if (found != NULL) lm_at_exit_first(at_exit);
}

/* Marked as used, because the compiler does not see that lm_early_prepared names it. */
__attribute__((used)) static early_function_t *prepare(void) {
    if (lm_thread_has_token()) {
        lm_heap_before_start();
        register_handler();
    }
    return nothing;
}

/* Not static, because clang gives an indirect function external linkage in any case. */
__attribute__((visibility("hidden"))) void lm_early_prepared(void) LM_RESOLVED_BY("prepare");

/* The relocation of this word runs the resolver. Linkers sort these relocations by address, and
 * this section precedes all others in which a program may have such words. The function that the
 * word points to is called as a constructor, and does nothing. */
__attribute__((used, section(".init_array.00001"))) static early_function_t *const early =
    lm_early_prepared;

#endif
