/* check.h: assertions, and reports of a program's mistakes.
 *
 *   LM_ASSERT   an invariant of loam's own, which the debug build checks, and any build with
 *               -DLOAM_ASSERT=ON; other builds compile it away
 *   lm_report   writes one line to standard error through the port's raw write; never allocates
 *   lm_print    writes one requested line (statistics, options) to the program's output handler
 *
 * A mistake of the program (double free, foreign pointer, ...) is reported through lm_misuse. It
 * writes one line and aborts. It returns to the caller instead if the user set
 * LOAM_ON_ERROR=ignore, or named the kind of mistake in LOAM_IGNORE. A line that precedes an abort
 * ends with the setting that would let the program go on.
 *
 * A program may handle reports and printed lines itself (loam/handlers.h, os/handlers.c). It cannot
 * handle what is reported in the middle of loam's own work (LM_WRONG_INSIDE, lm_report).
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
/* 1 iff options are also read from the environment (api/option_read.c). */
#ifndef LOAM_READ_ENVIRONMENT
#define LOAM_READ_ENVIRONMENT 1
#endif
/* 1 iff the links in free lists are encoded and verified. */
#define LM_GUARD_LINKS (LOAM_DEBUG || LOAM_SECURE)
/* LM_TOOLS is 1 iff this is a debug build that tells Memcheck or AddressSanitizer which memory is
 * an object (checks/tools.c). */
#ifndef LOAM_VALGRIND
#define LOAM_VALGRIND 0
#endif
#ifndef LOAM_POISON
#define LOAM_POISON 0
#endif
#define LM_TOOLS (LOAM_VALGRIND || LOAM_POISON)
/* 1 iff blocks are laid out as checks/inner.h describes, and large objects have guards. The debug
 * build has fences instead. */
#define LM_SECURE (LOAM_SECURE && !LOAM_DEBUG)

/* 1 iff LM_ASSERT checks its condition. */
#ifndef LOAM_ASSERT
#define LOAM_ASSERT LOAM_DEBUG
#endif
#if LOAM_ASSERT
#define LM_ASSERT(cond) (LM_LIKELY(cond) ? (void)0 : lm_assert_failed(#cond, __FILE__, __LINE__))
#else
#define LM_ASSERT(cond) ((void)sizeof(!(cond)))
#endif

typedef struct lm_misuse_policy {
    bool quiet;  /* atomic: report nothing (LOAM_SHOW_ERRORS=0) */
    bool ignore; /* atomic: continue after reporting (LOAM_ON_ERROR=ignore) */
    /* Atomic. Bit k is set iff the program continues after mistake k of lm_wrong_t
     * (LOAM_IGNORE). */
    uint32_t tolerated;
} lm_misuse_policy_t;

extern lm_misuse_policy_t lm_misuse_policy;

/* Maximum size of a line in bytes, including its end. The hosted size fits two places in a program,
 * with the long paths that build machines use. */
enum { LM_LINE_BYTES = LM_HOSTED ? 512 : 256 };

/* Formats one line of at most LM_LINE_BYTES - 1 bytes (%s %d %u %zu %p %lx), adds a newline and
 * writes it in one call. Never allocates; preserves errno. */
void lm_report(const char *format, ...) LM_PRINTF(1, 2);

/* Formats one line like lm_report and passes it to the program's output handler, or to standard
 * error if there is no handler. The caller must hold no lock. Hosted builds only. */
void lm_print(const char *format, ...) LM_PRINTF(1, 2);

/* Describes a mistake: the sum of one LM_WRONG_* and one LM_MISTAKE_*. If the damage does not tell
 * which mistake it was, LM_MISTAKE_OR and LM_MISTAKE_OR_ELSE of two others are added. The program
 * continues if it continues after any of them. An error handler receives EINVAL for LM_WRONG_CALL
 * and EFAULT for LM_WRONG_DAMAGE. LM_WRONG_INSIDE never reaches a handler, because it is reported
 * while locks are held or lists are half changed. */
typedef unsigned lm_wrong_t;
enum {
    LM_WRONG_CALL,   /* a foreign, misaligned or already freed pointer; nothing has changed yet */
    LM_WRONG_DAMAGE, /* memory was overwritten; nothing has changed yet */
    LM_WRONG_INSIDE, /* memory was overwritten, found in the middle of loam's own work */
    LM_WRONG_HOW = 3 /* mask of the three values above */
};

