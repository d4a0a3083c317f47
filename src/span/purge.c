/* purge.c: dirty memory goes back to the system, later, in bulk, and never in free().
 *
 * A dirty span waits for the purge delay: a program that takes again what it has just freed must not
 * pay for the page faults. Who then gives it back, if the program sleeps? A worker: a thread of loam's
 * own that is started once half a megabyte is dirty, looks twenty times a second, purges what is old enough, and
 * ends when nothing is left. It is no thread of libc's, blocks all signals, lives about half a second
 * after the last large free, and is gone before any call of the program whose result depends on being
 * the only thread (override/doors.c).
 *
 *   give -> dirty, stamped -> [tick .. tick + delay] -> busy: madvise without the lock -> clean
 *
 * A program that works in bursts takes soon what was just purged, and pays for it in page faults. Then spans
 * wait twice as long, until a purge is not regretted again.
 *
 * Near a limit of the process's or of its control group's, spans wait shorter, or not at all (limit.c).
 *
 * Where memory is in groups (secure builds), what one has freed is of no use to another: when one takes clean memory
 * and much is dirty, the worker is woken at once (group.c).
 *
 * By option nothing is purged (lm_purge_never), unless it is asked for: for programs that end soon.
 *
 * Where no worker may be, or the system gives no thread, a thread that frees purges everything once the
 * dirty exceeds 4 MiB and an eighth of what is in use. In the second case it tries to start a worker again
 * after a growing number of frees. The worker runs on a tiny stack without thread-local storage: nothing that
 * it calls may use any.
 */
#include "span/room.h"

enum {
    START_SLICES = 8, /* dirty slices that are worth a worker: 512 KiB */
    TICK_MOST_MS = 50,
    TICK_LEAST_MS = 10,
    LINGER_TICKS = 20,  /* how long the worker waits for threads that are about to sleep */
    INLINE_SLICES = 64, /* without a worker: dirty slices that are always allowed, 4 MiB */
};

lm_purge_policy_t lm_purge_policy = {.delay_ms = 300, .worker = true};
LM_AT_START bool lm_purge_never;
LM_AT_START bool (*lm_purge_collect_idle)(bool last);

/* Relaxed, here and for the rest of the policy: words by themselves, which count from the next look on. */
static uint32_t delay_ms(void) {
    static const uint32_t part[] = {[LM_PRESSURE_NONE] = 1, [LM_PRESSURE_SOME] = 4};
    lm_pressure_t pressure = lm_limit_pressure();
    return pressure == LM_PRESSURE_HIGH
               ? 0
               : lm_load_relaxed(&lm_purge_policy.delay_ms) / part[pressure];
}
static bool never(void) { return lm_load_relaxed(&lm_purge_never); }

static uint32_t tick_ms(void) {
    uint32_t ms = delay_ms() / 4;
    return ms > TICK_MOST_MS ? TICK_MOST_MS : ms < TICK_LEAST_MS ? TICK_LEAST_MS : ms;
}

/* Whether most of what was purged lately had to be taken anew soon after. */
static bool regretted(void) {
    return lm_space.retaken_lately > 0 && 2 * lm_space.retaken_lately >= lm_space.purged_lately;
}

uint32_t lm_purge_ticks(void) {
    uint32_t ms = regretted() ? 2 * delay_ms() : delay_ms(), tick = tick_ms();
    return (ms + tick - 1) / tick;
}

uint32_t lm_purge_ticks_rested(void) {
    uint32_t ticks = lm_purge_ticks();
    return regretted() ? 0 : ticks;
}

void lm_purge_retaken(size_t slices) {
    size_t left = lm_space.purged_lately - lm_space.retaken_lately;
    lm_space.retaken_lately += slices < left ? slices : left;
}

/* The older ones count less each time, so that a program that has changed its ways is seen to. */
static void remember(size_t slices) {
    if (slices == 0) return;
    lm_space.retaken_lately -= (lm_space.retaken_lately + 7) / 8;
    lm_space.purged_lately -= lm_space.purged_lately / 8;
    lm_space.purged_lately += slices;
}

void lm_space_rest(void) {
    for (unsigned turn = 0; lm_space.busy > 0; turn++) {
        lm_lock_give(&lm_space.lock);
        lm_os_nap(turn);
        lm_lock_take(&lm_space.lock);
    }
}

