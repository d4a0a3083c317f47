/* write_after_free.c: a block is written to after it was freed.
 *
 * Stopped: the process dies, at the latest in the work after, where the address is handed out
 * again. The reused_* cases write when the address may have a new owner: prevented if he sees
 * nothing of it.
 */
#include "misuse.h"

/* 8 bytes there, or that many. */
static void at(size_t size, size_t offset, ptrdiff_t bytes) {
    char *p = block(size);
    char *other = block(size);
    free(other);
    free(p);
    expect(p);
    spoil(hide(p) + offset, bytes);
    survived(size);
}

CASE(small_first_word,
     "the first word of a small block, where lists of free blocks have their link") {
    at(48, 0, 8);
}
CASE(small_second_word, "the second word of a small block") { at(48, 8, 8); }
CASE(small_middle, "a word in the middle of a small block") { at(48, 24, 8); }
CASE(small_last_byte, "the last byte of a small block") { at(48, 47, 1); }
CASE(medium_first_word, "the first word of a medium block") { at(MEDIUM, 0, 8); }
CASE(medium_last_byte, "the last byte of a medium block") { at(MEDIUM, MEDIUM - 1, 1); }
CASE(large_first_word, "the first word of a large block") { at(LARGE, 0, 8); }
CASE(large_middle, "a word in the middle of a large block") { at(LARGE, LARGE / 2, 8); }
EXTRA(small_whole, "the first 16 bytes of a small block") { at(48, 0, 16); }

static void *spoiled(void *p) {
    spoil(hide(p), 8);
    return NULL;
}

CASE(by_another_thread, "the first word of a small block, by another thread") {
    char *p = block(48);
    free(p);
    expect(p);
    in_another_thread(spoiled, p);
    survived(48);
}

/* Where no new block has the address, nobody is hurt: the old one waits where nobody is. */
static void reused(size_t size, int count) {
    static char *list[256];
    bool changed = false;
    char *p = block(size);
    free(p);
    for (int i = 0; i < count; i++) list[i] = block(size);
    expect(p);
    spoil(hide(p), 32);
    for (int i = 0; i < count; i++) {
        for (size_t byte = 0; byte < 32; byte++) changed = changed || hide(list[i])[byte] != 0x11;
    }
    judged(changed);
}

CASE(reused_small, "256 small blocks are allocated after the free: the write hits none of them") {
    reused(48, 256);
}
CASE(reused_medium, "64 medium blocks are allocated after the free: the write hits none of them") {
    reused(MEDIUM, 64);
}
CASE(reused_large, "4 large blocks are allocated after the free: the write hits none of them") {
    reused(LARGE, 4);
}
