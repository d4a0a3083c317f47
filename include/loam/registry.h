/* loam/registry.h: what every allocator of the family can tell about itself, and the list of those
 * alive.
 *
 * An allocator that was given a name, or is checked (LOAM_CHECK), stands in one list of the
 * process, from where a live dump, a check of everything and a report of leaks are made. One
 * without a name that is not checked is not in the list, and pays nothing for it. All functions may
 * be called by any thread; those that look into allocators need that nobody uses these meanwhile,
 * unless they are LOAM_THREADS ones.
 */
#ifndef LOAM_REGISTRY_H
#define LOAM_REGISTRY_H

#include "loam/names_begin.h"

#include "loam/types.h"

LOAM_BEGIN

/* A snapshot. Computed when asked, from positions and list lengths: fast paths count nothing. */
typedef struct loam_usage {
    const char *kind;    /* "pool", "blocks", "region", ... */
    const char *name;    /* as it was given, or "" */
    size_t held_bytes;   /* chunks of the source */
    size_t used_bytes;   /* handed out, rounding included */
    size_t peak_bytes;   /* the most that was held at once */
    size_t chunks;       /* held now; those that follow each other without a gap may count as one */
    size_t requests;     /* chunks that the source has given so far */
    size_t objects;      /* handed out; LOAM_UNKNOWN where that is not known without LOAM_CHECK */
    size_t object_bytes; /* size of each; 0 where they differ */
} loam_usage;

#define LOAM_UNKNOWN ((size_t)-1)

/* Members are private to loam; every allocator has one. */
typedef struct loam_entry {
    const struct loam_kind *kind;
    const char *name;
    struct loam_entry *next, **link; /* link is NULL iff it is not in the list */
    struct loam_tag *live;           /* objects of a checked allocator, the newest first */
    size_t low, high; /* addresses between which they are, or have been; 0: nowhere */
} loam_entry;

/* Calls visit for each allocator in the list, the newest first. visit must not end any that is in
 * the list, fork, nor call the functions below. */
LOAM_API void loam_registry_visit(void (*visit)(const loam_usage *usage, void *context),
                                  void *context) LOAM_NOEXCEPT;

/* One line for each on standard error. */
LOAM_API void loam_registry_print(void) LOAM_NOEXCEPT;

/* Walks the invariants of each; one line on what is broken, then abort (or, by
 * LOAM_ON_ERROR=ignore, on). Returns how many were found broken. */
LOAM_API size_t loam_registry_check(void) LOAM_NOEXCEPT;

/* One line on standard error for each live object of each checked allocator, with the place of its
 * allocation. Returns how many there are. */
LOAM_API size_t loam_registry_leaks(void) LOAM_NOEXCEPT;

LOAM_END

#include "loam/names_end.h"

#endif
