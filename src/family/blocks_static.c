/* blocks_static.c: fixed instances: everything in one range, taken once; the owner of a block by its address.
 *
 *   │ classes │ heads │ class_of │ map │ live bits │ class 0: block, block, ... │ class 1: ... │
 *                                                  base                                    end
 *
 * map has a byte for each stretch of 2^map_shift bytes from base on: the class that its first byte belongs to.
 * Small classes may share a stretch; then a few comparisons find the one. Live bits are there if checked:
 * guards would not fit, because each class has exactly the blocks it was made for.
 */
#include "family/blocks_room.h"

enum {
    MAP_MOST = 256,
    APART_FROM = 2048, /* bytes of a block */
    APART_OF = 1024,
    LINE = 64, /* bytes of a cache's line */
};

/* The original's, each rounded up to 16: 8 and 16 are one, 396 is 400. A program that names a class of 8 bytes itself gets
 * one, unless threads have caches: their lists need two words of each block. */
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
    *most = 0;
    do {
        size_t more = options->max_blocks != NULL ? options->max_blocks[*at] : options->blocks_each;
        *most = more > SIZE_MAX - *most ? SIZE_MAX : *most + more;
    } while (++*at < count && rounded(options, classes[*at]) == *block_bytes);
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
        uint32_t stride = apart ? block_bytes + LINE : block_bytes;
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
    for (uint32_t i = blocks->sized_count, bytes = ALIGNED_FIRST; i < blocks->class_count;
         i++, bytes *= 2) {
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

typedef struct layout {
    size_t tables, map, live, blocks; /* bytes */
    unsigned map_shift;
} layout_t;

/* each: instead of the options' counts, unless 0. false iff it overflows, or a class has no block. */
static bool lay_out(const loam_blocks_options *options, size_t each, bool checked,
                    layout_t *layout) {
    *layout = (layout_t){0};
    unsigned count = 0;
    uint32_t block_bytes = 0;
    size_t most;
    for (unsigned at = 0; lm_blocks_next_class(options, &at, &block_bytes, &most); count++) {
        size_t bytes;
        if (each != 0) most = each;
        if (most == 0 || !lm_mul(most, block_bytes, &bytes)) return false;
        if (bytes > (size_t)PTRDIFF_MAX / 2 - layout->blocks) return false;
        layout->blocks += lm_align_up(bytes, 16);
        if (checked) layout->live += most / 8 + 1;
    }
    while (layout->blocks >> layout->map_shift >= MAP_MOST) layout->map_shift++;
    layout->map = (layout->blocks >> layout->map_shift) + 1;
    layout->tables = lm_blocks_table_bytes(count, block_bytes);
    return true;
}

static size_t layout_bytes(const layout_t *layout) {
    return layout->tables + lm_align_up(layout->map + layout->live, 16) + layout->blocks;
}

size_t lm_blocks_fixed_bytes(const loam_blocks_options *options, size_t each, bool checked) {
    layout_t layout;
    return lay_out(options, each, checked, &layout) ? layout_bytes(&layout) : 0;
}

/* The most blocks of each class that fit. */
static size_t each_in(const loam_blocks_options *options, size_t bytes, bool checked) {
    size_t low = 0, high = bytes / 16 + 1;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2, needed;
        needed = lm_blocks_fixed_bytes(options, middle, checked);
        if (needed != 0 && needed <= bytes) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

static void set_map(loam_blocks *blocks, uint8_t *map, size_t stretches) {
    unsigned class = 0;
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
    size_t each = options->max_blocks == NULL ? options->blocks_each : 0;
    if (options->max_blocks == NULL && each == 0) {
        each = each_in(options, bytes, blocks->checked);
        if (each == 0) return false;
    }
    layout_t layout;
    if (!lay_out(options, each, blocks->checked, &layout) || layout_bytes(&layout) > bytes)
        return false;
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
        if (blocks->checked) class->live = live;
        if (blocks->checked) live += class->limit / 8 + 1;
    }
    blocks->end = at;
    set_map(blocks, map, layout.map);
    if (blocks->watched) lm_tool_hide(blocks->base, (size_t)(blocks->end - blocks->base));
    return true;
}

/* ---- Blocks ---- */

static size_t index_in(const loam_blocks_class *class, const void *p) {
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

static bool is_carved_anew(const loam_blocks_class *class, const void *block) {
    return (const char *)block + class->block_bytes == class->fresh;
}

LM_READS_ANYTHING static size_t written_at(const loam_blocks_class *class, const void *block) {
    size_t at = sizeof(void *);
    while (at < class->block_bytes && ((const unsigned char *)block)[at] == LM_DEAD_BYTE) at++;
    return at;
}

void lm_blocks_fixed_taken(const loam_entry *entry, loam_blocks_class *class, void *block) {
    if (class->live == NULL) return;
    size_t index = index_in(class, block), changed = written_at(class, block);
    /* The newest block is either fresh, with any contents, or was freed and has them poisoned. */
    if (changed != class->block_bytes && !is_carved_anew(class, block))
        lm_family_misuse(entry, NULL, 0, "byte %zu of %p written after its free", changed + 1,
                         block);
    class->live[index / 8] |= (uint8_t)(1 << index % 8);
    lm_tool_show_undefined(block, class->block_bytes);
    memset(block, LM_FRESH_BYTE, class->block_bytes);
}

void lm_blocks_fixed_given(loam_blocks_class *class, void *block) {
    if (class->live == NULL) return;
    size_t index = index_in(class, block);
    class->live[index / 8] &= (uint8_t) ~(1 << index % 8);
    lm_tool_show_undefined(block, class->block_bytes);
    memset(block, LM_DEAD_BYTE, class->block_bytes);
}
