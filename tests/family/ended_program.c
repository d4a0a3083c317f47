/* ended_program.c: uses an object after its allocator has ended, been reset, trimmed or rewound, or
 * after the object was given back; ended_test.cc runs it under memory tools.
 *
 *     ended_program [few]      every form there is: {source x kind x how it ended x size x which of
 *                              many objects}; few: those over pages and heap, of two sizes
 *
 * AddressSanitizer is asked whether it would report the use, and some forms are child processes,
 * which the tool ends. Valgrind counts its errors. Prints a line for each use that was not seen and
 * each report of what is no mistake, and at the end "N forms". Exits 0 iff there was no such line;
 * 77 without a tool.
 */
#include "family/family.h"
#include "loam/blocks.h"
#include "loam/fifo.h"
#include "loam/pool.h"
#include "loam/region.h"
#include "loam/ring.h"
#include "loam/stack.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#if LM_VALGRIND
#include <valgrind/valgrind.h>
#else
#define VALGRIND_COUNT_ERRORS 0u
#define RUNNING_ON_VALGRIND 0u
#endif

__attribute__((weak)) int __asan_address_is_poisoned(const volatile void *p);

enum { MANY = 20 };

typedef struct form {
    const char *source, *kind, *how;
    size_t bytes;
    int which;
} form_t;

static const char *const sources[] = {"pages", "heap", "reserve", "limit", "count"};
static const char *const kinds[] = {"pool",   "handles", "shared", "blocks", "threads",
                                    "region", "child",   "fifo",   "stack",  "ring"};
static const char *const hows[] = {"end", "reset", "trim", "free", "back"};
static const size_t sizes[] = {24, 5000, 300000};

static bool is(const char *a, const char *b) { return strcmp(a, b) == 0; }

static loam_reserve reserve;
static loam_limit limit;
static loam_count count;

static loam_source *source_of(const form_t *form) {
    if (is(form->source, "heap")) return loam_heap_source();
    if (is(form->source, "limit")) {
        loam_limit_init(&limit, loam_pages(), (size_t)1 << 30);
        return &limit.source;
    }
    if (is(form->source, "count")) {
        loam_count_init(&count, loam_heap_source());
        return &count.source;
    }
    if (!is(form->source, "reserve")) return loam_pages();
    return loam_reserve_init(&reserve, (size_t)1 << 28) == 0 ? &reserve.source : NULL;
}

static loam_pool pool;
static loam_shared_pool shared;
static loam_blocks blocks;
static loam_region *region, *parent;
static loam_region_mark mark;
static loam_fifo fifo;
static loam_stack stack;
static loam_stack_frame frame;
static loam_ring ring;
static loam_ring_frame *ring_frame;

static bool is_pool(const form_t *form) {
    return is(form->kind, "pool") || is(form->kind, "handles");
}
static bool is_blocks(const form_t *form) {
    return is(form->kind, "blocks") || is(form->kind, "threads");
}
static bool is_region(const form_t *form) {
    return is(form->kind, "region") || is(form->kind, "child");
}

static bool begin(const form_t *form) {
    loam_source *source = source_of(form);
    loam_pool_options handles = {.flags = LOAM_POOL_HANDLES};
    loam_blocks_options of_blocks = {.source = source,
                                     .flags = is(form->kind, "threads") ? LOAM_THREADS : 0};
    region = parent = NULL;
    if (source == NULL) return false;
    if (is_pool(form))
        return loam_pool_init(&pool, source, form->bytes,
                              is(form->kind, "pool") ? NULL : &handles) == 0;
    if (is(form->kind, "shared"))
        return loam_shared_pool_init(&shared, source, form->bytes, NULL) == 0;
    if (is_blocks(form)) return loam_blocks_init(&blocks, &of_blocks) == 0;
    if (is(form->kind, "fifo")) return loam_fifo_init(&fifo, source, NULL) == 0;
    if (is(form->kind, "stack")) {
        if (loam_stack_init(&stack, source, NULL) != 0) return false;
        frame = loam_stack_push(&stack);
        return loam_stack_pushed_it(&frame);
    }
    if (is(form->kind, "ring"))
        return loam_ring_init(&ring, source, NULL) == 0 &&
               (ring_frame = loam_ring_open(&ring)) != NULL;
    parent = region = loam_region_create(source, NULL);
    if (region != NULL && is(form->kind, "child")) region = loam_region_create_child(parent, NULL);
    if (region != NULL) mark = loam_region_mark_here(region);
    return region != NULL;
}

