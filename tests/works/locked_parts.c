/* 
 * locked_parts.c - a freed object that is still locked in memory keeps its own pages resident, and
 * no others; once it is unlocked, its pages go back as well.
 *
 *   locked_parts one     one page in the middle of much that is freed
 *   locked_parts many    every fifth object, then a page of each, in an order of chance
 *   locked_parts early   mlockall(MCL_CURRENT), after which the heap grows
 *   locked_parts later   munlock after everything has been freed, and nothing is allocated any more
 *
 * Catches: an allocator that hands a range with a locked page in it to madvise, which refuses, and
 * then takes the refusal for an answer about all of its memory, or for ever.
 */
#include "works.h"

enum { objects = 240, each_kib = 512, settle_mib = 12, page = 4096 };

static char *object[objects];
static uint64_t chance = 34;

static void *locked(char *at, size_t bytes) {
    if (mlock(at, bytes) != 0) SKIP("mlock of %zu KiB: %s", bytes / 1024, strerror(errno));
    return at;
}

static void fill_all(void) {
    for (int i = 0; i < objects; i++) {
        object[i] = malloc(each_kib * WORKS_KIB);
        CHECK(object[i], "malloc(%d KiB) returned NULL", each_kib);
        works_touch(object[i], each_kib * WORKS_KIB);
    }
}

/* In an order of chance, so that locked and unlocked parts become neighbours in many ways. */
static void free_all(void) {
    for (int i = objects - 1; i >= 0; i--) {
        int j = (int)(works_random(&chance) % (uint64_t)(i + 1));
        char *last = object[j];
        object[j] = object[i];
        free(last);
    }
}

static void expect_back(size_t before, size_t kept, const char *when) {
    size_t most = before + kept + settle_mib * WORKS_MIB + WORKS_KEPT;
    size_t now = works_settled(works_anonymous_bytes, most);
    CHECK(works_any_allocator() || now <= most,
          "%s: %zu MiB are resident, %zu before the objects, and %zu KiB are locked", when,
          now / WORKS_MIB, before / WORKS_MIB, kept / 1024);
}

/* Everything that calloc gives reads as zero, whatever of it has been locked or purged. */
static void expect_zeros(void) {
    for (int i = 0; i < objects; i++) {
        size_t bytes = (size_t)(each_kib / 4) * WORKS_KIB + (size_t)i * 777;
        object[i] = calloc(1, bytes);
        CHECK(object[i], "calloc(%zu) returned NULL", bytes);
        for (size_t k = 0; k < bytes; k++) CHECK(object[i][k] == 0, "calloc: byte %zu is not 0", k);
        works_touch(object[i], bytes);
    }
    for (int i = 0; i < objects; i++) free(object[i]);
}

static void lock_one(void) { locked(object[objects / 2] + 5 * page, page); }

static void lock_many(bool whole) {
    for (int i = 0; i < objects; i += 5) {
        if (whole && i % 10 == 0)
            locked(object[i], 64 * WORKS_KIB);
        else
            locked(object[i] + works_random(&chance) % 100 * page, page);
    }
}

int main(int count, char **arguments) {
    works_require_loam();
    works_limit(60);
    CHECK(count == 2, "usage: locked_parts one|many|early|later");
    const char *way = arguments[1];
    works_exercise(1, 500);
    if (strcmp(way, "early") == 0) {
        char *first = malloc(WORKS_MIB);
        works_touch(first, WORKS_MIB);
        if (mlockall(MCL_CURRENT) != 0) SKIP("mlockall: %s", strerror(errno));
        free(first);
    }
    size_t before = works_anonymous_bytes(), kept = 0;
    for (int round = 0; round < 2; round++) {
        fill_all();
        if (strcmp(way, "one") == 0 && round == 0) {
            lock_one();
            kept = 64 * WORKS_KIB;
        } else if (strcmp(way, "many") == 0 && round == 0) {
            lock_many(true);
            lock_many(false);
            kept = (objects / 10 + 1) * 64 * WORKS_KIB + objects / 5 * 2 * page;
        } else if (strcmp(way, "later") == 0 && round == 1) {
            for (int i = 0; i < objects; i += 2) locked(object[i], 32 * WORKS_KIB);
            kept = objects / 2 * 32 * WORKS_KIB;
        }
        char *first_locked = object[0];
        free_all();
        expect_back(before, kept, round == 0 ? "round 1" : "round 2");
        if (strcmp(way, "later") == 0 && round == 1) {
            size_t full = works_anonymous_bytes();
            CHECK(munlockall() == 0, "munlockall: %s", strerror(errno));
            size_t most = full - kept / 2;
            CHECK(works_any_allocator() || works_settled(works_anonymous_bytes, most) <= most,
                  "munlockall after the frees (%p): nothing of %zu KiB went back", first_locked,
                  kept / 1024);
        }
        if (round == 0) expect_zeros();
    }
    return 0;
}
