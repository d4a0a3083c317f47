/* pool.c: initialises a pool, and allocates and frees blocks where the inline paths do not
 * (loam/pool.h).
 *
 *   a block   plain      │ object                │
 *             watched    │ object │ redzone      │        16 bytes, if the source can grow
 *             handles    │ object │ .. generation│        in its last 4 bytes
 *             checked    │ tag │ object │ guard (generation)│
 *             narrow     │ object │                        its link has 4 bytes: the next block's
 *                                                          distance from the chunk's start in
 *                                                          words of 4 bytes, plus one
 *
 * A pool that inline paths must not use has its list in `cold`, and its `hot` and `floor` are such
 * that every call comes here. Hardened links: each is mixed with a key of the pool and its own
 * address, and must lead to a block.
 */
#include "family/pool.h"

LM_STATIC_ASSERT(offsetof(loam_pool, stride) + sizeof(void *) <= 64,
                 "what the inline paths read is in one cache line");

enum {
    POOL_FIRST_BYTES = 4096,
    POOL_FIRST_LEAST = 8,
    MOST_CHUNK_BYTES = 16 << 20,
    POOL_LINE_BYTES = 64, /* bytes of a cache line */
    SPREAD_FROM = 1024,
    REDZONE_BYTES = 16,
};
static const unsigned known_flags = LOAM_CHECK | LOAM_HARDEN | LOAM_FIXED | LOAM_POOL_CONTIGUOUS |
                                    LOAM_POOL_HANDLES | LOAM_POOL_DENSE | LOAM_POOL_NARROW;

static size_t lowest(size_t x) { return x & (0 - x); }
static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

/* ---- Initialisation ---- */

/* Returns x such that odd * x == 1 modulo the size of a word. Each line doubles the number of
 * correct bits. */
static size_t inverse_of(size_t odd) {
    LM_ASSERT(odd % 2 == 1);
    size_t x = (3 * odd) ^ 2; /* 5 correct bits */
    x *= 2 - odd * x;
    x *= 2 - odd * x;
    x *= 2 - odd * x;
    x *= 2 - odd * x;
    return x;
}

/* Returns a key that an attacker who can write into a block cannot guess: it is made from addresses
 * of the stack, the pool and the code. */
static size_t key_of(const loam_pool *pool) {
    size_t key = (size_t)(uintptr_t)&key * (size_t)0x9E3779B97F4A7C15u;
    key ^= (size_t)(uintptr_t)pool + (key >> (sizeof key * 4));
    key *= (size_t)0xBF58476D1CE4E5B9u;
    key ^= (size_t)(uintptr_t)&lm_pool_kind + (key >> (sizeof key * 4));
    return key * (size_t)0x94D049BB133111EBu;
}

static unsigned char mode_of(unsigned flags) {
    unsigned mode = 0;
    if (lm_is_checked(flags)) mode |= LM_POOL_CHECKED;
    if (LOAM_SECURE || (flags & LOAM_HARDEN) != 0) mode |= LM_POOL_HARDENED;
    if (lm_tool_watches()) mode |= LM_POOL_WATCHED;
    if ((flags & LOAM_POOL_HANDLES) != 0) mode |= LM_POOL_HANDLED;
    if ((flags & LOAM_POOL_NARROW) != 0) mode |= LM_POOL_NARROW;
    return (unsigned char)mode;
}

/* Sets everything except chunks. Returns false iff an option is invalid. exact: the source returns
 * no more memory than was requested. */
