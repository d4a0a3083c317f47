/* worker.c: when the thread that purges starts, what it does each tick, and how it is sent away.
 *
 *   poke      a thread that has freed much, or for which others must collect, starts a worker
 *   work      each tick: collect from threads that sleep, purge what is old enough; end when
 *             nothing is left
 *   pause     a call that wants no worker counts itself in lm_space.stop, wakes the worker and
 *             waits for its end
 *   resume    the last of these calls starts a worker if the former one was not done
 *
 * Signal handlers may pause and resume, whatever they have interrupted: POSIX allows setuid there.
 * So pause and resume take no lock that an interrupted malloc may hold. The lock `starting` is held
 * with all signals blocked, so no handler interrupts its holder. The worker waits for lm_space.lock
 * only until it must stop; then it ends where it is. While it collects, it always waits for
 * lm_space.lock and for the locks of the layer above. If the thread that pauses may hold such a
 * lock, the worker waits without any progress. After PATIENCE_MS of that, pause returns, and the
 * worker ends as soon as it gets the lock.
 *
 * A copy of the process made without fork's handlers (clone, _Fork) has no worker, and may have
 * copied one in the middle of its work. So while the program has one thread, the worker changes
 * only free spans, which repair.c can restore. Decision 0029.
 *
 * A filter of system calls (seccomp) may kill a thread that starts another one. override/doors.c
 * sees a program that sets a filter through libc. Otherwise a thread that wants a worker asks the
 * kernel, and so does the worker at each tick, because a filter may apply to all threads at once.
 * Once a filter is seen, there is no worker any more. Decision 0031.
 *
 * Invariant: a worker exists only between its start under `starting` and the kernel's clearing of
 * its thread number, and none is started while lm_space.stop is not 0.
 */
#include "span/internal.h"

enum {
    START_SLICES = 8,         /* dirty slices that are worth a worker: 512 KiB */
    LINGER_TICKS = 20,        /* ticks that the worker waits for threads that are about to sleep */
    AWAIT_MS = 10,            /* interval at which a pause checks the worker's progress */
    WORKER_PATIENCE_MS = 200, /* time without progress after which a pause returns */
};

bool (*lm_purge_collect_alone)(bool last);

/* ---- The worker's own side ---- */

LM_ENDS_WORKER void lm_worker_leave(void) {
    if (!lm_os_worker_self()) return;
    /* The worker may leave while it waits to collect. Relaxed: it holds no lock, and a thread that
     * starts the next worker has seen this one end. */
    lm_store_relaxed(&lm_space.collecting, false);
    lm_store_relaxed(&lm_space.collecting_alone, false);
    lm_store_relaxed(&lm_space.unfinished, true); /* relaxed: read after the worker's end */
    /* Sequentially consistent: a thread that finds the worker on has been seen by it, or finds it
     * ended. */
    __atomic_store_n(&lm_space.worker, LM_WORKER_OFF, __ATOMIC_SEQ_CST);
    LM_PROBE(worker_stop);
    lm_os_worker_exit();
}

/* Returns whether the worker must stop. Relaxed: a look that misses a stop is followed by
 * another. */
static bool must_stop(void) { return lm_load_relaxed(&lm_space.stop) != 0; }

/* Asks the layer above to collect. Returns whether some thread had something but did not sleep. */
static bool worker_collect(bool hurry) {
    if (lm_purge_collect_idle == NULL) return false;
    /* While the program has one thread, the worker changes nothing that a copy of the process could
     * not repair. */
    if (lm_purge_collect_alone != NULL && lm_purge_alone()) {
        /* Relaxed: a thread that misses a span which the worker took out under a lock, or by an
         * exchange, has seen what the worker wrote before. */
        lm_store_relaxed(&lm_space.collecting_alone, true);
        bool more = lm_purge_collect_alone(hurry);
        /* Release: the spans are back. */
        lm_store_release(&lm_space.collecting_alone, false);
        return more;
    }
    /* Sequentially consistent: fork takes no locks as long as it does not see this. */
    __atomic_store_n(&lm_space.many, true, __ATOMIC_SEQ_CST);
    lm_store_release(&lm_space.collecting, true); /* release: set before any lock is taken */
    bool awake = lm_purge_collect_idle(hurry);
    /* Release: cleared after the last lock is released. */
    lm_store_release(&lm_space.collecting, false);
    return awake;
}

/* Returns whether the program has shut itself in without loam being told. If so, loam asks the
 * system for as little as if it had been told. May run in the worker, and in signal handlers. */
static bool is_shut_in(void) {
    if (LM_LIKELY(!lm_os_filtered())) return false;
    /* Relaxed: see lm_purge_allowed. */
    lm_store_relaxed(&lm_space.worker_forbidden, true);
    lm_biased_forbid();
    lm_ask_forbid(true);
    return true;
}

