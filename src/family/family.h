/* family.h: what the special-purpose allocators share; the one header of this folder that outsiders
 * include.
 *
 *   pool.c blocks.c region.c stack.c  allocators
 *   guard.c                           objects of checked allocators: tag, guards, live list
 *   registry.c                        the list of named and checked allocators
 *   source.c                          buffer, limit, count
 *
 * Everything here is freestanding: memory comes from a loam_source, errors go out by base's
 * reports, and memcpy and memset are all of libc that is called. src/hosted/ adds what needs an
 * operating system.
 *
 * One rule makes checks free where they are off: the inline paths in the public headers compare
 * with hot words (a region's end, a pool's free list) that are set so in a checked allocator that
 * they always miss, and the out-of-line path does the rest.
 */
#ifndef LM_FAMILY_H
#define LM_FAMILY_H

#include "base/base.h"
#include "loam/registry.h"
#include "loam/source.h"

#include "family/meter.h"

/* What control calls return, negative errno values, also where there is no <errno.h>. */
enum { LM_ENOMEM = -12, LM_EINVAL = -22 };

/* What makes one kind of allocator differ from another, for the registry. */
typedef struct loam_kind {
    const char *name;
    void (*usage)(const struct loam_entry *entry, loam_usage *usage); /* all but kind and name */
    bool (*check)(const struct loam_entry *entry);                    /* false after a report */
    /* Its objects stay as they are from hold(entry, true) to hold(entry, false). NULL: one thread
     * at a time uses it. */
    void (*hold)(const struct loam_entry *entry, bool held);
} loam_kind;

/* ---- Registry ---- */

/* Sets *entry up, and puts it into the list iff it has a name or `checked`. name may be NULL; it is
 * not copied. */
void lm_entry_init(loam_entry *entry, const loam_kind *kind, const char *name, bool checked);
void lm_entry_deinit(loam_entry *entry);
/* Ends a checked allocator that leaves a tombstone: its kind and name stay for reports. The name is
 * copied to `name`, of `bytes` bytes, because the program's text may be gone by then. */
void lm_entry_bury(loam_entry *entry, char *name, size_t bytes);
/* A checked allocator that lived in memory of its source has ended; its tombstone is `bytes` bytes
 * at `stone`. true iff that memory is kept for a while, so that the tombstone can be read; false:
 * it is to be put back. */
bool lm_entry_keep(const loam_source *source, void *memory, size_t got, const void *stone,
                   size_t bytes);
/* Reports a call of an allocator that has ended; file may be NULL. Returns true. */
bool lm_entry_ended(const loam_entry *entry, const char *doing, const char *file, unsigned line);
/* Whether it is in the list, for its own allocator. Relaxed: neighbours write the link under LIST,
 * and never make it NULL or cease to. */
LM_INLINE bool lm_entry_linked(const loam_entry *entry) {
    return lm_load_relaxed(&entry->link) != NULL;
}
/* What reports call it: its name, or "(unnamed)". */
const char *lm_entry_name(const loam_entry *entry);

/* The first in the list of which holds(entry, p) is true; NULL iff there is none. */
const loam_entry *lm_entry_find(bool (*holds)(const loam_entry *entry, const void *p),
                                const void *p);
/* Whether p lies where objects of this checked allocator are, or have been. */
bool lm_entry_has(const loam_entry *entry, const void *p);
/* Whether it is in the list. */
bool lm_entry_listed(const loam_entry *entry);

/* Where memory comes from for who names no source; NULL iff there is no operating system. */
LM_INLINE loam_source *lm_default_source(void) {
#if LM_HOSTED
    return loam_pages();
#else
    return NULL;
#endif
}

/* Whether a source may have so many bytes at that alignment, now or later: false for a buffer that
 * is too short, a limit that is too low, and what stands on these. What is no source of loam's is
 * believed, but for contiguous ones, which are tried. */
bool lm_source_may(loam_source *source, size_t bytes, size_t align);

/* What copies of memory and text have in common, whatever they are allocated from: `copy` is NULL
 * where there was no memory. */
LM_INLINE void *lm_copy(void *copy, const void *from, size_t bytes) {
    return copy != NULL && bytes != 0 ? memcpy(copy, from, bytes) : copy;
}
LM_INLINE size_t lm_text_length(const char *from, size_t most) {
    size_t length = 0;
    while (length < most && from[length] != '\0') length++;
    return length;
}
LM_INLINE char *lm_copy_text(void *copy, const char *from, size_t length) {
    char *text = (char *)copy;
    if (text == NULL) return NULL;
    memcpy(text, from, length);
    text[length] = '\0';
    return text;
}

