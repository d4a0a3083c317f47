/* loam/stack.h: objects of any size that live as long as the frame they were allocated in.
 *
 * Choose it for memory that a function needs until it returns: push a frame, allocate, pop the
 * frame. An allocation is an addition and a compare, and so is a pop, however many objects it ends.
 * Each thread has a stack, and LOAM_SCOPE makes a frame that ends with the block it stands in.
 * Choose region.h for objects that are passed on, and ring.h for frames that do not end in reverse
 * order. A stack cannot free single objects except the last one. One thread at a time uses it.
 *
 *   first ──> block ──> current block ──> free ──> free      each at least 64 KiB, and 64 requests
 *                       │                                    of mean size
 *     [ header │ object │ frame │ object │ object │ free ....... ]
 *                         │ older frame            ^ at         ^ end
 *
 * A frame is two words in the stack itself. All blocks up to the current one are in use, all behind
 * it are free and are used again. A frame that needs another block moves on to it for good: the
 * current frame remembers the block after inner frames ended, so that the next inner frame finds it
 * there. Older frames that have no memory left for a request of mean size move on with it. A search
 * for a block destroys free blocks that are too small, but no more bytes of them than the request
 * has. When the outermost frame ends, memory that recent rounds did not need goes back to the
 * source.
 *
 * Alignment concerns an object's address alone; its size is not rounded. realloc and free need the
 * size.
 *
 * Threads: one at a time. A fork's child has the forking thread's stacks as they were.
 *
 * Invariants: at <= end, and end is a multiple of 16. Both are NULL where inline paths must not be
 * taken: before the first block, in a sealed frame, with LOAM_CHECK, under AddressSanitizer, and
 * where the base is empty but not all free memory has gone back. What a frame remembers lies in a
 * block that is in use. loam_stack_check verifies them.
 *
 * Source: Intersec's articles on their allocators, part 6: the stack allocator. */
#ifndef LOAM_STACK_H
#define LOAM_STACK_H

#include "loam/names_begin.h"

#include "loam/meter.h"
#include "loam/registry.h"
#include "loam/source.h"

#include <stdbool.h>
#include <stdint.h>

LOAM_BEGIN

/** Options of a stack. A member that is 0 selects its default. Over a contiguous source
 * (loam_reserve, loam_buffer) the block grows in place, as long as no other allocator takes from
 * the source: then there is one block and nothing to search. */
typedef struct loam_stack_options {
    /** Minimum size of a block in bytes, with its header; at least 256. Default: 64 KiB. */
    size_t block_bytes;
    /** Bytes that the end of the outermost frame keeps at least, if the stack has them. Default:
     * 0. */
    size_t keep_bytes;
    unsigned flags; /**< LOAM_CHECK */
    /** Name for the registry and reports, or NULL. It is not copied. */
    const char *name;
} loam_stack_options;

/** A frame's two words in the stack. Private. */
typedef struct loam_stack_record {
    struct loam_stack_record *older; /**< the older frame's record, with marks in the low bits */
    /** Position at which the older frame goes on, iff marked; else that is this record's
     * address. */
    char *moved;
} loam_stack_record;

/** The free part of a stack's current block. Private. */
typedef struct loam_stack_room {
    char *at, *end; /**< first free byte; end of the block */
} loam_stack_room;

/** A stack. It must not move. Members are private. The fast paths use the first 64 bytes. */
typedef struct loam_stack {
    loam_stack_room room; /**< both NULL where inline paths must not be taken */
    /** Record of the newest frame. NULL: no frame, or pops must not take the inline path. */
    loam_stack_record *newest;
    /** What room holds where inline paths must not be taken. */
    loam_stack_room hidden;
    loam_stack_record *hidden_newest;      /**< what newest holds in a checked or watched stack */
    struct loam_stack_block *block;        /**< the current block */
    struct loam_stack_block *first, *last; /**< the list of blocks */
    loam_source *source;                   /**< NULL: a thread's stack before its first use */
    size_t sum, count;                     /**< sum and number of sampled requests: their mean */
    size_t block_bytes, keep_bytes;        /**< the options, with defaults */
    /** Bytes held now and at the peak; number of chunks obtained so far. */
    size_t held_bytes, peak_bytes, requests;
    size_t used_bytes; /**< bytes of blocks up to the current one */
    /** Peak of used_bytes since the base was empty; decaying average of these peaks. */
    size_t round_bytes, average_bytes;
    struct loam_tag *dead; /**< freed objects of a checked stack */
    /** Why inline paths miss; room is in use; the newest frame is sealed; bytes of redzone. */
    unsigned char mode, open, sealed, redzone;
    /** The stack's entry in the registry. */
    loam_entry entry;
} loam_stack;

