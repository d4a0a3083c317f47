/* stack.c: frame stacks (loam/stack.h): initialisation, frames, marks, and objects for which the
 * inline paths fail.
 *
 *   newest ──> record ──> record ──> NULL    each is where its frame begins; a pop goes back there,
 *                                           or to where the older frame was moved
 *
 * The program's loam_stack_frame stores what a pop needs while the block is still current, so
 * inline pops read only the address of the record. If another block is current by then, room.end
 * differs, and the pop takes the slow path. So does the pop of the outermost frame if free blocks
 * have appeared meanwhile: the first block's end is then 16 bytes lower. Invariant: room is the hot
 * one iff `open`; newest is the hot one iff the mode is plain.
 */
#include "family/stack.h"

LM_STATIC_ASSERT(offsetof(loam_stack, hidden) <= 64,
                 "what the inline paths read is in one cache line");
LM_STATIC_ASSERT(sizeof(loam_stack_record) <= 16 && 16 % sizeof(loam_stack_record) == 0,
                 "the end is a multiple of a record's alignment");

enum { STACK_BLOCK_LEAST = 256 };
#define STACK_BLOCK_BYTES (64 * LM_KIB)

/* ---- Initialisation and end ---- */

int loam_stack_init_as(loam_stack *stack, loam_source *source, const loam_stack_options *options,
                       unsigned more_flags) {
    static const loam_stack_options defaults;
    if (source == NULL) source = lm_default_source();
    if (options == NULL) options = &defaults;
    size_t bytes = options->block_bytes != 0 ? options->block_bytes : STACK_BLOCK_BYTES;
    if (source == NULL || bytes < STACK_BLOCK_LEAST || bytes > PTRDIFF_MAX) return LM_EINVAL;
    bool checked = lm_is_checked(options->flags | more_flags);
    *stack =
        (loam_stack){.source = source, .block_bytes = bytes, .keep_bytes = options->keep_bytes};
    if (checked) {
        stack->mode = LM_STACK_CHECKED;
    } else if (lm_tool_watches()) {
        stack->mode = LM_STACK_WATCHED;
        stack->redzone = lm_stack_contiguous(stack) ? 0 : 16;
    }
    /* The next memory of a contiguous source begins where the block ends. */
    stack->block_bytes = lm_align_up(bytes, 16);
    /* A block holds at least its header and something more. */
    if (stack->block_bytes < 2 * lm_stack_head(stack))
        stack->block_bytes = 2 * lm_stack_head(stack);
    lm_entry_init(&stack->entry, &lm_stack_kind, options->name, checked);
    return 0;
}

/* Returns whether the stack is initialised. A thread's own stack is initialised at its first
 * use. */
static bool begun(loam_stack *stack) {
    if (LM_LIKELY(stack->source != NULL)) return true;
#if LM_HOSTED
    return lm_thread_stack_begin(stack);
#else
    return false;
#endif
}

/* Returns whether it is the thread's own stack, which starts again when it is used again. */
static bool is_of_thread(const loam_stack *stack) {
#if LM_HOSTED
    return stack == &loam_own_stack;
#else
    (void)stack;
    return false;
#endif
}

void loam_stack_deinit(loam_stack *stack) {
    if (lm_stack_over(stack, "deinit", NULL, 0) || stack->source == NULL) return;
    bool checked = stack->mode == LM_STACK_CHECKED;
    if (checked) {
        (void)lm_stack_check_objects(stack);
        (void)lm_stack_check_gone(stack);
        lm_guard_drop_all(&stack->entry);
    }
    lm_entry_deinit(&stack->entry);
    while (stack->first != NULL) lm_stack_put_block(stack, stack->last);
    LM_ASSERT(stack->last == NULL && stack->held_bytes == 0);
    stack->room = stack->hidden = (loam_stack_room){0};
    stack->newest = stack->hidden_newest = NULL;
    stack->block = NULL;
    stack->source = NULL;
    if (!checked || is_of_thread(stack)) return;
    /* The name is copied into words that the stack no longer needs. */
    lm_entry_bury(&stack->entry, (char *)&stack->held_bytes, 3 * sizeof(size_t));
    stack->mode = LM_STACK_ENDED;
    stack->open = false;
}

