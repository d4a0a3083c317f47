/* check.h: assertions in tiers, and the report of a program's mistake.
 *
 *   LM_ASSERT   invariants that debug builds check, compiled away elsewhere
 *   LM_CHECKED  code that only the debug build has
 *   lm_report   one line on standard error, without allocation, by the port's raw write
 *
 * A mistake of the program under us (double free, foreign pointer, ...) is reported through
 * lm_misuse: one line, then abort, or, where the user chose LOAM_ON_ERROR=ignore, back to the caller.
 */
#ifndef LM_BASE_CHECK_H
#define LM_BASE_CHECK_H

#include "base/compiler.h"

#include <stdarg.h>

#ifndef LOAM_DEBUG
#define LOAM_DEBUG 0
#endif
#ifndef LOAM_SECURE
#define LOAM_SECURE 0
#endif
/* Free lists whose links are encoded and verified. */
#define LM_GUARD_LINKS (LOAM_DEBUG || LOAM_SECURE)

#if LOAM_DEBUG
#define LM_ASSERT(cond) (LM_LIKELY(cond) ? (void)0 : lm_assert_failed(#cond, __FILE__, __LINE__))
#else
#define LM_ASSERT(cond) ((void)sizeof(!(cond)))
#endif

typedef struct lm_misuse_policy {
    bool quiet;  /* say nothing (LOAM_SHOW_ERRORS=0) */
    bool ignore; /* go on after the line (LOAM_ON_ERROR=ignore) */
} lm_misuse_policy_t;

extern lm_misuse_policy_t lm_misuse_policy;

/* The longest line, its end included: two places in a program fit, with paths as build machines have them. */
enum { LM_LINE_BYTES = LM_HOSTED ? 512 : 256 };

/* Formats at most LM_LINE_BYTES - 1 bytes (%s %d %u %zu %p %lx), adds a line end and writes them at once.
 * Never allocates, keeps errno. */
void lm_report(const char *format, ...) LM_PRINTF(1, 2);

/* "loam: " + the formatted text + "thread N)", then abort unless the policy says otherwise: the
 * caller's text ends inside the bracket, as "... (" or "... (size class 48 B, ". */
void lm_misuse(const char *format, ...) LM_PRINTF(1, 2);

/* lm_misuse in two parts: a text as far as it goes, then the rest of the line and the end of it. For callers
 * that put words of their own in front of, and behind, what they were told. */
typedef struct lm_line {
    size_t used;
    char text[LM_LINE_BYTES];
} lm_line_t;

void lm_line_add(lm_line_t *line, const char *format, ...) LM_PRINTF(2, 3);
void lm_line_add_v(lm_line_t *line, const char *format, va_list args);
/* Adds "thread N)" and does what lm_misuse does. */
void lm_misuse_line(lm_line_t *line);

void lm_assert_failed(const char *text, const char *file, int line) LM_NORETURN;

/* What the port under us provides (os/): declared here because base stands below it. */
void lm_port_write_error(const char *text, size_t bytes);
void lm_port_abort(void) LM_NORETURN;
unsigned lm_port_thread_id(void);
/* Locks of the whole process. WALK is held as long as all allocators are looked into: who takes it holds no other
 * lock. LIST is held for some instructions, in which nobody takes another: it may be taken inside any lock. */
typedef enum lm_port_lock { LM_PORT_WALK, LM_PORT_LIST, LM_PORT_LOCKS } lm_port_lock_t;
void lm_port_lock(lm_port_lock_t lock);
void lm_port_unlock(lm_port_lock_t lock);

#endif