/** A frame, from push to pop. Members are private. */
typedef struct loam_stack_frame {
    loam_stack_record *record; /**< NULL iff there was no memory for it */
    loam_stack_record *older;  /**< record of the older frame */
    char *at, *end;            /**< the room before the push */
} loam_stack_frame;

/** A position within a frame, to rewind to. Members are private. */
typedef struct loam_stack_mark {
    loam_stack_record *record; /**< record of the frame */
    char *at;                  /**< first free byte; NULL: an empty base */
} loam_stack_mark;

/* ---- Set-up and end ---- */

/** Does what loam_stack_init does, with more_flags besides options->flags. */
LOAM_API LOAM_NODISCARD int loam_stack_init_as(loam_stack *stack, loam_source *source,
                                               const loam_stack_options *options,
                                               unsigned more_flags) LOAM_NOEXCEPT;
/** Sets a stack up in the caller's storage. The first frame or object takes the first memory.
 * source: NULL selects loam_pages(); a freestanding build has no default and returns -EINVAL.
 * options: NULL selects all defaults. Returns 0, or -EINVAL iff block_bytes is less than 256 or
 * more than PTRDIFF_MAX. *stack must not move, and source must outlive it. */
LOAM_INLINE int loam_stack_init(loam_stack *stack, loam_source *source,
                                const loam_stack_options *options) {
    return loam_stack_init_as(stack, source, options, LOAM_CHECKED ? LOAM_CHECK : 0);
}
/** Ends all frames and gives everything back. It lists no leaks: objects end with their frame. The
 * stack may be set up again. O(blocks); in a checked stack O(objects). */
LOAM_API void loam_stack_deinit(loam_stack *stack) LOAM_NOEXCEPT;

/* ---- Called by the inline functions where they cannot serve ---- */

/** What loam_stack_alloc_slow returns: the object, and the new value of room.at. The inline
 * functions store `at` and newest once more, so that all paths meet in one store, and loops keep
 * them in registers (docs/decisions/0017-loops-keep-the-position.md). Private. */
typedef struct loam_stack_made {
    void *object; /**< the object, or NULL */
    char *at;     /**< the new value of room.at */
} loam_stack_made;
/** What loam_stack_push_slow returns. Private. */
typedef struct loam_stack_pushed {
    loam_stack_frame frame;    /**< the frame */
    char *at;                  /**< the new value of room.at */
    loam_stack_record *newest; /**< the new value of newest */
} loam_stack_pushed;
/** What loam_stack_pop_slow returns. Private. */
typedef struct loam_stack_popped {
    char *at;                  /**< the new value of room.at */
    loam_stack_record *newest; /**< the new value of newest */
} loam_stack_popped;

/** Allocates where the inline path cannot. Private. */
LOAM_API LOAM_COLD loam_stack_made loam_stack_alloc_slow(loam_stack *stack, size_t bytes,
                                                         size_t align, const char *file,
                                                         unsigned line) LOAM_NOEXCEPT;
/** Pushes a frame where the inline path cannot. Private. */
LOAM_API LOAM_COLD loam_stack_pushed loam_stack_push_slow(loam_stack *stack, const char *file,
                                                          unsigned line) LOAM_NOEXCEPT;
/** Pops a frame where the inline path cannot. Private. */
LOAM_API LOAM_COLD loam_stack_popped loam_stack_pop_slow(loam_stack *stack,
                                                         loam_stack_record *record, char *at,
                                                         const char *file,
                                                         unsigned line) LOAM_NOEXCEPT;
/** Frees where the inline path cannot. Returns the new value of room.at. Private. */
LOAM_API LOAM_COLD char *loam_stack_free_slow(loam_stack *stack, void *p, size_t bytes,
                                              const char *file, unsigned line) LOAM_NOEXCEPT;
/** Resizes where the inline path cannot. Private. */
LOAM_API LOAM_COLD loam_stack_made loam_stack_realloc_slow(loam_stack *stack, void *p,
                                                           size_t old_bytes, size_t bytes,
                                                           size_t align, const char *file,
                                                           unsigned line) LOAM_NOEXCEPT;

