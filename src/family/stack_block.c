/* stack_block.c: a stack's blocks (loam/stack.h): their size, which one is next, and when they are
 * given back.
 *
 *   first ──> ... ──> block ──> newer ──> last     blocks up to `block` are in use, later ones free
 *
 * Size: a block holds at least 64 requests of mean size. Requests are not counted. A request that
 * finds no room is a sample, drawn with a probability proportional to its size, so it stands for as
 * many requests as fit into a block. The sum and count of these samples start as if 64 requests had
 * filled a block. Both are divided by four when the count reaches 65,535. The first block has plain
 * size: the base returns to it, and blocks beyond it are then seen to be free.
 *
 * Invariants: used_bytes is the size of the blocks up to the current one; every place that a record
 * stores is in one of them.
 */
#include "family/stack.h"

enum { MEANS = 64, STACK_BLOCK_WINDOW = 65535, FIRST_COUNT = 64, STACK_BLOCK_UNIT = 4096 };

/* ---- The mean ---- */

void lm_stack_sample(loam_stack *stack, size_t block_bytes, size_t bytes) {
    if (bytes == 0) return;
    if (stack->count == 0) {
        stack->sum = stack->block_bytes;
        stack->count = FIRST_COUNT;
    }
    size_t many = block_bytes / bytes;
    if (many == 0) many = 1;
    if (stack->count >= STACK_BLOCK_WINDOW || stack->sum > SIZE_MAX / 2 - many * bytes) {
        stack->sum /= 4;
        stack->count /= 4;
    }
    if (stack->sum > SIZE_MAX - many * bytes) return; /* on 32 bits: the sum cannot grow further */
    stack->sum += many * bytes;
    stack->count += many;
    LM_ASSERT(stack->sum >= stack->count); /* the mean is 1 or more */
}

size_t lm_stack_mean(const loam_stack *stack) {
    return stack->count != 0 ? stack->sum / stack->count : 0;
}

/* ---- The source ---- */

static void *stack_block_get(loam_stack *stack, size_t bytes, size_t *got) {
    void *p = loam_source_get(stack->source, bytes, 16, got);
    if (p == NULL) return NULL;
    LM_METER(got(&stack->entry, *got));
    stack->requests++;
    stack->held_bytes += *got;
    if (stack->held_bytes > stack->peak_bytes) stack->peak_bytes = stack->held_bytes;
    return p;
}

static void stack_block_put(loam_stack *stack, void *p, size_t got) {
    LM_ASSERT(got != 0 && got <= stack->held_bytes);
    stack->held_bytes -= got;
    LM_METER(put(&stack->entry, got));
    loam_source_put(stack->source, p, got);
}

void lm_stack_put_block(loam_stack *stack, lm_block_head_t *block) {
    LM_ASSERT((block->older != NULL ? block->older->newer : stack->first) == block);
    LM_ASSERT((block->newer != NULL ? block->newer->older : stack->last) == block);
    *(block->older != NULL ? &block->older->newer : &stack->first) = block->newer;
    *(block->newer != NULL ? &block->newer->older : &stack->last) = block->older;
    size_t bytes = block->bytes;
    lm_tool_show_undefined((char *)block + sizeof(*block), bytes - sizeof(*block));
    if (lm_stack_contiguous(stack)) {
        lm_stack_pieces_t pieces = *lm_stack_pieces(block);
        LM_ASSERT(pieces.count != 0 && pieces.count <= LM_STACK_PIECES);
        for (size_t i = pieces.count; i-- > 1;) {
            bytes -= pieces.got[i];
            stack_block_put(stack, (char *)block + bytes, pieces.got[i]);
        }
        LM_ASSERT(bytes == pieces.got[0]);
    }
    stack_block_put(stack, block, bytes);
}

/* ---- Choosing a block ---- */

/* Returns the size of a block for usual requests. */
static size_t usual_bytes(const loam_stack *stack) {
    size_t mean = lm_stack_mean(stack);
    size_t by_mean = mean < PTRDIFF_MAX / (2 * MEANS) ? MEANS * mean : 0;
    return by_mean > stack->block_bytes ? by_mean : stack->block_bytes;
}

/* Returns whether the block is too large to be the first: as the first, it would never be seen to
 * be unneeded. */
