// family_rules.c: that the renditions of the seeds 000 and 003 keep their seeds' rules: what a
// "before" column stands for. family_test.py compiles and runs it, with sanitizers where the
// compiler has them.

#include "kenwright_rules.h"
#include "tfw_rules.h"

#include <stdio.h>

#define CHECK(what) \
    do { \
        if (!(what)) { \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what); \
            return 1; \
        } \
    } while (0)

// ---- TfwPool ------------------------------------------------------------------------------------

static int tfw_frees_like_a_stack(void) {
    TfwRegion *region = tfw_create();
    CHECK(region && ((uintptr_t)region & ~(uintptr_t)4095) == (uintptr_t)region->current);
    char *one = tfw_alloc(region, 20), *two = tfw_alloc(region, 24);
    CHECK(two == one + 24); // 20 is rounded to 24
    tfw_free(region, one, 20);
    CHECK((char *)tfw_alloc(region, 8) == two + 24); // not the last: nothing came back
    tfw_free(region, two + 24, 8);
    tfw_free(region, two, 24);
    CHECK(tfw_alloc(region, 24) == two); // the last: it did
    tfw_destroy(region);
    return 0;
}

static int tfw_gives_an_empty_page_back(void) {
    TfwRegion *region = tfw_create();
    TfwRun *first = region->current;
    size_t end = region->end;
    char *large = tfw_alloc(region, 4056); // does not fit beside the region itself
    CHECK(large && region->current != first && region->order == 0);
    unsigned cached = tfw_cache.count;
    tfw_free(region, large, 4056);
    CHECK(region->current == first && region->end == end && tfw_cache.count == cached + 1);
    char *huge = tfw_alloc(region, 8305); // three pages: a run of four
    CHECK(huge && region->order == 2);
    memset(huge, 1, 8305);
    tfw_free(region, huge, 8305);
    CHECK(region->current == first && region->end == end && tfw_cache.count == cached + 1);
    tfw_destroy(region);
    return 0;
}

static int tfw_moves_the_end_at_realloc(void) {
    TfwRegion *region = tfw_create();
    char *text = tfw_alloc(region, 16);
    memcpy(text, "fifteen letters", 16);
    CHECK(tfw_realloc(region, text, 16, 1000) == text);
    char *behind = tfw_alloc(region, 8);
    CHECK(behind == text + 1000);
    char *copy = tfw_realloc(region, text, 1000, 1008);
    CHECK(copy != text && !strcmp(copy, "fifteen letters"));
    CHECK(tfw_realloc(region, copy, 1008, 4000) != copy); // last, but there is no room
    tfw_destroy(region);
    return 0;
}

static int tfw_caches_256_pages(void) {
    TfwRegion *region = tfw_create();
    for (int i = 0; i < 400; i++) {
        CHECK(tfw_alloc(region, 4056));
    }
    tfw_destroy(region);
    CHECK(tfw_cache.count == TFW_CACHED);
    region = tfw_create();
    CHECK(tfw_cache.count == TFW_CACHED - 1 && region->current == tfw_cache.pages[TFW_CACHED - 1]);
    tfw_destroy(region);
    while (tfw_cache.count) {
        free(tfw_cache.pages[--tfw_cache.count]);
    }
    return 0;
}

// ---- Kenwright's pool ---------------------------------------------------------------------------

static int kenwright_gives_blocks_in_order(void) {
    KwPool pool;
    CHECK(kw_create(&pool, 24, 4) && pool.prepared == 0);
    unsigned char *blocks[4];
    for (unsigned i = 0; i < 4; i++) {
        blocks[i] = kw_alloc(&pool);
        CHECK(blocks[i] == pool.start + i * 24 && pool.prepared == i + 1); // one more each time
    }
    CHECK(!kw_alloc(&pool) && !kw_alloc(&pool)); // exhausted
    kw_free(&pool, blocks[1]);
    kw_free(&pool, blocks[3]);
    CHECK(kw_alloc(&pool) == blocks[3] && kw_alloc(&pool) == blocks[1] && !kw_alloc(&pool));
    kw_destroy(&pool);
    CHECK(!kw_create(&pool, 2, 4));                  // no room for a link
    CHECK(!kw_create(&pool, 4096, (size_t)1 << 20)); // 2^32 bytes: beyond its numbers
    return 0;
}

static int kenwright_changes_size_by_members(void) {
    KwPool pool;
    CHECK(kw_create(&pool, 16, 8));
    KwPool small = pool;
    small.blocks = small.free_blocks = 2; // as if only a quarter had been taken at first
    void *one = kw_alloc(&small), *two = kw_alloc(&small);
    CHECK(one && two && !kw_alloc(&small));
    kw_extend(&small, 8);
    CHECK(kw_alloc(&small) == pool.start + 32 && kw_alloc(&small) == pool.start + 48);
    kw_free(&small, two);
    kw_shrink(&small);
    CHECK(small.blocks == 4 && kw_alloc(&small) == two && !kw_alloc(&small));
    kw_destroy(&pool);
    return 0;
}

static int kenwright_checks_find_misuse(void) {
    KwPool pool;
    uint32_t leaks;
    CHECK(kw_checked_create(&pool, 32, 4));
    memset(pool.start, 0, pool.block_size * 4);
    unsigned char *one = kw_checked_alloc(&pool, 11), *two = kw_checked_alloc(&pool, 12), other[64];
    CHECK(kw_checked_free(&pool, other + 32) == KW_OUT_OF_RANGE);
    CHECK(kw_checked_free(&pool, one + 8) == KW_NO_BLOCK);
    CHECK(kw_checked_all(&pool, &leaks) == 0 && leaks == 2);
    one[32] ^= 1;
    CHECK(kw_checked_all(&pool, &leaks) == 1 && kw_checked_free(&pool, one) == KW_OVERRUN);
    one[32] ^= 1;
    CHECK(kw_checked_free(&pool, one) == KW_GOOD && kw_checked_free(&pool, one) == KW_NOT_IN_USE);
    CHECK(kw_checked_all(&pool, &leaks) == 0 && leaks == 1);
    CHECK(kw_checked_free(&pool, two) == KW_GOOD);
    kw_destroy(&pool);
    return 0;
}

int main(void) {
    return tfw_frees_like_a_stack() || tfw_gives_an_empty_page_back() ||
           tfw_moves_the_end_at_realloc() || tfw_caches_256_pages() ||
           kenwright_gives_blocks_in_order() || kenwright_changes_size_by_members() ||
           kenwright_checks_find_misuse();
}
