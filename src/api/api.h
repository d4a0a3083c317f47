/* api.h: what override/ needs in addition to the public headers. */
#ifndef LM_API_H
#define LM_API_H

#include "checks/checks.h"
#include "fheap/fheap.h"
#include "loam/loam.h"
#include "sampling/sampling.h"
#include "survey/survey.h"

#include <errno.h>
#include <stdio.h>

/* In a metered library, libc's functions call loam's public functions, which count. */
#if LOAM_METER && !defined(LM_API_ITSELF)
#define lm_malloc loam_malloc
#define lm_free loam_free
#define lm_free_sized loam_free_sized
#define lm_free_aligned(p, align) ((void)(align), loam_free(p))
#define lm_free_aligned_sized loam_free_aligned_sized
#define lm_malloc_aligned loam_malloc_aligned
#endif

/* As loam_calloc, but bytes after the requested ones are left as they are. */
void *lm_libc_calloc(size_t count, size_t size);

/* Returns the text of a program's loam_config, given its address. The text is what loam_config
 * points to; if loam_config is an array of characters, which only the header forbids, it is the
 * array. May return NULL. */
const char *lm_options_text(const void *config);

/* Returns the text of this program's loam_config, or NULL iff it has none. All modules must be
 * relocated. */
const char *lm_program_options(void);

/* Tells an error handler that `count` objects of `size` bytes each are more than there can be. Sets
 * errno to ENOMEM and returns NULL. */
void *lm_array_refused(size_t count, size_t size);

/* Sets errno and returns NULL. */
LM_INLINE void *lm_failed(int error) {
    errno = error;
    return NULL;
}

/* Reads the program's string (loam/options.h) and LOAM_*, and applies them. Both arguments may be
 * NULL. */
void lm_options_read(const char *config, char **environment);

/* Applies the environment's settings for glibc's malloc (glibc.c). If `aloud`, prints what became
 * of each instead. */
void lm_glibc_read(char **environment, bool aloud);

/* Sets LIMIT_SOFT and LIMIT_HARD in bytes; 0: no limit. Returns false and sets nothing iff the
 * values are invalid. */
bool lm_options_limit(size_t soft, size_t hard);

/* Returns the name of an option as the source that has set it writes it, for messages:
 * "LOAM_PURGE_DELAY", "loam_config: purge_delay". */
lm_line_t lm_option_called(const char *name);

/* Requests that something is printed at exit (at_exit.c). May be called again. */
void lm_at_exit_wanted(void);
/* Registers the handler of exit that prints, with libc's __cxa_atexit. Called before any
 * constructor runs, if something may be printed. */
typedef int lm_at_exit_t(void (*function)(void *), void *argument, void *module);
void lm_at_exit_first(lm_at_exit_t *at_exit);

/* Reserves the memory that options request. Called before main, after lm_options_read. */
void lm_options_reserve(void);

typedef struct lm_at_start {
    size_t pages_1g, pages_2m; /* number of huge pages of 1 GiB and of 2 MiB */
    /* NUMA node of the huge pages; LM_NODE_ANY: all nodes in turn. */
    int node;
    size_t timeout_ms;
    size_t bytes; /* bytes of ordinary memory */
} lm_at_start_t;
void lm_arenas_at_start(const lm_at_start_t *want);

/* Defined in the file of the constructor that calls it. Code that refers to it has that file
 * linked. */
extern LM_HIDDEN const char lm_force_constructor;

/* Statistics of the whole process. */
typedef struct lm_stats {
    lm_span_stats_t span;
    lm_heap_stats_t heap;
} lm_stats_t;

void lm_stats_take(lm_stats_t *stats);

/* Returns "release", "debug" or "secure". */
LM_INLINE const char *lm_build_name(void) {
    return LOAM_DEBUG ? "debug" : LOAM_SECURE ? "secure" : "release";
}

/* Starts the clock of elapsed time. Called once, when the library starts. */
void lm_stats_begin(void);

/* Returns "ok" for 0, otherwise "not freed". */
const char *lm_stats_verdict(uint64_t in_use);

/* Receives a text piece by piece. */
typedef void lm_sink_t(void *context, const char *text, size_t length);

/* Writes the statistics as a JSON object, in lines of less than LM_LINE_BYTES. */
void lm_stats_write_json(const loam_stats_t *stats, lm_sink_t *sink, void *context);

/* Prints the statistics as a JSON object at exit, as lm_print does. */
void lm_stats_print_json(void);

/* Writes the document of malloc_info: sizes by class, and totals. Returns 0, or -1 iff the stream
 * failed. */
int lm_stats_write_xml(FILE *stream);

#endif