/* For the next tick, which counts how long threads rest: a hurry meanwhile makes none. */
static void wait_for_tick(void) {
#if LM_SECURE
    for (uint64_t now = lm_os_ms(), tick = now + tick_ms(); now < tick; now = lm_os_ms()) {
        lm_os_wait(&lm_space.stop, 0, (uint32_t)(tick - now));
        if (!lm_load_relaxed(&lm_space.hurry.asked)) return;
        lm_lock_take(&lm_space.lock);
        remember(lm_group_purge());
        lm_lock_give(&lm_space.lock);
    }
#else
    lm_os_wait(&lm_space.stop, 0, tick_ms());
#endif
}

static void work(void) {
    bool more = true;
    LM_PROBE(worker_start);
    lm_lock_take(&lm_space.lock);
    lm_space.retry_turn = lm_space.turn + 1; /* no turns were counted while there was no worker */
    lm_lock_give(&lm_space.lock);
    for (unsigned lingered = 0; more; lingered++) {
        wait_for_tick();
        /* Not only once it has decided to end: then it must not wait for locks any more. */
        bool last = lm_load_relaxed(&lm_space.stop) != 0 || lingered >= LINGER_TICKS;
        /* Sequentially consistent, here and below: who calls later is seen below, or sees that we end. */
        __atomic_store_n(&lm_space.called, false, __ATOMIC_SEQ_CST);
        lm_limit_tick();
        bool hurry = last || lm_limit_pressure() == LM_PRESSURE_HIGH;
        bool awake = lm_purge_collect_idle != NULL && lm_purge_collect_idle(hurry);
        lm_lock_take(&lm_space.lock);
        lm_space.tick++;
        if (!never() && lm_space.refused_slices > 0) lm_refused_turn();
        uint32_t ticks = lm_purge_ticks();
        size_t purged = 0, part = 1;
        while (lm_space.stop == 0 && part > 0 && !never()) purged += part = lm_purge_one(ticks);
        remember(purged);
        /* What was refused keeps no worker: there may be no end of it. */
        bool dirty = lm_space_loose() > 0 && !never();
        if (dirty) lingered = 0;
        more = lm_space.stop != 0 ? !last : dirty || (awake && lingered < LINGER_TICKS);
        if (!more) LM_PROBE(worker_stop);
        if (!more) __atomic_store_n(&lm_space.worker, LM_WORKER_OFF, __ATOMIC_SEQ_CST);
        if (!more && lm_space.stop == 0 && __atomic_load_n(&lm_space.called, __ATOMIC_SEQ_CST)) {
            lm_store_relaxed(&lm_space.worker, LM_WORKER_ON);
            more = true;
        }
        lm_lock_give(&lm_space.lock);
    }
}

LM_INLINE bool allowed(void) {
    /* Relaxed: a thread that forbids the worker waits until it has ended. */
    return lm_load_relaxed(&lm_purge_policy.worker) && !lm_load_relaxed(&lm_space.worker_forbidden);
}

bool lm_purge_allowed(void) { return allowed(); }

LM_INLINE bool may_work(void) {
    return allowed() && !lm_load_relaxed(&lm_space.worker_missing); /* relaxed: as in allowed */
}

/* Whether a worker may be started now; lock held. */
static bool wanted(void) {
    if (!allowed() || lm_space.paused > 0 || lm_space.worker == LM_WORKER_STARTING) return false;
    /* On, but not running: it ended with the other half of a vfork. */
    if (lm_space.worker == LM_WORKER_ON && lm_os_worker_running()) return false;
    /* A vfork child shares our memory, but its threads end when it calls exec. */
    return lm_space.process == 0 || lm_space.process == lm_os_process();
}

/* ---- Where the system gives no thread (RLIMIT_NPROC, a control group's pids.max): lock held ---- */

/* Whether this call makes no attempt, because the last ones failed. */
static bool skipped(void) {
    if (lm_space.worker_skips == 0) return false;
    lm_space.worker_skips--;
    return true;
}

/* After a failure the next attempt waits for 1 call of lm_purge_poke, then 2, 4, up to SKIPS_MOST:
 * an attempt takes about as long as a purge of a small span. */
static void attempted(bool started) {
    uint32_t failures = started ? 0 : lm_space.worker_failures + 1;
    lm_space.worker_failures = failures;
    lm_space.worker_skips = failures == 0 ? 0 : 1u << (failures < 11 ? failures - 1 : 10);
    lm_store_relaxed(&lm_space.worker_missing, !started); /* relaxed: as in allowed */
}

