/* limit.c: how much memory the process may hold, and what happens near the limits (loam/limits.h).
 *
 *   held    slices in use + free and dirty ones. Clean spans hold no memory and do not count
 *   soft    before it is crossed, dirty memory is purged; then the layer above collects. If that is
 *           not enough, the program is told, once. From then on freed memory is purged at once,
 *           until 1/8 less than the limit is held
 *   hard    before it is crossed, likewise; then lm_span_take returns NULL, and the layer above
 *           collects, asks the program's handler, and tries again
 *   cgroup  the worker reads how full the fullest of the process's control groups is.
 *           80%: free memory waits a quarter of the delay. 90%: it does not wait, and what
 *           threads keep ready is collected
 *
 * Limits are checked where clean slices are taken, once a page or large object, under the arena's
 * lock, and when a limit is set. No further counting is needed, because clean and dirty slices are
 * counted already. A control group's limit refuses nothing here: the system enforces it.
 *
 * It cannot see what the allocators of family/ reserve for themselves, nor metadata (0.21% of the
 * arena). While there is no worker, it does not notice that the group fills; but then there is no
 * free memory either. Checked by lm_span_check.
 */
#include "span/internal.h"

enum {
    /* Part of the soft limit. So much less must be held before crossing it counts again. */
    BELOW = 8,
    /* Ticks until the control group is looked for again: the process may have been moved. */
    FIND_EVERY = 256,
    /* Ticks until the group is looked for again, while there is none. */
    RETRY_EVERY = 64,
    LIMITS_EVERY = 16, /* ticks until the group's limits are read again */
    /* Part of the machine's memory that the map of the arena may take. */
    MAP_PART = 16,
};

lm_limit_policy_t lm_limit_policy = {SIZE_MAX, SIZE_MAX, LM_CGROUP_IGNORED};
LM_AT_START bool lm_limit_crossed;

/* State of the control group. The worker only tries to take the lock, to look at the group. */
static LM_AT_START struct {
    lm_lock_t lock;
    bool found;
    /* Ticks until the group is looked for; ticks since it was. */
    uint32_t wait, ticks;
    size_t used, limit; /* atomic: for statistics */
} group;

/* Returns the slices held. The arena lock is held, here and up to "The control group". */
static size_t limit_held(void) {
    return lm_arena.slices - lm_space.clean_slices - lm_space.gone_slices - lm_space.gap_slices -
           lm_space.moving_slices;
}

/* Returns a limit in slices. Relaxed: an independent word, which takes effect at a later look. */
static size_t slices_of(const size_t *bytes) { return lm_load_relaxed(bytes) >> LM_SLICE_SHIFT; }

static void calm_down(size_t soft) {
    /* Relaxed, here and below: a thread that frees meanwhile may purge once too often. */
    if (lm_space.above && limit_held() + soft / BELOW <= soft)
        lm_store_relaxed(&lm_space.above, false);
}

/* Purges until `slices` more slices do not exceed `most`, or nothing is left to purge. */
static void limit_make_room(size_t slices, size_t most) {
    while (limit_held() + slices > most && lm_space.dirty_slices + lm_space_busy() > 0) {
        if (lm_purge_one(0, SIZE_MAX) > 0) continue;
        if (lm_space_busy() == 0) return; /* the system does not take it back */
        lm_space_rest();
    }
}

/* Counts a crossing if `slices` slices, which are held or about to be, exceed the soft limit. */
static void look_at_soft(size_t slices, size_t soft) {
    if (slices <= soft || lm_space.above) return;
    lm_store_relaxed(&lm_space.above, true);
    lm_space.crossings++;
    lm_store_relaxed(&lm_limit_crossed, true); /* relaxed: the numbers are read under the lock */
}

static LM_NOINLINE bool admits_near(size_t more, size_t soft, size_t hard) {
    calm_down(soft);
    limit_make_room(more, soft < hard ? soft : hard);
    size_t then = limit_held() + more;
    if (then > hard) {
        lm_space.refusals++;
        look_at_soft(limit_held(), soft);
        return false;
    }
    if (then > lm_space.held_most) lm_space.held_most = then;
    look_at_soft(then, soft);
    return true;
}

