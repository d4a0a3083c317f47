/* os.h: everything that loam needs from an operating system, specified once.
 *
 * A port is a set of files (linux*.c) that implement these functions; thread.c adds what POSIX
 * offers everywhere. In tests, faulty.c stands in front of a port and makes the n-th call fail on
 * purpose. Unless stated otherwise, every function preserves errno, takes no lock of libc,
 * allocates nothing and is not a cancellation point. Addresses and sizes passed to the memory
 * functions are multiples of LM_OS_UNIT.
 */
#ifndef LM_OS_H
#define LM_OS_H

#include "base/base.h"
#include "os/lock.h"
#include "os/probe.h"

/* Bytes: a multiple of every page size of the supported systems (4, 16 and 64 KiB). */
#define LM_OS_UNIT ((size_t)64 * 1024)

/* ---- Memory ---- */

/* Finds *bytes of empty address space; lowers *bytes if there is less. Sets *reserved to true iff
 * the range is reserved for loam (mapped without access); otherwise it is merely empty at present.
 * The first LM_OS_UNIT bytes are committed. Returns the address, a multiple of 2 MiB, or 0 iff not
 * even 64 MiB were found. */
uintptr_t lm_os_place(size_t *bytes, bool *reserved);

/* Reserves a range of `bytes` (a multiple of LM_OS_UNIT), mapped without access, so that no other
 * code gets its addresses. lm_os_commit with `reserved` makes parts of it usable; lm_os_release
 * with `reserved` undoes that; lm_os_release without `reserved` gives up the range. Returns an
 * address that is a multiple of 2 MiB if `bytes` is at least 2 MiB, otherwise of LM_OS_UNIT.
 * Returns NULL iff the system has no such range. */
void *lm_os_reserve(size_t bytes);

typedef enum lm_commit {
    LM_COMMIT_DONE,
    LM_COMMIT_NO_MEMORY, /* the system cannot promise the memory */
    LM_COMMIT_TAKEN,     /* the range holds another mapping */
} lm_commit_t;

/* Makes [at, at+bytes) readable, writable and zero. If `reserved`, the range belongs to loam
 * already, and its contents are replaced; otherwise nothing may be mapped there. Nothing has
 * changed unless it returns LM_COMMIT_DONE. */
lm_commit_t lm_os_commit(void *at, size_t bytes, bool reserved);

/* Returns the memory behind [at, at+bytes) to the system at once. The range stays usable and reads
 * as zero. `at` and `bytes` need only be multiples of lm_os_page_bytes(). Returns false iff the
 * system kept a part of the range; other parts may read as zero in that case. */
bool lm_os_purge(void *at, size_t bytes);

/* Unlocks the pages of [at, at+bytes) that are locked in memory. Returns 0 or a negative errno. */
int lm_os_unlock(const void *at, size_t bytes);
/* Unlocks all pages of the process. Returns 0 or a negative errno. */
int lm_os_unlock_all(void);

/* Asks the system to use no huge pages in [at, at+bytes), whatever it prefers: a huge page under a
 * few objects wastes memory. */
void lm_os_no_huge_pages(void *at, size_t bytes);

/* Asks the system to use huge pages as [at, at+bytes) is touched, until lm_os_no_huge_pages is
 * called for it. */
void lm_os_huge_pages(void *at, size_t bytes);

/* Backs the committed range [at, at+bytes) with memory, as if each page were written to, at half
 * the cost. The contents stay. `at` and `bytes` need only be multiples of lm_os_page_bytes().
 * Returns false iff the system cannot do it or has no memory; a part may be backed in that case. */
bool lm_os_populate(void *at, size_t bytes);

/* Returns whether the page that contains `at` is in memory. Returns false also if the system does
 * not tell. */
bool lm_os_resident(const void *at);

/* Returns the number of pages of [at, at+bytes) that are in memory. Returns SIZE_MAX if the system
 * does not tell, or may kill the program for the question (lm_os_filtered). */
size_t lm_os_resident_pages(const void *at, size_t bytes);

/* Allows every access to a range that lm_os_protect closed. If shut_in, it uses mmap, and mprotect
 * only if a sandbox refuses mmap; the contents may be lost in that case. Returns false iff the
 * system refused. */
bool lm_os_unguard(void *at, size_t bytes, bool shut_in);

/* Makes any access to [at, at+bytes) of private memory end the program, from now on. The contents
 * are lost. lm_os_purge keeps the mark. Unlike lm_os_protect, it needs no entry of its own in the
 * system's map. `at` and `bytes` need only be multiples of lm_os_page_bytes(). Returns false iff
 * the system cannot do it: Linux before 6.13, locked memory. */
