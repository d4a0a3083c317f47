/*
 * address_layout.c - other layouts of the address space: randomisation off, the bottom-up layout,
 * an unlimited stack; and a program that maps pages of its own next to loam's.
 *
 * Catches: an allocator that takes addresses it has not asked for (overwriting a mapping of the
 * program, the stack or the break), that needs a hole where this layout has none, or that gives up
 * when the place after its last mapping is taken.
 *
 * The program starts itself under each layout (by personality) and there allocates 300 MiB,
 * putting pages of its own right behind loam's blocks at growing distances, and in the end looks
 * whether each is as it was.
 */
#include "works.h"

#include <sys/personality.h>
#include <sys/resource.h>

enum { blocks = 300, neighbours = 512, break_bytes = 8 * 1024 * 1024 };

/* Maps one page at exactly this place if nothing is there. */
static unsigned char *map_at(uintptr_t place) {
    void *page = mmap((void *)place, 4096, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (page == MAP_FAILED) return NULL;
    if ((uintptr_t)page == place) return page;
    munmap(page, 4096);
    return NULL;
}

static int child(void) {
    static const uintptr_t steps[] = {4096, 65536, 1 << 20, 1 << 21, 1 << 25, 1 << 28};
    static unsigned char *page[neighbours];
    static works_block *block[blocks];
    size_t pages = 0;
    uint64_t seed = 17;
    works_limit(60);
    char *break_start = sbrk(break_bytes);
    CHECK(break_start != (void *)-1, "sbrk: %s", strerror(errno));
    works_fill(break_start, break_bytes, 3);

    for (size_t i = 0; i < blocks; i++) {
        block[i] = works_block_new(
            i % 50 == 0 ? 4 * WORKS_MIB : WORKS_MIB / 2 + works_random_size(&seed), i);
        works_exercise(seed, 10);
        for (size_t s = 0; s < sizeof steps / sizeof steps[0] && pages < neighbours; s++) {
            /* the next multiple of the step behind the block */
            uintptr_t place =
                ((uintptr_t)block[i] + block[i]->bytes + steps[s]) / steps[s] * steps[s];
            unsigned char *mine = map_at(place);
            if (!mine) continue;
            works_fill(mine, 4096, pages);
            page[pages++] = mine;
        }
    }
    CHECK(pages >= 4, "only %zu pages could be put beside loam's: nothing is tested", pages);
    char *huge = malloc(2048 * WORKS_MIB); /* addresses only */
    CHECK(huge != NULL, "malloc(2 GiB)");
    huge[0] = huge[2048 * WORKS_MIB - 1] = 1;
    free(huge);
    for (size_t i = 0; i < blocks; i++) {
        works_block_free(block[(i * 7) % blocks]);
    }
    works_sleep_ms(500); /* what is given back must be loam's own, too */
    works_exercise(seed, 2000);
    for (size_t i = 0; i < pages; i++)
        CHECK(works_filled(page[i], 4096, i), "the program's own page at %p was overwritten",
              (void *)page[i]);
    CHECK(works_filled(break_start, break_bytes, 3), "memory from sbrk was overwritten");
    return 0;
}

static void run(const char *what, unsigned long layout, bool unlimited_stack) {
    const char *self = works_self();
    pid_t pid = fork();
    CHECK(pid >= 0, "fork: %s", strerror(errno));
    if (pid == 0) {
        if (personality(layout) == -1 || (unsigned long)personality(0xffffffff) != layout)
            _exit(77);
        struct rlimit unlimited = {RLIM_INFINITY, RLIM_INFINITY};
        if (unlimited_stack && setrlimit(RLIMIT_STACK, &unlimited) != 0) _exit(77);
        execl(self, self, "--child", (char *)NULL);
        _exit(126);
    }
    int status = works_wait(pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        SKIP("this system does not allow the layout '%s'", what);
    works_expect_ok(status, what);
}

int main(int argc, char **argv) {
    works_require_loam();
    if (argc > 1 && strcmp(argv[1], "--child") == 0) return child();
    run("as it is", 0, false);
    for (int i = 0; i < 2; i++) run("randomisation off", ADDR_NO_RANDOMIZE, false);
    run("bottom-up", ADDR_COMPAT_LAYOUT, false);
    run("bottom-up, randomisation off", ADDR_COMPAT_LAYOUT | ADDR_NO_RANDOMIZE, false);
    run("unlimited stack", 0, true);
    return 0;
}
