/* lock.h: the two kinds of locks, and how a fork holds them. Part of os.h, which includes it.
 *
 *   lm_lock_t     one word. Choose it where every user is equally likely
 *   lm_biased_t   the owner enters by a plain store. Choose it where one thread is nearly always
 *                 the user
 *
 * A thread that forks stops all others: it holds every lock until the fork is done. Meanwhile it
 * may wait for a lock of libc or of the program, and the thread that holds that lock may allocate.
 * Such a thread passes: it continues as if it held the locks that the fork holds. At most one
 * thread passes at a time. So no thread waits for a fork that waits for that thread (decision 0038,
 * tests/protocol/fork.pml). In the child, the locks tell what a thread was passing when the process
 * was copied.
 *
 * Neither kind is recursive or fair, and neither lends a waiter's priority to the holder (decision
 * 0033).
 */
#ifndef LM_OS_LOCK_H
#define LM_OS_LOCK_H

#include "base/base.h"

void lm_os_wake(uint32_t *word);

/* ---- Fork (fork.c) ---- */

/* Atomic. 0: no fork holds the locks. The forking thread's token: a fork holds the locks, and no
 * thread passes. A token | LM_FORK_BUSY: the thread of that token passes; it may be the forking
 * one. */
extern LM_HIDDEN uintptr_t lm_fork_owner;
enum { LM_FORK_BUSY = 1 };

/* Maximum time in milliseconds that a fork waits for locks. After it, the fork stops no thread, and
 * the child repairs what it finds. Only a thread that is itself stopped while it holds a lock can
 * keep a fork waiting so long. */
enum { LM_FORK_PATIENCE_MS = 10000 };

/* Returns whether the calling thread may continue as if it held a lock that the fork holds. If so,
 * lm_fork_passed must follow where the thread releases that lock. The forking thread may always
 * pass, unless another one passes at this moment. Other threads may pass only if the forking thread
 * sleeps. turns: milliseconds that the calling thread has waited. */
bool lm_fork_pass(unsigned turns);
/* Ends one pass. Call it where the passing thread releases the lock that it passed. */
void lm_fork_passed(void);

/* Returns whether the calling thread passes at this moment. */
LM_INLINE bool lm_fork_passes(void) {
    /* Relaxed: only this thread writes this value. */
    return lm_load_relaxed(&lm_fork_owner) == (lm_thread_token() | LM_FORK_BUSY);
}

/* Returns whether the calling thread is forking or passes. */
bool lm_fork_here(void);

/* Allows other threads to pass. The calling thread must have taken all locks. tid: its number, for
 * lm_os_thread_state; 0 if the system must not be asked. */
void lm_fork_begin(unsigned tid);

/* Ends the fork in the parent, after waiting for a thread that passes. Returns whether the calling
 * thread had begun a fork that has ended now. */
bool lm_fork_end(void);

/* Stops passing in the parent, for a lock that is released before lm_fork_end: the program's
 * handlers may come in any order. Waits until no thread passes. Returns whether the calling thread
 * forks and threads could pass. If so, no thread passes until lm_fork_resume. */
bool lm_fork_pause(void);
/* Allows other threads to pass again after lm_fork_pause. */
void lm_fork_resume(void);

/* The heap sets it. It is called in the child, before the heap's fork handler, if a thread was
 * passing when the process was copied and a handler of the program's finds a lock taken. Makes the
 * heap whole and frees the locks. */
extern LM_HIDDEN void (*lm_fork_repair)(void);

/* What the forking thread had reached when the process was copied. */
typedef enum lm_fork_kind {
    LM_FORK_STOPPED, /* all other threads were stopped */
    LM_FORK_PASSED,  /* one thread was passing; all others were stopped */
    LM_FORK_TORN     /* no thread was stopped */
} lm_fork_kind_t;

/* Ends the fork in the child. Call it before anything else there. Returns what the forking thread
 * had reached. */
lm_fork_kind_t lm_fork_child(void);

/* Returns whether the calling thread is inside a fork already, which its own signal handler
 * interrupts with another. If so, lm_fork_end or lm_fork_child must follow. */
bool lm_fork_again(void);

/* ---- Locks (thread.c) ---- */

/* Flags in the word of a lock. The word is 0 iff the lock is free. Otherwise it also holds bits of
 * the holder's token. */
enum {
    LM_LOCK_HELD = 1,
    LM_LOCK_WAITED = 2, /* a thread sleeps on the word */
    LM_LOCK_WORKER = 4, /* without FORK: the worker is the holder */
    LM_LOCK_FORK = 8,   /* a fork holds it */
    LM_LOCK_PASSED = 4, /* with FORK: a thread has passed it, and may change what it protects */
    LM_LOCK_FLAGS = LM_LOCK_WAITED | LM_LOCK_WORKER | LM_LOCK_FORK
};

