/* loam/registry.h: what every special allocator can tell about itself, and the list of live
 * allocators.
 *
 * An allocator that has a name, or is checked (LOAM_CHECK), is in one list of the process. From
 * this list a live dump, a check of everything and a report of leaks are made. An allocator without
 * a name that is not checked is not in the list, and pays nothing for it.
 *
 * Any thread may call all functions. While a function looks into an allocator, no other thread may
 * use that allocator, unless it has LOAM_THREADS. */
#ifndef LOAM_REGISTRY_H
#define LOAM_REGISTRY_H

#include "loam/names_begin.h"

#include "loam/types.h"

LOAM_BEGIN

/** A snapshot of an allocator. It is computed on request, from positions and list lengths: fast
 * paths count nothing. */
typedef struct loam_usage {
    const char *kind;  /**< "pool", "blocks", "region", ... */
    const char *name;  /**< the name as given, or "" */
    size_t held_bytes; /**< bytes of chunks that the source gave and did not get back */
    size_t used_bytes; /**< bytes in use, rounding included */
    size_t peak_bytes; /**< peak of held_bytes */
    /** Chunks held now; chunks that follow each other without a gap may count as one. */
    size_t chunks;
    size_t requests; /**< number of chunks that the source has given so far */
    /** Objects in use; LOAM_UNKNOWN if that is not known without LOAM_CHECK. */
    size_t objects;
    size_t object_bytes; /**< size of each object in bytes; 0 if sizes differ */
} loam_usage;

/** A number that loam does not know. */
#define LOAM_UNKNOWN ((size_t)-1)

/** An allocator's entry in the list. Every allocator has one. Members are private. */
typedef struct loam_entry {
    const struct loam_kind *kind;    /**< functions of the kind of allocator */
    const char *name;                /**< the name as given, or NULL */
    struct loam_entry *next, **link; /**< link is NULL iff it is not in the list */
    struct loam_tag *live;           /**< objects of a checked allocator, the newest first */
    size_t low, high;                /**< bounds of the objects' addresses so far; 0: none */
} loam_entry;

/** Calls visit for each allocator in the list, the newest first. context is passed on. visit must
 * not end an allocator that is in the list, fork, or call a function of this header. */
LOAM_API void loam_registry_visit(void (*visit)(const loam_usage *usage, void *context),
                                  void *context) LOAM_NOEXCEPT;

/** Writes one line for each allocator in the list on standard error. */
LOAM_API void loam_registry_print(void) LOAM_NOEXCEPT;

/** Verifies the invariants of each allocator in the list. Writes one line on what is broken, and
 * then aborts; with LOAM_ON_ERROR=ignore it goes on. Returns the number of broken allocators. */
LOAM_API size_t loam_registry_check(void) LOAM_NOEXCEPT;

/** Writes one line on standard error for each live object of each checked allocator, with the place
 * of its allocation. Returns the number of these objects. */
LOAM_API size_t loam_registry_leaks(void) LOAM_NOEXCEPT;

LOAM_END

#include "loam/names_end.h"

#endif
