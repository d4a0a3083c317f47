/* os.h: everything that loam asks of an operating system, stated once.
 *
 * A port is the files (linux*.c) that keep these promises; thread.c adds what POSIX gives
 * everywhere. faulty.c stands in front of a port in tests and fails the n-th call on purpose.
 * All functions keep errno, take no lock of libc's, allocate nothing and are no cancellation
 * points, unless said otherwise. Addresses and sizes given to the memory calls are multiples of
 * LM_OS_UNIT.
 */
#ifndef LM_OS_H
#define LM_OS_H

#include "base/base.h"
#include "os/lock.h"
#include "os/probe.h"

/* A multiple of every page size of the supported systems (4, 16 and 64 KiB). */
#define LM_OS_UNIT ((size_t)64 * 1024)

/* ---- Memory ---- */

/* Finds *bytes of empty address space, or, where there is less, lowers *bytes. *reserved tells
 * whether they are ours already (mapped without access) or merely empty at present. The first
 * LM_OS_UNIT of them is committed. Returns the address, a multiple of 2 MiB, or 0 iff not even 64
 * MiB were found. */
uintptr_t lm_os_place(size_t *bytes, bool *reserved);

/* Reserves a range of addresses that nobody else gets, of `bytes` (a multiple of LM_OS_UNIT),
 * mapped without access: lm_os_commit and lm_os_release with reserved make parts of it usable and
 * take that back, and lm_os_release without it gives it up. At a multiple of 2 MiB where it is that
 * large, else of LM_OS_UNIT. NULL iff the system has none. */
void *lm_os_reserve(size_t bytes);

typedef enum lm_commit {
    LM_COMMIT_DONE,
    LM_COMMIT_NO_MEMORY, /* the system has none to promise */
    LM_COMMIT_TAKEN,     /* somebody lives there */
} lm_commit_t;

/* Makes [at, at+bytes) readable, writable and zero. reserved: the range is ours already and
 * whatever it holds is replaced; otherwise nothing may be mapped there. Nothing has changed unless
 * DONE. */
lm_commit_t lm_os_commit(void *at, size_t bytes, bool reserved);

/* Gives the memory behind [at, at+bytes) back at once; the range stays usable and reads as zero.
 * Both need to be multiples of lm_os_page_bytes() only. Returns false iff the system kept a part of
 * it; the other parts may read as zero then. */
bool lm_os_purge(void *at, size_t bytes);

/* Ends that pages in [at, at+bytes), or all of the process's, are locked in memory. Returns 0 or a
 * negative errno. */
int lm_os_unlock(const void *at, size_t bytes);
int lm_os_unlock_all(void);

/* Asks for pages of the system's own size in [at, at+bytes), whatever it prefers: a huge page under
 * a few objects is memory lost. */
void lm_os_no_huge_pages(void *at, size_t bytes);

/* The opposite, until then: huge pages as [at, at+bytes) is touched. */
void lm_os_huge_pages(void *at, size_t bytes);

/* Backs [at, at+bytes), committed, multiples of lm_os_page_bytes(), as if it were written to page
 * by page, at half the price; what it holds stays. false iff the system cannot, or has no memory; a
 * part may be backed then. */
bool lm_os_populate(void *at, size_t bytes);

/* Whether the page at `at` is in memory. false as well where the system does not say. */
bool lm_os_resident(const void *at);

/* Returns how many pages of [at, at+bytes) are in memory; SIZE_MAX if the system does not say, or
 * may kill for the question (lm_os_filtered). */
size_t lm_os_resident_pages(const void *at, size_t bytes);

/* Allows every access to what lm_os_protect forbade. shut_in: by mmap, and by mprotect only if a
 * sandbox refuses that; then what it held may be gone. */
bool lm_os_unguard(void *at, size_t bytes, bool shut_in);

