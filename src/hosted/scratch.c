/* scratch.c: parts of regions that need an operating system: two scratch regions per thread, file
 * descriptors as cleanups, and formatted strings (loam/region.h).
 *
 *   pair ── region 0, region 1        made at the thread's first use, ended with the thread
 *
 * Two suffice, however deep calls nest: a function that has temporary objects and puts its result
 * into a region of its caller needs one region that differs from the caller's, and never a third.
 */
/* The calls below are made on behalf of the program, so they are metered. */
#undef LOAM_METER_HOOKS
#define LOAM_METER_HOOKS 1
#include "hosted/format.h"
#include "os/os.h"

#include "family/family.h"
#include "loam/region.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct scratch_pair {
    loam_region *regions[2];
    bool known; /* a hook runs when the thread ends */
} scratch_pair_t;

static LM_TLS scratch_pair_t pair;

/* A destructor that runs later may begin scratch again; the hook then runs in another round. */
static bool scratch_thread_ended(void *value, unsigned rounds) {
    scratch_pair_t *of = (scratch_pair_t *)value;
    (void)rounds;
    for (int i = 0; i < 2; i++) {
        loam_region_destroy(of->regions[i]);
        of->regions[i] = NULL;
    }
    of->known = false;
    return false;
}

static loam_region *scratch_make(int i) {
    const loam_region_options options = {.first_bytes = 64 * LM_KIB};
    LM_ASSERT(pair.regions[i] == NULL);
    if (!pair.known) pair.known = lm_thread_on_exit(scratch_thread_ended, &pair);
    return pair.regions[i] = loam_region_create(loam_pages(), &options);
}

loam_scratch loam_scratch_begin(const loam_region *conflict) {
    int i = conflict != NULL && conflict == pair.regions[0];
    loam_region *region = pair.regions[i];
    if (LM_UNLIKELY(region == NULL)) region = scratch_make(i);
    if (LM_UNLIKELY(region == NULL)) return (loam_scratch){0};
    LM_ASSERT(region != conflict);
    return (loam_scratch){region, loam_region_mark_here(region)};
}

void loam_scratch_end(const loam_scratch *scratch) {
    if (LM_LIKELY(scratch->region != NULL)) loam_region_rewind(scratch->region, &scratch->mark);
}

/* ---- Files ---- */

static void close_fd(void *argument) { (void)close((int)(intptr_t)argument); }

loam_region_cleanup *loam_region_close_fd(loam_region *region, int fd) {
    return loam_region_add_cleanup(region, close_fd, (void *)(intptr_t)fd);
}

/* ---- Formatted strings ---- */

static void *scratch_get_text(void *region, size_t bytes, const char *file, unsigned line) {
    return loam_region_alloc_aligned_at((loam_region *)region, bytes, 1, file, line);
}

char *loam_region_sprintf_at(loam_region *region, const char *file, unsigned line,
                             const char *format, ...) {
    va_list args;
    va_start(args, format);
    char *text = lm_format(scratch_get_text, region, file, line, format, args);
    va_end(args);
    return text;
}

char *loam_region_appendf_at(loam_region *region, char *text, size_t *length, const char *file,
                             unsigned line, const char *format, ...) {
    char few[128], *longer = NULL;
    size_t old = text == NULL ? 0 : length != NULL ? *length : strlen(text);
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int more = vsnprintf(few, sizeof(few), format, args);
    size_t bytes = old + (size_t)more + 1;
    if (more >= 0)
        longer = (char *)(text == NULL ? scratch_get_text(region, bytes, file, line)
                                       : loam_region_realloc_aligned_at(region, text, old + 1,
                                                                        bytes, 1, file, line));
    if (longer != NULL) {
        if ((size_t)more < sizeof(few))
            memcpy(longer + old, few, (size_t)more + 1);
        else
            (void)vsnprintf(longer + old, (size_t)more + 1, format, again);
        if (length != NULL) *length = bytes - 1;
    }
    va_end(again);
    va_end(args);
    return longer;
}
