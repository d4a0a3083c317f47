/* handlers.c: a program's handlers for lines, reports and the end of memory (loam/handlers.h).
 *
 *   lm_print, lm_misuse, a refusal ── is there a handler, and may this thread call it now?
 *        │ no                    │ yes                     │ it holds a lock of an allocator
 *        └──> standard error     └──> call, errno kept     └──> called when it releases the lock
 *
 * A handler and its argument are two words that must be read as a pair, by threads that may not
 * wait, and in children of forks. So they are in a sequence lock. Its writers hold the port's LIST
 * lock, which no fork finds held. Whether a thread is inside a handler is thread-local; the worker,
 * which has no thread-local data, never gets there. Heartbeats are counted here because they are
 * per thread, too. It cannot take back a handler that another thread is about to call.
 */
#include "os/os.h"

#include "loam/handlers.h"
#include "loam/limits.h"

#include <errno.h>
#include <stdarg.h>

enum { TRIES_MOST = 32, LATER_MOST = 4 };

typedef enum kind { OUTPUT, ERROR, OOM, DEFERRED, LIMIT, KINDS } kind_t;

typedef void handlers_function_t(void);

typedef struct handler {
    uint32_t turn; /* atomic: odd while a pair is written */
    handlers_function_t *function;
    void *argument;
} handler_t;

static handler_t handlers[KINDS];

/* A report that waits until its thread releases a lock. There are few, and they are not in each
 * thread's memory: a thread that finds none writes its line to standard error. */
typedef struct later {
    bool taken; /* atomic */
    lm_wrong_t wrong;
    lm_line_t line;
} later_t;

static later_t laters[LATER_MOST];

static LM_TLS struct {
    uint32_t inside; /* one bit for each kind of handler that runs */
    uint32_t held;   /* calls of lm_told_hold without lm_told_let */
    unsigned long long beats;
    later_t *later;
} handlers_mine;

/* ---- Pairs ---- */

static void handler_set(kind_t kind, handlers_function_t *function, void *argument) {
    handler_t *handler = &handlers[kind];
    lm_port_lock(LM_PORT_LIST);
    uint32_t turn = handler->turn;
    lm_store_relaxed(&handler->turn, turn + 1);
    /* Release, both: a thread that sees one of them sees the odd turn, or a later one. */
    lm_store_release(&handler->function, function);
    lm_store_release(&handler->argument, argument);
    /* Release: a thread that sees the turn sees the pair. */
    lm_store_release(&handler->turn, turn + 2);
    lm_port_unlock(LM_PORT_LIST);
}

/* Returns a consistent pair. Its function is NULL iff there is no handler. */
static handler_t handler_get(kind_t kind) {
    handler_t *handler = &handlers[kind], got;
    uint32_t after;
    do {
        /* Acquire: see the pair of that turn, or a newer one. */
        got.turn = lm_load_acquire(&handler->turn);
        /* Acquire, both: the next load of turn is not older than the turn that they belong to. */
        got.function = lm_load_acquire(&handler->function);
        got.argument = lm_load_acquire(&handler->argument);
        after = lm_load_relaxed(&handler->turn);
    } while (got.turn % 2 != 0 || got.turn != after);
    return got;
}

/* Returns the handler to call now. There is none for the worker, nor for a thread that is running a
 * handler of that kind already. */
static handler_t handler_for_call(kind_t kind) {
    /* Relaxed: most programs have no handler, and a handler that is set now may be missed. */
    if (lm_load_relaxed(&handlers[kind].function) == NULL || lm_os_worker_self() ||
        (handlers_mine.inside & 1u << kind) != 0)
        return (handler_t){0, NULL, NULL};
    return handler_get(kind);
}

void loam_output_register(loam_output_handler handler, void *argument) {
    handler_set(OUTPUT, (handlers_function_t *)handler, argument);
}
void loam_error_register(loam_error_handler handler, void *argument) {
    handler_set(ERROR, (handlers_function_t *)handler, argument);
}
void loam_oom_register(loam_oom_handler handler, void *argument) {
    handler_set(OOM, (handlers_function_t *)handler, argument);
}