static bool is_oversize(const loam_stack *stack, lm_block_head_t *block) {
    size_t bytes = lm_stack_contiguous(stack) ? lm_stack_pieces(block)->got[0] : block->bytes;
    return bytes / 4 > stack->block_bytes;
}

/* Makes a block after `after` with `need` bytes for objects. If the source has not enough memory,
 * half of the size is tried, and so on. */
static lm_block_head_t *stack_block_new(loam_stack *stack, lm_block_head_t *after, size_t need) {
    size_t got = 0, least = lm_align_up(need + lm_stack_head(stack), 16);
    size_t bytes = after != NULL ? usual_bytes(stack) : stack->block_bytes;
    if (bytes < least) bytes = least;
    if (bytes > stack->block_bytes && bytes <= PTRDIFF_MAX - STACK_BLOCK_UNIT)
        bytes = lm_align_up(bytes, STACK_BLOCK_UNIT);
    lm_block_head_t *block = NULL;
    for (;;) {
        block = (lm_block_head_t *)stack_block_get(stack, bytes, &got);
        if (block != NULL || bytes <= least) break;
        bytes = bytes / 2 > least ? lm_align_up(bytes / 2, 16) : least;
    }
    if (block == NULL) return NULL;
    *block = (lm_block_head_t){.older = after, .bytes = got};
    if (lm_stack_contiguous(stack)) {
        lm_stack_pieces(block)->count = 1;
        lm_stack_pieces(block)->got[0] = got;
    }
    block->newer = after != NULL ? after->newer : stack->first;
    LM_ASSERT((block->newer != NULL ? block->newer->older : stack->last) == after);
    *(after != NULL ? &after->newer : &stack->first) = block;
    *(block->newer != NULL ? &block->newer->older : &stack->last) = block;
    if (stack->mode != LM_STACK_PLAIN) {
        char *first = lm_stack_first(stack, block);
        lm_tool_hide(first, (size_t)((char *)block + got - first));
    }
    return block;
}

/* Returns the next block with room. Destroys blocks that are too small: at least one, and further
 * ones as long as they do not exceed the request. So free memory stays bounded, and one large
 * request does not destroy all free blocks. */
static lm_block_head_t *block_next(loam_stack *stack, lm_block_head_t *after, size_t need) {
    size_t destroyed = 0;
    lm_block_head_t *block = after != NULL ? after->newer : stack->first;
    if (after == NULL && block != NULL && need < stack->block_bytes && is_oversize(stack, block))
        return stack_block_new(stack, NULL, need + 16);
    while (block != NULL) {
        lm_block_head_t *newer = block->newer;
        LM_ASSERT(block != stack->block && lm_stack_first(stack, block) <= lm_stack_end(block));
        size_t room = (size_t)(lm_stack_end(block) - lm_stack_first(stack, block));
        if (room > need) return block; /* inline paths leave the last byte unused */
        if (destroyed != 0 && destroyed + room > need) break;
        destroyed += room;
        if (LM_UNLIKELY(stack->mode == LM_STACK_CHECKED))
            (void)lm_gone_check(&stack->entry, lm_stack_first(stack, block), block->gone);
        lm_stack_put_block(stack, block);
        block = newer;
    }
    return stack_block_new(stack, after, need + 16);
}

/* Extends the current block by `more` bytes at its end. */
static bool stack_block_grow(loam_stack *stack, size_t more) {
    lm_block_head_t *block = stack->block;
    lm_stack_pieces_t *pieces = lm_stack_pieces(block);
    LM_ASSERT(lm_stack_contiguous(stack) && block == stack->last && more != 0);
    LM_ASSERT(pieces->count != 0 && pieces->count <= LM_STACK_PIECES);
    if (pieces->count == LM_STACK_PIECES) return false;
    size_t least = lm_align_up(more, 16), bytes = block->bytes, got = 0;
    if (bytes < least) bytes = least;
    char *wanted = (char *)block + block->bytes, *p;
    for (;;) {
        p = (char *)stack_block_get(stack, bytes, &got);
        if (p != NULL || bytes <= least) break;
        bytes = bytes / 2 > least ? lm_align_up(bytes / 2, 16) : least;
    }
    if (p != wanted) {
        if (p != NULL) stack_block_put(stack, p, got);
        return false;
    }
    pieces->got[pieces->count++] = got;
    block->bytes += got;
    stack->used_bytes += got;
    if (stack->mode != LM_STACK_PLAIN) lm_tool_hide(p, got);
    return true;
}

