/* region_begin.c: set-up and end of a region (loam/region.h).
 *
 *   init      the caller's storage [ region ]      no chunk: the first object gets it
 *   create    chunk [ head │ region │ object │ at .. end ]
 *                                              └ own: the first byte for other objects
 *
 * A region of create lives in its own first chunk, which is current from the start and goes back
 * last. It cannot move: cleanups, children and the registry contain its address. It also cannot
 * change its source or its options. Many regions live for a microsecond: a new one is a copy of
 * `fresh`, and one that has nothing but chunks ends with a walk along them. Invariant: `own` is
 * NULL iff no chunk contains the region; otherwise its oldest chunk does.
 */
#include "family/region.h"

enum { REGION_FIRST_BYTES = 4096, REGION_FIRST_LEAST = 256 };
#define REGION_MOST_BYTES (32 * LM_MIB)
#define LARGE_BYTES (64 * LM_KIB)

/* ---- Set-up ---- */

static const loam_region_options region_defaults;
static size_t region_first_of(const loam_region_options *options) {
    return options->first_bytes != 0 ? options->first_bytes : REGION_FIRST_BYTES;
}

static bool region_possible_options(const loam_region_options *options) {
    size_t first = region_first_of(options), align = options->chunk_align;
    size_t large = options->large_bytes;
    return first >= REGION_FIRST_LEAST && first <= PTRDIFF_MAX && (align & (align - 1)) == 0 &&
           align <= PTRDIFF_MAX / 2 && (large == 0 || large >= LOAM_REGION_SMALL);
}

/* A new region with default options. It is copied: a region that lives for a microsecond has no
 * time for decisions. */
static const loam_region fresh = {.large_bytes = LARGE_BYTES,
                                  .first_bytes = REGION_FIRST_BYTES,
                                  .most_bytes = REGION_MOST_BYTES,
                                  .chunk_align = 16,
                                  .entry = {.kind = &lm_region_kind}};

static LM_NOINLINE void take_options(loam_region *region, const loam_region_options *options,
                                     unsigned flags) {
    bool contiguous = lm_region_contiguous(region), checked = lm_is_checked(flags);
    region->first_bytes = region_first_of(options);
    if (options->most_bytes != 0) region->most_bytes = options->most_bytes;
    if (options->large_bytes != 0) region->large_bytes = options->large_bytes;
    if (region->most_bytes < region->first_bytes) region->most_bytes = region->first_bytes;
    if (contiguous || (flags & LOAM_FIXED)) region->large_bytes = SIZE_MAX;
    if (options->chunk_align > 16) region->chunk_align = options->chunk_align;
    LM_ASSERT(lm_is_pow2(region->chunk_align) && region->large_bytes >= LOAM_REGION_SMALL);
    region->keep_bytes = options->keep_bytes;
    region->growth = (unsigned char)options->growth;
    region->fixed = (flags & LOAM_FIXED) != 0;
    if (checked) {
        region->mode = LM_REGION_CHECKED;
    } else if (lm_tool_watches()) {
        region->mode = LM_REGION_WATCHED;
        region->redzone = contiguous || region->fixed ? 0 : 16;
    }
    if (checked || options->name != NULL)
        lm_entry_init(&region->entry, &lm_region_kind, options->name, checked);
}

/* Initialises the region. Returns true iff its mode is plain. */
LM_INLINE bool set_up(loam_region *region, loam_source *source, const loam_region_options *options,
                      unsigned flags) {
    size_t bytes = sizeof(*region);
    /* Makes the compiler call memcpy, which takes a third of the time of `rep movs`. */
    __asm__("" : "+r"(bytes));
    memcpy(region, &fresh, bytes);
    region->source = source;
    if (LM_LIKELY(options == &region_defaults && flags == 0 && !lm_is_checked(flags) &&
                  (source->flags & LOAM_SOURCE_CONTIGUOUS) == 0 && !lm_tool_watches()))
        return true;
    take_options(region, options, flags | options->flags);
    return region->mode == LM_REGION_PLAIN;
}

