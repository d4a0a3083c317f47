/* calls.c: what the guard counts: small fixed programs, each the calls of one path through the
 * heap.
 *
 *     guard_calls --list      one line a workload: its name, a tab, what it walks through
 *     guard_calls NAME        runs it; nothing on standard output
 *
 * Their business is to be the same every time: no clock, no address, no size from outside decides
 * anything, and where threads take part only one of them runs at a time. They are no benchmarks
 * (bench/workloads has those): a workload here is as short as its paths allow, a thousandth of a
 * second, because callgrind runs it fifty times slower and every change waits for the sum.
 *
 * Changing a workload changes its figures: guard.py --update, in the same commit.
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 4096, KIB = 1024 };

static void *block[MOST];
static uint32_t order[MOST];

/* Numbers of its own: libc's generator is another one in another libc. */
static uint64_t state;

static uint32_t random_below(uint32_t bound) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(((state >> 33) * bound) >> 31);
}

/* Between two sizes, small ones more often: each doubling is as likely as the next. */
static size_t random_size(unsigned least_log2, unsigned most_log2) {
    size_t base = (size_t)1 << (least_log2 + random_below(most_log2 - least_log2));
    return base + random_below((uint32_t)base) + 1;
}

static void *must(void *allocated) {
    if (allocated == NULL) {
        fprintf(stderr, "guard_calls: out of memory\n");
        exit(1);
    }
    *(volatile char *)allocated = 1;
    return allocated;
}

static void shuffle(uint32_t n) {
    for (uint32_t i = 0; i < n; i++) order[i] = i;
    for (uint32_t i = n - 1; i > 0; i--) {
        uint32_t j = random_below(i + 1), other = order[i];
        order[i] = order[j];
        order[j] = other;
    }
}

/* ---- one thread ---- */

static void start(void) {}

static void small_pairs(void) {
    for (int round = 0; round < 400; round++) {
        size_t size = 16 * (size_t)(1 + round % 16);
        for (int i = 0; i < 16; i++) block[i] = must(malloc(size));
        for (int i = 0; i < 16; i++) free(block[i]);
    }
}

static void fill_mixed(int n) {
    for (int i = 0; i < n; i++) block[i] = must(malloc(random_size(4, 10)));
}

static void mixed_lifo(void) {
    for (int round = 0; round < 3; round++) {
        fill_mixed(2000);
        for (int i = 2000; i-- > 0;) free(block[i]);
    }
}

static void mixed_fifo(void) {
    for (int round = 0; round < 3; round++) {
        fill_mixed(2000);
        for (int i = 0; i < 2000; i++) free(block[i]);
    }
}

static void mixed_random(void) {
    for (int round = 0; round < 3; round++) {
        fill_mixed(2000);
        shuffle(2000);
        for (int i = 0; i < 2000; i++) free(block[order[i]]);
    }
}

/* A live set in which a random object is replaced by one of another size. */
static void replace(uint32_t live, int times, unsigned least_log2, unsigned most_log2) {
    for (uint32_t i = 0; i < live; i++) block[i] = must(malloc(random_size(least_log2, most_log2)));
    for (int i = 0; i < times; i++) {
        uint32_t at = random_below(live);
        free(block[at]);
        block[at] = must(malloc(random_size(least_log2, most_log2)));
    }
    for (uint32_t i = 0; i < live; i++) free(block[i]);
}

static void replace_small(void) { replace(2000, 8000, 4, 10); }

static void replace_medium(void) { replace(300, 3000, 10, 16); }

static void large_spans(void) { replace(24, 1500, 16, 22); }

/* Pages become full; then one block of each is freed, which makes it worth a visit again; then most
 * of it; then it is emptied and goes back. */
