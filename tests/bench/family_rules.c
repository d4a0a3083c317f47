// family_rules.c: that the renditions of the seeds 000 and 003 keep their seeds' rules: what a
// "before" column stands for. family_test.py compiles and runs it, with sanitizers where the
// compiler has them.

#include "kenwright_rules.h"
#include "nginx_rules.h"
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

// ---- nginx's pool -------------------------------------------------------------------------------

static int ngx_looks_at_old_blocks(void) {
    NgxPool *pool = ngx_create(4096), *no_scan = ngx_create(4096);
    CHECK(pool && no_scan && pool->most == 4096 - 80); // as large as nginx's record
    char *one = ngx_alloc(pool, 24, true), *two = ngx_alloc(pool, 9, true);
    CHECK(one == (char *)pool + 80 && two == one + 24);
    CHECK((char *)ngx_alloc(pool, 8, true) == two + 16); // its address is a multiple of 8, no more
    ngx_alloc(no_scan, 24, false);
    CHECK(ngx_alloc(pool, 4000, true) && ngx_alloc(no_scan, 4000, false)); // a second block
    NgxBlock *second = pool->first.next;
    CHECK(second && pool->current == &pool->first && pool->first.failed == 0);
    CHECK((char *)ngx_alloc(pool, 24, true) == two + 24); // the first has room for it still
    CHECK(no_scan->current == no_scan->first.next && no_scan->first.last == (char *)no_scan + 104);
    CHECK(ngx_alloc(no_scan, 64, false) == (char *)no_scan->current + 32 + 4000);
    ngx_destroy(pool);
    ngx_destroy(no_scan);
    return 0;
}

static int ngx_passes_blocks_that_failed_six_times(void) {
    NgxPool *pool = ngx_create(4096);
    for (unsigned i = 0; i < 20; i++) {
        CHECK(ngx_alloc(pool, 4000, true)); // a block each
        unsigned scanned = 0;
        for (NgxBlock *block = pool->current; block; block = block->next) {
            scanned++;
        }
        CHECK(scanned == (i < 6 ? i + 1 : 7)); // the last one has not failed yet
        CHECK(pool->first.failed == (i == 0 ? 0 : i < 7 ? i - 1 : 6));
    }
    ngx_destroy(pool);
    return 0;
}

static int ngx_frees_large_objects(void) {
    NgxPool *pool = ngx_create(4096);
    char *small = ngx_alloc(pool, 4016, true), *large[9];
    CHECK(small == (char *)pool + 80 && !ngx_free(pool, small));
    for (unsigned i = 0; i < 9; i++) {
        large[i] = ngx_alloc(pool, 4017, true);
        CHECK(large[i]);
        memset(large[i], (int)i, 4017);
    }
    NgxLarge *newest = pool->large;
    CHECK(newest->object == large[8]);
    CHECK(ngx_free(pool, large[4]) && !ngx_free(pool, large[4]) && ngx_free(pool, large[3]));
    void *again = ngx_alloc(pool, 5000, true); // the fifth entry is used again, the sixth is not
    CHECK(pool->large == newest && newest->next->next->next->next->object == again);
    CHECK(ngx_alloc(pool, 5000, true) && pool->large != newest && pool->large->next == newest);
    ngx_destroy(pool); // with all that is left of them
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
           tfw_moves_the_end_at_realloc() || tfw_caches_256_pages() || ngx_looks_at_old_blocks() ||
           ngx_passes_blocks_that_failed_six_times() || ngx_frees_large_objects() ||
           kenwright_gives_blocks_in_order() || kenwright_changes_size_by_members() ||
           kenwright_checks_find_misuse();
}
