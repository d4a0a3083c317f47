/*
 * large_tails.c - after a purge delay, large objects hold at most an eighth more than was
 * requested, whatever the memory that they came from was used for before.
 *
 *   large_tails peak      a peak of other sizes ends, objects just above 64 KiB stay
 *   large_tails shrink    objects are made smaller by realloc, above and below 64 KiB
 *   large_tails random    one thread allocates, frees and resizes in an order of chance
 *   large_tails threads   four threads do
 *
 * Catches: an allocator that rounds large objects up to its unit of spans and leaves what is
 * behind them resident, because the memory was used before; one whose realloc keeps a block at
 * twice the size; a purge that takes bytes of an object.
 */
#include "works.h"

#include <pthread.h>

enum { objects = 600, threads = 4, settle_mib = 3 };
#if LOAM_SECURE /* most freed objects wait with their guards before their memory goes back */
enum { waits_mib = 8 };
#else
enum { waits_mib = 0 };
#endif

static works_block *object[threads][objects];
static pthread_barrier_t measured;

/* Not far above a multiple of 64 KiB, now and then anything up to a mebibyte. */
static size_t size_of_chance(uint64_t *chance) {
    uint64_t r = works_random(chance);
    if (r % 8 == 0) return 64 * WORKS_KIB + (size_t)(works_random(chance) % WORKS_MIB);
    return (1 + r / 8 % 3) * 64 * WORKS_KIB + 100 + (size_t)(works_random(chance) % 16000);
}

static works_block *resized(works_block *block, size_t bytes) {
    size_t kept = block->bytes < bytes ? block->bytes : bytes;
    uint64_t seed = block->seed;
    works_block_check(block);
    block = realloc(block, bytes);
    CHECK(block != NULL, "realloc(%zu) returned NULL", bytes);
    CHECK(works_filled(block + 1, kept - sizeof *block, seed), "realloc(%zu) lost bytes", bytes);
    block->bytes = bytes;
    works_fill(block + 1, bytes - sizeof *block, seed);
    return block;
}

static size_t requested(void) {
    size_t bytes = 0;
    for (int t = 0; t < threads; t++)
        for (int i = 0; i < objects; i++)
            if (object[t][i]) bytes += object[t][i]->bytes;
    return bytes;
}

static void expect(size_t before, const char *what) {
    size_t bytes = requested(),
           most = before + bytes + bytes / 8 + (settle_mib + waits_mib) * WORKS_MIB + WORKS_KEPT;
    size_t now = works_settled(works_anonymous_bytes, most);
    works_say("%s: %zu KiB requested, %zu resident above the start", what, bytes / 1024,
              (now - before) / 1024);
    CHECK(works_any_allocator() || now <= most, "%zu MiB are resident for %zu MiB requested",
          (now - before) / WORKS_MIB, bytes / WORKS_MIB);
    for (int t = 0; t < threads; t++)
        for (int i = 0; i < objects; i++)
            if (object[t][i]) works_block_check(object[t][i]);
}

static void peak(size_t each, size_t bytes) {
    static void *other[20000];
    size_t n = bytes / each;
    for (size_t i = 0; i < n; i++) {
        other[i] = malloc(each);
        CHECK(other[i], "malloc(%zu) returned NULL", each);
        works_touch(other[i], each);
    }
    for (size_t i = 0; i < n; i++) free(other[i]);
}

static void after_peaks(size_t before) {
    static const size_t peaks[] = {4 << 20, 300000, 8000}, sizes[] = {66000, 70000, 140000, 600000};
    for (size_t p = 0; p < sizeof peaks / sizeof *peaks; p++) {
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            peak(peaks[p], 120 * WORKS_MIB);
            int n = sizes[s] > 400000 ? 100 : objects;
            for (int i = 0; i < n; i++) object[0][i] = works_block_new(sizes[s], (uint64_t)i);
            expect(before, "after a peak");
            for (int i = 0; i < n; i++) {
                works_block_free(object[0][i]);
                object[0][i] = NULL;
            }
        }
    }
}

static void shrink(size_t before) {
    static const size_t from_to[][2] = {
        {60000, 31000}, {120000, 66000}, {131000, 67000}, {1000000, 520000}, {250000, 200000}};
    for (size_t k = 0; k < sizeof from_to / sizeof *from_to; k++) {
        int n = from_to[k][0] > 400000 ? 100 : objects;
        for (int i = 0; i < n; i++)
            object[0][i] = resized(works_block_new(from_to[k][0], (uint64_t)i), from_to[k][1]);
        expect(before, "made smaller");
        for (int i = 0; i < n; i++) {
            works_block_free(object[0][i]);
            object[0][i] = NULL;
        }
    }
}

static void *at_random(void *argument) {
    works_block **mine = object[(size_t)(uintptr_t)argument];
    uint64_t chance = 34 + (uintptr_t)argument;
    for (int step = 0; step < 1500; step++) {
        size_t at = works_random(&chance) % (objects / threads), bytes = size_of_chance(&chance);
        if (mine[at] == NULL) {
            mine[at] = works_block_new(bytes, chance);
        } else if (works_random(&chance) % 3 == 0) {
            works_block_free(mine[at]);
            mine[at] = NULL;
        } else {
            mine[at] = resized(mine[at], bytes);
        }
    }
    pthread_barrier_wait(&measured); /* and lives on, asleep, while the main thread looks */
    pthread_barrier_wait(&measured);
    return NULL;
}

static void random_order(size_t before, size_t n) {
    pthread_t id[threads];
    CHECK(pthread_barrier_init(&measured, NULL, (unsigned)n + 1) == 0, "a barrier");
    for (size_t t = 0; t < n; t++)
        CHECK(pthread_create(&id[t], NULL, at_random, (void *)(uintptr_t)t) == 0, "a thread");
    pthread_barrier_wait(&measured);
    expect(before, "in an order of chance");
    pthread_barrier_wait(&measured);
    for (size_t t = 0; t < n; t++) pthread_join(id[t], NULL);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "peak";
    works_require_loam();
    works_limit(60);
    works_exercise(5, 2000);
    size_t before = works_anonymous_bytes();
    if (strcmp(what, "peak") == 0) after_peaks(before);
    if (strcmp(what, "shrink") == 0) shrink(before);
    if (strcmp(what, "random") == 0) random_order(before, 1);
    if (strcmp(what, "threads") == 0) random_order(before, threads);
    return 0;
}
