/* region_test.c: regions over a buffer of static memory. */
#include "twin.h"

#include "loam/region.h"

enum { BYTES = 16384 };
static _Alignas(64) char memory[BYTES];
static loam_buffer buffer;
static loam_region region;

static void begin(unsigned flags, const char *name) {
    loam_region_options options = {.first_bytes = 1024, .flags = flags, .name = name};
    loam_buffer_init(&buffer, memory, BYTES);
    CHECK_EQUAL(loam_region_init(&region, &buffer.source, &options), 0);
}

/* Ends the region; the buffer must be whole again. */
static void end(void) {
    loam_region_deinit(&region);
    CHECK_EQUAL(buffer.out, 0);
    CHECK(buffer.at == buffer.start);
}

TEST(there_is_no_default_source) {
    CHECK_EQUAL(loam_region_init(&region, NULL, NULL), -22);
    CHECK(loam_region_create(NULL, NULL) == NULL);
}

TEST(objects_are_aligned) {
    begin(0, NULL);
    for (size_t align = 1; align <= 256; align *= 2) {
        char *p = loam_region_alloc_aligned(&region, 5, align);
        CHECK(p != NULL);
        CHECK_EQUAL((uintptr_t)p % align, 0);
        for (int i = 0; i < 5; i++) p[i] = 1;
    }
    uint64_t *wide = LOAM_REGION_NEW(&region, uint64_t);
    CHECK_EQUAL((uintptr_t)wide % 8, 0);
    CHECK_EQUAL((uintptr_t)loam_region_alloc(&region, 24) % 16, 0);
    CHECK_EQUAL((uintptr_t)loam_region_alloc(&region, 64) % 16, 0);
    end();
}

TEST(exhausted_gives_null_and_goes_on_after_a_reset) {
    begin(0, NULL);
    for (int round = 0; round < 3; round++) {
        size_t sum = 0;
        char *p;
        while ((p = loam_region_alloc(&region, 100)) != NULL) {
            CHECK(p >= memory && p + 100 <= memory + BYTES);
            p[0] = p[99] = 1;
            sum += 100;
        }
        CHECK(sum > BYTES / (LOAM_DEBUG ? 8 : 2));
        CHECK(loam_region_alloc(&region, 100) == NULL);
        CHECK(loam_region_check(&region));
        loam_region_reset(&region);
    }
    end();
}

TEST(sizes_beyond_the_address_space) {
    begin(0, NULL);
    volatile size_t most = SIZE_MAX;
    CHECK(loam_region_alloc(&region, most) == NULL);
    CHECK(loam_region_alloc(&region, most - 15) == NULL);
    CHECK(loam_region_alloc(&region, most / 2 + 1) == NULL);
    CHECK(loam_region_calloc(&region, most / 2 + 2, (size_t)2) == NULL);
    CHECK(loam_region_alloc_aligned(&region, 1, most / 2 + 1) == NULL);
    CHECK(loam_region_alloc(&region, 1) != NULL);
    end();
}

TEST(the_last_object_goes_back_and_grows_in_place) {
    begin(0, NULL);
    if (!LOAM_DEBUG) {
        char *first = loam_region_alloc(&region, 32);
        char *second = loam_region_alloc(&region, 32);
        loam_region_free(&region, second, 32);
        CHECK(loam_region_alloc(&region, 32) == second);
        CHECK(loam_region_realloc(&region, second, 32, 64) == second);
        CHECK(loam_region_realloc(&region, first, 32, 128) != first);
    }
    end();
}

TEST(mark_and_rewind) {
    begin(0, NULL);
    char *kept = loam_region_alloc(&region, 16);
    kept[0] = 7;
    loam_region_mark mark = loam_region_mark_here(&region);
    while (loam_region_alloc(&region, 200) != NULL) {}
    loam_region_rewind(&region, &mark);
    CHECK(loam_region_alloc(&region, 200) != NULL);
    CHECK_EQUAL(kept[0], 7);
    CHECK(loam_region_check(&region));
    end();
}

static int cleaned;
static void clean(void *argument) { cleaned += *(int *)argument; }

TEST(cleanups_run) {
    static int one = 1, two = 2;
    begin(0, NULL);
    cleaned = 0;
    CHECK(loam_region_add_cleanup(&region, clean, &one) != NULL);
    loam_region_mark mark = loam_region_mark_here(&region);
    CHECK(loam_region_add_cleanup(&region, clean, &two) != NULL);
    loam_region_rewind(&region, &mark);
    CHECK_EQUAL(cleaned, 2);
    end();
    CHECK_EQUAL(cleaned, 3);
}

TEST(mistakes_are_found) {
    begin(LOAM_CHECK, "frame");
    char *object = loam_region_alloc(&region, 40);
    loam_region_free(&region, object, 40);
    CHECK_ABORTS(loam_region_free(&region, object, 40), "loam: region frame: free of ");
    object = loam_region_alloc(&region, 40);
    object[40] = 1;
    CHECK_ABORTS((void)loam_region_check(&region), "overflow of ");
    object[40] = (char)0xE7;
    CHECK_ABORTS(loam_region_free(&region, object, 48), "loam: region frame: ");
    CHECK_ABORTS(loam_region_free(&region, memory + 8, 16), "loam: region frame: ");
    end();
}

static void *alloc(void *subject, size_t bytes, size_t align) {
    return loam_region_alloc_aligned((loam_region *)subject, bytes, align);
}
static void release(void *subject, void *p, size_t bytes, size_t align) {
    loam_region_free_aligned((loam_region *)subject, p, bytes, align);
}
static bool check(void *subject) { return loam_region_check(subject); }
static const struct twin_subject kind = {alloc, release, check, 1, 300, 64};

static void run_random(unsigned flags) {
    for (uint32_t seed = 1; seed <= 3; seed++) {
        begin(flags, NULL);
        struct twin_result all = {0, 0};
        for (int round = 0; round < 4; round++) {
            struct twin_result result = twin_run(&kind, &region, seed * 100 + (uint32_t)round, 500);
            all.served += result.served;
            all.refused += result.refused;
            loam_region_reset(&region);
        }
        CHECK(all.served > 200);
        end();
    }
}

TEST(random_programs) { run_random(0); }
TEST(random_programs_checked) { run_random(LOAM_CHECK); }
