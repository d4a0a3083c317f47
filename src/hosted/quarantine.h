/* quarantine.h: chunks that a source took back while a tool watches (quarantine.c); only the files
 * of this folder include it.
 */
#ifndef LM_HOSTED_QUARANTINE_H
#define LM_HOSTED_QUARANTINE_H

#include "base/base.h"

/* Gives a chunk back to the heap that it came from. */
typedef void lm_release_t(void *chunk, size_t bytes);

/* Hides the chunk from the program and holds it. Shows chunks that have been held for long, and
 * passes them to their `release`. Returns false iff it does not take the chunk, which is unchanged
 * in that case. Any thread may call it, but only while a tool watches. */
bool lm_chunk_hold(void *chunk, size_t bytes, lm_release_t *release);

/* Releases every chunk that is held. Returns false iff no chunk was held. Any thread may call
 * it. */
bool lm_chunks_release(void);

#endif
