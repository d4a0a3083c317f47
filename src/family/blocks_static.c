/* blocks_static.c: fixed instances: all blocks are in one range, taken once, and the owner of a
 * block follows from its address.
 *
 *   │ classes │ heads │ class_of │ map │ live bits │ class 0: block, ... │ class 1: block, ... │
 *                                                   base                                       end
 *
 * map has a byte for each stretch of 2^map_shift bytes from base on: the class that the stretch's
 * first byte belongs to. Small classes may share a stretch; a few comparisons then find the class.
 *
 *   checked   │ object │ 0xE7 ... │ note: 4 bytes │   the object's size, mixed with its address
 *
 * Checks take no block away from a class. So a checked instance has extra bytes for guards only if
 * its memory has room for 16 more bytes per block. Otherwise the unused end of an
 * object's block is its guard, and a second bit for each block says whether there is one. If memory
 * has no room for these bits either, only live bits are checked.
 */
#include "family/blocks_internal.h"

enum {
    MAP_MOST = 256,
    /* Blocks of a multiple of APART_OF bytes, from APART_FROM bytes on, are a cache line further
     * apart, so that they do not share sets of the cache. */
    APART_FROM = 2048,
    APART_OF = 1024,
    BLOCKS_STATIC_LINE = 64, /* bytes of a cache line */
    GUARD_BYTES = 16,
    NOTE_BYTES = 4,
};

/* How a checked instance checks: by live bits alone; also by guards in the unused ends of blocks;
 * by guards in extra bytes. A guard is bytes of 0xE7, and at their end a note of 4 bytes. */
typedef enum care { LIVE_ONLY, GUARD_IN_BLOCK, GUARD_ADDED } care_t;

/* The classes of the original xallocator, each rounded up to 16: 8 and 16 become one class, and 396
 * becomes 400. A class of 8 bytes exists only if the program names it and threads have no caches:
 * the lists of a cache need two words in each block. */
static const uint32_t default_classes[] = {8,   16,  32,  64,   128,  256,
                                           396, 512, 768, 1024, 2048, 4096};

static uint32_t rounded(const loam_blocks_options *options, uint32_t bytes) {
    bool small = bytes <= 8 && options->classes != NULL && (options->flags & LOAM_THREADS) == 0;
    return small ? 8 : (uint32_t)lm_align_up(bytes, 16);
}

bool lm_blocks_next_class(const loam_blocks_options *options, unsigned *at, uint32_t *block_bytes,
                          size_t *most) {
    bool given = options->classes != NULL;
    const uint32_t *classes = given ? options->classes : default_classes;
    unsigned count =
        given ? options->class_count : sizeof default_classes / sizeof *default_classes;
    if (*at >= count) return false;
    *block_bytes = rounded(options, classes[*at]);
    *most = options->max_blocks == NULL ? options->blocks_each : 0;
    do {
        size_t more = options->max_blocks != NULL ? options->max_blocks[*at] : 0;
        *most = more > SIZE_MAX - *most ? SIZE_MAX : *most + more;
    } while (++*at < count && rounded(options, classes[*at]) == *block_bytes);
    LM_ASSERT(*block_bytes != 0 && *block_bytes <= LOAM_BLOCKS_LARGEST);
    return true;
}

/* ---- Tables ---- */

size_t lm_blocks_table_bytes(unsigned class_count, size_t largest_bytes) {
    return lm_align_up(
        class_count * (sizeof(loam_blocks_class) + sizeof(void *)) + largest_bytes / 8 + 1, 16);
}

static uint32_t batch_of(uint32_t block_bytes) {
    enum { BYTES = 16 * 1024, LEAST = 4, MOST = 64 };
    uint32_t batch = BYTES / block_bytes;
    return batch < LEAST ? LEAST : batch > MOST ? MOST : batch;
}

