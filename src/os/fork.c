/* fork.c: how a forking thread stops the others, and how they pass when it waits for them.
 *
 *   forking thread   takes all locks ──> lm_fork_begin ──> libc's part ──> lm_fork_end ──> gives
 *                                          owner = F         of fork         owner = 0
 *   other thread     finds a lock held by the fork, and the forking thread asleep:
 *                      owner: F ──> T | BUSY ── one call, through all locks ──> F
 *
 * glibc takes the locks of stdio and of its name services after the handlers of pthread_atfork, and
 * its functions allocate under these locks. So no order of locks keeps the forking thread from
 * waiting for a thread that waits for the heap. But the heap can be kept whole while the process is
 * copied: a passing thread changes it only while the forking thread sleeps in another call. If the
 * forking thread wakes up and copies the process in these few microseconds, the child finds in each
 * lock whether a thread has passed it (LM_LOCK_PASSED), and rebuilds what the lock protects
 * (heap/fork_torn.c). It does so in the heap's handler, or before, in the first call of an earlier
 * handler that finds a lock taken (lm_fork_repair).
 *
 * The port's locks (base/check.h) are here as well. No fork finds one of them held by another
 * thread: the child could never take it. The port has fork handlers of its own, because the heap,
 * whose handlers take WALK first of all locks, may not be linked. The second of these handlers that
 * takes WALK finds it taken. The forking thread passes through both.
 *
 * Invariant: lm_fork_owner is not 0 iff `forker` holds all locks, and is 0 while it releases one.
 * depth is the number of locks that the one thread with BUSY has passed. Model:
 * tests/protocol/fork.pml.
 */
#include "os/os.h"

#include <pthread.h>

LM_AT_START uintptr_t lm_fork_owner;
/* Atomic: the token of the thread that has begun a fork; 0: no thread has. */
static LM_AT_START uintptr_t forker;
/* The forking thread writes these before it sets lm_fork_owner, and while it is inside the fork.
 * forker_tid, forker_process: its number and that of its process; 0: the system must not be asked.
 * inner: forks begun by its own signal handlers. */
static uint32_t forker_tid, forker_process, inner;
/* Atomic: a thread has passed this fork, so others need not wait first. */
static bool waited;
static uint32_t depth; /* written by the thread with BUSY */

enum {
    /* Milliseconds that every thread waits for a fork, until one has passed. */
    TURNS_LEAST = 8,
    /* Milliseconds that a thread waits if the system does not tell what the forking thread does. */
    TURNS_UNKNOWN = 500,
};

/* ---- Passing ---- */

static bool forker_sleeps(unsigned turns) {
    if (turns < TURNS_LEAST && !lm_load_relaxed(&waited)) return false; /* relaxed: a hint */
    uint32_t tid = lm_load_relaxed(&forker_tid); /* relaxed: read after lm_fork_owner */
    lm_thread_state_t state = tid != 0 ? lm_os_thread_state(tid) : LM_THREAD_UNKNOWN;
    return state == LM_THREAD_UNKNOWN ? turns >= TURNS_UNKNOWN : state == LM_THREAD_WAITS;
}

void (*lm_fork_repair)(void);

/* Repairs the heap if the calling thread is in the child of its fork, and the thread that passed in
 * the parent is not there. */
static void repair_copy(void) {
    /* Relaxed: only this thread writes its own token, and then its process. */
    if (lm_load_relaxed(&forker) != lm_thread_token() || lm_fork_repair == NULL) return;
    unsigned parent = forker_process;
    if (parent == 0 || parent == lm_os_process() || lm_os_shares_memory(parent)) return;
    lm_fork_repair();
}

bool lm_fork_pass(unsigned turns) {
    uintptr_t self = lm_thread_token();
    /* Acquire: see what the forking thread and the last passing thread wrote. */
    uintptr_t owner = lm_load_acquire(&lm_fork_owner);
    if (owner == (self | LM_FORK_BUSY)) {
        depth++;
        return true;
    }
    if (owner & LM_FORK_BUSY) repair_copy();
    if (owner == 0 || (owner & LM_FORK_BUSY)) return false;
    if (owner != self && !forker_sleeps(turns)) return false;
    if (!lm_cas_acquire(&lm_fork_owner, &owner, self | LM_FORK_BUSY)) return false;
    LM_ASSERT(depth == 0);
    depth = 1;
    if (owner != self) lm_store_relaxed(&waited, true);
    return true;
}

void lm_fork_passed(void) {
    LM_ASSERT(lm_fork_passes() && depth > 0);
    if (--depth > 0) return;
    /* Release: publish this thread's changes. The relaxed load of forker suffices, because forker
     * cannot change meanwhile. */
    lm_store_release(&lm_fork_owner, lm_load_relaxed(&forker));
}

bool lm_fork_here(void) {
    /* Relaxed: only this thread writes its own token. */
    return lm_fork_passes() || lm_load_relaxed(&forker) == lm_thread_token();
}

/* ---- The forking thread ---- */

void lm_fork_begin(unsigned tid) {
    LM_ASSERT(lm_load_relaxed(&lm_fork_owner) == 0 && lm_load_relaxed(&forker) == 0);
    LM_ASSERT(inner == 0);
    lm_store_relaxed(&forker_tid, tid);
    forker_process = tid != 0 ? lm_os_process() : 0;
    lm_store_relaxed(&waited, false);
    lm_store_relaxed(&forker, lm_thread_token());
    lm_store_release(&lm_fork_owner, lm_thread_token()); /* release: publish the stores above */
}