static bool pool_set_up(loam_pool *pool, size_t block_bytes, const loam_pool_options *options,
                        unsigned extra, bool exact, bool buffer) {
    static const loam_pool_options none = {0};
    if (options == NULL) options = &none;
    unsigned flags = options->flags | extra;
    size_t align = options->align;
    if (block_bytes == 0 || block_bytes > PTRDIFF_MAX / 4 || (flags & ~known_flags) != 0)
        return false;
    bool narrow = (flags & LOAM_POOL_NARROW) != 0;
    if (narrow &&
        ((flags & (LOAM_FIXED | LOAM_POOL_CONTIGUOUS)) == 0 || (flags & LOAM_POOL_HANDLES) != 0))
        return false;
    size_t link = narrow ? sizeof(uint32_t) : sizeof(void *);
    if (align == 0) align = larger(link, lowest(block_bytes | 16));
    if (!lm_is_pow2(align) || align > PTRDIFF_MAX / 4) return false;
    if (!buffer && (flags & LOAM_FIXED) != 0 && options->first_blocks + options->most_blocks == 0)
        return false;
    align = larger(align, link);
    *pool = (loam_pool){.flags = flags, .mode = mode_of(flags), .block_bytes = block_bytes};
    size_t inner = larger(block_bytes, link);
    if ((pool->mode & LM_POOL_CHECKED) != 0) {
        align = larger(align, 16);
        inner = lm_guard_whole(block_bytes, align);
        pool->head_bytes = lm_guard_head(align);
        if (inner == 0 || inner > PTRDIFF_MAX / 2) return false;
        LM_ASSERT(inner >= pool->head_bytes + block_bytes + LM_GUARD_BYTES);
    } else if ((pool->mode & LM_POOL_WATCHED) != 0 && !exact) {
        inner += REDZONE_BYTES;
    }
    pool->inner_bytes = inner;
    if ((pool->mode & LM_POOL_HANDLED) != 0) inner += sizeof(uint32_t);
    pool->stride = lm_align_up(inner, align);
    /* The guard extends up to the generation: former contents must not be taken for a fence of the
     * heap. */
    if ((pool->mode & LM_POOL_CHECKED) != 0 && (pool->mode & LM_POOL_HANDLED) != 0)
        pool->inner_bytes = pool->stride - sizeof(uint32_t);
    if (!buffer && align <= POOL_LINE_BYTES && pool->stride % SPREAD_FROM == 0 &&
        (flags & LOAM_POOL_DENSE) == 0)
        pool->stride += POOL_LINE_BYTES;
    LM_ASSERT(pool->stride % align == 0 && pool->stride >= pool->inner_bytes);
    pool->align = align;
    pool->shift = (unsigned char)lm_lowest_bit(pool->stride);
    pool->inverse = inverse_of(pool->stride >> pool->shift);
    LM_ASSERT((pool->stride >> pool->shift) * pool->inverse == 1);
    pool->floor = pool->mode == 0 ? 0 : UINTPTR_MAX;
    if ((pool->mode & LM_POOL_HARDENED) != 0) pool->key = key_of(pool);
    pool->left_blocks = options->most_blocks == 0 ? SIZE_MAX : options->most_blocks;
    pool->next_blocks = options->first_blocks;
    if (pool->next_blocks == 0)
        pool->next_blocks = larger(POOL_FIRST_LEAST, POOL_FIRST_BYTES / pool->stride);
    if ((flags & LOAM_FIXED) != 0)
        pool->next_blocks =
            options->most_blocks != 0 ? options->most_blocks : options->first_blocks;
    LM_ASSERT(buffer || pool->next_blocks != 0);
    pool->most_chunk_bytes =
        options->most_chunk_bytes != 0 ? options->most_chunk_bytes : MOST_CHUNK_BYTES;
    lm_pool_generation_start(pool);
    return true;
}

static void pool_enter(loam_pool *pool, const loam_pool_options *options) {
    lm_entry_init(&pool->entry, &lm_pool_kind, options != NULL ? options->name : NULL,
                  (pool->mode & LM_POOL_CHECKED) != 0);
    LM_METER(began(&pool->entry, pool->held_bytes, pool->requests));
}

int loam_pool_init_as(loam_pool *pool, loam_source *source, size_t block_bytes,
                      const loam_pool_options *options, unsigned extra) {
    if (source == NULL) return LM_EINVAL;
    bool exact = (source->flags & LOAM_SOURCE_CONTIGUOUS) != 0;
    if (!pool_set_up(pool, block_bytes, options, extra, exact, false)) return LM_EINVAL;
    pool->source = source;
    if (!lm_pool_table_get(pool)) return LM_ENOMEM;
    if ((pool->flags & LOAM_FIXED) != 0 && !lm_pool_grow(pool)) {
        lm_pool_table_put(pool);
        return LM_ENOMEM;
    }
    pool_enter(pool, options);
    return 0;
}

int loam_pool_init_buffer_as(loam_pool *pool, void *memory, size_t bytes, size_t block_bytes,
                             const loam_pool_options *options, unsigned extra) {
    extra |= LOAM_POOL_CONTIGUOUS | LOAM_FIXED;
    if (!pool_set_up(pool, block_bytes, options, extra, true, true)) return LM_EINVAL;
    size_t gap = (0 - (uintptr_t)memory) & (pool->align - 1);
    if (memory == NULL || bytes > PTRDIFF_MAX || lm_passes_the_end(memory, bytes) || gap > bytes ||
        bytes - gap < pool->stride)
        return LM_ENOMEM;
    loam_pool_chunk *chunk = &pool->first;
    *chunk = (loam_pool_chunk){.start = (char *)memory + gap, .limit = (char *)memory + bytes};
    pool->held_bytes = pool->peak_bytes = bytes;
    lm_pool_add(pool, chunk);
    pool_enter(pool, options);
    return 0;
}

