/* pairs.c: what a malloc, one byte written and a free take, in ns, by the allocator that was
 * preloaded.
 *
 *   pairs LEAST MOST     bytes; sizes are drawn from there and come in the same order each time
 *
 * Prints three figures, each the best of 25: one pair after the other; 1000 mallocs and then their
 * frees; and one of 1000 objects, as chance will have it, freed and another made in its place.
 * Single sizes (LEAST = MOST) show what the instructions cost, mixed ones what branches on sizes
 * cost. One thread, warm caches: programs differ.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { SIZES = 1 << 14, OBJECTS = 1000, REPEATS = 20, ROUNDS = 25 };

static uint32_t bytes[SIZES], places[SIZES];
static char *objects[OBJECTS];

/* xorshift, Marsaglia 2003 */
static uint64_t random_next(void) {
    static uint64_t x = 88172645463325252u;
    x ^= x << 13;
    x ^= x >> 7;
    return x ^= x << 17;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static char *make(size_t size) {
    char *p = malloc(size);
    if (p == NULL) {
        fprintf(stderr, "pairs: no memory for %zu bytes\n", size);
        exit(1);
    }
    *(volatile char *)p = 1;
    return p;
}

static void one_by_one(void) {
    for (int i = 0; i < SIZES; i++) free(make(bytes[i]));
}

static void in_batches(void) {
    for (int i = 0; i + OBJECTS <= SIZES; i += OBJECTS) {
        for (int n = 0; n < OBJECTS; n++) objects[n] = make(bytes[i + n]);
        for (int n = 0; n < OBJECTS; n++) free(objects[n]);
    }
}

static void replaced(void) {
    for (int i = 0; i < SIZES; i++) {
        char **object = &objects[places[i]];
        free(*object);
        *object = make(bytes[i]);
    }
}

static void best(void (*work)(void), int pairs) {
    double least = 1e18;
    for (int round = 0; round < ROUNDS; round++) {
        double start = now();
        for (int i = 0; i < REPEATS; i++) work();
        double took = (now() - start) / ((double)REPEATS * pairs);
        if (took < least) least = took;
    }
    printf("%8.1f", least);
}

int main(int count, char **words) {
    long least = count == 3 ? atol(words[1]) : 0, most = count == 3 ? atol(words[2]) : 0;
    if (least < 1 || most < least || most > 1 << 20) {
        fprintf(stderr, "usage: pairs LEAST MOST (bytes, 1 to 1048576)\n");
        return 2;
    }
    for (int i = 0; i < SIZES; i++) {
        bytes[i] = (uint32_t)(least + (long)(random_next() % (uint64_t)(most - least + 1)));
        places[i] = (uint32_t)(random_next() % OBJECTS);
    }
    best(one_by_one, SIZES);
    best(in_batches, SIZES / OBJECTS * OBJECTS);
    for (int n = 0; n < OBJECTS; n++) objects[n] = make(bytes[n]);
    best(replaced, SIZES);
    printf("\n");
    return 0;
}
