/* linux_fault.c: who hears of an access to memory that may not be accessed, and what becomes of it.
 *
 *   SIGSEGV, SIGBUS ──> judge ── other ──> the program's handler before; without one: the system's way, a core dump
 *                        │  └─── again ──> back to the access, which succeeds now
 *                        └────── end ────> what was there before is put back, and the access made again: the core
 *                                          dump, or the program's handler, finds it where it happened
 *
 * Installed only when somebody wants to judge (heap/sampled.c). It runs on the program's alternate stack where there
 * is one, calls nothing that could take a lock, and passes on as if it had not been there: the same signal mask, the
 * same arguments. It does not see who installs a handler later: then that one is called, and this one is not, unless it
 * is passed on to. Signals sent by kill are none of its business, and passed on.
 */
#define _GNU_SOURCE 1 /* names of registers */
#include "os/os.h"

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>

static lm_verdict_t (*judge)(const lm_bad_access_t *access); /* atomic */

enum { KINDS = 2 };
static const int signals[KINDS] = {SIGSEGV, SIGBUS};
static struct sigaction before[KINDS]; /* written before our handler can be called */
static lm_lock_t lock;

static void read_context(lm_bad_access_t *access, const ucontext_t *context) {
    access->place = (lm_place_t){LM_CONTEXT_PC(context), LM_CONTEXT_SP(context),
                                 LM_CONTEXT_FP(context), LM_CONTEXT_LINK(context)};
    int writes = LM_CONTEXT_WRITES(context);
    access->way = writes < 0 ? LM_ACCESS : writes != 0 ? LM_ACCESS_WRITE : LM_ACCESS_READ;
}

/* What would have happened without us. */
static void pass_on(int number, siginfo_t *info, void *context, bool again) {
    const struct sigaction *old = &before[number == SIGBUS];
    bool function = (old->sa_flags & SA_SIGINFO) != 0 ||
                    (old->sa_handler != SIG_DFL && old->sa_handler != SIG_IGN);
    if (again || !function) {
        bool sent = info->si_code <= 0; /* by kill: nothing happens again by itself */
        if (sent && old->sa_handler == SIG_IGN) return;
        (void)sigaction(number, old, NULL);
        if (sent)
            (void)lm_syscall(SYS_tgkill, (intptr_t)lm_os_process(), (intptr_t)lm_port_thread_id(),
                             number, 0, 0, 0);
        return;
    }
    if ((old->sa_flags & (int)SA_RESETHAND) != 0) {
        struct sigaction none = {.sa_handler = SIG_DFL};
        (void)sigaction(number, &none, NULL);
    }
    if ((old->sa_flags & SA_SIGINFO) != 0)
        old->sa_sigaction(number, info, context);
    else
        old->sa_handler(number);
}

static void handle(int number, siginfo_t *info, void *context) {
    int error = errno;
    lm_bad_access_t access = {.address = (uintptr_t)info->si_addr};
    lm_verdict_t verdict = LM_VERDICT_OTHER;
    if (info->si_code > 0) {
        read_context(&access, (const ucontext_t *)context);
        verdict = lm_load_relaxed(&judge)(&access); /* relaxed: set before we were installed */
    }
    errno = error;
    if (verdict != LM_VERDICT_AGAIN) pass_on(number, info, context, verdict == LM_VERDICT_END);
}

static bool is_ours(const struct sigaction *action) {
    return (action->sa_flags & SA_SIGINFO) != 0 && action->sa_sigaction == handle;
}

void lm_os_judge_faults(lm_verdict_t (*function)(const lm_bad_access_t *access)) {
    lm_lock_take(&lock);
    int error = errno;
    lm_store_relaxed(&judge, function);
    for (int i = 0; i < KINDS; i++) {
        struct sigaction old;
        if (sigaction(signals[i], NULL, &old) != 0 || is_ours(&old)) continue;
        before[i] = old;
        struct sigaction ours = {.sa_sigaction = handle};
        ours.sa_mask = old.sa_mask;
        ours.sa_flags = SA_SIGINFO | SA_ONSTACK | (old.sa_flags & (SA_NODEFER | SA_RESTART));
        (void)sigaction(signals[i], &ours, NULL);
    }
    errno = error;
    lm_lock_give(&lock);
}