static void *alloc(const form_t *form) {
    return is_pool(form)              ? loam_pool_alloc(&pool)
           : is(form->kind, "shared") ? loam_shared_pool_alloc(&shared)
           : is_blocks(form)          ? loam_blocks_alloc(&blocks, form->bytes)
           : is(form->kind, "fifo")   ? loam_fifo_alloc(&fifo, form->bytes)
           : is(form->kind, "stack")  ? loam_stack_alloc(&stack, form->bytes)
           : is(form->kind, "ring")   ? loam_ring_alloc(&ring, form->bytes)
                                      : loam_region_alloc(region, form->bytes);
}

static void release(const form_t *form, void *p) {
    if (is_pool(form)) {
        loam_pool_free(&pool, p);
    } else if (is(form->kind, "shared")) {
        loam_shared_pool_free(&shared, p);
    } else if (is_blocks(form)) {
        loam_blocks_free(&blocks, p);
    } else if (is(form->kind, "fifo")) {
        loam_fifo_free(&fifo, p);
    } else if (is(form->kind, "stack")) {
        loam_stack_free(&stack, p, form->bytes);
    } else if (is(form->kind, "ring")) {
        loam_ring_free(&ring, p, form->bytes);
    } else {
        loam_region_free(region, p, form->bytes);
    }
}

/* false iff the kind has no reset. */
static bool reset(const form_t *form) {
    if (is_pool(form)) {
        loam_pool_reset(&pool);
    } else if (is_blocks(form)) {
        loam_blocks_reset(&blocks);
    } else if (is(form->kind, "stack")) {
        loam_stack_reset(&stack);
    } else if (is_region(form)) {
        loam_region_reset(region);
    } else {
        return false;
    }
    return true;
}

/* All are freed, and unused memory goes back. false iff the kind has no trim. */
static bool trim(const form_t *form, void **objects) {
    if (is(form->kind, "fifo") || is(form->kind, "ring")) return false;
    if (!is_region(form))
        for (int i = MANY - 1; i >= 0; i--) release(form, objects[i]);
    if (is_pool(form)) {
        (void)loam_pool_trim(&pool);
    } else if (is(form->kind, "shared")) {
        (void)loam_shared_pool_trim(&shared);
    } else if (is_blocks(form)) {
        (void)loam_blocks_trim(&blocks);
    } else if (is(form->kind, "stack")) {
        (void)loam_stack_trim(&stack);
    } else {
        loam_region_reset(region);
        (void)loam_region_trim(region);
    }
    return true;
}

/* Back to where all objects are newer. */
static bool back(const form_t *form) {
    if (is_region(form)) {
        loam_region_rewind(region, &mark);
    } else if (is(form->kind, "stack")) {
        loam_stack_pop(&stack, frame);
    } else if (is(form->kind, "ring")) {
        loam_ring_release(&ring, ring_frame);
    } else {
        return false;
    }
    return true;
}

static void end(const form_t *form) {
    if (is_pool(form)) {
        loam_pool_deinit(&pool);
    } else if (is(form->kind, "shared")) {
        loam_shared_pool_deinit(&shared);
    } else if (is_blocks(form)) {
        loam_blocks_deinit(&blocks);
    } else if (is(form->kind, "fifo")) {
        loam_fifo_deinit(&fifo);
    } else if (is(form->kind, "stack")) {
        loam_stack_deinit(&stack);
    } else if (is(form->kind, "ring")) {
        loam_ring_deinit(&ring);
    } else {
        loam_region_destroy(parent);
    }
}

static void use(void *p, size_t bytes) { memset(p, 1, bytes); }

/* Everything that is no mistake. The object that is used too late; NULL iff there is no such
 * form. */
