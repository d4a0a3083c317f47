/* api.h: what override/ needs beyond the public headers. */
#ifndef LM_API_H
#define LM_API_H

#include "heap/heap.h"
#include "loam/loam.h"

#include <stdio.h>

/* In a metered library libc's names go by loam's, which count. */
#if LOAM_METER && !defined(LM_API_ITSELF)
#define lm_malloc loam_malloc
#define lm_free loam_free
#define lm_malloc_aligned loam_malloc_aligned
#endif

/* loam_calloc, but for what is beyond the bytes asked for: that stays as it is. */
void *lm_libc_calloc(size_t count, size_t size);

/* Reads the program's string (loam/options.h) and LOAM_*, and acts on them; both may be NULL. */
void lm_options_read(const char *config, char **environment);

/* In the file of the constructor that does so: who names it has that linked. */
extern LM_HIDDEN const char lm_boots;

/* Numbers of the whole process. */
typedef struct lm_stats {
    lm_span_stats_t span;
    lm_heap_stats_t heap;
} lm_stats_t;

void lm_stats_take(lm_stats_t *stats);

/* The document of malloc_info: sizes by class, and totals. 0, or -1 iff the stream failed. */
int lm_stats_write_xml(FILE *stream);

#endif