bool lm_os_mark(void *at, size_t bytes);

/* Removes every mark of lm_os_mark in [at, at+bytes). The rest of the range does not change.
 * Returns false iff the system refused. */
bool lm_os_unmark(void *at, size_t bytes);

/* Backs the 2 MiB at `at` with a huge page at once, if the system has one available. `at` is a
 * multiple of 2 MiB; the range is committed and was never touched. The system makes no other huge
 * page there later. */
void lm_os_back_huge(void *at);

/* Returns the processor time that the calling thread has used, in microseconds. Makes a system
 * call, so a program that has shut itself in must not call it. */
uint64_t lm_os_thread_us(void);

/* Returns the number of processors that the main thread may run on, at least 1. Makes system calls,
 * so a program that has shut itself in must not call it. */
unsigned lm_os_processors(void);

/* Returns the memory of [at, at+bytes) and, unless `reserved`, its addresses to the system. The
 * range must be committed again before it is touched. Returns false iff the system refused; nothing
 * has changed in that case. */
bool lm_os_release(void *at, size_t bytes, bool reserved);

/* Returns as bits which limits of the process are set: RLIMIT_AS, RLIMIT_DATA. Sets *least to the
 * lower of them in bytes, or to SIZE_MAX if neither is set. */
enum { LM_OS_ADDRESSES_LIMITED = 1, LM_OS_DATA_LIMITED = 2 };
unsigned lm_os_limits(size_t *least);

/* Returns whether the system would promise `bytes` more bytes, by its own policy of overcommitment.
 * Makes two system calls. */
bool lm_os_promises(size_t bytes);

/* Moves the contents of [from, from+old_bytes) to [to, to+new_bytes), both committed, by moving
 * pages instead of copying bytes. Afterwards the rest of the target is zero, and the source is
 * committed and zero. Returns false iff it is not possible; the source is unchanged in that case.
 * *hole is set iff one range has lost its memory and its addresses, because the system gave no new
 * mapping there: the source if it returns true, the target if it returns false. */
bool lm_os_move(void *from, size_t old_bytes, void *to, size_t new_bytes, bool *hole);

/* Returns the size of a system page in bytes: 4096 to 65536. */
size_t lm_os_page_bytes(void);

/* ---- The program's memory, nodes, and the system's pool of huge pages (linux_numa.c) ---- */

/* Returns whether [at, at+bytes) is mapped, and its first and last word can be read and written.
 * Neither word changes. Assumes that they can if the system does not tell. If shut_in, only these
 * two words are checked, by futex. `at` and `bytes` need only be multiples of
 * lm_os_page_bytes(). */
bool lm_os_writable(void *at, size_t bytes, bool shut_in);

/* Returns the NUMA nodes of the machine as bits. Returns 1 iff the system does not tell. Nodes from
 * 64 on are left out. */
uint64_t lm_os_nodes(void);

/* Returns the NUMA node of the processor that the caller runs on, or 0 if it is unknown. */
unsigned lm_os_node(void);

/* Makes the system prefer the node for pages of [at, at+bytes) that are allocated from now on. `at`
 * and `bytes` need only be multiples of lm_os_page_bytes(). Returns false iff the system
 * refused. */
bool lm_os_bind(void *at, size_t bytes, unsigned node);

/* Replaces the committed range [at, at+bytes) by huge pages from the system's pool, resident and
 * zero. `at` and `bytes` are multiples of page_bytes (2 MiB or 1 GiB). If `node` is not negative,
 * pages of that node are preferred. Returns false iff the pool has too few pages; the range is
 * committed, zero and made of ordinary pages in that case. */
bool lm_os_pool_pages(void *at, size_t bytes, size_t page_bytes, int node);

/* Returns the time in milliseconds on a clock that never goes backwards. */
uint64_t lm_os_ms(void);

/* If `allow`, allows every access to [at, at+bytes), otherwise forbids all. The contents stay. `at`
 * and `bytes` need only be multiples of lm_os_page_bytes(). Returns false iff the system refused;
 * nothing has changed in that case. */
bool lm_os_protect(void *at, size_t bytes, bool allow);

/* Keeps [at, at+bytes) a separate entry in the system's map, whatever its neighbours are. A range
 * that is closed and opened again and again is then not joined and split each time, which is two
 * thirds of the cost. */
void lm_os_keep_apart(void *at, size_t bytes);