/* ---- Frames ---- */

/** Alignment of plain allocations in bytes. */
#define LOAM_STACK_ALIGN 16

/** Returns x rounded up to align, a power of two. Private. */
LOAM_INLINE uintptr_t loam_stack_round(uintptr_t x, size_t align) {
    return (x + align - 1) & ~(uintptr_t)(align - 1);
}

/** Begins a frame and returns it: objects allocated from now on end with its pop. If there is no
 * memory for a frame, objects belong to the older frame, and the pop does nothing:
 * loam_stack_pushed_it returns false. About ten instructions; a call if the block is full, and for
 * the outermost frame while there are free blocks. */
LOAM_INLINE LOAM_NODISCARD loam_stack_frame loam_stack_push_at(loam_stack *stack, const char *file,
                                                               unsigned line) {
    char *at = stack->room.at, *end = stack->room.end;
    loam_stack_record *older = stack->newest;
    uintptr_t place = loam_stack_round((uintptr_t)at, sizeof(loam_stack_record));
    loam_stack_record *record = (loam_stack_record *)place, *newest = record;
    char *next = (char *)(place + sizeof(loam_stack_record));
    if (LOAM_UNLIKELY((uintptr_t)next >= (uintptr_t)end)) {
        loam_stack_pushed pushed = loam_stack_push_slow(stack, file, line);
        record = pushed.frame.record;
        older = pushed.frame.older;
        at = pushed.frame.at;
        end = pushed.frame.end;
        next = pushed.at;
        newest = pushed.newest;
    } else {
        record->older = older;
    }
    stack->newest = newest;
    stack->room.at = next;
    loam_stack_frame frame = {record, older, at, end};
    return frame;
}
/** Calls loam_stack_push_at with the caller's file and line. */
#define loam_stack_push(stack) loam_stack_push_at(stack, LOAM_HERE)

/** Returns whether loam_stack_push had memory for the frame. */
LOAM_INLINE bool loam_stack_pushed_it(const loam_stack_frame *frame) {
    return frame->record != NULL;
}

/** Ends the newest frame, and all objects in it. Popping another one is a mistake that every stack
 * reports; it does nothing then. (A stale copy of a frame goes unnoticed if a new frame stands at
 * its address.) About eight instructions; a call if the frame took another block. In a checked
 * stack O(objects that end). */
LOAM_INLINE void loam_stack_pop_at(loam_stack *stack, loam_stack_frame frame, const char *file,
                                   unsigned line) {
    char *at = frame.at;
    loam_stack_record *newest = frame.older;
    if (LOAM_UNLIKELY(stack->newest != frame.record) ||
        LOAM_UNLIKELY(stack->room.end != frame.end)) {
        loam_stack_popped popped = loam_stack_pop_slow(stack, frame.record, at, file, line);
        at = popped.at;
        newest = popped.newest;
    }
    stack->room.at = at;
    stack->newest = newest;
}
/** Calls loam_stack_pop_at with the caller's file and line. */
#define loam_stack_pop(stack, frame) loam_stack_pop_at(stack, frame, LOAM_HERE)

/** Ends all frames that are newer than *frame, which stays open; also if there was no memory for
 * it. Call it where longjmp leads, past pops that will not come. To unwind to a frame that has
 * ended is a mistake that every stack reports; it does nothing then. O(frames that end). */
LOAM_API void loam_stack_unwind_at(loam_stack *stack, const loam_stack_frame *frame,
                                   const char *file, unsigned line) LOAM_NOEXCEPT;
/** Calls loam_stack_unwind_at with the caller's file and line. */
#define loam_stack_unwind(stack, frame) loam_stack_unwind_at(stack, frame, LOAM_HERE)

/** Seals the newest frame, or the base, until loam_stack_unseal or the frame's pop. An allocation
 * in a sealed frame is a mistake, which every stack reports: NULL. Newer frames may allocate. To
 * seal a sealed frame does nothing. */
LOAM_API void loam_stack_seal(loam_stack *stack) LOAM_NOEXCEPT;
/** Lifts the seal of the newest frame, or of the base. Without a seal it does nothing. */
LOAM_API void loam_stack_unseal(loam_stack *stack) LOAM_NOEXCEPT;

