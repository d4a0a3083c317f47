/* fork.pml: a fork that holds the heap's locks, and threads that get past it (src/os/fork.c,
 * src/os/thread.c).
 *
 * One thread forks twice. Two threads allocate, one of them under a lock that libc's fork takes
 * after the fork handlers, as stdio does; it is interrupted by a signal handler that forks. Checked
 * in every order of steps: no thread waits for ever; no two are in the heap at a time; the child of
 * a fork finds the heap whole, or finds in the lock that another thread was inside.
 *
 *   here             in src
 *   heap             an lm_lock_t or lm_biased_t of the heap; all of them are one here
 *   stdio            _IO_list_lock, or the locks of the name services
 *   alloc            lm_lock_take, lm_lock_take_contended, lm_lock_give (os/lock.h, os/thread.c)
 *   port             a lock that the fork gives before lm_fork_end, because its handlers are older
 *                    than the heap's: of the port's locks (os/fork.c)
 *   list             lm_lock_take_contended and lm_lock_give_contended of such a lock (os/thread.c)
 *   pass             lm_fork_pass and lm_fork_passed (os/fork.c); marked: LM_LOCK_PASSED
 *   Forker           before_fork, after_fork_in_parent (heap/fork.c); lm_fork_begin, lm_fork_pause,
 *                    lm_fork_resume, lm_fork_end (os/fork.c); lm_lock_let (os/thread.c)
 *   handler          before_fork where is_inside
 *   child            lm_fork_pass in the child (os/fork.c), lm_fork_repair
 *
 * Left out: stdio in the fork of the signal handler. If another thread holds that and waits for the
 * heap, which the interrupted thread has, both wait for ever: with every allocator that has a lock
 * (decision 0038). Time: a thread waits for some milliseconds before it passes. The forking thread,
 * which passes too.
 *
 * mutation NO_PASS: no thread passes
 * mutation TWO_PASS: a thread passes while another one does
 * mutation MARK_LATE: a thread that passes is in the heap before the lock says so
 * mutation UNMARK_EARLY: the lock says that it has left before it has
 * mutation END_EARLY: the forking thread does not wait for the thread that passes
 * mutation BEGIN_EARLY: threads may pass before the fork holds the locks
 * mutation GIVE_EARLY: a lock is given while a thread may pass it
 * mutation NO_LOOK: a thread that passes does not look whether the lock has been given meanwhile
 * mutation HANDLER_WAITS: the signal handler's fork waits for what its own thread holds
 * mutation NO_REPAIR: the child waits for the thread that was passing, which it does not have
 */
#define FORK 9
#define IDLE 1
#define BUSY 2

byte heap, port, stdio; /* 0: free; FORK: the fork holds it; else the thread */
byte owner;        /* 0, IDLE: a fork holds the locks; BUSY: a thread passes */
bit marked, asleep;
bit whole = 1;     /* the heap is not half changed */
byte inside;       /* threads in the heap */

inline change() {
    atomic { inside++; assert(inside == 1) };
    whole = 0;
    if
    :: interrupted ->
#ifdef HANDLER_WAITS
       heap == 0
#else
       skip /* the heap's lock is this thread's: nothing is waited for */
#endif
    :: true -> skip
    fi;
    whole = 1;
    inside--
}

inline pass() {
#ifdef MARK_LATE
    atomic { inside++; assert(inside == 1) };
    whole = 0;
    marked = 1;
    whole = 1;
    inside--;
    marked = 0;
#else
    marked = 1;
#ifdef UNMARK_EARLY
    atomic { inside++; assert(inside == 1) };
    whole = 0;
    marked = 0;
    whole = 1;
    inside--;
#else
    change();
    marked = 0;
#endif
#endif
    owner = IDLE
}

inline alloc(me) {
    do
    :: atomic { heap == 0 -> heap = me };
       change();
       heap = 0;
       break
#ifndef NO_PASS
    :: owner != 0 && asleep -> /* it may be awake again by the next step */
       if
#ifdef TWO_PASS
       :: atomic { owner != 0 -> owner = BUSY }; pass(); break
#else
       :: atomic { owner == IDLE -> owner = BUSY }; pass(); break
#endif
       :: owner != IDLE -> skip
       fi
#endif
    od
}

/* A thread that passes a lock gives it in the same way as one that has taken it: which of the two
 * it did, the lock's word says. */
inline list(me) {
    do
    :: atomic { port == 0 -> port = me }; port = 0; break
    :: port == FORK && owner != 0 && asleep ->
       if
       :: atomic { owner == IDLE -> owner = BUSY };
          if
#ifndef NO_LOOK
          :: port != FORK -> owner = IDLE
#endif
          :: else -> /* inside; then gives the lock */
             if
             :: atomic { port == FORK -> owner = IDLE }
             :: atomic { port == 0 -> skip } /* and owner is BUSY for ever */
             :: atomic { port != FORK && port != 0 -> assert(false) } /* gives another thread's */
             fi;
             break
          fi
       :: owner != IDLE -> skip
       fi
    od
}

/* What an early handler does in the child, which has one thread. Changes nothing in the parent. */
inline child() {
    if
    :: owner == IDLE -> assert(whole) /* it passes */
#ifdef NO_REPAIR
    :: owner == BUSY -> assert(false) /* for ever */
#else
    :: owner == BUSY -> skip /* it has the heap repaired, by the mark, and the locks freed */
#endif
    fi
}

active proctype Forker() {
    byte forks;
    do
    :: forks == 2 -> break
    :: else ->
       forks++;
#ifdef BEGIN_EARLY
       owner = IDLE;
       asleep = 1;
       atomic { heap == 0 -> heap = FORK; asleep = 0 };
       atomic { port == 0 -> port = FORK };
#else
       atomic { heap == 0 -> heap = FORK };
       atomic { port == 0 -> port = FORK };
       owner = IDLE;
#endif
       asleep = 1;
       atomic { stdio == 0 -> stdio = FORK; asleep = 0 };
       atomic { assert(whole || marked); child() }; /* the copy */
       stdio = 0;
       asleep = 1; /* in a handler of the program's */
       asleep = 0;
#ifdef GIVE_EARLY
       port = 0;
#else
       atomic { owner == IDLE -> owner = 0 };
       port = 0;
       owner = IDLE;
#endif
#ifdef END_EARLY
       owner = 0;
#else
       atomic { owner == IDLE -> owner = 0 };
#endif
       heap = 0
    od
}

active proctype Stdio() {
    byte times;
    bit interrupted = 1;
    do
    :: times == 2 -> break
    :: else ->
       times++;
       atomic { stdio == 0 -> stdio = 2 };
       alloc(2);
       alloc(2);
       stdio = 0
    od
}

active proctype Other() {
    byte times;
    bit interrupted = 0;
    do
    :: times == 3 -> break
    :: else ->
       times++;
       if
       :: alloc(3)
       :: list(3)
       fi
    od
}