void lm_purge_poke(bool idle) {
    /* Relaxed: a guess; what it misses, the next free sees. */
    size_t dirty = lm_space_loose();
    bool few = dirty < START_SLICES && (dirty == 0 || lm_limit_pressure() != LM_PRESSURE_HIGH);
    if (!idle && (few || never())) return;
    /* What sleeping and ended threads have is asked for once: see work. */
    if (idle) __atomic_store_n(&lm_space.called, true, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&lm_space.worker, __ATOMIC_SEQ_CST) == LM_WORKER_ON &&
        lm_os_worker_running())
        return;
    lm_lock_take(&lm_space.lock);
    bool start = wanted() && !skipped();
    uint32_t ticket = start ? ++lm_space.starts : 0;
    if (start) lm_store_relaxed(&lm_space.worker, LM_WORKER_STARTING);
    lm_lock_give(&lm_space.lock);
    if (!start) return;
    lm_os_worker_join(); /* the last one may be leaving */
    bool started = lm_os_worker_start(work);
    lm_lock_take(&lm_space.lock);
    attempted(started);
    /* It may have ended already, and said so, and somebody may be starting the next. */
    if (lm_space.worker == LM_WORKER_STARTING && lm_space.starts == ticket) {
        lm_store_relaxed(&lm_space.worker, started ? LM_WORKER_ON : LM_WORKER_OFF);
    }
    if (!started) lm_purge_inline(); /* no other thread will, and this may be the last free */
    lm_lock_give(&lm_space.lock);
}

void lm_purge_boot(void) { lm_space.process = lm_os_process(); }

bool lm_purge_may_work(void) { return may_work(); }

void lm_purge_inline(void) {
    if (may_work() || never()) return;
    if (LM_UNLIKELY(lm_space.refused_slices > 0)) lm_refused_turn();
    size_t most = lm_limit_pressure() == LM_PRESSURE_HIGH ? 0 : INLINE_SLICES + lm_space_used() / 8;
    if (lm_space_loose() <= most) return;
    while (lm_purge_one(0) > 0) {}
}

size_t lm_purge_all(void) {
    size_t slices = 0, part;
    lm_lock_take(&lm_space.lock);
    lm_refused_retry(); /* the program asks for it, perhaps because it has unlocked memory */
    while ((part = lm_purge_one(0)) > 0) slices += part;
    slices += lm_range_purge();
    lm_space_rest(); /* what others are purging is back when we return */
    lm_lock_give(&lm_space.lock);
    return slices << LM_SLICE_SHIFT;
}

/* What this thread has of lm_space.paused: in the child of a fork, which other threads do not reach, it is all. */
static LM_TLS unsigned paused_here;

void lm_purge_pause(void) {
    lm_lock_take(&lm_space.lock);
    lm_space.paused++;
    paused_here++;
    lm_store_relaxed(&lm_space.stop, 1);
    for (unsigned turn = 0; lm_space.worker == LM_WORKER_STARTING; turn++) { /* soon it runs */
        lm_lock_give(&lm_space.lock);
        lm_os_nap(turn);
        lm_lock_take(&lm_space.lock);
    }
    lm_lock_give(&lm_space.lock);
    lm_os_wake(&lm_space.stop);
    lm_os_worker_join();
}

void lm_purge_resume(void) {
    lm_lock_take(&lm_space.lock);
    paused_here--;
    if (--lm_space.paused == 0) lm_store_relaxed(&lm_space.stop, 0);
    lm_lock_give(&lm_space.lock);
    lm_purge_poke(lm_load_relaxed(&lm_space.called)); /* relaxed: who calls now is not paused */
}

void lm_purge_after_fork(void) {
    lm_space.worker = LM_WORKER_OFF;
    lm_space.paused = paused_here;
    lm_store_relaxed(&lm_space.stop, paused_here > 0);
    if (allowed()) lm_purge_boot();
    lm_os_worker_forget();
}

void lm_purge_allow(bool permitted) {
    lm_purge_pause();
    lm_store_relaxed(&lm_space.worker_forbidden, !permitted);
    lm_lock_take(&lm_space.lock);
    attempted(true); /* the next one is to be made at once */
    lm_lock_give(&lm_space.lock);
    if (!permitted) {
        /* What came after the worker's last round. */
        if (lm_purge_collect_idle != NULL) (void)lm_purge_collect_idle(true);
        lm_biased_forbid();
        if (!never()) (void)lm_purge_all(); /* nobody else will */
    }
    lm_os_message_shut_in(!permitted);
    lm_purge_resume();
}

void lm_purge_changed(void) {
    if (!lm_load_relaxed(&lm_purge_policy.worker)) {
        lm_purge_pause(); /* it may not, from now on */
        lm_purge_resume();
    }
    lm_purge_poke(false);
}