int loam_region_init_as(loam_region *region, loam_source *source,
                        const loam_region_options *options, unsigned more_flags) {
    if (source == NULL) source = lm_default_source();
    if (options == NULL) options = &region_defaults;
    if (source == NULL || !region_possible_options(options)) return LM_EINVAL;
    (void)set_up(region, source, options, more_flags);
    return 0;
}

/* ---- End ---- */

/* Returns whether the region is an ordinary one: unchecked chunks, and nothing more that its end
 * must handle. */
LM_INLINE bool has_only_chunks(const loam_region *region) {
    return ((uintptr_t)region->cleanups | (uintptr_t)region->large | (uintptr_t)region->in_parent |
            (uintptr_t)region->spares | (uintptr_t)lm_load_relaxed(&region->entry.link) |
            region->mode | (region->source->flags & LOAM_SOURCE_CONTIGUOUS)) == 0;
}

/* Ends everything except the chunk that contains the region itself, if it does; that chunk is
 * returned. */
static LM_NOINLINE lm_chunk_t *region_end(loam_region *region) {
    if (region->cleanups != NULL) lm_region_run_newer(region, 0); /* cleanups may look at objects */
    if (region->mode == LM_REGION_CHECKED) {
        (void)lm_region_check_objects(region);
        (void)lm_region_check_gone(region);
        lm_guard_drop_all(&region->entry);
    }
    if (region->large != NULL) lm_region_free_newer(region, 0);
    LM_ASSERT(region->large == NULL && (region->in_parent == NULL || region->parent != NULL));
    if (region->in_parent != NULL)
        lm_region_remove_cleanup(region->parent, region->in_parent, false);
    if (lm_entry_linked(&region->entry)) lm_entry_deinit(&region->entry);
    LM_METER(over(&region->entry));
    if (region->spares != NULL) lm_region_drop_spares(region, 0);
    LM_ASSERT(region->spares == NULL && region->spare_bytes == 0);
    for (lm_chunk_t *chunk = region->chunk; chunk != NULL; chunk = region->chunk) {
        if (chunk->before == NULL && region->own != NULL) {
            LM_ASSERT(chunk->bytes == region->held_bytes);
            return chunk;
        }
        region->chunk = chunk->before;
        lm_region_put_chunk(region, chunk);
    }
    LM_ASSERT(region->held_bytes == 0);
    return NULL;
}

/* Marks a checked region as ended; the mark lasts as long as its memory. */
static void region_bury(loam_region *region) {
    region->mode = LM_REGION_ENDED;
    /* The name is copied into words that the region no longer needs. */
    lm_entry_bury(&region->entry, (char *)&region->first_bytes, 4 * sizeof(size_t));
}

void loam_region_deinit(loam_region *region) {
    if (lm_region_over(region, "deinit", NULL, 0)) return;
    (void)region_end(region);
    region->room = region->hidden = (loam_region_room){0};
    if (region->mode == LM_REGION_CHECKED) region_bury(region);
}

/* Ends the region and gives back its chunk, or the first piece of it. */
static LM_NOINLINE void end_and_put(loam_region *region) {
    if (lm_region_over(region, "destroy", NULL, 0)) return;
    lm_chunk_t *chunk = region_end(region);
    loam_source *source = region->source;
    size_t bytes = chunk->bytes;
    lm_pieces_t pieces;
    bool contiguous = lm_region_contiguous(region), checked = region->mode == LM_REGION_CHECKED;
    if (contiguous) pieces = *lm_chunk_pieces(chunk);
    lm_tool_show_undefined(chunk, bytes);
    if (checked) {
        lm_tool_show(region, sizeof(*region));
        region->room = region->hidden = (loam_region_room){0};
        region_bury(region);
    }
    if (!contiguous) {
        if (!checked || !lm_entry_keep(source, chunk, bytes, region, sizeof(*region)))
            loam_source_put(source, chunk, bytes);
        return;
    }
    for (size_t i = pieces.count; i-- > 0;) {
        bytes -= pieces.got[i];
        loam_source_put(source, (char *)chunk + bytes, pieces.got[i]);
    }
    LM_ASSERT(bytes == 0);
}

