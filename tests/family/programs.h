/* programs.h: what the programs that programs.py writes have in common: the model beside each
 * allocator.
 *
 * A table holds what a sequence of calls has alive: address, size, alignment and the pattern that
 * fills it. made() and changed() compare what an allocator gave with what is promised (aligned,
 * apart from all that is alive, contents kept), gone() looks once more before an object goes. A
 * difference is a line "model: ..." and exit status 3. An allocation that gives NULL leaves its
 * slot empty where the caller says that it may; NULL is freed then, which is allowed.
 *
 * It cannot see what nobody writes to: memory outside of all objects is the sanitizers' and the
 * guards' to watch. Invariant: a slot with p != NULL is alive, and its bytes are those of its
 * pattern. One thread at a time uses a table.
 */
#ifndef LOAM_TESTS_PROGRAMS_H
#define LOAM_TESTS_PROGRAMS_H

#include <loam/loam.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <loam/alloc.h>
#include <loam/blocks.h>
#include <loam/fifo.h>
#include <loam/heap.h>
#include <loam/pool.h>
#include <loam/region.h>
#include <loam/ring.h>
#include <loam/stack.h>

#ifdef __cplusplus
#define CAST(T, x) static_cast<T>(x)
#define ALL_ZERO \
    {}
#else
#define CAST(T, x) ((T)(x))
#define ALL_ZERO \
    { 0 }
#endif

enum { SLOTS = 160 };

typedef struct slot {
    unsigned char *p; /* NULL: nothing */
    size_t bytes, align;
    unsigned seed;
    int owner; /* the allocator's number in its program */
} slot_t;

typedef struct table {
    slot_t at[SLOTS];
    int cleanups; /* that have run */
} table_t;

#define UNUSED __attribute__((__unused__))

UNUSED static void differs(int line, const char *format, ...) {
    va_list list;
    va_start(list, format);
    (void)fprintf(stderr, "model: line %d: ", line);
    (void)vfprintf(stderr, format, list);
    (void)fputc('\n', stderr);
    va_end(list);
    (void)fflush(stderr);
    _Exit(3);
}
#define HOLDS(what) ((what) ? (void)0 : differs(__LINE__, "%s", #what))

UNUSED static unsigned char pattern(unsigned seed, size_t i) {
    return CAST(unsigned char, seed * 31 + i * 7 + (i >> 8));
}
UNUSED static void fill(slot_t *slot) {
    for (size_t i = 0; i < slot->bytes; i++) slot->p[i] = pattern(slot->seed, i);
}
UNUSED static void look(const slot_t *slot, size_t bytes, int line) {
    for (size_t i = 0; i < bytes; i++)
        if (slot->p[i] != pattern(slot->seed, i))
            differs(line, "byte %zu of %zu at %p of allocator %d has changed", i, slot->bytes,
                    CAST(void *, slot->p), slot->owner);
}

/* An object has been allocated. zero: its bytes have to be 0. */
UNUSED static void made_at(table_t *table, int index, int owner, void *p, size_t bytes,
                           size_t align, int zero, int may_fail, int line) {
    slot_t *slot = &table->at[index];
    if (slot->p != NULL) differs(line, "the generator uses slot %d twice", index);
    if (p == NULL) {
        if (!may_fail) differs(line, "allocator %d gave no %zu bytes", owner, bytes);
        return;
    }
    slot->p = CAST(unsigned char *, p);
    slot->bytes = bytes, slot->align = align, slot->owner = owner;
    slot->seed = CAST(unsigned, index) * 5 + CAST(unsigned, line);
    if (CAST(size_t, slot->p - CAST(unsigned char *, NULL)) % align != 0)
        differs(line, "%p of allocator %d is not aligned to %zu", p, owner, align);
    for (int i = 0; i < SLOTS; i++) {
        const slot_t *other = &table->at[i];
        if (i != index && other->p != NULL && bytes != 0 && other->bytes != 0 &&
            slot->p < other->p + other->bytes && other->p < slot->p + bytes)
            differs(line, "%p, %zu bytes of allocator %d, overlaps %p, %zu bytes of allocator %d",
                    p, bytes, owner, CAST(void *, other->p), other->bytes, other->owner);
    }
    if (zero != 0)
        for (size_t i = 0; i < bytes; i++)
            if (slot->p[i] != 0) differs(line, "byte %zu of %p is not zero", i, p);
    fill(slot);
}
#define made(...) made_at(__VA_ARGS__, __LINE__)

