/* call.pml: the worker is called for what sleeping and ended threads have, and nothing stays behind
 * (lm_purge_poke and work, src/span/worker.c).
 *
 * Two threads leave something each, twice, and call; a call that is there already is not written
 * again. The worker forgets the calls, then looks at what was left, and ends when nobody has called
 * since. Checked in every order of steps: when all threads are done and no worker is there, nothing
 * is left; there is one worker at a time; and no thread waits for one that lingers.
 *
 *   here      in src/span/worker.c
 *   leave     what a caller does before lm_purge_poke(true): it ends in an exchange or in a lock
 *             that is given, so that the steps are seen in this order
 *   call      lm_purge_poke: lm_space.called, is_on
 *   start     start, last_has_left
 *   Worker    work: called = false, collect, the end of a tick
 *
 * Left out: dirty memory, pauses, and a worker that is sent away (worker.pml), and what it
 * looks at (idle.pml).
 *
 * mutation LOOK_FIRST: the worker looks at what was left before it forgets the calls
 * mutation LEAVE_AT_ONCE: the worker ends without asking whether somebody has called since
 * mutation CALL_FIRST: a thread calls before it leaves something
 * mutation WAIT_FOR_GOOD: who starts a worker waits for the end of the last one, also if that stays
 */
byte left;   /* by threads, and not collected */
byte busy;   /* threads that are not done */
bit called;
bit on;      /* lm_space.worker */
bit running; /* the worker's thread is there */
bit starting;

inline leave() { left++ }

inline start() {
    atomic { !starting -> starting = 1 };
    if
    :: on -> skip
    :: !on -> /* last_has_left */
       if
       :: !running ->
          atomic { assert(!running); on = 1; running = 1; run Worker() }
#ifndef WAIT_FOR_GOOD
       :: on && running -> skip
#endif
       fi
    fi;
    starting = 0
}

inline call() {
    if
    :: called -> skip
    :: !called -> called = 1
    fi;
    if
    :: on && running -> skip
    :: else -> start()
    fi
}

proctype Caller() {
    byte times = 2;
    do
    :: times == 0 -> break
    :: else ->
       times--;
#ifdef CALL_FIRST
       call();
       leave()
#else
       leave();
       call()
#endif
    od;
    busy--
}

proctype Worker() {
    do
    :: true ->
       if
       :: true -> skip
       :: true -> (busy == 0) /* it lingers, for as long as threads are awake */
       fi;
#ifdef LOOK_FIRST
       left = 0;
       called = 0;
#else
       called = 0;
       left = 0;
#endif
       on = 0;
#ifdef LEAVE_AT_ONCE
       break
#else
       if
       :: called -> on = 1
       :: !called -> break
       fi
#endif
    od;
    running = 0
}

init {
    atomic {
        busy = 2;
        run Caller();
        run Caller()
    };
    (busy == 0 && _nr_pr == 1);
    assert(left == 0)
}