void loam_region_destroy(loam_region *region) {
    if (region == NULL) return;
    if (LM_UNLIKELY(!has_only_chunks(region))) {
        end_and_put(region);
        return;
    }
    loam_source *source = region->source;
    LM_METER(over(&region->entry));
    /* The last of these chunks contains the region. */
    for (lm_chunk_t *chunk = region->chunk, *before; chunk != NULL; chunk = before) {
        before = chunk->before;
        loam_source_put(source, chunk, chunk->bytes);
    }
}

/* ---- A region in its own first chunk ---- */

/* Makes the chunk that contains the region current, with room for objects from `own` on. It reads
 * nothing of the region, which was copied a moment ago: a read would wait for the copy. */
LM_INLINE void make_first(loam_region *region, lm_chunk_t *chunk, size_t got, char *own,
                          bool plain) {
    char *end = chunk->end > own ? chunk->end : own;
    *(plain ? &region->room : &region->hidden) = (loam_region_room){own, end, own - 1};
    chunk->before = NULL;
    region->chunk = chunk;
    region->own = own;
    region->requests = region->turns = 1;
    region->held_bytes = region->peak_bytes = region->round_bytes = got;
    LM_METER(began(&region->entry, got, 1));
    if (plain) return;
    chunk->gone = NULL;
    lm_tool_hide(own, (size_t)((char *)chunk + got - own));
}

LM_INLINE void *region_create(loam_source *source, const loam_region_options *options, size_t bytes,
                              loam_region **created, unsigned more_flags) {
    if (source == NULL) source = lm_default_source();
    if (options == NULL) options = &region_defaults;
    if (source == NULL || !region_possible_options(options) || bytes > PTRDIFF_MAX - 4096)
        return NULL;
    /* It does not call lm_region_carve, because the region is made in place, in the chunk. */
    size_t head = lm_chunk_head_over(source), got, wanted = region_first_of(options);
    size_t need = head + lm_align_up(sizeof(loam_region), 16) + lm_align_up(bytes, 16);
    size_t align = options->chunk_align > 16 ? options->chunk_align : 16;
    if (wanted < need) wanted = lm_align_up(need, align < 4096 ? align : 4096);
    LM_ASSERT(wanted >= need);
    lm_chunk_t *chunk = (lm_chunk_t *)loam_source_get(source, wanted, align, &got);
    if (chunk == NULL && wanted > need && !(options->flags & LOAM_FIXED))
        chunk = (lm_chunk_t *)loam_source_get(source, need, align, &got);
    if (chunk == NULL) return NULL;
    loam_region *region = (loam_region *)(void *)((char *)chunk + head);
    bool plain = set_up(region, source, options, more_flags);
    lm_region_begin_chunk(source, plain, chunk, got);
    make_first(region, chunk, got, (char *)chunk + need, plain);
    *created = region;
    char *object = (char *)chunk + need - lm_align_up(bytes, 16);
    return bytes != 0 ? memset(object, 0, bytes) : object;
}

void *loam_region_create_object_as(loam_source *source, const loam_region_options *options,
                                   size_t bytes, loam_region **created, unsigned more_flags) {
    return region_create(source, options, bytes, created, more_flags);
}

loam_region *loam_region_create_as(loam_source *source, const loam_region_options *options,
                                   unsigned more_flags) {
    loam_region *region;
    /* The default options are constants in this call. */
    void *object = options == NULL
                       ? region_create(source, &region_defaults, 0, &region, more_flags)
                       : loam_region_create_object_as(source, options, 0, &region, more_flags);
    return object != NULL ? region : NULL;
}