bool lm_fork_again(void) {
    /* Relaxed: only this thread writes its own token. */
    if (lm_load_relaxed(&forker) != lm_thread_token()) return false;
    inner++;
    return true;
}

/* Waits until no thread passes, and then lets no other pass. */
static void stop_passing(void) {
    uintptr_t self = lm_thread_token(), owner = self;
    /* Acquire: see what a passing thread changed. */
    for (unsigned turn = 0; !lm_cas_acquire(&lm_fork_owner, &owner, 0); owner = self)
        lm_os_nap(turn++);
}

bool lm_fork_pause(void) {
    uintptr_t self = lm_thread_token();
    /* Relaxed: only this thread writes its own token. */
    if (lm_load_relaxed(&forker) != self || lm_fork_passes()) return false;
    stop_passing();
    return true;
}

void lm_fork_resume(void) {
    LM_ASSERT(lm_load_relaxed(&lm_fork_owner) == 0);
    LM_ASSERT(lm_load_relaxed(&forker) == lm_thread_token());
    /* Release: publish what this thread has changed. */
    lm_store_release(&lm_fork_owner, lm_thread_token());
}

bool lm_fork_end(void) {
    uintptr_t self = lm_thread_token();
    /* Relaxed: only this thread writes its own token. */
    if (lm_load_relaxed(&forker) != self) return false;
    if (inner > 0) {
        inner--;
        return false;
    }
    stop_passing();
    LM_ASSERT(depth == 0);
    lm_store_relaxed(&forker, 0);
    return true;
}

lm_fork_kind_t lm_fork_child(void) {
    uintptr_t self = lm_thread_token();
    lm_fork_kind_t kind = forker != self          ? LM_FORK_TORN
                          : lm_fork_owner == self ? LM_FORK_STOPPED
                                                  : LM_FORK_PASSED;
    if (forker == self && inner > 0) {
        inner--; /* the child is below the fork that the handler interrupted */
        /* The repair frees the locks that a thread, perhaps this one, was passing. */
        if (lm_fork_owner != 0) lm_fork_owner = self;
        depth = 0;
        return LM_FORK_TORN;
    }
    forker = lm_fork_owner = 0;
    inner = depth = 0;
    return kind;
}

/* ---- Handlers ---- */

void lm_thread_on_fork(void (*before)(void), void (*parent)(void), void (*child)(void)) {
    /* pthread_atfork fails only if there is no memory for the entry. Then fork works only in
     * programs of one thread. */
    (void)pthread_atfork(before, parent, child);
}

/* ---- The port's locks (base/check.h) ---- */

static lm_lock_t port_locks[LM_PORT_LOCKS];
/* Atomic: for each lock, the token of the thread inside fork() that holds it; 0: none. */
static uintptr_t port_forkers[LM_PORT_LOCKS];
/* Atomic: the fork handlers are registered, or cannot be. */
static bool port_watched;

static bool port_forks(lm_port_lock_t lock) {
    LM_ASSERT((unsigned)lock < LM_PORT_LOCKS);
    return lm_load_relaxed(&port_forkers[lock]) == lm_thread_token();
}

/* Takes the lock for a fork. Returns false iff a signal handler forks whose thread holds the lock.
 * Waits without limit, because a thread in WALK may be in the program's own code. */
static bool port_hold(lm_port_lock_t lock) {
    if (port_forks(lock)) return true;
    if (!lm_lock_hold(&port_locks[lock], UINT64_MAX)) return false;
    /* Relaxed: no other thread looks for this thread's token. */
    lm_store_relaxed(&port_forkers[lock], lm_thread_token());
    return true;
}

static void port_let(lm_port_lock_t lock, bool child) {
    if (!port_forks(lock)) {
        if (child) (void)lm_lock_break(&port_locks[lock]);
        return;
    }
    LM_ASSERT(lm_lock_of_fork(&port_locks[lock]));
    lm_store_relaxed(&port_forkers[lock], 0);
    if (child)
        lm_lock_reset(&port_locks[lock]);
    else
        lm_lock_let(&port_locks[lock]);
}

bool lm_port_before_fork(void) { return port_hold(LM_PORT_WALK); }
void lm_port_after_fork(bool child) {
    port_let(LM_PORT_WALK, child);
    if (child) lm_told_after_fork();
    if (child) lm_os_message_after_fork();
}

static void port_before_fork(void) {
    if (port_hold(LM_PORT_WALK)) (void)port_hold(LM_PORT_LIST);
}
static void port_parent(void) {
    port_let(LM_PORT_LIST, false);
    port_let(LM_PORT_WALK, false);
}
static void port_child(void) {
    port_let(LM_PORT_LIST, true);
    port_let(LM_PORT_WALK, true);
    lm_told_after_fork();
    lm_os_message_after_fork();
}

/* Relaxed: a thread that sees it set needs nothing that was written before. The exchange decides
 * between two threads that do not see it set. */
void lm_port_watch(void) {
    if (LM_LIKELY(lm_load_relaxed(&port_watched))) return;
    /* No lock is held: libc has its own lock there, which fork holds while it runs our handlers. */
    if (!__atomic_exchange_n(&port_watched, true, __ATOMIC_RELAXED))
        lm_thread_on_fork(port_before_fork, port_parent, port_child);
}

void lm_port_lock(lm_port_lock_t lock) {
    if (port_forks(lock)) return;
    lm_port_watch();
    lm_lock_take(&port_locks[lock]);
    if (lock == LM_PORT_WALK) lm_told_hold();
}

void lm_port_unlock(lm_port_lock_t lock) {
    if (port_forks(lock)) return;
    lm_lock_give(&port_locks[lock]);
    if (lock == LM_PORT_WALK) lm_told_let();
}