void loam_limit_register(loam_limit_handler handler, void *argument) {
    handler_set(LIMIT, (handlers_function_t *)handler, argument);
}

bool lm_heartbeat_wanted;
size_t lm_slowpath_hook_limit = LM_QUIET_MOST;

/* Relaxed, here and below: it suffices that a later slow path sees it. */
void lm_quiet_end(void) { lm_store_relaxed(&lm_slowpath_hook_limit, 0); }

static void start_beating(void) {
    lm_store_relaxed(&lm_heartbeat_wanted, true);
    lm_quiet_end();
}

void loam_deferred_free_register(loam_deferred_handler handler, void *argument) {
    handler_set(DEFERRED, (handlers_function_t *)handler, argument);
    start_beating();
}

unsigned long long loam_heartbeat(void) {
    if (!lm_load_relaxed(&lm_heartbeat_wanted)) start_beating();
    return handlers_mine.beats;
}

/* ---- Calls ---- */

static void call_error(const handler_t *handler, int code, const lm_line_t *line) {
    LM_ASSERT(handlers_mine.held == 0 && (handlers_mine.inside & 1u << ERROR) == 0);
    int error = errno;
    handlers_mine.inside |= 1u << ERROR;
    ((loam_error_handler)handler->function)(code, line->text, handler->argument);
    handlers_mine.inside &= ~(1u << ERROR);
    errno = error;
}

bool lm_port_print(const lm_line_t *line) {
    handler_t handler = handler_for_call(OUTPUT);
    if (handler.function == NULL || handlers_mine.held > 0) return false;
    lm_line_t whole = *line;
    if (whole.used > LM_LINE_BYTES - 2) whole.used = LM_LINE_BYTES - 2;
    whole.text[whole.used++] = '\n';
    LM_ASSERT(whole.used < sizeof whole.text);
    whole.text[whole.used] = '\0';
    int error = errno;
    handlers_mine.inside |= 1u << OUTPUT;
    ((loam_output_handler)handler.function)(whole.text, whole.used, handler.argument);
    handlers_mine.inside &= ~(1u << OUTPUT);
    errno = error;
    return true;
}

static int code_of(lm_wrong_t wrong) {
    return (wrong & LM_WRONG_HOW) == LM_WRONG_CALL ? EINVAL : EFAULT;
}

lm_told_t lm_port_tell(lm_wrong_t wrong, const lm_line_t *line) {
    LM_ASSERT((wrong & LM_WRONG_HOW) < LM_WRONG_INSIDE);
    handler_t handler = handler_for_call(ERROR);
    if (handler.function == NULL) return LM_TOLD_NOBODY;
    if (handlers_mine.held == 0) {
        call_error(&handler, code_of(wrong), line);
        return LM_TOLD;
    }
    for (int i = 0; i < LATER_MOST && handlers_mine.later == NULL; i++) {
        /* Acquire: its last user has read it. */
        if (__atomic_exchange_n(&laters[i].taken, true, __ATOMIC_ACQUIRE)) continue;
        laters[i].wrong = wrong;
        laters[i].line = *line;
        handlers_mine.later = &laters[i];
        return LM_TOLD_LATER;
    }
    return LM_TOLD_NOBODY;
}

void lm_told_hold(void) {
    LM_ASSERT(!lm_os_worker_self());
    handlers_mine.held++;
}

void lm_told_let(void) {
    if (handlers_mine.held > 0) handlers_mine.held--;
    later_t *later = handlers_mine.later;
    if (LM_LIKELY(later == NULL) || handlers_mine.held > 0) return;
    LM_ASSERT(lm_load_relaxed(&later->taken) && later->line.used < sizeof later->line.text);
    handlers_mine.later = NULL;
    lm_wrong_t wrong = later->wrong;
    lm_line_t line = later->line;
    /* Release: this thread has read the report. */
    lm_store_release(&later->taken, false);
    handler_t handler = handler_for_call(ERROR);
    if (handler.function != NULL)
        call_error(&handler, code_of(wrong), &line);
    else if (!lm_load_relaxed(&lm_misuse_policy.quiet)) /* the handler was removed meanwhile */
        lm_report("%s", line.text);
    if (!lm_wrong_goes_on(wrong)) lm_port_abort();
}