/* Returns whether the stack has no live frame or object. */
static bool stack_is_empty(const loam_stack *stack) {
    return lm_stack_newest(stack) == NULL &&
           (stack->block == NULL ||
            lm_stack_room_of(stack)->at == lm_stack_first(stack, stack->first));
}

void lm_stack_open(loam_stack *stack) {
    LM_ASSERT(!stack->open || stack->mode == LM_STACK_PLAIN);
    LM_ASSERT((stack->open ? &stack->hidden : &stack->room)->at == NULL);
    /* If free memory is to be given back, an outermost frame must begin and end out of line. */
    bool open = stack->mode == LM_STACK_PLAIN && !stack->sealed &&
                !(stack_is_empty(stack) && lm_stack_has_spare(stack));
    if (open == (stack->open != 0)) return;
    loam_stack_room *from = lm_stack_room(stack), *to = open ? &stack->room : &stack->hidden;
    char *at = from->at, *end = from->end;
    /* Copies word by word: one load would wait for both stores. */
    __asm__("" : "+r"(at), "+r"(end));
    to->at = at;
    to->end = end;
    from->at = from->end = NULL;
    stack->open = open;
}

static void set_newest(loam_stack *stack, loam_stack_record *record) {
    LM_ASSERT(stack->mode != LM_STACK_ENDED);
    *(stack->mode == LM_STACK_PLAIN ? &stack->newest : &stack->hidden_newest) = record;
}

/* ---- Places ---- */

lm_block_head_t *lm_stack_block_of(const loam_stack *stack, const char *p) {
    lm_block_head_t *block = stack->block;
    while (block != NULL && !lm_stack_inside(block, p)) block = block->older;
    return block;
}

bool lm_stack_is_newer(const loam_stack *stack, const lm_block_head_t *block, const char *at,
                       const void *p) {
    for (const lm_block_head_t *in = stack->block; in != NULL; in = in->older) {
        bool inside = lm_stack_inside(in, (const char *)p);
        if (in == block) return inside && (const char *)p >= at;
        if (inside) return true;
    }
    return false;
}

/* Returns whether the object belongs to the newest frame. */
static bool is_own(const loam_stack *stack, const void *p) {
    const char *record = (const char *)lm_stack_newest(stack);
    return record == NULL || lm_stack_is_newer(stack, lm_stack_block_of(stack, record), record, p);
}

/* ---- Checked stacks: objects that end without a free ---- */

/* Ends objects newer than `at`. They come first in both lists, except for objects older than a mark
 * that were freed since. */
static void stack_close_newer(loam_stack *stack, const char *at, const char *doing, bool frame) {
    const lm_block_head_t *block = lm_stack_block_of(stack, at), *in = stack->block;
    LM_ASSERT(stack->mode == LM_STACK_CHECKED && block != NULL);
    loam_tag *tag, *next;
    for (tag = stack->entry.live; tag != NULL; tag = next) {
        const char *raw = (const char *)tag->raw;
        next = tag->next;
        while (in != block && !lm_stack_inside(in, raw)) in = in->older;
        if (!lm_stack_inside(in, raw) || (in == block && raw < at)) break;
        (void)lm_guard_find(&stack->entry, tag + 1, doing, NULL, 0); /* reports an overflow now */
        lm_guard_close(&stack->entry, tag, NULL, 0);
    }
    loam_tag **link = &stack->dead;
    while (*link != NULL) {
        if (lm_stack_is_newer(stack, block, at, (*link)->raw)) {
            (void)lm_guard_check_freed(&stack->entry, *link);
            *link = (*link)->next;
        } else if (frame) {
            break;
        } else {
            link = &(*link)->next;
        }
    }
}

