/* tools.h: what the heap tells Memcheck and AddressSanitizer of its memory (tools.c, tools_kept.c).
 *
 *   object ── lm_tools_freed ──> hidden ── span goes back ──> lm_tools_give: kept hidden for a while
 *
 * In a debug build with LOAM_VALGRIND or LOAM_POISON; in all others the functions are empty, but
 * for lm_tools_forget. They change no memory. Invariant: what is hidden belongs to no object.
 */
#ifndef LM_HEAP_TOOLS_H
#define LM_HEAP_TOOLS_H

#include "heap/heap.h"

/* tools.c, in every build: the memory has no owner any more. Allocators of the family that lay
 * there had hidden parts of it. */
void lm_tools_forget(const void *p, size_t bytes);

/* A debug build that tells Memcheck, or AddressSanitizer, what is an object (tools.c). */
#if LM_TOOLS
void lm_tools_hide(const void *p, size_t bytes);
void lm_tools_show(const void *p, size_t bytes);
void lm_tools_undefined(const void *p, size_t bytes);
void lm_tools_new(const void *p, size_t bytes);
void lm_tools_resized(const void *p, size_t before, size_t bytes);
void lm_tools_freed(const void *p);
/* Of so many bytes, freed or not: its heap is destroyed. */
void lm_tools_dropped(const void *block, size_t bytes);
/* tools_kept.c: gives spans back that are out of the map, a chain by `notified`, after they were
 * hidden for a while. */
void lm_tools_give_chain(lm_page_t *first, bool rested);
void lm_tools_give(lm_page_t *span, bool rested);
/* Between the two the calling thread may read what is hidden; they nest. */
void lm_tools_pause(void);
void lm_tools_resume(void);
#else
LM_INLINE void lm_tools_hide(const void *p, size_t bytes) { (void)p, (void)bytes; }
LM_INLINE void lm_tools_show(const void *p, size_t bytes) { (void)p, (void)bytes; }
LM_INLINE void lm_tools_undefined(const void *p, size_t bytes) { (void)p, (void)bytes; }
LM_INLINE void lm_tools_new(const void *p, size_t bytes) { (void)p, (void)bytes; }
LM_INLINE void lm_tools_resized(const void *p, size_t before, size_t bytes) {
    (void)p, (void)before, (void)bytes;
}
LM_INLINE void lm_tools_freed(const void *p) { (void)p; }
LM_INLINE void lm_tools_dropped(const void *block, size_t bytes) { (void)block, (void)bytes; }
LM_INLINE void lm_tools_give_chain(lm_page_t *first, bool rested) {
    lm_span_give_chain(first, rested);
}
LM_INLINE void lm_tools_give(lm_page_t *span, bool rested) { lm_span_give(span, rested); }
LM_INLINE void lm_tools_pause(void) {}
LM_INLINE void lm_tools_resume(void) {}
#endif

#endif