void lm_blocks_set_tables(loam_blocks *blocks, const loam_blocks_options *options, char *at) {
    loam_blocks_class *classes = (loam_blocks_class *)(void *)at;
    void **heads = (void **)(void *)(classes + blocks->class_count);
    uint8_t *class_of = (uint8_t *)(heads + blocks->class_count);
    size_t granule = 0;
    unsigned next = 0;
    for (uint32_t i = 0; i < blocks->sized_count; i++) {
        uint32_t block_bytes;
        size_t most;
        if (!lm_blocks_next_class(options, &next, &block_bytes, &most)) break;
        bool apart = !blocks->fixed && block_bytes >= APART_FROM && block_bytes % APART_OF == 0;
        block_bytes += blocks->guard_bytes;
        LM_ASSERT(i == 0 || classes[i - 1].block_bytes < block_bytes);
        uint32_t stride = apart ? block_bytes + BLOCKS_STATIC_LINE : block_bytes;
        classes[i] = (loam_blocks_class){
            .block_bytes = block_bytes,
            .align = lowest_of(stride | LOAM_BLOCKS_FIRST),
            .batch = batch_of(block_bytes),
            .index = i,
            .stride = stride,
            .first = LOAM_BLOCKS_FIRST,
            .limit = most,
        };
        heads[i] = NULL;
        for (; granule <= block_bytes / 8; granule++) class_of[granule] = (uint8_t)i;
    }
    LM_ASSERT(blocks->sized_count != 0 &&
              classes[blocks->sized_count - 1].block_bytes == blocks->largest_bytes);
    LM_ASSERT(granule == blocks->largest_bytes / 8 + 1); /* the length of class_of */
    for (uint32_t i = blocks->sized_count, bytes = ALIGNED_FIRST; i < blocks->class_count;
         i++, bytes *= 2) {
        LM_ASSERT(bytes <= LOAM_BLOCKS_LARGEST);
        classes[i] = (loam_blocks_class){
            .block_bytes = bytes,
            .align = bytes,
            .batch = batch_of(bytes),
            .index = i,
            .stride = bytes,
            .first = bytes,
        };
        heads[i] = NULL;
    }
    blocks->classes = classes;
    blocks->heads = heads;
    blocks->class_of = class_of;
}

/* ---- Layout ---- */

/* Invariant: with fewer or smaller blocks of each class, or fewer bits for each, no size becomes
 * larger. So memory that has room for a layout has room for each smaller one. */
typedef struct layout {
    size_t tables, map, live, blocks; /* sizes in bytes; map: at most */
    unsigned map_shift;
} layout_t;

/* Computes the layout. each: number of blocks per class instead of the options' counts, unless 0.
 * Returns false iff the size overflows, or a class has no block. */
static bool lay_out(const loam_blocks_options *options, size_t each, bool checked, care_t care,
                    layout_t *layout) {
    *layout = (layout_t){0};
    unsigned count = 0;
    uint32_t block_bytes = 0;
    size_t most;
    for (unsigned at = 0; lm_blocks_next_class(options, &at, &block_bytes, &most); count++) {
        size_t bytes;
        if (each != 0) most = each;
        if (checked && care == GUARD_ADDED) block_bytes += GUARD_BYTES;
        if (most == 0 || !lm_mul(most, block_bytes, &bytes)) return false;
        if (bytes > (size_t)PTRDIFF_MAX / 2 - layout->blocks) return false;
        layout->blocks += lm_align_up(bytes, 16);
        if (checked) layout->live += (most / 8 + 1) * (care == GUARD_IN_BLOCK ? 2 : 1);
    }
    while (layout->blocks >> layout->map_shift >= MAP_MOST) layout->map_shift++;
    /* Not the number of stretches, which is smaller for some larger sizes. */
    layout->map = layout->blocks < MAP_MOST ? layout->blocks + 1 : MAP_MOST;
    layout->tables = lm_blocks_table_bytes(count, block_bytes);
    return true;
}

static size_t layout_bytes(const layout_t *layout) {
    return layout->tables + lm_align_up(layout->map + layout->live, 16) + layout->blocks;
}

size_t lm_blocks_fixed_bytes(const loam_blocks_options *options, bool checked, bool guards) {
    layout_t layout;
    care_t care = guards ? GUARD_ADDED : LIVE_ONLY;
    return lay_out(options, 0, checked, care, &layout) ? layout_bytes(&layout) : 0;
}

