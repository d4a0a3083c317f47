/* edges_test.c: memory as programs of a device have it: a few bytes, at any address, or wrongly
 * described. Of each piece that an allocator was given, it must use as much as it says and nothing
 * around it. */
#include "harness.h"

#include "loam/blocks.h"
#include "loam/pool.h"
#include "loam/region.h"

enum { AROUND = 64, MOST = 1536, OFFSETS = 16 };
static _Alignas(64) unsigned char arena[AROUND + OFFSETS + MOST + AROUND];
static unsigned char *objects[MOST];

/* bytes of memory at that distance from a multiple of 64, and a pattern around it. */
static unsigned char *piece(size_t offset) {
    for (size_t i = 0; i < sizeof(arena); i++) arena[i] = (unsigned char)(i * 7 + 1);
    return arena + AROUND + offset;
}

static bool whole_around(const unsigned char *memory, size_t bytes) {
    for (const unsigned char *at = arena; at < arena + sizeof(arena); at++) {
        if (at >= memory && at < memory + bytes) continue;
        if (*at != (unsigned char)((size_t)(at - arena) * 7 + 1)) return false;
    }
    return true;
}

/* The objects lie in the piece, at their alignment, and keep what is written to them: no two
 * overlap. */
static bool good_objects(size_t count, size_t object_bytes, size_t align,
                         const unsigned char *memory, size_t bytes) {
    for (size_t i = 0; i < count; i++) {
        const unsigned char *p = objects[i];
        if ((uintptr_t)p % align != 0 || p < memory || object_bytes > bytes ||
            p > memory + bytes - object_bytes)
            return false;
        for (size_t k = 0; k < object_bytes; k++) objects[i][k] = (unsigned char)(i + k);
    }
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < object_bytes; k++)
            if (objects[i][k] != (unsigned char)(i + k)) return false;
    return true;
}

/* ---- Pools ---- */

static void pool_in(size_t offset, size_t bytes, size_t block_bytes, size_t align, unsigned flags) {
    unsigned char *memory = piece(offset);
    loam_pool pool;
    loam_pool_options options = {.align = align, .flags = flags};
    size_t given = align < sizeof(void *) ? sizeof(void *) : align, count = 0;
    size_t stride = block_bytes < sizeof(void *) ? sizeof(void *) : block_bytes;
    stride = (stride + given - 1) & ~(given - 1);
    size_t gap = (0 - (uintptr_t)memory) & (given - 1);
    size_t fits = gap < bytes ? (bytes - gap) / stride : 0;
    int result = loam_pool_init_buffer(&pool, memory, bytes, block_bytes, &options);
    if (!LOAM_DEBUG && (flags & (LOAM_CHECK | LOAM_POOL_HANDLES)) == 0)
        CHECK_EQUAL(result, fits > 0 ? 0 : -12);
    if (result == 0) {
        while (count < MOST && (objects[count] = loam_pool_alloc(&pool)) != NULL) count++;
        CHECK(count > 0 && count <= fits);
        if (!LOAM_DEBUG && (flags & (LOAM_CHECK | LOAM_POOL_HANDLES)) == 0)
            CHECK_EQUAL(count, fits);
        CHECK(good_objects(count, block_bytes, given, memory, bytes));
        for (size_t i = 0; i < count; i++) loam_pool_free(&pool, objects[i]);
        CHECK(loam_pool_check(&pool));
        loam_pool_deinit(&pool);
    }
    CHECK(whole_around(memory, bytes));
}

TEST(pools_in_little_memory_at_any_address) {
    static const size_t sizes[] = {1, 3, 4, 5, 8, 12, 16, 24, 33};
    static const unsigned modes[] = {0, LOAM_HARDEN, LOAM_POOL_HANDLES, LOAM_CHECK};
    for (size_t mode = 0; mode < 4; mode++)
        for (size_t size = 0; size < 9; size++)
            for (size_t align = 4; align <= 32; align *= 2)
                for (size_t bytes = 0; bytes <= 80; bytes += 1 + size)
                    pool_in(bytes * 5 % OFFSETS, bytes, sizes[size], align, modes[mode]);
    for (size_t offset = 0; offset < OFFSETS; offset++) {
        pool_in(offset, MOST - offset, 24, 8, 0);
        pool_in(offset, MOST - offset, 20, 4, LOAM_POOL_HANDLES);
        pool_in(offset, MOST - offset, 24, 16, LOAM_CHECK);
    }
}

