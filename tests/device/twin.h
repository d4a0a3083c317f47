/* twin.h: a random program of allocations and frees on any allocator, beside a slow and obvious
 * record of what is alive. It finds objects that overlap, that are not aligned, or whose bytes
 * change while they live. */
#ifndef DEVICE_TWIN_H
#define DEVICE_TWIN_H

#include "harness.h"

struct twin_subject {
    void *(*alloc)(void *subject, size_t bytes, size_t align);
    void (*free)(void *subject, void *p, size_t bytes, size_t align);
    bool (*check)(void *subject);   /* its invariants, now and then; never NULL */
    size_t least_bytes, most_bytes; /* of an object */
    size_t most_align;              /* power of two */
};

struct twin_result {
    unsigned served, refused;
};

/* So many steps; frees all in the end. Failures are failed CHECKs. */
struct twin_result twin_run(const struct twin_subject *kind, void *subject, uint32_t seed,
                            unsigned steps);

#endif