/* Whether an allocator with these flags is to be a checked one: asked for, or loam's own debug
 * build. */
LM_INLINE bool lm_is_checked(unsigned flags) { return LOAM_DEBUG || (flags & LOAM_CHECK) != 0; }

/* Whether that memory's end is no address: such a size is a mistake. */
LM_INLINE bool lm_passes_the_end(const void *memory, size_t bytes) {
    return bytes > UINTPTR_MAX - (uintptr_t)memory;
}

/* ---- The meter (loam/meter.h): what an allocator's slow functions say, as LM_METER(got(...));
 * base/meter.h ----
 *
 * At level 0 nothing of this is compiled. Calls for an entry that has no kind yet, or whose life is
 * over, count nothing, so that sources may be asked before an entry begins, and given back to after
 * it has ended. */
#if LOAM_METER
/* After set-up: what it holds already, in so many requests. Not needed where these are 0. */
void lm_meter_began(const loam_entry *entry, size_t held_bytes, size_t requests);
/* The source gave a chunk, or took one back: the call is a slow one. (For other long work:
 * slow().) */
void lm_meter_got(const loam_entry *entry, size_t bytes);
void lm_meter_put(const loam_entry *entry, size_t bytes);
/* Mark number `depth` (0: the oldest) was made; was rewound to. */
void lm_meter_mark(const loam_entry *entry, size_t depth);
void lm_meter_rewind(const loam_entry *entry, size_t depth);
/* The same of an allocator that pushes frames, by loam_meter_push, and has no numbers for its
 * marks: their places. */
void lm_meter_mark_at(const loam_entry *entry, const void *place);
void lm_meter_rewind_to(const loam_entry *entry, const void *place);
/* A frame has ended otherwise than by a pop that says so. */
#define lm_meter_pop loam_meter_pop
/* Of what is told no size when it is freed: so many bytes of objects are gone together; so many
 * objects were freed by threads that could not count them, with `bytes` as above. */
void lm_meter_less(const loam_entry *entry, size_t bytes);
void lm_meter_freed(const loam_entry *entry, size_t objects);
/* All objects are gone; the allocator is. lm_entry_deinit says the second. */
void lm_meter_drop(const loam_entry *entry);
void lm_meter_over(const loam_entry *entry);
#endif

/* ---- Tools: AddressSanitizer and Valgrind see objects, not chunks; ThreadSanitizer sees who has
 * them (tool.c) ---- */

/* Set by the first question: asking Valgrind takes as long as an allocation. */
enum { LM_TOOL_UNKNOWN, LM_TOOL_NONE, LM_TOOL_SOME };
extern LM_HIDDEN unsigned char lm_tool_state; /* atomic */

bool lm_tool_watches_now(void);
/* Whether Memcheck does, which sees every access, also of code that was not compiled for a tool. */
bool lm_tool_sees_all(void);
/* Whether one of them watches this process. */
LM_INLINE bool lm_tool_watches(void) {
    return LM_UNLIKELY(lm_load_relaxed(&lm_tool_state) != LM_TOOL_NONE) && lm_tool_watches_now();
}

void lm_tool_hide_now(const void *p, size_t bytes);
void lm_tool_show_undefined_now(const void *p, size_t bytes);
void lm_tool_show_now(const void *p, size_t bytes);
void lm_tool_pause_now(void);
void lm_tool_resume_now(void);

/* [p, p+bytes) must not be touched by the program; may be, and is undefined; may be, as it is.
 * Nothing happens where no tool watches. A chunk is shown as a whole before it goes back to its
 * source: others live there next. */
LM_INLINE void lm_tool_hide(const void *p, size_t bytes) {
    if (LM_UNLIKELY(lm_load_relaxed(&lm_tool_state) != LM_TOOL_NONE)) lm_tool_hide_now(p, bytes);
}
LM_INLINE void lm_tool_show_undefined(const void *p, size_t bytes) {
    if (LM_UNLIKELY(lm_load_relaxed(&lm_tool_state) != LM_TOOL_NONE))
        lm_tool_show_undefined_now(p, bytes);
}
LM_INLINE void lm_tool_show(const void *p, size_t bytes) {
    if (LM_UNLIKELY(lm_load_relaxed(&lm_tool_state) != LM_TOOL_NONE)) lm_tool_show_now(p, bytes);
}

void lm_tool_give_now(const void *p, size_t bytes);
void lm_tool_take_now(const void *p, size_t bytes);

/* The calling thread gives [p, p+bytes) up; some thread, perhaps another, takes memory in there.
 * ThreadSanitizer sees no lock of a library that was not compiled with it: so whatever happened
 * before the give happens before what follows the take. Nothing happens where no tool watches. */
