/*
 * no_thread.c - where the system gives no thread (RLIMIT_NPROC, a control group's limit), freed
 * memory goes back all the same; once threads can be had, it goes back in the background again.
 *
 *   no_thread one      one large object, freed, and nothing after it
 *   no_thread small    many small objects
 *   no_thread shrink   realloc of a large object to a small one
 *   no_thread again    no thread at first; then the limit ends, and a MiB at a time is freed
 *
 * RLIMIT_NPROC does not hold for root, so root becomes nobody first.
 *
 * Catches: an allocator that learns at its last free that nobody will purge for it, and one that
 * never asks for a thread again after a refusal.
 */
#include "works.h"

#include <sys/resource.h>

enum { big_mib = 200, smalls = 200000, small_bytes = 1000, settle_mib = 16 };

static struct rlimit limit; /* before */

static void refuse_threads(void) {
    CHECK(getrlimit(RLIMIT_NPROC, &limit) == 0, "getrlimit: %s", strerror(errno));
    const uid_t nobody = 65534;
    if (geteuid() == 0 && (setgid(nobody) != 0 || setuid(nobody) != 0))
        SKIP("setuid: %s", strerror(errno));
    struct rlimit none = {0, limit.rlim_max};
    CHECK(setrlimit(RLIMIT_NPROC, &none) == 0, "setrlimit: %s", strerror(errno));
}

static void expect_back(size_t before, const char *what) {
    size_t most = before + settle_mib * WORKS_MIB + WORKS_KEPT;
    size_t now = works_settled(works_anonymous_bytes, most);
    CHECK(works_any_allocator() || now <= most, "%s: %zu MiB stay resident, %zu MiB before", what,
          now / WORKS_MIB, before / WORKS_MIB);
    CHECK(works_thread_count() == 1, "there are %d threads", works_thread_count());
}

static void *big(void) {
    char *block = malloc(big_mib * WORKS_MIB);
    CHECK(block, "malloc(%d MiB) returned NULL", big_mib);
    works_touch(block, big_mib * WORKS_MIB);
    return block;
}

/* The limit can end. */
static void again(void) {
    size_t before = works_anonymous_bytes();
    free(big());
    expect_back(before, "with no thread to be had");
    CHECK(setrlimit(RLIMIT_NPROC, &limit) == 0, "setrlimit: %s", strerror(errno));
    /* A worker is there once a free has started one. */
    bool seen = works_any_allocator();
    for (int i = 0; i < 20000 && !seen; i++) {
        char *block = malloc(WORKS_MIB);
        works_touch(block, WORKS_MIB);
        free(block);
        seen = works_thread_count() > 1;
    }
    CHECK(seen, "after 20000 frees there is no background thread, though threads can be had");
}

int main(int count, char **arguments) {
    works_require_loam();
    works_limit(55);
    CHECK(count == 2, "usage: no_thread one|small|shrink|again");
    const char *way = arguments[1];
    refuse_threads();
    if (strcmp(way, "again") == 0) {
        again();
        return 0;
    }
    size_t before = works_anonymous_bytes();
    if (strcmp(way, "one") == 0) {
        free(big());
    } else if (strcmp(way, "small") == 0) {
        static char *small[smalls];
        for (int i = 0; i < smalls; i++) {
            small[i] = malloc(small_bytes);
            CHECK(small[i], "malloc(%d) returned NULL", small_bytes);
            memset(small[i], 1, small_bytes);
        }
        for (int i = 0; i < smalls; i++) free(small[i]);
        before += smalls * sizeof(char *);
    } else {
        char *block = realloc(big(), 1000);
        CHECK(block, "realloc to 1000 bytes returned NULL");
        expect_back(before, "after realloc to 1000 bytes");
        free(block);
    }
    expect_back(before, way);
    return 0;
}