typedef struct lm_lock {
    uint32_t word;
} lm_lock_t;

/* Atomic. Odd while the worker waits for a lock; a different number at each wait. */
extern LM_HIDDEN uint32_t lm_lock_worker_waits;

/* The span layer sets it. It is called where a thread finds a lock taken in a copy of a process
 * that had a worker (lm_os_worker_lost), and frees the locks that the worker had taken there. May
 * be called in signal handlers. */
extern LM_HIDDEN void (*lm_lock_repair)(void);

void lm_lock_take_contended(lm_lock_t *lock);
void lm_lock_give_contended(lm_lock_t *lock);

/* Returns what the calling thread writes as a holder. Two threads whose control blocks lie a
 * multiple of 4 GiB apart write the same value. If a forking thread meets a lock of the other one
 * of such a pair, its fork stops no thread. */
LM_INLINE uint32_t lm_lock_holder(void) {
    LM_ASSERT(lm_thread_token() % 16 == 0); /* the flags use these bits */
    return (uint32_t)lm_thread_token() | LM_LOCK_HELD;
}

/* Returns whether the calling thread holds the lock. In a signal handler such a lock cannot be
 * waited for. */
LM_INLINE bool lm_lock_is_mine(const lm_lock_t *lock) {
    /* Relaxed: only this thread writes this value. */
    return (lm_load_relaxed(&lock->word) & ~(uint32_t)LM_LOCK_FLAGS) == lm_lock_holder();
}

/* Returns whether some thread holds the lock. For assertions: a thread that passes during a fork,
 * and the child of a fork, use what the lock protects while the word names another thread. Relaxed:
 * the caller has taken the lock itself, or its fork has. */
LM_INLINE bool lm_lock_held(const lm_lock_t *lock) { return lm_load_relaxed(&lock->word) != 0; }

LM_INLINE void lm_lock_take(lm_lock_t *lock) {
    uint32_t expected = 0;
    /* Acquire: see what the last holder wrote. */
    if (LM_LIKELY(lm_cas_acquire(&lock->word, &expected, lm_lock_holder()))) return;
    lm_lock_take_contended(lock);
}

/* Takes the lock if it is free. Returns false iff a thread holds it. */
LM_INLINE bool lm_lock_try(lm_lock_t *lock) {
    uint32_t expected = 0;
    return lm_cas_acquire(&lock->word, &expected, lm_lock_holder());
}

/* Takes the lock for the worker if it is free. The word records that the worker is the holder, so
 * that a copy of the process can tell. Returns false iff a thread holds the lock. */
LM_INLINE bool lm_lock_try_as_worker(lm_lock_t *lock) {
    uint32_t expected = 0;
    return lm_cas_acquire(&lock->word, &expected, lm_lock_holder() | LM_LOCK_WORKER);
}

/* Waits until the worker has the lock, and takes it as lm_lock_try_as_worker does. */
void lm_lock_take_as_worker(lm_lock_t *lock);

/* Returns whether the worker has taken the lock. */
LM_INLINE bool lm_lock_of_worker(const lm_lock_t *lock) {
    /* Relaxed: the word is independent of other data. */
    return (lm_load_relaxed(&lock->word) & (LM_LOCK_WORKER | LM_LOCK_FORK)) == LM_LOCK_WORKER;
}

/* Returns whether a fork has taken the lock. */
LM_INLINE bool lm_lock_of_fork(const lm_lock_t *lock) {
    /* Relaxed: the word is independent of other data. */
    return (lm_load_relaxed(&lock->word) & LM_LOCK_FORK) != 0;
}

LM_INLINE void lm_lock_give(lm_lock_t *lock) {
    /* Relaxed: a passing thread has written its own token there itself; other threads need not see
     * it. */
    if (LM_UNLIKELY(lm_load_relaxed(&lm_fork_owner) != 0)) {
        lm_lock_give_contended(lock);
        return;
    }
    /* Release: the next holder sees what this holder wrote. */
    if (LM_UNLIKELY(__atomic_exchange_n(&lock->word, 0, __ATOMIC_RELEASE) & LM_LOCK_WAITED))
        lm_os_wake(&lock->word);
}

/* Takes the lock for a fork. Waits at most until the time `until` of lm_os_ms. Returns false if
 * that time has come, or if the calling thread holds the lock already. */
bool lm_lock_hold(lm_lock_t *lock, uint64_t until);

/* Releases the lock in the parent if the calling thread took it by lm_lock_hold. */
void lm_lock_let(lm_lock_t *lock);

/* Frees the lock in the child of a fork, whatever its state. */
LM_INLINE void lm_lock_reset(lm_lock_t *lock) { lock->word = 0; }

