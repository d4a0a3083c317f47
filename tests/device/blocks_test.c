/* blocks_test.c: size classes in a static pool: malloc and free in memory that
 * the program sets aside. */
#include "twin.h"

#include "loam/blocks.h"

enum { EACH = 12, CLASSES = 4 };
static const uint32_t classes[CLASSES] = {16, 48, 128, 256};
#define CLASS_SUM (16 + 48 + 128 + 256)
static _Alignas(16) char memory[LOAM_BLOCKS_BYTES(CLASS_SUM, CLASSES, 256, EACH) + 16];
static _Alignas(16) char checked_memory[4 * sizeof(memory) + 16384];
static loam_blocks blocks;

static int begin(unsigned flags, const char *name) {
    bool checked = LOAM_DEBUG || (flags & LOAM_CHECK) != 0;
    loam_blocks_options options = {
        .memory = checked ? checked_memory : memory,
        .memory_bytes = checked ? sizeof(checked_memory) : sizeof(memory),
        .classes = classes,
        .class_count = CLASSES,
        .blocks_each = EACH,
        .flags = flags,
        .name = name,
    };
    return loam_blocks_init(&blocks, &options);
}

TEST(there_is_no_default_source) { CHECK_EQUAL(loam_blocks_init(&blocks, NULL), -22); }

TEST(memory_that_is_too_small) {
    loam_blocks_options options = {.memory = memory,
                                   .memory_bytes = 256,
                                   .classes = classes,
                                   .class_count = CLASSES,
                                   .blocks_each = EACH};
    CHECK_EQUAL(loam_blocks_init(&blocks, &options), -12);
}

TEST(each_class_gives_what_it_was_set_up_with) {
    CHECK_EQUAL(begin(0, NULL), 0);
    for (int c = 0; c < CLASSES; c++) {
        void *taken[EACH];
        for (int i = 0; i < EACH; i++) {
            taken[i] = loam_blocks_alloc(&blocks, classes[c]);
            CHECK(taken[i] != NULL);
            CHECK_EQUAL((uintptr_t)taken[i] % 16, 0);
            CHECK(loam_blocks_usable_size(&blocks, taken[i]) >= classes[c]);
        }
        if (!LOAM_DEBUG) CHECK(loam_blocks_alloc(&blocks, classes[c]) == NULL);
        for (int i = 0; i < EACH; i++) loam_blocks_free(&blocks, taken[i]);
    }
    CHECK(loam_blocks_check(&blocks));
    loam_usage usage;
    loam_blocks_usage(&blocks, &usage);
    CHECK_EQUAL(usage.objects, 0);
    loam_blocks_deinit(&blocks);
}

TEST(sizes_that_no_class_has) {
    CHECK_EQUAL(begin(0, NULL), 0);
    volatile size_t most = SIZE_MAX;
    CHECK(loam_blocks_alloc(&blocks, 257) == NULL);
    CHECK(loam_blocks_alloc(&blocks, most) == NULL);
    CHECK(loam_blocks_alloc(&blocks, most - 14) == NULL);
    CHECK(loam_blocks_alloc(&blocks, most / 2) == NULL);
    CHECK(loam_blocks_calloc(&blocks, most / 2 + 2, 2) == NULL);
    void *p = loam_blocks_alloc(&blocks, 0);
    CHECK(p != NULL);
    loam_blocks_free(&blocks, p);
    loam_blocks_free(&blocks, NULL);
    loam_blocks_deinit(&blocks);
}

TEST(realloc_keeps_what_is_there) {
    CHECK_EQUAL(begin(0, NULL), 0);
    char *p = loam_blocks_realloc(&blocks, NULL, 10);
    for (int i = 0; i < 10; i++) p[i] = (char)i;
    p = loam_blocks_realloc(&blocks, p, 100);
    CHECK(p != NULL);
    for (int i = 0; i < 10; i++) CHECK_EQUAL(p[i], i);
    CHECK(loam_blocks_realloc(&blocks, p, 1000) == NULL);
    CHECK_EQUAL(p[9], 9);
    CHECK(loam_blocks_realloc(&blocks, p, 0) == NULL);
    char *zero = loam_blocks_calloc(&blocks, 4, 10);
    for (int i = 0; i < 40; i++) CHECK_EQUAL(zero[i], 0);
    loam_blocks_free(&blocks, zero);
    loam_blocks_deinit(&blocks);
}

/* Static pools keep their capacity when they are checked: no guards, so that overflows pass
 * unseen. */
TEST(mistakes_are_found) {
    CHECK_EQUAL(begin(LOAM_CHECK, "messages"), 0);
    char *p = loam_blocks_alloc(&blocks, 40);
    loam_blocks_free(&blocks, p);
    CHECK_ABORTS(loam_blocks_free(&blocks, p), "loam: blocks messages: free of ");
    p = loam_blocks_alloc(&blocks, 40);
    CHECK_ABORTS(loam_blocks_free(&blocks, p + 16), "loam: blocks messages: free of ");
    CHECK_ABORTS(loam_blocks_free(&blocks, memory + 16), "loam: blocks messages: free of ");
    CHECK(loam_blocks_check(&blocks));
    loam_blocks_free(&blocks, p);
    loam_blocks_deinit(&blocks);
}

static unsigned lock_depth, lock_times;
static void lock_get(void *context) {
    CHECK(context == &lock_depth);
    CHECK_EQUAL(lock_depth++, 0);
    lock_times++;
}
static void lock_release(void *context) {
    (void)context;
    CHECK_EQUAL(--lock_depth, 0);
}

TEST(locks_of_the_device_are_used) {
    loam_blocks_locks locks = {.get = lock_get, .release = lock_release, .context = &lock_depth};
    loam_blocks_options options = {.memory = checked_memory,
                                   .memory_bytes = sizeof(checked_memory),
                                   .classes = classes,
                                   .class_count = CLASSES,
                                   .blocks_each = EACH,
                                   .flags = LOAM_THREADS,
                                   .locks = &locks};
    CHECK_EQUAL(loam_blocks_init(&blocks, &options), 0);
    lock_times = 0;
    void *p = loam_blocks_alloc(&blocks, 10);
    CHECK(p != NULL);
    loam_blocks_free(&blocks, p);
    CHECK(lock_times >= 2);
    CHECK_EQUAL(lock_depth, 0);
    loam_blocks_deinit(&blocks);
}

static void *alloc(void *subject, size_t bytes, size_t align) {
    (void)align;
    return loam_blocks_alloc((loam_blocks *)subject, bytes);
}
static void release(void *subject, void *p, size_t bytes, size_t align) {
    (void)bytes, (void)align;
    loam_blocks_free((loam_blocks *)subject, p);
}
static bool check(void *subject) { return loam_blocks_check(subject); }
static const struct twin_subject kind = {alloc, release, check, 0, 300, 16};

static void run_random(unsigned flags) {
    for (uint32_t seed = 1; seed <= 3; seed++) {
        CHECK_EQUAL(begin(flags, NULL), 0);
        struct twin_result result = twin_run(&kind, &blocks, seed, 2000);
        CHECK(result.served > 200);
        CHECK(result.refused > 10);
        loam_usage usage;
        loam_blocks_usage(&blocks, &usage);
        CHECK_EQUAL(usage.objects, 0);
        loam_blocks_deinit(&blocks);
    }
}

TEST(random_programs) { run_random(0); }
TEST(random_programs_checked) { run_random(LOAM_CHECK); }