loam_pool *loam_pool_create_as(loam_source *source, size_t block_bytes,
                               const loam_pool_options *options, unsigned extra) {
    loam_pool made;
    if (source == NULL) return NULL;
    bool exact = (source->flags & LOAM_SOURCE_CONTIGUOUS) != 0;
    if (!pool_set_up(&made, block_bytes, options, extra, exact, false)) return NULL;
    made.source = source;
    loam_pool *pool = lm_pool_get_home(&made);
    if (pool == NULL) return NULL;
    pool_enter(pool, options);
    return pool;
}

/* ---- Links ---- */

static size_t link_mask(const loam_pool *pool, const void *block) {
    return (pool->mode & LM_POOL_HARDENED) == 0 ? 0 : pool->key ^ (size_t)(uintptr_t)block >> 4;
}

typedef uint32_t narrow_t __attribute__((may_alias));

LM_READS_ANYTHING void *lm_pool_link_get(const loam_pool *pool, const void *block) {
    if ((pool->mode & LM_POOL_NARROW) != 0) {
        lm_tool_pause();
        uint32_t narrow = *(const narrow_t *)block ^ (uint32_t)link_mask(pool, block);
        lm_tool_resume();
        return narrow == 0 ? NULL : pool->chunks->start + (size_t)4 * (narrow - 1);
    }
    lm_tool_pause();
    size_t link = (size_t) * (const loam_pool_link *)block;
    lm_tool_resume();
    return (void *)(link ^ link_mask(pool, block));
}

LM_READS_ANYTHING void lm_pool_link_set(const loam_pool *pool, void *block, void *next) {
    if ((pool->mode & LM_POOL_NARROW) != 0) {
        size_t distance = next == NULL ? 0 : (size_t)((char *)next - pool->chunks->start) / 4 + 1;
        LM_ASSERT((uint32_t)distance == distance);
        lm_tool_pause();
        *(narrow_t *)block = (uint32_t)distance ^ (uint32_t)link_mask(pool, block);
        lm_tool_resume();
        return;
    }
    lm_tool_pause();
    *(loam_pool_link *)block = (void *)((size_t)next ^ link_mask(pool, block));
    lm_tool_resume();
}

/* Returns the last chunk that does not begin above p, or NULL. */
static const loam_pool_chunk *chunk_below(const loam_pool *pool, const void *p) {
    const loam_pool_chunk *chunk = NULL, *at = pool->root;
    while (at != NULL) {
        bool above = (uintptr_t)at->start > (uintptr_t)p;
        if (!above) chunk = at;
        at = above ? at->lower : at->higher;
    }
    return chunk;
}

/* Returns the number in its chunk of the block before `end` that begins at p. SIZE_MAX iff there is
 * none. */
LM_INLINE size_t number_of(const loam_pool *pool, const loam_pool_chunk *chunk, const char *end,
                           const void *p) {
    size_t mask = ((size_t)1 << pool->shift) - 1;
    size_t offset = (size_t)((uintptr_t)p - (uintptr_t)chunk->start);
    size_t number = (offset >> pool->shift) * pool->inverse;
    bool found = (offset & mask) == 0 && number < lm_pool_blocks(pool, chunk, end);
    return found ? number : SIZE_MAX;
}

const loam_pool_chunk *lm_pool_find(const loam_pool *pool, const void *p, size_t *number) {
    const loam_pool_chunk *chunk = chunk_below(pool, p);
    if (chunk == NULL) return NULL;
    *number = number_of(pool, chunk, lm_pool_high(pool, chunk), p);
    return *number != SIZE_MAX ? chunk : NULL;
}

bool lm_pool_has(const loam_pool *pool, const void *p) {
    const loam_pool_chunk *chunk = chunk_below(pool, p);
    return chunk != NULL && number_of(pool, chunk, chunk->end, p) != SIZE_MAX;
}

bool loam_pool_owns(const loam_pool *pool, const void *p) {
    size_t number;
    if (pool->chunks == NULL) return false; /* true also after the pool's end */
    return lm_pool_find(pool, (const char *)p - pool->head_bytes, &number) != NULL;
}

/* ---- Alloc and free ---- */

void lm_pool_put(loam_pool *pool, void *block) {
    loam_pool_cut *cut = lm_pool_cut(pool);
    lm_pool_link_set(pool, block, cut->free);
    cut->free = block;
}

