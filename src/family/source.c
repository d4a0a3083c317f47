/* source.c: the sources that need no operating system: buffer, limit, count (loam/source.h).
 *
 *   buffer   start [ chunk ][ gap ][ chunk ][ chunk ] at ──> free ──> end
 *   limit    used ≤ most ──> inner          count   counters ──> inner
 *
 * Invariants: start <= at <= end, and at == start if no chunk is out. used_bytes <= most_bytes at
 * any time. A limit never has more than used_bytes out of inner, except a chunk that is being
 * refused.
 */
#include "family/family.h"

/* ---- Buffer ---- */

static void *buffer_get(loam_source *source, size_t bytes, size_t align, size_t *got) {
    loam_buffer *buffer = (loam_buffer *)source;
    LM_ASSERT(buffer->start <= buffer->at && buffer->at <= buffer->end);
    LM_ASSERT(buffer->out != 0 || buffer->at == buffer->start);
    size_t gap = (0 - (uintptr_t)buffer->at) & (align - 1);
    size_t left = (size_t)(buffer->end - buffer->at);
    if (gap > left || bytes > left - gap) return NULL;
    char *chunk = buffer->at + gap;
    buffer->at = chunk + bytes;
    buffer->out++;
    *got = bytes;
    return chunk;
}

static void buffer_put(loam_source *source, void *chunk, size_t got) {
    loam_buffer *buffer = (loam_buffer *)source;
    LM_ASSERT(buffer->out > 0 && (char *)chunk >= buffer->start);
    LM_ASSERT((char *)chunk + got <= buffer->at);
    if ((char *)chunk + got == buffer->at) buffer->at = (char *)chunk;
    if (--buffer->out == 0) buffer->at = buffer->start;
}

void loam_buffer_init(loam_buffer *buffer, void *memory, size_t bytes) {
    /* Inline paths add constants to addresses in chunks (loam/region.h). The sum must be a valid
     * address. */
    size_t most = UINTPTR_MAX - (uintptr_t)memory;
    most = most > LOAM_SOURCE_TOP ? most - LOAM_SOURCE_TOP : 0;
    if (bytes > most) bytes = most;
    *buffer = (loam_buffer){
        .source = {.get = buffer_get,
                   .put = buffer_put,
                   .name = "buffer",
                   .flags = LOAM_SOURCE_CONTIGUOUS},
        .start = (char *)memory,
        .at = (char *)memory,
        .end = (char *)memory + bytes,
    };
}

/* ---- Limit ---- */

static bool limit_take(loam_limit *limit, size_t bytes) {
    /* Relaxed: a guess, which the exchange verifies. */
    size_t used = lm_load_relaxed(&limit->used_bytes);
    do {
        LM_ASSERT(used <= limit->most_bytes);
        if (bytes > limit->most_bytes - used) return false;
        /* Acquire: a thread that finds room sees in `inner` the chunks that made the room. */
    } while (!lm_cas_weak_acquire(&limit->used_bytes, &used, used + bytes));
    return true;
}

static void limit_give(loam_limit *limit, size_t bytes) {
    LM_ASSERT(lm_load_relaxed(&limit->used_bytes) >= bytes);
    (void)lm_sub_release(&limit->used_bytes, bytes); /* release: see limit_take */
}

static void *limit_get(loam_source *source, size_t bytes, size_t align, size_t *got) {
    loam_limit *limit = (loam_limit *)source;
    if (!limit_take(limit, bytes)) return NULL;
    size_t whole = 0;
    void *chunk = loam_source_get(limit->inner, bytes, align, &whole);
    if (chunk != NULL && (whole <= bytes || limit_take(limit, whole - bytes))) {
        *got = whole;
        return chunk;
    }
    if (chunk != NULL) loam_source_put(limit->inner, chunk, whole);
    limit_give(limit, bytes);
    return NULL;
}

static void limit_put(loam_source *source, void *chunk, size_t got) {
    loam_limit *limit = (loam_limit *)source;
    /* This comes first: inner must never have more out than used_bytes says. */
    loam_source_put(limit->inner, chunk, got);
    limit_give(limit, got);
}

static size_t limit_ready(loam_source *source, void *at, size_t bytes) {
    loam_source *inner = ((loam_limit *)source)->inner;
    LM_ASSERT(inner->ready != NULL);
    return inner->ready(inner, at, bytes);
}

void loam_limit_init(loam_limit *limit, loam_source *inner, size_t most_bytes) {
    *limit = (loam_limit){
        .source = {.get = limit_get, .put = limit_put, .name = "limit", .flags = inner->flags},
        .inner = inner,
        .most_bytes = most_bytes,
    };
    if (inner->ready != NULL) limit->source.ready = limit_ready;
}

/* ---- Count ---- */

/* Relaxed throughout: the counters order nothing, and agree with each other while no thread is in a
 * call. */
static void *count_get(loam_source *source, size_t bytes, size_t align, size_t *got) {
    loam_count *count = (loam_count *)source;
    void *chunk = loam_source_get(count->inner, bytes, align, got);
    if (chunk == NULL) {
        (void)lm_add_relaxed(&count->refusals, 1);
        return NULL;
    }
    (void)lm_add_relaxed(&count->gets, 1);
    size_t used = lm_add_relaxed(&count->used_bytes, *got) + *got;
    size_t peak = lm_load_relaxed(&count->peak_bytes);
    while (used > peak && !lm_cas_weak_relaxed(&count->peak_bytes, &peak, used)) continue;
    return chunk;
}

static void count_put(loam_source *source, void *chunk, size_t got) {
    loam_count *count = (loam_count *)source;
    (void)lm_add_relaxed(&count->puts, 1);
    /* This comes first: the next owner of the memory must not be counted on top of this one. */
    LM_ASSERT(lm_load_relaxed(&count->used_bytes) >= got);
    (void)lm_add_relaxed(&count->used_bytes, 0 - got);
    loam_source_put(count->inner, chunk, got);
}

static size_t count_ready(loam_source *source, void *at, size_t bytes) {
    loam_source *inner = ((loam_count *)source)->inner;
    LM_ASSERT(inner->ready != NULL);
    return inner->ready(inner, at, bytes);
}

void loam_count_init(loam_count *count, loam_source *inner) {
    *count = (loam_count){
        .source = {.get = count_get, .put = count_put, .name = "count", .flags = inner->flags},
        .inner = inner,
    };
    if (inner->ready != NULL) count->source.ready = count_ready;
}

/* ---- What a source can provide ---- */

bool lm_source_may(loam_source *source, size_t bytes, size_t align) {
    LM_ASSERT(bytes != 0 && lm_is_pow2(align));
    while (source->get == limit_get || source->get == count_get) {
        if (source->get == count_get) {
            source = ((loam_count *)source)->inner;
            continue;
        }
        if (bytes > ((loam_limit *)source)->most_bytes) return false;
        source = ((loam_limit *)source)->inner;
    }
    if (source->get == buffer_get) {
        const loam_buffer *buffer = (const loam_buffer *)source;
        size_t gap = (0 - (uintptr_t)buffer->at) & (align - 1);
        size_t left = (size_t)(buffer->end - buffer->at);
        return gap <= left && bytes <= left - gap;
    }
    if ((source->flags & LOAM_SOURCE_CONTIGUOUS) == 0) return true;
    size_t got;
    void *chunk = loam_source_get(source, bytes, align, &got);
    if (chunk != NULL) loam_source_put(source, chunk, got);
    return chunk != NULL;
}