/** Returns a mark of the newest frame's current position. O(1); nothing is allocated. */
LOAM_API loam_stack_mark loam_stack_mark_here(loam_stack *stack) LOAM_NOEXCEPT;
/** Ends what was allocated in the frame since the mark. The mark may be used again. To use a mark
 * in another frame, with newer frames open, or after a rewind to an older mark, is a mistake that
 * every stack reports where it can tell, and does nothing. O(blocks that go); in a checked stack
 * O(objects). */
LOAM_API void loam_stack_rewind_at(loam_stack *stack, const loam_stack_mark *mark, const char *file,
                                   unsigned line) LOAM_NOEXCEPT;
/** Calls loam_stack_rewind_at with the caller's file and line. */
#define loam_stack_rewind(stack, mark) loam_stack_rewind_at(stack, mark, LOAM_HERE)

/* ---- Objects ---- */

/** Allocates `bytes` bytes at a multiple of align, a power of two. The object belongs to the newest
 * frame, or to the base, which lives until reset and deinit. A constant align of up to 16 folds
 * into the inline path. For 0 bytes it returns an address that may be the next object's as well.
 * NULL iff there is no memory, or bytes is more than PTRDIFF_MAX less 16 KiB and 2 * align, or
 * align is no power of two, or the frame is sealed. Seven or eight instructions for a constant
 * size, nine for any; a new block costs more. */
LOAM_INLINE LOAM_MALLOC LOAM_SIZE(2) void *loam_stack_alloc_aligned_at(loam_stack *stack,
                                                                       size_t bytes, size_t align,
                                                                       const char *file,
                                                                       unsigned line) {
    if (__builtin_constant_p(align) && align <= LOAM_STACK_ALIGN && (align & (align - 1)) == 0 &&
        align != 0) {
        /* end is a multiple of align, so that aligning cannot pass it. If align divides the size,
         * the next allocation waits for two instructions only. */
        uintptr_t p, next = (uintptr_t)stack->room.at;
        bool fits;
        if (__builtin_constant_p(bytes) && bytes < LOAM_SOURCE_TOP - LOAM_STACK_ALIGN) {
            if (bytes % align == 0) {
                next = loam_stack_round(next + bytes, align);
                p = next - bytes;
            } else {
                p = loam_stack_round(next, align);
                next = p + bytes;
            }
            fits = next < (uintptr_t)stack->room.end;
        } else {
            p = loam_stack_round(next, align);
            fits = bytes < (uintptr_t)stack->room.end - p;
            next = p + bytes;
        }
        if (LOAM_UNLIKELY(!fits)) {
            loam_stack_made made = loam_stack_alloc_slow(stack, bytes, align, file, line);
            if (made.object == NULL) return NULL;
            p = (uintptr_t)made.object;
            next = (uintptr_t)made.at;
        } else if (p == 0) {
            /* A NULL has returned already: code behind this need not compare again. */
            __builtin_unreachable();
        }
        stack->room.at = (char *)next;
        return (void *)p;
    }
    return loam_stack_alloc_slow(stack, bytes, align, file, line).object;
}
/** Calls loam_stack_alloc_aligned_at with the caller's file and line. */
#define loam_stack_alloc_aligned(stack, bytes, align) \
    loam_stack_alloc_aligned_at(stack, bytes, align, LOAM_HERE)

/** Allocates as loam_stack_alloc_aligned_at does, at a multiple of 16. */
LOAM_INLINE LOAM_MALLOC LOAM_SIZE(2) void *loam_stack_alloc_at(loam_stack *stack, size_t bytes,
                                                               const char *file, unsigned line) {
    return loam_stack_alloc_aligned_at(stack, bytes, LOAM_STACK_ALIGN, file, line);
}
/** Calls loam_stack_alloc_at with the caller's file and line. */
#define loam_stack_alloc(stack, bytes) loam_stack_alloc_at(stack, bytes, LOAM_HERE)

/** Allocates count objects of `bytes` bytes each, zero, at a multiple of 16. NULL as
 * loam_stack_alloc, NULL as well iff the product overflows. */
