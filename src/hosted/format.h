/* format.h: formatted strings of any allocator (format.c); the files of this folder include it,
 * nobody else. */
#ifndef LM_HOSTED_FORMAT_H
#define LM_HOSTED_FORMAT_H

#include "base/base.h"

#include <stdarg.h>

typedef void *lm_get_text_t(void *allocator, size_t bytes, const char *file, unsigned line);

/* As vsprintf, into as many bytes as it takes, got by get(allocator, ...). NULL iff that has no
 * memory or the format is bad. */
char *lm_format(lm_get_text_t *get, void *allocator, const char *file, unsigned line,
                const char *format, va_list args) __attribute__((format(printf, 5, 0)));

#endif