/* ---- Messages (linux_message.c; lines go through lm_port_write_error, base/check.h) ---- */

/* Remembers which file standard error is. From now on lines go to that file, and not to a file that
 * happens to get its number later. Call it at the start, before there are other threads. */
void lm_os_message_begin(void);
/* Keeps a duplicate of standard error that survives its closing. Needed if lines are due at
 * exit. */
void lm_os_message_keep(void);
/* If shut_in, fixes the destination of lines to where a line would go now, so that later lines need
 * no system call but write. Otherwise ends that. */
void lm_os_message_shut_in(bool shut_in);
/* Must be called in the child of a fork. */
void lm_os_message_after_fork(void);

/* ---- Faults and traces (linux_fault.c, linux_trace.c) ---- */

/* The registers of a thread at one moment. */
typedef struct lm_place {
    /* link: the register that holds the return address, on processors that have one; otherwise
     * 0. */
    uintptr_t pc, sp, fp, link;
} lm_place_t;

typedef struct lm_bad_access {
    uintptr_t address;
    /* LM_ACCESS: the processor does not tell whether it was a read or a write. */
    enum { LM_ACCESS, LM_ACCESS_READ, LM_ACCESS_WRITE } way;
    lm_place_t place;
} lm_bad_access_t;

typedef enum lm_verdict {
    LM_VERDICT_OTHER, /* not loam's business: the program's former handler decides */
    LM_VERDICT_AGAIN, /* repaired: the access is made again */
    LM_VERDICT_END, /* reported: the former handler decides; the same access is not judged again */
} lm_verdict_t;

/* From now on calls `judge` for each access to memory that may not be accessed. It runs in a signal
 * handler, in the thread that made the access. A program that installs its own handler for these
 * signals later takes them over. Another call of this function takes them back, from at most eight
 * different handlers, and passes signals on to that handler, which may in turn pass them on to its
 * predecessor. */
void lm_os_judge_faults(lm_verdict_t (*judge)(const lm_bad_access_t *access));
/* Must be called in the child of a fork. */
void lm_os_judge_after_fork(void);

/* A return address as a place in a module: the module's number in the upper 16 bits, and the offset
 * from the module's load address in the lower 48. It stays valid after the module is unloaded
 * (linux_site.c). Number 0 means an address in no known module. */
typedef uint64_t lm_site_t;

/* Prepares traces; call it before the first one. It may allocate. Without it a trace has one
 * address. */
void lm_os_trace_prepare(void);
/* Prepares traces for a caller that knows the address of glibc's _dl_find_object. Asks the dynamic
 * linker for nothing. */
void lm_os_trace_by(void *finder);

/* Stores return addresses of the calling thread, that of the caller's caller first, at most `most`
 * of them. Frames of loam's own shared library at the start are left out. Either array may be NULL.
 * It reads the program's call frame information and caches what it read. It takes no lock and
 * allocates nothing, and may be called in signal handlers. It ends where that information ends.
 * Returns the number of addresses. */
size_t lm_os_trace(uintptr_t *frames, lm_site_t *sites, size_t most);
/* Stores the trace of a thread that was interrupted at `place`. The first site is that of place->pc
 * plus one, as if it were a return address, because a reader of any site looks up the byte before
 * it. Returns the number of sites, at most `most`. */
size_t lm_os_trace_from(const lm_place_t *place, lm_site_t *sites, size_t most);
/* Appends the name of the call before a site: "function+0x12 (file+0x1234)". If the module is
 * unloaded, it reads the module's file if that is unchanged, and appends the build ID otherwise.
 * Takes locks of libc, so it must not be called in signal handlers. */
void lm_os_site_name(lm_line_t *line, lm_site_t site);
/* Appends the place of the call before a site without the function: "file+0x1234". Takes no
 * lock. */
void lm_os_site_where(lm_line_t *line, lm_site_t site);

/* ---- Waiting ---- */

/* Sleeps while *word == value, for at most timeout_ms (UINT32_MAX: without limit). May return
 * early. */
void lm_os_wait(uint32_t *word, uint32_t value, uint32_t timeout_ms);
/* Wakes one thread that sleeps on the word. */
void lm_os_wake(uint32_t *word);

/* Runs a full memory barrier on every running thread of the process. lm_os_barrier_prepare must be
 * called once before. Returns false iff the system cannot do it. */
bool lm_os_barrier(void);
/* Prepares lm_os_barrier. Returns false iff the system has no such barrier. */
bool lm_os_barrier_prepare(void);

