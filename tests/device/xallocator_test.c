/* xallocator_test.c: xmalloc in static pools, in C and without an operating system: started and
 * ended by hand, as a port does it.
 */
#define STATIC_POOLS
#define MAX_BLOCKS 6
#define MAX_ALLOCATORS 5
#include "loam/xallocator.h"

#include "harness.h"

static const size_t sizes[MAX_ALLOCATORS] = {16, 32, 64, 128, 256};

TEST(each_class_has_its_blocks) {
    xalloc_init();
    for (int round = 0; round < 2; round++) {
        for (int c = 0; c < MAX_ALLOCATORS; c++) {
            unsigned char *taken[MAX_BLOCKS];
            for (int i = 0; i < MAX_BLOCKS; i++) {
                taken[i] = (unsigned char *)xmalloc(sizes[c]);
                CHECK(taken[i] != NULL);
                CHECK_EQUAL((uintptr_t)taken[i] % 16, 0);
                taken[i][sizes[c] - 1] = (unsigned char)i;
            }
            CHECK(xmalloc(sizes[c]) == NULL);
            for (int i = 0; i < MAX_BLOCKS; i++) {
                CHECK_EQUAL(taken[i][sizes[c] - 1], i);
                xfree(taken[i]);
            }
        }
        CHECK(xmalloc(257) == NULL);
    }
    xfree(NULL);
    xalloc_destroy();
}

TEST(realloc_allocates_keeps_and_frees) {
    char *p = (char *)xrealloc(NULL, 10); /* starts it */
    CHECK(p != NULL);
    p[9] = 'k';
    p = (char *)xrealloc(p, 200);
    CHECK(p != NULL && p[9] == 'k');
    CHECK(xrealloc(p, 300) == NULL);
    CHECK_EQUAL(p[9], 'k');
    CHECK(xrealloc(p, 0) == NULL);
    loam_usage usage;
    loam_blocks_usage(loam_xalloc_blocks(), &usage);
    CHECK_EQUAL(usage.objects, 0);
    xalloc_destroy();
}

TEST(statistics_have_a_line_for_each_class) {
    void *p = xmalloc(100);
    device_forget();
    xalloc_stats();
    CHECK_EQUAL(
        device_said_times("xallocator Block Size: 128 Block Count: 6 Blocks In Use: 1\n") +
            device_said_times("xallocator Block Size: 128 Block Count: 1 Blocks In Use: 1\n"),
        1);
    xfree(p);
    xalloc_destroy();
    xfree(p); /* nothing happens */
}
