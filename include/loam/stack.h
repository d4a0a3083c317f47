/* loam/stack.h: objects of any size that live as long as the frame they were allocated in.
 *
 * Choose it for what a function needs until it returns: push a frame, allocate, pop it. An
 * allocation is an addition and a compare, and so is a pop, however many objects it ends. Each
 * thread has a stack of its own, and LOAM_SCOPE makes a frame that ends with the block it stands
 * in. Choose region.h for what is passed on, and ring.h for frames that do not end in reverse
 * order. It cannot give back single objects but the last one, and serves one thread at a time.
 *
 *   first ──> block ──> current block ──> free ──> free        by 64 KiB at least, and 64 requests of mean size
 *                       │
 *     [ header │ object │ frame │ object │ object │ free ....... ]
 *                         │ older frame            ^ at         ^ end
 *
 * A frame is two words in the stack itself. All blocks up to the current one are in use, all behind
 * it are free and serve again. Who needs another block moves on to it for good: the current frame
 * remembers it after inner frames ended (so that the next of these finds it there), and so do older
 * frames that have no room left for a request of mean size. A search destroys free blocks that are
 * too small, but no more bytes of them than the request has. When the outermost frame ends, what
 * recent rounds did not need goes back to the source.
 *
 * Alignment is that of an object's address alone; its size is not rounded. realloc and free are
 * told the size.
 *
 * Invariants: at <= end, end is a multiple of 16, and both are NULL where inline paths must not be
 * taken: before the first block, in a sealed frame, with LOAM_CHECK, under AddressSanitizer, and
 * where the base is empty but not all free memory has gone back. What a frame remembers lies in a
 * block that is in use. loam_stack_check walks them. After Intersec's articles on their allocators.
 *
 * Threads: one at a time. A fork's child has its thread's stacks as they were.
 */
#ifndef LOAM_STACK_H
#define LOAM_STACK_H

#include "loam/names_begin.h"

#include "loam/meter.h"
#include "loam/registry.h"
#include "loam/source.h"

#include <stdbool.h>
#include <stdint.h>

LOAM_BEGIN

/* Zero in a member: its default. Over a contiguous source (loam_reserve, loam_buffer) the block
 * grows in place, as long as nobody else takes from the source: then there is one block and nothing
 * to search. */
typedef struct loam_stack_options {
    size_t block_bytes; /* of a block, its header included, at least; 64 KiB */
    size_t keep_bytes;  /* the end of the outermost frame keeps at least so many, if there are; 0 */
    unsigned flags;     /* LOAM_CHECK */
    const char *name;   /* for the registry and reports; not copied; NULL: none */
} loam_stack_options;

/* Members are private to loam. */
typedef struct loam_stack_record {
    struct loam_stack_record *older; /* with marks in its low bits */
    char *moved; /* where the frame below goes on, iff marked; else that is this record's place */
} loam_stack_record;

typedef struct loam_stack_room {
    char *at, *end;
} loam_stack_room;

/* Members are private to loam. The first 64 bytes are those of the fast paths. */
typedef struct loam_stack {
    loam_stack_room room;      /* both NULL where inline paths must miss */
    loam_stack_record *newest; /* NULL: none, or pops must go out of line */
    loam_stack_room hidden;    /* the room, where it is not open */
    loam_stack_record *hidden_newest;
    struct loam_stack_block *block; /* the current one */
    struct loam_stack_block *first, *last;
    loam_source *source; /* NULL: a thread's stack before its first use */
    size_t sum, count;   /* of samples of requests: their mean */
    size_t block_bytes, keep_bytes;
    size_t held_bytes, peak_bytes, requests;
    size_t used_bytes;                 /* of blocks up to the current one */
    size_t round_bytes, average_bytes; /* the most of that since the base; of recent rounds */
    struct loam_tag *dead;             /* freed objects of a checked stack */
    unsigned char mode, open, sealed, redzone;
    loam_entry entry;
} loam_stack;

/* A frame, from push to pop. Members are private. */
typedef struct loam_stack_frame {
    loam_stack_record *record; /* NULL iff there was no memory for it */
    loam_stack_record *older;
    char *at, *end; /* as they were */
} loam_stack_frame;

/* A place within a frame, to rewind to. Members are private. */
typedef struct loam_stack_mark {
    loam_stack_record *record;
    char *at;
} loam_stack_mark;

/* ---- Setting up ---- */

