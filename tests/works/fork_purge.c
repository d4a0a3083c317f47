/*
 * fork_purge.c - memory that a child inherited and frees goes back to the system, although the
 * thread that gives memory back in the parent did not come along.
 *
 * Catches: a child that believes its parent's background thread is still running and so never
 * gives anything back. The forks come at different moments after a free, so that some fall before,
 * some into and some after that thread's life. Allowance: 5% of the freed 96 MiB, as the child's
 * own start is not to be told from what it inherited.
 */
#include "works.h"

#include <loam/heap.h>

enum { blocks = 96 * 16, block_bytes = 64 * 1024, moments = 7 };

static char *block[blocks];

static void child(int moment) {
    works_limit(20);
    for (int i = 0; i < blocks; i++)
        works_touch(block[i], block_bytes); /* the child's own copies */
    size_t before = works_rss_bytes();
    for (int i = 0; i < blocks; i++) {
        free(block[i]);
        block[i] = NULL;
    }
    size_t allowed = before - (size_t)blocks * block_bytes / 100 * 95,
           after = works_settled(works_rss_bytes, allowed);
    CHECK(works_any_allocator() || after <= allowed,
          "fork %d ms after a free: the child freed 96 MiB and still holds %zu KiB of %zu KiB",
          moment * 80, after / 1024, before / 1024);
    works_exercise((uint64_t)moment + 1, 1000);
    _exit(0);
}

static pid_t forked = -1;
static bool fork_once(const loam_heap_area *area, void *context) {
    (void)area, (void)context;
    if (forked < 0) forked = fork();
    return false;
}

static void in_a_walk(void) {
    loam_heap *heap = loam_heap_create();
    CHECK(heap != NULL && loam_heap_malloc(heap, 10) != NULL, "no heap");
    loam_heap_visit(heap, fork_once, NULL, NULL);
    CHECK(forked >= 0, "fork: %s", strerror(errno));
    if (forked > 0) {
        works_expect_ok(works_wait(forked), "a child forked in a walk");
        loam_heap_destroy(heap);
        return;
    }
    for (int round = 0; round < 2; round++) {
        char *large = malloc(64 * WORKS_MIB);
        CHECK(large != NULL, "malloc");
        works_touch(large, 64 * WORKS_MIB);
        size_t before = works_rss_bytes(), allowed = before - 60 * WORKS_MIB;
        free(large);
        CHECK(works_settled(works_rss_bytes, allowed) <= allowed, "64 MiB freed, and held still");
        loam_heap_visit(heap, fork_once, NULL, NULL);
    }
    _exit(0);
}

int main(void) {
    works_require_loam();
    works_limit(60);
    for (int i = 0; i < blocks; i++) {
        block[i] = malloc(block_bytes);
        CHECK(block[i] != NULL, "malloc");
        works_touch(block[i], block_bytes);
    }
    char *gone[512];
    for (int i = 0; i < 512; i++) {
        gone[i] = malloc(block_bytes);
        CHECK(gone[i] != NULL, "malloc");
        works_touch(gone[i], block_bytes);
    }
    for (int i = 0; i < 512; i++) free(gone[i]);
    pid_t pids[moments];
    for (int moment = 0; moment < moments; moment++) {
        pids[moment] = fork();
        CHECK(pids[moment] >= 0, "fork: %s", strerror(errno));
        if (pids[moment] == 0) child(moment);
        works_sleep_ms(80);
    }
    for (int moment = 0; moment < moments; moment++)
        works_expect_ok(works_wait(pids[moment]), "a forked child");
    if (!works_any_allocator()) in_a_walk();
    return 0;
}
