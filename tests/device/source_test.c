/* source_test.c: the sources that need no operating system: buffer, limit, count. */
#include "harness.h"

#include "loam/source.h"

static _Alignas(64) char memory[1024];

TEST(buffer_chunks_follow_each_other) {
    loam_buffer buffer;
    loam_buffer_init(&buffer, memory + 1, sizeof(memory) - 1);
    size_t got = 0;
    char *first = loam_source_get(&buffer.source, 100, 16, &got);
    CHECK(first == memory + 16);
    CHECK_EQUAL(got, 100);
    char *second = loam_source_get(&buffer.source, 10, 1, &got);
    CHECK(second == memory + 116);
    CHECK(loam_source_get(&buffer.source, 1024, 1, &got) == NULL);
    CHECK_EQUAL(got, 10);
    loam_source_put(&buffer.source, second, 10);
    CHECK(loam_source_get(&buffer.source, 10, 1, &got) == second);
}

TEST(buffer_keeps_every_alignment) {
    for (size_t align = 1; align <= 256; align *= 2) {
        loam_buffer buffer;
        loam_buffer_init(&buffer, memory + 3, sizeof(memory) - 3);
        size_t got = 0;
        for (int i = 0; i < 3; i++) {
            uintptr_t chunk = (uintptr_t)loam_source_get(&buffer.source, 7, align, &got);
            CHECK(chunk != 0);
            CHECK_EQUAL(chunk % align, 0);
        }
    }
}

TEST(buffer_gives_its_last_byte_and_no_more) {
    loam_buffer buffer;
    loam_buffer_init(&buffer, memory, sizeof(memory));
    size_t got = 0;
    char *all = loam_source_get(&buffer.source, sizeof(memory), 64, &got);
    CHECK(all == memory);
    CHECK(loam_source_get(&buffer.source, 1, 1, &got) == NULL);
    loam_source_put(&buffer.source, all, got);
    CHECK(loam_source_get(&buffer.source, 1, 1, &got) == memory);
}

TEST(buffer_refuses_sizes_beyond_the_address_space) {
    loam_buffer buffer;
    loam_buffer_init(&buffer, memory, sizeof(memory));
    size_t got = 0;
    CHECK(loam_source_get(&buffer.source, SIZE_MAX, 1, &got) == NULL);
    CHECK(loam_source_get(&buffer.source, SIZE_MAX - 15, 16, &got) == NULL);
    CHECK(loam_source_get(&buffer.source, (size_t)PTRDIFF_MAX + 1, 64, &got) == NULL);
    CHECK(loam_source_get(&buffer.source, 1, (size_t)1 << (8 * sizeof(size_t) - 1), &got) == NULL);
    CHECK(loam_source_get(&buffer.source, sizeof(memory), 1, &got) == memory);
}

TEST(buffer_is_whole_again_once_all_is_back) {
    loam_buffer buffer;
    loam_buffer_init(&buffer, memory, sizeof(memory));
    size_t got = 0;
    char *first = loam_source_get(&buffer.source, 300, 1, &got);
    char *second = loam_source_get(&buffer.source, 300, 1, &got);
    loam_source_put(&buffer.source, first, 300);
    CHECK(loam_source_get(&buffer.source, 600, 1, &got) == NULL);
    loam_source_put(&buffer.source, second, 300);
    CHECK(loam_source_get(&buffer.source, sizeof(memory), 1, &got) == memory);
}

TEST(limit_is_a_limit) {
    loam_buffer buffer;
    loam_limit limit;
    loam_buffer_init(&buffer, memory, sizeof(memory));
    loam_limit_init(&limit, &buffer.source, 300);
    size_t got = 0;
    char *chunk = loam_source_get(&limit.source, 200, 16, &got);
    CHECK(chunk != NULL);
    CHECK(loam_source_get(&limit.source, 101, 1, &got) == NULL);
    CHECK(loam_source_get(&limit.source, SIZE_MAX, 1, &got) == NULL);
    CHECK_EQUAL(limit.used_bytes, 200);
    loam_source_put(&limit.source, chunk, 200);
    CHECK(loam_source_get(&limit.source, 300, 1, &got) != NULL);
}

TEST(count_counts) {
    loam_buffer buffer;
    loam_count count;
    loam_buffer_init(&buffer, memory, sizeof(memory));
    loam_count_init(&count, &buffer.source);
    size_t got = 0;
    char *chunk = loam_source_get(&count.source, 200, 16, &got);
    CHECK(loam_source_get(&count.source, sizeof(memory), 16, &got) == NULL);
    CHECK(loam_source_get(&count.source, 100, 16, &got) != NULL);
    CHECK_EQUAL(count.used_bytes, 300);
    loam_source_put(&count.source, chunk, 200);
    CHECK_EQUAL(count.used_bytes, 100);
    CHECK_EQUAL(count.peak_bytes, 300);
    CHECK_EQUAL(count.gets, 2);
    CHECK_EQUAL(count.puts, 1);
    CHECK_EQUAL(count.refusals, 1);
}