bool lm_limit_admits(size_t slices, size_t spared) {
    LM_ASSERT(lm_lock_held(&lm_space.lock));
    size_t soft = slices_of(&lm_limit_policy.soft), hard = slices_of(&lm_limit_policy.hard);
    size_t more = slices > spared ? slices - spared : 0, then = limit_held() + more;
    if (LM_UNLIKELY(then > soft || then > hard || lm_space.above))
        return admits_near(more, soft, hard);
    if (then > lm_space.held_most) lm_space.held_most = then;
    return true;
}

void lm_limit_changed(void) {
    lm_lock_take(&lm_space.lock);
    size_t soft = slices_of(&lm_limit_policy.soft), hard = slices_of(&lm_limit_policy.hard);
    limit_make_room(0, soft < hard ? soft : hard);
    /* A crossing of the former limit is over. */
    if (limit_held() <= soft) lm_store_relaxed(&lm_space.above, false);
    look_at_soft(limit_held(), soft);
    lm_lock_give(&lm_space.lock);
}

bool lm_limit_still_crossed(size_t *held_bytes, size_t *soft_bytes) {
    lm_lock_take(&lm_space.lock);
    *held_bytes = limit_held() << LM_SLICE_SHIFT;
    *soft_bytes = lm_load_relaxed(&lm_limit_policy.soft); /* it may be changed at any time */
    bool still = *held_bytes > *soft_bytes;
    /* Otherwise the memory held would have to fall by an eighth first, and the program would not be
     * told if it rises instead. */
    if (!still && lm_space.above) {
        lm_store_relaxed(&lm_space.above, false);
        lm_space.crossings--;
    }
    lm_lock_give(&lm_space.lock);
    return still;
}

bool lm_limit_leaves(size_t slices) {
    LM_ASSERT(lm_lock_held(&lm_space.lock));
    size_t soft = slices_of(&lm_limit_policy.soft), hard = slices_of(&lm_limit_policy.hard);
    return limit_held() + slices <= (soft < hard ? soft : hard);
}

/* ---- The control group ---- */

/* Returns the pressure of a control group. It rises at 80% and 90%, and falls 5% below each: what
 * the purge itself gains must not end it. */
static lm_pressure_t pressure_of(size_t used, size_t limit, lm_pressure_t before) {
    size_t hundredth = limit / 100 + 1, down = 5;
    if (used >= hundredth * (before == LM_PRESSURE_HIGH ? 90 - down : 90)) return LM_PRESSURE_HIGH;
    return used >= hundredth * (before != LM_PRESSURE_NONE ? 80 - down : 80) ? LM_PRESSURE_SOME
                                                                             : LM_PRESSURE_NONE;
}

static void group_is(const lm_cgroup_t *cgroup) {
    lm_pressure_t before = lm_load_relaxed(&lm_space.group_pressure);
    lm_store_relaxed(&lm_space.group_pressure,
                     cgroup->limit == 0 ? LM_PRESSURE_NONE
                                        : pressure_of(cgroup->used, cgroup->limit, before));
    lm_store_relaxed(&group.used, cgroup->used);
    lm_store_relaxed(&group.limit, cgroup->limit);
}

/* Looks for the control group. The group's lock is held. */
static void look_for_group(void) {
    group.found = lm_os_cgroup_find();
    group.wait = group.found ? FIND_EVERY : RETRY_EVERY;
    group.ticks = 0;
}

static void look_at_group(bool now) {
    lm_cgroup_t cgroup = {0};
    if (now || group.wait-- == 0) look_for_group();
    bool limits = group.ticks++ % LIMITS_EVERY == 0;
    if (group.found && !lm_os_cgroup_read(limits, &cgroup) && group.wait > RETRY_EVERY)
        group.wait = RETRY_EVERY; /* perhaps the group is gone */
    group_is(&cgroup);
}