/* ---- Frames ---- */

/* Cuts `bytes` bytes at a multiple of align, without guards or redzone. Returns NULL iff there is
 * no memory. */
static void *stack_carve(loam_stack *stack, size_t bytes, size_t align) {
    LM_ASSERT(stack->source != NULL && lm_is_pow2(align));
    for (int twice = 0;; twice++) {
        loam_stack_room *room = lm_stack_room(stack);
        uintptr_t p = loam_stack_round((uintptr_t)room->at, align), end = (uintptr_t)room->end;
        if (stack->block != NULL && p >= (uintptr_t)room->at && p <= end && bytes <= end - p) {
            if (LM_UNLIKELY(stack->mode == LM_STACK_CHECKED))
                stack->block->gone = lm_gone_take(&stack->entry, room->at, (char *)p,
                                                  (char *)(p + bytes), stack->block->gone);
            room->at = (char *)(p + bytes);
            LM_ASSERT((char *)p >= lm_stack_first(stack, stack->block));
            LM_ASSERT(room->at <= lm_stack_end(stack->block));
            return (void *)p;
        }
        if (twice == 1) return NULL;
        size_t block_bytes = stack->block != NULL ? stack->block->bytes : 0;
        if (!lm_stack_advance(stack, bytes, align)) return NULL;
        lm_stack_sample(stack, block_bytes, bytes);
    }
}

loam_stack_pushed loam_stack_push_slow(loam_stack *stack, const char *file, unsigned line) {
    loam_stack_pushed pushed = {.frame = {.end = LM_STACK_NO_END}};
    bool checked = stack->mode == LM_STACK_CHECKED;
    loam_stack_record *record = NULL, *older = NULL;
    lm_block_head_t *block = stack->block;
    char *at = lm_stack_room(stack)->at;
    if (!lm_stack_over(stack, "push", file, line) && begun(stack)) {
        checked = stack->mode == LM_STACK_CHECKED;
        older = lm_stack_newest(stack);
        record = (loam_stack_record *)stack_carve(
            stack, checked ? sizeof(lm_checked_record_t) : sizeof(*record), sizeof(*record));
    }
    if (record == NULL) pushed.frame.older = older; /* for unwind */
    if (record != NULL) {
        lm_tool_show_undefined(record, checked ? sizeof(lm_checked_record_t) : sizeof(*record));
        record->older = older;
        if (stack->sealed) lm_record_mark(record, LM_RECORD_SEALED);
        if (checked) {
            ((lm_checked_record_t *)record)->file = file;
            ((lm_checked_record_t *)record)->line = line;
        }
        bool was_open = stack->open != 0;
        stack->sealed = false;
        set_newest(stack, record);
        lm_stack_open(stack);
        pushed.frame.record = record;
        pushed.frame.older = stack->mode == LM_STACK_PLAIN ? older : NULL;
        pushed.frame.at = block != NULL && block == stack->block ? at : (char *)record;
        /* The pop must take the slow path if it has more to do than to go back. */
        if (was_open) pushed.frame.end = stack->room.end;
    }
    pushed.at = stack->room.at;
    pushed.newest = stack->newest;
    return pushed;
}

/* Reports a pop of a frame that is not the newest. */
static LM_COLD void report_pop(const loam_stack *stack, const loam_stack_record *record,
                               const char *file, unsigned line) {
    const loam_stack_record *newest = lm_stack_newest(stack), *other = newest;
    while (other != NULL && other != record) other = lm_record_older(other);
    if (other == NULL) {
        lm_family_misuse(&stack->entry, file, line, "pop of a frame that has ended");
    } else if (stack->mode != LM_STACK_CHECKED) {
        lm_family_misuse(&stack->entry, file, line, "pop of a frame that is not the newest");
    } else {
        const lm_checked_record_t *of = (const lm_checked_record_t *)newest;
        lm_family_misuse(&stack->entry, file, line,
                         "pop of a frame that is not the newest, which was pushed at %s:%u",
                         of->file != NULL ? of->file : "?", of->line);
    }
}

