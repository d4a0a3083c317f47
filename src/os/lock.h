/* lock.h: the two kinds of locks, and how a fork holds them; part of os.h, which includes it.
 *
 *   lm_lock_t     a word. Choose it where every user is as likely as another
 *   lm_biased_t   the owner enters by a plain store. Choose it where one thread is nearly always
 *                 the user
 *
 * A thread that forks stops all others: it holds every lock until the fork is done. While it
 * waits for a lock of libc or of the program meanwhile, another thread that holds that lock may
 * come to allocate. Such a thread passes: it goes on as if it held the locks that the fork holds,
 * and no more than one thread passes at a time. So no thread waits for a fork that waits for that
 * thread (decision 0038, tests/protocol/fork.pml). In the child, the locks tell what a thread was
 * passing at the moment of the copy.
 *
 * Neither kind is recursive, fair, or lends its holder a waiter's priority (decision 0033).
 */
#ifndef LM_OS_LOCK_H
#define LM_OS_LOCK_H

#include "base/base.h"

void lm_os_wake(uint32_t *word);

/* ---- Fork (fork.c) ---- */

/* Atomic. 0: no fork holds the locks. The forking thread's token: a fork holds them, and no
 * thread passes. A token | LM_FORK_BUSY: that thread passes, which may be the forking one. */
extern LM_HIDDEN uintptr_t lm_fork_owner;
enum { LM_FORK_BUSY = 1 };

/* How long a fork waits for locks, in milliseconds. Then it stops no thread, and the child makes
 * the best of what it finds. Only a thread that is itself stopped while it holds a lock can keep
 * a fork waiting so long. */
enum { LM_FORK_PATIENCE_MS = 10000 };

/* Returns whether the calling thread may go on as if it held a lock that the fork holds; then
 * lm_fork_passed must follow where it gives that lock. Always true for the forking thread, unless
 * another one passes at this moment. For other threads only if the forking thread sleeps; turns:
 * how many milliseconds this one has waited. */
bool lm_fork_pass(unsigned turns);
void lm_fork_passed(void);

/* Returns whether the calling thread passes at this moment. */
LM_INLINE bool lm_fork_passes(void) {
    /* Relaxed: no thread but this one writes this value. */
    return lm_load_relaxed(&lm_fork_owner) == (lm_thread_token() | LM_FORK_BUSY);
}

/* Returns whether the calling thread is forking, or passes. */
bool lm_fork_here(void);

/* For the thread that has taken all locks: other threads may pass from now on. tid: the calling
 * thread's number, for lm_os_thread_state; 0 if the system must not be asked. */
void lm_fork_begin(unsigned tid);

/* In the parent. Returns whether the calling thread has begun a fork that is done now, after it
 * has waited for a thread that passes. */
bool lm_fork_end(void);

/* In the parent, for a lock that is given before lm_fork_end: the handlers of a program may come in
 * any order. Returns whether the calling thread forks and threads could pass. None does any more
 * then, until lm_fork_resume. */
bool lm_fork_pause(void);
void lm_fork_resume(void);

/* What the forking thread had reached when the process was copied. */
typedef enum lm_fork_kind {
    LM_FORK_STOPPED, /* all other threads were stopped */
    LM_FORK_PASSED,  /* all but one, which was passing */
    LM_FORK_TORN     /* none */
} lm_fork_kind_t;

/* In the child, first of all. */
lm_fork_kind_t lm_fork_child(void);

/* Returns whether the calling thread is inside a fork already, which a signal handler of its own
 * interrupts with another. If so, lm_fork_end or lm_fork_child must follow. */
bool lm_fork_again(void);

/* ---- Locks (thread.c) ---- */

/* A lock of one word: 0 if it is free. Otherwise bits of the holder's token, and: */
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

/* Odd while the worker waits for a lock, and another number at each wait. Atomic. */
extern LM_HIDDEN uint32_t lm_lock_worker_waits;

/* Set by the span layer. Called where a thread finds a lock taken in a copy of a process that had
 * a worker (lm_os_worker_lost): frees the locks that the worker had taken there. May be called in
 * signal handlers. */
extern LM_HIDDEN void (*lm_lock_repair)(void);

void lm_lock_take_contended(lm_lock_t *lock);
void lm_lock_give_contended(lm_lock_t *lock);

/* What the calling thread writes as a holder. Two threads whose control blocks lie a multiple of
 * 4 GiB apart write the same. Then a fork by one that meets a lock of the other stops no thread. */
LM_INLINE uint32_t lm_lock_holder(void) { return (uint32_t)lm_thread_token() | LM_LOCK_HELD; }

/* Returns whether the calling thread holds it: below a signal handler, it cannot be waited for. */
LM_INLINE bool lm_lock_is_mine(const lm_lock_t *lock) {
    /* Relaxed: no thread but this one writes this value. */
    return (lm_load_relaxed(&lock->word) & ~(uint32_t)LM_LOCK_FLAGS) == lm_lock_holder();
}

LM_INLINE void lm_lock_take(lm_lock_t *lock) {
    uint32_t expected = 0;
    /* Acquire: what the last holder wrote is visible here. */
    if (LM_LIKELY(lm_cas_acquire(&lock->word, &expected, lm_lock_holder()))) return;
    lm_lock_take_contended(lock);
}

/* false iff somebody holds it. */
LM_INLINE bool lm_lock_try(lm_lock_t *lock) {
    uint32_t expected = 0;
    return lm_cas_acquire(&lock->word, &expected, lm_lock_holder());
}

/* For the worker: as lm_lock_try, and the word says that the worker is the holder, so that a copy
 * of the process can tell. */