/* In the caller's storage; memory is taken with the first frame or object. source NULL:
 * loam_pages() (hosted builds; -EINVAL in freestanding ones). options NULL: defaults. 0, or -EINVAL
 * iff block_bytes is less than 256 or more than PTRDIFF_MAX. */
LOAM_API LOAM_NODISCARD int loam_stack_init_as(loam_stack *stack, loam_source *source,
                                               const loam_stack_options *options,
                                               unsigned more_flags) LOAM_NOEXCEPT;
LOAM_INLINE int loam_stack_init(loam_stack *stack, loam_source *source,
                                const loam_stack_options *options) {
    return loam_stack_init_as(stack, source, options, LOAM_CHECKED ? LOAM_CHECK : 0);
}
/* Ends all frames and gives everything back. The stack may be set up again. */
LOAM_API void loam_stack_deinit(loam_stack *stack) LOAM_NOEXCEPT;

/* ---- Out of line: what the inline functions below call when they cannot serve ---- */

/* Also what room.at and newest are then: the inline functions store them once more, so that all
 * ways meet in one store and loops keep them in registers
 * (docs/decisions/0017-loops-keep-the-position.md). */
typedef struct loam_stack_made {
    void *object;
    char *at;
} loam_stack_made;
typedef struct loam_stack_pushed {
    loam_stack_frame frame;
    char *at;
    loam_stack_record *newest;
} loam_stack_pushed;
typedef struct loam_stack_popped {
    char *at;
    loam_stack_record *newest;
} loam_stack_popped;

LOAM_API LOAM_COLD loam_stack_made loam_stack_alloc_slow(loam_stack *stack, size_t bytes,
                                                         size_t align, const char *file,
                                                         unsigned line) LOAM_NOEXCEPT;
LOAM_API LOAM_COLD loam_stack_pushed loam_stack_push_slow(loam_stack *stack, const char *file,
                                                          unsigned line) LOAM_NOEXCEPT;
LOAM_API LOAM_COLD loam_stack_popped loam_stack_pop_slow(loam_stack *stack,
                                                         loam_stack_record *record, char *at,
                                                         const char *file,
                                                         unsigned line) LOAM_NOEXCEPT;
LOAM_API LOAM_COLD char *loam_stack_free_slow(loam_stack *stack, void *p, size_t bytes,
                                              const char *file, unsigned line) LOAM_NOEXCEPT;
LOAM_API LOAM_COLD loam_stack_made loam_stack_realloc_slow(loam_stack *stack, void *p,
                                                           size_t old_bytes, size_t bytes,
                                                           size_t align, const char *file,
                                                           unsigned line) LOAM_NOEXCEPT;

/* ---- Frames ---- */

#define LOAM_STACK_ALIGN 16

LOAM_INLINE uintptr_t loam_stack_round(uintptr_t x, size_t align) {
    return (x + align - 1) & ~(uintptr_t)(align - 1);
}

/* A new frame: what is allocated from now on ends with its pop. Where there is no memory for one,
 * objects belong to the frame below, and the pop does nothing: loam_stack_pushed_it tells. Some ten
 * instructions; a call where a block is full, and for the outermost frame while there are free
 * blocks. */
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
#define loam_stack_push(stack) loam_stack_push_at(stack, LOAM_HERE)

LOAM_INLINE bool loam_stack_pushed_it(const loam_stack_frame *frame) {
    return frame->record != NULL;
}

/* Ends the newest frame, and all objects in it. Popping another one is a mistake that every stack
 * reports (but a stale copy, where a new frame stands in the same place); it does nothing then.
 * Some eight instructions; a call where the frame took another block. Takes time by the objects
 * that end in a checked stack only. */
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
#define loam_stack_pop(stack, frame) loam_stack_pop_at(stack, frame, LOAM_HERE)

/* Ends all frames that are newer than this one, which goes on, also if there was no memory for it:
 * for where longjmp leads, past pops that will not come. To unwind to a frame that has ended is a
 * mistake that every stack reports; it does nothing then. Takes time by the frames that end. */
LOAM_API void loam_stack_unwind_at(loam_stack *stack, const loam_stack_frame *frame,
                                   const char *file, unsigned line) LOAM_NOEXCEPT;
#define loam_stack_unwind(stack, frame) loam_stack_unwind_at(stack, frame, LOAM_HERE)

/* From now on an allocation in the newest frame (or in the base) is a mistake, which every stack
 * reports: NULL. Frames on top of it are not concerned. Until unseal, or the frame's pop. Harmless
 * twice. */
