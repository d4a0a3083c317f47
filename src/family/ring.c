/* ring.c: frames that end in any order (loam/ring.h).
 *
 *   oldest ──> frame ──> frame ──> newest        in the order of their memory; released ones wait until they are
 *                                                the oldest or the newest
 *   block ──> free ──> free ──> oldest's block ──> ... ──> block       the ring; in use from the oldest's
 *                                                                      to the current one
 *
 * A frame's memory begins with its record and ends where the next one's begins. Invariants: neither the
 * oldest nor the newest frame is a released one; without frames all blocks are free, the current one from
 * its begin on.
 */
#include "loam/ring.h"
#include "family/family.h"

typedef enum ring_mode { PLAIN, WATCHED, CHECKED, ENDED } ring_mode_t;

typedef struct loam_ring_block {
    struct loam_ring_block *next, *before; /* a ring */
    size_t bytes;
    char *left; /* where it was left, while another one is current */
    char *gone; /* of a checked ring: where memory ends whose objects have ended (family.h) */
} ring_block_t;

struct LM_ALIGNED(16) loam_ring_frame {
    struct loam_ring_frame *newer, *older;
    ring_block_t *block;
    uintptr_t state; /* alive or released, mixed with its address and the ring's */
    const char *file;
    unsigned line;
#if LOAM_METER
    size_t metered; /* bytes in `used` */
#endif
};

#define ALIVE ((uintptr_t)0x10A3F4A1)
#define RELEASED ((uintptr_t)0x10A3F4A2)
enum { BLOCK_LEAST = 256, UNIT = 4096, OVERSIZE = 4 };
#define BLOCK_BYTES (64 * LM_KIB)

static const loam_kind ring_kind;

static char **at_of(loam_ring *ring) { return ring->open ? &ring->at : &ring->hidden_at; }
static char **end_of(loam_ring *ring) { return ring->open ? &ring->end : &ring->hidden_end; }
static char *at_now(const loam_ring *ring) { return ring->open ? ring->at : ring->hidden_at; }

static char *block_first(const ring_block_t *block) {
    return (char *)(uintptr_t)block + lm_align_up(sizeof(*block), 16);
}
static char *block_end(const ring_block_t *block) {
    return (char *)lm_align_down((uintptr_t)block + block->bytes, 16);
}

static uintptr_t state_of(const loam_ring *ring, const loam_ring_frame *frame, uintptr_t state) {
    return (uintptr_t)frame ^ 2 * (uintptr_t)ring ^ state;
}
static bool is(const loam_ring *ring, const loam_ring_frame *frame, uintptr_t state) {
    return frame->state == state_of(ring, frame, state);
}
/* Whether the ring is the tombstone of one that has ended, which is reported. */
static bool over(const loam_ring *ring, const char *doing, const char *file, unsigned line) {
    return LM_UNLIKELY(ring->mode == ENDED) && lm_entry_ended(&ring->entry, doing, file, line);
}

static void hide(const loam_ring *ring, const char *from, const char *to) {
    if (ring->mode != PLAIN && to > from) lm_tool_hide(from, (size_t)(to - from));
}

/* Opens the inline paths or closes them: there must be a newest frame that is alive, and nobody who watches. */
static void set_open(loam_ring *ring) {
    bool open = ring->mode == PLAIN && ring->newest != NULL;
    if (open == (ring->open != 0)) return;
    char *at = *at_of(ring), *end = *end_of(ring);
    *at_of(ring) = *end_of(ring) = NULL;
    ring->open = open;
    *at_of(ring) = at;
    *end_of(ring) = end;
}

/* ---- Setting up ---- */

