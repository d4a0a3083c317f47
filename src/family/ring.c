/* ring.c: frames that end in any order (loam/ring.h).
 *
 *   oldest ──> frame ──> frame ──> newest    in the order of their memory; a released frame waits
 *                                            until it is the oldest or the newest
 *   block ──> free ──> free ──> oldest's block ──> ... ──> block     the ring; the blocks from the
 *                                                                    oldest's on are used
 *
 * A frame's memory begins with its record and ends where the next frame's begins. Invariants:
 * neither the oldest nor the newest frame is a released one; without frames all blocks are free,
 * the current one from its beginning.
 */
#include "family/ring.h"

enum { RING_BLOCK_LEAST = 256, RING_UNIT = 4096, OVERSIZE = 4 };
#define RING_BLOCK_BYTES (64 * LM_KIB)

static char **ring_at_of(loam_ring *ring) { return ring->open ? &ring->at : &ring->hidden_at; }
static char **ring_end_of(loam_ring *ring) { return ring->open ? &ring->end : &ring->hidden_end; }
static void ring_hide(const loam_ring *ring, const char *from, const char *to) {
    if (ring->mode != LM_RING_PLAIN && to > from) lm_tool_hide(from, (size_t)(to - from));
}

/* Opens or closes the inline paths. They are open while there is a live newest frame, and no tool
 * watches. */
static void set_open(loam_ring *ring) {
    LM_ASSERT(!ring->open || ring->mode == LM_RING_PLAIN);
    LM_ASSERT((ring->open ? ring->hidden_at : ring->at) == NULL);
    bool open = ring->mode == LM_RING_PLAIN && ring->newest != NULL;
    if (open == (ring->open != 0)) return;
    char *at = *ring_at_of(ring), *end = *ring_end_of(ring);
    *ring_at_of(ring) = *ring_end_of(ring) = NULL;
    ring->open = open;
    *ring_at_of(ring) = at;
    *ring_end_of(ring) = end;
}

/* ---- Initialisation and end ---- */

int loam_ring_init_as(loam_ring *ring, loam_source *source, const loam_ring_options *options,
                      unsigned more_flags) {
    static const loam_ring_options defaults;
#if LM_HOSTED
    if (source == NULL) source = loam_pages();
#endif
    if (options == NULL) options = &defaults;
    size_t bytes = options->block_bytes != 0 ? options->block_bytes : RING_BLOCK_BYTES;
    if (source == NULL || bytes < RING_BLOCK_LEAST || bytes > PTRDIFF_MAX) return LM_EINVAL;
    bool checked = lm_is_checked(options->flags | more_flags);
    *ring = (loam_ring){.source = source, .block_bytes = bytes};
    if (checked) {
        ring->mode = LM_RING_CHECKED;
    } else if (lm_tool_watches()) {
        ring->mode = LM_RING_WATCHED;
        ring->redzone = (source->flags & LOAM_SOURCE_CONTIGUOUS) != 0 ? 0 : 16;
    }
    lm_entry_init(&ring->entry, &lm_ring_kind, options->name, checked);
    return 0;
}

static void put_block(loam_ring *ring, lm_ring_block_t *block) {
    LM_ASSERT(block->next->before == block && block->before->next == block);
    LM_ASSERT(block != ring->block || block->next == block);
    block->next->before = block->before;
    block->before->next = block->next;
    if (block == ring->block) ring->block = NULL; /* it was the last one */
    size_t bytes = block->bytes;
    lm_tool_show_undefined(block, bytes);
    LM_ASSERT(bytes <= ring->held_bytes);
    ring->held_bytes -= bytes;
    LM_METER(put(&ring->entry, bytes));
    loam_source_put(ring->source, block, bytes);
}

