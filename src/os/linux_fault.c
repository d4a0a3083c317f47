/* linux_fault.c: which handler receives an access to memory that may not be accessed, and what
 * follows.
 *
 *   SIGSEGV, SIGBUS ──> judge ── other, end ──> the program's former handler is called; without
 *                        │                      one, the default action is set and the access made
 *                        │                      again, so that a core dump shows it
 *                        └────── again ───────> the access is made again and succeeds
 *
 *   Installed again over a handler H that knows loam's:
 *     system ──> level 1 ──> H ──> level 0 ──> the handler before H
 *
 * It is installed only when a feature wants to judge (sampling/sampled.c). It calls nothing that
 * could take a lock. It passes signals on nearly as if it were absent: with the same signal mask
 * and arguments, on the alternate stack only if the former handler asks for it (or there is no
 * former handler). It does not notice a handler that is installed later: that handler is called,
 * and this one only if the signal is passed on to it. A program that installs a handler later has
 * the address of loam's, and may call it or put it back. So each installation is a function of its
 * own, a level, which passes signals on to the handler before it and to no newer one. Signals sent
 * by kill are passed on without judging.
 */
#define _GNU_SOURCE 1 /* names of registers in ucontext.h */
#include "os/os.h"

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>

static lm_verdict_t (*judge)(const lm_bad_access_t *access); /* atomic */

enum { KINDS = 2, LEVELS = 8 };
static const int signals[KINDS] = {SIGSEGV, SIGBUS};

/* The handler before each level. It is written before the level's function can be called. */
static struct {
    struct sigaction before;
    /* Atomic: `before` was to be called once (SA_RESETHAND) and has been. */
    bool spent;
} levels[KINDS][LEVELS];
static int used[KINDS];
static uint32_t requests; /* atomic: calls of lm_os_judge_faults whose work is not done yet */

typedef struct passing {
    const void *context;
    uintptr_t frame; /* frame address of the function that passes it on */
    int level;
} passing_t;

/* This thread's last reported access, and the signal that it passes on. */
static LM_TLS struct {
    lm_bad_access_t told;
    int level; /* the level that reported it */
    /* That level's handler has returned, so the next access like it is a repetition. */
    bool returned;
    passing_t passing;
} fault_mine;

static void read_context(lm_bad_access_t *access, const ucontext_t *context) {
    access->place = (lm_place_t){LM_CONTEXT_PC(context), LM_CONTEXT_SP(context),
                                 LM_CONTEXT_FP(context), LM_CONTEXT_LINK(context)};
    int writes = LM_CONTEXT_WRITES(context);
    access->way = writes < 0 ? LM_ACCESS : writes != 0 ? LM_ACCESS_WRITE : LM_ACCESS_READ;
}

static bool is_function(const struct sigaction *action) {
    return action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN;
}

/* Lets the system act on the signal: there is no handler to pass it on to. */
static void fault_end(int number, const siginfo_t *info, bool ignored) {
    struct sigaction none = {.sa_handler = SIG_DFL};
    bool sent = info != NULL && info->si_code <= 0; /* sent by kill: nothing will repeat it */
    if (sent && ignored) return;
    (void)sigaction(number, &none,
                    /* The system does not ignore a bad access either. */
                    NULL);
    if (sent)
        (void)lm_syscall(SYS_tgkill, (intptr_t)lm_os_process(), (intptr_t)lm_port_thread_id(),
                         number, 0, 0, 0);
}

/* Passes the signal on to the handler before the level. loam's handler stays installed for the next
 * access, whether that handler returns or jumps. */
static void pass_on(int number, int level, bool told, siginfo_t *info, void *context) {
    LM_ASSERT(level < LEVELS);
    int kind = number == SIGBUS;
    const struct sigaction *old = level >= 0 ? &levels[kind][level].before : NULL;
    bool function = old != NULL && is_function(old);
    /* Relaxed: an independent word. A thread that finds it set uses the default action, as if the
     * handler had been reset. */
    if (function && (old->sa_flags & (int)SA_RESETHAND) != 0)
        function = !__atomic_exchange_n(&levels[kind][level].spent, true, __ATOMIC_RELAXED);
    /* As lm_port_abort does: no other report begins. */
    if (!function && told) lm_port_report_begin();
    if (!function)
        fault_end(number, info, old != NULL && !is_function(old) && old->sa_handler == SIG_IGN);
    else if ((old->sa_flags & SA_SIGINFO) != 0)
        old->sa_sigaction(number, info, context);
    else
        old->sa_handler(number);
}

/* Returns whether the handler to which this thread is passing a signal has called back, and did not
 * leave by a jump. The stack tells: a new signal, even with its context at the same address, enters
 * at the same frame address, not below. */
static bool is_nested(const void *context, uintptr_t frame) {
    return context == NULL ||
           (fault_mine.passing.context == context && frame < fault_mine.passing.frame);
}

