/* worker.pml: how the thread that purges is started, ends, and is sent away (src/span/purge.c).
 *
 * Three threads that free, one of them twice; one that wants to be alone for a while; workers.
 * Checked in every order of steps: there are never two workers, none while somebody is alone, and when
 * everybody is done, no dirty memory above the threshold is left without a worker.
 *
 *   here             in src
 *   give             lm_span_give (span/arena.c): more is dirty, under the lock
 *   poke             lm_purge_poke, wanted (span/purge.c)
 *   start, join      lm_os_worker_start, lm_os_worker_join (os/linux.c)
 *   Worker           work (span/purge.c), the kernel clearing worker.tid last
 *   pause, resume    lm_purge_pause, lm_purge_resume (span/purge.c)
 *
 * What happens under the lock is one step, but for the worker's look, of which those who ask without the
 * lock may see a part. Left out: the purge delay (a tick purges everything or nothing), what the worker
 * does for sleeping threads (idle.pml) and that it lingers for them, two who want to be alone at once,
 * systems that refuse threads or purges, vfork and fork.
 *
 * mutation NO_TICKET: who has started a worker says so although somebody is starting the next one
 * mutation NO_JOIN: a worker is started although the last one is still leaving
 * mutation PAUSE_AT_ONCE: a pause does not wait for a worker that is being started
 * mutation RESUME_SILENT: after a pause nobody asks whether a worker is wanted
 * mutation LEAVE_UNLOCKED: a worker looks for dirty memory, and says that it leaves, in two steps
 * mutation START_PAUSED: a worker is started although somebody wants to be alone
 */
#define THRESHOLD 2 /* dirty slices that are worth a worker */

mtype = {OFF, STARTING, ON};

mtype worker = OFF;
byte dirty, paused, starts;
bit stop, running, lock; /* running: the kernel's word, worker.tid */
byte workers;            /* that exist, for the assertions */
byte busy = 4;           /* threads that are not done */
bit alone;

#define take_lock() atomic { lock == 0 -> lock = 1 }
#define give_lock() lock = 0

proctype Worker() {
    bit more = 1, last;
    do
    :: !more -> break
    :: else ->
       last = stop; /* a round that leaves nothing in the transfer cache */
       take_lock();
       if
       :: !stop -> dirty = 0 /* all of it is old enough */
       :: true -> skip
       fi;
       more = (stop -> !last : dirty > 0);
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
#define nobody_alone (true)
#else
#define nobody_alone (paused == 0)
#endif

#ifdef NO_TICKET
#define my_turn (true)
#else
#define my_turn (starts == ticket)
#endif

inline poke() {
    if
    :: dirty < THRESHOLD -> skip
    :: else ->
       was = worker;
       if
       :: was == ON && running -> skip
       :: else ->
          atomic {
              lock == 0;
              if
              :: nobody_alone && worker != STARTING && !(worker == ON && running) ->
                 starts++;
                 ticket = starts;
                 worker = STARTING
              :: else -> skip
              fi
          };
          if
          :: ticket != 0 ->
#ifndef NO_JOIN
             !running; /* waits for the last one */
#endif
             atomic {
                 assert(workers == 0);
                 assert(!alone);
                 workers++;
                 running = 1;
                 run Worker()
             };
             atomic {
                 lock == 0;
                 if
                 :: worker == STARTING && my_turn -> worker = ON
                 :: else -> skip
                 fi;
                 ticket = 0
             }
          :: else -> skip
          fi
       fi
    fi;
    was = OFF
}

proctype Freeing(byte times) {
    byte ticket;
    mtype was = OFF;
    do
    :: times == 0 -> break
    :: else ->
       times--;
       if
       :: atomic { lock == 0 -> dirty = (dirty < THRESHOLD -> dirty + 1 : dirty) }
       :: atomic { lock == 0 -> dirty = THRESHOLD }
       fi;
       poke()
    od;
    busy--
}

proctype Alone(byte times) {
    byte ticket;
    mtype was = OFF;
    do
    :: times == 0 -> break
    :: else ->
       times--;
       atomic { lock == 0 -> paused++; stop = 1 };
#ifndef PAUSE_AT_ONCE
       lock == 0 && worker != STARTING;
#endif
       !running;
       atomic { assert(workers == 0); alone = 1 };
       alone = 0;
       atomic {
           lock == 0;
           paused--;
           if
           :: paused == 0 -> stop = 0
           :: else -> skip
           fi
       };
#ifndef RESUME_SILENT
       poke();
#endif
       skip
    od;
    busy--
}

init {
    atomic {
        run Freeing(1);
        run Freeing(1);
        run Freeing(2);
        run Alone(1)
    }
    /* Everybody is done: a worker may be there, and then it will purge; or there is little to do. */
    busy == 0 && workers == 0;
    assert(dirty < THRESHOLD)
}
