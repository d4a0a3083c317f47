/* pool_test.c: pools over static memory. */
#include "twin.h"

#include "loam/pool.h"

enum { BYTES = 8192, BLOCK = 24 };
static _Alignas(64) char memory[BYTES];
static void *blocks[BYTES / 8];

/* Allocates until there is none left; checks each block. */
static size_t take_all(loam_pool *pool, size_t block_bytes, size_t align) {
    size_t count = 0;
    void *block;
    while ((block = loam_pool_alloc(pool)) != NULL) {
        CHECK((char *)block >= memory && (char *)block + block_bytes <= memory + BYTES);
        CHECK_EQUAL((uintptr_t)block % align, 0);
        CHECK(count < BYTES / 8);
        blocks[count++] = block;
    }
    return count;
}

TEST(static_memory_is_used_to_the_last_block) {
    loam_pool pool;
    loam_pool_options options = {.align = 8};
    CHECK_EQUAL(loam_pool_init_buffer(&pool, memory, BYTES, BLOCK, &options), 0);
    size_t count = take_all(&pool, BLOCK, 8);
    CHECK(count > 0);
    if (!LOAM_DEBUG) CHECK_EQUAL(count, BYTES / BLOCK);
    for (size_t i = 0; i < count; i++) CHECK(loam_pool_owns(&pool, blocks[i]));
    CHECK(!loam_pool_owns(&pool, memory + BYTES));
    CHECK(loam_pool_alloc(&pool) == NULL);
    loam_pool_free(&pool, blocks[count / 2]);
    CHECK(loam_pool_alloc(&pool) == blocks[count / 2]);
    loam_usage usage;
    loam_pool_usage(&pool, &usage);
    CHECK_EQUAL(usage.objects, count);
    for (size_t i = 0; i < count; i++) loam_pool_free(&pool, blocks[i]);
    CHECK(loam_pool_check(&pool));
    CHECK_EQUAL(take_all(&pool, BLOCK, 8), count);
    loam_pool_deinit(&pool);
}

TEST(blocks_keep_every_alignment) {
    for (size_t align = 4; align <= 64; align *= 2) {
        loam_pool pool;
        loam_pool_options options = {.align = align};
        CHECK_EQUAL(loam_pool_init_buffer(&pool, memory + 1, BYTES - 1, 40, &options), 0);
        CHECK(take_all(&pool, 40, align) >= 8);
        loam_pool_deinit(&pool);
    }
}

TEST(memory_that_holds_no_block_is_refused) {
    loam_pool pool;
    CHECK_EQUAL(loam_pool_init_buffer(&pool, memory, 16, BLOCK, NULL), -12);
    CHECK_EQUAL(loam_pool_init_buffer(&pool, memory, BYTES, (size_t)PTRDIFF_MAX, NULL), -22);
    CHECK_EQUAL(loam_pool_init_buffer(&pool, memory, BYTES, SIZE_MAX, NULL), -22);
    CHECK_EQUAL(loam_pool_init_buffer(&pool, memory, BYTES, 0, NULL), -22);
    CHECK_EQUAL(loam_pool_init(&pool, NULL, BLOCK, NULL), -22); /* no default source here */
}

TEST(grows_over_a_buffer_and_then_gives_null) {
    loam_buffer buffer;
    loam_buffer_init(&buffer, memory, BYTES);
    loam_pool pool;
    loam_pool_options options = {.first_blocks = 4, .name = "growing"};
    CHECK_EQUAL(loam_pool_init(&pool, &buffer.source, BLOCK, &options), 0);
    size_t count = take_all(&pool, BLOCK, 8);
    CHECK(count * BLOCK > BYTES / (LOAM_DEBUG ? 16 : 4));
    CHECK(loam_pool_alloc(&pool) == NULL);
    loam_usage usage;
    loam_pool_usage(&pool, &usage);
    CHECK(usage.chunks > 1);
    loam_pool_deinit(&pool);
    size_t got = 0;
    CHECK(loam_source_get(&buffer.source, BYTES, 1, &got) == memory); /* all came back */
}