/* Lets other threads of at least this thread's priority run. */
void lm_os_yield(void);

/* Waits a little in a loop that waits for another thread; `turn` counts the loop's rounds from 0.
 * Early turns yield. Later turns sleep for a millisecond, because a thread of lower priority does
 * not run while a real-time thread yields. */
void lm_os_nap(unsigned turn);

/* ---- The worker: a thread that the program never sees ---- */

/* Starts a thread that runs entry() on a small stack, with every signal blocked and unknown to
 * libc. entry must not touch thread-local variables or call libc, and must return soon after it is
 * told to. At most one worker exists at a time: call this only while none is running. Returns false
 * iff no thread could be made. */
bool lm_os_worker_start(void (*entry)(void));

/* Returns whether the worker that was started last still uses a processor or its stack, in this
 * process. */
bool lm_os_worker_running(void);

/* Returns whether this process is a copy (by fork, clone or any other call) of a process that had a
 * worker, and lm_os_worker_forget has not been called since. The child of vfork is no copy. Costs
 * two loads. */
bool lm_os_worker_lost(void);

/* Waits until the worker is gone, for at most timeout_ms. Returns whether it is gone. */
bool lm_os_worker_await(uint32_t timeout_ms);

/* Waits until the worker is gone and the system no longer counts it among the threads of the
 * process. */
void lm_os_worker_join(void);

/* Tells the port that there is no worker. Call it in a copy of a process. */
void lm_os_worker_forget(void);

/* Ends the worker. Only the worker calls it; it may be in any function. */
LM_NORETURN void lm_os_worker_exit(void);

/* Blocks every signal of the calling thread. Returns the former mask, for lm_os_signals_restore. */
uint64_t lm_os_signals_block(void);
void lm_os_signals_restore(uint64_t before);

/* ---- The process ---- */

/* The system calls of these names, with libc's interface: each returns -1 and sets errno iff the
 * system refuses (linux_doors.c). */
int lm_os_unshare(int flags);
int lm_os_setns(int fd, int type);
int lm_os_prctl(int option, intptr_t a, intptr_t b, intptr_t c, intptr_t d);
long lm_os_syscall(long number, const intptr_t arguments[6]);

/* Returns whether the calling thread has a filter of system calls (seccomp) and had none at
 * lm_os_filters_boot. Returns false if lm_os_filters_boot was not called, or a filter was there
 * from the start; otherwise returns true while questions are forbidden (ask.c). Costs a system
 * call, which may itself be forbidden (linux_filter.c). */
bool lm_os_filtered(void);
/* Records whether a filter is present. Call it at the start of the program. */
void lm_os_filters_boot(void);

/* ---- Questions (ask.c) ----
 * Questions are system calls that malloc can do without. A program that has shut itself in may not
 * make them. */

/* Returns whether the system may be asked. If so, lm_ask_end must follow; until then, but for at
 * most 200 ms, a thread that sets a filter through one of loam's doors waits. Calls may nest. */
bool lm_ask_begin(void);
void lm_ask_end(void);
/* From now on lm_ask_begin returns false if `forbid`, and true otherwise. */
void lm_ask_forbid(bool forbid);
/* Waits for the questions of other threads, for at most 200 ms. The calling thread must not be
 * asking. */
void lm_ask_await(void);
/* Must be called in the child of a fork. */
void lm_ask_after_fork(void);

/* Examines a filter's program (struct sock_fprog). Call it before the filter is set. Afterwards
 * lm_os_advice_kills tells whether the filter kills for madvise with a given advice
 * (linux_filter_program.c). */
void lm_os_filter_seen(const void *program);
/* Atomic. Bit (advice % 32) is set iff the filter kills for that advice. The bits of all advices
 * that loam gives are distinct. */
extern LM_HIDDEN uint32_t lm_os_kills;

/* Returns whether the filter kills for madvise with this advice. Relaxed: a bit is set before
 * questions are forbidden, and lm_ask_begin returns false only to a thread that sees what was
 * written before that. */
LM_INLINE bool lm_os_advice_kills(int advice) {
    LM_ASSERT(advice >= 0);
    return (lm_load_relaxed(&lm_os_kills) >> (advice % 32) & 1) != 0;
}

/* Returns whether the program runs with more rights than its caller (AT_SECURE). If so, its
 * environment is not to be trusted. */
bool lm_os_secure(void);

/* Returns the environment, or NULL before libc's own constructor has run. That constructor runs
 * after every module is relocated, and before other constructors. */
