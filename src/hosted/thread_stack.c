/* thread_stack.c: parts of frame stacks that need an operating system: one stack per thread, and
 * formatted strings (loam/stack.h).
 *
 * A thread's stack has neither a source nor room before its first use. So every inline path fails,
 * and the slow path, which is the only code that checks, sets it up. The stack ends with its
 * thread.
 */
/* The calls below are made on behalf of the program, so they are metered. */
#undef LOAM_METER_HOOKS
#define LOAM_METER_HOOKS 1
#include "hosted/format.h"
#include "os/os.h"

#include "family/family.h"
#include "loam/stack.h"

#include <errno.h>

LOAM_API LM_TLS loam_stack loam_own_stack = {.entry = {.kind = &lm_stack_kind}};
static LM_TLS bool thread_stack_known; /* a hook runs when the thread ends */

/* A destructor that runs later may begin the stack again; the hook then runs in another round. */
static bool thread_stack_ended(void *value, unsigned rounds) {
    (void)rounds;
    loam_stack_deinit((loam_stack *)value);
    thread_stack_known = false;
    return false;
}

int loam_thread_stack_init_as(loam_source *source, const loam_stack_options *options,
                              unsigned more_flags) {
    if (loam_own_stack.source != NULL) return -EBUSY;
    int result = loam_stack_init_as(&loam_own_stack, source, options, more_flags);
    if (result == 0 && !thread_stack_known)
        thread_stack_known = lm_thread_on_exit(thread_stack_ended, &loam_own_stack);
    return result;
}

bool lm_thread_stack_begin(struct loam_stack *stack) {
    return stack == &loam_own_stack && loam_thread_stack_init_as(NULL, NULL, 0) == 0;
}

static void *thread_stack_get_text(void *stack, size_t bytes, const char *file, unsigned line) {
    return loam_stack_alloc_aligned_at((loam_stack *)stack, bytes, 1, file, line);
}

char *loam_stack_sprintf_at(loam_stack *stack, const char *file, unsigned line, const char *format,
                            ...) {
    va_list args;
    va_start(args, format);
    char *text = lm_format(thread_stack_get_text, stack, file, line, format, args);
    va_end(args);
    return text;
}