LOAM_INLINE LOAM_MALLOC LOAM_SIZES(2, 3) void *loam_stack_calloc_at(loam_stack *stack, size_t count,
                                                                    size_t bytes, const char *file,
                                                                    unsigned line) {
    size_t all;
    if (__builtin_mul_overflow(count, bytes, &all)) return NULL;
    void *p = loam_stack_alloc_at(stack, all, file, line);
    return p != NULL ? __builtin_memset(p, 0, all) : NULL;
}
/** Calls loam_stack_calloc_at with the caller's file and line. */
#define loam_stack_calloc(stack, count, bytes) loam_stack_calloc_at(stack, count, bytes, LOAM_HERE)

/** Allocates an array of count elements, not zeroed, as loam_stack_alloc_aligned does. NULL as well
 * iff count * bytes overflows. */
LOAM_INLINE LOAM_MALLOC LOAM_SIZES(2, 3) void *loam_stack_array_at(loam_stack *stack, size_t count,
                                                                   size_t bytes, size_t align,
                                                                   const char *file,
                                                                   unsigned line) {
    size_t all;
    if (__builtin_mul_overflow(count, bytes, &all)) return NULL;
    return loam_stack_alloc_aligned_at(stack, all, align, file, line);
}

/** Allocates a T at its alignment, not initialised. NULL as loam_stack_alloc_aligned. */
#define LOAM_STACK_NEW(stack, T) \
    ((T *)loam_stack_alloc_aligned_at(stack, sizeof(T), __alignof__(T), LOAM_HERE))
/** Allocates count T's at their alignment, not initialised. NULL as loam_stack_array_at. */
#define LOAM_STACK_ARRAY(stack, T, count) \
    ((T *)loam_stack_array_at(stack, count, sizeof(T), __alignof__(T), LOAM_HERE))

/** Resizes an object of the newest frame and returns its address. align is that of its allocation.
 * In place iff it is the last one and fits, or gets smaller. Otherwise it moves, and its old memory
 * is lost until the frame ends. If p is NULL it allocates. Returns NULL as loam_stack_alloc_aligned
 * does; the object is unchanged then. An object of an older frame: a checked stack reports it, and
 * returns NULL; another stack moves it into the newest frame if it grows. */
LOAM_INLINE LOAM_NODISCARD void *loam_stack_realloc_aligned_at(loam_stack *stack, void *p,
                                                               size_t old_bytes, size_t bytes,
                                                               size_t align, const char *file,
                                                               unsigned line) {
    uintptr_t next = (uintptr_t)p + bytes;
    if (LOAM_UNLIKELY((uintptr_t)p + old_bytes != (uintptr_t)stack->room.at) ||
        LOAM_UNLIKELY(bytes >= (uintptr_t)stack->room.end - (uintptr_t)p)) {
        loam_stack_made made =
            loam_stack_realloc_slow(stack, p, old_bytes, bytes, align, file, line);
        if (made.object == NULL) return NULL;
        p = made.object;
        next = (uintptr_t)made.at;
    }
    stack->room.at = (char *)next;
    return p;
}
/** Calls loam_stack_realloc_aligned_at with the caller's file and line. */
#define loam_stack_realloc_aligned(stack, p, old_bytes, bytes, align) \
    loam_stack_realloc_aligned_at(stack, p, old_bytes, bytes, align, LOAM_HERE)

/** Resizes an object of loam_stack_alloc, as loam_stack_realloc_aligned_at does with alignment
 * 16. */
LOAM_INLINE LOAM_NODISCARD void *loam_stack_realloc_at(loam_stack *stack, void *p, size_t old_bytes,
                                                       size_t bytes, const char *file,
                                                       unsigned line) {
    return loam_stack_realloc_aligned_at(stack, p, old_bytes, bytes, LOAM_STACK_ALIGN, file, line);
}
/** Calls loam_stack_realloc_at with the caller's file and line. */
#define loam_stack_realloc(stack, p, old_bytes, bytes) \
    loam_stack_realloc_at(stack, p, old_bytes, bytes, LOAM_HERE)

/** Frees an object of the newest frame. NULL is allowed. The last object's memory is free at once;
 * other memory is lost until the frame ends. */
LOAM_INLINE void loam_stack_free_at(loam_stack *stack, void *p, size_t bytes, const char *file,
                                    unsigned line) {
    char *at = (char *)p;
    if (LOAM_UNLIKELY((uintptr_t)p + bytes != (uintptr_t)stack->room.at))
        at = loam_stack_free_slow(stack, p, bytes, file, line);
    stack->room.at = at;
}
/** Calls loam_stack_free_at with the caller's file and line. */
#define loam_stack_free(stack, p, bytes) loam_stack_free_at(stack, p, bytes, LOAM_HERE)