char **lm_os_environment(void);

/* Returns an address at the end of the main thread's stack, above all frames, or 0 if it is not
 * known. */
uintptr_t lm_os_main_top(void);

/* Returns the name by which the program was started, or NULL if it is not known. */
const char *lm_os_program(void);

/* Returns false iff there is certainly nothing at this address. Preserves errno. */
bool lm_os_mapped(const void *address);

/* Returns 64 random bits, good enough to place memory with. They are the same at every call, in
 * every thread. */
uint64_t lm_os_random(void);

/* Returns whether a thread of this process sleeps in a system call that the program made, not loam,
 * and is in no signal handler. Returns false iff it runs, sleeps elsewhere, or this cannot be told.
 * Stores made before this call are visible to the thread once it wakes up; what the thread stored
 * before is visible to the caller. The thread must not be able to end meanwhile. The result is
 * right about signal handlers if a later call of lm_os_handlers_known returns true. */
bool lm_os_thread_sleeps(unsigned tid, uintptr_t stack_top);

/* What a thread of this process does, as far as the system tells. */
typedef enum lm_thread_state {
    LM_THREAD_RUNS,   /* it runs, or is in a call that copies the process or makes a thread */
    LM_THREAD_WAITS,  /* it sleeps in another system call */
    LM_THREAD_UNKNOWN /* the system does not tell */
} lm_thread_state_t;

/* Returns what the thread does at this moment. Makes four system calls; three of them only if no
 * filter has come (lm_os_filtered). */
lm_thread_state_t lm_os_thread_state(unsigned tid);

/* Returns whether the process has no thread of that number any more. Makes a system call, unless
 * the program has shut itself in; returns false in that case. */
bool lm_os_thread_gone(unsigned tid);

/* Looks up the signal handlers that the program has installed, by 64 system calls. Returns false
 * iff it finds handlers for the first time that lm_os_thread_sleeps could not have recognised since
 * the last look, or can never recognise. */
bool lm_os_handlers_known(void);

/* Returns the upper end of the calling thread's stack, for lm_os_thread_sleeps. */
uintptr_t lm_os_stack_top(void);

/* Returns whether the program has never had a second thread, as far as libc knows. Returns false if
 * libc does not tell. */
bool lm_os_single_thread(void);

/* Returns the number of the process. The child of vfork has another number, but the memory of its
 * parent. */
unsigned lm_os_process(void);

/* Returns whether the process of that number is another one that shares this process's memory: the
 * caller is its vfork child, or the reverse. Returns false if the system does not tell. */
bool lm_os_shares_memory(unsigned process);

#if LOAM_METER
/* Writes as much of the text to a file as the file takes at once. Returns the bytes written; 0 or a
 * negative errno iff nothing was written. */
intptr_t lm_os_write(int file, const char *text, size_t bytes);
#endif

/* Number of system calls that loam has made since the start, in all and by name. Atomic, relaxed:
 * statistics. */
typedef struct lm_os_counts {
    size_t calls;   /* all calls, including those below */
    size_t maps;    /* mmap */
    size_t unmaps;  /* munmap */
    size_t advices; /* madvise */
    size_t commits; /* calls of lm_os_commit, which make most of the maps */
} lm_os_counts_t;

extern lm_os_counts_t lm_os_counts;

/* What the process has used since its start, as the system counts it: processor time in
 * microseconds; page faults without and with a disk access; peak resident bytes. All are 0 iff the
 * system does not tell. */
typedef struct lm_os_usage {
    uint64_t user_us, system_us, faults, disk_faults, resident_most;
} lm_os_usage_t;

void lm_os_usage(lm_os_usage_t *usage);

/* Returns the time in microseconds since an arbitrary moment. */
uint64_t lm_os_clock_us(void);

/* Returns the bytes of the machine's memory without swap, or 0 iff unknown. */
size_t lm_os_memory_bytes(void);

/* Returns the resident bytes of this process, or 0 iff unknown. */
size_t lm_os_resident_bytes(void);

/* ---- The process's control group (linux_cgroup.c) ---- */

/* Memory of the fullest control group among the process's own group and the groups around it, in
 * bytes. `used` leaves out what the system would drop first: file pages that were not used lately.
 * `limit` is 0 if no group has a limit. `least` is the lowest limit of all these groups, or 0 if no
 * group has one. */
typedef struct lm_cgroup {
    size_t used, limit, least;
} lm_cgroup_t;