LOAM_API void loam_stack_seal(loam_stack *stack) LOAM_NOEXCEPT;
LOAM_API void loam_stack_unseal(loam_stack *stack) LOAM_NOEXCEPT;

/* Where the newest frame stands. Constant time. rewind drops what was allocated in it since; the
 * mark may be used again. To use one in another frame, with newer frames alive, or after a rewind
 * to an older one, is a mistake that every stack reports where it can tell, and does nothing. Takes
 * time by the blocks that go, and in a checked stack by the objects. */
LOAM_API loam_stack_mark loam_stack_mark_here(loam_stack *stack) LOAM_NOEXCEPT;
LOAM_API void loam_stack_rewind_at(loam_stack *stack, const loam_stack_mark *mark, const char *file,
                                   unsigned line) LOAM_NOEXCEPT;
#define loam_stack_rewind(stack, mark) loam_stack_rewind_at(stack, mark, LOAM_HERE)

/* ---- Objects ---- */

/* bytes at a multiple of align, a power of two (a constant, preferably: of up to 16 it folds into
 * the inline path), in the newest frame, or in the base, which lives until reset and deinit. 0
 * bytes: an address that may be the next object's as well. NULL iff there is no memory, or bytes is
 * more than PTRDIFF_MAX less 16 KiB and 2 * align, or align is no power of two, or the frame is
 * sealed. Eight instructions for a constant size, but for a new block. */
LOAM_INLINE LOAM_MALLOC LOAM_SIZE(2) void *loam_stack_alloc_aligned_at(loam_stack *stack,
                                                                       size_t bytes, size_t align,
                                                                       const char *file,
                                                                       unsigned line) {
    if (__builtin_constant_p(align) && align <= LOAM_STACK_ALIGN && (align & (align - 1)) == 0 &&
        align != 0) {
        /* end is a multiple of align, so that aligning cannot pass it. Where size and alignment
         * agree the next allocation waits for two instructions: the object's address is for who
         * needs it. */
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
            __builtin_unreachable(); /* NULL leaves above: what follows need not ask again */
        }
        stack->room.at = (char *)next;
        return (void *)p;
    }
    return loam_stack_alloc_slow(stack, bytes, align, file, line).object;
}
#define loam_stack_alloc_aligned(stack, bytes, align) \
    loam_stack_alloc_aligned_at(stack, bytes, align, LOAM_HERE)

/* The same at a multiple of 16. */
LOAM_INLINE LOAM_MALLOC LOAM_SIZE(2) void *loam_stack_alloc_at(loam_stack *stack, size_t bytes,
                                                               const char *file, unsigned line) {
    return loam_stack_alloc_aligned_at(stack, bytes, LOAM_STACK_ALIGN, file, line);
}
#define loam_stack_alloc(stack, bytes) loam_stack_alloc_at(stack, bytes, LOAM_HERE)

/* Zeroed, count objects of so many bytes, at a multiple of 16. NULL as well iff the product
 * overflows. */
LOAM_INLINE LOAM_MALLOC LOAM_SIZES(2, 3) void *loam_stack_calloc_at(loam_stack *stack, size_t count,
                                                                    size_t bytes, const char *file,
                                                                    unsigned line) {
    size_t all;
    if (__builtin_mul_overflow(count, bytes, &all)) return NULL;
    void *p = loam_stack_alloc_at(stack, all, file, line);
    return p != NULL ? __builtin_memset(p, 0, all) : NULL;
}
#define loam_stack_calloc(stack, count, bytes) loam_stack_calloc_at(stack, count, bytes, LOAM_HERE)

/* An array, not zeroed: as alloc_aligned, and NULL as well iff count * bytes overflows. */
LOAM_INLINE LOAM_MALLOC LOAM_SIZES(2, 3) void *loam_stack_array_at(loam_stack *stack, size_t count,
                                                                   size_t bytes, size_t align,
                                                                   const char *file,
                                                                   unsigned line) {
    size_t all;
    if (__builtin_mul_overflow(count, bytes, &all)) return NULL;
    return loam_stack_alloc_aligned_at(stack, all, align, file, line);
}

/* A T, or count of them, at T's own alignment; not initialised. NULL as above. */
#define LOAM_STACK_NEW(stack, T) \
    ((T *)loam_stack_alloc_aligned_at(stack, sizeof(T), __alignof__(T), LOAM_HERE))
