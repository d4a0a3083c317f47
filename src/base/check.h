/* check.h: assertions in tiers, and the report of a program's mistake.
 *
 *   LM_ASSERT   invariants that debug builds check, compiled away elsewhere
 *   LM_CHECKED  code that only the debug build has
 *   lm_report   one line on standard error, without allocation, by the port's raw write
 *   lm_print    one line that was asked for (statistics, options), to where the program wants such lines
 *
 * A mistake of the program under us (double free, foreign pointer, ...) is reported through
 * lm_misuse: one line, then abort, or, where the user chose LOAM_ON_ERROR=ignore, or LOAM_IGNORE
 * with the kind of that mistake, back to the caller. A line before an abort ends with what would
 * make the program go on. A program may take the last two itself (loam/handlers.h, os/handlers.c);
 * what is reported in the middle of loam's own work (LM_WRONG_INSIDE, lm_report) it may not.
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
/* Whether options come from the environment, too (api/option_read.c). */
#ifndef LOAM_READ_ENVIRONMENT
#define LOAM_READ_ENVIRONMENT 1
#endif
/* Free lists whose links are encoded and verified. */
#define LM_GUARD_LINKS (LOAM_DEBUG || LOAM_SECURE)
/* A debug build that tells Memcheck, or AddressSanitizer, what is an object (checks/tools.c). */
#ifndef LOAM_VALGRIND
#define LOAM_VALGRIND 0
#endif
#ifndef LOAM_POISON
#define LOAM_POISON 0
#endif
#define LM_TOOLS (LOAM_VALGRIND || LOAM_POISON)
/* Blocks as checks/inner.h has them, large objects with guards; the debug build has fences
 * instead. */
#define LM_SECURE (LOAM_SECURE && !LOAM_DEBUG)

#if LOAM_DEBUG
#define LM_ASSERT(cond) (LM_LIKELY(cond) ? (void)0 : lm_assert_failed(#cond, __FILE__, __LINE__))
#else
#define LM_ASSERT(cond) ((void)sizeof(!(cond)))
#endif

typedef struct lm_misuse_policy {
    bool quiet;         /* atomic: say nothing (LOAM_SHOW_ERRORS=0) */
    bool ignore;        /* atomic: go on after the line (LOAM_ON_ERROR=ignore) */
    uint32_t tolerated; /* atomic: bit k set: go on after mistake k, see lm_wrong_t (LOAM_IGNORE) */
} lm_misuse_policy_t;

extern lm_misuse_policy_t lm_misuse_policy;

/* The longest line, its end included: two places in a program fit, with paths as build machines
 * have them. */
enum { LM_LINE_BYTES = LM_HOSTED ? 512 : 256 };

/* Formats at most LM_LINE_BYTES - 1 bytes (%s %d %u %zu %p %lx), adds a line end and writes them at
 * once. Never allocates, keeps errno. */
void lm_report(const char *format, ...) LM_PRINTF(1, 2);

/* The same, to the program's output handler where it has one. Not under locks. Hosted builds
 * only. */
void lm_print(const char *format, ...) LM_PRINTF(1, 2);

/* What a report is about: one of LM_WRONG_*, plus one of LM_MISTAKE_*, plus LM_MISTAKE_OR and
 * LM_MISTAKE_OR_ELSE of two others where the damage does not tell which of them it was. The program
 * goes on if it goes on after any. An error handler gets EINVAL for LM_WRONG_CALL and EFAULT for
 * LM_WRONG_DAMAGE. LM_WRONG_INSIDE never reaches a handler: such a report is made where locks are
 * held, or lists are half changed. */
typedef unsigned lm_wrong_t;
enum {
    LM_WRONG_CALL, /* a pointer that is not ours, freed twice, misaligned; nothing is changed yet */
    LM_WRONG_DAMAGE, /* memory was overwritten; nothing is changed yet */
    LM_WRONG_INSIDE, /* memory was overwritten, which loam trips over */
    LM_WRONG_HOW = 3 /* mask of the three above */
};

/* Mistake number k, shifted by LM_MISTAKE_SHIFT, has word k + 1 of the option LOAM_IGNORE
 * (options.def), whose first word is `none`, and word k of lm_mistake_word. */