/* From now on who reads or writes in [at, at+bytes) of private memory, multiples of
 * lm_os_page_bytes(), ends the program; what it holds is gone. lm_os_purge leaves it so. No entry
 * in the system's map, unlike lm_os_protect. false iff the system cannot: Linux before 6.13, locked
 * memory. */
bool lm_os_mark(void *at, size_t bytes);

/* Ends that for all in [at, at+bytes); the rest of it is left as it is. */
bool lm_os_unmark(void *at, size_t bytes);

/* Backs the 2 MiB at `at` (a multiple of 2 MiB, committed and never touched) with a huge page at
 * once, if the system has one at hand. Later it makes no other there. */
void lm_os_back_huge(void *at);

/* Microseconds of processor time that the calling thread has used: what others used meanwhile does
 * not count. A system call: not for a program that has shut itself in. */
uint64_t lm_os_thread_us(void);

/* Processors that the main thread may run on, 1 at least. System calls: as above. */
unsigned lm_os_processors(void);

/* Gives [at, at+bytes) back with its addresses; it must be committed anew before it is touched.
 * Returns false iff the system refused; nothing has changed then. */
bool lm_os_release(void *at, size_t bytes, bool reserved);

/* Returns which of the process's limits are set, as bits: RLIMIT_AS, RLIMIT_DATA. *least: the lower
 * of them in bytes, SIZE_MAX where neither is set. */
enum { LM_OS_ADDRESSES_LIMITED = 1, LM_OS_DATA_LIMITED = 2 };
unsigned lm_os_limits(size_t *least);

/* Returns whether the system would promise so many more bytes, by its own policy of overcommitment.
 * Makes two system calls. */
bool lm_os_promises(size_t bytes);

/* Moves the contents of [from, from+old_bytes) to [to, to+new_bytes), both committed, by moving
 * pages instead of bytes; the rest of the target is zero, the source is committed and zero again.
 * Returns false iff not possible; the source is unchanged then. *hole: the other one of the two,
 * the source of a move or the target of none, has lost its memory and its addresses, because the
 * system gave no new mapping there. */
bool lm_os_move(void *from, size_t old_bytes, void *to, size_t new_bytes, bool *hole);

/* Bytes of one system page: 4096 to 65536. */
size_t lm_os_page_bytes(void);

/* ---- The program's memory, nodes, and the system's pool of huge pages (linux_numa.c) ---- */

/* Whether [at, at+bytes), multiples of lm_os_page_bytes(), is mapped, and its first and last word
 * can be read and written, which stay as they are; where the system does not say, they can.
 * shut_in: only those two are asked about, by futex. */
bool lm_os_writable(void *at, size_t bytes, bool shut_in);

/* Which NUMA nodes there are, by bits; 1 iff the system does not say. Nodes from 64 on are left
 * out. */
uint64_t lm_os_nodes(void);

/* That of the processor that the caller runs on; 0 iff unknown. */
unsigned lm_os_node(void);

/* Prefers the node for pages of [at, at+bytes), multiples of lm_os_page_bytes(), which come from
 * now on. false iff refused. */
bool lm_os_bind(void *at, size_t bytes, unsigned node);

/* Replaces [at, at+bytes), committed, a multiple of page_bytes (2 MiB or 1 GiB) as `at` is, by
 * pages of the pool, of the node if it is not negative and has some; resident and zero. false iff
 * there are too few: the range is committed, zero and ordinary then. */
bool lm_os_pool_pages(void *at, size_t bytes, size_t page_bytes, int node);

/* Milliseconds of a clock that only goes forward. */
uint64_t lm_os_ms(void);

/* Allows every access to [at, at+bytes), or none; multiples of lm_os_page_bytes(). What it holds
 * stays. false iff the system refused: nothing has changed then. */
bool lm_os_protect(void *at, size_t bytes, bool allow);

/* Keeps [at, at+bytes) an entry of its own in the system's map, whatever its neighbours are: what
 * is closed and opened again and again is not joined and split each time, which is two thirds of
 * the price. */
void lm_os_keep_apart(void *at, size_t bytes);