loam_stack_popped loam_stack_pop_slow(loam_stack *stack, loam_stack_record *record, char *at,
                                      const char *file, unsigned line) {
    if (lm_stack_over(stack, "pop", file, line))
        return (loam_stack_popped){stack->room.at, stack->newest};
    if (record == NULL || record != lm_stack_newest(stack)) {
        if (record != NULL) report_pop(stack, record, file, line);
        return (loam_stack_popped){stack->room.at, stack->newest};
    }
    loam_stack_record *older = lm_record_older(record);
    bool sealed = lm_record_is(record, LM_RECORD_SEALED);
    if (lm_record_is(record, LM_RECORD_MOVED)) at = record->moved;
    if (stack->mode == LM_STACK_CHECKED) stack_close_newer(stack, (char *)record, "pop", true);
    if (older == NULL) lm_stack_note_end(stack);
    lm_stack_go_back(stack, at);
    set_newest(stack, older);
    stack->sealed = sealed;
    if (stack_is_empty(stack)) lm_stack_end_round(stack);
    lm_stack_open(stack);
    return (loam_stack_popped){stack->room.at, stack->newest};
}

void loam_stack_unwind_at(loam_stack *stack, const loam_stack_frame *frame, const char *file,
                          unsigned line) {
    if (lm_stack_over(stack, "unwind", file, line)) return;
    /* If there was no memory for a frame, it only stores the older one. */
    const loam_stack_record *to = frame->record != NULL ? frame->record : frame->older;
    loam_stack_record *record = lm_stack_newest(stack);
    while (record != NULL && record != to) record = lm_record_older(record);
    if (record == NULL && to != NULL) {
        lm_family_misuse(&stack->entry, file, line, "unwinding to a frame that has ended");
        return;
    }
    while ((record = lm_stack_newest(stack)) != to) {
        (void)loam_stack_pop_slow(stack, record, (char *)record, file, line);
        LM_METER(pop(&stack->entry));
    }
}

void loam_stack_seal(loam_stack *stack) {
    if (lm_stack_over(stack, "seal", NULL, 0) || !begun(stack)) return;
    stack->sealed = true;
    lm_stack_open(stack);
}

void loam_stack_unseal(loam_stack *stack) {
    if (lm_stack_over(stack, "unseal", NULL, 0)) return;
    stack->sealed = false;
    lm_stack_open(stack);
}

/* ---- Marks ---- */

/* Makes frames below the newest that were moved to a block which is free now continue where they
 * were. A place that a frame stores is no newer than those that newer frames store. */
static void forget_moves(const loam_stack *stack) {
    for (loam_stack_record *record = lm_stack_newest(stack);
         record != NULL && lm_record_is(record, LM_RECORD_MOVED) &&
         lm_stack_block_of(stack, record->moved) == NULL;
         record = lm_record_older(record))
        lm_record_unmark(record, LM_RECORD_MOVED);
}

loam_stack_mark loam_stack_mark_here(loam_stack *stack) {
    if (lm_stack_over(stack, "mark", NULL, 0)) return (loam_stack_mark){NULL, NULL};
    /* Nothing is older than an empty base, and the first block may be another one at the rewind. */
    char *at = stack_is_empty(stack) ? NULL : lm_stack_room(stack)->at;
    LM_METER(mark_at(&stack->entry, at));
    return (loam_stack_mark){lm_stack_newest(stack), at};
}