static void note_round(loam_stack *stack) {
    if (stack->used_bytes > stack->round_bytes) stack->round_bytes = stack->used_bytes;
}

void lm_stack_note_end(loam_stack *stack) {
    if (stack->block == NULL || !lm_stack_contiguous(stack)) return;
    LM_ASSERT(lm_stack_inside(stack->block, lm_stack_room(stack)->at));
    size_t used = (size_t)(lm_stack_room(stack)->at - (char *)stack->block);
    if (used > stack->round_bytes) stack->round_bytes = used;
}

bool lm_stack_extend(loam_stack *stack, char *to) {
    lm_block_head_t *block = stack->block;
    loam_stack_room *room = lm_stack_room(stack);
    if (block == NULL || block->newer != NULL || !lm_stack_contiguous(stack)) return false;
    if (to <= room->end || !stack_block_grow(stack, (size_t)(to - room->end))) return false;
    room->end = lm_stack_end(block);
    LM_ASSERT(to <= room->end);
    note_round(stack);
    return true;
}

/* Moves frames below the newest that are in the full block, with no room there for a usual request,
 * to the place of the newest. */
static void move_older(const loam_stack *stack, const lm_block_head_t *full, char *first) {
    size_t usual = lm_stack_mean(stack);
    const char *end = lm_stack_end(full);
    for (loam_stack_record *record = lm_stack_newest(stack); record != NULL;
         record = lm_record_older(record)) {
        const char *at = lm_record_at(record);
        if (!lm_stack_inside(full, at) || (size_t)(end - at) >= usual) break;
        record->moved = first;
        lm_record_mark(record, LM_RECORD_MOVED);
    }
}

bool lm_stack_advance(loam_stack *stack, size_t bytes, size_t align) {
    size_t need = bytes + (align > 16 ? align - 16 : 0);
    lm_block_head_t *full = stack->block;
    loam_stack_room *room = lm_stack_room(stack);
    if (full != NULL) {
        uintptr_t at = loam_stack_round((uintptr_t)room->at, align);
        if (at >= (uintptr_t)room->at && bytes < UINTPTR_MAX - at - 16 &&
            lm_stack_extend(stack, (char *)(at + bytes + 16)))
            return true;
    }
    lm_block_head_t *block = block_next(stack, full, need);
    if (block == NULL) return false;
    LM_ASSERT(block->older == full);
    if (full != NULL) {
        LM_ASSERT(lm_stack_inside(full, room->at));
        full->left = room->at;
        move_older(stack, full, lm_stack_first(stack, block));
    }
    stack->block = block;
    stack->used_bytes += block->bytes;
    LM_ASSERT(stack->used_bytes <= stack->held_bytes);
    note_round(stack);
    room->at = lm_stack_first(stack, block);
    room->end = lm_stack_end(block);
    return true;
}

/* ---- Going back ---- */

static void stack_block_hide(const loam_stack *stack, const char *from, const char *to) {
    if (stack->mode != LM_STACK_PLAIN && to > from) lm_tool_hide(from, (size_t)(to - from));
}

bool lm_stack_has_spare(const loam_stack *stack) {
    lm_block_head_t *first = stack->first;
    if (stack->held_bytes <= stack->keep_bytes) return false;
    if (first == NULL || stack->block == NULL) return first != NULL;
    return first->newer != NULL ||
           (lm_stack_contiguous(stack) && lm_stack_pieces(first)->count > 1);
}

static void set_end(loam_stack *stack) {
    const lm_block_head_t *block = stack->block;
    loam_stack_room *room = lm_stack_room(stack);
    LM_ASSERT(lm_stack_inside(block, room->at));
    room->end = lm_stack_end(block);
    /* Frames that were pushed when there was nothing to give back must notice that there is now. */
    if (block == stack->first && block->newer != NULL && lm_stack_has_spare(stack) &&
        room->end - room->at > 16)
        room->end -= 16;
}

/* Records that the objects in [from, to) have ended, in a checked stack. */
static void stack_block_note_gone(const loam_stack *stack, lm_block_head_t *block, char *from,
                                  const char *to) {
    if (LM_UNLIKELY(stack->mode == LM_STACK_CHECKED))
        block->gone = lm_gone_bury(&stack->entry, from, (char *)(uintptr_t)to, block->gone);
}