LM_INLINE void lm_tool_give(const void *p, size_t bytes) {
    if (LM_UNLIKELY(lm_load_relaxed(&lm_tool_state) != LM_TOOL_NONE)) lm_tool_give_now(p, bytes);
}
LM_INLINE void lm_tool_take(const void *p, size_t bytes) {
    if (LM_UNLIKELY(lm_load_relaxed(&lm_tool_state) != LM_TOOL_NONE)) lm_tool_take_now(p, bytes);
}

/* Between these the calling thread may touch what is hidden, links of free objects: Memcheck
 * watches the library as it does the program. (AddressSanitizer watches what was compiled with it:
 * LM_READS_ANYTHING.) They nest. */
LM_INLINE void lm_tool_pause(void) {
    if (LM_UNLIKELY(lm_load_relaxed(&lm_tool_state) == LM_TOOL_SOME)) lm_tool_pause_now();
}
LM_INLINE void lm_tool_resume(void) {
    if (LM_UNLIKELY(lm_load_relaxed(&lm_tool_state) == LM_TOOL_SOME)) lm_tool_resume_now();
}

/* ---- Guards: an object of a checked allocator (guard.c) ----
 *
 *   raw                                  object
 *   │ (padding up to align) │ loam_tag │ bytes │ tail: 16 guard bytes, and what rounding left
 *
 * The tag knows size, place and owner; its last 16 bytes are guard bytes as well. */

enum { LM_GUARD_BYTES = 16 };

/* What fills guards, new objects and freed ones. The guard byte must not be the heap's fence byte
 * (0xFB, checks/fence.c): a guard may end where a chunk ends, and the debug build's free of the
 * heap's next object reads eight fence bytes there as the mark of an underflow. */
enum { LM_GUARD_BYTE = 0xE7, LM_FRESH_BYTE = 0xA5, LM_DEAD_BYTE = 0xDD };

typedef struct loam_tag {
    struct loam_tag *next, *prev; /* the owner's live list; of the newest: the oldest */
    const loam_entry *owner;
    const char *file, *freed_file;
    unsigned line : 26, align_log2 : 6; /* align_log2: of the alignment as requested */
    unsigned freed_line;
    size_t bytes;     /* as requested */
    size_t raw_bytes; /* the whole, from raw on */
    void *raw;
    uintptr_t state; /* live or freed, mixed with its address; anything else: no object of ours */
    LM_ALIGNED(16) unsigned char guard[LM_GUARD_BYTES];
} loam_tag;

/* Bytes in front of an object of that alignment, from a raw block of alignment max(align, 16); and
 * all that one of so many bytes needs. 0 iff that overflows. */
size_t lm_guard_head(size_t align);
size_t lm_guard_whole(size_t bytes, size_t align);

/* Makes the raw block (lm_guard_whole bytes or more, raw_bytes) an object, filled with 0xA5 (its
 * first 64 KiB), and returns it. */
void *lm_guard_open(loam_entry *owner, void *raw, size_t raw_bytes, size_t bytes, size_t align,
                    const char *file, unsigned line);

/* A live object changes its size in place; raw_bytes must hold its head, bytes, and LM_GUARD_BYTES
 * behind. */
void lm_guard_resize(loam_entry *owner, loam_tag *tag, size_t raw_bytes, size_t bytes);

/* The tag of a live object of `owner` whose guards are whole; NULL after a report: foreign pointer,
 * double free, another allocator's object, overflow, underflow. doing: "free", "realloc", ... */
loam_tag *lm_guard_find(const loam_entry *owner, const void *object, const char *doing,
                        const char *file, unsigned line);
/* Finds the tag as lm_guard_find does, and returns it after a report on broken guards as well: for
 * frees that must count. */
loam_tag *lm_guard_find_broken(const loam_entry *owner, const void *object, const char *doing,
                               const char *file, unsigned line);

/* A live object of that tag is freed: off the live list, its bytes (the first 64 KiB) poisoned with
 * 0xDD. Returns the raw block. */
void *lm_guard_close(loam_entry *owner, loam_tag *tag, const char *file, unsigned line);

/* Live objects are listed from the newest on. The oldest one; NULL iff there is none. The next
 * newer one; NULL iff tag is the newest. */
loam_tag *lm_guard_last(const loam_entry *owner);
loam_tag *lm_guard_newer(const loam_entry *owner, const loam_tag *tag);

/* All live objects are gone at once (reset, destroy): poisons them. */
void lm_guard_drop_all(loam_entry *owner);