/* ---- Messages (linux_message.c; lines go through lm_port_write_error, base/check.h) ---- */

/* Remembers which file standard error is: from now on lines go there, and to no file that comes to
 * have its number by chance. At the start, before there are other threads. */
void lm_os_message_begin(void);
/* Keeps a way there that is not closed with it: lines at exit are due. */
void lm_os_message_keep(void);
/* From now on lines are written, by no other call, to where one would go now; false: no more. */
void lm_os_message_shut_in(bool shut_in);
/* In the child of a fork. */
void lm_os_message_after_fork(void);

/* ---- Faults and traces (linux_fault.c, linux_trace.c) ---- */

/* A moment of a thread: where it is, and where its stack is. */
typedef struct lm_place {
    uintptr_t pc, sp, fp, link; /* link: the register that holds the way back, where there is one */
} lm_place_t;

typedef struct lm_bad_access {
    uintptr_t address;
    enum {
        LM_ACCESS,
        LM_ACCESS_READ,
        LM_ACCESS_WRITE
    } way; /* LM_ACCESS: the processor does not tell */
    lm_place_t place;
} lm_bad_access_t;

typedef enum lm_verdict {
    LM_VERDICT_OTHER, /* nothing of ours: what the program had before is done */
    LM_VERDICT_AGAIN, /* mended: the access is to be tried again */
    LM_VERDICT_END,   /* told: likewise, and the same access is not judged again */
} lm_verdict_t;

/* From now on judge is called for each access to memory that may not be accessed, in the thread
 * that made it, in a signal handler. Who installs a handler for these signals later takes them
 * away; another call takes them back, from eight different handlers at most, and passes on to that
 * handler: which may pass on to who was there before it. */
void lm_os_judge_faults(lm_verdict_t (*judge)(const lm_bad_access_t *access));
/* In the child of a fork. */
void lm_os_judge_after_fork(void);

/* A return address as a place in a module: the module's number in the upper 16 bits, and the offset
 * from where the module is loaded. It stays true when the module is unloaded (linux_site.c). Number
 * 0: an address in no known module. */
typedef uint64_t lm_site_t;

/* Before the first trace; may allocate. Without it a trace has one address. */
void lm_os_trace_prepare(void);
/* The same for who knows glibc's _dl_find_object: asks the dynamic linker for nothing. */
void lm_os_trace_by(void *finder);

/* Return addresses of the calling thread, the caller's caller's first, at most `most`; those of
 * loam's own shared library are left out. Either array may be NULL. Reads the program's call frame
 * information, and remembers what it read: no lock, no allocation, may be called in signal
 * handlers. Ends where that information does. Returns how many. */
size_t lm_os_trace(uintptr_t *frames, lm_site_t *sites, size_t most);
/* The same of a thread that was interrupted there: its place comes first, plus one, as if it were a
 * return address too: of each of them the byte before belongs to the instruction that is meant. */
size_t lm_os_trace_from(const lm_place_t *place, lm_site_t *sites, size_t most);
/* Adds what the call before a site is called: "function+0x12 (file+0x1234)". Of a module that is
 * unloaded it reads the file, if that is still the same; else it adds the build ID. Takes libc's
 * locks: not for handlers of signals. */
void lm_os_site_name(lm_line_t *line, lm_site_t site);
/* The same without the function: "file+0x1234". Takes no lock. */
void lm_os_site_where(lm_line_t *line, lm_site_t site);

/* ---- Waiting ---- */

/* Sleeps while *word == value, at most timeout_ms (UINT32_MAX: without end). May return early. */
void lm_os_wait(uint32_t *word, uint32_t value, uint32_t timeout_ms);
void lm_os_wake(uint32_t *word);

/* Runs a full memory barrier on every thread of the process that is running. false iff the system
 * cannot; to be prepared for once. */
bool lm_os_barrier(void);
bool lm_os_barrier_prepare(void);

/* Lets other threads of the same or a higher priority run. */
void lm_os_yield(void);