LM_INLINE bool lm_lock_try_as_worker(lm_lock_t *lock) {
    uint32_t expected = 0;
    return lm_cas_acquire(&lock->word, &expected, lm_lock_holder() | LM_LOCK_WORKER);
}

/* For the worker: waits until it has the lock in that way. */
void lm_lock_take_as_worker(lm_lock_t *lock);

/* Returns whether the worker has taken the lock. */
LM_INLINE bool lm_lock_of_worker(const lm_lock_t *lock) {
    /* Relaxed: a word by itself. */
    return (lm_load_relaxed(&lock->word) & (LM_LOCK_WORKER | LM_LOCK_FORK)) == LM_LOCK_WORKER;
}

LM_INLINE void lm_lock_give(lm_lock_t *lock) {
    /* Relaxed: a thread that passes has written its own token there, and no other need know. */
    if (LM_UNLIKELY(lm_load_relaxed(&lm_fork_owner) != 0)) {
        lm_lock_give_contended(lock);
        return;
    }
    /* Release: what this holder wrote is visible to the next. */
    if (LM_UNLIKELY(__atomic_exchange_n(&lock->word, 0, __ATOMIC_RELEASE) & LM_LOCK_WAITED))
        lm_os_wake(&lock->word);
}

/* Takes the lock for a fork, and waits until the time `until` of lm_os_ms at most. Returns false
 * if that has come, or if the calling thread holds the lock. */
bool lm_lock_hold(lm_lock_t *lock, uint64_t until);

/* In the parent: gives the lock if the calling thread took it in that way. */
void lm_lock_let(lm_lock_t *lock);

/* After a fork in the child: the lock is free whatever it was. */
LM_INLINE void lm_lock_reset(lm_lock_t *lock) { lock->word = 0; }

/* After a fork in the child: frees the lock, unless the calling thread had taken it below a
 * signal handler that forked. Returns whether another thread was inside: what the lock protects
 * may be half changed. */
LM_INLINE bool lm_lock_break(lm_lock_t *lock) {
    uint32_t word = lock->word;
    bool mine = lm_lock_is_mine(lock);
    if (word == 0 || (mine && !(word & LM_LOCK_FORK))) return false;
    lm_lock_reset(lock);
    return !mine || (word & LM_LOCK_PASSED) != 0;
}

/* ---- Biased locks (thread.c) ---- */

/* A lock for what one thread, the owner, uses all the time, and others hardly ever. The owner
 * enters by a plain store: an atomic exchange would first wait until all that it has written has
 * left its processor, cache misses included, which was half the time of a slow path. The others
 * ask, let a barrier run on every processor of the process, and then look whether the owner is
 * inside (asymmetric Dekker locking, after Dice, Huang and Yang, "Asymmetric Dekker
 * synchronization", 2001). Among themselves they need a lock. */
typedef struct lm_biased {
    uint32_t inside; /* atomic: the owner is */
    uint32_t asked;  /* atomic: 0 no, 1 somebody else is or wants to be inside, 2 the owner waits */
} lm_biased_t;

/* Owners must order by themselves: the system has no barrier for others. */
extern LM_HIDDEN bool lm_biased_fenced;

void lm_biased_enter_contended(lm_biased_t *lock);

/* For the owner, these two. */
LM_INLINE void lm_biased_enter(lm_biased_t *lock) {
    lm_store_relaxed(&lock->inside, 1); /* the barrier of who asks makes it visible */
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    /* After the store, not before: who misses that barriers have ended has the last one after its
     * store. */
    if (LM_UNLIKELY(lm_load_relaxed(&lm_biased_fenced))) {
        /* Sequentially consistent: a thread that asks before the next load sees this, or is
         * seen by it. */
        (void)__atomic_exchange_n(&lock->inside, 1, __ATOMIC_SEQ_CST);
    }
    /* As above; and acquire: what who was inside wrote is visible here. */
    if (LM_UNLIKELY(__atomic_load_n(&lock->asked, __ATOMIC_SEQ_CST) != 0))
        lm_biased_enter_contended(lock);
}
void lm_biased_left(void);
LM_INLINE void lm_biased_leave(lm_biased_t *lock) {
    lm_store_release(&lock->inside, 0); /* release: what we wrote is visible to who finds us gone */
    /* Relaxed: an owner that has passed finds what the fork wrote before that. */
    if (LM_UNLIKELY(lm_load_relaxed(&lock->asked) != 0)) lm_biased_left();
}

/* For others: ask, for any number of locks; settle, once for all of them; then an owner who is
 * not inside stays outside until let in again. */
LM_INLINE void lm_biased_ask(lm_biased_t *lock) {
    __atomic_store_n(&lock->asked, 1, __ATOMIC_SEQ_CST); /* as in lm_biased_enter */
}
void lm_biased_settle(void);
LM_INLINE bool lm_biased_outside(const lm_biased_t *lock) {
    return __atomic_load_n(&lock->inside, __ATOMIC_SEQ_CST) == 0; /* as in lm_biased_enter */
}
/* Whether the owner waits to be let in. */
LM_INLINE bool lm_biased_wanted(const lm_biased_t *lock) {
    return lm_load_relaxed(&lock->asked) == 2; /* a guess: it may come to wait at any time */
}
/* Waits until the owner is outside; asked and settled. */
void lm_biased_wait(lm_biased_t *lock);
/* Waits until the time `until` of lm_os_ms at most. Returns whether the owner is outside. */
bool lm_biased_wait_until(lm_biased_t *lock, uint64_t until);
void lm_biased_let(lm_biased_t *lock);

/* Before the first thread: asks the system for the barrier. */
void lm_biased_boot(void);

/* The program is about to forbid itself the call that the barrier needs. */
void lm_biased_forbid(void);

#endif
