/*
 * own_memory.c - loam's own memcpy, memmove, memset, memcmp and bcmp (override/memory.c) do what
 * libc's do.
 *
 * Catches: a size or an alignment for which a byte is missing, or one too many is written or
 * read; pieces that overlap. Each of the processor's ways is tried: vectors of 16 bytes, of 32,
 * and string instructions.
 *
 * Both ends of the memory lie beside pages that may not be touched. Expected contents are made by
 * loops.
 */
#include "works.h"

#include <strings.h>

#define memcpy own_memcpy
#define memmove own_memmove
#define memset own_memset
#define memcmp own_memcmp
#define bcmp own_bcmp
void *own_memcpy(void *restrict to, const void *restrict from, size_t bytes);
void *own_memmove(void *to, const void *from, size_t bytes);
void *own_memset(void *to, int byte, size_t bytes);
int own_memcmp(const void *a, const void *b, size_t bytes);
int own_bcmp(const void *a, const void *b, size_t bytes);
#include "../../override/memory.c"
#undef memcpy
#undef memmove
#undef memset
#undef memcmp
#undef bcmp

enum { ROOM = 1 << 20, SMALL_MOST = 600, PLACES = 33 };

static unsigned char *source, *target, *wanted;

/* ROOM bytes between two pages that may not be touched. */
static unsigned char *between_guards(void) {
    char *p = (char *)mmap(NULL, ROOM + 2 * 65536, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(p != MAP_FAILED && mprotect(p + 65536, ROOM, PROT_READ | PROT_WRITE) == 0, "mmap");
    return (unsigned char *)p + 65536;
}

static void fill(unsigned char *p, size_t bytes, unsigned seed) {
    for (size_t i = 0; i < bytes; i++) p[i] = (unsigned char)(seed + i * 7 + (i >> 8));
}

/* Compares target with wanted, a little beyond the piece as well. */
static void expect(const char *what, size_t at, size_t bytes) {
    size_t from = at > 80 ? at - 80 : 0, to = at + bytes + 80 < ROOM ? at + bytes + 80 : ROOM;
    for (size_t i = from; i < to; i++) {
        CHECK(target[i] == wanted[i], "%s of %zu bytes at %zu: byte %zu is %u, not %u", what, bytes,
              at, i, target[i], wanted[i]);
    }
}

static void copy_one(size_t to, size_t from, size_t bytes) {
    size_t low = to > 80 ? to - 80 : 0, high = to + bytes + 80 < ROOM ? to + bytes + 80 : ROOM;
    fill(target + low, high - low, 3);
    for (size_t i = low; i < high; i++) wanted[i] = target[i];
    for (size_t i = 0; i < bytes; i++) wanted[to + i] = source[from + i];
    CHECK(own_memcpy(target + to, source + from, bytes) == target + to, "memcpy's result");
    expect("memcpy", to, bytes);
    CHECK(own_memcmp(target + to, source + from, bytes) == 0, "memcmp of %zu equal bytes", bytes);
    for (size_t i = 0; i < bytes; i++) wanted[to + i] = 0xc3;
    CHECK(own_memset(target + to, 0x4c3, bytes) == target + to, "memset's result");
    expect("memset", to, bytes);
}

static void move_one(size_t to, size_t from, size_t bytes) {
    size_t high = (to > from ? to : from) + bytes;
    fill(target, high + 80, 5);
    for (size_t i = 0; i < high + 80; i++) wanted[i] = (unsigned char)(5 + i * 7 + (i >> 8));
    for (size_t i = 0; i < bytes; i++)
        wanted[to + i] = (unsigned char)(5 + (from + i) * 7 + ((from + i) >> 8));
    CHECK(own_memmove(target + to, target + from, bytes) == target + to, "memmove's result");
    expect("memmove", to, bytes);
}

static void compare(void) {
    for (size_t bytes = 1; bytes < 40; bytes++) {
        for (size_t at = 0; at < bytes; at++) {
            fill(target, bytes, 9);
            fill(wanted, bytes, 9);
            target[at] = 0xff;
            wanted[at] = 1;
            CHECK(own_memcmp(target, wanted, bytes) > 0, "memcmp, byte %zu of %zu", at, bytes);
            CHECK(own_memcmp(wanted, target, bytes) < 0, "memcmp, byte %zu of %zu", at, bytes);
            CHECK(own_bcmp(wanted, target, bytes) != 0, "bcmp, byte %zu of %zu", at, bytes);
            CHECK(own_memcmp(wanted, target, at) == 0, "memcmp, %zu equal bytes", at);
        }
    }
}

static void each_size(void) {
    for (size_t bytes = 0; bytes <= SMALL_MOST; bytes++) {
        for (size_t place = 0; place < PLACES; place += bytes < 100 ? 1 : 4) {
            copy_one(place, (place * 5 + 1) % PLACES, bytes);
            copy_one(ROOM - bytes - place, ROOM - bytes, bytes);
        }
        copy_one(ROOM - bytes, 0, bytes);
    }
    static const size_t sizes[] = {4096, 100003, STRING_LEAST - 1, STRING_LEAST, STRING_LEAST + 77};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        copy_one(0, 3, sizes[i]);
        copy_one(ROOM - sizes[i], 17, sizes[i]);
        copy_one(13, ROOM - sizes[i], sizes[i]);
    }
}

static void overlaps(void) {
    for (size_t bytes = 0; bytes <= SMALL_MOST; bytes += bytes < 80 ? 1 : 37) {
        for (size_t apart = 0; apart < bytes + 3; apart += apart < 40 ? 1 : 29) {
            move_one(100, 100 + apart, bytes);
            move_one(100 + apart, 100, bytes);
        }
    }
}

int main(void) {
    works_require_loam();
    works_limit(60);
    source = between_guards();
    target = between_guards();
    wanted = between_guards();
    fill(source, ROOM, 1);
    bool wide = lm_cpu_has_wide(), strings = wide && lm_cpu_has_strings();
    for (int way = 0; way < 3; way++) {
        if ((way > 0 && !wide) || (way > 1 && !strings)) break;
        has_wide = way > 0 ? YES : NO;
        has_strings = way > 1 ? YES : NO;
        each_size();
        overlaps();
    }
    compare();
    return 0;
}