/* Gives a free block back. */
static void put_free(loam_stack *stack, lm_block_head_t *block) {
    LM_ASSERT(block != stack->block);
    if (LM_UNLIKELY(stack->mode == LM_STACK_CHECKED))
        (void)lm_gone_check(&stack->entry, lm_stack_first(stack, block), block->gone);
    lm_stack_put_block(stack, block);
}

void lm_stack_go_back(loam_stack *stack, char *at) {
    lm_block_head_t *block = stack->block;
    loam_stack_room *room = lm_stack_room(stack);
    const char *to = room->at;
    while (!lm_stack_inside(block, at)) {
        stack_block_hide(stack, lm_stack_first(stack, block), to);
        stack_block_note_gone(stack, block, lm_stack_first(stack, block), to);
        LM_ASSERT(block->older != NULL && block->bytes <= stack->used_bytes);
        stack->used_bytes -= block->bytes;
        block = block->older;
        to = block->left;
    }
    stack_block_hide(stack, at, to);
    stack_block_note_gone(stack, block, at, to);
    stack->block = block;
    room->at = at;
    set_end(stack);
}

void lm_stack_drop_free(loam_stack *stack, size_t most) {
    lm_block_head_t *block = stack->block != NULL ? stack->block->newer : stack->first;
    size_t kept = 0;
    while (block != NULL) {
        lm_block_head_t *newer = block->newer;
        if (block->bytes <= most - kept)
            kept += block->bytes;
        else
            put_free(stack, block);
        block = newer;
    }
}

void lm_stack_shrink(loam_stack *stack, size_t most) {
    lm_block_head_t *block = stack->block;
    if (block == NULL || !lm_stack_contiguous(stack) || block->newer != NULL) return;
    loam_stack_room *room = lm_stack_room(stack);
    lm_stack_pieces_t *pieces = lm_stack_pieces(block);
    LM_ASSERT(lm_stack_inside(block, room->at));
    LM_ASSERT(pieces->count != 0 && pieces->count <= LM_STACK_PIECES);
    size_t used = (size_t)(lm_align_up((uintptr_t)room->at, 16) - (uintptr_t)block);
    if (most < used) most = used;
    while (pieces->count > 1 && block->bytes - pieces->got[pieces->count - 1] >= most) {
        size_t got = pieces->got[--pieces->count];
        if (stack->mode == LM_STACK_CHECKED && block->gone != NULL) {
            (void)lm_gone_check(&stack->entry, room->at, block->gone);
            block->gone = NULL; /* a unit may have lost its end */
        }
        LM_ASSERT(got < block->bytes && got <= stack->used_bytes);
        block->bytes -= got;
        stack->used_bytes -= got;
        lm_tool_show_undefined((char *)block + block->bytes, got);
        stack_block_put(stack, (char *)block + block->bytes, got);
        room->end = lm_stack_end(block);
    }
}

/* Leaves all blocks free and none current. Over a contiguous source all are given back, because the
 * current block would not be the first again. */
void lm_stack_leave(loam_stack *stack) {
    LM_ASSERT(lm_stack_newest(stack) == NULL);
    *lm_stack_room(stack) = (loam_stack_room){0};
    stack->block = NULL;
    stack->used_bytes = 0;
    if (lm_stack_contiguous(stack)) lm_stack_drop_free(stack, 0);
}

void lm_stack_end_round(loam_stack *stack) {
    LM_ASSERT(lm_stack_newest(stack) == NULL && stack->used_bytes <= stack->held_bytes);
    size_t average = stack->average_bytes;
    average = average - average / 4 + stack->round_bytes / 4;
    if (average < stack->round_bytes) average = stack->round_bytes;
    stack->average_bytes = average;
    if (average < stack->keep_bytes) average = stack->keep_bytes;
    if (stack->block != NULL) {
        lm_block_head_t *first = stack->first;
        lm_stack_go_back(stack, lm_stack_first(stack, first));
        if (LM_UNLIKELY(is_oversize(stack, first))) lm_stack_leave(stack);
    }
    if (stack->held_bytes > average) {
        lm_stack_drop_free(stack, average > stack->used_bytes ? average - stack->used_bytes : 0);
        lm_stack_shrink(stack, average);
        /* Later frames must notice blocks that are added after this. */
        if (stack->block != NULL) set_end(stack);
    }
    stack->round_bytes = lm_stack_contiguous(stack) ? 0 : stack->used_bytes;
}