void loam_stack_rewind_at(loam_stack *stack, const loam_stack_mark *mark, const char *file,
                          unsigned line) {
    if (lm_stack_over(stack, "rewind", file, line)) return;
    const loam_stack_room *room = lm_stack_room(stack);
    char *at = mark->at;
    if (mark->record != lm_stack_newest(stack)) {
        lm_family_misuse(&stack->entry, file, line, "rewind to a mark of another frame");
        return;
    }
    if (at == NULL) {
        /* The mark is at the empty base. */
        if (stack->block == NULL) return;
        at = lm_stack_first(stack, stack->first);
    }
    const lm_block_head_t *block = lm_stack_block_of(stack, at);
    if (block == NULL || (block == stack->block && at > room->at)) {
        lm_family_misuse(&stack->entry, file, line, "rewind to a mark that has ended");
        return;
    }
    LM_METER(rewind_to(&stack->entry, mark->at));
    if (stack->mode == LM_STACK_CHECKED) stack_close_newer(stack, at, "rewind", false);
    lm_stack_go_back(stack, at);
    forget_moves(stack);
    lm_stack_open(stack);
}

/* ---- Objects ---- */

static size_t stack_whole_of(const loam_stack *stack, size_t bytes) {
    return stack->redzone == 0 ? bytes : lm_align_up(bytes, 16) + stack->redzone;
}

static bool stack_possible(size_t bytes, size_t align) {
    return lm_is_pow2(align) && align <= PTRDIFF_MAX / 4 && bytes <= PTRDIFF_MAX - 2 * align &&
           bytes <= PTRDIFF_MAX - 16384;
}

static bool may_allocate(const loam_stack *stack, const char *doing, const char *file,
                         unsigned line) {
    if (LM_LIKELY(!stack->sealed)) return true;
    lm_family_misuse(&stack->entry, file, line, "%s in a sealed frame", doing);
    return false;
}

static void *stack_alloc_any_size(loam_stack *stack, size_t bytes, size_t align, const char *file,
                                  unsigned line) {
    if (lm_stack_over(stack, "allocation", file, line)) return NULL;
    if (!stack_possible(bytes, align) || !begun(stack)) return NULL;
    if (!may_allocate(stack, "allocation", file, line)) return NULL;
    void *p;
    if (stack->mode == LM_STACK_CHECKED) {
        if (align < 16) align = 16;
        size_t raw_bytes = lm_guard_whole(bytes, align);
        p = raw_bytes != 0 && stack_possible(raw_bytes, align)
                ? stack_carve(stack, raw_bytes, align)
                : NULL;
        if (p != NULL) p = lm_guard_open(&stack->entry, p, raw_bytes, bytes, align, file, line);
    } else {
        p = stack_carve(stack, stack_whole_of(stack, bytes),
                        stack->redzone != 0 && align < 16 ? 16 : align);
        if (p != NULL && stack->mode == LM_STACK_WATCHED) lm_tool_show_undefined(p, bytes);
    }
    LM_ASSERT(((uintptr_t)p & (align - 1)) == 0);
    lm_stack_open(stack);
    return p;
}

loam_stack_made loam_stack_alloc_slow(loam_stack *stack, size_t bytes, size_t align,
                                      const char *file, unsigned line) {
    void *object = stack_alloc_any_size(stack, bytes, align, file, line);
    return (loam_stack_made){object, stack->room.at};
}

/* Returns the tag of a live object of that size in the newest frame; NULL after a report. */
static loam_tag *stack_find(const loam_stack *stack, const void *p, size_t bytes, const char *doing,
                            const char *file, unsigned line) {
    loam_tag *tag = lm_guard_find(&stack->entry, p, doing, file, line);
    if (tag == NULL) return NULL;
    const char *made = tag->file != NULL ? tag->file : "?";
    if (tag->bytes != bytes) {
        lm_family_misuse(&stack->entry, file, line,
                         "%s of %p with %zu bytes, allocated with %zu at %s:%u", doing, p, bytes,
                         tag->bytes, made, tag->line);
        return NULL;
    }
    if (!is_own(stack, tag->raw)) {
        lm_family_misuse(&stack->entry, file, line,
                         "%s of %p, which belongs to an older frame, allocated at %s:%u", doing, p,
                         made, tag->line);
        return NULL;
    }
    return tag;
}

