/* fence.c: what the debug build writes around each block, and reads again when it is freed.
 *
 *     [ requested bytes | fence 0xfb ... at least 8 bytes | 48 bits requested, 16 bits tag ]
 *
 * The tag tells in use from freed, mixed with the address. It finds overflows to the byte, and double frees while the
 * block is free; it cannot find a write after free, or an overflow that jumps over the fence.
 */
#include "heap/room.h"

#include <string.h>

#if LOAM_DEBUG

enum { FENCE = 0xfb, TAG_USED = 0x5a11, TAG_FREED = 0xdead, FILL_NEW = 0xd5, FILL_MOST = 4096 };

static unsigned char *block_end(const lm_page_t *page, const void *p) {
    return (unsigned char *)(uintptr_t)p + lm_block_room(page, p);
}

static uint64_t tag_of(const void *p, unsigned state) {
    return (((uintptr_t)p >> 4) * 0x9e3779b97f4a7c15u >> 48) ^ state;
}

static uint64_t trailer(const lm_page_t *page, const void *p) {
    uint64_t word;
    memcpy(&word, block_end(page, p) - sizeof word, sizeof word);
    return word;
}

static void set_trailer(const lm_page_t *page, void *p, size_t bytes, unsigned state) {
    uint64_t word = (uint64_t)bytes << 16 | tag_of(p, state);
    memcpy(block_end(page, p) - sizeof word, &word, sizeof word);
}

void *lm_mark(void *p, size_t bytes) {
    const lm_page_t *page = lm_page_of(p);
    unsigned char *end = block_end(page, p) - sizeof(uint64_t);
    memset((unsigned char *)p + bytes, FENCE, (size_t)(end - (unsigned char *)p) - bytes);
    set_trailer(page, p, bytes, TAG_USED);
    return p;
}

size_t lm_requested(const lm_page_t *page, const void *p) { return trailer(page, p) >> 16; }

bool lm_intact(const lm_page_t *page, const void *p, const char *function) {
    uint64_t word = trailer(page, p);
    size_t requested = word >> 16;
    if ((word & 0xffff) == tag_of(p, TAG_FREED)) {
        lm_double_free(page, p, function);
        return false;
    }
    if ((word & 0xffff) != tag_of(p, TAG_USED) || requested > lm_block_room(page, p) - LM_TRAILER) {
        lm_wrong(LM_WRONG_DAMAGE,
                 "overflow of %p: the end of its block is overwritten (size class %zu B, ", p,
                 lm_block_bytes(page));
        return false;
    }
    const unsigned char *fence = (const unsigned char *)p + requested;
    const unsigned char *last = block_end(page, p) - sizeof word - 1;
    while (last >= fence && *last == FENCE) last--;
    if (last < fence) return true;
    lm_wrong(LM_WRONG_DAMAGE, "overflow of %p: %zu byte(s) past %zu requested (size class %zu B, ",
             p, (size_t)(last - fence) + 1, requested, lm_block_bytes(page));
    return false;
}

void *lm_mark_new(void *p, size_t bytes) {
    memset(p, FILL_NEW, bytes < FILL_MOST ? bytes : FILL_MOST); /* nobody may rely on zeros */
    return lm_mark(p, bytes);
}

void *lm_malloc(size_t bytes) {
    if (bytes > LM_REQUEST_MOST - LM_TRAILER) return lm_too_large(bytes);
    void *p = lm_block_alloc(bytes + LM_TRAILER);
    return p != NULL ? lm_mark_new(p, bytes) : NULL;
}

void *lm_malloc_small(size_t bytes) {
    if (bytes <= LM_SMALL_MOST) return lm_malloc(bytes);
    lm_wrong(LM_WRONG_CALL, "%zu B asked for as a small object, which has %u B at most (", bytes,
             (unsigned)LM_SMALL_MOST);
    return lm_no_memory();
}

void lm_free(void *p) {
    if (p == NULL) return;
    lm_page_t *page = lm_page_checked(p, "free");
    if (page == NULL) return;
    set_trailer(page, p, lm_requested(page, p), TAG_FREED);
    lm_block_free(p);
}

#endif
