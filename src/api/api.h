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

/* Reads LOAM_* and acts on it; environment may be NULL. */
void lm_options_read(char **environment);

/* Numbers of the whole process. */
typedef struct lm_stats {
    lm_span_stats_t span;
    lm_heap_stats_t heap;
} lm_stats_t;

void lm_stats_take(lm_stats_t *stats);

/* The document of malloc_info: sizes by class, and totals. 0, or -1 iff the stream failed. */
int lm_stats_write_xml(FILE *stream);

#endif