/** Returns a copy of `bytes` bytes, aligned to 16. NULL as for alloc. */
LOAM_API LOAM_NODISCARD void *loam_stack_memdup_at(loam_stack *stack, const void *from,
                                                   size_t bytes, const char *file,
                                                   unsigned line) LOAM_NOEXCEPT;
/** Returns a copy of a string with its zero, not aligned. NULL as for alloc. */
LOAM_API LOAM_NODISCARD char *loam_stack_strdup_at(loam_stack *stack, const char *from,
                                                   const char *file, unsigned line) LOAM_NOEXCEPT;
/** Returns a copy of at most `most` characters of a string, with a zero behind them, not aligned.
 * NULL as for alloc. */
LOAM_API LOAM_NODISCARD char *loam_stack_strndup_at(loam_stack *stack, const char *from,
                                                    size_t most, const char *file,
                                                    unsigned line) LOAM_NOEXCEPT;
/** Calls loam_stack_memdup_at with the caller's file and line. */
#define loam_stack_memdup(stack, from, bytes) loam_stack_memdup_at(stack, from, bytes, LOAM_HERE)
/** Calls loam_stack_strdup_at with the caller's file and line. */
#define loam_stack_strdup(stack, from) loam_stack_strdup_at(stack, from, LOAM_HERE)
/** Calls loam_stack_strndup_at with the caller's file and line. */
#define loam_stack_strndup(stack, from, most) loam_stack_strndup_at(stack, from, most, LOAM_HERE)

/* ---- The stack as a whole ---- */

/** Ends all frames and the base's objects. It keeps as much memory as recent rounds needed, or
 * keep_bytes if that is more. The need is a decaying average: three quarters of the value before
 * and a quarter of this round's, or this round's if it is more. The end of the outermost frame does
 * the same if nothing was allocated in the base. */
LOAM_API void loam_stack_reset(loam_stack *stack) LOAM_NOEXCEPT;
/** Gives back free blocks; all blocks if there is no frame and no object. Returns the number of
 * bytes given back. */
LOAM_API size_t loam_stack_trim(loam_stack *stack) LOAM_NOEXCEPT;

/** Returns whether p points into allocated memory of this stack. O(blocks). */
LOAM_API bool loam_stack_contains(const loam_stack *stack, const void *p) LOAM_NOEXCEPT;
/** The older name of loam_stack_contains. */
LOAM_INLINE bool loam_stack_is_from(const loam_stack *stack, const void *p) LOAM_NOEXCEPT {
    return loam_stack_contains(stack, p);
}
/** Fills *usage. used_bytes includes frames, and what alignment took. O(blocks); in a checked stack
 * O(objects). */
LOAM_API void loam_stack_usage(const loam_stack *stack, loam_usage *usage) LOAM_NOEXCEPT;
/** Verifies all invariants, and a checked stack's guards. Returns false after a report. O(blocks +
 * frames); in a checked stack O(objects). */
LOAM_API bool loam_stack_check(const loam_stack *stack) LOAM_NOEXCEPT;

#if __STDC_HOSTED__

/* ---- Hosted builds: a stack for each thread ---- */

/** The calling thread's stack. Private: loam_thread_stack() returns its address. */
extern LOAM_API __thread loam_stack loam_own_stack LOAM_TLS;

/** Returns the calling thread's stack, over loam_pages(). It is set up at its first use and freed
 * when the thread ends; destructors that run later must not use what is left in it. It is checked
 * in loam's debug build, or through loam_thread_stack_init. */
LOAM_INLINE loam_stack *loam_thread_stack(void) { return &loam_own_stack; }
/** Does what loam_thread_stack_init does, with more_flags besides options->flags. */
LOAM_API LOAM_NODISCARD int loam_thread_stack_init_as(loam_source *source,
                                                      const loam_stack_options *options,
                                                      unsigned more_flags) LOAM_NOEXCEPT;
/** Sets the calling thread's stack up with other options, before its first use. Returns what
 * loam_stack_init returns; -EBUSY iff it is in use. */