void loam_ring_deinit(loam_ring *ring) {
    if (lm_ring_over(ring, "deinit", NULL, 0)) return;
    if (ring->mode == LM_RING_CHECKED) {
        (void)lm_ring_check_objects(ring);
        lm_guard_drop_all(&ring->entry);
    }
    lm_entry_deinit(&ring->entry);
    while (ring->block != NULL) put_block(ring, ring->block->before);
    LM_ASSERT(ring->held_bytes == 0);
    ring->at = ring->end = ring->hidden_at = ring->hidden_end = NULL;
    ring->newest = ring->oldest = NULL;
    ring->open = false;
    if (ring->mode != LM_RING_CHECKED) return;
    ring->mode = LM_RING_ENDED;
    /* The name is copied into words that the ring no longer needs. */
    lm_entry_bury(&ring->entry, (char *)&ring->held_bytes, 3 * sizeof(size_t));
}

/* ---- Blocks ---- */

static lm_ring_block_t *ring_block_new(loam_ring *ring, size_t need) {
    size_t head = lm_align_up(sizeof(lm_ring_block_t), 16),
           least = lm_align_up(need + head + 16, 16);
    size_t bytes = ring->block_bytes, got = 0;
    if (bytes < least) bytes = lm_align_up(least, RING_UNIT);
    lm_ring_block_t *block = NULL;
    for (;;) {
        block = (lm_ring_block_t *)loam_source_get(ring->source, bytes, 16, &got);
        if (block != NULL || bytes <= least) break;
        bytes = bytes / 2 > least ? lm_align_up(bytes / 2, 16) : least;
    }
    if (block == NULL) return NULL;
    LM_METER(got(&ring->entry, got));
    ring->requests++;
    ring->held_bytes += got;
    if (ring->held_bytes > ring->peak_bytes) ring->peak_bytes = ring->held_bytes;
    LM_ASSERT(ring->block != NULL || ring->held_bytes == got);
    block->bytes = got;
    block->gone = block->left = NULL;
    block->before = ring->block != NULL ? ring->block : block;
    block->next = ring->block != NULL ? ring->block->next : block;
    block->next->before = block;
    block->before->next = block;
    ring_hide(ring, lm_ring_first(block), (char *)block + got);
    return block;
}

/* Returns whether the block after the current one is free. */
static bool next_is_free(const loam_ring *ring) {
    LM_ASSERT(ring->block != NULL);
    const lm_ring_block_t *next = ring->block->next;
    return next != ring->block && (ring->oldest == NULL || next != ring->oldest->block);
}

/* Makes the smallest free block that is large enough the next one, over a contiguous source, which
 * could not reuse memory that it took back. Returns NULL iff there is none. */
static lm_ring_block_t *best_free(const loam_ring *ring, size_t need) {
    const lm_ring_block_t *used = lm_ring_first_used(ring);
    lm_ring_block_t *best = NULL, *at = ring->block;
    for (lm_ring_block_t *block = at->next; block != at && block != used; block = block->next) {
        if ((size_t)(lm_ring_end(block) - lm_ring_first(block)) <= need) continue;
        if (best == NULL || block->bytes < best->bytes) best = block;
    }
    if (best == NULL || best == at->next) return best;
    best->before->next = best->next;
    best->next->before = best->before;
    best->before = at;
    best->next = at->next;
    return best->next->before = at->next = best;
}

static bool ring_advance(loam_ring *ring, size_t need) {
    size_t most = OVERSIZE * (need > ring->block_bytes ? need : ring->block_bytes);
    bool contiguous = (ring->source->flags & LOAM_SOURCE_CONTIGUOUS) != 0;
    lm_ring_block_t *block = contiguous && ring->block != NULL ? best_free(ring, need) : NULL;
    while (!contiguous && ring->block != NULL && next_is_free(ring)) {
        block = ring->block->next;
        size_t room = (size_t)(lm_ring_end(block) - lm_ring_first(block));
        if (room > need && block->bytes <= most) break;
        if (ring->mode == LM_RING_CHECKED)
            (void)lm_gone_check(&ring->entry, lm_ring_first(block), block->gone);
        put_block(ring, block);
        block = NULL;
    }
    if (block == NULL) block = ring_block_new(ring, need);
    if (block == NULL) return false;
    LM_ASSERT(block != ring->block && (ring->block == NULL || ring->block->next == block));
    LM_ASSERT((size_t)(lm_ring_end(block) - lm_ring_first(block)) > need);
    if (ring->block != NULL) ring->block->left = *ring_at_of(ring);
    ring->block = block;
    *ring_at_of(ring) = lm_ring_first(block);
    *ring_end_of(ring) = lm_ring_end(block);
    return true;
}