/* Mistake number k is shifted left by LM_MISTAKE_SHIFT. Its name is word k of lm_mistake_word, and
 * word k + 1 of the option LOAM_IGNORE (options.def), whose first word is `none`. */
enum { LM_MISTAKE_SHIFT = 2 };
enum {
    LM_MISTAKE_OTHER,
    LM_MISTAKE_DOUBLE_FREE =
        1 << LM_MISTAKE_SHIFT, /* also realloc or malloc_usable_size after free */
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

/* Reports a mistake of the kind LM_WRONG_CALL + LM_MISTAKE_OTHER. Writes "loam: ", the formatted
 * text and "thread N)", then aborts unless the policy says otherwise. The caller's text must end
 * inside a bracket, as "... (" or "... (size class 48 B, ". */
void lm_misuse(const char *format, ...) LM_PRINTF(1, 2);
/* Reports a mistake of the kind `wrong`, otherwise like lm_misuse. Hosted builds only. */
void lm_wrong(lm_wrong_t wrong, const char *format, ...) LM_PRINTF(2, 3);

/* Number of mistakes found so far, whether reported or not. Atomic. */
extern size_t lm_wrong_count;

/* Returns whether the user chose that the program continues after this mistake. */
bool lm_wrong_goes_on(lm_wrong_t wrong);

/* A report under construction, for callers that add their own words before and after a given text.
 * lm_line_add appends text; lm_misuse_line completes the report. */
typedef struct lm_line {
    size_t used;
    char text[LM_LINE_BYTES];
} lm_line_t;

void lm_line_add(lm_line_t *line, const char *format, ...) LM_PRINTF(2, 3);
void lm_line_add_v(lm_line_t *line, const char *format, va_list args);
/* Appends "thread N)" to the line and reports it as lm_misuse does. */
void lm_misuse_line(lm_line_t *line);

#if LM_HOSTED
/* Returns the name of mistake number `mistake` in LOAM_IGNORE. */
const char *lm_mistake_word(unsigned mistake);
/* Appends to a complete report the setting that lets the program continue after it. Appends nothing
 * if the program continues anyway. */
void lm_line_add_way_out(lm_line_t *line, lm_wrong_t wrong);
#endif

void lm_assert_failed(const char *text, const char *file, int line) LM_NORETURN;

/* Atomic. NULL, or a function that writes more lines after each report of a mistake, before the
 * program ends (checks/sites.c). `written` tells whether the report was written; if it was not, the
 * function must write nothing. */
extern void (*lm_misuse_more)(bool written);

/* Functions of the port below (os/). They are declared here because base is the lower layer. */
void lm_port_write_error(const char *text, size_t bytes);
void lm_port_abort(void) LM_NORETURN;
#if LM_HOSTED
/* Passes a line to the program's output handler (os/handlers.c). Returns false iff no handler took
 * it. */
bool lm_port_print(const lm_line_t *line);
/* Result of lm_port_tell. LM_TOLD_NOBODY: no handler takes the report. LM_TOLD: a handler has been
 * called. LM_TOLD_LATER: a handler will be called, and the policy is applied afterwards. */
typedef enum lm_told { LM_TOLD_NOBODY, LM_TOLD, LM_TOLD_LATER } lm_told_t;
/* Passes a report to the program's error handler (os/handlers.c). Returns how that was done. */
lm_told_t lm_port_tell(lm_wrong_t wrong, const lm_line_t *line);
#endif
/* Returns the calling thread's number. */
unsigned lm_port_thread_id(void);
#if LM_HOSTED
/* Brackets lines that belong together, so that lines of other threads do not come between. Waits at
 * most one second for another thread's lines to end. Calls may nest. May be called in signal
 * handlers and under any lock. */
void lm_port_report_begin(void);
void lm_port_report_end(void);
#endif
/* Locks of the whole process. WALK is held while all allocators are inspected; a thread that takes
 * it must hold no other lock. LIST is held for a few instructions, within which no other lock is
 * taken, so LIST may be taken inside any lock. */
typedef enum lm_port_lock { LM_PORT_WALK, LM_PORT_LIST, LM_PORT_LOCKS } lm_port_lock_t;
void lm_port_lock(lm_port_lock_t lock);
void lm_port_unlock(lm_port_lock_t lock);

#endif
