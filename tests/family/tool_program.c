/* tool_program.c: makes one mistake with an object of one allocator, or none; tool_test.cc runs it
 * under memory tools.
 *
 *     tool_program guard|pool|handles|buffer|shared|blocks|threads|static|large|region|big|child|
 *                  fifo|own|remote|stack|frame|ring none|MISTAKE
 *     tool_program heaps none
 *     MISTAKE: unset, past, before, freed, reset, ended; all of them, each behind a line with its
 *              name; foreign
 *
 * Exits 0 after no mistake of its own; what a tool makes of the others is the tool's business.
 * Prints whether loam takes itself for watched. All but guard are not checked: a tool sees their
 * objects all the same.
 */
#include "family/family.h"
#include "loam/blocks.h"
#include "loam/fifo.h"
#include "loam/heap.h"
#include "loam/malloc.h"
#include "loam/pool.h"
#include "loam/region.h"
#include "loam/ring.h"
#include "loam/stack.h"

#include <stdio.h>
#include <string.h>

enum { BYTES = 40, LARGE = 300000 };

static const char *allocator;
static size_t bytes = BYTES;
static loam_pool pool;
static loam_shared_pool shared;
static loam_blocks blocks;
static loam_region *region, *parent;
static loam_fifo fifo;
static loam_stack stack;
static loam_stack_frame of_stack;
static loam_ring ring;
static loam_ring_frame *of_ring;
static LM_ALIGNED(64) char memory[1 << 20];

static bool is(const char *name) { return strcmp(allocator, name) == 0; }
static bool is_pool(void) { return is("pool") || is("handles") || is("buffer"); }
static bool is_fifo(void) { return is("fifo") || is("own") || is("remote"); }
static bool is_stack(void) { return is("stack") || is("frame"); }
static bool is_blocks(void) { return is("blocks") || is("threads") || is("static") || is("large"); }

/* ---- An object of guard.c, by itself ---- */

static void no_usage(const loam_entry *entry, loam_usage *usage) { (void)entry, (void)usage; }
static bool check(const loam_entry *entry) { return lm_guard_check(entry); }
static const loam_kind kind = {"thing", no_usage, check, NULL};
static loam_entry entry;
static void *raw;
static size_t got;

static void *guard_alloc(void) {
    void *p = loam_source_get(loam_pages(), lm_guard_whole(bytes, 16), 16, &got);
    if (raw == NULL) raw = p;
    return p != NULL ? lm_guard_open(&entry, p, got, bytes, 16, "made.c", 1) : NULL;
}
static void guard_free(void *p) {
    loam_tag *tag = lm_guard_find(&entry, p, "free", NULL, 0);
    if (tag != NULL) (void)lm_guard_close(&entry, tag, NULL, 0);
}
static void guard_end(void) {
    lm_guard_drop_all(&entry);
    lm_entry_deinit(&entry);
    /* As an allocator does it: what goes back is nobody's object any more. */
    lm_tool_show_undefined(raw, got);
    memset(raw, 0, got);
    loam_source_put(loam_pages(), raw, got);
}

/* ---- Any allocator ---- */

static bool begin(void) {
    loam_pool_options handles = {.flags = LOAM_POOL_HANDLES, .name = "box"},
                      plain = {.name = "box"};
    loam_blocks_options threads = {.flags = LOAM_THREADS}, heap = {.name = "box"};
    loam_blocks_options fixed = {.memory = memory, .memory_bytes = sizeof memory};
    loam_fifo_options raw_fifo = {.flags = LOAM_FIFO_RAW | LOAM_FIFO_REMOTE};
    if (is("guard")) lm_entry_init(&entry, &kind, "box", true);
    if (is("pool")) return loam_pool_init(&pool, NULL, BYTES, &plain) == 0;
    if (is("handles")) return loam_pool_init(&pool, NULL, BYTES, &handles) == 0;
    if (is("buffer"))
        return loam_pool_init_buffer(&pool, memory, sizeof memory, BYTES, &plain) == 0;
    if (is("shared")) return loam_shared_pool_init(&shared, NULL, BYTES, NULL) == 0;
    if (is("large") || is("big") || is("own")) bytes = LARGE;
    if (is_fifo()) return loam_fifo_init(&fifo, NULL, &raw_fifo) == 0;
    if (is("blocks") || is("large")) return loam_blocks_init(&blocks, &heap) == 0;
    if (is("threads")) return loam_blocks_init(&blocks, &threads) == 0;
    if (is("static")) return loam_blocks_init(&blocks, &fixed) == 0;
    if (is("region") || is("big")) return (region = loam_region_create(NULL, NULL)) != NULL;
    if (is("child")) {
        parent = loam_region_create(NULL, NULL);
        return parent != NULL && (region = loam_region_create_child(parent, NULL)) != NULL;
    }
    if (is_stack()) {
        if (loam_stack_init(&stack, NULL, NULL) != 0) return false;
        if (is("frame")) of_stack = loam_stack_push(&stack);
        return is("stack") || loam_stack_pushed_it(&of_stack);
    }
    if (is("ring"))
        return loam_ring_init(&ring, NULL, NULL) == 0 && (of_ring = loam_ring_open(&ring)) != NULL;
    return is("guard");
}

static void *alloc(void) {
    return is("guard")    ? guard_alloc()
           : is_pool()    ? loam_pool_alloc(&pool)
           : is("shared") ? loam_shared_pool_alloc(&shared)
           : is_blocks()  ? loam_blocks_alloc(&blocks, bytes)
           : is_fifo()    ? loam_fifo_alloc(&fifo, bytes)
           : is_stack()   ? loam_stack_alloc(&stack, bytes)
           : is("ring")   ? loam_ring_alloc(&ring, bytes)
                          : loam_region_alloc(region, bytes);
}