/* A turn of a loop that waits for another thread, the first one being turn 0. Early turns yield.
 * Later ones sleep for a millisecond, because a thread of lower priority does not run while a
 * real-time thread yields. */
void lm_os_nap(unsigned turn);

/* ---- The worker: a thread that the program never sees ---- */

/* Runs entry() on a small stack of its own, with every signal blocked, unknown to libc: it must
 * touch no thread-local variable, call nothing of libc and return soon after being told to. false
 * iff no thread could be made. At most one at a time: call only when not running. */
bool lm_os_worker_start(void (*entry)(void));

/* Returns whether the last worker started is still on the processor or its stack, and in this
 * process. */
bool lm_os_worker_running(void);

/* Returns whether this process is a copy of one that had a worker, and lm_os_worker_forget has not
 * been called since: by fork, clone or any other call. A vfork child is no copy. Costs one load. */
bool lm_os_worker_lost(void);

/* Waits until the worker is gone, at most timeout_ms. Returns whether it is gone. */
bool lm_os_worker_await(uint32_t timeout_ms);

/* Waits until the worker is gone and the system no longer counts it among the process's threads. */
void lm_os_worker_join(void);

/* In a copy of a process: there is no worker. */
void lm_os_worker_forget(void);

/* Ends the worker, which calls it, wherever it is. */
LM_NORETURN void lm_os_worker_exit(void);

/* Blocks every signal of the calling thread; returns the former mask, for lm_os_signals_restore. */
uint64_t lm_os_signals_block(void);
void lm_os_signals_restore(uint64_t before);

/* ---- The process ---- */

/* As libc's functions without lm_os_ in their names: return -1 and set errno iff the system refuses
 * (linux_doors.c). */
int lm_os_unshare(int flags);
int lm_os_setns(int fd, int type);
int lm_os_prctl(int option, intptr_t a, intptr_t b, intptr_t c, intptr_t d);
long lm_os_syscall(long number, const intptr_t arguments[6]);

/* Returns whether the calling thread has a filter of system calls (seccomp) and had none at
 * lm_os_filters_boot. False without that call, and where a filter was there from the start. Costs a
 * system call, which may itself be forbidden (linux_filter.c). */
bool lm_os_filtered(void);
void lm_os_filters_boot(void);

/* ---- Questions (ask.c) ----
 * For system calls that malloc can do without: a program that has shut itself in may not make
 * them. */

/* Returns whether the system may be asked. If so, lm_ask_end must follow: until then, but at most
 * for 200 ms, a thread that sets a filter through one of loam's doors waits. May nest. */
bool lm_ask_begin(void);
void lm_ask_end(void);
/* From now on lm_ask_begin returns false, or true again. */
void lm_ask_forbid(bool forbid);
/* Waits for the questions of other threads, at most 200 ms. The calling thread must have none. */
void lm_ask_await(void);
void lm_ask_after_fork(void);

/* To be called before a filter is set, with its program (struct sock_fprog). lm_os_advice_kills
 * then returns whether the filter kills for madvise with this advice (linux_filter_program.c). */
void lm_os_filter_seen(const void *program);
extern LM_HIDDEN uint32_t lm_os_kills; /* atomic: bit advice % 32; different for each of loam's */

/* Relaxed: a bit is set before questions are forbidden, and lm_ask_begin returns false only to a
 * thread that sees what was written before that. */
LM_INLINE bool lm_os_advice_kills(int advice) {
    return (lm_load_relaxed(&lm_os_kills) >> (advice % 32) & 1) != 0;
}

/* Whether it runs with more rights than its caller (AT_SECURE): the environment is not to be
 * trusted. */
bool lm_os_secure(void);

/* The environment; NULL before libc's own constructor, which runs when every module is relocated,
 * and before other constructors. */
char **lm_os_environment(void);

/* Returns an address at the end of the main thread's stack, above all frames; 0 if it is not
 * known. */
uintptr_t lm_os_main_top(void);