static bool wants_group(void) {
    return lm_load_relaxed(&lm_limit_policy.cgroup) != LM_CGROUP_IGNORED;
}

bool lm_limit_find_cgroup(void) {
    lm_lock_take(&group.lock);
    look_at_group(true);
    bool found = group.found;
    lm_lock_give(&group.lock);
    return found;
}

void lm_limit_tick(void) {
    lm_space_enter();
    calm_down(slices_of(&lm_limit_policy.soft));
    lm_space_leave();
    static const lm_cgroup_t none;
    if (!wants_group()) {
        if (lm_load_relaxed(&group.limit) != 0) group_is(&none);
        return;
    }
    if (!lm_lock_try_as_worker(&group.lock)) return; /* another thread is looking */
    look_at_group(false);
    lm_lock_give(&group.lock);
}

/* ---- Shares of the memory ---- */

/* Returns the lowest limit of the groups around the process, if that is less than `bytes`,
 * otherwise `bytes`. The group's lock is held. */
static size_t bytes_of_group(size_t bytes) {
    lm_cgroup_t cgroup = {0};
    if (lm_os_cgroup_find()) (void)lm_os_cgroup_read(true, &cgroup);
    group.wait = 0; /* the worker looks for it again */
    return cgroup.least != 0 && (bytes == 0 || cgroup.least < bytes) ? cgroup.least : bytes;
}

size_t lm_limit_share(unsigned percent, bool of_group) {
    /* Relaxed: a program that shuts itself in at this moment sets no options. */
    if (lm_load_relaxed(&lm_space.worker_forbidden)) return 0;
    size_t bytes = lm_os_memory_bytes();
    if (of_group) {
        lm_lock_take(&group.lock);
        bytes = bytes_of_group(bytes);
        lm_lock_give(&group.lock);
    }
    if (bytes == 0) return 0;
    size_t share = bytes / 100 * percent + bytes % 100 * percent / 100;
    share -= share % LM_SLICE_BYTES;
    return share > 0 ? share : LM_SLICE_BYTES;
}

/* ---- Addresses ---- */

/* Each slice has an entry of 8 bytes in the arena's map, which stays resident even if the slice is
 * not. A program that allocates until it gets NULL would fill a small machine with the map. */
void lm_limit_addresses(void) {
    lm_space.slices_cheap = SIZE_MAX;
    if (!lm_purge_allowed()) return; /* shut in: the system must not be asked */
    size_t bytes = lm_os_memory_bytes();
    if (lm_lock_try(&group.lock)) {
        bytes = bytes_of_group(bytes);
        lm_lock_give(&group.lock);
    }
    size_t most = bytes / MAP_PART / sizeof(lm_page_t *);
    if (bytes == 0 || most >= lm_space.slices_most) return;
    /* Relaxed: see lm_space_could_grow. */
    lm_store_relaxed(&lm_space.slices_most, most > lm_arena.slices ? most : lm_arena.slices);
}

/* ---- Numbers, fork ---- */

void lm_limit_stats(lm_limit_stats_t *stats) {
    lm_lock_take(&lm_space.lock);
    *stats = (lm_limit_stats_t){
        .held_bytes = limit_held() << LM_SLICE_SHIFT,
        .held_bytes_most = lm_space.held_most << LM_SLICE_SHIFT,
        .crossings = lm_space.crossings,
        .refusals = lm_space.refusals,
        .cgroup_used = lm_load_relaxed(&group.used),
        .cgroup_limit = lm_load_relaxed(&group.limit),
        .pressure = lm_limit_pressure(),
    };
    lm_lock_give(&lm_space.lock);
}

void lm_limit_after_fork(void) {
    group.wait = 0; /* another thread may have been changing it */
    lm_lock_reset(&group.lock);
}

void lm_limit_repair(void) {
    if (lm_lock_of_worker(&group.lock)) lm_limit_after_fork();
}

void lm_limit_after_torn_fork(void) {
    if (lm_lock_break(&group.lock)) group.wait = 0;
}