/* Purges everything and ends the worker: there will be no other worker. */
static void leave_for_good(void) {
    lm_space_enter();
    if (!lm_load_relaxed(&lm_purge_never)) { /* relaxed: an independent word */
        while (lm_purge_one(0, SIZE_MAX) > 0) {}
        (void)lm_tails_purge(0, SIZE_MAX);
    }
    lm_space_leave();
    lm_worker_leave();
}

static void work(void) {
    bool more = true;
    LM_ASSERT(!lm_space.collecting && !lm_space.collecting_alone && !lm_space.worker_inside);
    LM_PROBE(worker_start);
    lm_space_enter();
    lm_space_take_hand();
    lm_space.retry_turn = lm_space.turn + 1; /* no turns were counted while there was no worker */
    lm_space_leave();
    for (unsigned lingered = 0; more; lingered++) {
        lm_os_wait(&lm_space.stop, 0, lm_purge_tick_ms());
        if (must_stop()) lm_worker_leave();
        if (is_shut_in()) leave_for_good();
        bool last = lingered >= LINGER_TICKS;
        /* Sequentially consistent, here and below: a later call is seen below, or sees that the
         * worker ends. */
        __atomic_store_n(&lm_space.called, false, __ATOMIC_SEQ_CST);
        lm_limit_tick();
        bool awake = worker_collect(last || lm_limit_pressure() == LM_PRESSURE_HIGH);
        lm_space_enter();
        bool dirty = lm_purge_tick();
        if (dirty) lingered = 0;
        bool sent_away = must_stop();
        /* Relaxed: read after the worker's end. */
        if (sent_away) lm_store_relaxed(&lm_space.unfinished, true);
        more = !sent_away && (dirty || (awake && lingered < LINGER_TICKS));
        if (!more) LM_PROBE(worker_stop);
        if (!more) __atomic_store_n(&lm_space.worker, LM_WORKER_OFF, __ATOMIC_SEQ_CST);
        if (!more && !sent_away && __atomic_load_n(&lm_space.called, __ATOMIC_SEQ_CST)) {
            lm_store_relaxed(&lm_space.worker, LM_WORKER_ON);
            more = true;
        }
        lm_space_leave();
    }
}

void lm_purge_stop_here(void) {
    if (must_stop()) lm_worker_leave();
}

bool lm_purge_alone(void) {
    /* Sequentially consistent: see collect. */
    return lm_os_single_thread() && !__atomic_load_n(&lm_space.many, __ATOMIC_SEQ_CST);
}

/* ---- Start ---- */

/* Returns whether this process may have a worker. A copy of a process that had a worker may have
 * one from here on. A vfork child may not, because its threads end when it calls exec; nor may a
 * copy of a process that never had a worker, which looks the same. In both, the thread that frees
 * memory purges it. */
static bool worker_is_ours(void) {
    if (lm_os_worker_lost()) lm_space_repair();
    unsigned process = lm_load_relaxed(&lm_space.process); /* relaxed: an independent word */
    bool ours = process == 0 || process == lm_os_process();
    if (lm_load_relaxed(&lm_space.elsewhere) == ours) lm_store_relaxed(&lm_space.elsewhere, !ours);
    return ours;
}

static bool is_on(void) {
    return __atomic_load_n(&lm_space.worker, __ATOMIC_SEQ_CST) == LM_WORKER_ON &&
           lm_os_worker_running();
}

bool lm_purge_allowed(void) {
    /* Relaxed: a thread that forbids the worker waits until the worker has ended. */
    return lm_load_relaxed(&lm_purge_policy.worker) && !lm_load_relaxed(&lm_space.worker_forbidden);
}

bool lm_purge_may_work(void) {
    /* Relaxed: see lm_purge_allowed. */
    return lm_purge_allowed() && !lm_load_relaxed(&lm_space.worker_missing);
}

/* Returns whether this call must make no attempt, because the last ones failed: the system gives no
 * thread (RLIMIT_NPROC, a control group's pids.max). lm_space.starting is held. */
static bool skipped(void) {
    if (lm_space.worker_skips == 0) return false;
    lm_space.worker_skips--;
    return true;
}

/* Notes the result of an attempt to start a worker. After a failure the next attempt waits for 1
 * call of lm_purge_poke, then 2, 4, up to 1024: an attempt takes about as long as a purge of a
 * small span. lm_space.starting is held, or the worker is forbidden. */