TEST(double_free_is_found) {
    loam_pool pool;
    loam_pool_options options = {.flags = LOAM_CHECK, .name = "packets"};
    CHECK_EQUAL(loam_pool_init_buffer(&pool, memory, BYTES, BLOCK, &options), 0);
    void *block = loam_pool_alloc(&pool);
    loam_pool_free(&pool, block);
    CHECK_ABORTS(loam_pool_free(&pool, block), "loam: pool packets: free of ");
    loam_pool_deinit(&pool);
}

TEST(foreign_pointers_and_overflows_are_found) {
    static _Alignas(16) char foreign[256];
    loam_pool pool;
    loam_pool_options options = {.flags = LOAM_CHECK, .name = "packets"};
    CHECK_EQUAL(loam_pool_init_buffer(&pool, memory, BYTES, BLOCK, &options), 0);
    CHECK_ABORTS(loam_pool_free(&pool, foreign + 128), "loam: pool packets: free of ");
    char *block = loam_pool_alloc(&pool);
    block[BLOCK] = 1;
    CHECK_ABORTS((void)loam_pool_check(&pool), "overflow of ");
    CHECK_ABORTS(loam_pool_free(&pool, block), "overflow of ");
    CHECK_EQUAL(loam_registry_leaks(), 1);
    CHECK_ABORTS(loam_pool_reset(&pool), "overflow of "); /* it would be seen by nobody later */
    block[BLOCK] = (char)0xE7;
    loam_pool_reset(&pool);
    CHECK_EQUAL(loam_registry_leaks(), 0);
    loam_pool_deinit(&pool);
}

TEST(handles_of_freed_blocks_are_none) {
    loam_pool pool;
    loam_pool_options options = {.flags = LOAM_POOL_HANDLES};
    CHECK_EQUAL(loam_pool_init_buffer(&pool, memory, BYTES, BLOCK, &options), 0);
    loam_handle first = loam_pool_alloc_handle(&pool);
    CHECK(first != 0);
    void *block = loam_pool_get(&pool, first);
    CHECK(block != NULL);
    CHECK(loam_pool_free_handle(&pool, first));
    CHECK(loam_pool_get(&pool, first) == NULL);
    loam_handle second = loam_pool_alloc_handle(&pool);
    CHECK(second != first);
    CHECK(loam_pool_get(&pool, first) == NULL);
    CHECK(!loam_pool_free_handle(&pool, first));
    CHECK(loam_pool_get(&pool, second) != NULL);
    loam_pool_deinit(&pool);
}

static void *alloc(void *pool, size_t bytes, size_t align) {
    (void)bytes, (void)align;
    return loam_pool_alloc((loam_pool *)pool);
}
static void release(void *pool, void *p, size_t bytes, size_t align) {
    (void)bytes, (void)align;
    loam_pool_free((loam_pool *)pool, p);
}
static bool check(void *pool) { return loam_pool_check(pool); }
static const struct twin_subject kind = {alloc, release, check, BLOCK, BLOCK, 8};

static void run_random(unsigned flags) {
    for (uint32_t seed = 1; seed <= 3; seed++) {
        loam_pool pool;
        loam_pool_options options = {.flags = flags, .most_blocks = 20};
        CHECK_EQUAL(loam_pool_init_buffer(&pool, memory, BYTES, BLOCK, &options), 0);
        struct twin_result result = twin_run(&kind, &pool, seed, 2000);
        CHECK(result.served > 100);
        CHECK(result.refused > 10);
        loam_usage usage;
        loam_pool_usage(&pool, &usage);
        CHECK_EQUAL(usage.objects, 0);
        loam_pool_deinit(&pool);
    }
}

TEST(random_programs) { run_random(0); }
TEST(random_programs_checked) { run_random(LOAM_CHECK); }
TEST(random_programs_hardened) { run_random(LOAM_HARDEN); }
