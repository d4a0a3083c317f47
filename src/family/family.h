/* family.h: declarations that the special allocators share; the only header of this folder that
 * other folders include.
 *
 *   pool.c blocks.c region.c stack.c  allocators
 *   guard.c                           objects of checked allocators: tag, guards, live list
 *   registry.c                        the list of named and checked allocators
 *   source.c                          buffer, limit, count
 *
 * All code here is freestanding: memory comes from a loam_source, messages go out through base's
 * reports, and memcpy and memset are the only libc functions called. src/hosted/ adds what needs an
 * operating system.
 *
 * One rule makes checks free where they are off. The inline paths in the public headers compare
 * with hot words: a region's end, a pool's free list. In a checked allocator these words have
 * values with which the inline path always misses, and the out-of-line path does the work. */
#ifndef LM_FAMILY_H
#define LM_FAMILY_H

#include "base/base.h"
#include "loam/registry.h"
#include "loam/source.h"

#include "family/meter.h"

/* Negative errno values that control functions return, also where there is no <errno.h>. */
enum { LM_ENOMEM = -12, LM_EINVAL = -22 };

/* The functions of one kind of allocator, for the registry. */
typedef struct loam_kind {
    /* "pool", "region", ...; for messages. */
    const char *name;
    /* Fills all members of *usage except kind and name. */
    void (*usage)(const struct loam_entry *entry, loam_usage *usage);
    /* Verifies the invariants. Returns false after a report. */
    bool (*check)(const struct loam_entry *entry);
    /* From hold(entry, true) to hold(entry, false) no thread changes the allocator's objects. NULL:
     * one thread at a time uses the allocator. */
    void (*hold)(const struct loam_entry *entry, bool held);
} loam_kind;

/* ---- Registry ---- */

/* Sets *entry up, and puts it into the list iff it has a name or `checked`. name may be NULL; it is
 * not copied. */
void lm_entry_init(loam_entry *entry, const loam_kind *kind, const char *name, bool checked);
/* Takes an entry out of the list, if it is there, and ends its meter. */
void lm_entry_deinit(loam_entry *entry);
/* Ends the entry of a checked allocator that leaves a tombstone: its kind and name remain for
 * reports. The name is copied to `name`, a buffer of `bytes` bytes, because the program's text may
 * be unloaded later. */
void lm_entry_bury(loam_entry *entry, char *name, size_t bytes);
/* Keeps the memory of a checked allocator that has ended, for a while, so that its tombstone can be
 * read. The memory is `got` bytes of its source; the tombstone is `bytes` bytes at `stone`. Returns
 * false if the caller must put the memory back. */
bool lm_entry_keep(const loam_source *source, void *memory, size_t got, const void *stone,
                   size_t bytes);
/* Reports a call of an allocator that has ended. file may be NULL. Returns true. */
bool lm_entry_ended(const loam_entry *entry, const char *doing, const char *file, unsigned line);
/* Returns whether the entry is in the list. Only its own allocator calls it. Relaxed: neighbours
 * write the link under LIST, but never change whether it is NULL. */
LM_INLINE bool lm_entry_linked(const loam_entry *entry) {
    return lm_load_relaxed(&entry->link) != NULL;
}
/* Returns the allocator's name for reports, or "(unnamed)". */
const char *lm_entry_name(const loam_entry *entry);

/* Appends to `who`, unless that is NULL, the kind and name of the first entry in the list, besides
 * one, for which holds(entry, p) is true. All of that is done inside LIST, because the entry may
 * end at any time. Returns false iff there is no such entry. */
bool lm_entry_tell(bool (*holds)(const loam_entry *entry, const void *p), const void *p,
                   const loam_entry *besides, lm_line_t *who);
/* Returns whether p lies between the addresses that objects of this checked allocator have had. */
bool lm_entry_has(const loam_entry *entry, const void *p);

/* Returns the source of allocators whose creator names none. NULL iff there is no operating
 * system. */
LM_INLINE loam_source *lm_default_source(void) {
#if LM_HOSTED
    return loam_pages();
#else
    return NULL;
#endif
}

