/* api.h: what override/ needs beyond the public headers. */
#ifndef LM_API_H
#define LM_API_H

#include "checks/checks.h"
#include "fheap/fheap.h"
#include "loam/loam.h"
#include "sampling/sampling.h"
#include "survey/survey.h"

#include <errno.h>
#include <stdio.h>

/* In a metered library libc's names go by loam's, which count. */
#if LOAM_METER && !defined(LM_API_ITSELF)
#define lm_malloc loam_malloc
#define lm_free loam_free
#define lm_free_sized loam_free_sized
#define lm_free_aligned(p, align) ((void)(align), loam_free(p))
#define lm_free_aligned_sized loam_free_aligned_sized
#define lm_malloc_aligned loam_malloc_aligned
#endif

/* loam_calloc, but for what is beyond the bytes asked for: that stays as it is. */
void *lm_libc_calloc(size_t count, size_t size);

/* The text of a program's loam_config, given where that lies: of a pointer to a text what it points
 * to, and of an array of characters, which nothing but the header keeps programs from defining, the
 * array. May be NULL. */
const char *lm_options_text(const void *config);

/* That of this program; NULL iff it has none. Its modules are relocated. */
const char *lm_program_options(void);

/* NULL with errno ENOMEM, told to an error handler: count objects of size bytes each are more than
 * there can be. */
void *lm_array_refused(size_t count, size_t size);

/* NULL, for that reason. */
LM_INLINE void *lm_failed(int error) {
    errno = error;
    return NULL;
}

/* Reads the program's string (loam/options.h) and LOAM_*, and acts on them; both may be NULL. */
void lm_options_read(const char *config, char **environment);

/* Acts on what the environment has for glibc's malloc (glibc.c), or, aloud, says of each setting
 * what became of it. */
void lm_glibc_read(char **environment, bool aloud);

/* Sets LIMIT_SOFT and LIMIT_HARD, in bytes, 0: none. false iff they are no values: nothing is set
 * then. */
bool lm_options_limit(size_t soft, size_t hard);

/* What the source that has set an option calls it, for messages: "LOAM_PURGE_DELAY", "loam_config:
 * purge_delay". */
lm_line_t lm_option_called(const char *name);

/* Something is to be printed at exit (at_exit.c). May be called again. */
void lm_at_exit_wanted(void);
/* It may be: called with libc's __cxa_atexit before any constructor runs. */
typedef int lm_at_exit_t(void (*function)(void *), void *argument, void *module);
void lm_at_exit_first(lm_at_exit_t *at_exit);

/* Memory that options ask for. Before main, after lm_options_read. */
void lm_options_reserve(void);

typedef struct lm_at_start {
    size_t pages_1g, pages_2m; /* huge pages */
    int node;                  /* of these; LM_NODE_ANY: of all */
    size_t timeout_ms;
    size_t bytes; /* ordinary memory */
} lm_at_start_t;
void lm_arenas_at_start(const lm_at_start_t *want);

/* In the file of the constructor that does so: who names it has that linked. */
extern LM_HIDDEN const char lm_boots;

/* Numbers of the whole process. */
typedef struct lm_stats {
    lm_span_stats_t span;
    lm_heap_stats_t heap;
} lm_stats_t;

void lm_stats_take(lm_stats_t *stats);

/* "release", "debug" or "secure". */
LM_INLINE const char *lm_build_name(void) {
    return LOAM_DEBUG ? "debug" : LOAM_SECURE ? "secure" : "release";
}

/* Called once, when the library starts: what is elapsed counts from here. */
void lm_stats_begin(void);

/* Returns "ok" for 0, else "not freed". */
const char *lm_stats_verdict(uint64_t in_use);

/* Takes a text piece by piece. */
typedef void lm_sink_t(void *context, const char *text, size_t length);

/* The JSON object, in lines of less than LM_LINE_BYTES. */
void lm_stats_write_json(const loam_stats_t *stats, lm_sink_t *sink, void *context);

/* The same at exit: as lm_print. */
void lm_stats_print_json(void);

/* The document of malloc_info: sizes by class, and totals. 0, or -1 iff the stream failed. */
int lm_stats_write_xml(FILE *stream);

#endif