static void *ring_carve(loam_ring *ring, size_t bytes, size_t align) {
    LM_ASSERT(ring->mode != LM_RING_ENDED && lm_is_pow2(align));
    for (int twice = 0;; twice++) {
        uintptr_t at = (uintptr_t)*ring_at_of(ring), end = (uintptr_t)*ring_end_of(ring);
        uintptr_t p = lm_align_up(at, align);
        if (ring->block != NULL && p >= at && p <= end && bytes <= end - p) {
            if (LM_UNLIKELY(ring->mode == LM_RING_CHECKED))
                ring->block->gone = lm_gone_take(&ring->entry, (char *)at, (char *)p,
                                                 (char *)(p + bytes), ring->block->gone);
            *ring_at_of(ring) = (char *)(p + bytes);
            LM_ASSERT((char *)p >= lm_ring_first(ring->block));
            LM_ASSERT((char *)(p + bytes) <= lm_ring_end(ring->block));
            return (void *)p;
        }
        if (twice == 1 || !ring_advance(ring, bytes + (align > 16 ? align - 16 : 0))) return NULL;
    }
}

/* ---- Frames ---- */

loam_ring_frame *loam_ring_open_at(loam_ring *ring, const char *file, unsigned line) {
    if (lm_ring_over(ring, "open", file, line)) return NULL;
    loam_ring_frame *frame = (loam_ring_frame *)ring_carve(ring, sizeof(*frame), 16);
    if (frame == NULL) return NULL;
    LM_ASSERT((ring->newest == NULL) == (ring->oldest == NULL));
    LM_ASSERT(ring->newest == NULL || ring->newest->newer == NULL);
    lm_tool_show_undefined(frame, sizeof(*frame));
    *frame = (loam_ring_frame){.older = ring->newest,
                               .block = ring->block,
                               .state = lm_ring_state(ring, frame, LM_RING_ALIVE),
                               .file = file,
                               .line = line};
    *(ring->newest != NULL ? &ring->newest->newer : &ring->oldest) = frame;
    ring->newest = frame;
    set_open(ring);
    return frame;
}

static bool belongs(const loam_ring *ring, const loam_ring_frame *frame, const void *p) {
    const lm_ring_block_t *block = frame->block;
    for (bool more = true; more; block = block->next) {
        const char *from, *to;
        more = lm_ring_part(ring, frame, block, &from, &to);
        if ((const char *)p >= from && (const char *)p < to) return true;
    }
    return false;
}

/* Ends the objects of a frame that ends. The live list is in the order of their memory, so the
 * objects of a frame are adjacent, and those of the oldest frame are the last. */
static void close_objects(loam_ring *ring, const loam_ring_frame *frame) {
    bool last = frame == ring->oldest;
    loam_tag *tag = last ? lm_guard_last(&ring->entry) : ring->entry.live;
    while (tag != NULL && !belongs(ring, frame, tag->raw)) tag = last ? NULL : tag->next;
    while (tag != NULL && belongs(ring, frame, tag->raw)) {
        loam_tag *next = last ? lm_guard_newer(&ring->entry, tag) : tag->next;
        /* Reports an overflow now. */
        (void)lm_guard_find(&ring->entry, tag + 1, "release", NULL, 0);
        lm_guard_close(&ring->entry, tag, NULL, 0);
        tag = next;
    }
    loam_tag **link = &ring->dead;
    while (*link != NULL) {
        if (belongs(ring, frame, (*link)->raw)) {
            (void)lm_guard_check_freed(&ring->entry, *link);
            *link = (*link)->next;
        } else {
            link = &(*link)->next;
        }
    }
}

static void hide_frame(const loam_ring *ring, const loam_ring_frame *frame) {
    const lm_ring_block_t *block = frame->block;
    for (bool more = true; more; block = block->next) {
        const char *from, *to;
        more = lm_ring_part(ring, frame, block, &from, &to);
        ring_hide(ring, from, to);
    }
}