LOAM_INLINE int loam_thread_stack_init(loam_source *source, const loam_stack_options *options) {
    return loam_thread_stack_init_as(source, options, LOAM_CHECKED ? LOAM_CHECK : 0);
}

/** Formats as sprintf does, into as many bytes as the text takes, and returns the text. NULL as for
 * alloc, and iff the format is bad. */
LOAM_API LOAM_NODISCARD char *loam_stack_sprintf_at(loam_stack *stack, const char *file,
                                                    unsigned line, const char *format,
                                                    ...) LOAM_NOEXCEPT
    __attribute__((__format__(__printf__, 4, 5)));
/** Calls loam_stack_sprintf_at with the caller's file and line. */
#define loam_stack_sprintf(stack, ...) loam_stack_sprintf_at(stack, LOAM_HERE, __VA_ARGS__)

/** What LOAM_SCOPE declares: a frame that ends with the variable. Members are private. */
typedef struct loam_stack_scope {
    loam_stack *stack;      /**< the stack */
    loam_stack_frame frame; /**< its frame */
} loam_stack_scope;

/** Begins the frame of a scope. If there is no memory for it, objects belong to the older frame. */
LOAM_INLINE loam_stack_scope loam_stack_scope_begin(loam_stack *stack, const char *file,
                                                    unsigned line) {
    loam_stack_scope scope = {stack, loam_stack_push_at(stack, file, line)};
    return scope;
}
/** Ends the frame of a scope. */
LOAM_INLINE void loam_stack_scope_end(loam_stack_scope *scope) {
    loam_stack_pop_at(scope->stack, scope->frame, NULL, 0);
}

/** A statement: begins a frame of the thread's stack that ends with the block the statement stands
 * in. The frame ends however the block is left, by return, break, goto, and in C++ by an exception;
 * not by longjmp (loam_stack_unwind). */
#define LOAM_SCOPE LOAM_STACK_SCOPE(loam_thread_stack())
/** Joins two tokens. Private. */
#define LOAM_SCOPE_JOIN_(a, b) a##b
/** The name of a scope's variable. Private. */
#define LOAM_SCOPE_NAME_(line) LOAM_SCOPE_JOIN_(loam_scope_, line)
/** A statement: does what LOAM_SCOPE does, in the given stack. */
#define LOAM_STACK_SCOPE(stack) \
    LOAM_SCOPE_ATTRIBUTES_ loam_stack_scope LOAM_SCOPE_NAME_(__LINE__) = \
        loam_stack_scope_begin(stack, LOAM_HERE)
/** Attributes of a scope's variable. Private. */
#define LOAM_SCOPE_ATTRIBUTES_ __attribute__((__cleanup__(loam_stack_scope_end), __unused__))

/** LOAM_STACK_NEW in the thread's stack. */
#define LOAM_SCOPE_NEW(T) LOAM_STACK_NEW(loam_thread_stack(), T)
/** LOAM_STACK_ARRAY in the thread's stack. */
#define LOAM_SCOPE_ARRAY(T, count) LOAM_STACK_ARRAY(loam_thread_stack(), T, count)
/** loam_stack_alloc in the thread's stack. */
#define loam_scope_alloc(bytes) loam_stack_alloc(loam_thread_stack(), bytes)
/** loam_stack_calloc in the thread's stack. */
#define loam_scope_calloc(count, bytes) loam_stack_calloc(loam_thread_stack(), count, bytes)
/** loam_stack_realloc in the thread's stack. */
#define loam_scope_realloc(p, old_bytes, bytes) \
    loam_stack_realloc(loam_thread_stack(), p, old_bytes, bytes)
/** loam_stack_memdup in the thread's stack. */
#define loam_scope_memdup(from, bytes) loam_stack_memdup(loam_thread_stack(), from, bytes)
/** loam_stack_strdup in the thread's stack. */
#define loam_scope_strdup(from) loam_stack_strdup(loam_thread_stack(), from)
/** loam_stack_strndup in the thread's stack. */
#define loam_scope_strndup(from, most) loam_stack_strndup(loam_thread_stack(), from, most)
/** loam_stack_sprintf in the thread's stack. */
#define loam_scope_sprintf(...) loam_stack_sprintf(loam_thread_stack(), __VA_ARGS__)

#endif

LOAM_END

#if LOAM_METER && LOAM_METER_HOOKS
#include "loam/meter_stack.h"
#endif

#include "loam/names_end.h"

#endif
