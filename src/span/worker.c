/* worker.c: when the thread that purges starts, what it does each tick, and how it is sent away.
 *
 *   poke      a thread that has freed much, or that others must collect for, starts a worker
 *   work      each tick: collect from threads that sleep, purge what is old enough; end when nothing is left
 *   pause     a call that wants no worker counts itself in lm_space.stop, wakes the worker and waits for its end
 *   resume    the last of such calls starts a worker if the former one was not done
 *
 * Signal handlers may pause and resume, whatever they have interrupted: POSIX allows setuid there.
 * So neither takes a lock that an interrupted malloc may hold. The lock `starting` is held with all
 * signals blocked, so that no handler interrupts its holder. The worker waits for lm_space.lock
 * only while it may go on; then it ends where it is. While it collects, it waits for lm_space.lock
 * and for the locks of the layer above in any case. If the thread that pauses may hold such a lock,
 * which shows by the worker waiting without any progress for PATIENCE_MS, pause returns and the
 * worker ends as soon as it gets the lock.
 *
 * A copy of the process made without fork's handlers (clone, _Fork) has no worker, and may have
 * copied one in the middle of its work. While the program has one thread, the worker therefore
 * changes free spans and nothing else, and repair.c can restore these. Decision 0029.
 *
 * A filter of system calls (seccomp) may kill a thread that starts another one. A program that sets
 * one by libc is seen by override/doors.c. Otherwise a thread that wants a worker asks the kernel,
 * and so does the worker at each tick, because a filter may come to all threads at once. After that
 * there is no worker any more. Decision 0031.
 *
 * Invariant: a worker exists only between the start under `starting` and the kernel's clearing of
 * its thread number, and none is started while lm_space.stop is not 0.
 */
#include "span/room.h"

enum {
    START_SLICES = 8,  /* dirty slices that are worth a worker: 512 KiB */
    LINGER_TICKS = 20, /* how long the worker waits for threads that are about to sleep */
    AWAIT_MS = 10,     /* how often a pause looks whether the worker makes progress */
    PATIENCE_MS = 200, /* without progress, after which a pause goes on */
};

bool (*lm_purge_collect_alone)(bool last);

/* ---- The worker's own side ---- */

LM_ENDS_WORKER void lm_worker_leave(void) {
    if (!lm_os_worker_self()) return;
    lm_store_relaxed(&lm_space.unfinished, true); /* relaxed: read after the worker's end */
    /* Sequentially consistent: a thread that finds the worker on has been seen by it, or finds it
     * ended. */
    __atomic_store_n(&lm_space.worker, LM_WORKER_OFF, __ATOMIC_SEQ_CST);
    LM_PROBE(worker_stop);
    lm_os_worker_exit();
}

/* Relaxed: a look that misses a stop is followed by the next. */
static bool must_stop(void) { return lm_load_relaxed(&lm_space.stop) != 0; }

/* Asks the layer above to collect. Returns whether some thread had something but did not sleep. */
static bool collect(bool hurry) {
    if (lm_purge_collect_idle == NULL) return false;
    /* While the program has one thread, nothing is changed that a copy of the process could not
     * repair. */
    if (lm_purge_collect_alone != NULL && lm_purge_alone()) return lm_purge_collect_alone(hurry);
    /* Sequentially consistent: fork takes no locks as long as it does not see this. */
    __atomic_store_n(&lm_space.many, true, __ATOMIC_SEQ_CST);
    lm_store_release(&lm_space.collecting, true); /* release: set before any lock is taken */
    bool awake = lm_purge_collect_idle(hurry);
    lm_store_release(&lm_space.collecting, false); /* release: cleared after the last was given */
    return awake;
}

/* Returns whether the program has shut itself in, and loam was not told. From then on loam asks the
 * system for as little as if it had been. May run in the worker, and in signal handlers. */
static bool is_shut_in(void) {
    if (LM_LIKELY(!lm_os_filtered())) return false;
    lm_store_relaxed(&lm_space.worker_forbidden, true); /* relaxed: as in lm_purge_allowed */
    lm_biased_forbid();
    lm_ask_forbid(true);
    return true;
}

/* There will be no other worker, so that what is dirty goes back now. */
static void leave_for_good(void) {
    lm_space_enter();
    if (!lm_load_relaxed(&lm_purge_never)) { /* relaxed: a word by itself */
        while (lm_purge_one(0, SIZE_MAX) > 0) {}
        (void)lm_tails_purge(0, SIZE_MAX);
    }
    lm_space_leave();
    lm_worker_leave();
}