/* ---- Blocks ---- */

static const uint32_t three[] = {8, 24, 64};

static void blocks_in(size_t offset, size_t bytes, uint32_t each, unsigned flags) {
    unsigned char *memory = piece(offset);
    loam_blocks blocks;
    loam_blocks_options options = {.memory = memory,
                                   .memory_bytes = bytes,
                                   .classes = three,
                                   .class_count = 3,
                                   .blocks_each = each,
                                   .flags = flags};
    int result = loam_blocks_init(&blocks, &options);
    if (each != 0 && bytes >= loam_blocks_pool_bytes(&options)) CHECK_EQUAL(result, 0);
    CHECK(result == 0 || result == -12);
    if (result == 0) {
        for (int size = 0; size < 3; size++) {
            size_t count = 0;
            while (count < MOST &&
                   (objects[count] = loam_blocks_alloc(&blocks, three[size])) != NULL)
                count++;
            CHECK(count > 0);
            if (each != 0) CHECK_EQUAL(count, each);
            /* A class of 8 bytes is aligned to 8, all others to 16. */
            CHECK(good_objects(count, three[size], three[size] == 8 ? 8 : 16, memory, bytes));
            for (size_t i = 0; i < count; i++) loam_blocks_free(&blocks, objects[i]);
        }
        CHECK(loam_blocks_check(&blocks));
        loam_blocks_deinit(&blocks);
    }
    CHECK(whole_around(memory, bytes));
}

TEST(blocks_in_little_memory_at_any_address) {
    for (size_t bytes = 0; bytes <= MOST; bytes += bytes < 80 ? 1 : 13) {
        blocks_in(bytes * 5 % OFFSETS, bytes, 0, 0);
        blocks_in(bytes * 7 % OFFSETS, bytes, 0, LOAM_CHECK);
        blocks_in(bytes * 11 % OFFSETS, bytes, 2, 0);
        blocks_in(bytes * 13 % OFFSETS, bytes, 2, LOAM_CHECK);
    }
}

TEST(the_size_that_blocks_ask_for_is_enough_at_any_address) {
    for (unsigned flags = 0; flags <= LOAM_CHECK; flags += LOAM_CHECK) {
        loam_blocks_options options = {
            .classes = three, .class_count = 3, .blocks_each = 3, .flags = flags};
        size_t bytes = loam_blocks_pool_bytes(&options);
        CHECK(bytes > 0 && bytes <= MOST);
        for (size_t offset = 0; offset < OFFSETS; offset++) blocks_in(offset, bytes, 3, flags);
    }
}

TEST(counts_of_blocks_that_no_memory_holds) {
    static const uint32_t most[] = {UINT32_MAX, UINT32_MAX, UINT32_MAX};
    static const uint32_t sum[] = {UINT32_MAX, 2, 1}; /* of the classes 8 and 16, which are one */
    static const uint32_t merged[] = {8, 16, 24};
    loam_blocks blocks;
    loam_blocks_options options = {.memory = piece(0),
                                   .memory_bytes = MOST,
                                   .classes = three,
                                   .class_count = 3,
                                   .max_blocks = most};
    if (sizeof(size_t) == 4) CHECK_EQUAL(loam_blocks_pool_bytes(&options), 0);
    CHECK_EQUAL(loam_blocks_init(&blocks, &options), -12);
    options.classes = merged;
    options.max_blocks = sum;
    if (sizeof(size_t) == 4) CHECK_EQUAL(loam_blocks_pool_bytes(&options), 0);
    CHECK_EQUAL(loam_blocks_init(&blocks, &options), -12);
}

