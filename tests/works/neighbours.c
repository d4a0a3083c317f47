/*
 * neighbours.c - a large block grows where the program has mapped something of its own right
 * behind the heap.
 *
 * Catches: a realloc that extends the heap in place without asking whether the addresses behind it
 * are free, and takes the stranger's pages for the block's; one that steps over the stranger for
 * new memory, and then counts the stranger as part of what has grown together.
 *
 * Several times over: a mapping of the program's own is put at the first free address behind the
 * block, filled, and the block grown past it.
 */
#include "works.h"

enum { strangers = 4, stranger_bytes = 1024 * 1024, step_mib = 40 };

/* The end of the mapped range that p lies in; 0 where there is none. */
static uintptr_t mapped_end(const void *p) {
    static char text[1 << 20];
    ssize_t n = works_read_file("/proc/self/maps", text, sizeof text);
    CHECK(n > 0 && n < (ssize_t)sizeof text - 1, "/proc/self/maps: %zd bytes", n);
    uintptr_t end = 0;
    for (char *line = text; *line; line = strchr(line, '\n') + 1) {
        char *after;
        uintptr_t from = (uintptr_t)strtoull(line, &after, 16);
        uintptr_t to = (uintptr_t)strtoull(after + 1, NULL, 16);
        if (((uintptr_t)p >= from && (uintptr_t)p < to) || (end && from == end)) end = to;
    }
    return end;
}

int main(void) {
    works_require_loam();
    works_limit(60);
    char *stranger[strangers];
    size_t bytes = step_mib * WORKS_MIB;
    char *block = malloc(bytes);
    CHECK(block != NULL, "malloc of %zu bytes", bytes);
    works_fill(block, bytes, 1);
    for (int i = 0; i < strangers; i++) {
        uintptr_t end = mapped_end(block);
        CHECK(end != 0, "the block %p is in no mapping", (void *)block);
        stranger[i] = mmap((void *)end, stranger_bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (stranger[i] != (char *)end) SKIP("nothing can be mapped behind the heap");
        works_fill(stranger[i], stranger_bytes, (uint64_t)i + 100);

        size_t more = bytes + step_mib * WORKS_MIB;
        char *grown = realloc(block, more);
        CHECK(grown != NULL, "realloc from %zu to %zu bytes", bytes, more);
        CHECK((uintptr_t)grown + more <= end || (uintptr_t)grown >= end + stranger_bytes,
              "the block %p of %zu bytes lies over the program's own mapping at %p", (void *)grown,
              more, (void *)stranger[i]);
        CHECK(works_filled(grown, bytes, 1), "realloc past a stranger changed the contents");
        block = grown;
        bytes = more;
        works_fill(block, bytes, 1);
        works_exercise((uint64_t)i + 1, 300);
        for (int k = 0; k <= i; k++)
            CHECK(works_filled(stranger[k], stranger_bytes, (uint64_t)k + 100),
                  "the program's own mapping %d at %p was written to", k, (void *)stranger[k]);
    }
    CHECK(works_filled(block, bytes, 1), "the block's contents changed");
    free(block);
    malloc_trim(0); /* what goes back is the heap's alone */
    for (int k = 0; k < strangers; k++) {
        CHECK(works_filled(stranger[k], stranger_bytes, (uint64_t)k + 100),
              "giving memory back took the program's own mapping %d at %p", k, (void *)stranger[k]);
        CHECK(munmap(stranger[k], stranger_bytes) == 0, "munmap: %s", strerror(errno));
    }
    works_exercise(77, 1000);
    return 0;
}
