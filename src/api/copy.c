/* copy.c: loam_strdup and its kin: copies in objects of the heap.
 *
 * The C library's own functions would use its malloc, which need not be loam's.
 */
#define _GNU_SOURCE 1 /* realpath */
#include "api/api.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void *loam_memdup(const void *source, size_t bytes) {
    void *copy = loam_malloc(bytes);
    return copy != NULL ? memcpy(copy, source, bytes) : NULL;
}

char *loam_strdup(const char *text) { return (char *)loam_memdup(text, strlen(text) + 1); }

char *loam_strndup(const char *text, size_t bytes) {
    size_t length = strnlen(text, bytes);
    char *copy = (char *)loam_malloc(length + 1);
    if (copy == NULL) return NULL;
    copy[length] = 0;
    return (char *)memcpy(copy, text, length);
}

char *loam_realpath(const char *path, char *resolved) {
    if (resolved != NULL) return realpath(path, resolved);
    /* The path may be longer than any buffer here. */
    char *theirs = realpath(path, NULL);
    if (theirs == NULL) return NULL;
    char *ours = loam_strdup(theirs);
    int error = errno;
    free(theirs);
    errno = error;
    return ours;
}
