/* atomic.h: the atomic operations that loam uses, with the memory ordering in each name.
 *
 * They are compiler builtins on plain variables instead of C11's _Atomic, so that C++ tests can
 * include every header. A comment at each use states why its ordering suffices.
 */
#ifndef LM_BASE_ATOMIC_H
#define LM_BASE_ATOMIC_H

#include "base/compiler.h"

#define lm_load_relaxed(p) __atomic_load_n((p), __ATOMIC_RELAXED)
#define lm_load_acquire(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define lm_store_relaxed(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)
#define lm_store_release(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)
#define lm_exchange_relaxed(p, v) __atomic_exchange_n((p), (v), __ATOMIC_RELAXED)
#define lm_exchange_acquire(p, v) __atomic_exchange_n((p), (v), __ATOMIC_ACQUIRE)
#define lm_exchange_acq_rel(p, v) __atomic_exchange_n((p), (v), __ATOMIC_ACQ_REL)
#define lm_add_relaxed(p, v) __atomic_fetch_add((p), (v), __ATOMIC_RELAXED)
#define lm_add_acq_rel(p, v) __atomic_fetch_add((p), (v), __ATOMIC_ACQ_REL)
#define lm_sub_release(p, v) __atomic_fetch_sub((p), (v), __ATOMIC_RELEASE)

/* Compare-and-swap. On failure each stores the value it found in *expected. A weak form may fail
 * although the values are equal, so use it only in a loop. */
#define lm_cas_weak_relaxed(p, expected, v) \
    __atomic_compare_exchange_n((p), (expected), (v), true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)
#define lm_cas_weak_acquire(p, expected, v) \
    __atomic_compare_exchange_n((p), (expected), (v), true, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)
#define lm_cas_weak_release(p, expected, v) \
    __atomic_compare_exchange_n((p), (expected), (v), true, __ATOMIC_RELEASE, __ATOMIC_RELAXED)
#define lm_cas_weak_acq_rel(p, expected, v) \
    __atomic_compare_exchange_n((p), (expected), (v), true, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)
#define lm_cas_relaxed(p, expected, v) \
    __atomic_compare_exchange_n((p), (expected), (v), false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)
#define lm_cas_acquire(p, expected, v) \
    __atomic_compare_exchange_n((p), (expected), (v), false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)

/* Fences. They order what the worker writes for a copy of the process, and a thread's own store
 * before its load of another thread's word. ThreadSanitizer does not understand fences; builds with
 * it have no worker and no fences. */
LM_INLINE void lm_fence_release(void) {
#if !LM_TSAN
    __atomic_thread_fence(__ATOMIC_RELEASE);
#endif
}
LM_INLINE void lm_fence_seq_cst(void) {
#if !LM_TSAN
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

#endif