int loam_ring_init_as(loam_ring *ring, loam_source *source, const loam_ring_options *options,
                      unsigned more_flags) {
    static const loam_ring_options defaults;
#if LM_HOSTED
    if (source == NULL) source = loam_pages();
#endif
    if (options == NULL) options = &defaults;
    size_t bytes = options->block_bytes != 0 ? options->block_bytes : BLOCK_BYTES;
    if (source == NULL || bytes < BLOCK_LEAST || bytes > PTRDIFF_MAX) return LM_EINVAL;
    bool checked = lm_is_checked(options->flags | more_flags);
    *ring = (loam_ring){.source = source, .block_bytes = bytes};
    if (checked) {
        ring->mode = CHECKED;
    } else if (lm_tool_watches()) {
        ring->mode = WATCHED;
        ring->redzone = (source->flags & LOAM_SOURCE_CONTIGUOUS) != 0 ? 0 : 16;
    }
    lm_entry_init(&ring->entry, &ring_kind, options->name, checked);
    return 0;
}

static void put_block(loam_ring *ring, ring_block_t *block) {
    block->next->before = block->before;
    block->before->next = block->next;
    if (block == ring->block) ring->block = NULL; /* the last one */
    size_t bytes = block->bytes;
    lm_tool_show_undefined(block, bytes);
    ring->held_bytes -= bytes;
    LM_METER(put(&ring->entry, bytes));
    loam_source_put(ring->source, block, bytes);
}

/* Whether the block is behind the current one and before the oldest frame's. */
static bool is_free(const loam_ring *ring, const ring_block_t *block) {
    const ring_block_t *used = ring->oldest != NULL ? ring->oldest->block : ring->block;
    for (const ring_block_t *at = ring->block->next; at != ring->block && at != used; at = at->next)
        if (at == block) return true;
    return false;
}

/* What objects have left: in free blocks, and behind the current position. */
static bool check_gone(const loam_ring *ring) {
    const ring_block_t *block = ring->block;
    if (block == NULL) return true;
    bool good = lm_gone_check(&ring->entry, at_now(ring), block->gone);
    for (block = block->next; block != ring->block; block = block->next)
        if (is_free(ring, block))
            good = lm_gone_check(&ring->entry, block_first(block), block->gone) && good;
    return good;
}

static bool check_objects(const loam_ring *ring) {
    bool good = check_gone(ring);
    good = lm_guard_check(&ring->entry) && good;
    for (const loam_tag *tag = ring->dead; tag != NULL; tag = tag->next)
        good = lm_guard_check_freed(&ring->entry, tag) && good;
    return good;
}

void loam_ring_deinit(loam_ring *ring) {
    if (over(ring, "deinit", NULL, 0)) return;
    if (ring->mode == CHECKED) {
        (void)check_objects(ring);
        lm_guard_drop_all(&ring->entry);
    }
    lm_entry_deinit(&ring->entry);
    while (ring->block != NULL) put_block(ring, ring->block->before);
    ring->at = ring->end = ring->hidden_at = ring->hidden_end = NULL;
    ring->newest = ring->oldest = NULL;
    ring->open = false;
    if (ring->mode != CHECKED) return;
    ring->mode = ENDED;
    /* The name is kept where the ring has no use for its words any more. */
    lm_entry_bury(&ring->entry, (char *)&ring->held_bytes, 3 * sizeof(size_t));
}

/* ---- Blocks ---- */

static ring_block_t *block_new(loam_ring *ring, size_t need) {
    size_t head = lm_align_up(sizeof(ring_block_t), 16), least = lm_align_up(need + head + 16, 16);
    size_t bytes = ring->block_bytes, got = 0;
    if (bytes < least) bytes = lm_align_up(least, UNIT);
    ring_block_t *block = NULL;
    for (;;) {
        block = (ring_block_t *)loam_source_get(ring->source, bytes, 16, &got);
        if (block != NULL || bytes <= least) break;
        bytes = bytes / 2 > least ? lm_align_up(bytes / 2, 16) : least;
    }
    if (block == NULL) return NULL;
    LM_METER(got(&ring->entry, got));
    ring->requests++;
    ring->held_bytes += got;
    if (ring->held_bytes > ring->peak_bytes) ring->peak_bytes = ring->held_bytes;
    block->bytes = got;
    block->gone = block->left = NULL;
    block->before = ring->block != NULL ? ring->block : block;
    block->next = ring->block != NULL ? ring->block->next : block;
    block->next->before = block;
    block->before->next = block;
    hide(ring, block_first(block), (char *)block + got);
    return block;
}

