/* 
 * memory_back.c - after a peak is freed, resident memory is within 5% of its start after one
 * second without a call.
 *
 * Catches: memory that stays with the allocator: in thread caches, in chains of blocks that
 * another thread freed and the owner has not come to fetch, in pages kept "for the next time", in
 * metadata of the peak.
 *
 * Arguments: a pattern (64, 1m, mixed, random), who frees (owner; other; both: two threads each
 * the half that the other allocated; ended: a thread allocates and ends, another frees and ends),
 * the peak in MiB. But for the last, the threads that allocate and free sleep through the second;
 * nobody calls the allocator. Pointers lie in memory of the program's own.
 *
 * The start is measured after a round of the same work at 1/32 of the peak and its second of idle
 * time, so that what differs at the end is not program text touched for the first time; a start of
 * more than 4 MiB above the program's very first figure fails as well, so that nothing can hide in
 * that round. 5% of a start this small are some 100 KiB: a gibibyte's metadata (a quarter of a
 * percent of it) may not stay either. On a machine with other work the worker comes later than the
 * second: what it took is said.
 */
#include "works.h"

#include <pthread.h>
#include <semaphore.h>

enum { idle_ms = 1000, start_allowance_mib = 4 };
/* What the secure build keeps of a peak besides: addresses stay with their group of sizes, so that
 * the arena does not become shorter. That is 8 bytes of the map for each 64 KiB, and the
 * descriptors at the ends of each group's runs. */
#if LOAM_SECURE
enum { kept_a_slice = 8, kept_at_ends = 64 * 1024 };
#else
enum { kept_a_slice = 0, kept_at_ends = 0 };
#endif

typedef enum pattern { small_blocks, large_blocks, mixed_sizes, random_order } pattern;

static struct {
    pattern kind;
    size_t count, room;
    char **block;
} peak;

/* Two helpers that only ever do what the main thread asks of them, and sleep in between. */
typedef enum order { order_fill, order_free, order_end } order;
static struct {
    pthread_t id;
    sem_t asked, done;
    order order;
    size_t from, to;
} helper[2];

static size_t size_of(pattern kind, size_t i) {
    if (kind == small_blocks) return 64;
    if (kind == large_blocks) return WORKS_MIB;
    uint64_t state = i * 2654435761u + 12345;
    uint64_t r = works_random(&state);
    return 16 + (size_t)(works_random(&state) % (r % 8 == 0 ? 65536 : r % 2 ? 1024 : 8192));
}

static void fill(size_t from, size_t to) {
    for (size_t i = from; i < to; i++) {
        size_t bytes = size_of(peak.kind, i);
        peak.block[i] = malloc(bytes);
        CHECK(peak.block[i] != NULL, "malloc(%zu) returned NULL", bytes);
        works_touch(peak.block[i], bytes);
    }
}

static void free_range(size_t from, size_t to) {
    for (size_t i = from; i < to; i++) free(peak.block[i]);
}

static void *help(void *argument) {
    size_t self = (size_t)(uintptr_t)argument;
    for (;;) {
        while (sem_wait(&helper[self].asked) != 0) continue;
        if (helper[self].order == order_end) return NULL;
        if (helper[self].order == order_fill) fill(helper[self].from, helper[self].to);
        if (helper[self].order == order_free) free_range(helper[self].from, helper[self].to);
        sem_post(&helper[self].done);
    }
}

static void ask(size_t who, order what, size_t from, size_t to) {
    helper[who].from = from;
    helper[who].to = to;
    helper[who].order = what;
    sem_post(&helper[who].asked);
}

static void await(size_t who) {
    while (sem_wait(&helper[who].done) != 0) continue;
}

static void *fill_all(void *nothing) {
    fill(0, peak.count);
    return nothing;
}

static void *free_all(void *nothing) {
    free_range(0, peak.count);
    return nothing;
}

static void in_a_thread_that_ends(void *(*what)(void *)) {
    pthread_t id;
    CHECK(pthread_create(&id, NULL, what, NULL) == 0 && pthread_join(id, NULL) == 0, "a thread");
}

