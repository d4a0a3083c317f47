/* thread.c: the slow paths of locks, and hooks for the end of threads.
 *
 * The lock is a futex mutex (Drepper, "Futexes are tricky", 2011) whose word names the holder. A
 * thread spins a little, because loam's critical sections are short, and then sleeps. The lock is
 * neither fair nor recursive. A thread may pass a lock that a fork holds (fork.c). The lock does
 * not lend a waiter's priority to the holder (decision 0033): if a thread of middle priority
 * interrupts a holder of low priority, a waiter of high priority waits for both. Invariant:
 * LM_LOCK_WAITED is set in the word whenever a thread sleeps on it.
 */
#define _GNU_SOURCE 1
#include "os/os.h"

#include <limits.h>
#include <pthread.h>

enum { OS_THREAD_SPINS = 200, WAITS = 4 /* ms */, YIELDS = 20, LOOK_AGAIN = 100 /* ms */ };

/* glibc's, since 2.32. */
extern char __libc_single_threaded __attribute__((weak));

bool lm_os_single_thread(void) {
    const volatile char *single = &__libc_single_threaded;
    return single != NULL && *single != 0;
}

uint32_t lm_lock_worker_waits;
void (*lm_lock_repair)(void);

/* Frees the locks that the worker of the copied process had taken, if this process is such a
 * copy. */
static void repair(void) {
    if (LM_UNLIKELY(lm_os_worker_lost()) && lm_lock_repair != NULL) lm_lock_repair();
}

void lm_lock_take_contended(lm_lock_t *lock) {
    uint32_t holder = lm_lock_holder();
    bool worker = lm_os_worker_self();
    unsigned turns = 0; /* number of waits for a fork */
    repair();
    for (int i = 0; i < OS_THREAD_SPINS; i++) {
        uint32_t seen = lm_load_relaxed(&lock->word);
        /* Acquire: see what the last holder wrote. */
        if (seen == 0 && lm_cas_acquire(&lock->word, &seen, holder)) return;
        /* Other threads sleep, or a fork holds the lock: the wait will be longer. */
        if (seen & (LM_LOCK_WAITED | LM_LOCK_FORK)) break;
        lm_cpu_relax();
    }
    if (worker) (void)lm_add_relaxed(&lm_lock_worker_waits, 1u); /* relaxed: a hint */
    for (;;) {
        uint32_t seen = lm_load_relaxed(&lock->word);
        if (seen == 0) {
            /* Acquire: see what the last holder wrote. WAITED, because this thread cannot know
             * whether others sleep. */
            if (lm_cas_acquire(&lock->word, &seen, holder | LM_LOCK_WAITED)) break;
            continue;
        }
        bool forks = (seen & LM_LOCK_FORK) != 0;
        if (forks && !worker && lm_fork_pass(turns++)) {
            /* Relaxed: the fork releases no lock while this thread passes, but it may have done so
             * before. */
            if (!(lm_load_relaxed(&lock->word) & LM_LOCK_FORK)) {
                lm_fork_passed();
                continue;
            }
            /* Relaxed: only a copy of the process reads it, and the copy sees this thread's writes
             * in program order. */
            (void)__atomic_fetch_or(&lock->word, LM_LOCK_PASSED, __ATOMIC_RELAXED);
            return;
        }
        /* Relaxed: the kernel compares the word again. */
        if (!(seen & LM_LOCK_WAITED) &&
            !lm_cas_weak_relaxed(&lock->word, &seen, seen | LM_LOCK_WAITED))
            continue;
        lm_os_wait(&lock->word, seen | LM_LOCK_WAITED, forks ? 1 : LOOK_AGAIN);
        repair(); /* a signal handler may have copied the process during the wait */
    }
    if (worker) (void)lm_add_relaxed(&lm_lock_worker_waits, 1u);
}

