/* ask.c: counts the threads that are asking the system a question that malloc does not depend on.
 *
 * A program that sets a filter of system calls (seccomp) may be killed for such a question: what
 * other threads do, how much memory there is, on which processor this thread runs. So no question
 * is asked once a filter is about to be set (span/worker.c). A filter may apply to all threads at
 * once. The thread that sets it must then wait for threads that have found that they may ask, and
 * have not asked yet.
 *
 *     lm_ask_begin                   count, then look    ┐  one of the two sees the other: both are
 *     lm_ask_forbid, lm_ask_await    forbid, then look   ┘  sequentially consistent
 *
 * It cannot wait for a thread that is stopped in between, nor for a question that a signal handler
 * of the same thread has interrupted; it continues after PATIENCE_MS. It does not see filters that
 * are set by instruction. Model: tests/protocol/ask.pml.
 */
#include "os/os.h"

enum { ASK_PATIENCE_MS = 200 };

static LM_AT_START bool ask_forbidden; /* atomic */
static LM_AT_START int32_t asking;     /* atomic: calls of lm_ask_begin without their lm_ask_end */

bool lm_ask_begin(void) {
    /* Acquire: see what the filter kills for (lm_os_advice_kills). Whether questions are forbidden
     * is checked again below. */
    if (LM_UNLIKELY(lm_load_acquire(&ask_forbidden))) return false;
    (void)__atomic_fetch_add(&asking, 1, __ATOMIC_SEQ_CST);
    if (LM_LIKELY(!__atomic_load_n(&ask_forbidden, __ATOMIC_SEQ_CST))) return true;
    lm_ask_end();
    return false;
}

/* Release: a thread that waits for the question continues after it. */
void lm_ask_end(void) { (void)lm_sub_release(&asking, 1); }

void lm_ask_forbid(bool forbid) { __atomic_store_n(&ask_forbidden, forbid, __ATOMIC_SEQ_CST); }

void lm_ask_await(void) {
    uint32_t never = 0;
    for (int ms = 0; ms < ASK_PATIENCE_MS && __atomic_load_n(&asking, __ATOMIC_SEQ_CST) > 0; ms++)
        lm_os_wait(&never, 0, 1);
}

/* Relaxed: there is one thread. If a signal handler forked during a question, one more lm_ask_end
 * follows. */
void lm_ask_after_fork(void) { lm_store_relaxed(&asking, 0); }
