/* source.c: the sources that need no operating system: buffer, limit, count (loam/source.h).
 *
 *   buffer   [ chunk ][ gap ][ chunk ][ chunk ] at ──> free ──> end
 */
#include "family/family.h"

static void *buffer_get(loam_source *source, size_t bytes, size_t align, size_t *got) {
    loam_buffer *buffer = (loam_buffer *)source;
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
    if ((char *)chunk + got == buffer->at) buffer->at = (char *)chunk;
    if (--buffer->out == 0) buffer->at = buffer->start;
}

void loam_buffer_init(loam_buffer *buffer, void *memory, size_t bytes) {
    *buffer = (loam_buffer){
        .source = {buffer_get, buffer_put, "buffer", LOAM_SOURCE_CONTIGUOUS},
        .start = (char *)memory,
        .at = (char *)memory,
        .end = (char *)memory + bytes,
    };
}