void lm_lock_take_as_worker(lm_lock_t *lock) {
    LM_ASSERT(lm_os_worker_self());
    if (lm_lock_try_as_worker(lock)) return;
    (void)lm_add_relaxed(&lm_lock_worker_waits, 1u); /* relaxed: a hint */
    /* The worker does not sleep on the lock: it would consume the wake-up of a thread of the
     * program. */
    for (uint32_t never = 0; !lm_lock_try_as_worker(lock);) lm_os_wait(&never, 0, 1);
    (void)lm_add_relaxed(&lm_lock_worker_waits, 1u);
}

static void os_thread_give(lm_lock_t *lock) {
    /* Release: the next holder sees what this holder wrote. */
    if (__atomic_exchange_n(&lock->word, 0, __ATOMIC_RELEASE) & LM_LOCK_WAITED)
        lm_os_wake(&lock->word);
}

void lm_lock_give_contended(lm_lock_t *lock) {
    /* Relaxed: while a fork holds the lock, no thread can have taken it, so this one has passed
     * it. */
    if (lm_load_relaxed(&lock->word) & LM_LOCK_FORK) {
        /* Release: clears the flag after this thread's changes. */
        (void)__atomic_fetch_and(&lock->word, ~(uint32_t)LM_LOCK_PASSED, __ATOMIC_RELEASE);
        lm_fork_passed();
    } else {
        os_thread_give(lock);
    }
}

bool lm_lock_hold(lm_lock_t *lock, uint64_t until) {
    LM_ASSERT(!lm_os_worker_self()); /* it never forks */
    for (;;) {
        uint32_t seen = lm_load_relaxed(&lock->word);
        if (seen == 0) {
            /* Acquire: see what the last holder wrote. WAITED, because this thread cannot know
             * whether others sleep. */
            if (lm_cas_acquire(&lock->word, &seen,
                               lm_lock_holder() | LM_LOCK_FORK | LM_LOCK_WAITED))
                return true;
            continue;
        }
        if (lm_lock_is_mine(lock) || lm_os_ms() >= until) return false;
        if (!(seen & LM_LOCK_WAITED) &&
            !lm_cas_weak_relaxed(&lock->word, &seen, seen | LM_LOCK_WAITED))
            continue;
        lm_os_wait(&lock->word, seen | LM_LOCK_WAITED, 10);
    }
}

void lm_lock_let(lm_lock_t *lock) {
    /* Relaxed: only this thread writes this value. */
    if (!lm_lock_is_mine(lock) || (lm_load_relaxed(&lock->word) & LM_LOCK_FORK) == 0) return;
    bool paused = lm_fork_pause(); /* a passing thread would not find the lock held again */
    os_thread_give(lock);
    if (paused) lm_fork_resume();
}

/* Yields the processor. Returns false without yielding if the system must not be asked. */
static bool yield(void) {
    if (!lm_ask_begin()) return false;
    lm_os_yield();
    lm_ask_end();
    return true;
}

void lm_os_nap(unsigned turn) {
    uint32_t never = 0;
    if (turn >= YIELDS || !yield()) lm_os_wait(&never, 0, 1);
}

/* ---- Biased locks ---- */

bool lm_biased_fenced = true; /* true until the barrier is prepared */
static LM_AT_START bool barrier_works, os_thread_forbidden;

void lm_biased_enter_contended(lm_biased_t *lock) {
    unsigned turns = 0; /* number of waits for a fork */
    repair();
    do {
        /* Release: the thread that asked sees what this thread wrote. */
        lm_store_release(&lock->inside, 0);
        /* Acquire: see what the thread that was inside wrote. It stays briefly, and wakes this
         * thread. */
        for (uint32_t asked; (asked = lm_load_acquire(&lock->asked)) != 0;) {
            /* Relaxed: a fork that holds the locks asks every owner, and no other thread asks
             * meanwhile. */
            LM_ASSERT(asked <= 2);
            bool forks = lm_load_relaxed(&lm_fork_owner) != 0;
            if (forks && lm_fork_pass(turns++)) {
                lm_store_relaxed(&lock->inside, 1);
                return;
            }
            if (asked == 2 || lm_cas_acquire(&lock->asked, &asked, 2))
                lm_os_wait(&lock->asked, 2, forks ? 1 : LOOK_AGAIN);
            repair(); /* a signal handler may have copied the process during the wait */
        }
        /* Sequentially consistent: a thread that asks before the next load sees this store, or this
         * thread sees its request. */
        (void)__atomic_exchange_n(&lock->inside, 1, __ATOMIC_SEQ_CST);
    } while (__atomic_load_n(&lock->asked, __ATOMIC_SEQ_CST) != 0);
}