static volatile char *prepare(const form_t *form, bool *ended) {
    void *objects[MANY];
    if (!begin(form)) return NULL;
    for (int i = 0; i < MANY; i++) {
        objects[i] = alloc(form);
        if (objects[i] == NULL) return NULL;
        use(objects[i], form->bytes);
    }
    char *p = (char *)objects[form->which];
    bool done = true;
    *ended = is(form->how, "end");
    if (is(form->how, "free")) {
        release(form, p);
    } else if (is(form->how, "reset")) {
        done = reset(form);
    } else if (is(form->how, "trim")) {
        done = trim(form, objects);
    } else if (is(form->how, "back")) {
        done = back(form);
    } else {
        end(form);
    }
    if (!done) end(form);
    if (!done && is(form->source, "reserve")) loam_reserve_deinit(&reserve);
    return done ? p + form->bytes / 2 : NULL;
}

/* What is got anew is nobody else's, whatever was hidden before. */
static void clean(const form_t *form, bool ended) {
    if (!ended) end(form);
    for (int i = 0; i < 3; i++) {
        size_t got;
        void *chunk = loam_source_get(loam_pages(), form->bytes, 16, &got);
        if (chunk == NULL) continue;
        use(chunk, got);
        loam_source_put(loam_pages(), chunk, got);
    }
    if (is(form->source, "reserve")) loam_reserve_deinit(&reserve);
}

static unsigned forms, faults;

static void fault(const form_t *form, const char *what) {
    faults++;
    printf("%s: %s over %s, %s, object %d of %zu bytes\n", what, form->kind, form->source,
           form->how, form->which, form->bytes);
    fflush(stdout);
}

/* In this process: AddressSanitizer is asked, Valgrind counts. */
static void try_here(const form_t *form) {
    unsigned before = VALGRIND_COUNT_ERRORS;
    bool ended, seen = false;
    volatile char *p = prepare(form, &ended);
    if (VALGRIND_COUNT_ERRORS != before) fault(form, "false report before");
    if (p == NULL) return;
    forms++;
    if (__asan_address_is_poisoned != NULL) seen = __asan_address_is_poisoned(p) != 0;
    if (RUNNING_ON_VALGRIND) {
        before = VALGRIND_COUNT_ERRORS;
        *p = 2;
        seen = VALGRIND_COUNT_ERRORS != before;
    }
    if (!seen) fault(form, "not seen");
    before = VALGRIND_COUNT_ERRORS;
    clean(form, ended); /* AddressSanitizer would end the program */
    if (VALGRIND_COUNT_ERRORS != before) fault(form, "false report after");
}

enum { NO_FORM = 3, NOT_SEEN = 4, SEEN = 98 };

/* In a child process, which the tool or the system ends. */
static void try_in_child(const form_t *form) {
    (void)fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        bool ended;
        volatile char *p = prepare(form, &ended);
        unsigned before = VALGRIND_COUNT_ERRORS;
        if (p == NULL) _exit(NO_FORM);
        if (freopen("/dev/null", "w", stderr) == NULL) _exit(2);
        *p = 2;
        _exit(VALGRIND_COUNT_ERRORS != before ? SEEN : NOT_SEEN);
    }
    int status = 0, result = -1;
    if (pid >= 0 && waitpid(pid, &status, 0) == pid)
        result = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (result == NO_FORM) return;
    forms++;
    if (result != SEEN && result != 128 + SIGSEGV) fault(form, "not seen");
}

/* What a reservation takes back may be no memory any more: an access would end this process. */
static void try_form(const form_t *form) {
    bool plain = is(form->source, "pages") && form->bytes == sizes[0] && !RUNNING_ON_VALGRIND;
    if (plain || is(form->source, "reserve")) try_in_child(form);
    if (!is(form->source, "reserve")) try_here(form);
}

int main(int argc, char **argv) {
    bool few = argc > 1 && is(argv[1], "few");
    if (!lm_tool_watches()) return 77;
    for (size_t s = 0; s < (few ? 2 : sizeof sources / sizeof *sources); s++) {
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            for (size_t h = 0; h < sizeof hows / sizeof *hows; h++) {
                for (size_t b = 0; b < sizeof sizes / sizeof *sizes; b += few ? 2 : 1) {
                    for (int which = 0; which < MANY; which += MANY - 1) {
                        form_t form = {sources[s], kinds[k], hows[h], sizes[b], which};
                        try_form(&form);
                    }
                }
            }
        }
    }
    printf("%u forms\n", forms);
    return faults == 0 ? 0 : 1;
}