/* Returns whether a source may give so many bytes at that alignment, now or later. It returns false
 * for a buffer that is too short, a limit that is too low, and for sources over them. It tries
 * contiguous sources that are not loam's, and returns true for others. */
bool lm_source_may(loam_source *source, size_t bytes, size_t align);

/* Copies bytes to `copy`, which is NULL if there was no memory. Returns copy. */
LM_INLINE void *lm_copy(void *copy, const void *from, size_t bytes) {
    return copy != NULL && bytes != 0 ? memcpy(copy, from, bytes) : copy;
}
/* Returns the length of a text, at most `most`. */
LM_INLINE size_t lm_text_length(const char *from, size_t most) {
    size_t length = 0;
    while (length < most && from[length] != '\0') length++;
    return length;
}
/* Copies a text of that length to `copy`, with a zero behind it. Returns copy, which may be
 * NULL. */
LM_INLINE char *lm_copy_text(void *copy, const char *from, size_t length) {
    char *text = (char *)copy;
    if (text == NULL) return NULL;
    memcpy(text, from, length);
    text[length] = '\0';
    return text;
}

/* Returns whether an allocator with these flags is checked: by LOAM_CHECK, or in loam's debug
 * build. */
LM_INLINE bool lm_is_checked(unsigned flags) { return LOAM_DEBUG || (flags & LOAM_CHECK) != 0; }

/* Returns whether memory of that size would wrap around the end of the address space: a mistake. */
LM_INLINE bool lm_passes_the_end(const void *memory, size_t bytes) {
    return bytes > UINTPTR_MAX - (uintptr_t)memory;
}

/* ---- The meter (loam/meter.h) ----
 *
 * An allocator's slow functions call these as LM_METER(got(...)) (base/meter.h). At level 0 none is
 * compiled. Calls for an entry that has no kind yet, or has ended, count nothing: a source may be
 * used before an entry begins, and after it has ended. */
#if LOAM_METER
/* Notes what the allocator holds after its set-up, and from how many requests. Not needed if both
 * are 0. */
void lm_meter_began(const loam_entry *entry, size_t held_bytes, size_t requests);
/* Notes that the source gave a chunk; the call counts as slow. (Other long work calls slow().) */
void lm_meter_got(const loam_entry *entry, size_t bytes);
/* Notes that the source took a chunk back; the call counts as slow. */
void lm_meter_put(const loam_entry *entry, size_t bytes);
/* Notes that mark number `depth` was made; 0 is the oldest. */
void lm_meter_mark(const loam_entry *entry, size_t depth);
/* Notes a rewind to mark number `depth`. */
void lm_meter_rewind(const loam_entry *entry, size_t depth);
/* Notes a mark at that place, of an allocator that pushes frames by loam_meter_push and does not
 * number its marks. */
void lm_meter_mark_at(const loam_entry *entry, const void *place);
/* Notes a rewind to the mark at that place. */
void lm_meter_rewind_to(const loam_entry *entry, const void *place);
/* Notes that a frame has ended without a pop that notes it. */
#define lm_meter_pop loam_meter_pop
/* Notes that objects of so many bytes in all have ended, of an allocator whose frees have no
 * size. */
void lm_meter_less(const loam_entry *entry, size_t bytes);
/* Notes that so many objects were freed by threads that could not count the frees. */
void lm_meter_freed(const loam_entry *entry, size_t objects);
/* Notes that all objects have ended. */
void lm_meter_drop(const loam_entry *entry);
/* Notes that the allocator has ended. lm_entry_deinit calls it. */
void lm_meter_over(const loam_entry *entry);
#endif

/* ---- Tools (tool.c) ----
 *
 * AddressSanitizer and Valgrind see objects, not chunks. ThreadSanitizer sees which thread has an
 * object. If no tool watches, the functions do nothing. */

/* Whether a tool watches this process. The first question finds out: asking Valgrind takes as long
 * as an allocation. */
enum { LM_TOOL_UNKNOWN, LM_TOOL_NONE, LM_TOOL_SOME };
extern LM_HIDDEN unsigned char lm_tool_state; /* atomic */

/* Finds out whether a tool watches, if it is unknown, and returns it. */
bool lm_tool_watches_now(void);
/* Returns whether Memcheck watches, which sees every access, also of code not compiled for a
 * tool. */