static void page_churn(void) {
    enum { BLOCKS = 2000, STRIDE = 50 };
    static const size_t sizes[] = {96, 640, 1536};
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        for (int i = 0; i < BLOCKS; i++) block[i] = must(malloc(sizes[s]));
        for (int i = 0; i < BLOCKS; i += STRIDE) free(block[i]);
        for (int i = 0; i < BLOCKS; i += STRIDE) block[i] = must(malloc(sizes[s]));
        for (int i = 0; i < BLOCKS; i++) {
            if (i % STRIDE != 0) free(block[i]);
        }
        for (int i = 1; i < BLOCKS; i += STRIDE) block[i] = must(malloc(sizes[s]));
        for (int i = 0; i < BLOCKS; i++) {
            if (i % STRIDE <= 1) free(block[i]);
        }
    }
}

static void realloc_growth(void) {
    enum { STRINGS = 16 };
    for (int i = 0; i < STRINGS; i++) block[i] = must(malloc(1));
    for (size_t size = 16; size < 4 * KIB; size += size / 8 + 16) { /* side by side, slowly */
        for (int i = 0; i < STRINGS; i++) block[i] = must(realloc(block[i], size));
    }
    for (int i = 0; i < STRINGS; i++) free(block[i]);
    for (int round = 0; round < 4; round++) { /* alone, to half a megabyte and back */
        void *vector = NULL;
        for (size_t size = 32; size <= 512 * KIB; size *= 2) vector = must(realloc(vector, size));
        for (size_t size = 256 * KIB; size >= 32; size /= 2) vector = must(realloc(vector, size));
        free(vector);
    }
}

static void calloc_sizes(void) {
    for (int round = 0; round < 12; round++) {
        for (int i = 0; i < 200; i++) {
            size_t size = random_size(4, i % 20 == 0 ? 15 : 9);
            block[i] = must(calloc(1 + size / 16, 16));
            memset(block[i], 1, size);
        }
        for (int i = 0; i < 200; i++) free(block[i]);
    }
}

static void aligned(void) {
    for (int round = 0; round < 6; round++) {
        for (int i = 0; i < 400; i++) {
            size_t alignment = (size_t)16 << (i % 10), size = random_size(4, 12);
            if (i % 2 == 0) {
                block[i] = must(aligned_alloc(alignment, size));
            } else if (posix_memalign(&block[i], alignment, size) != 0) {
                must(NULL);
            }
        }
        for (int i = 0; i < 400; i++) free(block[i]);
    }
}

/* ---- threads, one at a time ---- */

static void no_thread(void) {
    fprintf(stderr, "guard_calls: no thread to be had\n");
    exit(1);
}

/* Runs the function in a thread of its own, from its start to its end. */
static void in_a_thread(void *(*run)(void *)) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, run, NULL) != 0 || pthread_join(thread, NULL) != 0) {
        no_thread();
    }
}

enum { REMOTE = 1500 };

static void *fill_remote(void *unused) {
    (void)unused;
    for (int i = 0; i < REMOTE; i++) block[i] = must(malloc(32 * (size_t)(1 + i / 100)));
    return NULL;
}

static void *free_remote(void *unused) {
    (void)unused;
    for (int i = 0; i < REMOTE; i++) free(block[i]);
    return NULL;
}

static void *free_shuffled(void *unused) {
    (void)unused;
    for (int i = 0; i < REMOTE; i++) free(block[order[i]]);
    return NULL;
}

/* The owner lives, and takes in at its next turn what the other has freed. */
static void remote_in_order(void) {
    for (int round = 0; round < 4; round++) {
        fill_remote(NULL);
        in_a_thread(free_remote);
    }
}

static void remote_shuffled(void) {
    for (int round = 0; round < 4; round++) {
        fill_remote(NULL);
        shuffle(REMOTE);
        in_a_thread(free_shuffled);
    }
}

/* The owner has ended before its objects are freed: their pages find a new one. */
static void orphans(void) {
    for (int round = 0; round < 4; round++) {
        in_a_thread(fill_remote);
        free_remote(NULL);
    }
}

static void *little_work(void *unused) {
    (void)unused;
    for (int i = 0; i < 40; i++) block[i] = must(malloc(24 * (size_t)(1 + i)));
    for (int i = 0; i < 40; i++) free(block[i]);
    block[0] = must(malloc(100));
    return NULL;
}

