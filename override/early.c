/* early.c: makes malloc usable before thread-local storage is initialised.
 *
 *   dynamic linker:  relocates libc ─ ... ─ loam ─ ... ─ the program ─ copies TLS data
 *                                           └─ prepare()  └─ its resolvers may call malloc
 *
 * The dynamic linker copies the initial values of thread-local variables only once everything is
 * relocated. Until then they are zero. malloc's fast path reads one such variable, lm_heap_self,
 * and must not test it. A program with an indirect function (an IFUNC) runs a resolver as it is
 * relocated, and that resolver may allocate. So loam has an indirect function of its own, whose
 * resolver sets the variable. The copy overwrites it later; heap/thread.c finds the thread's heap
 * again then.
 *
 * Cannot help a resolver of a library that is relocated before loam, or of a static program: loam
 * itself is not relocated yet, or has no thread-local storage.
 */
#include "api/api.h"

#include <features.h>

typedef void function_t(void);

/* Only glibc's dynamic linker knows indirect functions. */
#ifdef __GLIBC__

static void nothing(void) {}

/* The compiler does not see that lm_early_prepared names it. */
__attribute__((used)) static function_t *prepare(void) {
    if (lm_thread_has_token()) lm_heap_before_start();
    return nothing;
}

/* Not static: clang gives an indirect function external linkage in any case. */
__attribute__((visibility("hidden"))) void lm_early_prepared(void) LM_RESOLVED_BY("prepare");

/* The relocation of this word runs the resolver. Linkers sort such relocations by address, and this
 * section comes before all others that a program may have such words in. The function that the word
 * points to is called as a constructor, and does nothing. */
__attribute__((used, section(".init_array.00001"))) static function_t *const early =
    lm_early_prepared;

#endif