bool lm_tool_sees_all(void);
/* Returns whether a tool watches this process. */
LM_INLINE bool lm_tool_watches(void) {
    return LM_UNLIKELY(lm_load_relaxed(&lm_tool_state) != LM_TOOL_NONE) && lm_tool_watches_now();
}

/* Out of line: see lm_tool_hide. */
void lm_tool_hide_now(const void *p, size_t bytes);
/* Out of line: see lm_tool_show_undefined. */
void lm_tool_show_undefined_now(const void *p, size_t bytes);
/* Out of line: see lm_tool_show. */
void lm_tool_show_now(const void *p, size_t bytes);
/* Out of line: see lm_tool_pause. */
void lm_tool_pause_now(void);
/* Out of line: see lm_tool_resume. */
void lm_tool_resume_now(void);

/* Tells the tool that the program must not touch [p, p+bytes). */
LM_INLINE void lm_tool_hide(const void *p, size_t bytes) {
    if (LM_UNLIKELY(lm_load_relaxed(&lm_tool_state) != LM_TOOL_NONE)) lm_tool_hide_now(p, bytes);
}
/* Tells the tool that the program may touch [p, p+bytes), whose contents are undefined. A chunk is
 * shown as a whole before it goes back to its source: other objects live there next. */
LM_INLINE void lm_tool_show_undefined(const void *p, size_t bytes) {
    if (LM_UNLIKELY(lm_load_relaxed(&lm_tool_state) != LM_TOOL_NONE))
        lm_tool_show_undefined_now(p, bytes);
}
/* Tells the tool that the program may touch [p, p+bytes), with the contents as they are. */
LM_INLINE void lm_tool_show(const void *p, size_t bytes) {
    if (LM_UNLIKELY(lm_load_relaxed(&lm_tool_state) != LM_TOOL_NONE)) lm_tool_show_now(p, bytes);
}

/* Out of line: see lm_tool_give. */
void lm_tool_give_now(const void *p, size_t bytes);
/* Out of line: see lm_tool_take. */
void lm_tool_take_now(const void *p, size_t bytes);

/* The calling thread gives [p, p+bytes) up. ThreadSanitizer sees no lock of a library that was not
 * compiled with it. With this pair, all that happened before lm_tool_give happens before what
 * follows lm_tool_take. */
LM_INLINE void lm_tool_give(const void *p, size_t bytes) {
    if (LM_UNLIKELY(lm_load_relaxed(&lm_tool_state) != LM_TOOL_NONE)) lm_tool_give_now(p, bytes);
}
/* The calling thread takes memory in [p, p+bytes), which some thread gave up. */
LM_INLINE void lm_tool_take(const void *p, size_t bytes) {
    if (LM_UNLIKELY(lm_load_relaxed(&lm_tool_state) != LM_TOOL_NONE)) lm_tool_take_now(p, bytes);
}

/* From here to lm_tool_resume the calling thread may touch hidden memory: links of free objects.
 * Memcheck watches the library as it does the program. (AddressSanitizer watches code that was
 * compiled with it: LM_READS_ANYTHING.) Calls nest. */
LM_INLINE void lm_tool_pause(void) {
    if (LM_UNLIKELY(lm_load_relaxed(&lm_tool_state) == LM_TOOL_SOME)) lm_tool_pause_now();
}
/* Ends what lm_tool_pause began. */
LM_INLINE void lm_tool_resume(void) {
    if (LM_UNLIKELY(lm_load_relaxed(&lm_tool_state) == LM_TOOL_SOME)) lm_tool_resume_now();
}

/* ---- Guards: an object of a checked allocator (guard.c) ----
 *
 *   raw                                  object
 *   │ (padding up to align) │ loam_tag │ bytes │ tail: 16 guard bytes, and what rounding left
 *
 * The tag knows size, place and owner; its last 16 bytes are guard bytes as well. */

/* Bytes of a guard. */
enum { LM_GUARD_BYTES = 16 };

/* Bytes that fill guards, new objects and freed ones. The guard byte must differ from the heap's
 * fence byte (0xFB, checks/fence.c): a guard may end where a chunk ends, and the debug build's free
 * of the heap's next object reads eight fence bytes there as the mark of an underflow. */