static void stack_close_one(loam_stack *stack, loam_tag *tag, const char *file, unsigned line) {
    loam_stack_room *room = lm_stack_room(stack);
    bool last = (char *)tag->raw + tag->raw_bytes == room->at;
    char *raw = (char *)lm_guard_close(&stack->entry, tag, file, line);
    if (last) {
        LM_ASSERT(raw >= lm_stack_first(stack, stack->block));
        stack->block->gone = lm_gone_bury(&stack->entry, raw, room->at, stack->block->gone);
        room->at = raw;
        return;
    }
    tag->next = stack->dead; /* its bytes are checked until it is gone for good */
    stack->dead = tag;
}

char *loam_stack_free_slow(loam_stack *stack, void *p, size_t bytes, const char *file,
                           unsigned line) {
    if (p != NULL && lm_stack_over(stack, "free", file, line)) return stack->room.at;
    loam_stack_room *room = lm_stack_room(stack);
    if (p == NULL) return stack->room.at;
    if (stack->mode == LM_STACK_CHECKED) {
        loam_tag *tag = stack_find(stack, p, bytes, "free", file, line);
        if (tag != NULL) stack_close_one(stack, tag, file, line);
    } else if (stack->block != NULL) {
        if (stack->mode == LM_STACK_WATCHED) lm_tool_hide(p, bytes);
        if ((char *)p + stack_whole_of(stack, bytes) == room->at && is_own(stack, p))
            room->at = (char *)p;
    }
    return stack->room.at;
}

static void *stack_move(loam_stack *stack, void *p, size_t old_bytes, size_t bytes, size_t align,
                        const char *file, unsigned line) {
    void *there = stack_alloc_any_size(stack, bytes, align, file, line);
    size_t kept = old_bytes < bytes ? old_bytes : bytes;
    return there != NULL && kept != 0 ? memcpy(there, p, kept) : there;
}

static void *stack_realloc_checked(loam_stack *stack, void *p, size_t old_bytes, size_t bytes,
                                   size_t align, const char *file, unsigned line) {
    loam_tag *tag = stack_find(stack, p, old_bytes, "realloc", file, line);
    if (tag == NULL) return NULL;
    loam_stack_room *room = lm_stack_room(stack);
    char *raw = (char *)tag->raw;
    size_t head = (size_t)((char *)(tag + 1) - raw);
    size_t raw_bytes = head + lm_align_up(bytes + LM_GUARD_BYTES, 16);
    LM_ASSERT(old_bytes <= tag->raw_bytes - head - LM_GUARD_BYTES);
    bool last = raw + tag->raw_bytes == room->at;
    bool fits =
        last && (raw_bytes <= (size_t)(room->end - raw) || lm_stack_extend(stack, raw + raw_bytes));
    if (((uintptr_t)p & (align - 1)) == 0 && (fits || raw_bytes <= tag->raw_bytes)) {
        if (!last) raw_bytes = tag->raw_bytes;
        char *to = raw + raw_bytes, *gone = stack->block->gone;
        LM_ASSERT(!last || to <= room->end);
        if (last && to < room->at) stack->block->gone = lm_gone_cut(to, room->at, gone);
        if (last && to > room->at) {
            stack->block->gone = lm_gone_take(&stack->entry, room->at, room->at, to, gone);
            lm_tool_show_undefined(room->at, raw_bytes - tag->raw_bytes);
        }
        lm_guard_resize(&stack->entry, tag, raw_bytes, bytes);
        if (last) {
            char *was = room->at;
            room->at = raw + raw_bytes;
            if (was > room->at) lm_tool_hide(room->at, (size_t)(was - room->at));
        }
        return p;
    }
    void *there = stack_move(stack, p, old_bytes, bytes, align, file, line);
    if (there != NULL) stack_close_one(stack, tag, file, line);
    return there;
}