/* Whether the one behind the current block, which there is, is free. */
static bool next_is_free(const loam_ring *ring) {
    const ring_block_t *next = ring->block->next;
    return next != ring->block && (ring->oldest == NULL || next != ring->oldest->block);
}

/* Over a contiguous source, which could not use again what it took back: the smallest free block that is large enough
 * is the next. NULL iff there is none. */
static ring_block_t *best_free(const loam_ring *ring, size_t need) {
    const ring_block_t *used = ring->oldest != NULL ? ring->oldest->block : ring->block;
    ring_block_t *best = NULL, *at = ring->block;
    for (ring_block_t *block = at->next; block != at && block != used; block = block->next) {
        if ((size_t)(block_end(block) - block_first(block)) <= need) continue;
        if (best == NULL || block->bytes < best->bytes) best = block;
    }
    if (best == NULL || best == at->next) return best;
    best->before->next = best->next;
    best->next->before = best->before;
    best->before = at;
    best->next = at->next;
    return best->next->before = at->next = best;
}

static bool advance(loam_ring *ring, size_t need) {
    size_t most = OVERSIZE * (need > ring->block_bytes ? need : ring->block_bytes);
    bool contiguous = (ring->source->flags & LOAM_SOURCE_CONTIGUOUS) != 0;
    ring_block_t *block = contiguous && ring->block != NULL ? best_free(ring, need) : NULL;
    while (!contiguous && ring->block != NULL && next_is_free(ring)) {
        block = ring->block->next;
        size_t room = (size_t)(block_end(block) - block_first(block));
        if (room > need && block->bytes <= most) break;
        if (ring->mode == CHECKED)
            (void)lm_gone_check(&ring->entry, block_first(block), block->gone);
        put_block(ring, block);
        block = NULL;
    }
    if (block == NULL) block = block_new(ring, need);
    if (block == NULL) return false;
    if (ring->block != NULL) ring->block->left = *at_of(ring);
    ring->block = block;
    *at_of(ring) = block_first(block);
    *end_of(ring) = block_end(block);
    return true;
}

static void *carve(loam_ring *ring, size_t bytes, size_t align) {
    for (int twice = 0;; twice++) {
        uintptr_t at = (uintptr_t)*at_of(ring), end = (uintptr_t)*end_of(ring);
        uintptr_t p = lm_align_up(at, align);
        if (ring->block != NULL && p >= at && p <= end && bytes <= end - p) {
            if (LM_UNLIKELY(ring->mode == CHECKED))
                ring->block->gone = lm_gone_take(&ring->entry, (char *)at, (char *)p,
                                                 (char *)(p + bytes), ring->block->gone);
            *at_of(ring) = (char *)(p + bytes);
            return (void *)p;
        }
        if (twice == 1 || !advance(ring, bytes + (align > 16 ? align - 16 : 0))) return NULL;
    }
}

/* ---- Frames ---- */

loam_ring_frame *loam_ring_open_at(loam_ring *ring, const char *file, unsigned line) {
    if (over(ring, "open", file, line)) return NULL;
    loam_ring_frame *frame = (loam_ring_frame *)carve(ring, sizeof(*frame), 16);
    if (frame == NULL) return NULL;
    lm_tool_show_undefined(frame, sizeof(*frame));
    *frame = (loam_ring_frame){.older = ring->newest,
                               .block = ring->block,
                               .state = state_of(ring, frame, ALIVE),
                               .file = file,
                               .line = line};
    *(ring->newest != NULL ? &ring->newest->newer : &ring->oldest) = frame;
    ring->newest = frame;
    set_open(ring);
    return frame;
}

