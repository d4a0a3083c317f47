/* linux_fault.c: who hears of an access to memory that may not be accessed, and what becomes of it.
 *
 *   SIGSEGV, SIGBUS ──> judge ── other, end ──> the program's handler before, by a call; without one: the system's
 *                        │                      way is put back, and the access made again: a core dump of it
 *                        └────── again ───────> back to the access, which succeeds now
 *
 *   installed anew over a handler H that knows us:    system ──> level 1 ──> H ──> level 0 ──> what was before H
 *
 * Installed only when somebody wants to judge (sampling/sampled.c). It calls nothing that could take a
 * lock, and passes on nearly as if it had not been there: the same signal mask, the same arguments,
 * the alternate stack only where the handler before asks for it (or where there is none). It does
 * not see who installs a handler later: then that one is called, and this one is not, unless it is
 * passed on to. Who installs one later has the address of ours, and may call it, or put it back. So
 * each installation is a function of its own, a level, which passes on to what was before it and to
 * nothing newer. Signals sent by kill are none of its business, and passed on.
 */
#define _GNU_SOURCE 1 /* names of registers */
#include "os/os.h"

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>

static lm_verdict_t (*judge)(const lm_bad_access_t *access); /* atomic */

enum { KINDS = 2, LEVELS = 8 };
static const int signals[KINDS] = {SIGSEGV, SIGBUS};

/* Of a level, written before its function can be called. */
static struct {
    struct sigaction before;
    bool spent; /* atomic: that was to be called once, and has been */
} levels[KINDS][LEVELS];
static int used[KINDS];
static uint32_t requests; /* atomic: calls of lm_os_judge_faults whose work is not done yet */

typedef struct passing {
    const void *context;
    uintptr_t frame; /* of who passes it on */
    int level;
} passing_t;

/* The last access of the thread's that was told, and what it passes on. */
static LM_TLS struct {
    lm_bad_access_t told;
    int level;     /* that told it */
    bool returned; /* the handler has, so that the access is made again: no other one */
    passing_t passing;
} mine;

static void read_context(lm_bad_access_t *access, const ucontext_t *context) {
    access->place = (lm_place_t){LM_CONTEXT_PC(context), LM_CONTEXT_SP(context),
                                 LM_CONTEXT_FP(context), LM_CONTEXT_LINK(context)};
    int writes = LM_CONTEXT_WRITES(context);
    access->way = writes < 0 ? LM_ACCESS : writes != 0 ? LM_ACCESS_WRITE : LM_ACCESS_READ;
}

static bool is_function(const struct sigaction *action) {
    return action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN;
}

/* Nobody is left to pass on to: what the system does with it. */
static void end(int number, const siginfo_t *info, bool ignored) {
    struct sigaction none = {.sa_handler = SIG_DFL};
    bool sent = info != NULL && info->si_code <= 0; /* by kill: nothing happens again by itself */
    if (sent && ignored) return;
    (void)sigaction(number, &none,
                    NULL); /* an access that is bad is not ignored by the system either */
    if (sent)
        (void)lm_syscall(SYS_tgkill, (intptr_t)lm_os_process(), (intptr_t)lm_port_thread_id(),
                         number, 0, 0, 0);
}

/* To what was before the level; we stay installed, for the next access, if the handler returns or
 * jumps. */
static void pass_on(int number, int level, bool told, siginfo_t *info, void *context) {
    int kind = number == SIGBUS;
    const struct sigaction *old = level >= 0 ? &levels[kind][level].before : NULL;
    bool function = old != NULL && is_function(old);
    if (function && (old->sa_flags & (int)SA_RESETHAND) != 0)
        /* Relaxed: a word by itself; who finds it set finds the system's way, as if it had been put
         * back. */
        function = !__atomic_exchange_n(&levels[kind][level].spent, true, __ATOMIC_RELAXED);
    if (!function && told) lm_port_report_begin(); /* as lm_port_abort does */
    if (!function)
        end(number, info, old != NULL && !is_function(old) && old->sa_handler == SIG_IGN);
    else if ((old->sa_flags & SA_SIGINFO) != 0)
        old->sa_sigaction(number, info, context);
    else
        old->sa_handler(number);
}

/* Whether the handler that this thread passes the same signal on to has called back, and did not
 * leave by a jump: a new signal, even if its context lies where that one's did, comes in where that
 * one did, not below. */
static bool is_nested(const void *context, uintptr_t frame) {
    return context == NULL || (mine.passing.context == context && frame < mine.passing.frame);
}

