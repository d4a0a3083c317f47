/* paths.c: instructions of a Cortex-M4 that the inline paths take, counted under qemu -icount
 * shift=10.
 *
 * There every instruction is 1024 ns of the board's time, and SysTick, at 25 MHz, has 25.6 ticks
 * for it: the difference of two readings is an exact count. Each path is a function of its own, and
 * an empty function's call is taken off. Fails if a path takes three more than were counted with
 * gcc 12, or if the clock does not tell the same twice. It cannot see cycles: a load that waits
 * counts as one. On a real board the numbers mean nothing.
 */
#include "harness.h"

#include "loam/blocks.h"
#include "loam/pool.h"
#include "loam/region.h"

#define PATH __attribute__((noinline, noclone))
#define SYSTICK \
    ((volatile uint32_t *)0xE000E010) /* control, reload, current value: it counts down */
enum { TICKS_OF_TEN = 256, MOST_TICKS = 0xFFFFFF };

static _Alignas(16) char pool_memory[1024], blocks_memory[2048], region_memory[2048];
static loam_pool pool;
static loam_blocks blocks;
static loam_buffer buffer;
static loam_region region;
static void *given;

PATH static void *no_alloc(void) {
    void *p;
    __asm__ volatile("" : "=r"(p)::"memory"); /* whatever is in the register */
    return p;
}
PATH static void no_free(void *p) { __asm__ volatile("" : : "r"(p) : "memory"); }

PATH static void *pool_alloc(void) { return loam_pool_alloc(&pool); }
PATH static void pool_free(void *p) { loam_pool_free(&pool, p); }
PATH static void *region_alloc(void) { return loam_region_alloc(&region, 24); }
PATH static void region_free(void *p) { loam_region_free(&region, p, 24); }
PATH static void *blocks_alloc(void) { return loam_blocks_alloc(&blocks, 24); }
PATH static void blocks_free(void *p) { loam_blocks_free(&blocks, p); }

static uint32_t tenths(uint32_t before, uint32_t after) {
    return ((before - after) & MOST_TICKS) * 100 / TICKS_OF_TEN;
}

/* Tenths of an instruction, with what a call and two readings cost. */
PATH static uint32_t time_of_alloc(void *(*path)(void)) {
    uint32_t before = SYSTICK[2];
    given = path();
    return tenths(before, SYSTICK[2]);
}
PATH static uint32_t time_of_free(void (*path)(void *), void *p) {
    uint32_t before = SYSTICK[2];
    path(p);
    return tenths(before, SYSTICK[2]);
}

static uint32_t of_alloc(void *(*path)(void)) {
    uint32_t nothing = time_of_alloc(no_alloc);
    return (time_of_alloc(path) - nothing + 5) / 10;
}
static uint32_t of_free(void (*path)(void *), void *p) {
    return (time_of_free(path, p) - time_of_free(no_free, p) + 5) / 10;
}

static void say_number(uint32_t number) {
    char text[12];
    size_t at = sizeof(text);
    for (; at == sizeof(text) || number != 0; number /= 10) text[--at] = (char)('0' + number % 10);
    while (at > sizeof(text) - 5) text[--at] = ' ';
    board_write(text + at, sizeof(text) - at);
}

static void row(const char *name, uint32_t alloc, uint32_t most_alloc, uint32_t release,
                uint32_t most_free) {
    size_t length = 0;
    while (name[length] != '\0') length++;
    board_write(name, length);
    say_number(alloc);
    say_number(release);
    board_write("\n", 1);
    CHECK(alloc >= 3 && alloc <= most_alloc);
    CHECK(release >= 2 && release <= most_free);
}

TEST(paths) {
    static const uint32_t classes[] = {16, 32, 64};
    loam_blocks_options options = {.memory = blocks_memory,
                                   .memory_bytes = sizeof(blocks_memory),
                                   .classes = classes,
                                   .class_count = 3,
                                   .blocks_each = 8};
    loam_region_options of_region = {.first_bytes = 1024};
    loam_buffer_init(&buffer, region_memory, sizeof(region_memory));
    CHECK_EQUAL(loam_pool_init_buffer(&pool, pool_memory, sizeof(pool_memory), 24, NULL), 0);
    CHECK_EQUAL(loam_blocks_init(&blocks, &options), 0);
    CHECK_EQUAL(loam_region_init(&region, &buffer.source, &of_region), 0);
    SYSTICK[1] = MOST_TICKS;
    SYSTICK[2] = 0;
    SYSTICK[0] = 5; /* on, by the processor's clock, no interrupt */
    CHECK_EQUAL(time_of_alloc(no_alloc), time_of_alloc(no_alloc));

    static const char head[] = "instructions           alloc free\n";
    board_write(head, sizeof(head) - 1);
    uint32_t alloc = of_alloc(pool_alloc);
    void *first = given;
    row("pool, fresh block     ", alloc, 11, of_free(pool_free, first), 11);
    alloc = of_alloc(pool_alloc);
    CHECK(given == first);
    row("pool, freed block     ", alloc, 7, of_free(pool_free, first), 11);
    void *below = loam_region_alloc(&region, 24);
    alloc = of_alloc(region_alloc);
    CHECK((char *)given == (char *)below + 32);
    row("region, last object   ", alloc, 11, of_free(region_free, given), 12);
    loam_blocks_free(&blocks, loam_blocks_alloc(&blocks, 24));
    alloc = of_alloc(blocks_alloc);
    CHECK(given != NULL);
    row("static blocks         ", alloc, 12, of_free(blocks_free, given), 120);
}