/* The same, with contents: those of the object, or those a copy has. */
UNUSED static void *object(table_t *table, int index) { return table->at[index].p; }
UNUSED static size_t bytes_of(table_t *table, int index) {
    return table->at[index].p != NULL ? table->at[index].bytes : 0;
}

/* It has become p, of another size; new bytes are 0 if zero says so. NULL: it is as it was. */
UNUSED static void changed_at(table_t *table, int index, int owner, void *p, size_t bytes,
                              size_t align, int zero, int may_fail, int line) {
    slot_t *slot = &table->at[index];
    slot_t old = *slot;
    if (p == NULL || old.p == NULL) {
        if (p != NULL) made_at(table, index, owner, p, bytes, align, 0, may_fail, line);
        if (p == NULL && old.p != NULL) look(&old, old.bytes, line);
        if (p == NULL && !may_fail) differs(line, "allocator %d gave no %zu bytes", owner, bytes);
        return;
    }
    slot->p = CAST(unsigned char *, p);
    look(slot, old.bytes < bytes ? old.bytes : bytes, line);
    if (zero != 0)
        for (size_t i = old.bytes; i < bytes; i++)
            if (slot->p[i] != 0) differs(line, "new byte %zu of %p is not zero", i, p);
    slot->p = NULL;
    made_at(table, index, old.owner, p, bytes, align, 0, 0, line);
}
#define changed(...) changed_at(__VA_ARGS__, __LINE__)

UNUSED static void seen_at(const table_t *table, int line) {
    for (int i = 0; i < SLOTS; i++)
        if (table->at[i].p != NULL) look(&table->at[i], table->at[i].bytes, line);
}
#define seen(table) seen_at(table, __LINE__)

/* Looks at it for the last time, and says what is to be freed. */
UNUSED static void *gone_at(table_t *table, int index, int line) {
    slot_t *slot = &table->at[index];
    unsigned char *p = slot->p;
    if (p != NULL) look(slot, slot->bytes, line);
    slot->p = NULL;
    return p;
}
#define gone(table, index) gone_at(table, index, __LINE__)

UNUSED static size_t alive(const table_t *table, int owner) {
    size_t count = 0;
    for (int i = 0; i < SLOTS; i++) count += table->at[i].p != NULL && table->at[i].owner == owner;
    return count;
}

/* exact 0: other threads, or objects that are not in the table, count as well. */
UNUSED static void counts_at(const table_t *table, int owner, const loam_usage *usage, int known,
                             int line) {
    size_t most = alive(table, owner);
    if (usage->objects == LOAM_UNKNOWN ? known : usage->objects != most)
        differs(line, "usage of allocator %d: %zu objects, %zu in the model", owner, usage->objects,
                most);
    if (usage->used_bytes > usage->held_bytes || usage->held_bytes > usage->peak_bytes)
        differs(line, "usage of allocator %d: %zu used, %zu held, %zu at most", owner,
                usage->used_bytes, usage->held_bytes, usage->peak_bytes);
}
#define counts(...) counts_at(__VA_ARGS__, __LINE__)

UNUSED static void cleanup(void *table) { CAST(table_t *, table)->cleanups++; }
UNUSED static bool visited(void *p, void *context) {
    (void)p;
    ++*CAST(size_t *, context);
    return true;
}

/* Before the mistake: whatever was reported until here is a false report. */
UNUSED static void planted(void) {
    (void)puts("planted");
    (void)fflush(stdout);
}
UNUSED static void poke(void *p, long at) {
    volatile unsigned char *byte = CAST(volatile unsigned char *, p) + at;
    *byte = CAST(unsigned char, *byte ^ 0x55);
}

#endif