/* Returns the maximum number of blocks of each class that fits. */
static size_t each_in(const loam_blocks_options *options, size_t bytes, bool checked, care_t care) {
    size_t low = 0, high = bytes / 16 + 1;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        layout_t layout;
        if (lay_out(options, middle, checked, care, &layout) && layout_bytes(&layout) <= bytes) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

static void set_map(loam_blocks *blocks, uint8_t *map, size_t most) {
    unsigned class = 0;
    size_t stretches = ((size_t)(blocks->end - blocks->base) >> blocks->map_shift) + 1;
    LM_ASSERT(stretches <= most);
    (void)most;
    for (size_t i = 0; i < stretches; i++) {
        const char *first = blocks->base + (i << blocks->map_shift);
        while (class + 1 < blocks->class_count && first >= blocks->classes[class].end) class ++;
        map[i] = (uint8_t) class;
    }
    blocks->map = map;
}

bool lm_blocks_set_fixed(loam_blocks *blocks, const loam_blocks_options *options, char *memory,
                         size_t bytes) {
    size_t gap = (0 - (uintptr_t)memory) % 16;
    if (bytes < gap || lm_passes_the_end(memory, bytes)) return false;
    char *at = memory + gap;
    bytes -= gap;
    size_t each = 0; /* not 0: number of blocks of each class, in place of the options' counts */
    layout_t layout;
    care_t care = blocks->checked ? GUARD_ADDED : LIVE_ONLY;
    if (options->max_blocks == NULL && options->blocks_each == 0) {
        each = each_in(options, bytes, blocks->checked, care);
        if (each == 0) each = each_in(options, bytes, blocks->checked, care = LIVE_ONLY);
        if (each == 0) return false;
    }
    while (!lay_out(options, each, blocks->checked, care, &layout) ||
           layout_bytes(&layout) > bytes) {
        if (care == LIVE_ONLY) return false;
        care = care == GUARD_ADDED ? GUARD_IN_BLOCK : LIVE_ONLY;
    }
    blocks->guard_bytes = care == GUARD_ADDED ? GUARD_BYTES : 0;
    blocks->largest_bytes += blocks->guard_bytes;
    lm_blocks_set_tables(blocks, options, at);
    at += layout.tables;
    uint8_t *map = (uint8_t *)at, *live = map + layout.map;
    if (blocks->checked) memset(live, 0, layout.live);
    at += lm_align_up(layout.map + layout.live, 16);
    blocks->base = at;
    blocks->map_shift = layout.map_shift;
    for (unsigned i = 0; i < blocks->class_count; i++) {
        loam_blocks_class *class = &blocks->classes[i];
        if (each != 0) class->limit = each;
        class->start = class->fresh = at;
        class->end = class->start + class->limit * class->block_bytes;
        at += lm_align_up(class->limit * class->block_bytes, 16);
        class->align = lowest_of((uintptr_t) class->start | class->block_bytes);
        if (!blocks->checked) continue;
        class->live = live;
        live += class->limit / 8 + 1;
        if (care == GUARD_ADDED) continue;
        /* class->live: there are no notes. */
        class->noted = care == GUARD_IN_BLOCK ? live : class->live;
        if (care == GUARD_IN_BLOCK) live += class->limit / 8 + 1;
    }
    /* Without the padding behind a last class of 8 bytes, which is in no class. */
    blocks->end = blocks->classes[blocks->class_count - 1].end;
    LM_ASSERT((size_t)(at - blocks->base) == layout.blocks && blocks->end <= at);
    LM_ASSERT((size_t)(at - memory) <= gap + bytes);
    LM_ASSERT((size_t)(live - map) <= layout.map + layout.live);
    set_map(blocks, map, layout.map);
    if (blocks->watched) lm_tool_hide(blocks->base, (size_t)(blocks->end - blocks->base));
    return true;
}

/* ---- Blocks ---- */

static size_t index_in(const loam_blocks_class *class, const void *p) {
    LM_ASSERT((const char *)p >= class->start && (const char *)p < class->end);
    return (size_t)((const char *)p - class->start) / class->block_bytes;
}

loam_blocks_class *lm_blocks_fixed_class(const loam_blocks *blocks, const void *p,
                                         const char *doing, const char *file, unsigned line) {
    uint32_t i = fixed_at(blocks, p);
    loam_blocks_class *class = i != UINT32_MAX ? &blocks->classes[i] : NULL;
    if (class == NULL ||
        (blocks->checked && (size_t)((const char *)p - class->start) % class->block_bytes != 0)) {
        lm_family_misuse(&blocks->entry, file, line, "%s of %p, which is no object of it", doing,
                         p);
        return NULL;
    }
    if (class->live == NULL) return class;
    size_t index = index_in(class, p);
    if (class->live[index / 8] >> index % 8 & 1) return class;
    lm_family_misuse(&blocks->entry, file, line, "%s of %p, which is free already", doing, p);
    return NULL;
}

/* ---- Guards and notes of checked blocks ---- */

LM_READS_ANYTHING static uint32_t note_at(const char *end) {
    const unsigned char *bytes = (const unsigned char *)end - NOTE_BYTES;
    return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

/* Returns the note: 16 bits of the size, and 16 bits mixed from the address and the size. */
static uint32_t note_of(const char *end, size_t bytes) {
    LM_ASSERT(bytes <= 0xFFFF);
    uint32_t mixed = ((uint32_t)((uintptr_t)end >> 4) + (uint32_t)bytes * 0x9E37u) * 0x9E3779B1u;
    return (uint32_t)bytes ^ (mixed & 0xFFFF0000u) ^ 0x5A5A5A5Au;
}

LM_READS_ANYTHING static size_t changed_at(const char *from, const char *to, unsigned char value) {
    const char *at = from;
    while (at < to && (unsigned char)*at == value) at++;
    return (size_t)(at - from);
}

static char *blocks_static_end_of(const loam_blocks_class *class, const void *block) {
    return (char *)(uintptr_t)block + class->block_bytes;
}

static bool has_note(const loam_blocks_class *class, const void *block) {
    size_t index = index_in(class, block);
    return class->noted == NULL ||
           (class->noted != class->live && (class->noted[index / 8] >> index % 8 & 1) != 0);
}

/* Writes guards after an object of `bytes` bytes, as far as there is room. */
static void blocks_static_note(loam_blocks_class *class, void *block, size_t bytes) {
    char *end = blocks_static_end_of(class, block), *guard = (char *)block + bytes;
    size_t left = class->block_bytes - bytes, index = index_in(class, block);
    if (class->noted == class->live) return;
    LM_ASSERT(bytes <= class->block_bytes && (class->noted != NULL || left >= GUARD_BYTES));
    if (class->noted != NULL) {
        class->noted[index / 8] &= (uint8_t) ~(1 << index % 8);
        if (left < NOTE_BYTES) return;
        class->noted[index / 8] |= (uint8_t)(1 << index % 8);
    }
    lm_tool_show_undefined(guard, left);
    memset(guard, LM_GUARD_BYTE, left - NOTE_BYTES);
    uint32_t value = note_of(end, bytes);
    char *at = end - NOTE_BYTES;
    for (unsigned i = 0; i < NOTE_BYTES; i++) at[i] = (char)(value >> 8 * i);
    lm_tool_hide(guard, left);
}

typedef enum state { WHOLE, OVERFLOW, UNDERFLOW } state_t;

/* Returns whether the guards are intact, or were overwritten from the object before them (OVERFLOW)
 * or the block after them (UNDERFLOW): then the note is damaged, and the guard before it is not.
 * *bytes: the object's size, SIZE_MAX if the note is damaged; *at: the first changed byte. Neither
 * is set for a block without a note. */
static state_t blocks_static_state_of(const loam_blocks_class *class, const void *block,
                                      size_t *bytes, size_t *at) {
    const char *end = blocks_static_end_of(class, block), *last = end - NOTE_BYTES;
    if (!has_note(class, block)) return WHOLE;
    uint32_t found = note_at(end);
    *bytes = (found ^ 0x5A5A5A5Au) & 0xFFFF;
    *at = *bytes;
    if (*bytes <= class->block_bytes - NOTE_BYTES && found == note_of(end, *bytes)) {
        const char *guard = (const char *)block + *bytes;
        size_t changed = changed_at(guard, last, LM_GUARD_BYTE);
        *at = *bytes + changed;
        return changed == (size_t)(last - guard) ? WHOLE : OVERFLOW;
    }
    *bytes = SIZE_MAX;
    return changed_at(last - 2 * NOTE_BYTES, last, LM_GUARD_BYTE) == 2 * NOTE_BYTES ? UNDERFLOW
                                                                                    : OVERFLOW;
}

static bool guards_whole(const loam_blocks *blocks, const loam_blocks_class *class,
                         const void *block, const char *file, unsigned line) {
    size_t bytes, at;
    switch (blocks_static_state_of(class, block, &bytes, &at)) {
    case WHOLE: return true;
    case UNDERFLOW:
        lm_family_misuse(&blocks->entry, file, line, "underflow of %p: the bytes before it written",
                         (const void *)blocks_static_end_of(class, block));
        return false;
    default: break;
    }
    if (bytes == SIZE_MAX)
        lm_family_misuse(&blocks->entry, file, line, "overflow of %p: the end of its block written",
                         block);
    else
        lm_family_misuse(&blocks->entry, file, line, "overflow of %p: byte %zu of %zu written",
                         block, at + 1, bytes);
    return false;
}

size_t lm_blocks_fixed_size(const loam_blocks *blocks, const loam_blocks_class *class,
                            const void *block) {
    size_t bytes, at;
    if (class->live == NULL || !has_note(class, block)) return usable_of(blocks, class);
    return blocks_static_state_of(class, block, &bytes, &at) == WHOLE ? bytes : 0;
}

bool lm_blocks_fixed_resize(const loam_blocks *blocks, loam_blocks_class *class, void *block,
                            size_t bytes) {
    if (bytes > usable_of(blocks, class)) return false;
    size_t old_bytes = lm_blocks_fixed_size(blocks, class, block);
    if (bytes > old_bytes) {
        lm_tool_show_undefined((char *)block + old_bytes, bytes - old_bytes);
        memset((char *)block + old_bytes, LM_FRESH_BYTE, bytes - old_bytes);
    }
    blocks_static_note(class, block, bytes);
    return true;
}

bool lm_blocks_fixed_whole(const loam_blocks *blocks, const loam_blocks_class *class,
                           const void *block, const char *file, unsigned line) {
    if (class->live == NULL) return true;
    if (!guards_whole(blocks, class, block, file, line)) return false;
    size_t bytes, at;
    const char *before = (const char *)block - class->block_bytes;
    if (block == class->start || blocks_static_state_of(class, before, &bytes, &at) != UNDERFLOW)
        return true;
    return guards_whole(blocks, class, before, file, line);
}

bool lm_blocks_fixed_dead(const loam_blocks *blocks, const loam_blocks_class *class,
                          const void *block, size_t from) {
    if (lm_tool_sees_all()) return true; /* it has reported each write */
    const char *at = (const char *)block + from,
               *to = (const char *)block + usable_of(blocks, class);
    size_t changed = changed_at(at, to, LM_DEAD_BYTE);
    if (changed != (size_t)(to - at)) {
        lm_family_misuse(&blocks->entry, NULL, 0, "byte %zu of %p written after its free",
                         from + changed + 1, block);
        return false;
    }
    return blocks->guard_bytes == 0 || guards_whole(blocks, class, block, NULL, 0);
}

bool lm_blocks_fixed_link(const loam_blocks *blocks, const loam_blocks_class *class,
                          const void *block) {
    const char *next = (const char *)link_of(block, 0);
    if (class->live == NULL || next == NULL) return true;
    if (next >= class->start && next < class->fresh &&
        (size_t)(next - class->start) % class->block_bytes == 0) {
        size_t index = index_in(class, next);
        if ((class->live[index / 8] >> index % 8 & 1) == 0) return true;
    }
    lm_family_misuse(&blocks->entry, NULL, 0, "free list damaged: %p was written to after its free",
                     block);
    return false;
}

void lm_blocks_fixed_taken(const loam_blocks *blocks, loam_blocks_class *class, void *block,
                           size_t bytes) {
    (void)blocks;
    if (class->live == NULL) return;
    size_t index = index_in(class, block);
    LM_ASSERT(bytes <= usable_of(blocks, class));
    class->live[index / 8] |= (uint8_t)(1 << index % 8);
    lm_tool_show_undefined(block, class->block_bytes);
    memset(block, LM_FRESH_BYTE, bytes);
    blocks_static_note(class, block, bytes);
}

/* Fills a free block. Its guard follows the bytes that an object may use. */
static void blocks_static_fill_dead(const loam_blocks *blocks, loam_blocks_class *class,
                                    void *block) {
    size_t usable = usable_of(blocks, class), index = index_in(class, block);
    class->live[index / 8] &= (uint8_t) ~(1 << index % 8);
    lm_tool_show_undefined(block, class->block_bytes);
    memset(block, LM_DEAD_BYTE, usable);
    if (class->noted == NULL)
        blocks_static_note(class, block, usable);
    else
        class->noted[index / 8] &= (uint8_t) ~(1 << index % 8);
}

void lm_blocks_fixed_given(const loam_blocks *blocks, loam_blocks_class *class, void *block) {
    if (class->live != NULL) blocks_static_fill_dead(blocks, class, block);
}

bool lm_blocks_fixed_check(const loam_blocks *blocks, const loam_blocks_class *class) {
    bool good = true;
    if (class->live == NULL) return true;
    for (char *block = class->start; block < class->fresh; block += class->block_bytes)
        good = guards_whole(blocks, class, block, NULL, 0) && good;
    for (char *block = class->fresh; block < class->gone; block += class->block_bytes)
        good = lm_blocks_fixed_dead(blocks, class, block, 0) && good;
    return good;
}

void lm_blocks_fixed_reset(const loam_blocks *blocks, loam_blocks_class *class) {
    LM_ASSERT(blocks->fixed && class->start <= class->fresh && class->gone <= class->end);
    if (class->live != NULL) {
        for (char *block = class->start; block < class->fresh; block += class->block_bytes)
            blocks_static_fill_dead(blocks, class, block);
        if (class->fresh > class->gone) class->gone = class->fresh;
    }
    class->fresh = class->start;
}