/* Finds the control groups that limit the process's memory. Returns false iff there are none, or
 * the system does not tell. Reads files, so a program that has shut itself in must not call it.
 * Only one thread at a time may call it or lm_os_cgroup_read. */
bool lm_os_cgroup_find(void);

/* Reads how full the groups are. If `limits`, it also reads their limits; otherwise it keeps those
 * read last. Returns false iff no group can be read. */
bool lm_os_cgroup_read(bool limits, lm_cgroup_t *fullest);

/* Returns whether the calling thread is the worker. */
bool lm_os_worker_self(void);

/* ---- The program's handlers (handlers.c, loam/handlers.h) ---- */

/* Bracket code in which the calling thread holds a lock of an allocator in family/ and may find
 * mistakes of the program. An error handler is called at the last lm_told_let. Calls may nest. Not
 * for the worker. */
void lm_told_hold(void);
void lm_told_let(void);
/* Must be called in the child of a fork, where locks are reset instead of released. */
void lm_told_after_fork(void);

/* Calls the program's handler because memory for a request of `bytes` bytes is refused. Returns
 * whether to try again, because the handler says that it has made room. *tries is 0 at first. The
 * caller must hold no lock and must be a thread of the program. Preserves errno. */
bool lm_memory_made(size_t bytes, unsigned *tries);

/* Atomic. True iff slow paths of malloc are counted, and some of them call the program's deferred
 * free. */
extern LM_HIDDEN bool lm_heartbeat_wanted;

/* Atomic. The largest size in bytes that malloc serves without further checks. Larger blocks are
 * large objects, or are counted, or sampled (sampling/sampled.c). It is LM_QUIET_MOST, or 0 after
 * lm_quiet_end. */
enum { LM_QUIET_MOST = 65536 };
extern LM_HIDDEN size_t lm_slowpath_hook_limit;
/* Sets lm_slowpath_hook_limit to 0 for good. */
void lm_quiet_end(void);

/* Counts a slow path of the calling thread, and calls the program's deferred free, if there is one.
 * If `force`, it does not count. Returns whether the deferred free was called. The caller must hold
 * no lock and must be a thread of the program. Preserves errno. */
bool lm_deferred_free(bool force);

/* Returns whether what the calling thread holds may be collected now: it holds no lock of an
 * allocator in family/ and is not inside a fork. */
bool lm_told_may(void);

/* Tells the program that `held` bytes are held, more than the soft limit. The caller must hold no
 * lock and must be a thread of the program. Preserves errno. */
void lm_limit_told(size_t held, size_t soft);

/* Atomic. True iff a refused request ends the program (LOAM_ABORT_ON_OOM=1). */
extern LM_HIDDEN bool lm_refused_aborts;

/* Tells the error handler, if there is one, that a request is refused for good. `overflow` says
 * that it could never be served. Then ends the program if LOAM_ABORT_ON_OOM=1. */
void lm_refused(size_t bytes, bool overflow);
/* As lm_refused, for an object at a multiple of align. */
void lm_refused_aligned(size_t bytes, size_t align, bool overflow);
/* As lm_refused, for an array whose size in bytes overflows. */
void lm_refused_array(size_t count, size_t size);

/* ---- Threads (thread.c, fork.c) ---- */

/* Arranges that at_exit(value, rounds) runs when the calling thread ends, and again as long as it
 * returns true, at most `rounds` times in all: other destructors may allocate after it. Each
 * at_exit is one hook; a process has at most eight hooks, each with one value per thread. value is
 * not NULL. Hooks run in rounds, every hook in each round. The heap's hook stays to the last round,
 * so a hook that returns false in its first round has ended before. Returns false iff no key is
 * left. Calls libc, which may allocate. */
bool lm_thread_on_exit(bool (*at_exit)(void *, unsigned), void *value);

/* For code that takes locks before a fork. Takes the port's WALK (base/check.h), which comes before
 * all other locks. May be called again before lm_port_after_fork. Returns whether WALK is held: it
 * is not if a signal handler interrupted its holder. The port's LIST comes after the locks of all
 * code whose handlers were registered after a call of lm_port_watch. */
bool lm_port_before_fork(void);
/* Releases WALK, which comes after all other locks, in the parent or the child of the fork. */
void lm_port_after_fork(bool child);
/* Registers the port's own fork handlers, unless they are registered already. */
void lm_port_watch(void);

/* Registers functions that run before a fork, and after it in the parent and in the child. Calls
 * libc. */
void lm_thread_on_fork(void (*before)(void), void (*parent)(void), void (*child)(void));

#endif
