/* ask.pml: a filter of system calls comes for all threads at once, and kills none of them for a
 * question that it had begun (src/os/ask.c, lm_purge_allow in src/span/worker.c).
 *
 * Two threads ask again and again, also a question within a question. A third notes what the
 * filter kills for, forbids questions, waits until nobody asks, and sets the filter. Checked in
 * every order of steps: no thread makes a call that the filter kills for once it is set; and the
 * third comes to set it, so that nobody waits for ever.
 *
 *   here      in the sources
 *   begin     lm_ask_begin
 *   end       lm_ask_end
 *   advise    advise in os/linux.c: a call that malloc needs, but in another form where the filter
 *             kills for this one
 *   Filters   lm_os_filter_seen, lm_ask_forbid, lm_ask_await, then the system call
 *
 * Left out: that a thread is not waited for longer than 200 ms, and forks.
 *
 * mutation LOOK_FIRST: a thread looks whether it may ask before it counts itself
 * mutation WAIT_FIRST: the filter's thread waits before it forbids
 * mutation NO_WAIT: it does not wait
 * mutation END_EARLY: a thread no longer counts as asking when it makes its call
 * mutation NOTE_LATE: what the filter kills for is noted when other threads have been waited for
 * mutation ONE_COUNT: a question within a question ends both
 */
byte asking;
bit forbidden;
bit kills;    /* lm_os_kills: madvise is known to be forbidden */
bit filtered; /* the filter holds, for all threads */

inline ask() { assert(!filtered) }

inline begin(may) {
#ifdef LOOK_FIRST
    may = !forbidden;
    if
    :: may -> asking++
    :: else -> skip
    fi
#else
    if
    :: forbidden -> may = 0
    :: else ->
       asking++;
       may = !forbidden;
       if
       :: may -> skip
       :: else -> asking--
       fi
    fi
#endif
}

inline end() {
#ifdef ONE_COUNT
    asking = 0
#else
    asking--
#endif
}

inline advise(may) {
    begin(may);
    if
    :: kills -> skip /* lm_os_advice_kills: memory is mapped anew instead */
    :: else -> ask()
    fi;
    if
    :: may -> end()
    :: else -> skip
    fi
}

proctype Asker() {
    bit may, inner;
    byte times = 2;
    do
    :: times == 0 -> break
    :: else ->
       times--;
       begin(may);
       if
       :: may ->
#ifdef END_EARLY
          end();
          ask()
#else
          begin(inner); /* which may be refused while the outer question goes on */
          if
          :: inner -> ask(); end()
          :: else -> skip
          fi;
          ask();
          end()
#endif
       :: else -> skip
       fi;
       advise(may)
    od
}

proctype Filters() {
#ifndef NOTE_LATE
    kills = 1;
#endif
#ifdef WAIT_FIRST
    (asking == 0);
    forbidden = 1;
#else
    forbidden = 1;
#ifndef NO_WAIT
    (asking == 0);
#endif
#endif
#ifdef NOTE_LATE
    kills = 1;
#endif
    filtered = 1
}

init {
    atomic {
        run Asker();
        run Asker();
        run Filters()
    }
}