static void *realloc_any(loam_stack *stack, void *p, size_t old_bytes, size_t bytes, size_t align,
                         const char *file, unsigned line) {
    if (p == NULL) return stack_alloc_any_size(stack, bytes, align, file, line);
    if (lm_stack_over(stack, "realloc", file, line)) return NULL;
    if (!stack_possible(bytes, align)) return NULL;
    if (!may_allocate(stack, "realloc", file, line)) return NULL;
    if (stack->mode == LM_STACK_CHECKED)
        return stack_realloc_checked(stack, p, old_bytes, bytes, align, file, line);
    if (stack->block == NULL) return NULL;
    loam_stack_room *room = lm_stack_room(stack);
    char *at = (char *)p;
    bool last = at + stack_whole_of(stack, old_bytes) == room->at && is_own(stack, p);
    size_t whole = stack_whole_of(stack, bytes);
    bool fits = last && (whole <= (size_t)(room->end - at) || lm_stack_extend(stack, at + whole));
    if (((uintptr_t)p & (align - 1)) == 0 && (fits || bytes <= old_bytes)) {
        if (fits) room->at = at + whole;
        if (stack->mode == LM_STACK_WATCHED) {
            size_t most = bytes > old_bytes ? bytes : old_bytes;
            if (bytes > old_bytes) lm_tool_show_undefined(at + old_bytes, bytes - old_bytes);
            lm_tool_hide(at + bytes, most - bytes);
        }
        return p;
    }
    void *there = stack_move(stack, p, old_bytes, bytes, align, file, line);
    if (there != NULL && stack->mode == LM_STACK_WATCHED) lm_tool_hide(p, old_bytes);
    return there;
}

loam_stack_made loam_stack_realloc_slow(loam_stack *stack, void *p, size_t old_bytes, size_t bytes,
                                        size_t align, const char *file, unsigned line) {
    void *object = realloc_any(stack, p, old_bytes, bytes, align, file, line);
    return (loam_stack_made){object, stack->room.at};
}

/* ---- Copies ---- */

void *loam_stack_memdup_at(loam_stack *stack, const void *from, size_t bytes, const char *file,
                           unsigned line) {
    return lm_copy(loam_stack_alloc_at(stack, bytes, file, line), from, bytes);
}

char *loam_stack_strndup_at(loam_stack *stack, const char *from, size_t most, const char *file,
                            unsigned line) {
    size_t length = lm_text_length(from, most);
    return lm_copy_text(loam_stack_alloc_aligned_at(stack, length + 1, 1, file, line), from,
                        length);
}

char *loam_stack_strdup_at(loam_stack *stack, const char *from, const char *file, unsigned line) {
    return loam_stack_strndup_at(stack, from, PTRDIFF_MAX, file, line);
}

/* ---- The whole stack ---- */

void loam_stack_reset(loam_stack *stack) {
    if (lm_stack_over(stack, "reset", NULL, 0) || stack->source == NULL) return;
    if (stack->mode == LM_STACK_CHECKED) {
        (void)lm_stack_check_objects(stack);
        (void)lm_stack_check_gone(stack);
        lm_guard_drop_all(&stack->entry);
        stack->dead = NULL;
    }
    LM_METER(drop(&stack->entry));
    lm_stack_note_end(stack);
    set_newest(stack, NULL);
    stack->sealed = false;
    lm_stack_end_round(stack);
    LM_ASSERT(stack_is_empty(stack));
    lm_stack_open(stack);
}

size_t loam_stack_trim(loam_stack *stack) {
    if (lm_stack_over(stack, "trim", NULL, 0) || stack->source == NULL) return 0;
    size_t held = stack->held_bytes;
    if (stack->block != NULL && stack_is_empty(stack)) lm_stack_leave(stack);
    lm_stack_drop_free(stack, 0);
    lm_stack_shrink(stack, 0);
    lm_stack_open(stack);
    LM_ASSERT(stack->held_bytes <= held);
    return held - stack->held_bytes;
}