static void shuffle(void) {
    uint64_t seed = 99;
    for (size_t i = peak.count; i > 1; i--) {
        size_t other = works_random(&seed) % i;
        char *block = peak.block[i - 1];
        peak.block[i - 1] = peak.block[other];
        peak.block[other] = block;
    }
}

/* One peak: up by one thread, or by two where both free; down by whom `who` says. */
static void round_of(size_t bytes, const char *who) {
    size_t total = 0;
    for (peak.count = 0; total < bytes; peak.count++) total += size_of(peak.kind, peak.count);
    peak.room = (peak.count * sizeof *peak.block + 4095) / 4096 * 4096;
    peak.block = mmap(NULL, peak.room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(peak.block != MAP_FAILED, "mmap of the table");
    size_t half = peak.count / 2;
    bool both = strcmp(who, "both") == 0, other = strcmp(who, "other") == 0,
         ended = strcmp(who, "ended") == 0;
    if (both) {
        ask(0, order_fill, 0, half);
        ask(1, order_fill, half, peak.count);
        await(0);
        await(1);
    } else if (ended) {
        in_a_thread_that_ends(fill_all);
    } else {
        fill(0, peak.count);
    }
    if (peak.kind == random_order) shuffle();
    if (both) { /* each frees half, and without the shuffle the other's half */
        ask(0, order_free, half, peak.count);
        ask(1, order_free, 0, half);
        await(0);
        await(1);
    } else if (other) {
        ask(0, order_free, 0, peak.count);
        await(0);
    } else if (ended) {
        in_a_thread_that_ends(free_all);
    } else {
        free_range(0, peak.count);
    }
    munmap(peak.block, peak.room);
}

int main(int argc, char **argv) {
    works_require_loam();
    works_limit(110);
    CHECK(argc == 4, "usage: %s 64|1m|mixed|random owner|other|both|ended MIB", argv[0]);
    size_t bytes = (size_t)atoi(argv[3]) * WORKS_MIB;
    peak.kind = strcmp(argv[1], "64") == 0      ? small_blocks
                : strcmp(argv[1], "1m") == 0    ? large_blocks
                : strcmp(argv[1], "mixed") == 0 ? mixed_sizes
                                                : random_order;
    for (size_t t = 0; t < 2; t++) {
        sem_init(&helper[t].asked, 0, 0);
        sem_init(&helper[t].done, 0, 0);
        CHECK(pthread_create(&helper[t].id, NULL, help, (void *)(uintptr_t)t) == 0,
              "pthread_create");
    }
    works_sleep_ms(10);
    size_t very_first = works_rss_bytes();
    round_of(bytes / 32, argv[2]);
    works_sleep_ms(idle_ms);
    size_t start = works_rss_bytes(), start_own = works_anonymous_bytes();
    round_of(bytes, argv[2]);
    works_sleep_ms(idle_ms);
    size_t allowed = start / 20 + bytes / 65536 * kept_a_slice + kept_at_ends;
    uint64_t idle_from = works_now_ms() - idle_ms;
    size_t end_own = works_settled(works_anonymous_bytes, start_own + allowed),
           end = works_rss_bytes();
    int took_ms = (int)(works_now_ms() - idle_from);
    for (size_t t = 0; t < 2; t++) {
        ask(t, order_end, 0, 0);
        pthread_join(helper[t].id, NULL);
    }
    works_say("%s blocks, freed by %s: first %zu KiB, start %zu KiB, %d ms after %s MiB %zu KiB",
              argv[1], argv[2], very_first / 1024, start / 1024, took_ms, argv[3], end / 1024);
    CHECK(start <= very_first + start_allowance_mib * WORKS_MIB,
          "%zu KiB stay of a first round of %zu MiB", (start - very_first) / 1024,
          bytes / 32 / WORKS_MIB);
    CHECK(end_own <= start_own + allowed,
          "%zu KiB more than at the start stay resident, allowed are 5%% (secure: and metadata): "
          "%zu KiB",
          (end_own - start_own) / 1024, allowed / 1024);
    return 0;
}
