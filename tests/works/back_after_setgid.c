/*
 * back_after_setgid.c - memory freed before a change of credentials goes back after it, although
 * the program calls no malloc and no free any more.
 *
 * Catches: an allocator that ends its background thread so that setgid and the like change the
 * credentials of all threads, and forgets that the thread still had work to do: a server frees what
 * it needed to start, drops its rights, waits for requests, and keeps the memory until one comes.
 *
 * The program polls, and allocates nothing while it does.
 */
#include "works.h"

enum { freed_mib = 200 };

/* Frees freed_mib MiB, waits, lets `change` happen, and waits until the memory is gone. */
static void expect_back(uint64_t pause_ms, int (*change)(void), const char *name) {
    char *block = malloc(freed_mib * WORKS_MIB);
    CHECK(block != NULL, "malloc");
    works_touch(block, freed_mib * WORKS_MIB);
    size_t full = works_rss_bytes();
    free(block);
    works_sleep_ms(pause_ms);
    CHECK(change() == 0, "%s: %s", name, strerror(errno));
    size_t allowed = full - freed_mib * WORKS_MIB / 100 * 95,
           rss = works_settled(works_rss_bytes, allowed);
    CHECK(rss <= allowed, "%s %u ms after freeing %d MiB: %zu MiB of %zu MiB are still resident",
          name, (unsigned)pause_ms, freed_mib, rss / WORKS_MIB, full / WORKS_MIB);
}

/* To what they are: anybody may. */
static int set_group(void) { return setgid(getgid()); }
static int set_user(void) { return setuid(getuid()); }
static int set_both(void) { return setegid(getegid()) ? -1 : seteuid(geteuid()); }

int main(void) {
    works_require_loam();
    if (works_any_allocator()) SKIP("a promise of loam's: others may give memory back otherwise");
    works_limit(55);
    expect_back(0, set_group, "setgid");
    expect_back(20, set_user, "setuid");
    expect_back(200, set_both, "setegid and seteuid");
    return 0;
}