static bool note_block(const loam_ring *ring, lm_ring_block_t *block) {
    if (block->left == NULL) return false;
    LM_ASSERT(block->left >= lm_ring_first(block) && block->left <= lm_ring_end(block));
    block->gone = lm_gone_bury(&ring->entry, lm_ring_first(block), block->left, block->gone);
    block->left = NULL;
    return true;
}

/* Watches memory that frames have given back until it is used again, in a checked ring. `block` was
 * the current block, used up to `at`. */
static void ring_note_gone(loam_ring *ring, lm_ring_block_t *block, char *at) {
    LM_ASSERT(at >= lm_ring_first(block) && at <= lm_ring_end(block));
    block->left = at;
    char *to = ring->block->left, *now = *ring_at_of(ring);
    if (to > now) ring->block->gone = lm_gone_bury(&ring->entry, now, to, ring->block->gone);
    ring->block->left = NULL;
    /* Blocks that have just become free are the first or the last of the free ones. */
    const lm_ring_block_t *used = lm_ring_first_used(ring);
    for (block = ring->block->next; block != ring->block && block != used; block = block->next)
        if (!note_block(ring, block)) break;
    for (block = used->before; block != ring->block; block = block->before)
        if (!note_block(ring, block)) break;
}

/* Gives back the memory of released frames at both ends. */
static void ring_collect(loam_ring *ring) {
    lm_ring_block_t *was = ring->block;
    char *was_at = *ring_at_of(ring);
    while (ring->newest != NULL && lm_ring_is(ring, ring->newest, LM_RING_RELEASED)) {
        loam_ring_frame *frame = ring->newest;
        LM_ASSERT(frame->newer == NULL && (char *)frame >= lm_ring_first(frame->block) &&
                  (char *)frame < lm_ring_end(frame->block));
        ring->newest = frame->older;
        *(frame->older != NULL ? &frame->older->newer : &ring->oldest) = NULL;
        ring->block = frame->block;
        *ring_at_of(ring) = (char *)frame;
        *ring_end_of(ring) = lm_ring_end(frame->block);
        ring_hide(ring, (char *)frame, (char *)(frame + 1));
    }
    while (ring->oldest != NULL && lm_ring_is(ring, ring->oldest, LM_RING_RELEASED)) {
        loam_ring_frame *frame = ring->oldest;
        LM_ASSERT(frame->older == NULL && frame->newer != NULL);
        ring->oldest = frame->newer;
        ring->oldest->older = NULL; /* the newest frame is not released */
        ring_hide(ring, (char *)frame, (char *)(frame + 1));
    }
    LM_ASSERT((ring->newest == NULL) == (ring->oldest == NULL));
    if (ring->newest == NULL) *ring_at_of(ring) = lm_ring_first(ring->block);
    if (ring->mode == LM_RING_CHECKED) ring_note_gone(ring, was, was_at);
    set_open(ring);
}

/* Searches from both ends, because frames usually end at one of them. */
static bool is_listed(const loam_ring *ring, const loam_ring_frame *frame) {
    const loam_ring_frame *older = ring->newest, *newer = ring->oldest;
    for (; older != NULL && older != frame && newer != frame; older = older->older)
        newer = newer->newer;
    return older != NULL;
}

void loam_ring_release_at(loam_ring *ring, loam_ring_frame *frame, const char *file,
                          unsigned line) {
    if (frame == NULL || lm_ring_over(ring, "release", file, line)) return;
    /* A frame that is not in the list may not even be in memory. */
    if ((ring->mode == LM_RING_CHECKED && !is_listed(ring, frame)) ||
        (!lm_ring_is(ring, frame, LM_RING_ALIVE) && !lm_ring_is(ring, frame, LM_RING_RELEASED))) {
        lm_family_misuse(&ring->entry, file, line, "release of %p, which is no frame of it",
                         (void *)frame);
        return;
    }
    if (lm_ring_is(ring, frame, LM_RING_RELEASED)) {
        lm_family_misuse(&ring->entry, file, line,
                         "release of %p, which is released already, opened at %s:%u", (void *)frame,
                         frame->file != NULL ? frame->file : "?", frame->line);
        return;
    }
    LM_METER(less(&ring->entry, frame->metered));
    if (ring->mode == LM_RING_CHECKED) close_objects(ring, frame);
    hide_frame(ring, frame);
    frame->state = lm_ring_state(ring, frame, LM_RING_RELEASED);
    ring_collect(ring);
}