static bool is_told(const lm_bad_access_t *access, int level) {
    const lm_bad_access_t *told = &mine.told;
    return (level < mine.level || mine.returned) && told->address == access->address &&
           told->place.pc == access->place.pc && told->place.sp == access->place.sp;
}

static lm_verdict_t judged(int level, const siginfo_t *info, const void *context) {
    if (info == NULL || context == NULL || info->si_code <= 0) return LM_VERDICT_OTHER;
    lm_bad_access_t access = {.address = (uintptr_t)info->si_addr};
    read_context(&access, (const ucontext_t *)context);
    if (is_told(&access, level)) return LM_VERDICT_END;
    /* Relaxed: set before we were installed. */
    lm_verdict_t verdict = lm_load_relaxed(&judge)(&access);
    if (verdict == LM_VERDICT_END) {
        mine.told = access;
        mine.level = level;
        mine.returned = false;
    }
    return verdict;
}

static LM_NOINLINE void handle(int number, int level, siginfo_t *info, void *context) {
    int error = errno;
    uintptr_t frame = (uintptr_t)__builtin_frame_address(0);
    if (is_nested(context, frame) && level >= mine.passing.level) level = mine.passing.level - 1;
    lm_verdict_t verdict = judged(level, info, context);
    errno = error;
    if (verdict == LM_VERDICT_AGAIN) return;
    passing_t outer = mine.passing;
    mine.passing = (passing_t){context, frame, level};
    pass_on(number, level, verdict == LM_VERDICT_END, info, context);
    mine.passing = outer;
    if (verdict == LM_VERDICT_END && level == mine.level) mine.returned = true;
}

/* ---- Levels ---- */

#define EACH_LEVEL(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7)

#define FUNCTION(level) \
    static void handle_##level(int number, siginfo_t *info, void *context) { \
        handle(number, level, info, context); \
    }
EACH_LEVEL(FUNCTION)

typedef void function_t(int number, siginfo_t *info, void *context);

#define NAME(level) handle_##level,
static function_t *const functions[LEVELS] = {EACH_LEVEL(NAME)};

static bool is_ours(const struct sigaction *action) {
    for (int i = 0; i < LEVELS && (action->sa_flags & SA_SIGINFO) != 0; i++) {
        if (action->sa_sigaction == functions[i]) return true;
    }
    return false;
}

static void take(int kind) {
    struct sigaction old;
    if (sigaction(signals[kind], NULL, &old) != 0 || is_ours(&old)) return;
    int level = used[kind] - 1;
    /* The same handler again: its level will do, and is_nested knows if it has taken our address
     * anew. */
    if (level < 0 || levels[kind][level].before.sa_handler != old.sa_handler) level++;
    if (level == LEVELS) return;
    used[kind] = level + 1;
    levels[kind][level].before = old;
    lm_store_relaxed(&levels[kind][level].spent, false); /* relaxed: nobody is called yet */
    struct sigaction ours = {.sa_sigaction = functions[level]};
    ours.sa_mask = old.sa_mask;
    /* Where there is no handler it is only ours that runs: on the alternate stack, if there is one,
     * because the thread's own may be small. Else the program's runs where it would without us. */
    int kept = SA_NODEFER | SA_RESTART | SA_ONSTACK;
    ours.sa_flags = SA_SIGINFO | (is_function(&old) ? old.sa_flags & kept : SA_ONSTACK);
    (void)sigaction(signals[kind], &ours, NULL);
}

/* Ends the work if no call has come since *seen calls were counted. Returns whether it has
 * ended. */
static bool settled(uint32_t *seen) {
    return __atomic_compare_exchange_n(&requests, seen, 0, false, __ATOMIC_SEQ_CST,
                                       __ATOMIC_SEQ_CST);
}

/* No lock is held while sigaction runs: a preloaded tool may have wrapped it by a function that
 * allocates. A second caller meanwhile leaves the work to the first one, which looks again. */
void lm_os_judge_faults(lm_verdict_t (*function)(const lm_bad_access_t *access)) {
    int error = errno;
    lm_store_relaxed(&judge, function); /* relaxed: it is never changed back */
    /* Sequentially consistent, both: either the first caller sees the request, or this call does
     * the work. */
    if (__atomic_fetch_add(&requests, 1, __ATOMIC_SEQ_CST) == 0) {
        uint32_t seen = 1;
        do {
            for (int i = 0; i < KINDS; i++) take(i);
        } while (!settled(&seen));
    }
    errno = error;
}

void lm_os_judge_after_fork(void) { lm_store_relaxed(&requests, 0); }