/* Takes the first block off the list. Returns NULL after a report. */
static char *pool_pop(loam_pool *pool, const char *file, unsigned line) {
    loam_pool_cut *cut = lm_pool_cut(pool);
    char *block = (char *)cut->free;
    LM_ASSERT(block != NULL);
    void *next = lm_pool_link_get(pool, block);
    size_t number;
    if ((pool->mode & LM_POOL_HARDENED) != 0 && next != NULL &&
        lm_pool_find(pool, next, &number) == NULL) {
        lm_family_misuse(&pool->entry, file, line,
                         "free list damaged: %p was written to after its free",
                         (void *)(block + pool->head_bytes));
        cut->free = NULL; /* the rest of the list is lost, including the block */
        return NULL;
    }
    cut->free = next;
    return block;
}

void *loam_pool_alloc_slow(loam_pool *pool, const char *file, unsigned line) {
    if (lm_pool_over(pool, "allocation", file, line)) return NULL;
    loam_pool_cut *cut = lm_pool_cut(pool);
    bool used = cut->free != NULL;
    char *block;
    if (used) {
        block = pool_pop(pool, file, line);
        if (block == NULL) return NULL;
    } else {
        if (cut->fresh == cut->end && !lm_pool_next(pool)) return NULL;
        LM_ASSERT(cut->fresh < cut->end);
        block = cut->fresh;
        cut->fresh = block + pool->stride;
    }
    if (pool->mode == 0) return block;
    lm_tool_take(block, pool->inner_bytes);
    if ((pool->mode & LM_POOL_HANDLED) != 0) lm_pool_generation_begin(pool, block, used);
    if ((pool->mode & LM_POOL_CHECKED) != 0) {
        if (used || lm_pool_is_gone(pool, pool->current, block))
            (void)lm_guard_check_freed(&pool->entry,
                                       (loam_tag *)(void *)(block + pool->head_bytes) - 1);
        return lm_guard_open(&pool->entry, block, pool->inner_bytes, pool->block_bytes, pool->align,
                             file, line);
    }
    lm_tool_show_undefined(block, pool->block_bytes);
    return block;
}

#if LM_HOSTED
/* A program without shared pools need not link them. */
#pragma weak lm_shared_pool_kind
#endif

/* Returns whether p is the address that an object of the pool with this entry has or may get. */
static bool pool_holds(const loam_entry *entry, const void *p) {
    bool is_pool = entry->kind == &lm_pool_kind;
#if LM_HOSTED
    is_pool = is_pool || entry->kind == &lm_shared_pool_kind;
#endif
    if (!is_pool) return false;
    const loam_pool *pool = lm_pool_of(entry);
    return lm_pool_has(pool, (const void *)((uintptr_t)p - pool->head_bytes));
}

static void report_foreign(const loam_pool *pool, const void *p, const char *file, unsigned line) {
    lm_line_t owner = {0};
    if (lm_entry_tell(pool_holds, p, &pool->entry, &owner))
        lm_family_misuse(&pool->entry, file, line, "free of %p, which belongs to %s", p,
                         owner.text);
    else if ((pool->mode & LM_POOL_CHECKED) != 0 && !lm_entry_has(&pool->entry, p))
        /* It may belong to an allocator of another kind. */
        (void)lm_guard_find(&pool->entry, p, "free", file, line);
    else
        lm_family_misuse(&pool->entry, file, line, "free of %p, which is no object of it", p);
}

void lm_pool_give(loam_pool *pool, void *p, const char *file, unsigned line) {
    LM_ASSERT(p != NULL && pool->mode != 0);
    char *block = (char *)((uintptr_t)p - pool->head_bytes);
    size_t number;
    if (lm_pool_find(pool, block, &number) == NULL) {
        report_foreign(pool, p, file, line);
        return;
    }
    if ((pool->mode & LM_POOL_CHECKED) != 0) {
        loam_tag *tag = lm_guard_find(&pool->entry, p, "free", file, line);
        if (tag == NULL) return;
        (void)lm_guard_close(&pool->entry, tag, file, line);
    } else if (lm_pool_cut(pool)->free == block || !lm_pool_generation_live(pool, block)) {
        lm_family_misuse(&pool->entry, file, line, "free of %p, which is free already", p);
        return;
    } else {
        lm_tool_hide(block, pool->block_bytes);
    }
    lm_tool_give(block, pool->inner_bytes);
    if (lm_pool_generation_end(pool, block)) lm_pool_put(pool, block);
}

void *loam_pool_free_slow(loam_pool *pool, void *p, const char *file, unsigned line) {
    if (lm_pool_over(pool, "free", file, line)) return NULL;
    if (p != NULL) lm_pool_give(pool, p, file, line);
    return pool->hot.free;
}