/* ---- Objects ---- */

static size_t ring_whole_of(const loam_ring *ring, size_t bytes) {
    return ring->redzone == 0 ? bytes : lm_align_up(bytes, 16) + ring->redzone;
}

static void *ring_alloc_any(loam_ring *ring, size_t bytes, size_t align, const char *file,
                            unsigned line) {
    if (lm_ring_over(ring, "allocation", file, line)) return NULL;
    if (!lm_is_pow2(align) || align > PTRDIFF_MAX / 4 || bytes > PTRDIFF_MAX - 2 * align ||
        bytes > PTRDIFF_MAX - 16384)
        return NULL;
    if (ring->newest == NULL) {
        lm_family_misuse(&ring->entry, file, line, "allocation without a frame");
        return NULL;
    }
    if (ring->mode == LM_RING_CHECKED) {
        if (align < 16) align = 16;
        size_t raw_bytes = lm_guard_whole(bytes, align);
        if (raw_bytes == 0 || raw_bytes > PTRDIFF_MAX - 2 * align) return NULL;
        void *raw = ring_carve(ring, raw_bytes, align);
        if (raw == NULL) return NULL;
        return lm_guard_open(&ring->entry, raw, raw_bytes, bytes, align, file, line);
    }
    void *p =
        ring_carve(ring, ring_whole_of(ring, bytes), ring->redzone != 0 && align < 16 ? 16 : align);
    if (p != NULL && ring->mode == LM_RING_WATCHED) lm_tool_show_undefined(p, bytes);
    return p;
}

loam_ring_made loam_ring_alloc_slow(loam_ring *ring, size_t bytes, size_t align, const char *file,
                                    unsigned line) {
    void *object = ring_alloc_any(ring, bytes, align, file, line);
    return (loam_ring_made){object, ring->at};
}

/* Returns the tag of a live object of that size; NULL after a report. */
static loam_tag *ring_find(const loam_ring *ring, const void *p, size_t bytes, const char *doing,
                           const char *file, unsigned line) {
    loam_tag *tag = lm_guard_find(&ring->entry, p, doing, file, line);
    if (tag == NULL || tag->bytes == bytes) return tag;
    lm_family_misuse(&ring->entry, file, line,
                     "%s of %p with %zu bytes, allocated with %zu at %s:%u", doing, p, bytes,
                     tag->bytes, tag->file != NULL ? tag->file : "?", tag->line);
    return NULL;
}

static void ring_close_one(loam_ring *ring, loam_tag *tag, const char *file, unsigned line) {
    bool last = (char *)tag->raw + tag->raw_bytes == *ring_at_of(ring);
    char *raw = (char *)lm_guard_close(&ring->entry, tag, file, line);
    if (last) {
        LM_ASSERT(raw >= lm_ring_first(ring->block));
        ring->block->gone = lm_gone_bury(&ring->entry, raw, *ring_at_of(ring), ring->block->gone);
        *ring_at_of(ring) = raw;
        return;
    }
    tag->next = ring->dead; /* its bytes are checked until it is gone for good */
    ring->dead = tag;
}

void loam_ring_free_at(loam_ring *ring, void *p, size_t bytes, const char *file, unsigned line) {
    if (p == NULL || lm_ring_over(ring, "free", file, line)) return;
    if (ring->mode == LM_RING_CHECKED) {
        loam_tag *tag = ring_find(ring, p, bytes, "free", file, line);
        if (tag != NULL) ring_close_one(ring, tag, file, line);
        return;
    }
    if (ring->mode == LM_RING_WATCHED) lm_tool_hide(p, bytes);
    if ((char *)p + ring_whole_of(ring, bytes) == *ring_at_of(ring) && ring->newest != NULL &&
        belongs(ring, ring->newest, p))
        *ring_at_of(ring) = (char *)p;
}