static void work(void) {
    bool more = true;
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
        bool awake = collect(last || lm_limit_pressure() == LM_PRESSURE_HIGH);
        lm_space_enter();
        bool dirty = lm_purge_tick();
        if (dirty) lingered = 0;
        bool sent_away = must_stop();
        if (sent_away) lm_store_relaxed(&lm_space.unfinished, true); /* relaxed: as above */
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
    /* Sequentially consistent: as in collect. */
    return lm_os_single_thread() && !__atomic_load_n(&lm_space.many, __ATOMIC_SEQ_CST);
}

/* ---- Start ---- */

/* Returns whether this process may have a worker. A copy of a process becomes one that may. In a
 * vfork child, whose threads end when it calls exec, and in a copy of a process that never had a
 * worker, which looks the same, memory is purged by the thread that frees it. */
static bool is_ours(void) {
    if (lm_os_worker_lost()) lm_space_repair();
    unsigned process = lm_load_relaxed(&lm_space.process); /* relaxed: a word by itself */
    bool ours = process == 0 || process == lm_os_process();
    if (lm_load_relaxed(&lm_space.elsewhere) == ours) lm_store_relaxed(&lm_space.elsewhere, !ours);
    return ours;
}

static bool is_on(void) {
    return __atomic_load_n(&lm_space.worker, __ATOMIC_SEQ_CST) == LM_WORKER_ON &&
           lm_os_worker_running();
}

bool lm_purge_allowed(void) {
    /* Relaxed: a thread that forbids the worker waits until it has ended. */
    return lm_load_relaxed(&lm_purge_policy.worker) && !lm_load_relaxed(&lm_space.worker_forbidden);
}

bool lm_purge_may_work(void) {
    return lm_purge_allowed() && !lm_load_relaxed(&lm_space.worker_missing); /* relaxed: as above */
}

/* Returns whether this call makes no attempt, because the last ones failed: the system gives no
 * thread (RLIMIT_NPROC, a control group's pids.max). lm_space.starting is held. */
static bool skipped(void) {
    if (lm_space.worker_skips == 0) return false;
    lm_space.worker_skips--;
    return true;
}

/* After a failure the next attempt waits for 1 call of lm_purge_poke, then 2, 4, up to 1024: an
 * attempt takes about as long as a purge of a small span. lm_space.starting is held, or the worker
 * is forbidden. */
static void attempted(bool started) {
    uint32_t failures = started ? 0 : lm_space.worker_failures + 1;
    lm_space.worker_failures = failures;
    lm_space.worker_skips = failures == 0 ? 0 : 1u << (failures < 11 ? failures - 1 : 10);
    lm_store_relaxed(&lm_space.worker_missing, !started); /* relaxed: as in lm_purge_allowed */
}

/* Where the caller's signal handler has interrupted the lock's holder, the next free purges. */
static void purge_here(void) {
    if (!lm_lock_try(&lm_space.lock)) return;
    lm_purge_inline();
    lm_lock_give(&lm_space.lock);
}

/* Waits for a worker that is leaving. false iff it stays: it has seen that somebody called. */
static bool last_has_left(void) {
    while (!lm_os_worker_await(AWAIT_MS)) {
        if (is_on()) return false;
    }
    lm_os_worker_join();
    return true;
}

/* No lock held, or the calling thread is in a signal handler. */
static void start(void) {
    /* In a handler of the program's before fork, the locks are passed through, and none is held. */
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
    if (failed) purge_here(); /* no other thread will, and this may be the last free */
}

void lm_purge_poke(bool idle) {
    /* Relaxed: a guess; what it misses, the next free sees. */
    size_t dirty = lm_space_loose();
    bool few = dirty < START_SLICES && (dirty == 0 || lm_limit_pressure() != LM_PRESSURE_HIGH);
    if (!idle && (few || lm_load_relaxed(&lm_purge_never))) return;
    /* What sleeping and ended threads have is collected once for each call: see work. The worker
     * clears the flag before it collects. So a flag that is set already is as good as one that is
     * set now, and saves a write to a line that all threads read. */
    if (idle && !__atomic_load_n(&lm_space.called, __ATOMIC_SEQ_CST))
        __atomic_store_n(&lm_space.called, true, __ATOMIC_SEQ_CST);
    /* A program that has shut itself in may not ask for the number of its process. */
    if (!lm_purge_allowed() || is_on()) return;
    bool asks = lm_ask_begin(), may = asks && !is_shut_in() && is_ours();
    if (may) start();
    if (asks) lm_ask_end();
    if (!may && !few) purge_here();
}

