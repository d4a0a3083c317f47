/* format.h: formatted strings in memory of any allocator (format.c); only the files of this folder
 * include it. */
#ifndef LM_HOSTED_FORMAT_H
#define LM_HOSTED_FORMAT_H

#include "base/base.h"

#include <stdarg.h>

typedef void *lm_get_text_t(void *allocator, size_t bytes, const char *file, unsigned line);

/* Formats like vsprintf into memory of the required size, obtained by get(allocator, ...). Returns
 * NULL iff `get` has no memory or the format is bad. */
char *lm_format(lm_get_text_t *get, void *allocator, const char *file, unsigned line,
                const char *format, va_list args) __attribute__((format(printf, 5, 0)));

#endif
