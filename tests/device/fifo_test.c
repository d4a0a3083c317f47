/* fifo_test.c: FIFOs over a buffer of static memory. */
#include "twin.h"

#include "loam/fifo.h"

enum { PAGE = LOAM_DEBUG ? 2048 : 1024, PAGES = 8, BYTES = PAGE * PAGES };
static _Alignas(PAGE) char memory[BYTES];
static loam_buffer buffer;
static loam_fifo fifo;

static void begin(unsigned flags, const char *name) {
    loam_fifo_options options = {.page_bytes = PAGE, .flags = flags, .name = name};
    loam_buffer_init(&buffer, memory, BYTES);
    CHECK_EQUAL(loam_fifo_init(&fifo, &buffer.source, &options), 0);
}

/* Ends the FIFO; the buffer must be whole again. */
static void end(void) {
    CHECK(loam_fifo_check(&fifo));
    loam_fifo_deinit(&fifo);
    CHECK_EQUAL(buffer.out, 0);
    CHECK(buffer.at == buffer.start);
}

TEST(there_is_no_default_source) {
    CHECK_EQUAL(loam_fifo_init(&fifo, NULL, NULL), -22);
    CHECK(loam_fifo_create(NULL, NULL) == NULL);
}

/* Many times the buffer's bytes go through it, and all of them are zero when they come. */
static void queue(unsigned flags) {
    char *objects[16];
    begin(flags, NULL);
    for (unsigned i = 0; i < 2000; i++) {
        char **object = &objects[i % 16];
        if (i >= 16) {
            CHECK_EQUAL((*object)[0], (char)(i - 16));
            if (flags & LOAM_FIFO_REMOTE) {
                loam_fifo_free_remote(&fifo, *object);
            } else {
                loam_fifo_free(&fifo, *object);
            }
        }
        size_t bytes = 1 + i * 37 % 120;
        char *p = *object = loam_fifo_alloc(&fifo, bytes);
        CHECK(p != NULL && (uintptr_t)p % 16 == 0);
        if (p == NULL) return;
        for (size_t at = 0; at < bytes; at++) {
            if (p[at] != 0) CHECK_EQUAL(p[at], 0);
            p[at] = (char)i;
        }
    }
    end();
}
TEST(a_queue_goes_on_for_ever) { queue(0); }
TEST(one_that_is_freed_from_elsewhere_too) { queue(LOAM_FIFO_REMOTE); }
TEST(one_that_is_checked_too) {
    if (sizeof(void *) == 4 || LOAM_DEBUG) queue(LOAM_CHECK);
}

TEST(exhausted_gives_null_until_a_page_is_empty) {
    begin(0, NULL);
    char *objects[PAGES * PAGE / 100];
    size_t count = 0;
    while (count < sizeof(objects) / sizeof(*objects) &&
           (objects[count] = loam_fifo_alloc(&fifo, 100)) != NULL)
        count++;
    CHECK(count > PAGES * 2);
    CHECK(loam_fifo_alloc(&fifo, 100) == NULL);
    for (size_t i = 0; i < count / 2; i++) loam_fifo_free(&fifo, objects[i]);
    CHECK(loam_fifo_alloc(&fifo, 100) != NULL);
    end();
}

TEST(alignments_and_an_object_with_its_own_page) {
    begin(0, NULL);
    for (size_t align = 1; align <= 256; align *= 2) {
        char *p = loam_fifo_alloc_aligned(&fifo, 5, align);
        CHECK(p != NULL && (uintptr_t)p % align == 0);
        loam_fifo_free(&fifo, p);
    }
    char *p = loam_fifo_alloc(&fifo, 2 * PAGE);
    CHECK(p != NULL);
    p = loam_fifo_realloc(&fifo, p, (size_t)2 * PAGE, 10);
    loam_fifo_free(&fifo, p);
    CHECK(loam_fifo_alloc(&fifo, (size_t)PTRDIFF_MAX - 100) == NULL);
    CHECK(loam_fifo_alloc(&fifo, SIZE_MAX) == NULL);
    volatile size_t half = SIZE_MAX / 2 + 2;
    CHECK(loam_fifo_calloc(&fifo, half, (size_t)2) == NULL);
    end();
}

TEST(mistakes_of_a_checked_one) {
    begin(LOAM_CHECK, "queue");
    void *p = loam_fifo_alloc_at(&fifo, 10, "a.c", 1), *q = loam_fifo_alloc(&fifo, 10);
    loam_fifo_free_at(&fifo, p, "f.c", 2);
    CHECK_ABORTS(loam_fifo_free(&fifo, p), "after its free at f.c:2, allocated at a.c:1");
    CHECK_ABORTS(loam_fifo_free_remote(&fifo, q), "without LOAM_FIFO_REMOTE");
    end();
}
