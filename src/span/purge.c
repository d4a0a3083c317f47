/* purge.c: returns dirty memory to the system later, in bulk, and never in free().
 *
 * A dirty span waits for the purge delay: a program that takes again what it has just freed must
 * not pay for the page faults. If the program sleeps, a worker gives the memory back. The worker is
 * a thread of loam's own. It is started once half a megabyte is dirty, looks twenty times a second,
 * purges what is old enough, and ends when nothing is left. libc does not know it. It blocks all
 * signals, lives about half a second after the last large free, and is gone before any call of the
 * program whose result depends on the program's being single-threaded (override/doors.c).
 *
 *   give -> dirty, stamped -> [tick .. tick + delay] -> busy: madvise without the lock -> clean
 *
 * A program that works in bursts soon takes again what was just purged, and pays for it in page
 * faults. In that case spans wait twice as long, until a purge is no longer regretted.
 *
 * Near a limit of the process or of its control group, spans wait less long, or not at all
 * (limit.c).
 *
 * In secure builds, memory that one group has freed is of no use to another. There a thread that
 * takes clean memory purges spans of other groups itself if too much would be resident (group.c).
 *
 * An option disables purges (lm_purge_never), except explicit ones: for programs that end soon.
 *
 * If a worker is forbidden, or the system gives no thread, a thread that frees purges everything
 * once the dirty memory exceeds 4 MiB plus an eighth of the memory in use. In the second case it
 * tries to start a worker again after a growing number of frees. The worker runs on a tiny stack
 * without thread-local storage, so no function that it calls may use any.
 */
#include "span/internal.h"

enum {
    TICK_MOST_MS = 50,
    TICK_LEAST_MS = 10,
    PURGE_SPINS = 100, /* tries of a lock before the worker sleeps */
    /* Without a worker: dirty slices that are always allowed, 4 MiB. */
    INLINE_SLICES = 64,
};

lm_purge_policy_t lm_purge_policy = {.delay_ms = 300, .worker = true};
LM_AT_START bool lm_purge_never;
LM_AT_START bool (*lm_purge_collect_idle)(bool last);

/* Relaxed, here and for the rest of the policy: independent words, which take effect at a later
 * look. */
static uint32_t delay_ms(void) {
    static const uint32_t part[] = {[LM_PRESSURE_NONE] = 1, [LM_PRESSURE_SOME] = 4};
    lm_pressure_t pressure = lm_limit_pressure();
    return pressure == LM_PRESSURE_HIGH
               ? 0
               : lm_load_relaxed(&lm_purge_policy.delay_ms) / part[pressure];
}
static bool never(void) { return lm_load_relaxed(&lm_purge_never); }

uint32_t lm_purge_tick_ms(void) {
    uint32_t ms = delay_ms() / 4;
    return ms > TICK_MOST_MS ? TICK_MOST_MS : ms < TICK_LEAST_MS ? TICK_LEAST_MS : ms;
}

/* Returns whether at least half of what was purged lately was taken anew soon after. */
static bool regretted(void) {
    return lm_space.retaken_lately > 0 && 2 * lm_space.retaken_lately >= lm_space.purged_lately;
}

uint32_t lm_purge_ticks(void) {
    uint32_t ms = regretted() ? 2 * delay_ms() : delay_ms(), tick = lm_purge_tick_ms();
    return (ms + tick - 1) / tick;
}

uint32_t lm_purge_ticks_rested(void) {
    uint32_t ticks = lm_purge_ticks();
    return regretted() ? 0 : ticks;
}

void lm_purge_retaken(size_t slices) {
    LM_ASSERT(lm_lock_held(&lm_space.lock));
    size_t left = lm_space.purged_lately - lm_space.retaken_lately;
    lm_space.retaken_lately += slices < left ? slices : left;
}

/* Older purges count less each time, so a change in the program's behaviour shows. */
void lm_purge_remember(size_t slices) {
    if (slices == 0) return;
    lm_space.retaken_lately -= (lm_space.retaken_lately + 7) / 8;
    lm_space.purged_lately -= lm_space.purged_lately / 8;
    lm_space.purged_lately += slices;
}

