/* faulty.h: a script of refusals for the operating system under loam; tests only.
 *
 *   lm_faulty_fail(LM_FAULT_COMMIT, 3, 1)   the third commit from now fails, and no other
 *   lm_faulty_fail(LM_FAULT_ANY, 5, 2)      the fifth and the sixth call, whatever they are
 *   lm_faulty_fail(LM_FAULT_PURGE, 1, LM_FAULT_ALWAYS)
 *
 * One script at a time: setting one replaces the last and counts from 1 again. Threads may call the
 * system meanwhile (the worker does), but only one of them sets the script.
 */
#ifndef LM_OS_FAULTY_H
#define LM_OS_FAULTY_H

#include "os/os.h"

typedef enum lm_fault {
    LM_FAULT_PLACE,
    LM_FAULT_RESERVE,
    LM_FAULT_COMMIT,
    LM_FAULT_PURGE,
    LM_FAULT_MOVE,
    LM_FAULT_WORKER,
    LM_FAULT_BIND,
    LM_FAULT_POOL,
    LM_FAULT_PROTECT,
    LM_FAULT_UNMARK,
    LM_FAULT_ANY, /* all of the above, counted together */
    LM_FAULT_KINDS,
} lm_fault_t;

#define LM_FAULT_ALWAYS ((size_t)-1)

/* From now on the calls number first .. first + count - 1 of that kind fail; the first call is
 * 1. */
void lm_faulty_fail(lm_fault_t kind, size_t first, size_t count);

/* From now on nothing fails; counts start at 0. */
void lm_faulty_clear(void);

/* From now on the system refuses to take [at, at + bytes) back, whole pages, as if they were
 * locked; a purge that meets them gives back what lies before them and then fails. At most
 * LM_FAULTY_LOCKS ranges; 0 bytes end all of them. A purge that fails so counts as one that
 * failed. */
enum { LM_FAULTY_LOCKS = 4096 };
void lm_faulty_lock(const void *at, size_t bytes);

/* Calls of that kind, and those of them that failed on purpose, since the script was set. */
size_t lm_faulty_calls(lm_fault_t kind);
size_t lm_faulty_failures(lm_fault_t kind);

/* Another machine: nodes by bits (0: the real ones), on one of which every thread runs; binding to
 * them does nothing but count. A pool with so many pages of 2 MiB and of 1 GiB, which are ordinary
 * memory here; each takes ms to come. */
typedef struct lm_faulty_machine {
    uint64_t nodes;
    unsigned node;
    bool has_pool;
    size_t pages_2m, pages_1g;
    uint64_t ms;
} lm_faulty_machine_t;
void lm_faulty_machine(const lm_faulty_machine_t *machine);

/* Calls and bytes bound to a node since then. */
size_t lm_faulty_binds(unsigned node, size_t *bytes);

/* How often it was asked which nodes there are, or where a thread runs. */
size_t lm_faulty_asked(void);

#endif