static void release(void *p) {
    if (is("guard")) {
        guard_free(p);
    } else if (is_pool()) {
        loam_pool_free(&pool, p);
    } else if (is("shared")) {
        loam_shared_pool_free(&shared, p);
    } else if (is_blocks()) {
        loam_blocks_free(&blocks, p);
    } else if (is("remote")) {
        loam_fifo_free_remote(&fifo, p);
        if (lm_is_checked(0)) loam_fifo_collect(&fifo); /* guards are looked at till then */
    } else if (is_fifo()) {
        loam_fifo_free(&fifo, p);
    } else if (is_stack()) {
        loam_stack_free(&stack, p, bytes);
    } else if (is("ring")) {
        loam_ring_free(&ring, p, bytes);
    } else {
        loam_region_free(region, p, bytes);
    }
}

static void reset(void) {
    if (is_pool()) loam_pool_reset(&pool);
    if (is_blocks()) loam_blocks_reset(&blocks);
    if (is("stack")) loam_stack_reset(&stack);
    if (is("frame")) loam_stack_pop(&stack, of_stack);
    if (is("ring")) loam_ring_release(&ring, of_ring);
    if (region != NULL) loam_region_reset(region);
}

static void end(void) {
    if (is("guard")) guard_end();
    if (is_pool()) loam_pool_deinit(&pool);
    if (is("shared")) loam_shared_pool_deinit(&shared);
    if (is_blocks()) loam_blocks_deinit(&blocks);
    if (is_fifo()) loam_fifo_deinit(&fifo);
    if (is_stack()) loam_stack_deinit(&stack);
    if (is("ring")) loam_ring_deinit(&ring);
    loam_region_destroy(parent != NULL ? parent : region);
}

static const char *what;

/* Whether this mistake is to be made: by itself, or as one of all, each behind its name. */
static bool makes(const char *mistake) {
    if (strcmp(what, "all") != 0) return strcmp(what, mistake) == 0;
    bool exact = is("buffer") || is("static"); /* without redzones, in memory of the program */
    if (exact && (strcmp(mistake, "past") == 0 || strcmp(mistake, "before") == 0 ||
                  strcmp(mistake, "ended") == 0))
        return false;
    printf("[%s]\n", mistake);
    fflush(stdout);
    return true;
}

/* First-class heaps end with allocators that lie in them and have hidden parts of their memory. It
 * comes again, and is the program's. Returns an exit status. */
static int heaps_end(void) {
    static void *kept[500];
    for (unsigned round = 0; round < 4; round++) {
        loam_heap *heap = loam_heap_create(), *before;
        if (heap == NULL || loam_heap_set_default(heap, &before) != 0) return 2;
        loam_region *in_heap = loam_region_create(loam_heap_source(), NULL);
        loam_pool_options large_chunks = {.first_blocks = 3000};
        if (in_heap == NULL) return 2;
        if (loam_pool_init(&pool, loam_heap_source(), BYTES, &large_chunks) != 0) return 2;
        for (size_t i = 1; i < 300; i++) {
            void *p = loam_region_alloc(in_heap, i * 7), *q = loam_pool_alloc(&pool);
            if (p == NULL || q == NULL) return 2;
            if (i % 3 == 0) loam_pool_free(&pool, q);
        }
        if (round % 2 == 1) loam_region_reset(in_heap);
        if (loam_heap_set_default(before, NULL) != 0) return 2;
        loam_heap_destroy(heap);
        for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
            size_t size = (i + 1) * 499 % 90000 + 1;
            loam_free(kept[i]);
            if ((kept[i] = loam_malloc(size)) == NULL) return 2;
            memset(kept[i], 1, size);
        }
    }
    return 0;
}

int main(int argc, char **argv) {
    allocator = argc > 2 ? argv[1] : "none";
    what = argc > 2 ? argv[2] : "none";
    printf("watched: %s\n", lm_tool_watches() ? "yes" : "no");
    fflush(stdout);

    /* Checked allocators are in the registry, and must not end without a word. */
    if (is("heaps")) return lm_is_checked(0) ? 0 : heaps_end();
    if (!begin()) return 2;
    void *first = alloc();
    volatile char *p = (volatile char *)alloc(), *next = (volatile char *)alloc();
    if (first == NULL || p == NULL || next == NULL) return 2;
    int result = 0;
    if (makes("unset") && p[8] == 1) puts("one");
    for (size_t i = 0; i < bytes; i++) p[i] = next[i] = 1;
    /* With what is there in a guard, and in a freed object: mistakes that loam itself cannot
     * see. */
    if (makes("past")) p[bytes] = (char)0xE7;
    if (makes("before")) p[-1] = (char)0xE7;
    if (makes("end of use")) {}
    if (strcmp(what, "foreign") == 0) release(memory + sizeof memory - 4096);
    if (next[0] != 1) result = 4;
    release((void *)p);
    if (makes("freed")) p[20] = (char)0xDD;
    if (!is("guard") && !is("shared") && !is_fifo() && makes("reset")) {
        reset();
        next[20] = 1;
    }
    if (makes("end of all")) {}
    end();
    if (makes("ended")) next[20] = 1;
    /* Where objects lay in the program's own memory, they may be touched again. */
    if (is("buffer") || is("static")) memset(memory, 0, sizeof memory);
    return result;
}