static bool is_told(const lm_bad_access_t *access, int level) {
    const lm_bad_access_t *told = &fault_mine.told;
    return (level < fault_mine.level || fault_mine.returned) && told->address == access->address &&
           told->place.pc == access->place.pc && told->place.sp == access->place.sp;
}

static lm_verdict_t judged(int level, const siginfo_t *info, const void *context) {
    if (info == NULL || context == NULL || info->si_code <= 0) return LM_VERDICT_OTHER;
    lm_bad_access_t access = {.address = (uintptr_t)info->si_addr};
    read_context(&access, (const ucontext_t *)context);
    if (is_told(&access, level)) return LM_VERDICT_END;
    LM_ASSERT(lm_load_relaxed(&judge) != NULL);
    /* Relaxed: set before loam's handler was installed. */
    lm_verdict_t verdict = lm_load_relaxed(&judge)(&access);
    if (verdict == LM_VERDICT_END) {
        fault_mine.told = access;
        fault_mine.level = level;
        fault_mine.returned = false;
    }
    return verdict;
}

static LM_NOINLINE void handle(int number, int level, siginfo_t *info, void *context) {
    int error = errno;
    uintptr_t frame = (uintptr_t)__builtin_frame_address(0);
    if (is_nested(context, frame) && level >= fault_mine.passing.level)
        level = fault_mine.passing.level - 1;
    lm_verdict_t verdict = judged(level, info, context);
    errno = error;
    if (verdict == LM_VERDICT_AGAIN) return;
    passing_t outer = fault_mine.passing;
    fault_mine.passing = (passing_t){context, frame, level};
    pass_on(number, level, verdict == LM_VERDICT_END, info, context);
    fault_mine.passing = outer;
    if (verdict == LM_VERDICT_END && level == fault_mine.level) fault_mine.returned = true;
}

/* ---- Levels ---- */

#define EACH_LEVEL(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7)

#define FUNCTION(level) \
    static void handle_##level(int number, siginfo_t *info, void *context) { \
        handle(number, level, info, context); \
    }
EACH_LEVEL(FUNCTION)

typedef void fault_function_t(int number, siginfo_t *info, void *context);

#define FAULT_NAME(level) handle_##level,
static fault_function_t *const functions[LEVELS] = {EACH_LEVEL(FAULT_NAME)};

static bool fault_is_ours(const struct sigaction *action) {
    for (int i = 0; i < LEVELS && (action->sa_flags & SA_SIGINFO) != 0; i++) {
        if (action->sa_sigaction == functions[i]) return true;
    }
    return false;
}

static void fault_take(int kind) {
    struct sigaction old;
    LM_ASSERT(used[kind] >= 0 && used[kind] <= LEVELS);
    if (sigaction(signals[kind], NULL, &old) != 0 || fault_is_ours(&old)) return;
    int level = used[kind] - 1;
    /* If it is the same handler, its level suffices; is_nested notices if that handler has recorded
     * loam's address anew. */
    if (level < 0 || levels[kind][level].before.sa_handler != old.sa_handler) level++;
    if (level == LEVELS) return;
    used[kind] = level + 1;
    levels[kind][level].before = old;
    /* Relaxed: the level's function cannot be called yet. */
    lm_store_relaxed(&levels[kind][level].spent, false);
    struct sigaction ours = {.sa_sigaction = functions[level]};
    ours.sa_mask = old.sa_mask;
    /* Without a former handler only loam's runs: on the alternate stack, if there is one, because
     * the thread's own may be small. Otherwise the program's handler runs on the stack that it
     * would have without loam. */
    int kept = SA_NODEFER | SA_RESTART | SA_ONSTACK;
    ours.sa_flags = SA_SIGINFO | (is_function(&old) ? old.sa_flags & kept : SA_ONSTACK);
    (void)sigaction(signals[kind], &ours, NULL);
}

/* Ends the work if no call has come since *seen calls were counted. Returns whether the work has
 * ended. */
static bool fault_settled(uint32_t *seen) {
    return __atomic_compare_exchange_n(&requests, seen, 0, false, __ATOMIC_SEQ_CST,
                                       __ATOMIC_SEQ_CST);
}

/* No lock is held while sigaction runs: a preloaded tool may have wrapped it by a function that
 * allocates. A second caller meanwhile leaves the work to the first, which looks again. */
void lm_os_judge_faults(lm_verdict_t (*function)(const lm_bad_access_t *access)) {
    LM_ASSERT(function != NULL);
    int error = errno;
    lm_store_relaxed(&judge, function); /* relaxed: it is set once and never changed back */
    /* Sequentially consistent, here and in fault_settled: either the first caller sees the request,
     * or this call does the work. */
    if (__atomic_fetch_add(&requests, 1, __ATOMIC_SEQ_CST) == 0) {
        uint32_t seen = 1;
        do {
            for (int i = 0; i < KINDS; i++) fault_take(i);
        } while (!fault_settled(&seen));
    }
    errno = error;
}

void lm_os_judge_after_fork(void) { lm_store_relaxed(&requests, 0); }