static void attempted(bool started) {
    uint32_t failures = started ? 0 : lm_space.worker_failures + 1;
    lm_space.worker_failures = failures;
    lm_space.worker_skips = failures == 0 ? 0 : 1u << (failures < 11 ? failures - 1 : 10);
    /* Relaxed: see lm_purge_allowed. */
    lm_store_relaxed(&lm_space.worker_missing, !started);
}

/* Purges in this thread. If the caller is a signal handler that has interrupted the lock's holder,
 * a later free purges instead. */
static void purge_here(void) {
    if (!lm_lock_try(&lm_space.lock)) return;
    lm_purge_inline();
    lm_lock_give(&lm_space.lock);
}

/* Waits for a worker that is leaving. Returns false iff it stays, because it has seen a call. */
static bool last_has_left(void) {
    while (!lm_os_worker_await(AWAIT_MS)) {
        if (is_on()) return false;
    }
    lm_os_worker_join();
    return true;
}

/* Starts a worker. The caller holds no lock, or is in a signal handler. */
static void worker_start(void) {
    /* In a handler that the program runs before fork, the locks are passed, and none is held. */
    if (must_stop() || lm_fork_here()) return;
    uint64_t mask = lm_os_signals_block();
    bool failed = false;
    lm_lock_take(&lm_space.starting);
    /* A pause that does not see the lock taken has counted itself before this fence. */
    lm_fence_seq_cst();
    if (lm_purge_allowed() && !must_stop() && !is_on() && !skipped() && last_has_left()) {
        lm_store_relaxed(&lm_space.unfinished, false); /* relaxed: there is no worker */
        __atomic_store_n(&lm_space.worker, LM_WORKER_ON, __ATOMIC_SEQ_CST);
        failed = !lm_os_worker_start(work);
        if (failed) __atomic_store_n(&lm_space.worker, LM_WORKER_OFF, __ATOMIC_SEQ_CST);
        attempted(!failed);
    }
    lm_lock_give(&lm_space.starting);
    lm_os_signals_restore(mask);
    /* No other thread will, and this may be the last free. */
    if (failed) purge_here();
}

void lm_purge_poke(bool idle) {
    /* Relaxed: a guess. A later free sees what it misses. */
    size_t dirty = lm_space_loose();
    bool few = dirty < START_SLICES && (dirty == 0 || lm_limit_pressure() != LM_PRESSURE_HIGH);
    if (!idle && (few || lm_load_relaxed(&lm_purge_never))) return;
    /* One call of this function causes one collection from sleeping and ended threads: see work.
     * The worker clears the flag before it collects. So a flag that is set already serves as well,
     * and not writing it spares a line that all threads read. */
    if (idle && !__atomic_load_n(&lm_space.called, __ATOMIC_SEQ_CST))
        __atomic_store_n(&lm_space.called, true, __ATOMIC_SEQ_CST);
    /* A program that has shut itself in may not ask for the number of its process. */
    if (!lm_purge_allowed() || is_on()) return;
    bool asks = lm_ask_begin(), may = asks && !is_shut_in() && worker_is_ours();
    if (may) worker_start();
    if (asks) lm_ask_end();
    if (!may && !few) purge_here();
}

void lm_purge_boot(void) {
    lm_store_relaxed(&lm_space.process, lm_os_process()); /* relaxed: before the first worker */
    lm_os_filters_boot();
    lm_lock_repair = lm_space_repair;
}

void lm_purge_await_alone(void) {
    if (lm_os_worker_self()) return;
    /* Acquire: the spans that the worker gave back are in the arena. */
    for (unsigned turn = 0; lm_load_acquire(&lm_space.collecting_alone); turn++) {
        if (turn >= WORKER_PATIENCE_MS || !lm_os_worker_running()) return;
        lm_os_nap(turn);
    }
}

/* ---- Pause ---- */

/* Number of this thread's pauses that lm_space.stop counts. In a copy of the process, which other
 * threads do not reach, these are all. */
static LM_TLS unsigned paused_here;

/* Ends a change of paused_here and of lm_space.stop. A signal handler may have forked between the
 * two. In the child lm_purge_after_fork has then set lm_space.stop from paused_here, and the second
 * half of the change comes on top of that; so this sets it again. process: lm_space.process before
 * the change. */
static void counted(unsigned process) {
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    /* Relaxed, both: the handler was in this thread. */
    if (lm_load_relaxed(&lm_space.process) != process && process != 0)
        lm_store_relaxed(&lm_space.stop, paused_here);
}