/* Frees the lock in the child of a fork, unless the forking thread had taken it before a signal
 * handler of its own forked. Returns whether another thread was inside: what the lock protects may
 * be half changed. */
LM_INLINE bool lm_lock_break(lm_lock_t *lock) {
    uint32_t word = lock->word;
    bool mine = lm_lock_is_mine(lock);
    if (word == 0 || (mine && !(word & LM_LOCK_FORK))) return false;
    lm_lock_reset(lock);
    return !mine || (word & LM_LOCK_PASSED) != 0;
}

/* ---- Biased locks (thread.c) ---- */

/* A lock for data that one thread, the owner, uses all the time, and others hardly ever. The owner
 * enters by a plain store. An atomic exchange would first wait until all earlier stores have left
 * the processor, cache misses included; that was half the time of a slow path. Other threads ask,
 * run a barrier on every processor of the process, and then look whether the owner is inside
 * (asymmetric Dekker locking, after Dice, Huang and Yang, "Asymmetric Dekker synchronization",
 * 2001). The other threads need a lock among themselves. */
typedef struct lm_biased {
    uint32_t inside; /* atomic: 1 while the owner is inside */
    /* Atomic. 0: no other thread asks. 1: another thread is, or wants to be, inside. 2: in
     * addition, the owner waits. */
    uint32_t asked;
} lm_biased_t;

/* Atomic. True iff owners must order their accesses by fences, because the system has no barrier
 * for others. */
extern LM_HIDDEN bool lm_biased_fenced;

void lm_biased_enter_contended(lm_biased_t *lock);

/* Takes the lock for the owner. */
LM_INLINE void lm_biased_enter(lm_biased_t *lock) {
    /* Relaxed: the barrier of the thread that asks makes the store visible. */
    lm_store_relaxed(&lock->inside, 1);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    /* Relaxed, and after the store: an owner that does not see yet that barriers have ended has
     * stored before the last barrier. */
    if (LM_UNLIKELY(lm_load_relaxed(&lm_biased_fenced))) {
        /* Sequentially consistent: a thread that asks before the next load sees this store, or this
         * thread sees its request. */
        (void)__atomic_exchange_n(&lock->inside, 1, __ATOMIC_SEQ_CST);
    }
    /* Sequentially consistent: see above. Acquire: see what the thread that was inside wrote. */
    if (LM_UNLIKELY(__atomic_load_n(&lock->asked, __ATOMIC_SEQ_CST) != 0))
        lm_biased_enter_contended(lock);
}
/* Ends the owner's pass, if it passes a fork. */
void lm_biased_left(void);
/* Releases the lock for the owner. */
LM_INLINE void lm_biased_leave(lm_biased_t *lock) {
    /* Release: a thread that finds the owner gone sees what the owner wrote. */
    lm_store_release(&lock->inside, 0);
    /* Relaxed: an owner that has passed sees what the fork wrote before that. */
    if (LM_UNLIKELY(lm_load_relaxed(&lock->asked) != 0)) lm_biased_left();
}

/* Other threads ask, for any number of locks, and settle once for all of them. An owner that
 * lm_biased_outside then finds outside stays outside until lm_biased_let. */
LM_INLINE void lm_biased_ask(lm_biased_t *lock) {
    /* Sequentially consistent: as in lm_biased_enter. */
    __atomic_store_n(&lock->asked, 1, __ATOMIC_SEQ_CST);
}
/* Runs the barrier that orders lm_biased_ask before lm_biased_outside. */
void lm_biased_settle(void);
/* Returns whether the owner is outside. Call it after lm_biased_settle. */
LM_INLINE bool lm_biased_outside(const lm_biased_t *lock) {
    /* Sequentially consistent: as in lm_biased_enter. */
    return __atomic_load_n(&lock->inside, __ATOMIC_SEQ_CST) == 0;
}
/* Returns whether the owner waits to be let in. */
LM_INLINE bool lm_biased_wanted(const lm_biased_t *lock) {
    /* Relaxed: a guess, because the owner may begin to wait at any time. */
    return lm_load_relaxed(&lock->asked) == 2;
}
/* Waits until the owner is outside. lm_biased_ask and lm_biased_settle must come before. */
void lm_biased_wait(lm_biased_t *lock);
/* As lm_biased_wait, but waits at most until the time `until` of lm_os_ms. Returns whether the
 * owner is outside. */
bool lm_biased_wait_until(lm_biased_t *lock, uint64_t until);
/* Lets the owner in again, and wakes it if it waits. */
void lm_biased_let(lm_biased_t *lock);

/* Asks the system for the barrier. Call it before the program has a second thread. */
void lm_biased_boot(void);

/* Ends the use of the barrier: the program is about to forbid itself the system call. */
void lm_biased_forbid(void);

#endif
