/* group.c: secure builds keep memory of objects of different sizes apart.
 *
 *   arena   [ tiny ....... | small ...... | large, no group ... | meta | tiny ... | large ... ]
 *             1 MiB or more of pages of blocks of up to 128 bytes, and never of others
 *
 * Memory that was a page of small blocks never becomes a page of larger ones, a large object, or
 * loam's own memory. So a pointer that is used after its object was freed meets an object of one
 * group, and an overflow at a page's end usually does, too. A group takes runs of memory that
 * belongs to no group yet, a sixteenth of the arena at a time, and keeps them. Free spans of
 * different groups have separate bins and do not merge. Purged spans cost only addresses.
 *
 * A group's addresses do not go back to the system, not even at the arena's end, unless the
 * program's addresses are limited or the system refuses memory (gone.c). If even that does not
 * help, a group takes what large objects have freed, and at last the purged memory of all groups
 * belongs to no group again. In other builds all memory is of one group.
 *
 * Memory that one group has freed is of no use to another. Without care, a program that changes
 * from one size to another would hold both until the purge delay is over. So a thread that is about
 * to take new memory purges dirty spans of other groups first, at most 2 MiB a call, if
 *
 *   in use + dirty + wanted  >  peak in use + 1/32 of it + 512 KiB
 *
 * Pages of blocks and the bytes of large objects are in use. The span of a large object would say
 * too much, because its end is a guard without memory. So dirty spans of large objects count in
 * proportion, as full as the spans of recently freed large objects were. For the same reason a
 * large object that takes a dirty span makes more memory resident, and dirty spans of large objects
 * may be purged for it.
 *
 * A program that soon returns to its former sizes pays for these purges in page faults. What a
 * group takes anew within the purge delay of such a purge is a regret. Regrets may reach ten times
 * the peak in use; beyond that, no thread purges in a hurry until time has reduced them, by 20 MiB
 * a second. For purges of large objects in their own group the bound is an eighth of the peak,
 * because a steady churn of large objects leaves holes all the time.
 *
 * It cannot bound the memory held by phases that change more often than that: their groups keep
 * their memory. Invariant (lm_span_check): both ends of a free span name its group; neighbours of
 * one kind and group are merged; hurry.dirty_large is the sum over the dirty spans of
 * LM_GROUP_LARGE.
 */
#include "span/internal.h"

#if LM_SECURE

enum {
    CHUNK_LEAST = 16, /* slices, as is CHUNK_MOST: 1 and 32 MiB */
    CHUNK_MOST = 512,
    /* Slices that may be held above the peak in use, 512 KiB, and in addition ... */
    SPARED_SLICES = 8,
    /* ... this part of the peak. */
    SPARED_PART = 32,
    LARGE_LATELY = 16384, /* slices of freed large objects in the average */
    /* Maximum regrets: this many times the peak in use, ... */
    REGRETS_ROUNDS = 10,
    /* ... plus this many slices, 16 MiB. */
    REGRETS_LEAST = 256,
    /* Slices by which a tick lowers the regrets: 20 MiB a second. */
    REGRETS_A_TICK = 16,
    /* Maximum regrets for large objects that purge their own group: part of the peak in use. */
    OWN_PART = 8,
};

lm_page_t *lm_group_claim(lm_group_t group, lm_page_t *span) {
    LM_ASSERT(lm_lock_held(&lm_space.lock));
    size_t first = lm_span_slice(span), slices = span->slices;
    lm_kind_t kind = (lm_kind_t)span->kind;
    uint32_t stamp = span->stamp;
    lm_space_remove(span);
    for (size_t i = 0; i < slices; i++) lm_space_slot(first + i)->wiped_class = 0;
    lm_space_set_group(first, group);
    return lm_space_insert(first, slices, kind, stamp);
}