void lm_purge_boot(void) {
    lm_store_relaxed(&lm_space.process, lm_os_process()); /* relaxed: before the first worker */
    lm_os_filters_boot();
    lm_lock_repair = lm_space_repair;
}

/* ---- Pause ---- */

/* Calls of this thread among those that lm_space.stop counts: in a copy of the process, which other
 * threads do not reach, these are all. */
static LM_TLS unsigned paused_here;

/* Waits until no worker is there or about to be. lm_space.stop is not 0. */
static void wait_for_end(void) {
    for (uint32_t word; (word = lm_load_acquire(&lm_space.starting.word)) != 0;)
        lm_os_wait(&lm_space.starting.word, word, 1);
    unsigned patience = PATIENCE_MS / AWAIT_MS;
    uint32_t before = 0;
    while (!lm_os_worker_await(AWAIT_MS)) {
        lm_os_wake(&lm_space.stop); /* it may have looked before and slept after */
        uint32_t waits = lm_load_relaxed(&lm_lock_worker_waits); /* relaxed: a hint */
        bool stuck = waits % 2 == 1 && waits == before;
        before = waits;
        if (!stuck) patience = PATIENCE_MS / AWAIT_MS;
        if (stuck && --patience == 0) return;
    }
    lm_os_worker_join();
}

void lm_purge_pause(void) {
    /* A vfork child, or a copy of a process, has no worker. A program that has shut itself in has
     * none either, and may not ask for its number. Relaxed, both: words by themselves. */
    unsigned process = lm_load_relaxed(&lm_space.process);
    if (lm_load_relaxed(&lm_space.worker_forbidden) || (process != 0 && process != lm_os_process()))
        return;
    paused_here++;
    /* Sequentially consistent: a thread that starts a worker sees this, or is seen to be starting
     * one. */
    (void)__atomic_fetch_add(&lm_space.stop, 1, __ATOMIC_SEQ_CST);
    lm_os_wake(&lm_space.stop);
    wait_for_end();
}

/* Starts a worker if the former one was not done. Relaxed, both: it has ended. */
static void poke_again(void) {
    lm_purge_poke(lm_load_relaxed(&lm_space.called) || lm_load_relaxed(&lm_space.unfinished));
}

void lm_purge_resume(void) {
    if (paused_here == 0) return; /* the pause had nothing to do */
    paused_here--;
    if (__atomic_sub_fetch(&lm_space.stop, 1, __ATOMIC_SEQ_CST) > 0) return;
    poke_again();
}

void lm_purge_after_fork(void) {
    lm_store_relaxed(&lm_space.worker, LM_WORKER_OFF);
    lm_store_relaxed(&lm_space.stop, paused_here);
    lm_store_relaxed(&lm_space.collecting, false);
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
 * has the worker, and changes its own rights alone. */
static bool is_borrowed(void) {
    unsigned process = lm_load_relaxed(&lm_space.process); /* relaxed: a word by itself */
    return process != 0 && process != lm_os_process() && !lm_os_worker_lost() &&
           lm_os_shares_memory(process);
}

void lm_purge_allow(bool allowed) {
    if (!lm_load_relaxed(&lm_space.worker_forbidden) && is_borrowed())
        return; /* relaxed: as above */
    lm_purge_pause();
    lm_store_relaxed(&lm_space.worker_forbidden, !allowed);
    attempted(true); /* the next one is to be made at once */
    if (!allowed) {
        collect_in_its_place(); /* what came after the worker's last round */
        lm_biased_forbid();
    }
    lm_os_message_shut_in(!allowed);
    lm_ask_forbid(!allowed);
    if (!allowed) lm_ask_await();
    /* No other thread will. Relaxed: as above. */
    if (!allowed && !lm_load_relaxed(&lm_purge_never)) (void)lm_purge_all();
    lm_purge_resume();
    if (allowed) poke_again();
}

void lm_purge_shut_in(void) {
    /* Relaxed: a word by itself. A second filter must not make us ask for what the first
     * forbids. */
    if (!lm_load_relaxed(&lm_space.worker_forbidden)) lm_purge_allow(false);
}

void lm_purge_changed(void) {
    if (!lm_load_relaxed(&lm_purge_policy.worker)) {
        lm_purge_pause(); /* it may not, from now on */
        if (lm_load_relaxed(&lm_space.unfinished)) collect_in_its_place();
        lm_purge_resume();
    }
    lm_purge_poke(false);
}