void lm_told_after_fork(void) {
    handlers_mine.held = 0;
    /* A thread that does not exist in the child was setting the pair. */
    for (int kind = 0; kind < KINDS; kind++) {
        if (handlers[kind].turn % 2 != 0)
            handlers[kind] = (handler_t){handlers[kind].turn + 1, NULL, NULL};
    }
    for (int i = 0; i < LATER_MOST; i++) { /* reports of threads that do not exist in the child */
        if (&laters[i] != handlers_mine.later) lm_store_relaxed(&laters[i].taken, false);
    }
}

bool lm_deferred_free(bool force) {
    LM_ASSERT(!lm_os_worker_self());
    if (!force) handlers_mine.beats++;
    handler_t handler = handler_for_call(DEFERRED);
    if (handler.function == NULL || handlers_mine.held > 0) return false;
    int error = errno;
    handlers_mine.inside |= 1u << DEFERRED;
    ((loam_deferred_handler)handler.function)(force, handlers_mine.beats, handler.argument);
    handlers_mine.inside &= ~(1u << DEFERRED);
    errno = error;
    return true;
}

void lm_limit_told(size_t held, size_t soft) {
    LM_ASSERT(held > soft);
    handler_t handler = handler_for_call(LIMIT);
    if (handler.function == NULL) return;
    int error = errno;
    handlers_mine.inside |= 1u << LIMIT;
    ((loam_limit_handler)handler.function)(held, soft, handler.argument);
    handlers_mine.inside &= ~(1u << LIMIT);
    errno = error;
}

bool lm_told_may(void) { return handlers_mine.held == 0 && !lm_fork_here(); }

bool lm_memory_made(size_t bytes, unsigned *tries) {
    LM_ASSERT(!lm_os_worker_self() && *tries <= TRIES_MOST);
    if (*tries >= TRIES_MOST) return false;
    handler_t handler = handler_for_call(OOM);
    if (handler.function == NULL || handlers_mine.held > 0) return false;
    ++*tries;
    int error = errno;
    handlers_mine.inside |= 1u << OOM;
    bool made = ((loam_oom_handler)handler.function)(bytes, handler.argument);
    handlers_mine.inside &= ~(1u << OOM);
    errno = error;
    return made;
}

LM_AT_START bool lm_refused_aborts;

/* Relaxed: an independent word, which takes effect at a later failure. */
static bool ends_program(void) { return lm_load_relaxed(&lm_refused_aborts); }

/* Tells the program's error handler that an allocation fails; ends the program if
 * LOAM_ABORT_ON_OOM=1. */
static LM_COLD void refuse(bool overflow, const char *format, ...) {
    handler_t handler = handler_for_call(ERROR);
    bool told = handler.function != NULL && handlers_mine.held == 0;
    if (!told && !ends_program()) return;
    lm_line_t line = {0};
    lm_line_add(&line, "loam: out of memory: %s", overflow ? "more than there can be: " : "");
    va_list args;
    va_start(args, format);
    lm_line_add_v(&line, format, args);
    va_end(args);
    lm_line_add(&line, " refused (thread %u)", lm_port_thread_id());
    if (told) call_error(&handler, overflow ? EOVERFLOW : ENOMEM, &line);
    if (!ends_program()) return;
    if (!told && !lm_load_relaxed(&lm_misuse_policy.quiet)) lm_report("%s", line.text);
    lm_port_abort();
}

void lm_refused(size_t bytes, bool overflow) { refuse(overflow, "%zu bytes", bytes); }

void lm_refused_aligned(size_t bytes, size_t align, bool overflow) {
    refuse(overflow, "%zu bytes at a multiple of %zu", bytes, align);
}

void lm_refused_array(size_t count, size_t size) {
    refuse(true, "%zu objects of %zu bytes", count, size);
}