enum { LM_MISTAKE_SHIFT = 2 };
enum {
    LM_MISTAKE_OTHER,
    LM_MISTAKE_DOUBLE_FREE =
        1 << LM_MISTAKE_SHIFT, /* or realloc, or a size asked for, after free */
    LM_MISTAKE_FOREIGN = 2 << LM_MISTAKE_SHIFT,
    LM_MISTAKE_MISALIGNED = 3 << LM_MISTAKE_SHIFT,
    LM_MISTAKE_WRONG_SIZE = 4 << LM_MISTAKE_SHIFT,
    LM_MISTAKE_WRONG_ALIGN = 5 << LM_MISTAKE_SHIFT,
    LM_MISTAKE_OVERFLOW = 6 << LM_MISTAKE_SHIFT,
    LM_MISTAKE_UNDERFLOW = 7 << LM_MISTAKE_SHIFT,
    LM_MISTAKE_USE_AFTER_FREE = 8 << LM_MISTAKE_SHIFT,
    LM_MISTAKE_COPY = 9 << LM_MISTAKE_SHIFT,
    LM_MISTAKES = 10
};
#define LM_MISTAKE_BITS 4
#define LM_MISTAKE_OR(mistake) ((unsigned)(mistake) << LM_MISTAKE_BITS)
#define LM_MISTAKE_OR_ELSE(mistake) ((unsigned)(mistake) << 2 * LM_MISTAKE_BITS)

/* "loam: " + the formatted text + "thread N)", then abort unless the policy says otherwise: the
 * caller's text ends inside the bracket, as "... (" or "... (size class 48 B, ". */
void lm_misuse(const char *format, ...) LM_PRINTF(1, 2);
/* lm_misuse of the kind `wrong`; lm_misuse itself is LM_WRONG_CALL + LM_MISTAKE_OTHER. Hosted
 * builds only. */
void lm_wrong(lm_wrong_t wrong, const char *format, ...) LM_PRINTF(2, 3);

/* Number of mistakes that were found, whether reported or not. Atomic. */
extern size_t lm_wrong_count;

/* Whether the user chose that the program goes on after such a mistake. */
bool lm_wrong_goes_on(lm_wrong_t wrong);

/* lm_misuse in two parts: a text as far as it goes, then the rest of the line and the end of it.
 * For callers that put words of their own in front of, and behind, what they were told. */
typedef struct lm_line {
    size_t used;
    char text[LM_LINE_BYTES];
} lm_line_t;

void lm_line_add(lm_line_t *line, const char *format, ...) LM_PRINTF(2, 3);
void lm_line_add_v(lm_line_t *line, const char *format, va_list args);
/* Adds "thread N)" and does what lm_misuse does. */
void lm_misuse_line(lm_line_t *line);

#if LM_HOSTED
/* The word for mistake number `mistake` in LOAM_IGNORE. */
const char *lm_mistake_word(unsigned mistake);
/* Adds to a complete report how the program could go on after it; nothing if it goes on anyway. */
void lm_line_add_way_out(lm_line_t *line, lm_wrong_t wrong);
#endif

void lm_assert_failed(const char *text, const char *file, int line) LM_NORETURN;

/* Atomic: NULL, or what writes more lines after that of a mistake, before the program ends
 * (checks/sites.c). Called for each; written: the line was, else these must not be, either. */
extern void (*lm_misuse_more)(bool written);

/* What the port under us provides (os/): declared here because base stands below it. */
void lm_port_write_error(const char *text, size_t bytes);
void lm_port_abort(void) LM_NORETURN;
#if LM_HOSTED
/* Whether a handler of the program's has taken the line (os/handlers.c); LATER: it will, and what
 * the policy says is done then. */
bool lm_port_print(const lm_line_t *line);
typedef enum lm_told { LM_TOLD_NOBODY, LM_TOLD, LM_TOLD_LATER } lm_told_t;
lm_told_t lm_port_tell(lm_wrong_t wrong, const lm_line_t *line);
#endif
unsigned lm_port_thread_id(void);
#if LM_HOSTED
/* Around lines that belong together, so that those of other threads do not come between: waits for
 * these, at most a second. They nest; for signal handlers, and under any lock. */
void lm_port_report_begin(void);
void lm_port_report_end(void);
#endif
/* Locks of the whole process. WALK is held as long as all allocators are looked into: who takes it
 * holds no other lock. LIST is held for some instructions, in which nobody takes another: it may be
 * taken inside any lock. */
typedef enum lm_port_lock { LM_PORT_WALK, LM_PORT_LIST, LM_PORT_LOCKS } lm_port_lock_t;
void lm_port_lock(lm_port_lock_t lock);
void lm_port_unlock(lm_port_lock_t lock);

#endif
