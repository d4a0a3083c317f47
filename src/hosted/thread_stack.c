/* thread_stack.c: what frame stacks have only where there is an operating system: one for each thread, and
 * formatted strings (loam/stack.h).
 *
 * A thread's stack has no source before its first use, and no room, so that every inline path misses and
 * the slow one sets it up: nobody else asks. It ends with its thread.
 */
/* What is asked of the allocators below is the program's doing: to be metered. */
#undef LOAM_METER_HOOKS
#define LOAM_METER_HOOKS 1
#include "os/os.h"

#include "family/family.h"
#include "loam/stack.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

LOAM_API LM_TLS loam_stack loam_own_stack = {.entry = {.kind = &lm_stack_kind}};
static LM_TLS bool known; /* the thread's end will tell us */

/* A destructor that runs later may begin it again: then there is another round. */
static bool thread_ended(void *value, unsigned rounds) {
    (void)rounds;
    loam_stack_deinit((loam_stack *)value);
    known = false;
    return false;
}

int loam_thread_stack_init_as(loam_source *source, const loam_stack_options *options,
                              unsigned more_flags) {
    if (loam_own_stack.source != NULL) return -EBUSY;
    int result = loam_stack_init_as(&loam_own_stack, source, options, more_flags);
    if (result == 0 && !known) known = lm_thread_on_exit(thread_ended, &loam_own_stack);
    return result;
}

bool lm_thread_stack_begin(struct loam_stack *stack) {
    return stack == &loam_own_stack && loam_thread_stack_init_as(NULL, NULL, 0) == 0;
}

char *loam_stack_sprintf_at(loam_stack *stack, const char *file, unsigned line, const char *format,
                            ...) {
    va_list args;
    char few[128];
    va_start(args, format);
    int length = vsnprintf(few, sizeof(few), format, args);
    va_end(args);
    if (length < 0) return NULL;
    size_t bytes = (size_t)length + 1;
    char *text = (char *)loam_stack_alloc_aligned_at(stack, bytes, 1, file, line);
    if (text == NULL) return NULL;
    if (bytes <= sizeof(few)) return (char *)memcpy(text, few, bytes);
    va_start(args, format);
    (void)vsnprintf(text, bytes, format, args);
    va_end(args);
    return text;
}