void lm_group_backed(lm_group_t group, size_t first, size_t slices) {
    LM_ASSERT(lm_lock_held(&lm_space.lock));
    for (size_t i = 0; i < slices; i++) {
        lm_page_t *slot = lm_space_slot(first + i);
        slot->backed = true;
        slot->wiped_class = LM_WIPED_WHOLLY;
    }
    lm_space_set_group(first, group);
    lm_purge_retaken(slices - lm_group_retaken(group, slices));
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
    LM_ASSERT(lm_lock_held(&lm_space.lock));
    /* Grows like the arena, so there are few runs and few ends of runs. */
    size_t length = lm_arena.slices / 16;
    if (lm_gone_near()) length = 0;
    if (length < CHUNK_LEAST) length = CHUNK_LEAST;
    if (length > CHUNK_MOST) length = CHUNK_MOST;
    if (length < slices) length = slices;
    lm_page_t *span = lm_space_clean(length);
    if (span == NULL) span = lm_space_clean(length = slices);
    if (span == NULL) return NULL;
    LM_ASSERT(group != LM_GROUP_LARGE && span->slices >= length);
    size_t first = lm_span_slice(span), rest = span->slices - length;
    lm_space_remove(span);
    /* Its slots have arbitrary contents: no part may merge with the former contents of the
     * other. */
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

/* Returns the slices of memory in use: pages of blocks, and the bytes of large objects. Spans of
 * large objects do not tell, because their ends are guards. */
static size_t group_in_use(void) {
    return lm_space.page_slices + (lm_large_bytes_now() >> LM_SLICE_SHIFT);
}

void lm_group_used(void) {
    LM_ASSERT(lm_lock_held(&lm_space.lock));
    size_t used = group_in_use();
    if (used > lm_space.hurry.used_most) lm_space.hurry.used_most = used;
}

void lm_group_large_goes(const lm_page_t *span) {
    lm_hurry_t *hurry = &lm_space.hurry;
    lm_group_used();
    hurry->large_slices += span->slices;
    hurry->large_held += span->in_memory ? (span->bytes + LM_SLICE_BYTES / 2) >> LM_SLICE_SHIFT : 0;
    while (hurry->large_slices > LARGE_LATELY) { /* older ones count less */
        hurry->large_slices /= 2;
        hurry->large_held /= 2;
    }
    LM_ASSERT(hurry->large_held <= hurry->large_slices);
}

/* Returns the estimated slices of memory that `large` dirty slices of the group of large objects
 * hold. */
static size_t held_by(size_t large) {
    const lm_hurry_t *hurry = &lm_space.hurry;
    return hurry->large_slices == 0 ? large : large * hurry->large_held / hurry->large_slices;
}

/* Returns whether more memory than allowed would be held once `slices` slices are taken; dirty:
 * they are dirty slices of large objects, otherwise clean ones. */
static bool too_much(size_t slices, bool dirty) {
    size_t then = group_in_use() + slices, most = lm_space.hurry.used_most;
    if (then > most) most = then;
    size_t large = lm_space.hurry.dirty_large, held = lm_space_loose() - large;
    if (dirty) large -= slices < large ? slices : large;
    return then + held + held_by(large) > most + most / SPARED_PART + SPARED_SLICES;
}

/* Lowers the regrets by the time that has passed. Ticks wrap around. */
static void forget_regrets(void) {
    lm_hurry_t *hurry = &lm_space.hurry;
    size_t less = (size_t)(lm_space.tick - hurry->tick) * REGRETS_A_TICK;
    hurry->tick = lm_space.tick;
    hurry->regrets -= less < hurry->regrets ? less : hurry->regrets;
    less /= OWN_PART;
    hurry->own_regrets -= less < hurry->own_regrets ? less : hurry->own_regrets;
}

/* Returns whether purges of other groups have cost few enough page faults lately. */
static bool worth_it(void) {
    const lm_hurry_t *hurry = &lm_space.hurry;
    return hurry->regrets <= REGRETS_ROUNDS * hurry->used_most + REGRETS_LEAST;
}
/* Returns whether purges of large objects' own group have cost few enough page faults lately. */
static bool own_worth_it(void) {
    const lm_hurry_t *hurry = &lm_space.hurry;
    return hurry->own_regrets <= hurry->used_most / OWN_PART;
}

/* Returns a long dirty span of the group, or NULL iff there is none. */
static lm_page_t *long_one(lm_group_t group) {
    size_t which = lm_free_kind(LM_KIND_DIRTY, group);
    for (uint64_t filled = lm_space.filled[which]; filled != 0;) {
        unsigned bin = lm_log2(filled);
        LM_ASSERT(lm_space.bins[which][bin].first != NULL);
        lm_page_t *span = LM_CONTAINER(lm_space.bins[which][bin].first, lm_page_t, link);
        if (span->kind == LM_KIND_DIRTY) return span; /* the system has refused the others */
        filled &= ~((uint64_t)1 << bin);
    }
    return NULL;
}

/* Returns the oldest of the long dirty spans, one of each group that may be purged for this one;
 * NULL iff there is none. Dirty memory of large objects may be purged for large objects, because
 * much of it is not resident. */
static lm_page_t *group_of_others(lm_group_t group) {
    lm_page_t *oldest = NULL;
    for (unsigned other = 0; other < LM_GROUPS; other++) {
        if (other == group && (group != LM_GROUP_LARGE || !own_worth_it())) continue;
        lm_page_t *span = long_one((lm_group_t)other);
        if (span != NULL && (oldest == NULL || (int32_t)(span->stamp - oldest->stamp) < 0))
            oldest = span;
    }
    return oldest;
}

/* Notes that slices of one group were purged for another. */
static void group_note(lm_group_t of, lm_group_t for_group, size_t slices) {
    lm_hurry_t *hurry = &lm_space.hurry;
    bool own = of == for_group;
    *(own ? &hurry->own_purged : &hurry->purged[of]) += slices;
    *(own ? &hurry->own_when : &hurry->when[of]) = lm_space.tick;
}

bool lm_group_hurry(lm_group_t group, size_t slices, bool dirty) {
    LM_ASSERT(lm_lock_held(&lm_space.lock));
    bool purged = false;
    if (LM_LIKELY(!too_much(slices, dirty))) return false;
    for (forget_regrets(); worth_it() && !lm_load_relaxed(&lm_purge_never);) {
        lm_page_t *span = group_of_others(group);
        if (span == NULL) break;
        lm_group_t other = lm_space_group(span);
        size_t part = lm_purge_part(span);
        purged = true;
        /* The system has refused it: the next call tries another one. */
        if (part == 0) break;
        group_note(other, group, part);
        if (!too_much(slices, dirty)) break;
    }
    return purged;
}

/* Takes up to `slices` slices out of the number that was purged. Returns how many. */
static size_t retaken(size_t *purged, uint32_t when, size_t slices) {
    /* Later, the worker would have purged them anyway. */
    if (lm_space.tick - when > lm_purge_ticks()) *purged = 0;
    size_t n = slices < *purged ? slices : *purged;
    *purged -= n;
    return n;
}

size_t lm_group_retaken(lm_group_t group, size_t slices) {
    LM_ASSERT(lm_lock_held(&lm_space.lock));
    lm_hurry_t *hurry = &lm_space.hurry;
    size_t own = 0, n = 0;
    if (group == LM_GROUP_LARGE && hurry->own_purged > 0)
        own = retaken(&hurry->own_purged, hurry->own_when, slices);
    if (hurry->purged[group] > 0)
        n = retaken(&hurry->purged[group], hurry->when[group], slices - own);
    LM_ASSERT(own + n <= slices);
    hurry->own_regrets += own;
    hurry->regrets += n;
    return own + n;
}

#endif