#define LOAM_STACK_ARRAY(stack, T, count) \
    ((T *)loam_stack_array_at(stack, count, sizeof(T), __alignof__(T), LOAM_HERE))

/* Changes the size of an object of the newest frame; align is what it was allocated with. In place
 * iff it is the last one and fits, or gets smaller; moved otherwise, and the old place is lost
 * until the frame ends. p NULL: alloc. NULL as for alloc; then the object is as it was. An object
 * of an older frame: a checked stack reports it, and returns NULL; another one moves it into the
 * newest frame if it grows. */
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
#define loam_stack_realloc_aligned(stack, p, old_bytes, bytes, align) \
    loam_stack_realloc_aligned_at(stack, p, old_bytes, bytes, align, LOAM_HERE)

LOAM_INLINE LOAM_NODISCARD void *loam_stack_realloc_at(loam_stack *stack, void *p, size_t old_bytes,
                                                       size_t bytes, const char *file,
                                                       unsigned line) {
    return loam_stack_realloc_aligned_at(stack, p, old_bytes, bytes, LOAM_STACK_ALIGN, file, line);
}
#define loam_stack_realloc(stack, p, old_bytes, bytes) \
    loam_stack_realloc_at(stack, p, old_bytes, bytes, LOAM_HERE)

/* Gives back an object of the newest frame: the last one makes room at once, another is lost until
 * the frame ends. NULL is fine. */
LOAM_INLINE void loam_stack_free_at(loam_stack *stack, void *p, size_t bytes, const char *file,
                                    unsigned line) {
    char *at = (char *)p;
    if (LOAM_UNLIKELY((uintptr_t)p + bytes != (uintptr_t)stack->room.at))
        at = loam_stack_free_slow(stack, p, bytes, file, line);
    stack->room.at = at;
}
#define loam_stack_free(stack, p, bytes) loam_stack_free_at(stack, p, bytes, LOAM_HERE)

/* Copies: of bytes, aligned to 16; of a string, and of at most so many characters of one, with a
 * zero behind, not aligned. NULL as for alloc. */
LOAM_API LOAM_NODISCARD void *loam_stack_memdup_at(loam_stack *stack, const void *from,
                                                   size_t bytes, const char *file,
                                                   unsigned line) LOAM_NOEXCEPT;
LOAM_API LOAM_NODISCARD char *loam_stack_strdup_at(loam_stack *stack, const char *from,
                                                   const char *file, unsigned line) LOAM_NOEXCEPT;
LOAM_API LOAM_NODISCARD char *loam_stack_strndup_at(loam_stack *stack, const char *from,
                                                    size_t most, const char *file,
                                                    unsigned line) LOAM_NOEXCEPT;
#define loam_stack_memdup(stack, from, bytes) loam_stack_memdup_at(stack, from, bytes, LOAM_HERE)
#define loam_stack_strdup(stack, from) loam_stack_strdup_at(stack, from, LOAM_HERE)
#define loam_stack_strndup(stack, from, most) loam_stack_strndup_at(stack, from, most, LOAM_HERE)

/* ---- All of it ---- */

/* Ends all frames and the base's objects, and keeps as much memory as recent rounds needed (a
 * decaying average: three quarters of the one before, or this round's if more), or keep_bytes if
 * more. The same happens when the outermost frame ends and nothing was allocated in the base. */
LOAM_API void loam_stack_reset(loam_stack *stack) LOAM_NOEXCEPT;
/* Gives back free blocks; all of them if there is no frame and no object. Returns their bytes. */
LOAM_API size_t loam_stack_trim(loam_stack *stack) LOAM_NOEXCEPT;

/* Whether p points into what is allocated. Takes time by the number of blocks. */
LOAM_API bool loam_stack_contains(const loam_stack *stack, const void *p) LOAM_NOEXCEPT;
/* The older name. */
LOAM_INLINE bool loam_stack_is_from(const loam_stack *stack, const void *p) LOAM_NOEXCEPT {
    return loam_stack_contains(stack, p);
}
/* A snapshot; used_bytes counts frames, and what alignment took. Takes time by the number of
 * blocks, of a checked stack by that of all objects. */
LOAM_API void loam_stack_usage(const loam_stack *stack, loam_usage *usage) LOAM_NOEXCEPT;
/* Walks all invariants, and a checked stack's guards; false after a report. Takes time by blocks
 * and frames; in a checked stack by all objects. */
LOAM_API bool loam_stack_check(const loam_stack *stack) LOAM_NOEXCEPT;

