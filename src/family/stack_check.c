/* stack_check.c: usage, origin of addresses and invariants of a stack (loam/stack.h). */
#include "family/stack.h"

/* Returns the end of a block's objects. */
static const char *stack_check_at_of(const loam_stack *stack, const lm_block_head_t *block) {
    return block == stack->block ? lm_stack_room_of(stack)->at : block->left;
}

bool loam_stack_contains(const loam_stack *stack, const void *p) {
    for (const lm_block_head_t *block = stack->block; block != NULL; block = block->older) {
        if ((const char *)p >= lm_stack_first(stack, block) &&
            (const char *)p < stack_check_at_of(stack, block))
            return true;
    }
    return false;
}

void loam_stack_usage(const loam_stack *stack, loam_usage *usage) {
    size_t chunks = 0, used = 0, objects = 0;
    if (lm_stack_over(stack, "usage", NULL, 0)) {
        *usage = (loam_usage){.kind = lm_stack_kind.name, .name = ""};
        return;
    }
    for (const lm_block_head_t *block = stack->first; block != NULL; block = block->newer) chunks++;
    for (const lm_block_head_t *block = stack->block; block != NULL; block = block->older)
        used += (size_t)(stack_check_at_of(stack, block) - lm_stack_first(stack, block));
    for (const loam_tag *tag = stack->entry.live; tag != NULL; tag = tag->next) objects++;
    *usage = (loam_usage){
        .kind = lm_stack_kind.name,
        .name = stack->entry.name != NULL ? stack->entry.name : "",
        .held_bytes = stack->held_bytes,
        .used_bytes = used,
        .peak_bytes = stack->peak_bytes,
        .chunks = chunks,
        .requests = stack->requests,
        .objects = stack->mode == LM_STACK_CHECKED ? objects : LOAM_UNKNOWN,
    };
}

/* ---- Invariants ---- */

static bool stack_check_broken(const loam_stack *stack, const char *what, const void *where) {
    lm_family_misuse(&stack->entry, NULL, 0, "%s, at %p", what, where);
    return false;
}

bool lm_stack_check_objects(const loam_stack *stack) {
    bool good = lm_guard_check(&stack->entry);
    for (const loam_tag *tag = stack->dead; tag != NULL; tag = tag->next)
        good = lm_guard_check_freed(&stack->entry, tag) && good;
    return good;
}

static bool check_blocks(const loam_stack *stack) {
    const lm_block_head_t *older = NULL;
    bool in_use = stack->block != NULL;
    size_t held = 0, used = 0;
    for (const lm_block_head_t *block = stack->first; block != NULL; block = block->newer) {
        if (block->older != older) return stack_check_broken(stack, "the list of blocks", block);
        held += block->bytes;
        if (in_use) {
            const char *at = stack_check_at_of(stack, block);
            used += block->bytes;
            if (at < lm_stack_first(stack, block) || at > lm_stack_end(block))
                return stack_check_broken(stack, "a block's position is outside of it", block);
        }
        if (block == stack->block) in_use = false;
        if (lm_stack_contiguous(stack)) {
            lm_stack_pieces_t *pieces = lm_stack_pieces((lm_block_head_t *)(uintptr_t)block);
            size_t sum = 0;
            for (size_t i = 0; i < pieces->count && i < LM_STACK_PIECES; i++) sum += pieces->got[i];
            if (sum != block->bytes)
                return stack_check_broken(stack, "a block's pieces are not it", block);
        }
        older = block;
    }
    if (stack->last != older || in_use)
        return stack_check_broken(stack, "the list of blocks", stack->last);
    if (held != stack->held_bytes || used != stack->used_bytes)
        return stack_check_broken(stack, "blocks are lost", stack->block);
    return true;
}

static bool stack_check_room(const loam_stack *stack) {
    const loam_stack_room *room = lm_stack_room_of(stack);
    bool plain = stack->mode == LM_STACK_PLAIN;
    if ((!stack->open && (stack->room.at != NULL || stack->room.end != NULL)) ||
        (!plain && (stack->open || stack->newest != NULL)) || (stack->sealed && stack->open))
        return stack_check_broken(stack, "inline paths are open", stack);
    const char *end = stack->block != NULL ? lm_stack_end(stack->block) : NULL;
    bool shorter = stack->block != NULL && stack->block == stack->first && room->end == end - 16;
    if ((room->end != end && !shorter) || room->at > room->end)
        return stack_check_broken(stack, "the end is not the current block's", room->end);
    return true;
}

/* Checks the frames from the newest on: each lies before the newer one, and records a place that is
 * in use. */
static bool stack_check_frames(const loam_stack *stack) {
    const char *after = lm_stack_room_of(stack)->at;
    const lm_block_head_t *block = stack->block;
    for (const loam_stack_record *record = lm_stack_newest(stack); record != NULL;
         record = lm_record_older(record)) {
        const char *at = (const char *)record;
        while (block != NULL && !lm_stack_inside(block, at)) {
            block = block->older;
            if (block != NULL) after = block->left;
        }
        if (block == NULL || at >= after)
            return stack_check_broken(stack, "a frame is not in order", record);
        if (lm_record_is(record, LM_RECORD_MOVED) &&
            lm_stack_block_of(stack, record->moved) == NULL)
            return stack_check_broken(stack, "a frame remembers what is not in use", record);
        after = at;
    }
    return true;
}

bool lm_stack_check_gone(const loam_stack *stack) {
    bool in_use = stack->block != NULL, good = true;
    for (const lm_block_head_t *block = stack->first; block != NULL; block = block->newer) {
        const char *at = in_use ? stack_check_at_of(stack, block) : lm_stack_first(stack, block);
        good = lm_gone_check(&stack->entry, at, block->gone) && good;
        if (block == stack->block) in_use = false;
    }
    return good;
}

bool loam_stack_check(const loam_stack *stack) {
    if (lm_stack_over(stack, "check", NULL, 0)) return false;
    if (stack->source == NULL) return true;
    if (!check_blocks(stack) || !stack_check_room(stack) || !stack_check_frames(stack))
        return false;
    if (stack->mode != LM_STACK_CHECKED) return true;
    bool good = lm_stack_check_objects(stack);
    return lm_stack_check_gone(stack) && good;
}

static const loam_stack *stack_of(const loam_entry *entry) {
    return LM_CONTAINER(entry, loam_stack, entry);
}
static void stack_check_usage_of(const loam_entry *entry, loam_usage *usage) {
    loam_stack_usage(stack_of(entry), usage);
}
static bool stack_check_of(const loam_entry *entry) { return loam_stack_check(stack_of(entry)); }

const loam_kind lm_stack_kind = {"stack", stack_check_usage_of, stack_check_of, NULL};
