/* ring_check.c: usage and invariants of a ring (loam/ring.h), and the checks of a checked ring. */
#include "family/ring.h"

bool lm_ring_part(const loam_ring *ring, const loam_ring_frame *frame, const lm_ring_block_t *block,
                  const char **from, const char **to) {
    const loam_ring_frame *newer = frame->newer;
    *from = block == frame->block ? (const char *)(frame + 1) : lm_ring_first(block);
    if (newer != NULL && newer->block == block)
        *to = (const char *)newer;
    else
        *to = block == ring->block ? lm_ring_now(ring) : block->left;
    return block != (newer != NULL ? newer->block : ring->block);
}

/* ---- Usage ---- */

void loam_ring_usage(const loam_ring *ring, loam_usage *usage) {
    size_t chunks = 0, used = 0, objects = 0;
    *usage = (loam_usage){.kind = lm_ring_kind.name, .name = ""};
    if (lm_ring_over(ring, "usage", NULL, 0)) return;
    const lm_ring_block_t *block = ring->block;
    if (block != NULL) do {
            chunks++;
            block = block->next;
        } while (block != ring->block);
    for (const loam_ring_frame *frame = ring->oldest; frame != NULL; frame = frame->newer) {
        bool more = true;
        used += sizeof(*frame);
        for (block = frame->block; more; block = block->next) {
            const char *from, *to;
            more = lm_ring_part(ring, frame, block, &from, &to);
            if (to > from) used += (size_t)(to - from);
        }
    }
    for (const loam_tag *tag = ring->entry.live; tag != NULL; tag = tag->next) objects++;
    *usage = (loam_usage){
        .kind = lm_ring_kind.name,
        .name = ring->entry.name != NULL ? ring->entry.name : "",
        .held_bytes = ring->held_bytes,
        .used_bytes = used,
        .peak_bytes = ring->peak_bytes,
        .chunks = chunks,
        .requests = ring->requests,
        .objects = ring->mode == LM_RING_CHECKED ? objects : LOAM_UNKNOWN,
    };
}

static bool ring_check_broken(const loam_ring *ring, const char *what, const void *where) {
    lm_family_misuse(&ring->entry, NULL, 0, "%s, at %p", what, where);
    return false;
}

static bool ring_check_frames(const loam_ring *ring) {
    const loam_ring_frame *older = NULL;
    for (const loam_ring_frame *frame = ring->oldest; frame != NULL; frame = frame->newer) {
        if (frame->older != older ||
            (!lm_ring_is(ring, frame, LM_RING_ALIVE) && !lm_ring_is(ring, frame, LM_RING_RELEASED)))
            return ring_check_broken(ring, "the list of frames", frame);
        const char *record = (const char *)frame, *from, *to;
        (void)lm_ring_part(ring, frame, frame->block, &from, &to);
        if (record < lm_ring_first(frame->block) || from > to || to > lm_ring_end(frame->block))
            return ring_check_broken(ring, "a frame is not in its block", frame);
        older = frame;
    }
    if (ring->newest != older) return ring_check_broken(ring, "the list of frames", ring->newest);
    if (older != NULL && (lm_ring_is(ring, older, LM_RING_RELEASED) ||
                          lm_ring_is(ring, ring->oldest, LM_RING_RELEASED)))
        return ring_check_broken(ring, "a released frame holds memory", older);
    return true;
}

/* Checks what ended objects have left, in free blocks and after the current position. */
static bool check_gone(const loam_ring *ring) {
    const lm_ring_block_t *block = ring->block;
    if (block == NULL) return true;
    bool good = lm_gone_check(&ring->entry, lm_ring_now(ring), block->gone);
    const lm_ring_block_t *used = lm_ring_first_used(ring);
    for (block = block->next; block != ring->block && block != used; block = block->next)
        good = lm_gone_check(&ring->entry, lm_ring_first(block), block->gone) && good;
    return good;
}

bool lm_ring_check_objects(const loam_ring *ring) {
    bool good = check_gone(ring);
    good = lm_guard_check(&ring->entry) && good;
    for (const loam_tag *tag = ring->dead; tag != NULL; tag = tag->next)
        good = lm_guard_check_freed(&ring->entry, tag) && good;
    return good;
}

bool loam_ring_check(const loam_ring *ring) {
    if (lm_ring_over(ring, "check", NULL, 0)) return false;
    size_t held = 0;
    const lm_ring_block_t *block = ring->block;
    if (block != NULL) do {
            if (block->next->before != block)
                return ring_check_broken(ring, "the ring of blocks", block);
            held += block->bytes;
            block = block->next;
        } while (block != ring->block);
    if (held != ring->held_bytes) return ring_check_broken(ring, "blocks are lost", ring->block);
    const char *at = lm_ring_now(ring), *end = ring->open ? ring->end : ring->hidden_end;
    if (end != (ring->block != NULL ? lm_ring_end(ring->block) : NULL) || at > end)
        return ring_check_broken(ring, "the end is not the current block's", end);
    if (!ring->open && (ring->at != NULL || ring->end != NULL))
        return ring_check_broken(ring, "inline paths are open", ring);
    return ring_check_frames(ring) &&
           (ring->mode != LM_RING_CHECKED || lm_ring_check_objects(ring));
}

static const loam_ring *ring_of(const loam_entry *entry) {
    return LM_CONTAINER(entry, loam_ring, entry);
}
static void ring_check_usage_of(const loam_entry *entry, loam_usage *usage) {
    loam_ring_usage(ring_of(entry), usage);
}
static bool ring_check_of(const loam_entry *entry) { return loam_ring_check(ring_of(entry)); }

const loam_kind lm_ring_kind = {"ring", ring_check_usage_of, ring_check_of, NULL};
