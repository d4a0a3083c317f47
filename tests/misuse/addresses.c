/* addresses.c: an address can be foretold: of the block that comes next, or of one that was just
 * freed.
 *
 * Whoever wants to place his own block where a stale pointer points, or behind one that overflows,
 * needs that. Prevented: the case looks itself, as its words say.
 */
#include "misuse.h"

enum { TRIES = 16 };

/* Whether malloc returned what was just freed, in any of the tries; blocks stay in use in
 * between. */
static void reuse(size_t size, size_t next) {
    bool reused = false;
    expect(NULL);
    for (int i = 0; i < TRIES; i++) {
        char *p = block(size);
        free(p);
        reused = reused || hide(malloc(next)) == hide(p);
    }
    judged(reused);
}

CASE(reuse_small, "malloc returns the small block that was just freed, once in 16 tries") {
    reuse(48, 48);
}
CASE(reuse_large, "malloc returns the large block that was just freed, once in 16 tries") {
    reuse(LARGE, LARGE);
}
CASE(reuse_smaller, "malloc of 40 returns the block of 48 that was just freed, once in 16 tries") {
    reuse(48, 40);
}

CASE(reuse_by_realloc, "malloc returns the block that realloc has just left, once in 16 tries") {
    bool reused = false;
    expect(NULL);
    for (int i = 0; i < TRIES; i++) {
        char *p = block(48);
        char *moved = hide(realloc(p, 5000));
        reused = reused || (moved != hide(p) && hide(malloc(48)) == hide(p));
    }
    judged(reused);
}

/* The same distance from one block to the next, for more than half of them. */
static void order(size_t size, int count) {
    static char *list[256];
    int most = 0;
    expect(NULL);
    for (int i = 0; i < count; i++) list[i] = block(size);
    for (int i = 1; i < count; i++) {
        int same = 0;
        for (int j = 1; j < count; j++) same += list[j] - list[j - 1] == list[i] - list[i - 1];
        most = same > most ? same : most;
    }
    judged(most > (count - 1) / 2);
}

CASE(order_small,
     "more than half of 256 small blocks lie at the same distance from the one before") {
    order(48, 256);
}
CASE(order_large,
     "more than half of 16 large blocks lie at the same distance from the one before") {
    order(LARGE, 16);
}

CASE(order_of_reuse,
     "more than half of 64 freed blocks come back in the order of their frees, or reversed") {
    enum { COUNT = 64 };
    static char *freed[COUNT], *again[COUNT];
    int forward = 0, backward = 0;
    expect(NULL);
    for (int i = 0; i < COUNT; i++) freed[i] = block(48);
    for (int i = 0; i < COUNT; i++) free(freed[i]);
    for (int i = 0; i < COUNT; i++) again[i] = block(48);
    for (int i = 0; i + 1 < COUNT; i++) {
        for (int j = 0; j + 1 < COUNT; j++) {
            forward += again[i] == freed[j] && again[i + 1] == freed[j + 1];
            backward += again[i] == freed[j + 1] && again[i + 1] == freed[j];
        }
    }
    judged(forward > COUNT / 2 || backward > COUNT / 2);
}
