/*
 * sampling_found.c - loam works when every allocation is sampled: a write of one byte or a few
 * behind an object's last one is found, whichever function made the object and whatever size it had
 * before.
 *
 *   form x size before x size x bytes past the end x seed
 *
 * Catches: room to grow that realloc leaves behind an object, and that a write too far falls into;
 * a usable size above the requested one; a resize in place that hides what was overwritten before
 * it.
 *
 * The program starts itself with LOAM_GUARD_SAMPLING_EXACT=1 and, so that it goes on after a
 * report, LOAM_ON_ERROR=ignore; it counts the reports.
 */
#include "works.h"

#include <loam/heap.h>
#include <loam/malloc.h>
#include <loam/sampling.h>

enum { rounds = 200 };
static const size_t sizes[] = {1,   7,    16,   17,   31,   100,  102,  111,   129,  200,
                               500, 1000, 1003, 1100, 2047, 4095, 4097, 10000, 30001};
enum { size_count = sizeof sizes / sizeof *sizes };

static size_t found(void) {
    loam_sampling_numbers now;
    loam_sampling_get(&now);
    return now.found;
}

/* ---- Forms: an object of `bytes`, perhaps from one of `before` ---- */

/* Compilers know which functions free what malloc gave, and that is more than is true of loam. */
static void *hidden(void *p) {
    __asm__ volatile("" : "+r"(p) : : "memory");
    return p;
}

static char *take(size_t before) {
    char *p = hidden(malloc(before));
    memset(p, 1, before);
    return p;
}

static void *by_malloc(size_t before, size_t bytes) { return (void)before, malloc(bytes); }
static void *by_calloc(size_t before, size_t bytes) { return (void)before, calloc(1, bytes); }
static void *by_realloc(size_t before, size_t bytes) { return realloc(take(before), bytes); }
static void *by_realloc_null(size_t before, size_t bytes) {
    return (void)before, realloc(NULL, bytes);
}
static void *by_steps(size_t before, size_t bytes) { /* as a program that appends */
    char *p = take(before);
    for (size_t at = before; at < bytes; at += at / 16 + 1) p = realloc(p, at);
    return realloc(p, bytes);
}
static void *by_reallocarray(size_t before, size_t bytes) {
    return reallocarray(take(before), 1, bytes);
}
static void *by_reallocf(size_t before, size_t bytes) { return loam_reallocf(take(before), bytes); }
static void *by_recalloc(size_t before, size_t bytes) {
    return loam_recalloc(hidden(loam_zalloc(before)), 1, bytes);
}
static void *by_aligned(size_t before, size_t bytes) {
    return memalign((size_t)16 << before % 5, bytes);
}
static void *by_realloc_aligned(size_t before, size_t bytes) {
    return loam_realloc_aligned(hidden(memalign(64, before)), bytes, 64);
}
static void *by_recalloc_aligned(size_t before, size_t bytes) {
    return loam_recalloc_aligned(hidden(loam_zalloc_aligned(before, 32)), 1, bytes, 32);
}
static void *by_usable_size(size_t before,
                            size_t bytes) { /* as a program that uses what there is */
    char *p = realloc(take(before), bytes);
    size_t usable = malloc_usable_size(p);
    CHECK(usable == bytes, "%zu B usable of %zu, which were %zu", usable, bytes, before);
    return p;
}
static void *by_expand(size_t before, size_t bytes) {
    char *p = take(before);
    if (loam_expand(p, bytes) != NULL) return p;
    CHECK(before < bytes, "%zu B were not made %zu where they are", before, bytes);
    return realloc(p, bytes);
}
static void *by_strdup(size_t before, size_t bytes) {
    char text[40000];
    memset(text, 'x', bytes);
    text[bytes - 1] = 0;
    return (void)before, strdup(text);
}
static void *by_memdup(size_t before, size_t bytes) {
    char text[40000] = "";
    return (void)before, loam_memdup(text, bytes);
}

static const struct {
    const char *name;
    void *(*make)(size_t before, size_t bytes);
} forms[] = {
    {"malloc", by_malloc},
    {"calloc", by_calloc},
    {"realloc", by_realloc},
    {"realloc of NULL", by_realloc_null},
    {"realloc in steps", by_steps},
    {"reallocarray", by_reallocarray},
    {"reallocf", by_reallocf},
    {"recalloc", by_recalloc},
    {"memalign", by_aligned},
    {"realloc_aligned", by_realloc_aligned},
    {"recalloc_aligned", by_recalloc_aligned},
    {"malloc_usable_size", by_usable_size},
    {"expand", by_expand},
    {"strdup", by_strdup},
    {"memdup", by_memdup},
};
enum { form_count = sizeof forms / sizeof *forms };

/* ---- Mistakes ---- */

static void one(size_t form, uint64_t *seed) {
    size_t before = sizes[works_random(seed) % size_count];
    size_t bytes = sizes[works_random(seed) % size_count];
    size_t past = works_random(seed) % 3 == 0 ? 1 + works_random(seed) % 40 : 1;
    if (works_random(seed) % 2 == 0) bytes = before + works_random(seed) % (before / 8 + 2);
    if (works_random(seed) % 4 == 0) before += before / 8;
    const char *name = forms[form].name;
    char *p = hidden(forms[form].make(before, bytes));
    CHECK(p != NULL, "%s of %zu B from %zu", name, bytes, before);
    CHECK(loam_sampling_holds(p), "%s of %zu B from %zu is not sampled", name, bytes, before);
    CHECK(malloc_usable_size(p) == bytes, "%s of %zu B from %zu: %zu usable", name, bytes, before,
          malloc_usable_size(p));
    memset(p, 2, bytes);
    size_t had = found();
    if (works_random(seed) % 4 == 0) { /* what fits is no mistake */
        free(p);
        CHECK(found() == had, "%s of %zu B from %zu: a report for nothing", name, bytes, before);
        return;
    }
    ((volatile char *)p)[bytes + past - 1] = 3;
    switch (works_random(seed) % 3) {
    case 0: free(p); break;
    case 1: free(realloc(p, bytes + 1)); break;
    default:
        if (loam_expand(hidden(p), bytes - bytes / 4) == NULL)
            works_say("a smaller one does not fit");
        free(p);
    }
    CHECK(found() > had, "%s of %zu B from %zu: a write %zu B past the end was not found", name,
          bytes, before, past);
}

int main(int count, char **arguments) {
    works_require_loam();
    works_limit(60);
    if (count > 1) {
        uint64_t seed = strtoull(arguments[1], NULL, 10);
        for (int i = 0; i < rounds; i++)
            for (size_t form = 0; form < form_count; form++) one(form, &seed);
        return 0;
    }
    static char text[1 << 16];
    char seed[24];
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)works_now_ms());
    char *run[] = {(char *)works_self(), seed, NULL};
    char rate[] = "LOAM_GUARD_SAMPLING=1", exact[] = "LOAM_GUARD_SAMPLING_EXACT=1";
    char on[] = "LOAM_ON_ERROR=ignore", quiet[] = "LOAM_SHOW_ERRORS=0";
    char *environment[] = {rate, exact, on, quiet, NULL};
    int status = works_capture(run[0], run, environment, 2, text, sizeof text);
    works_expect_ok(WIFEXITED(status) ? 0 : status, "the child");
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "seed %s: %s", seed, text);
    return 0;
}