/* One line for each live object, at most `most` lines, and one on how many more there are. Returns
 * how many there are. */
size_t lm_guard_leaks(const loam_entry *owner, size_t most);
enum { LM_LEAKS_MOST = 100 }; /* at an allocator's end */

/* Guards of every live object. false after a report. */
bool lm_guard_check(const loam_entry *owner);

/* Whether a freed object, as lm_guard_close left it, has not been written to; false after a report.
 * For allocators that keep freed objects for a while, tag and all. */
bool lm_guard_check_freed(const loam_entry *owner, const loam_tag *tag);

/* ---- Memory whose objects ended together: by reset, rewind, pop or release ----
 *
 *   first ... at          gone ... end        of a chunk that is cut from its start on
 *   │ in use  │ units ──> │ unknown │         a unit: a dead object, tag and guards; or 16 bytes of 0xDD
 *
 * Between `at`, where the next object begins, and `gone` nothing may be written to. All addresses
 * are multiples of 16; `gone` is NULL or not above `at` where nothing is watched. */

/* Objects in [from, to), all of them closed, have ended: fills what is between them. Returns the
 * new `gone`. */
char *lm_gone_bury(const loam_entry *owner, char *from, char *to, char *gone);
/* Whether [at, gone) is as it was left. false after a report. */
bool lm_gone_check(const loam_entry *owner, const char *at, const char *gone);
/* [at, end) is used from now on, by an object at p or behind it: reports what was written there
 * since. Returns the new `gone`. */
char *lm_gone_take(const loam_entry *owner, char *at, char *p, char *end, char *gone);
/* The last object has become shorter: [from, to) was its end. Returns the new `gone`. */
char *lm_gone_cut(char *from, char *to, char *gone);

/* ---- Blocks with a cache for each thread: hosted/shared_blocks.c does what blocks.c cannot ----
 *
 * A chain is blocks linked by their first words; at its end is NULL, or lm_blocks_bottom, whose
 * link is NULL. The instance's lock is to be held where nothing else is said. */

struct loam_blocks;

/* Below the last block of a list in a thread's cache. Never written. */
extern LM_HIDDEN void *lm_blocks_bottom[2];

/* Blocks that are exchanged at a time, for that class. */
uint32_t lm_blocks_batch(const struct loam_blocks *blocks, unsigned class_index);
/* A chain as lm_blocks_give_batch got it, but for the second word of its first block, *count is 0
 * then; or one of 1 to a batch of blocks, *count of them. NULL iff there is no memory. */
void *lm_blocks_take_chain(struct loam_blocks *blocks, unsigned class_index, uint32_t *count);
/* A chain of a whole batch; a chain of any length. */
void lm_blocks_give_batch(struct loam_blocks *blocks, unsigned class_index, void *chain);
void lm_blocks_give_chain(struct loam_blocks *blocks, unsigned class_index, void *chain);

#if LM_HOSTED
/* Of hosted/shared_pool.c, whose entries are those of the pools inside. */
extern LM_HIDDEN const loam_kind lm_shared_pool_kind;

/* Gives the instance a lock, and caches if it wants them and there is a place. */
void lm_blocks_threads_begin(struct loam_blocks *blocks, bool wants_caches);
/* Its caches are gone, and their blocks with them. */
void lm_blocks_threads_end(struct loam_blocks *blocks);
/* From and to the calling thread's cache, without the lock. */
void *lm_blocks_threads_alloc(struct loam_blocks *blocks, unsigned class_index);
void lm_blocks_threads_free(struct loam_blocks *blocks, unsigned class_index, void *block);
/* Blocks of the calling thread's cache go back, without the lock; those of all threads are
 * forgotten. */
void lm_blocks_threads_flush(struct loam_blocks *blocks);
void lm_blocks_threads_forget(struct loam_blocks *blocks);
/* Blocks of that class in the calling thread's cache. */
size_t lm_blocks_threads_cached(const struct loam_blocks *blocks, unsigned class_index);
#endif

/* ---- Stacks: hosted/thread_stack.c has one for each thread ---- */

#if LM_HOSTED
extern LM_HIDDEN const loam_kind lm_stack_kind;
struct loam_stack;
/* Sets up the calling thread's stack; false iff this is none, or that fails. */
bool lm_thread_stack_begin(struct loam_stack *stack);
#endif

/* ---- Reports: "loam: <kind> <name>: <what> (<...>, thread N)" ---- */

/* what: formatted as by lm_misuse, without the bracket; place: of the call, file may be NULL. */
void lm_family_misuse(const loam_entry *entry, const char *file, unsigned line, const char *what,
                      ...) LM_PRINTF(4, 5);

#endif
