/*
 * rlimit_refused.c - under RLIMIT_AS a malloc that fails costs nothing: no address space is used
 * up by asking for too much.
 *
 * Catches: an allocator that extends its heap step by step for a large request, meets the limit,
 * and keeps what it has got; or that takes the refusal for a neighbour in its way, and tries
 * further and further on until its own address range is used up. A program that probes for the
 * largest block it can have would then be left with less at each attempt.
 */
#include "works.h"

#include <sys/resource.h>

enum { room_mib = 200, too_much_mib = 240, fits_mib = 100, attempts = 100, slack_mib = 12 };

static size_t address_space(void) {
    size_t kib = works_proc_number("/proc/self/status", "\nVmSize:");
    CHECK(kib != 0, "cannot read VmSize from /proc/self/status");
    return kib * 1024;
}

static void expect_refusal(size_t bytes) {
    errno = 0;
    void *volatile block = malloc(bytes);
    CHECK(block == NULL && errno == ENOMEM, "malloc(%zu) under the limit: %p, errno %d", bytes,
          block, errno);
}

static void expect_room(const char *when) {
    char *block = malloc(fits_mib * WORKS_MIB);
    CHECK(block != NULL, "%s there is no room for %d MiB of %d MiB", when, fits_mib, room_mib);
    works_fill(block, WORKS_MIB, 1);
    free(block);
}

int main(void) {
    works_require_loam();
    works_limit(60);
    works_exercise(1, 500);
    size_t start = address_space();
    struct rlimit limit = {start + room_mib * WORKS_MIB, start + room_mib * WORKS_MIB};
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0, "setrlimit: %s", strerror(errno));

    for (size_t i = 0; i < attempts; i++)
        expect_refusal((too_much_mib + (i % 7) * (i % 7) * 100) * WORKS_MIB + i);
    size_t end = address_space();
    CHECK(works_any_allocator() || end <= start + slack_mib * WORKS_MIB,
          "%d mallocs that failed used up %zu MiB of address space", attempts,
          (end - start) / WORKS_MIB);
    expect_room("after mallocs that failed");

    /* The same for a block that cannot grow, and keeps its contents. */
    char *block = malloc(20 * WORKS_MIB);
    CHECK(block != NULL, "malloc of 20 MiB");
    works_fill(block, 20 * WORKS_MIB, 2);
    for (int i = 0; i < attempts; i++)
        CHECK(realloc(block, too_much_mib * WORKS_MIB) == NULL && errno == ENOMEM,
              "realloc to %d MiB under the limit, errno %d", too_much_mib, errno);
    CHECK(works_filled(block, 20 * WORKS_MIB, 2), "a realloc that failed changed its block");
    free(block);

    /* And where the largest block is probed for: downwards, until one fits. */
    size_t largest = too_much_mib;
    for (void *got = NULL; largest > 0 && !(got = malloc(largest * WORKS_MIB)); largest -= 4)
        CHECK(errno == ENOMEM, "malloc: %s", strerror(errno));
    CHECK(largest >= fits_mib, "the largest block to be had is %zu MiB of %d MiB", largest,
          room_mib);
    return 0;
}