/* [*from, *to): what the frame has of that block. false iff it ended in one before. */
static bool part_of(const loam_ring *ring, const loam_ring_frame *frame, const ring_block_t *block,
                    const char **from, const char **to) {
    const loam_ring_frame *newer = frame->newer;
    *from = block == frame->block ? (const char *)(frame + 1) : block_first(block);
    if (newer != NULL && newer->block == block)
        *to = (const char *)newer;
    else
        *to = block == ring->block ? at_now(ring) : block->left;
    return block != (newer != NULL ? newer->block : ring->block);
}

static bool belongs(const loam_ring *ring, const loam_ring_frame *frame, const void *p) {
    const ring_block_t *block = frame->block;
    for (bool more = true; more; block = block->next) {
        const char *from, *to;
        more = part_of(ring, frame, block, &from, &to);
        if ((const char *)p >= from && (const char *)p < to) return true;
    }
    return false;
}

/* Objects of a frame that ends. */
static void close_objects(loam_ring *ring, const loam_ring_frame *frame) {
    for (loam_tag *tag = ring->entry.live, *next; tag != NULL; tag = next) {
        next = tag->next;
        if (!belongs(ring, frame, tag->raw)) continue;
        (void)lm_guard_find(&ring->entry, tag + 1, "release", NULL, 0); /* overflow is told now */
        lm_guard_close(&ring->entry, tag, NULL, 0);
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
    const ring_block_t *block = frame->block;
    for (bool more = true; more; block = block->next) {
        const char *from, *to;
        more = part_of(ring, frame, block, &from, &to);
        hide(ring, from, to);
    }
}

/* In a checked ring: memory that frames have given back is watched until it is used again. `block`
 * was the current one, used up to `at`. */
static void note_gone(loam_ring *ring, ring_block_t *block, char *at) {
    block->left = at;
    char *to = ring->block->left, *now = *at_of(ring);
    if (to > now) ring->block->gone = lm_gone_bury(&ring->entry, now, to, ring->block->gone);
    ring->block->left = NULL;
    for (block = ring->block->next; block != ring->block; block = block->next) {
        if (block->left == NULL || !is_free(ring, block)) continue;
        block->gone = lm_gone_bury(&ring->entry, block_first(block), block->left, block->gone);
        block->left = NULL;
    }
}

/* Frames at both ends that are over give their memory back. */
static void collect(loam_ring *ring) {
    ring_block_t *was = ring->block;
    char *was_at = *at_of(ring);
    while (ring->newest != NULL && is(ring, ring->newest, RELEASED)) {
        loam_ring_frame *frame = ring->newest;
        ring->newest = frame->older;
        *(frame->older != NULL ? &frame->older->newer : &ring->oldest) = NULL;
        ring->block = frame->block;
        *at_of(ring) = (char *)frame;
        *end_of(ring) = block_end(frame->block);
        hide(ring, (char *)frame, (char *)(frame + 1));
    }
    while (ring->oldest != NULL && is(ring, ring->oldest, RELEASED)) {
        loam_ring_frame *frame = ring->oldest;
        ring->oldest = frame->newer;
        ring->oldest->older = NULL; /* the newest one is alive */
        hide(ring, (char *)frame, (char *)(frame + 1));
    }
    if (ring->newest == NULL) *at_of(ring) = block_first(ring->block);
    if (ring->mode == CHECKED) note_gone(ring, was, was_at);
    set_open(ring);
}

void loam_ring_release_at(loam_ring *ring, loam_ring_frame *frame, const char *file,
                          unsigned line) {
    if (frame == NULL || over(ring, "release", file, line)) return;
    const loam_ring_frame *known = frame;
    if (ring->mode == CHECKED) /* who is not in the list may be no memory at all */
        for (known = ring->newest; known != NULL && known != frame; known = known->older) continue;
    if (known == NULL || (!is(ring, frame, ALIVE) && !is(ring, frame, RELEASED))) {
        lm_family_misuse(&ring->entry, file, line, "release of %p, which is no frame of it",
                         (void *)frame);
        return;
    }
    if (is(ring, frame, RELEASED)) {
        lm_family_misuse(&ring->entry, file, line,
                         "release of %p, which is released already, opened at %s:%u", (void *)frame,
                         frame->file != NULL ? frame->file : "?", frame->line);
        return;
    }
    LM_METER(less(&ring->entry, frame->metered));
    if (ring->mode == CHECKED) close_objects(ring, frame);
    hide_frame(ring, frame);
    frame->state = state_of(ring, frame, RELEASED);
    collect(ring);
}

/* ---- Objects ---- */

static size_t whole_of(const loam_ring *ring, size_t bytes) {
    return ring->redzone == 0 ? bytes : lm_align_up(bytes, 16) + ring->redzone;
}

static void *alloc_any(loam_ring *ring, size_t bytes, size_t align, const char *file,
                       unsigned line) {
    if (over(ring, "allocation", file, line)) return NULL;
    if (!lm_is_pow2(align) || align > PTRDIFF_MAX / 4 || bytes > PTRDIFF_MAX - 2 * align ||
        bytes > PTRDIFF_MAX - 16384)
        return NULL;
    if (ring->newest == NULL) {
        lm_family_misuse(&ring->entry, file, line, "allocation without a frame");
        return NULL;
    }
    if (ring->mode == CHECKED) {
        if (align < 16) align = 16;
        size_t raw_bytes = lm_guard_whole(bytes, align);
        if (raw_bytes == 0 || raw_bytes > PTRDIFF_MAX - 2 * align) return NULL;
        void *raw = carve(ring, raw_bytes, align);
        if (raw == NULL) return NULL;
        return lm_guard_open(&ring->entry, raw, raw_bytes, bytes, align, file, line);
    }
    void *p = carve(ring, whole_of(ring, bytes), ring->redzone != 0 && align < 16 ? 16 : align);
    if (p != NULL && ring->mode == WATCHED) lm_tool_show_undefined(p, bytes);
    return p;
}

loam_ring_made loam_ring_alloc_slow(loam_ring *ring, size_t bytes, size_t align, const char *file,
                                    unsigned line) {
    void *object = alloc_any(ring, bytes, align, file, line);
    return (loam_ring_made){object, ring->at};
}

/* The tag of a live object of that size; NULL after a report. */
static loam_tag *find(const loam_ring *ring, const void *p, size_t bytes, const char *doing,
                      const char *file, unsigned line) {
    loam_tag *tag = lm_guard_find(&ring->entry, p, doing, file, line);
    if (tag == NULL || tag->bytes == bytes) return tag;
    lm_family_misuse(&ring->entry, file, line,
                     "%s of %p with %zu bytes, allocated with %zu at %s:%u", doing, p, bytes,
                     tag->bytes, tag->file != NULL ? tag->file : "?", tag->line);
    return NULL;
}

static void close_one(loam_ring *ring, loam_tag *tag, const char *file, unsigned line) {
    bool last = (char *)tag->raw + tag->raw_bytes == *at_of(ring);
    char *raw = (char *)lm_guard_close(&ring->entry, tag, file, line);
    if (last) {
        ring->block->gone = lm_gone_bury(&ring->entry, raw, *at_of(ring), ring->block->gone);
        *at_of(ring) = raw;
        return;
    }
    tag->next = ring->dead; /* its bytes are looked at until it is gone for good */
    ring->dead = tag;
}

void loam_ring_free_at(loam_ring *ring, void *p, size_t bytes, const char *file, unsigned line) {
    if (p == NULL || over(ring, "free", file, line)) return;
    if (ring->mode == CHECKED) {
        loam_tag *tag = find(ring, p, bytes, "free", file, line);
        if (tag != NULL) close_one(ring, tag, file, line);
        return;
    }
    if (ring->mode == WATCHED) lm_tool_hide(p, bytes);
    if ((char *)p + whole_of(ring, bytes) == *at_of(ring) && ring->newest != NULL &&
        belongs(ring, ring->newest, p))
        *at_of(ring) = (char *)p;
}

static void *move(loam_ring *ring, void *p, size_t old_bytes, size_t bytes, const char *file,
                  unsigned line) {
    void *there = alloc_any(ring, bytes, LOAM_RING_ALIGN, file, line);
    size_t kept = old_bytes < bytes ? old_bytes : bytes;
    return there != NULL && kept != 0 ? memcpy(there, p, kept) : there;
}

static void *realloc_checked(loam_ring *ring, void *p, size_t old_bytes, size_t bytes,
                             const char *file, unsigned line) {
    loam_tag *tag = find(ring, p, old_bytes, "realloc", file, line);
    if (tag == NULL) return NULL;
    if (ring->newest == NULL || !belongs(ring, ring->newest, tag->raw)) {
        lm_family_misuse(&ring->entry, file, line,
                         "realloc of %p, which belongs to an older frame, allocated at %s:%u", p,
                         tag->file != NULL ? tag->file : "?", tag->line);
        return NULL;
    }
    size_t raw_bytes =
        (size_t)((char *)(tag + 1) - (char *)tag->raw) + lm_align_up(bytes + LM_GUARD_BYTES, 16);
    if (bytes <= old_bytes && raw_bytes <= tag->raw_bytes) {
        lm_guard_resize(&ring->entry, tag, tag->raw_bytes, bytes);
        return p;
    }
    void *there = move(ring, p, old_bytes, bytes, file, line);
    if (there != NULL) close_one(ring, tag, file, line);
    return there;
}

void *loam_ring_realloc_at(loam_ring *ring, void *p, size_t old_bytes, size_t bytes,
                           const char *file, unsigned line) {
    if (p == NULL) return alloc_any(ring, bytes, LOAM_RING_ALIGN, file, line);
    if (over(ring, "realloc", file, line)) return NULL;
    if (bytes > PTRDIFF_MAX - 16384) return NULL;
    if (ring->mode == CHECKED) return realloc_checked(ring, p, old_bytes, bytes, file, line);
    char *at = (char *)p;
    bool last = ring->newest != NULL && at + whole_of(ring, old_bytes) == *at_of(ring) &&
                belongs(ring, ring->newest, p);
    bool fits = last && whole_of(ring, bytes) <= (size_t)(*end_of(ring) - at);
    if (fits || bytes <= old_bytes) {
        if (fits) *at_of(ring) = at + whole_of(ring, bytes);
        if (ring->mode == WATCHED) {
            if (bytes > old_bytes)
                lm_tool_show_undefined(at + old_bytes, bytes - old_bytes);
            else
                lm_tool_hide(at + bytes, old_bytes - bytes);
        }
        return p;
    }
    void *there = move(ring, p, old_bytes, bytes, file, line);
    if (there != NULL && ring->mode == WATCHED) lm_tool_hide(p, old_bytes);
    return there;
}

#if LOAM_METER
void loam_meter_ring_more(loam_ring *ring, const void *p, size_t bytes) {
    loam_ring_frame *frame = ring->newest;
    if (p == NULL || frame == NULL) return;
    while (frame != NULL && !belongs(ring, frame, p)) frame = frame->older;
    (frame != NULL ? frame : ring->newest)->metered += bytes; /* no bytes may lie behind all */
}
#endif

size_t loam_ring_trim(loam_ring *ring) {
    if (over(ring, "trim", NULL, 0)) return 0;
    size_t held = ring->held_bytes;
    while (ring->block != NULL && next_is_free(ring)) put_block(ring, ring->block->next);
    if (ring->newest == NULL && ring->block != NULL) {
        *at_of(ring) = *end_of(ring) = NULL;
        put_block(ring, ring->block);
    }
    return held - ring->held_bytes;
}

/* ---- Asking ---- */

void loam_ring_usage(const loam_ring *ring, loam_usage *usage) {
    size_t chunks = 0, used = 0, objects = 0;
    *usage = (loam_usage){.kind = ring_kind.name, .name = ""};
    if (over(ring, "usage", NULL, 0)) return;
    const ring_block_t *block = ring->block;
    if (block != NULL) do {
            chunks++;
            block = block->next;
        } while (block != ring->block);
    for (const loam_ring_frame *frame = ring->oldest; frame != NULL; frame = frame->newer) {
        bool more = true;
        used += sizeof(*frame);
        for (block = frame->block; more; block = block->next) {
            const char *from, *to;
            more = part_of(ring, frame, block, &from, &to);
            if (to > from) used += (size_t)(to - from);
        }
    }
    for (const loam_tag *tag = ring->entry.live; tag != NULL; tag = tag->next) objects++;
    *usage = (loam_usage){
        .kind = ring_kind.name,
        .name = ring->entry.name != NULL ? ring->entry.name : "",
        .held_bytes = ring->held_bytes,
        .used_bytes = used,
        .peak_bytes = ring->peak_bytes,
        .chunks = chunks,
        .requests = ring->requests,
        .objects = ring->mode == CHECKED ? objects : LOAM_UNKNOWN,
    };
}

static bool broken(const loam_ring *ring, const char *what, const void *where) {
    lm_family_misuse(&ring->entry, NULL, 0, "%s, at %p", what, where);
    return false;
}

static bool check_frames(const loam_ring *ring) {
    const loam_ring_frame *older = NULL;
    for (const loam_ring_frame *frame = ring->oldest; frame != NULL; frame = frame->newer) {
        if (frame->older != older || (!is(ring, frame, ALIVE) && !is(ring, frame, RELEASED)))
            return broken(ring, "the list of frames", frame);
        const char *record = (const char *)frame, *from, *to;
        (void)part_of(ring, frame, frame->block, &from, &to);
        if (record < block_first(frame->block) || from > to || to > block_end(frame->block))
            return broken(ring, "a frame is not in its block", frame);
        older = frame;
    }
    if (ring->newest != older) return broken(ring, "the list of frames", ring->newest);
    if (older != NULL && (is(ring, older, RELEASED) || is(ring, ring->oldest, RELEASED)))
        return broken(ring, "a released frame holds memory", older);
    return true;
}

bool loam_ring_check(const loam_ring *ring) {
    if (over(ring, "check", NULL, 0)) return false;
    size_t held = 0;
    const ring_block_t *block = ring->block;
    if (block != NULL) do {
            if (block->next->before != block) return broken(ring, "the ring of blocks", block);
            held += block->bytes;
            block = block->next;
        } while (block != ring->block);
    if (held != ring->held_bytes) return broken(ring, "blocks are lost", ring->block);
    const char *at = at_now(ring), *end = ring->open ? ring->end : ring->hidden_end;
    if (end != (ring->block != NULL ? block_end(ring->block) : NULL) || at > end)
        return broken(ring, "the end is not the current block's", end);
    if (!ring->open && (ring->at != NULL || ring->end != NULL))
        return broken(ring, "inline paths are open", ring);
    return check_frames(ring) && (ring->mode != CHECKED || check_objects(ring));
}

static const loam_ring *ring_of(const loam_entry *entry) {
    return LM_CONTAINER(entry, loam_ring, entry);
}
static void usage_of(const loam_entry *entry, loam_usage *usage) {
    loam_ring_usage(ring_of(entry), usage);
}
static bool check_of(const loam_entry *entry) { return loam_ring_check(ring_of(entry)); }

static const loam_kind ring_kind = {"ring", usage_of, check_of, NULL};
