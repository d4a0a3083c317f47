/* invalid_free.c: what free is given was never returned by malloc: elsewhere, or inside of a block.
 *
 * Stopped: the process dies, at the latest in the work after.
 */
#include "misuse.h"
#include <alloca.h>

static void freed(void *p) {
    expect(p);
    free(hide(p));
    survived(48);
}

CASE(stack, "a variable of the stack is freed") {
    char buffer[256] = {0};
    freed(buffer + 64 - (uintptr_t)buffer % 16);
}

CASE(alloca_block, "what alloca gave is freed") {
    free(block(100)); /* the heap exists */
    char *p = alloca(256);
    memset(p, 0, 256);
    freed(p + 64 - (uintptr_t)p % 16);
}

CASE(static_array, "a static array is freed") {
    static char buffer[4096];
    freed(buffer + 64 - (uintptr_t)buffer % 16);
}

CASE(mapped, "memory from mmap is freed") {
    void *p = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) not_set_up("mmap gave no memory");
    freed(p);
}

CASE(far_away, "an address is freed where nothing is mapped, far from everything") {
    free(block(100));
    freed((void *)(uintptr_t)0x123456780000);
}

CASE(beyond, "an address is freed 64 GiB after a block, where the heap could grow to") {
    freed(block(100) + ((size_t)64 << 30));
}

EXTRA(first_call, "the first call of the allocator is the free of a pointer that it never gave") {
    static long aligned[4];
    freed((void *)((uintptr_t)aligned & ~(uintptr_t)15));
}

EXTRA(low, "a small integer is freed as if it were a pointer") {
    free(block(100));
    freed((void *)(uintptr_t)64);
}

EXTRA(high, "an address is freed that no program can have") {
    free(block(100));
    freed((void *)(uintptr_t)0xffffffffffff0000);
}

/* The block itself is freed as well: before the work, as a program would that has two pointers. */
static void inside(size_t size, size_t at) {
    char *p = block(size);
    expect(p + at);
    free(hide(p + at));
    free(p);
    survived(size);
}

CASE(one_byte_in, "a pointer one byte into a small block is freed") { inside(48, 1); }
CASE(eight_bytes_in, "a pointer eight bytes into a small block is freed") { inside(48, 8); }
CASE(sixteen_bytes_in, "a pointer 16 bytes into a block of 100 is freed: aligned as a block is") {
    inside(100, 16);
}
CASE(inside_medium, "a pointer into the middle of a medium block is freed") {
    inside(MEDIUM, 1024);
}
CASE(inside_large, "a pointer into a large block is freed, on a page boundary") {
    inside(LARGE, 4096);
}
CASE(deep_inside_large, "a pointer to the middle of a large block is freed") {
    inside(LARGE, LARGE / 2);
}

CASE(past_the_end, "a pointer just past the end of a small block is freed") {
    char *p = block(48);
    char *end = p + malloc_usable_size(p);
    expect(end);
    free(hide(end));
    free(p);
    survived(48);
}

CASE(before_the_start, "a pointer 16 bytes before a small block is freed") {
    char *p = block(48);
    expect(p - 16);
    free(hide(p - 16));
    free(p);
    survived(48);
}

CASE(never_given, "an address is freed between blocks of the same size that malloc never gave") {
    char *list[64];
    for (int i = 0; i < 64; i++) list[i] = block(100);
    char *p = list[63] + (list[63] - list[62]); /* where the next one might be */
    expect(p);
    free(hide(p));
    for (int i = 0; i < 64; i++) free(list[i]);
    survived(100);
}