enum { LM_GUARD_BYTE = 0xE7, LM_FRESH_BYTE = 0xA5, LM_DEAD_BYTE = 0xDD };

/* Describes an object of a checked allocator. It lies directly in front of the object. */
typedef struct loam_tag {
    /* The owner's live list, newest first. prev of the newest object is the oldest. */
    struct loam_tag *next, *prev;
    const loam_entry *owner; /* the allocator of the object */
    /* Places of the allocation and of the free; may be NULL. */
    const char *file, *freed_file;
    /* Line of the allocation; logarithm of the requested alignment. */
    unsigned line : 26, align_log2 : 6;
    unsigned freed_line; /* line of the free */
    size_t bytes;        /* size as requested */
    size_t raw_bytes;    /* size of the whole, from raw on */
    void *raw;           /* the memory that the allocator carved */
    /* LIVE or FREED, mixed with the tag's address. Any other value: no object of loam's. */
    uintptr_t state;
    /* Guard bytes in front of the object. */
    LM_ALIGNED(16) unsigned char guard[LM_GUARD_BYTES];
} loam_tag;

/* Returns the bytes in front of an object of that alignment, in a raw block aligned to max(align,
 * 16). */
size_t lm_guard_head(size_t align);
/* Returns all bytes that an object of that size and alignment needs. 0 iff that overflows. */
size_t lm_guard_whole(size_t bytes, size_t align);

/* Makes the raw block, of raw_bytes (lm_guard_whole bytes or more), an object and returns it. Its
 * first 64 KiB are filled with 0xA5. */
void *lm_guard_open(loam_entry *owner, void *raw, size_t raw_bytes, size_t bytes, size_t align,
                    const char *file, unsigned line);

/* Resizes a live object in place. raw_bytes must hold its head, bytes, and LM_GUARD_BYTES
 * behind. */
void lm_guard_resize(loam_entry *owner, loam_tag *tag, size_t raw_bytes, size_t bytes);

/* Returns the tag of a live object of `owner` with whole guards. Returns NULL after a report:
 * foreign pointer, double free, another allocator's object, overflow, underflow. doing: "free",
 * "realloc", ... */
loam_tag *lm_guard_find(const loam_entry *owner, const void *object, const char *doing,
                        const char *file, unsigned line);
/* Returns what lm_guard_find returns, and the tag also after a report on broken guards: for frees
 * that must count. */
loam_tag *lm_guard_find_broken(const loam_entry *owner, const void *object, const char *doing,
                               const char *file, unsigned line);

/* Frees a live object: takes it off the live list and fills its first 64 KiB with 0xDD. Returns the
 * raw block. */
void *lm_guard_close(loam_entry *owner, loam_tag *tag, const char *file, unsigned line);

/* Returns the oldest live object. NULL iff there is none. */
loam_tag *lm_guard_last(const loam_entry *owner);
/* Returns the next newer live object. NULL iff tag is the newest. */
loam_tag *lm_guard_newer(const loam_entry *owner, const loam_tag *tag);

/* Frees all live objects at once (reset, destroy): fills them with 0xDD. */
void lm_guard_drop_all(loam_entry *owner);

/* Writes one line for each live object, at most `most` lines, and a line on how many more there
 * are. Returns the number of live objects. */
size_t lm_guard_leaks(const loam_entry *owner, size_t most);
/* Maximum number of lines on leaks when an allocator ends. */
enum { LM_LEAKS_MOST = 100 };

/* Checks the guards of every live object. Returns false after a report. */
bool lm_guard_check(const loam_entry *owner);

/* Checks that a freed object has not been written to since lm_guard_close; for allocators that keep
 * freed objects with their tags for a while. Returns false after a report. */
bool lm_guard_check_freed(const loam_entry *owner, const loam_tag *tag);

/* ---- Memory whose objects ended together: by reset, rewind, pop or release ----
 *
 *   first ... at          gone ... end        of a chunk that is cut from its start on
 *   │ in use  │ units ──> │ unknown │         a unit: a dead object, tag and guards; or 16 bytes
 *                                             of 0xDD
 *
 * The program must not write between `at`, where the next object begins, and `gone`. All addresses
 * are multiples of 16. `gone` is NULL or not above `at` if no memory is watched. */