/* ---- Regions ---- */

/* first: bytes of the first chunk, 0: as the region likes. */
static void region_in(size_t offset, size_t bytes, size_t object_bytes, size_t first,
                      unsigned flags) {
    unsigned char *memory = piece(offset);
    loam_buffer buffer;
    loam_region region;
    loam_region_options options = {.first_bytes = first, .flags = flags};
    loam_buffer_init(&buffer, memory, bytes);
    CHECK_EQUAL(loam_region_init(&region, &buffer.source, &options), 0);
    for (int round = 0; round < 2; round++) {
        size_t count = 0;
        while (count < MOST && (objects[count] = loam_region_alloc(&region, object_bytes)) != NULL)
            count++;
        /* The chunk's head, and what alignment may cost at both ends. */
        size_t lost = 34 * sizeof(void *), rounded = (object_bytes + 15) & ~(size_t)15;
        if (!LOAM_DEBUG && flags == 0 && bytes > lost) CHECK(count >= (bytes - lost) / rounded);
        CHECK(good_objects(count, object_bytes, 16, memory, bytes));
        CHECK(loam_region_check(&region));
        loam_region_reset(&region);
    }
    loam_region_deinit(&region);
    CHECK_EQUAL(buffer.out, 0);
    CHECK(whole_around(memory, bytes));
}

TEST(regions_in_little_memory_at_any_address) {
    for (size_t bytes = 0; bytes <= MOST; bytes += bytes < 80 ? 1 : 13) {
        region_in(bytes * 5 % OFFSETS, bytes, 1, 0, 0);
        region_in(bytes * 7 % OFFSETS, bytes, 24, 0, 0);
        region_in(bytes * 11 % OFFSETS, bytes, 24, 0, LOAM_CHECK);
    }
    for (size_t bytes = 272; bytes < 336; bytes++) { /* the chunk is all of it, with an odd end */
        region_in(0, bytes, 16, bytes, 0);
        region_in(bytes % OFFSETS, bytes, 16, bytes - 15, LOAM_CHECK);
    }
}

TEST(a_region_made_in_little_memory) {
    for (size_t bytes = 0; bytes <= MOST; bytes += bytes < 80 ? 1 : 13) {
        unsigned char *memory = piece(bytes * 5 % OFFSETS);
        loam_buffer buffer;
        loam_buffer_init(&buffer, memory, bytes);
        loam_region *region = loam_region_create(&buffer.source, NULL);
        if (region != NULL) {
            while (loam_region_alloc(region, 8) != NULL) {}
            CHECK(loam_region_check(region));
            loam_region_destroy(region);
        }
        CHECK(region != NULL || bytes < MOST / 2 + 32);
        CHECK_EQUAL(buffer.out, 0);
        CHECK(whole_around(memory, bytes));
    }
}

/* ---- The end of the address space ---- */

TEST(memory_that_passes_the_end_of_the_address_space) {
    char *high = (char *)(UINTPTR_MAX - 4095);
    loam_pool pool;
    CHECK_EQUAL(loam_pool_init_buffer(&pool, high, 8192, 24, NULL), -12);
    CHECK_EQUAL(loam_pool_init_buffer(&pool, high, 4096, 24, NULL), -12);
    loam_blocks blocks;
    loam_blocks_options options = {
        .memory = high, .memory_bytes = 8192, .classes = three, .class_count = 3};
    CHECK_EQUAL(loam_blocks_init(&blocks, &options), -12);
    loam_buffer buffer;
    loam_buffer_init(&buffer, high, 8192);
    size_t got;
    CHECK(loam_source_get(&buffer.source, 16, 16, &got) == NULL);
    /* What a region adds to an address must not pass the end. */
    char *below = (char *)(UINTPTR_MAX - 65535);
    loam_buffer_init(&buffer, below, 65535);
    CHECK(loam_source_get(&buffer.source, 64, 16, &got) == below);
    CHECK((uintptr_t)buffer.end <= UINTPTR_MAX - LOAM_REGION_SUM);
}