/* Returns the name that the program was started by; NULL if it is not known. */
const char *lm_os_program(void);

/* false iff there is certainly nothing at this address. Keeps errno. */
bool lm_os_mapped(const void *address);

/* 64 random bits, good enough to place memory with: the same whenever, and by whichever thread,
 * they are asked for. */
uint64_t lm_os_random(void);

/* Whether a thread of this process sleeps in a system call that the program made, not loam, and is
 * in no signal handler. false iff it runs, sleeps elsewhere, or this cannot be told. Stores made
 * before this call are visible to the thread once it wakes up; what it stored before is visible
 * here. The thread must not be able to end meanwhile. What it says of signal handlers holds if
 * lm_os_handlers_known says so later. */
bool lm_os_thread_sleeps(unsigned tid, uintptr_t stack_top);

/* What a thread of this process does, as far as the system tells. */
typedef enum lm_thread_state {
    LM_THREAD_RUNS,   /* it runs, or is in a call that copies the process or makes a thread */
    LM_THREAD_WAITS,  /* it sleeps in another system call */
    LM_THREAD_UNKNOWN /* the system does not tell */
} lm_thread_state_t;

/* Looks at what that thread does at this moment, by four system calls, of which it makes three only
 * where no filter has come (lm_os_filtered). */
lm_thread_state_t lm_os_thread_state(unsigned tid);

/* Whether the process has no thread of that number any more. A system call: not for a program that
 * has shut itself in. */
bool lm_os_thread_gone(unsigned tid);

/* Looks which signal handlers the program has installed, 64 system calls; false iff there are some,
 * seen now for the first time, that lm_os_thread_sleeps could not have recognised since the last
 * look, or ever. */
bool lm_os_handlers_known(void);

/* Where the calling thread's stack begins, from above; for lm_os_thread_sleeps. */
uintptr_t lm_os_stack_top(void);

/* Whether the program has never had a second thread, as far as libc knows. false where libc does
 * not say. */
bool lm_os_single_thread(void);

/* The process's number. A vfork child has another, and the same memory. */
unsigned lm_os_process(void);

/* Returns whether the process of that number is another one with this memory: then the caller is
 * its vfork child, or the reverse. false if the system does not tell. */
bool lm_os_shares_memory(unsigned process);

#if LOAM_METER
/* Writes to a file, as much as it takes at once. 0 or less, a negative errno, iff nothing was
 * written. */
intptr_t lm_os_write(int file, const char *text, size_t bytes);
#endif

/* System calls of loam's own since the start; of these, some by their names. Atomic, relaxed:
 * numbers. */
typedef struct lm_os_counts {
    size_t calls;   /* all of these and others */
    size_t maps;    /* mmap */
    size_t unmaps;  /* munmap */
    size_t advices; /* madvise */
    size_t commits; /* lm_os_commit: most of the maps */
} lm_os_counts_t;

extern lm_os_counts_t lm_os_counts;

/* What the process has used since it began, as the system counts it: microseconds of its
 * processors, page faults with and without a disk, the most bytes that were resident. All 0 iff the
 * system does not say. */
typedef struct lm_os_usage {
    uint64_t user_us, system_us, faults, disk_faults, resident_most;
} lm_os_usage_t;

void lm_os_usage(lm_os_usage_t *usage);

/* Microseconds since some moment. */
uint64_t lm_os_clock_us(void);

/* Bytes of memory that the machine has, without swap; 0 iff unknown. */
size_t lm_os_memory_bytes(void);

/* Resident bytes of this process now, 0 iff unknown. */
size_t lm_os_resident_bytes(void);

/* ---- The process's control group (linux_cgroup.c) ---- */

/* Bytes, of the group that is fullest among the process's own and those around it; limit 0: none
 * has one. What the system would drop first, pages of files that nobody has used lately, is not
 * among the used. least: the lowest limit of any of these groups; 0: none has one. */
typedef struct lm_cgroup {
    size_t used, limit, least;
} lm_cgroup_t;

