/*
 * locked_memory.c - a program that has locked its memory (mlockall) keeps it, and nobody works for
 * ever on giving it back.
 *
 * Catches: a background thread that meets the system's refusal to take locked pages back, and tries
 * again and again: it never ends, and wakes up some times a second in a program whose author locked
 * memory to be left in peace. Also an allocator that never tries again once the program has
 * unlocked its memory and asks for it (malloc_trim).
 */
#include "works.h"

enum { freed_mib = 20, begin_ms = 400, wait_ms = 20000 };

static char *new_block(void) {
    char *block = malloc(freed_mib * WORKS_MIB);
    if (!block) SKIP("the limit of locked memory leaves no %d MiB", freed_mib);
    works_touch(block, freed_mib * WORKS_MIB);
    return block;
}

int main(void) {
    works_require_loam();
    works_limit(55);
    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) SKIP("mlockall: %s", strerror(errno));
    for (int round = 0; round < 2; round++) {
        free(new_block());
        works_sleep_ms(begin_ms); /* whatever starts in the background has started */
        uint64_t end = works_now_ms() + wait_ms;
        while (works_thread_count() > 1 && works_now_ms() < end) works_sleep_ms(20);
        CHECK(works_thread_count() == 1,
              "%d s after freeing %d MiB of locked memory there are %d threads instead of 1",
              wait_ms / 1000, freed_mib, works_thread_count());
    }
    works_exercise(1, 1000);

    char *block = new_block();
    CHECK(munlockall() == 0, "munlockall: %s", strerror(errno));
    size_t full = works_rss_bytes();
    free(block);
    malloc_trim(0);
    size_t rss = works_rss_bytes();
    CHECK(works_any_allocator() || rss <= full - freed_mib * WORKS_MIB / 100 * 95,
          "munlockall, then malloc_trim: %zu KiB of %zu KiB are still resident", rss / 1024,
          full / 1024);
    return 0;
}
