/* quarantine.h: chunks that a source took back while a tool watches (quarantine.c); the files of
 * this folder include it, and no other.
 */
#ifndef LM_HOSTED_QUARANTINE_H
#define LM_HOSTED_QUARANTINE_H

#include "base/base.h"

/* Gives one chunk back to the heap that it came from. */
typedef void lm_release_t(void *chunk, size_t bytes);

/* Hides the chunk and holds it. Chunks that have been held for long are shown, and given to their
 * `release`. Returns false iff it does not take the chunk, which is as it was then. Any thread; to
 * be called only while a tool watches. */
bool lm_chunk_hold(void *chunk, size_t bytes, lm_release_t *release);

/* Releases every chunk that is held. Returns false iff no chunk was held. Any thread. */
bool lm_chunks_release(void);

#endif
