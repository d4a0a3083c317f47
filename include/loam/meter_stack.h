/* loam/meter_stack.h: metered forms of the functions of loam/stack.h. Only stack.h includes this
 * file, if LOAM_METER is above 0. loam/meter_region.h says how metered forms work. */
#ifndef LOAM_METER_STACK_H
#define LOAM_METER_STACK_H

#include "loam/names_begin.h"

#include "loam/stack.h"

#if LOAM_METER && LOAM_METER_HOOKS

LOAM_BEGIN

LOAM_INLINE LOAM_NODISCARD loam_stack_frame loam_stack_push_metered(loam_stack *stack,
                                                                    const char *file,
                                                                    unsigned line) {
    loam_stack_frame frame = loam_stack_push_at(stack, file, line);
    if (loam_stack_pushed_it(&frame)) loam_meter_push(&stack->entry);
    return frame;
}
#define loam_stack_push_at loam_stack_push_metered

LOAM_INLINE void loam_stack_pop_metered(loam_stack *stack, loam_stack_frame frame, const char *file,
                                        unsigned line) {
    /* One of the two changes iff the frame ends. */
    const loam_stack_record *newest = stack->newest, *hidden = stack->hidden_newest;
    loam_stack_pop_at(stack, frame, file, line);
    if (stack->newest != newest || stack->hidden_newest != hidden) loam_meter_pop(&stack->entry);
}
#define loam_stack_pop_at loam_stack_pop_metered

LOAM_INLINE LOAM_NODISCARD void *loam_stack_alloc_aligned_metered(loam_stack *stack, size_t bytes,
                                                                  size_t align, const char *file,
                                                                  unsigned line) {
    LOAM_METER_BEGIN;
    void *p = loam_stack_alloc_aligned_at(stack, bytes, align, file, line);
    LOAM_METER_ALLOCATED(&stack->entry, p, bytes, bytes);
    return p;
}
#define loam_stack_alloc_aligned_at loam_stack_alloc_aligned_metered

LOAM_INLINE LOAM_NODISCARD void *loam_stack_alloc_metered(loam_stack *stack, size_t bytes,
                                                          const char *file, unsigned line) {
    return loam_stack_alloc_aligned_at(stack, bytes, LOAM_STACK_ALIGN, file, line);
}
#define loam_stack_alloc_at loam_stack_alloc_metered

LOAM_INLINE LOAM_NODISCARD void *loam_stack_calloc_metered(loam_stack *stack, size_t count,
                                                           size_t bytes, const char *file,
                                                           unsigned line) {
    LOAM_METER_BEGIN;
    void *p = loam_stack_calloc_at(stack, count, bytes, file, line);
    LOAM_METER_ALLOCATED(&stack->entry, p, count * bytes, count * bytes);
    return p;
}
#define loam_stack_calloc_at loam_stack_calloc_metered

LOAM_INLINE LOAM_NODISCARD void *loam_stack_array_metered(loam_stack *stack, size_t count,
                                                          size_t bytes, size_t align,
                                                          const char *file, unsigned line) {
    LOAM_METER_BEGIN;
    void *p = loam_stack_array_at(stack, count, bytes, align, file, line);
    LOAM_METER_ALLOCATED(&stack->entry, p, count * bytes, count * bytes);
    return p;
}
#define loam_stack_array_at loam_stack_array_metered

LOAM_INLINE LOAM_NODISCARD void *loam_stack_realloc_aligned_metered(loam_stack *stack, void *p,
                                                                    size_t old_bytes, size_t bytes,
                                                                    size_t align, const char *file,
                                                                    unsigned line) {
    size_t before = p != NULL ? old_bytes : 0;
    LOAM_METER_BEGIN;
    p = loam_stack_realloc_aligned_at(stack, p, old_bytes, bytes, align, file, line);
    LOAM_METER_REALLOCATED(&stack->entry, p != NULL, bytes, bytes, before);
    return p;
}
#define loam_stack_realloc_aligned_at loam_stack_realloc_aligned_metered

LOAM_INLINE LOAM_NODISCARD void *loam_stack_realloc_metered(loam_stack *stack, void *p,
                                                            size_t old_bytes, size_t bytes,
                                                            const char *file, unsigned line) {
    return loam_stack_realloc_aligned_at(stack, p, old_bytes, bytes, LOAM_STACK_ALIGN, file, line);
}
#define loam_stack_realloc_at loam_stack_realloc_metered

LOAM_INLINE void loam_stack_free_metered(loam_stack *stack, void *p, size_t bytes, const char *file,
                                         unsigned line) {
    LOAM_METER_BEGIN;
    loam_stack_free_at(stack, p, bytes, file, line);
    LOAM_METER_FREED(&stack->entry, p != NULL ? bytes : 0);
}
#define loam_stack_free_at loam_stack_free_metered

LOAM_INLINE LOAM_NODISCARD void *loam_stack_memdup_metered(loam_stack *stack, const void *from,
                                                           size_t bytes, const char *file,
                                                           unsigned line) {
    LOAM_METER_BEGIN;
    void *p = loam_stack_memdup_at(stack, from, bytes, file, line);
    LOAM_METER_ALLOCATED(&stack->entry, p, bytes, bytes);
    return p;
}
#define loam_stack_memdup_at loam_stack_memdup_metered

LOAM_INLINE LOAM_NODISCARD char *loam_stack_strdup_metered(loam_stack *stack, const char *from,
                                                           const char *file, unsigned line) {
    LOAM_METER_BEGIN;
    char *p = loam_stack_strdup_at(stack, from, file, line);
    size_t bytes = __builtin_strlen(from) + 1;
    LOAM_METER_ALLOCATED(&stack->entry, p, bytes, bytes);
    return p;
}
#define loam_stack_strdup_at loam_stack_strdup_metered

LOAM_INLINE LOAM_NODISCARD char *loam_stack_strndup_metered(loam_stack *stack, const char *from,
                                                            size_t most, const char *file,
                                                            unsigned line) {
    LOAM_METER_BEGIN;
    char *p = loam_stack_strndup_at(stack, from, most, file, line);
    size_t bytes = p != NULL ? __builtin_strlen(p) + 1 : 0;
    LOAM_METER_ALLOCATED(&stack->entry, p, bytes, bytes);
    return p;
}
#define loam_stack_strndup_at loam_stack_strndup_metered

#if __STDC_HOSTED__
LOAM_INLINE loam_stack_scope loam_stack_scope_begin_metered(loam_stack *stack, const char *file,
                                                            unsigned line) {
    loam_stack_scope scope = {stack, loam_stack_push_at(stack, file, line)};
    return scope;
}
#define loam_stack_scope_begin loam_stack_scope_begin_metered

LOAM_INLINE void loam_stack_scope_end_metered(loam_stack_scope *scope) {
    loam_stack_pop_at(scope->stack, scope->frame, NULL, 0);
}
#define loam_stack_scope_end loam_stack_scope_end_metered
#endif

LOAM_END

#endif

#include "loam/names_end.h"

#endif