bool lm_purge_tick(void) {
    lm_space.tick++;
    if (!never() && lm_space.refused_slices > 0) lm_refused_turn();
    uint32_t ticks = lm_purge_ticks();
    size_t purged = 0, part = 1;
    /* Relaxed: a stop that is missed here is seen at the next span. */
    while (lm_load_relaxed(&lm_space.stop) == 0 && part > 0 && !never())
        purged += part = lm_purge_one(ticks, SIZE_MAX);
    lm_purge_remember(purged);
    if (!never()) (void)lm_tails_purge(ticks, SIZE_MAX);
    /* Refused memory keeps no worker alive: it may stay locked without end. Relaxed: an independent
     * word, read under the lock. */
    bool again = lm_space.refused_slices > 0 && lm_load_relaxed(&lm_space.unlocked);
    return (lm_space_due() > 0 || again) && !never();
}

/* ---- The lock, for functions that run in the worker as well ---- */

static void entered(void) {
    lm_store_relaxed(&lm_space.worker_inside, true);
    /* The writes that follow come after it: a copy of the process sees the worker's writes in their
     * order. */
    lm_fence_release();
}

void lm_space_enter(void) {
    /* The worker may hold locks of the heaps while it collects, and must not end with them.
     * Relaxed: only the worker writes it. */
    if (!lm_os_worker_self() || lm_load_relaxed(&lm_space.collecting)) {
        lm_space_enter_to_give();
        return;
    }
    for (unsigned spins = 0; !lm_lock_try_as_worker(&lm_space.lock); spins++) {
        /* Relaxed: a stop that is missed here is seen in the next round. */
        if (lm_load_relaxed(&lm_space.stop) != 0) lm_worker_leave();
        if (spins < PURGE_SPINS)
            lm_cpu_relax();
        else
            lm_os_wait(&lm_space.stop, 0, 1);
    }
    entered();
}

void lm_space_enter_to_give(void) {
    if (!lm_os_worker_self()) {
        lm_lock_take(&lm_space.lock);
        return;
    }
    lm_lock_take_as_worker(&lm_space.lock);
    entered();
}

void lm_space_leave(void) {
    /* Release: after all changes. */
    if (lm_os_worker_self()) lm_store_release(&lm_space.worker_inside, false);
    lm_lock_give(&lm_space.lock);
}

void lm_space_rest(void) {
    LM_ASSERT(lm_lock_held(&lm_space.lock));
    for (unsigned turn = 0; lm_space_busy() > 0; turn++) {
        /* The worker that purged it has been sent away. */
        if (lm_space.hand.slices != 0 && !lm_os_worker_running()) lm_space_take_hand();
        lm_lock_give(&lm_space.lock);
        lm_os_nap(turn);
        lm_lock_take(&lm_space.lock);
    }
}

void lm_purge_inline(void) {
    /* Relaxed: a guess. */
    bool worker = lm_purge_may_work() && !lm_load_relaxed(&lm_space.elsewhere);
    if ((worker && !lm_gone_near()) || never()) return;
    size_t most = lm_limit_pressure() == LM_PRESSURE_HIGH ? 0 : INLINE_SLICES + lm_space_used() / 8;
    if (LM_UNLIKELY(lm_space.refused_slices > 0)) {
        if (!worker) lm_refused_turn();
        most += lm_space.refused_slices; /* no purge gives these back */
    }
    if (lm_space.tails_listed > most) (void)lm_tails_purge(0, SIZE_MAX);
    if (lm_space.dirty_slices <= most) return;
    while (lm_purge_one(0, SIZE_MAX) > 0) {}
}

size_t lm_purge_some(size_t bytes) {
    size_t wanted = bytes / LM_SLICE_BYTES + (bytes % LM_SLICE_BYTES != 0), slices = 0, part, given;
    lm_lock_take(&lm_space.lock);
    while (slices < wanted && (part = lm_purge_one(0, wanted - slices)) > 0) slices += part;
    given = slices << LM_SLICE_SHIFT;
    if (given < bytes) given += lm_tails_purge(0, bytes - given);
    lm_lock_give(&lm_space.lock);
    return given;
}

size_t lm_purge_all(void) {
    size_t slices = 0, part, tails;
    lm_lock_take(&lm_space.lock);
    /* An explicit request, perhaps because the program has unlocked memory. */
    lm_refused_retry();
    while ((part = lm_purge_one(0, SIZE_MAX)) > 0) slices += part;
    tails = lm_tails_purge(0, SIZE_MAX);
    slices += lm_range_purge();
    /* What other threads are purging is given back when this returns. */
    lm_space_rest();
    lm_gone_trim();
    lm_lock_give(&lm_space.lock);
    return (slices << LM_SLICE_SHIFT) + tails;
}
