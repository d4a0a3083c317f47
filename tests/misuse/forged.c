/* forged.c: memory that an overflow or a stale pointer reaches is written with what an allocator
 * would have there, so that it takes it for its own: a link of a free list, the header of a block.
 *
 * Prevented: malloc never returns the address that was chosen, or memory that is in use; or the
 * process dies.
 */
#include "misuse.h"

/* What the attacker wants: writable, aligned, with words before it that look like a block's
 * header. */
static struct {
    uint64_t before[2];
    char target[256];
    uint64_t after[64];
} wanted __attribute__((aligned(64)));

static bool handed_out(size_t size) {
    for (int i = 0; i < 4096; i++) {
        char *p = hide(malloc(size));
        if (p >= (char *)&wanted && p < (char *)(&wanted + 1)) return true;
    }
    return false;
}

static void linked(size_t size, uint64_t link) {
    char *a = block(size);
    char *b = block(size);
    wanted.before[1] = (size + 8 + 15) / 16 * 16 | 1;
    free(a);
    free(b);
    expect(b);
    memcpy(hide(b), &link, 8);
    judged(handed_out(size));
}

CASE(link, "the first word of a freed block is made to point to a chosen address") {
    linked(48, (uintptr_t)wanted.target);
}

CASE(masked_link, "the same, masked as the C library masks its links") {
    char *near = block(48);
    linked(48, (uintptr_t)wanted.target ^ (uintptr_t)near >> 12);
}

CASE(medium_links,
     "both first words of a freed medium block are made to point to a chosen address") {
    char *a = block(MEDIUM);
    char *b = block(MEDIUM);
    uint64_t links[2] = {(uintptr_t)&wanted, (uintptr_t)&wanted};
    wanted.before[1] = (MEDIUM + 8 + 15) / 16 * 16 | 1;
    free(a);
    expect(a);
    memcpy(hide(a), links, sizeof(links));
    bool bad = handed_out(MEDIUM);
    free(b);
    judged(bad);
}

CASE(key,
     "a block is freed, its second word (the C library's mark) is changed, and it is freed again") {
    char *list[256];
    char *p = block(48);
    bool twice = false;
    free(p);
    expect(p);
    spoil(hide(p) + 8, 8);
    free(hide(p));
    for (int i = 0; i < 256; i++) {
        list[i] = hide(malloc(48));
        for (int j = 0; j < i; j++) twice = twice || list[i] == list[j];
    }
    judged(twice);
}

CASE(header, "a static array with words like a header before it is freed, and malloc returns it") {
    wanted.before[1] = 64 | 1;
    memset(wanted.target, 0, sizeof(wanted.target));
    wanted.after[0] = 64 | 1;
    *(uint64_t *)(void *)(wanted.target + 56) = 64 | 1; /* the next block's */
    expect(wanted.target);
    free(hide(wanted.target));
    judged(handed_out(48));
}

CASE(size,
     "the word before a block is set to a larger size, and malloc returns memory that is in use") {
    char *a = block(24);
    char *b = block(280);
    char *c = block(280);
    uint64_t larger = (288 + 288) | 1;
    memset(b, 0x22, 280);
    memset(c, 0x22, 280);
    expect(b);
    memcpy(hide(b) - 8, &larger, 8);
    free(hide(b));
    bool bad = false;
    for (int i = 0; i < 64; i++) memset(hide(malloc(560)), 0x77, 560);
    for (int i = 0; i < 280; i++) bad = bad || hide(c)[i] != 0x22;
    free(a);
    judged(bad);
}
