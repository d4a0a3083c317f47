/* worker.pml: how the thread that purges is started, ends, and is sent away (src/span/worker.c).
 *
 * Two threads free, one of them twice. One takes new memory, and purges a span itself before. One
 * wants no worker for a while. Workers come and go.
 * Checked in every order of steps: there are never two workers, there is none while a pause lasts,
 * and when all threads are done, no dirty memory above the threshold is left without a worker.
 *
 *   here             in src
 *   give             lm_span_give (span/arena.c): more is dirty, under the lock
 *   take             take_once (span/arena.c): takes a dirty span out of the lists, purges it
 *                    without the lock, and puts back what the system has refused
 *   poke, start      lm_purge_poke, start (span/worker.c)
 *   starting         lm_space.starting; signals are blocked while it is held
 *   Worker           work, lm_worker_leave (span/worker.c); the kernel clears worker.tid last
 *   pause, resume    lm_purge_pause, lm_purge_resume (span/worker.c), neither under the lock
 *
 * What happens under the lock is one step, except for the worker's look, of which threads that look
 * without the lock may see a part. Left out: the purge delay (a tick purges everything or nothing),
 * what the worker does for sleeping threads (idle.pml) and that it lingers for them, two pauses at
 * once, a pause that gives up its wait because its thread holds a lock that the worker waits for,
 * systems that refuse threads or purges, and copies of the process (tests/works/children.c).
 *
 * mutation TAKE_SILENT: a thread that has purged does not ask whether a worker is wanted
 * mutation NO_JOIN: a worker is started although the last one is still leaving
 * mutation PAUSE_AT_ONCE, by breadth: a pause does not wait for a thread that is starting a worker
 * mutation RESUME_SILENT: after a pause no thread asks whether a worker is wanted
 * mutation LEAVE_UNLOCKED: a worker looks for dirty memory, and says that it leaves, in two steps
 * mutation START_PAUSED, by breadth: a worker is started although a pause lasts
 * mutation TWO_STARTERS: the lock `starting` is not taken
 */
#define THRESHOLD 2 /* dirty slices that are worth a worker */

mtype = {OFF, ON};

mtype worker = OFF;
byte dirty, stop;
bit running, lock, starting; /* running: the kernel's word, worker.tid */
bit unfinished;
byte workers;  /* that exist, for the assertions */
byte busy = 4; /* threads that are not done */
bit alone;

#define take_lock() atomic { lock == 0 -> lock = 1 }
#define give_lock() lock = 0

proctype Worker() {
    bit more = 1;
    do
    :: !more -> break
    :: else ->
       if
       :: stop > 0 -> unfinished = 1; worker = OFF; break
       :: else -> skip
       fi;
       take_lock();
       if
       :: stop == 0 -> dirty = 0 /* all of it is old enough */
       :: true -> skip
       fi;
       more = (stop == 0 && dirty > 0);
       unfinished = (stop > 0 -> 1 : unfinished);
#ifdef LEAVE_UNLOCKED
       give_lock();
       take_lock();
#endif
       if
       :: !more -> worker = OFF
       :: else -> skip
       fi;
       give_lock()
    od;
    atomic { running = 0; workers-- }
}

#ifdef START_PAUSED
#define no_pause (true)
#else
#define no_pause (stop == 0)
#endif

#ifdef TWO_STARTERS
#define take_starting() skip
#define give_starting() skip
#else
#define take_starting() atomic { starting == 0 -> starting = 1 }
#define give_starting() starting = 0
#endif

inline start() {
    take_starting();
    was = worker;
    if
    :: no_pause && !(was == ON && running) ->
#ifndef NO_JOIN
       !running; /* waits for the last one */
#endif
       unfinished = 0;
       worker = ON;
       atomic {
           assert(workers == 0);
           assert(!alone);
           workers++;
           running = 1;
           run Worker()
       }
    :: else -> skip
    fi;
    give_starting()
}

inline poke(idle) {
    if
    :: dirty < THRESHOLD && !idle -> skip
    :: else ->
       was = worker;
       if
       :: was == ON && running -> skip
       :: stop > 0 -> skip
       :: else -> start()
       fi
    fi;
    was = OFF
}

proctype Freeing(byte times) {
    mtype was = OFF;
    do
    :: times == 0 -> break
    :: else ->
       times--;
       if
       :: atomic { lock == 0 -> dirty = (dirty < THRESHOLD -> dirty + 1 : dirty) }
       :: atomic { lock == 0 -> dirty = THRESHOLD }
       fi;
       poke(0)
    od;
    busy--
}

/* Takes new memory, and purges before. The worker may find nothing dirty meanwhile, and end. */
proctype Taking() {
    mtype was = OFF;
    byte part;
    atomic { lock == 0 -> part = dirty; dirty = 0 };
    if
    :: part = 0 /* the system takes all of it */
    :: atomic {
           lock == 0 -> dirty = (dirty + part > THRESHOLD -> THRESHOLD : dirty + part);
           part = 0
       }
    fi;
#ifndef TAKE_SILENT
    poke(0);
#endif
    busy--
}

proctype Alone(byte times) {
    mtype was = OFF;
    do
    :: times == 0 -> break
    :: else ->
       times--;
       stop++;
#ifndef PAUSE_AT_ONCE
       !starting;
#endif
       !running;
       atomic { assert(workers == 0); alone = 1 };
       alone = 0;
       stop--;
#ifndef RESUME_SILENT
       if
       :: stop == 0 -> poke(unfinished)
       :: else -> skip
       fi;
#endif
       skip
    od;
    busy--
}

init {
    atomic {
        run Freeing(1);
        run Freeing(2);
        run Taking();
        run Alone(1)
    }
    /* All threads are done: a worker may be there, and then it will purge; or there is little to
     * do. */
    busy == 0 && workers == 0;
    assert(dirty < THRESHOLD)
}
