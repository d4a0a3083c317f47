/* format.c: formatted strings in memory of any allocator. A short string is formatted once and
 * copied. */
#include "hosted/format.h"

#include <stdio.h>
#include <string.h>

char *lm_format(lm_get_text_t *get, void *allocator, const char *file, unsigned line,
                const char *format, va_list args) {
    char few[128];
    va_list again;
    va_copy(again, args);
    int length = vsnprintf(few, sizeof(few), format, args);
    size_t bytes = (size_t)length + 1;
    char *text = length >= 0 ? (char *)get(allocator, bytes, file, line) : NULL;
    if (text != NULL) {
        if (bytes <= sizeof(few))
            memcpy(text, few, bytes);
        else
            (void)vsnprintf(text, bytes, format, again);
    }
    va_end(again);
    return text;
}