static void thread_churn(void) {
    for (int i = 0; i < 40; i++) {
        in_a_thread(little_work);
        free(block[0]);
    }
}

/* Threads that live side by side and take turns: each frees what its neighbour left, leaves its
 * own. They also end in turn: an ending thread's work beside another's would come in any order. */
enum { SEATS = 4, TURNS = 12, HANDED = 120 };

static sem_t turn[SEATS], leave[SEATS], played;

static void wait_for(sem_t *semaphore) {
    while (sem_wait(semaphore) != 0) {}
}

static void *take_turns(void *argument) {
    uintptr_t seat = (uintptr_t)argument;
    for (int i = 0; i < TURNS; i++) {
        wait_for(&turn[seat]);
        for (int b = 0; b < HANDED; b++) {
            free(block[b]);
            block[b] = must(malloc(48 + 16 * (size_t)(b % 30)));
        }
        bool last = i == TURNS - 1 && seat == SEATS - 1;
        sem_post(last ? &played : &turn[(seat + 1) % SEATS]);
    }
    wait_for(&leave[seat]);
    return NULL;
}

static void neighbours(void) {
    pthread_t thread[SEATS];
    sem_init(&played, 0, 0);
    for (int s = 0; s < SEATS; s++) {
        sem_init(&turn[s], 0, 0);
        sem_init(&leave[s], 0, 0);
    }
    for (uintptr_t s = 0; s < SEATS; s++) {
        if (pthread_create(&thread[s], NULL, take_turns, (void *)s) != 0) no_thread();
    }
    sem_post(&turn[0]);
    wait_for(&played);
    for (int s = 0; s < SEATS; s++) {
        sem_post(&leave[s]);
        if (pthread_join(thread[s], NULL) != 0) no_thread();
    }
    for (int b = 0; b < HANDED; b++) free(block[b]);
}

/* ---- the list ---- */

static const struct {
    const char *name;
    void (*run)(void);
    const char *what;
} workloads[] = {
    {"start", start, "a process that allocates nothing"},
    {"small_pairs", small_pairs, "16 to 256 B, batches of 16"},
    {"mixed_lifo", mixed_lifo, "17 B to 1 KiB, last in first out"},
    {"mixed_fifo", mixed_fifo, "17 B to 1 KiB, first in first out"},
    {"mixed_random", mixed_random, "17 B to 1 KiB, freed in random order"},
    {"replace_small", replace_small, "17 B to 1 KiB, random replacement"},
    {"replace_medium", replace_medium, "1 to 64 KiB, random replacement"},
    {"page_churn", page_churn, "pages fill, wake, empty"},
    {"large_spans", large_spans, "64 KiB to 4 MiB, random replacement"},
    {"realloc_growth", realloc_growth, "strings and vectors that grow and shrink"},
    {"calloc_sizes", calloc_sizes, "zeroed blocks, new and used again"},
    {"aligned", aligned, "aligned_alloc, posix_memalign, 16 B to 8 KiB"},
    {"remote_in_order", remote_in_order, "another thread frees, the owner lives"},
    {"remote_shuffled", remote_shuffled, "the same in random order: batches of many pages"},
    {"orphans", orphans, "the owner has ended when its blocks are freed"},
    {"thread_churn", thread_churn, "threads start, allocate a little, end"},
    {"neighbours", neighbours, "four threads free each other's blocks in turn"},
};
enum { WORKLOADS = sizeof(workloads) / sizeof(workloads[0]) };

int main(int argc, char **argv) {
    const char *asked = argc == 2 ? argv[1] : "";
    if (strcmp(asked, "--list") == 0) {
        for (int i = 0; i < WORKLOADS; i++)
            printf("%s\t%s\n", workloads[i].name, workloads[i].what);
        return fflush(stdout) == 0 ? 0 : 1;
    }
    for (int i = 0; i < WORKLOADS; i++) {
        if (strcmp(asked, workloads[i].name) == 0) {
            workloads[i].run();
            return 0;
        }
    }
    fprintf(stderr, "usage: guard_calls --list | NAME\n");
    return 2;
}