/* Ends the use of barriers: from now on owners order their accesses by fences. An owner that has
 * not seen this yet has stored before that it is inside, and the last barrier makes the store
 * visible. If the system refuses a barrier, or may kill the program for it (filtered), waiting has
 * to do: a store becomes visible within microseconds, though no processor promises when. */
static void end_barriers(bool filtered) {
    uint32_t never = 0;
    lm_store_relaxed(&lm_biased_fenced, true);
    for (int i = 0; i < WAITS && (filtered || !lm_os_barrier()); i++) lm_os_wait(&never, 0, 1);
    lm_store_release(&barrier_works, false); /* release: after the stores above are visible */
}

void lm_biased_settle(void) {
    /* Acquire: the next loads are not older than the last barrier. */
    if (!lm_load_acquire(&barrier_works)) return;
    bool asks = lm_ask_begin(), filtered = !asks || lm_os_filtered();
    if (filtered || !lm_os_barrier()) end_barriers(filtered);
    if (asks) lm_ask_end();
}

void lm_biased_wait(lm_biased_t *lock) {
    for (int i = 0; i < OS_THREAD_SPINS && !lm_biased_outside(lock) && yield(); i++) {}
    /* No thread wakes this one, because owners do not look for waiters. It sleeps instead of
     * yielding without end, because the owner may have a lower priority. */
    while (!lm_biased_outside(lock)) lm_os_wait(&lock->inside, 1, 1);
}

bool lm_biased_wait_until(lm_biased_t *lock, uint64_t until) {
    for (unsigned turn = 0; !lm_biased_outside(lock); turn++) {
        if (turn % 16 == 15 && lm_os_ms() >= until) return false;
        lm_os_nap(turn);
    }
    return true;
}

void lm_biased_left(void) {
    if (lm_fork_passes()) lm_fork_passed();
}

void lm_biased_let(lm_biased_t *lock) {
    if (LM_UNLIKELY(lm_fork_passes())) return; /* the fork still holds the lock */
    /* Release: an owner that is inside sees what this thread wrote. */
    if (__atomic_exchange_n(&lock->asked, 0, __ATOMIC_RELEASE) == 2) lm_os_wake(&lock->asked);
}

void lm_biased_boot(void) {
    /* The sanitizer does not understand barriers. */
    if (LM_TSAN || lm_load_relaxed(&os_thread_forbidden)) return;
    barrier_works = lm_os_barrier_prepare();
    lm_store_relaxed(&lm_biased_fenced, !barrier_works);
}

void lm_biased_forbid(void) {
    lm_store_relaxed(&os_thread_forbidden, true);
    /* Acquire: the next loads are not older than the last barrier. */
    if (lm_load_acquire(&barrier_works)) end_barriers(lm_os_filtered());
}

/* ---- Thread exit ---- */

/* The system calls a destructor with the value alone, so each hook has a key and a function of its
 * own. The first call that names its function takes a slot, which is never released. */
enum { HOOKS = 8 };

typedef struct exit_hook {
    pthread_key_t key;
    bool made;
    bool (*run)(void *, unsigned);
} exit_hook_t;

/* In libloam.a only: the destructors below may be in a module that its program closes. The
 * reference links linux_module.c. */
