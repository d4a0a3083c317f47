/* faulty.h: a script of failures for the operating system below loam; tests only.
 *
 *   lm_faulty_fail(LM_FAULT_COMMIT, 3, 1)   the third commit from now fails, and no other
 *   lm_faulty_fail(LM_FAULT_ANY, 5, 2)      the fifth and the sixth call of any kind fail
 *   lm_faulty_fail(LM_FAULT_PURGE, 1, LM_FAULT_ALWAYS)
 *
 * There is one script at a time: a new one replaces the last and counts from 1 again. Threads may
 * call the system meanwhile (the worker does), but only one thread may set the script.
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
    LM_FAULT_ANY, /* all kinds above, counted together */
    LM_FAULT_KINDS,
} lm_fault_t;

#define LM_FAULT_ALWAYS ((size_t)-1)

/* From now on the calls first .. first + count - 1 of that kind fail. Calls are numbered from 1. */
void lm_faulty_fail(lm_fault_t kind, size_t first, size_t count);

/* From now on no call fails. Counts start at 0 again. */
void lm_faulty_clear(void);

/* From now on the system refuses to take back [at, at + bytes), whole pages, as if they were
 * locked. A purge that meets such a page returns the memory before it and then fails; it counts as
 * a failed purge. There are at most LM_FAULTY_LOCKS ranges. 0 bytes remove all ranges. */
enum { LM_FAULTY_LOCKS = 4096 };
void lm_faulty_lock(const void *at, size_t bytes);

/* Returns the number of calls of that kind since the script was set. */
size_t lm_faulty_calls(lm_fault_t kind);
/* Returns the number of calls of that kind that failed on purpose since the script was set. */
size_t lm_faulty_failures(lm_fault_t kind);

/* Simulates another machine. `nodes` are its NUMA nodes as bits (0: the real ones). Every thread
 * runs on `node`. Binding to nodes is counted and has no other effect. If has_pool, the pool has
 * pages_2m pages of 2 MiB and pages_1g pages of 1 GiB, which are ordinary memory here; each request
 * for pool pages takes `ms` milliseconds. */
typedef struct lm_faulty_machine {
    uint64_t nodes;
    unsigned node;
    bool has_pool;
    size_t pages_2m, pages_1g;
    uint64_t ms;
} lm_faulty_machine_t;
void lm_faulty_machine(const lm_faulty_machine_t *machine);

/* Returns the number of calls that bound memory to a node since lm_faulty_machine. Sets *bytes,
 * unless NULL, to the bytes bound. */
size_t lm_faulty_binds(unsigned node, size_t *bytes);

/* Returns how often loam asked which nodes there are, or on which node a thread runs, since
 * lm_faulty_machine. */
size_t lm_faulty_asked(void);

#endif