/* Finds the groups that limit the process's memory. false iff there are none, or the system does
 * not say. Reads files: not for a program that has shut itself in; for one thread at a time,
 * both. */
bool lm_os_cgroup_find(void);

/* Reads how full they are; limits: what they may hold as well, which is kept otherwise. false iff
 * none can be read. */
bool lm_os_cgroup_read(bool limits, lm_cgroup_t *fullest);

/* Whether the calling thread is the worker. */
bool lm_os_worker_self(void);

/* ---- The program's handlers (handlers.c, loam/handlers.h) ---- */

/* Between the two the calling thread holds a lock of the family's, under which mistakes of the
 * program's are found: a handler is told of them at the last lm_told_let. They nest. Not for the
 * worker. */
void lm_told_hold(void);
void lm_told_let(void);
/* In the child of a fork, where locks are reset, not given. */
void lm_told_after_fork(void);

/* Memory for a request of that size is refused: whether to try again, because the program's handler
 * says that it has made room. *tries: 0 at first. Without locks, in a thread of the program's;
 * keeps errno. */
bool lm_room_made(size_t bytes, unsigned *tries);

/* Whether slow paths of malloc are counted, and some of them interrupted: atomic. */
extern LM_HIDDEN bool lm_beating;

/* The same as a size, for malloc, which looks at that anyway: blocks of more bytes are large, or to
 * be counted, or sampled (sampling/sampled.c). 0, or that; atomic. */
enum { LM_QUIET_MOST = 65536 };
extern LM_HIDDEN size_t lm_quiet_most;
/* From now on it is 0. */
void lm_quiet_end(void);

/* Counts a slow path of the calling thread's, and calls the deferred free of the program's, if
 * there is one. force: does not count. Without locks, in a thread of the program's; keeps errno.
 * Whether it was called. */
bool lm_deferred_free(bool force);

/* Whether the calling thread is in a place where what it holds may be collected: no lock of the
 * family's, no fork. */
bool lm_told_may(void);

/* Tells the program that so much is held, more than the soft limit. As above. */
void lm_limit_told(size_t held, size_t soft);

/* Atomic: whether a refused request ends the program (LOAM_ABORT_ON_OOM=1). */
extern LM_HIDDEN bool lm_refused_aborts;

/* Tells an error handler, if there is one: a request is refused for good (overflow: it could never
 * be served). Then ends the program, if the option says so. */
void lm_refused(size_t bytes, bool overflow);
/* The same of an object at a multiple of align. */
void lm_refused_aligned(size_t bytes, size_t align, bool overflow);
/* The same of an array whose bytes overflow. */
void lm_refused_array(size_t count, size_t size);

/* ---- Threads (thread.c, fork.c) ---- */

/* Arranges that at_exit(value, rounds) runs when the calling thread ends, and again as long as it
 * returns true, at most `rounds` times in all: other destructors may allocate after it. Each
 * at_exit is a hook of its own, eight in the process at most, with a value for each thread; value
 * is not NULL. Hooks run in rounds, all of them in each: the heap's stays to the last, so that what
 * returns false in its first round is gone before. false iff there is no key left. Calls libc,
 * which may allocate. */
bool lm_thread_on_exit(bool (*at_exit)(void *, unsigned), void *value);

/* For code that takes locks before a fork: holds the port's WALK (base/check.h), which comes before
 * all other locks, and gives it after them, in the parent or the child. lm_port_before_fork may be
 * called again meanwhile. Returns whether WALK is held: a signal handler may have interrupted its
 * holder. The port's LIST comes after the locks of all code whose handlers were registered after a
 * call of lm_port_watch. */
bool lm_port_before_fork(void);
void lm_port_after_fork(bool child);
void lm_port_watch(void);

/* Registers what runs before a fork, and after it in the parent and in the child. Calls libc. */
void lm_thread_on_fork(void (*before)(void), void (*parent)(void), void (*child)(void));

#endif