/* Fills the memory between the objects in [from, to), all of them closed, which have ended. Returns
 * the new `gone`. */
char *lm_gone_bury(const loam_entry *owner, char *from, char *to, char *gone);
/* Checks that [at, gone) is as it was left. Returns false after a report. */
bool lm_gone_check(const loam_entry *owner, const char *at, const char *gone);
/* Takes [at, end) for an object at p or behind it, and reports what was written there since.
 * Returns the new `gone`. */
char *lm_gone_take(const loam_entry *owner, char *at, char *p, char *end, char *gone);
/* Notes that the last object has become shorter by [from, to). Returns the new `gone`. */
char *lm_gone_cut(char *from, char *to, char *gone);

/* ---- Blocks with a cache for each thread (hosted/shared_blocks.c) ----
 *
 * A chain is a list of blocks linked by their first words. It ends with NULL, or with
 * lm_blocks_bottom, whose link is NULL. Unless a comment says otherwise the caller holds the
 * instance's lock. */

/* An instance of loam/blocks.h. */
struct loam_blocks;

/* What lies below the last block of a list in a thread's cache. Never written. */
extern LM_HIDDEN void *lm_blocks_bottom[2];

/* Returns the number of blocks of that class that threads exchange at a time. */
uint32_t lm_blocks_batch(const struct loam_blocks *blocks, unsigned class_index);
/* Returns a chain of blocks: one that lm_blocks_give_batch got, with *count 0 (the second word of
 * its first block has changed), or a chain of *count blocks, at most a batch. NULL iff there is no
 * memory. */
void *lm_blocks_take_chain(struct loam_blocks *blocks, unsigned class_index, uint32_t *count);
/* Takes a chain that is a whole batch. */
void lm_blocks_give_batch(struct loam_blocks *blocks, unsigned class_index, void *chain);
/* Takes a chain of any length. */
void lm_blocks_give_chain(struct loam_blocks *blocks, unsigned class_index, void *chain);

#if LM_HOSTED
/* The kind of hosted/shared_pool.c; its entries are those of the pools inside. */
extern LM_HIDDEN const loam_kind lm_shared_pool_kind;

/* Gives the instance a lock, and caches if wants_caches and there is a place for them. */
void lm_blocks_threads_begin(struct loam_blocks *blocks, bool wants_caches);
/* Ends the caches of the instance, and forgets their blocks. */
void lm_blocks_threads_end(struct loam_blocks *blocks);
/* Allocates from the calling thread's cache. The caller must not hold the lock. */
void *lm_blocks_threads_alloc(struct loam_blocks *blocks, unsigned class_index);
/* Frees to the calling thread's cache. The caller must not hold the lock. */
void lm_blocks_threads_free(struct loam_blocks *blocks, unsigned class_index, void *block);
/* Returns the blocks of the calling thread's cache to the instance. The caller must not hold the
 * lock. */
void lm_blocks_threads_flush(struct loam_blocks *blocks);
/* Forgets the blocks in the caches of all threads. */
void lm_blocks_threads_forget(struct loam_blocks *blocks);
/* Returns the number of blocks of that class in the calling thread's cache. */
size_t lm_blocks_threads_cached(const struct loam_blocks *blocks, unsigned class_index);
#endif

/* ---- Stacks: hosted/thread_stack.c has one for each thread ---- */

#if LM_HOSTED
extern LM_HIDDEN const loam_kind lm_stack_kind;
struct loam_stack;
/* Sets up the calling thread's stack. Returns false iff stack is another one, or the set-up
 * fails. */
bool lm_thread_stack_begin(struct loam_stack *stack);
#endif

/* ---- Reports: "loam: <kind> <name>: <what> (<...>, thread N)" ---- */

/* Reports a mistake. what: formatted as by lm_misuse, without the bracket. file and line: place of
 * the call; file may be NULL. */
void lm_family_misuse(const loam_entry *entry, const char *file, unsigned line, const char *what,
                      ...) LM_PRINTF(4, 5);

#endif