#if LM_PINNED
void lm_module_pin(void);
void (*const lm_thread_pinned_by)(void) = lm_module_pin;
#endif

static LM_AT_START exit_hook_t hooks[HOOKS];
static LM_AT_START lm_lock_t hook_lock;

/* POSIX runs destructors in rounds while any key has a value. A hook asks for another round by
 * setting its value again. */
static void hook_run(const exit_hook_t *hook, void *value) {
    LM_ASSERT(lm_load_relaxed(&hook->made) && value != NULL);
    /* ThreadSanitizer ends its record of the thread in the last round, and must not see the thread
     * after that. */
    unsigned most = PTHREAD_DESTRUCTOR_ITERATIONS - LM_TSAN;
    if (hook->run(value, most)) (void)pthread_setspecific(hook->key, value);
}

static void hook_ended_0(void *value) { hook_run(&hooks[0], value); }
static void hook_ended_1(void *value) { hook_run(&hooks[1], value); }
static void hook_ended_2(void *value) { hook_run(&hooks[2], value); }
static void hook_ended_3(void *value) { hook_run(&hooks[3], value); }
static void hook_ended_4(void *value) { hook_run(&hooks[4], value); }
static void hook_ended_5(void *value) { hook_run(&hooks[5], value); }
static void hook_ended_6(void *value) { hook_run(&hooks[6], value); }
static void hook_ended_7(void *value) { hook_run(&hooks[7], value); }
static void (*const hook_ended[HOOKS])(void *) = {hook_ended_0, hook_ended_1, hook_ended_2,
                                                  hook_ended_3, hook_ended_4, hook_ended_5,
                                                  hook_ended_6, hook_ended_7};

/* Returns the hook of that function, or NULL iff it has none yet. */
static exit_hook_t *hook_find(bool (*at_exit)(void *, unsigned)) {
    for (int i = 0; i < HOOKS; i++) {
        /* Acquire: key and run are readable once made is seen. Slots fill from the first on. */
        if (!lm_load_acquire(&hooks[i].made)) return NULL;
        if (hooks[i].run == at_exit) return &hooks[i];
    }
    return NULL;
}

/* Gives the slot to the key and the function. Returns false iff another call has taken it
 * meanwhile. */
static bool hook_take(exit_hook_t *hook, pthread_key_t key, bool (*at_exit)(void *, unsigned)) {
    lm_lock_take(&hook_lock);
    LM_ASSERT(hook == hooks || lm_load_relaxed(&hook[-1].made)); /* slots fill from the first on */
    bool vacant = !hook->made;
    if (vacant) {
        hook->key = key;
        hook->run = at_exit;
        lm_store_release(&hook->made, true); /* release: key and run are written */
    }
    lm_lock_give(&hook_lock);
    return vacant;
}

/* Returns the hook of that function, making it if needed; NULL iff no key or slot is left. The key
 * is made without a lock, because a preloaded tool may have wrapped pthread_key_create by a
 * function that allocates, and so comes back here. */
static exit_hook_t *hook_make(bool (*at_exit)(void *, unsigned)) {
    for (int i = 0; i < HOOKS; i++) {
        exit_hook_t *hook = &hooks[i];
        pthread_key_t key;
        /* Acquire: see key and run. */
        if (!lm_load_acquire(&hook->made)) {
            if (pthread_key_create(&key, hook_ended[i]) != 0) return NULL;
            if (hook_take(hook, key, at_exit)) return hook;
            (void)pthread_key_delete(key);
        }
        if (hook->run == at_exit) return hook;
    }
    return NULL;
}

bool lm_thread_on_exit(bool (*at_exit)(void *, unsigned), void *value) {
    LM_ASSERT(at_exit != NULL && value != NULL);
    exit_hook_t *hook = hook_find(at_exit);
    if (hook == NULL) hook = hook_make(at_exit);
    return hook != NULL && pthread_setspecific(hook->key, value) == 0;
}