#if __STDC_HOSTED__

/* ---- Hosted builds: a stack for each thread ---- */

/* Private: loam_thread_stack() returns its address. */
extern LOAM_API __thread loam_stack loam_own_stack LOAM_TLS;

/* The calling thread's own: over loam_pages(), set up with its first use, freed when the thread
 * ends; what is left in it at that time must not be used by destructors that run later. Checked in
 * loam's debug build, or by loam_thread_stack_init. */
LOAM_INLINE loam_stack *loam_thread_stack(void) { return &loam_own_stack; }
/* Sets it up before its first use in this thread, with other options. As loam_stack_init; -EBUSY
 * iff it is in use. */
LOAM_API LOAM_NODISCARD int loam_thread_stack_init_as(loam_source *source,
                                                      const loam_stack_options *options,
                                                      unsigned more_flags) LOAM_NOEXCEPT;
LOAM_INLINE int loam_thread_stack_init(loam_source *source, const loam_stack_options *options) {
    return loam_thread_stack_init_as(source, options, LOAM_CHECKED ? LOAM_CHECK : 0);
}

/* As sprintf, into as many bytes as it takes. NULL as for alloc, and iff the format is bad. */
LOAM_API LOAM_NODISCARD char *loam_stack_sprintf_at(loam_stack *stack, const char *file,
                                                    unsigned line, const char *format,
                                                    ...) LOAM_NOEXCEPT
    __attribute__((__format__(__printf__, 4, 5)));
#define loam_stack_sprintf(stack, ...) loam_stack_sprintf_at(stack, LOAM_HERE, __VA_ARGS__)

/* What LOAM_SCOPE declares: a frame that ends with the variable. */
typedef struct loam_stack_scope {
    loam_stack *stack;
    loam_stack_frame frame;
} loam_stack_scope;

LOAM_INLINE loam_stack_scope loam_stack_scope_begin(loam_stack *stack, const char *file,
                                                    unsigned line) {
    loam_stack_scope scope = {stack, loam_stack_push_at(stack, file, line)};
    return scope;
}
LOAM_INLINE void loam_stack_scope_end(loam_stack_scope *scope) {
    loam_stack_pop_at(scope->stack, scope->frame, NULL, 0);
}

/* A statement: until the end of the block it stands in there is a frame, of this thread's stack or
 * of that one. It ends however the block is left, by return, break, goto, and in C++ by an
 * exception; not by longjmp (loam_stack_unwind). */
#define LOAM_SCOPE LOAM_STACK_SCOPE(loam_thread_stack())
#define LOAM_SCOPE_JOIN_(a, b) a##b
#define LOAM_SCOPE_NAME_(line) LOAM_SCOPE_JOIN_(loam_scope_, line)
#define LOAM_STACK_SCOPE(stack) \
    LOAM_SCOPE_ATTRIBUTES_ loam_stack_scope LOAM_SCOPE_NAME_(__LINE__) = \
        loam_stack_scope_begin(stack, LOAM_HERE)
#define LOAM_SCOPE_ATTRIBUTES_ __attribute__((__cleanup__(loam_stack_scope_end), __unused__))

/* In this thread's newest frame: what the functions above do. */
#define LOAM_SCOPE_NEW(T) LOAM_STACK_NEW(loam_thread_stack(), T)
#define LOAM_SCOPE_ARRAY(T, count) LOAM_STACK_ARRAY(loam_thread_stack(), T, count)
#define loam_scope_alloc(bytes) loam_stack_alloc(loam_thread_stack(), bytes)
#define loam_scope_calloc(count, bytes) loam_stack_calloc(loam_thread_stack(), count, bytes)
#define loam_scope_realloc(p, old_bytes, bytes) \
    loam_stack_realloc(loam_thread_stack(), p, old_bytes, bytes)
#define loam_scope_memdup(from, bytes) loam_stack_memdup(loam_thread_stack(), from, bytes)
#define loam_scope_strdup(from) loam_stack_strdup(loam_thread_stack(), from)
#define loam_scope_strndup(from, most) loam_stack_strndup(loam_thread_stack(), from, most)
#define loam_scope_sprintf(...) loam_stack_sprintf(loam_thread_stack(), __VA_ARGS__)

#endif

LOAM_END

#if LOAM_METER && LOAM_METER_HOOKS
#include "loam/meter_stack.h"
#endif

#include "loam/names_end.h"

#endif