static void *ring_move(loam_ring *ring, void *p, size_t old_bytes, size_t bytes, const char *file,
                       unsigned line) {
    void *there = ring_alloc_any(ring, bytes, LOAM_RING_ALIGN, file, line);
    size_t kept = old_bytes < bytes ? old_bytes : bytes;
    return there != NULL && kept != 0 ? memcpy(there, p, kept) : there;
}

static void *ring_realloc_checked(loam_ring *ring, void *p, size_t old_bytes, size_t bytes,
                                  const char *file, unsigned line) {
    loam_tag *tag = ring_find(ring, p, old_bytes, "realloc", file, line);
    if (tag == NULL) return NULL;
    if (ring->newest == NULL || !belongs(ring, ring->newest, tag->raw)) {
        lm_family_misuse(&ring->entry, file, line,
                         "realloc of %p, which belongs to an older frame, allocated at %s:%u", p,
                         tag->file != NULL ? tag->file : "?", tag->line);
        return NULL;
    }
    size_t raw_bytes =
        (size_t)((char *)(tag + 1) - (char *)tag->raw) + lm_align_up(bytes + LM_GUARD_BYTES, 16);
    LM_ASSERT(old_bytes <= tag->raw_bytes - LM_GUARD_BYTES);
    if (bytes <= old_bytes && raw_bytes <= tag->raw_bytes) {
        lm_guard_resize(&ring->entry, tag, tag->raw_bytes, bytes);
        return p;
    }
    void *there = ring_move(ring, p, old_bytes, bytes, file, line);
    if (there != NULL) ring_close_one(ring, tag, file, line);
    return there;
}

void *loam_ring_realloc_at(loam_ring *ring, void *p, size_t old_bytes, size_t bytes,
                           const char *file, unsigned line) {
    if (p == NULL) return ring_alloc_any(ring, bytes, LOAM_RING_ALIGN, file, line);
    if (lm_ring_over(ring, "realloc", file, line)) return NULL;
    if (bytes > PTRDIFF_MAX - 16384) return NULL;
    if (ring->mode == LM_RING_CHECKED)
        return ring_realloc_checked(ring, p, old_bytes, bytes, file, line);
    char *at = (char *)p;
    bool last = ring->newest != NULL && at + ring_whole_of(ring, old_bytes) == *ring_at_of(ring) &&
                belongs(ring, ring->newest, p);
    bool fits = last && ring_whole_of(ring, bytes) <= (size_t)(*ring_end_of(ring) - at);
    if (fits || bytes <= old_bytes) {
        if (fits) *ring_at_of(ring) = at + ring_whole_of(ring, bytes);
        if (ring->mode == LM_RING_WATCHED) {
            if (bytes > old_bytes)
                lm_tool_show_undefined(at + old_bytes, bytes - old_bytes);
            else
                lm_tool_hide(at + bytes, old_bytes - bytes);
        }
        return p;
    }
    void *there = ring_move(ring, p, old_bytes, bytes, file, line);
    if (there != NULL && ring->mode == LM_RING_WATCHED) lm_tool_hide(p, old_bytes);
    return there;
}

#if LOAM_METER
void loam_meter_ring_more(loam_ring *ring, const void *p, size_t bytes) {
    loam_ring_frame *frame = ring->newest;
    if (p == NULL || frame == NULL) return;
    while (frame != NULL && !belongs(ring, frame, p)) frame = frame->older;
    /* An object of 0 bytes may be after all frames' memory. */
    (frame != NULL ? frame : ring->newest)->metered += bytes;
}
#endif

size_t loam_ring_trim(loam_ring *ring) {
    if (lm_ring_over(ring, "trim", NULL, 0)) return 0;
    size_t held = ring->held_bytes;
    while (ring->block != NULL && next_is_free(ring)) put_block(ring, ring->block->next);
    if (ring->newest == NULL && ring->block != NULL) {
        *ring_at_of(ring) = *ring_end_of(ring) = NULL;
        put_block(ring, ring->block);
    }
    LM_ASSERT(ring->held_bytes <= held);
    return held - ring->held_bytes;
}
