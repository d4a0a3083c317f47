/* group.c: secure builds keep memory of objects of different sizes apart.
 *
 *   arena   [ tiny ........ | small ....... | large, nobody's ... | meta | tiny ... | large ... ]
 *             1 MiB or more: pages of blocks to 128 bytes, and never of others
 *
 * What was once a page of small blocks is never again one of larger ones, a large object, or loam's own: a pointer that
 * is used after its object was freed meets one of the same group, and an overflow at a page's end as a rule one of
 * them, too. A group takes runs of memory from what is nobody's, a sixteenth of the arena at a time, and keeps them:
 * free spans of different groups have bins of their own and do not merge. Purged ones cost addresses alone.
 *
 * Its addresses do not go back to the system, not even at the arena's end, except where the program's addresses are
 * limited or the system refuses memory (gone.c). A group cannot keep its memory where even that does not help: then it
 * takes what large objects have left, and at last what all groups have purged is nobody's again. In other builds all
 * memory is of one group.
 *
 * What a group has freed is of no use to others: so who takes clean memory while much is dirty asks the worker to purge
 * the oldest spans, until as much has gone. A program that comes back to the sizes it left would pay for that in page
 * faults each time: once a quarter of what was purged so is taken anew, nobody asks for some seconds.
 * Invariant: lm_span_check: both ends of a free span name its group; neighbours of one kind and group are merged.
 */
#include "span/room.h"

#include <string.h>

#if LM_SECURE

enum {
    CHUNK_LEAST = 16, /* slices, as below: 1 and 32 MiB */
    CHUNK_MOST = 512,
    SPARED_SLICES = 8,  /* and a sixteenth of what is in use: dirty, but no reason to hurry */
    HURRY_SLICES = 8,   /* taken since, that the worker is woken for */
    REGRET_SLICES = 16, /* taken anew that was purged so, before that counts */
    PAUSE_TICKS = 100,  /* then: five seconds, where the delay is as usual */
};

lm_page_t *lm_group_claim(lm_group_t group, lm_page_t *span) {
    size_t first = lm_span_slice(span), slices = span->slices;
    lm_kind_t kind = (lm_kind_t)span->kind;
    uint32_t stamp = span->stamp;
    lm_space_remove(span);
    for (size_t i = 0; i < slices; i++) lm_space_slot(first + i)->wiped_class = 0;
    lm_space_set_group(first, group);
    return lm_space_insert(first, slices, kind, stamp);
}

void lm_group_backed(lm_group_t group, size_t first, size_t slices) {
    for (size_t i = 0; i < slices; i++) {
        lm_page_t *slot = lm_space_slot(first + i);
        slot->backed = true;
        slot->wiped_class = LM_WIPED_WHOLLY;
    }
    lm_space_set_group(first, group);
    lm_group_retaken(group, slices);
}

bool lm_group_forget(void) {
    bool any = false;
    for (unsigned group = LM_GROUP_LARGE + 1; group < LM_GROUPS; group++) {
        const lm_list_t *bins = lm_space.bins[lm_free_kind(LM_KIND_CLEAN, (lm_group_t)group)];
        for (size_t bin = 0; bin < LM_BINS; bin++) {
            for (; bins[bin].first != NULL; any = true)
                (void)lm_group_claim(LM_GROUP_LARGE,
                                     LM_CONTAINER(bins[bin].first, lm_page_t, link));
        }
    }
    return any;
}

lm_page_t *lm_group_grow(lm_group_t group, size_t slices) {
    size_t length = lm_arena.slices / 16; /* as the arena grows: few runs, and few ends of runs */
    if (length < CHUNK_LEAST) length = CHUNK_LEAST;
    if (length > CHUNK_MOST) length = CHUNK_MOST;
    if (length < slices) length = slices;
    lm_page_t *span = lm_space_clean(length);
    if (span == NULL) span = lm_space_clean(length = slices);
    if (span == NULL) return NULL;
    size_t first = lm_span_slice(span), rest = span->slices - length;
    lm_space_remove(span);
    /* Its slots may say anything: neither part must merge with what the other one was. */
    if (rest > 0) lm_space_label(first + length, rest, LM_KIND_BUSY);
    lm_space_set_group(first, group);
    span = lm_space_insert(first, length, LM_KIND_CLEAN, 0);
    if (rest > 0) {
        lm_space_set_group(first + length, LM_GROUP_LARGE);
        lm_space_insert(first + length, rest, LM_KIND_CLEAN, 0);
    }
    return span;
}

/* ---- Purges in a hurry ---- */

/* Dirty slices that may stay. */
static size_t spared(void) { return SPARED_SLICES + lm_space_used() / 16; }

void lm_group_hurry(size_t slices) {
    lm_hurry_t *hurry = &lm_space.hurry;
    if (lm_space_loose() <= spared() || lm_load_relaxed(&lm_space.worker) != LM_WORKER_ON ||
        lm_load_relaxed(&lm_purge_never) || (int32_t)(lm_space.tick - hurry->next) < 0)
        return;
    hurry->next = lm_space.tick; /* ticks turn over */
    hurry->due += slices;
    if (hurry->due < HURRY_SLICES || lm_load_relaxed(&hurry->asked)) return;
    lm_store_relaxed(&hurry->asked, true); /* relaxed: looked at again with the lock held */
    lm_os_wake(&lm_space.stop);
}

size_t lm_group_purge(void) {
    lm_hurry_t *hurry = &lm_space.hurry;
    size_t due = hurry->due, purged = 0, part = 1;
    hurry->due = 0;
    lm_store_relaxed(&hurry->asked, false);
    /* Relaxed: a worker that misses it once sees it when it takes the lock again. */
    while (lm_load_relaxed(&lm_space.stop) == 0 && part > 0 && purged < due &&
           lm_space_loose() > spared()) {
        lm_page_t *oldest = LM_CONTAINER(lm_space.aged.first, lm_page_t, age);
        lm_group_t group = lm_space_group(oldest);
        purged += part = lm_purge_one(0);
        hurry->purged[group] += part;
        hurry->total += part;
    }
    return purged;
}

void lm_group_retaken(lm_group_t group, size_t slices) {
    lm_hurry_t *hurry = &lm_space.hurry;
    size_t n = hurry->purged[group];
    if (LM_LIKELY(n == 0)) return;
    if (n > slices) n = slices;
    hurry->purged[group] -= n;
    hurry->regretted += n;
    if (hurry->regretted < REGRET_SLICES || hurry->regretted < hurry->total / 4) return;
    memset(hurry->purged, 0, sizeof hurry->purged);
    hurry->regretted = hurry->total = hurry->due = 0;
    lm_store_relaxed(&hurry->asked, false); /* relaxed: as above */
    hurry->next = lm_space.tick + PAUSE_TICKS;
}

#endif