/* Waits until no worker exists or is about to start. lm_space.stop is not 0. */
static void wait_for_end(void) {
    for (uint32_t word; (word = lm_load_acquire(&lm_space.starting.word)) != 0;)
        lm_os_wait(&lm_space.starting.word, word, 1);
    unsigned patience = WORKER_PATIENCE_MS / AWAIT_MS;
    uint32_t before = 0;
    while (!lm_os_worker_await(AWAIT_MS)) {
        lm_os_wake(&lm_space.stop); /* it may have looked before the stop and slept after it */
        uint32_t waits = lm_load_relaxed(&lm_lock_worker_waits); /* relaxed: a hint */
        bool stuck = waits % 2 == 1 && waits == before;
        before = waits;
        if (!stuck) patience = WORKER_PATIENCE_MS / AWAIT_MS;
        if (stuck && --patience == 0) return;
    }
    lm_os_worker_join();
}

void lm_purge_pause(void) {
    /* A vfork child, or a copy of a process, has no worker. A program that has shut itself in has
     * none either, and may not ask for its number. Relaxed, both: independent words. */
    unsigned process = lm_load_relaxed(&lm_space.process);
    if (lm_load_relaxed(&lm_space.worker_forbidden) || (process != 0 && process != lm_os_process()))
        return;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    paused_here++;
    /* Sequentially consistent: a thread that starts a worker sees this, or this thread sees that it
     * is starting one. */
    (void)__atomic_fetch_add(&lm_space.stop, 1, __ATOMIC_SEQ_CST);
    counted(process);
    lm_os_wake(&lm_space.stop);
    wait_for_end();
}

/* Starts a worker if the former one was not done. Relaxed, both: the worker has ended. */
static void poke_again(void) {
    lm_purge_poke(lm_load_relaxed(&lm_space.called) || lm_load_relaxed(&lm_space.unfinished));
}

void lm_purge_resume(void) {
    if (paused_here == 0) return;                          /* that pause had nothing to do */
    unsigned process = lm_load_relaxed(&lm_space.process); /* relaxed: an independent word */
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    paused_here--;
    (void)__atomic_sub_fetch(&lm_space.stop, 1, __ATOMIC_SEQ_CST);
    counted(process);
    if (!must_stop()) poke_again();
}

void lm_purge_after_fork(void) {
    lm_store_relaxed(&lm_space.worker, LM_WORKER_OFF);
    lm_store_relaxed(&lm_space.worker_inside, false);
    lm_store_relaxed(&lm_space.stop, paused_here);
    lm_store_relaxed(&lm_space.collecting, false);
    lm_store_relaxed(&lm_space.collecting_alone, false);
    lm_store_relaxed(&lm_space.many, false);
    lm_store_relaxed(&lm_space.unfinished, true);
    lm_lock_reset(&lm_space.starting);
    lm_ask_after_fork();
    lm_store_relaxed(&lm_space.process, lm_os_process());
    lm_os_worker_forget();
}

/* ---- Policy ---- */

static void collect_in_its_place(void) {
    if (lm_purge_collect_idle != NULL) (void)lm_purge_collect_idle(true);
    /* Relaxed, both: there is no worker. */
    lm_store_relaxed(&lm_space.called, false);
    lm_store_relaxed(&lm_space.unfinished, false);
}

/* Returns whether the calling process is a vfork child, which shares the memory of the process that
 * has the worker, and changes only its own rights. */
static bool is_borrowed(void) {
    unsigned process = lm_load_relaxed(&lm_space.process); /* relaxed: an independent word */
    return process != 0 && process != lm_os_process() && !lm_os_worker_lost() &&
           lm_os_shares_memory(process);
}

void lm_purge_allow(bool allowed) {
    /* Relaxed: an independent word. */
    if (!lm_load_relaxed(&lm_space.worker_forbidden) && is_borrowed()) return;
    lm_purge_pause();
    lm_store_relaxed(&lm_space.worker_forbidden, !allowed);
    attempted(true); /* the next attempt is to be made at once */
    if (!allowed) {
        /* Collects what came after the worker's last round. */
        collect_in_its_place();
        lm_biased_forbid();
    }
    lm_os_message_shut_in(!allowed);
    lm_ask_forbid(!allowed);
    if (!allowed) lm_ask_await();
    /* No other thread will purge. Relaxed: an independent word. */
    if (!allowed && !lm_load_relaxed(&lm_purge_never)) (void)lm_purge_all();
    lm_purge_resume();
    if (allowed) poke_again();
}

void lm_purge_shut_in(void) {
    /* Relaxed: an independent word. After a second filter, loam must not ask for what the first one
     * forbids. */
    if (!lm_load_relaxed(&lm_space.worker_forbidden)) lm_purge_allow(false);
}

void lm_purge_changed(void) {
    if (!lm_load_relaxed(&lm_purge_policy.worker)) {
        lm_purge_pause(); /* no worker is allowed from now on */
        if (lm_load_relaxed(&lm_space.unfinished)) collect_in_its_place();
        lm_purge_resume();
    }
    lm_purge_poke(false);
}
