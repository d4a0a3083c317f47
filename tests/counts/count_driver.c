/* count_driver.c: the calls whose instructions counts.py counts.
 *
 * Run under callgrind with --zero-before=window_open --dump-before=window_close: the cost counters
 * are cleared when a window opens and written to a file of their own when it closes, so the file
 * numbered i holds exactly what ran inside the i-th window. One line a window goes to standard
 * output, in the same order, naming what the window held.
 *
 *   count_driver single    one malloc, one free, or one loam_malloc_small a window, every size of
 *                          the table below
 *   count_driver pairs     64 rounds of 16 malloc and 16 free of one size in a window
 *   count_driver sampled   a program that allocates, fills, reads and frees objects of mixed sizes:
 *                          a window with guard sampling off, and one each with one allocation in
 *                          5,000 and in 1,000 sampled
 *
 * The calls go through volatile function pointers: no inlining, no built-in, no PLT jump counted.
 * It cannot say which path a call took: counts.py takes the cheapest of several windows as the
 * fast path and the whole of a pairs window, slow paths included, as the warm pair.
 */
#define _GNU_SOURCE 1 /* RTLD_DEFAULT */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WINDOWS 12 /* of each kind for each size, twice over */
#define BATCH 16
#define ROUNDS 64
#define WARM_ROUNDS 8

static void *(*volatile call_malloc)(size_t) = malloc;
static void (*volatile call_free)(void *) = free;
static void *(*volatile call_small)(size_t); /* of the library that is preloaded */

__attribute__((noinline)) void window_open(void) { __asm__ volatile("" ::: "memory"); }

__attribute__((noinline)) void window_close(void) { __asm__ volatile("" ::: "memory"); }

/* Standard output without a buffer from malloc: the lines must not disturb what is measured. */
static char output_buffer[1 << 16];

static void single_size(size_t size) {
    void *block[WINDOWS];
    /* Every third of these is held throughout: free blocks everywhere, and no freeing empties the
     * memory that the block came from. */
    void *held[4 * WINDOWS];
    for (int i = 0; i < 4 * WINDOWS; i++) held[i] = call_malloc(size);
    for (int i = 0; i < 4 * WINDOWS; i++) {
        if (i % 3 != 0) call_free(held[i]);
    }
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < WINDOWS; i++) {
            window_open();
            block[i] = call_malloc(size);
            window_close();
            printf("malloc %zu\n", size);
        }
        for (int i = 0; i < WINDOWS; i++) {
            window_open();
            call_free(block[i]);
            window_close();
            printf("free %zu\n", size);
        }
    }
    for (int i = 0; i < WINDOWS && size <= 1024; i++) {
        window_open();
        block[i] = call_small(size);
        window_close();
        printf("loam_malloc_small %zu\n", size);
    }
    for (int i = 0; i < WINDOWS && size <= 1024; i++) call_free(block[i]);
    for (int i = 0; i < 4 * WINDOWS; i += 3) call_free(held[i]);
}

/* Every class's upper bound and the first size of it: 16 byte steps to 1 KiB, then 8 a doubling. */
static void single_all(void) {
    single_size(1);
    for (size_t size = 16; size <= 1024; size += 16) {
        single_size(size - 7);
        single_size(size);
    }
    for (size_t base = 1024; base < 65536; base *= 2) {
        for (size_t step = 1; step <= 8; step++) {
            single_size(base + (step - 1) * base / 8 + 1);
            single_size(base + step * base / 8);
        }
    }
}

static void pairs_round(void **block, size_t size, int rounds) {
    for (int r = 0; r < rounds; r++) {
        for (int i = 0; i < BATCH; i++) block[i] = call_malloc(size);
        for (int i = 0; i < BATCH; i++) call_free(block[i]);
    }
}

static void pairs_all(void) {
    static const size_t sizes[] = {16, 48, 128, 512, 1024, 3000, 8192, 16384, 32768, 65536};
    void *block[BATCH];
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        pairs_round(block, sizes[s], WARM_ROUNDS);
        window_open();
        pairs_round(block, sizes[s], ROUNDS);
        window_close();
        printf("pairs%d %zu\n", ROUNDS * BATCH, sizes[s]);
    }
}

/* ---- A program that works with what it allocates ---- */

enum { KEPT = 2000, STEPS = 400000, LONGEST = 200 };

static uint32_t *kept[KEPT];
static unsigned sum; /* so that the work is done */

static uint32_t drawn(uint32_t *state) {
    uint32_t x = *state;
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    return *state = x;
}

/* Lists of numbers that are written, read once, kept for a while and replaced by others: mostly
 * short ones. */
__attribute__((noinline)) static void work(uint32_t seed) {
    for (int i = 0; i < STEPS; i++) {
        unsigned place = drawn(&seed) % KEPT, length = drawn(&seed) % LONGEST;
        length = 8 + length * length / LONGEST;
        uint32_t *list = call_malloc(length), *old = kept[place];
        for (unsigned k = 0; k < length / 4; k++) list[k] = k ^ seed;
        for (unsigned k = 0; k < length / 4; k++) sum = sum * 31 + list[k] % 7;
        if (old != NULL) sum += old[0] + old[1];
        call_free(old);
        kept[place] = list;
    }
}

static void sampled_all(int (*sample)(size_t)) {
    static const size_t rates[] = {0, 5000, 1000};
    (void)sample(20); /* slots, and what traces read, come once in a process */
    work(1);
    for (size_t r = 0; r < sizeof(rates) / sizeof(rates[0]); r++) {
        (void)sample(rates[r]);
        work(2); /* objects of the rate before are gone */
        window_open();
        work(3);
        window_close();
        printf("work%d %zu\n", STEPS, rates[r]);
    }
}

/* ISO C has no conversion from object to function pointers; POSIX promises it. */
typedef union found {
    void *object;
    void *(*function)(size_t);
    int (*sample)(size_t);
} found_t;

int main(int argc, char **argv) {
    setvbuf(stdout, output_buffer, _IOFBF, sizeof(output_buffer));
    found_t found = {dlsym(RTLD_DEFAULT, "loam_malloc_small")};
    call_small = found.function;
    if (call_small == NULL) {
        fprintf(stderr, "count_driver: loam is not preloaded\n");
        return 2;
    }
    if (argc == 2 && strcmp(argv[1], "single") == 0) {
        single_all();
    } else if (argc == 2 && strcmp(argv[1], "pairs") == 0) {
        pairs_all();
    } else if (argc == 2 && strcmp(argv[1], "sampled") == 0) {
        found.object = dlsym(RTLD_DEFAULT, "loam_sampling_set");
        sampled_all(found.sample);
    } else {
        fprintf(stderr, "usage: count_driver single|pairs|sampled\n");
        return 2;
    }
    return fflush(stdout) == 0 ? 0 : 1;
}
