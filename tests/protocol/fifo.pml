/* fifo.pml: objects of a FIFO that other threads free, and a destroyed FIFO that the last of them
 * ends (src/family/fifo_remote.c).
 *
 * Two pages with two objects each, an owner that frees one itself and then destroys the FIFO, two
 * threads that free the others. Checked in every order of steps: no page and no FIFO is touched
 * after its end, one thread at a time does an owner's work, each object is counted once, and in the
 * end all is gone, so that no notice gets lost.
 *
 *   here             in src/family/fifo_remote.c
 *   free_remote      loam_fifo_free_remote_at: counts in the page, and pushes it iff it counted
 *                    from 0
 *   push             push: the notice, or the owner's work iff LEFT is there
 *   take             take, with lm_fifo_less and lm_fifo_emptied (fifo_page.c)
 *   take_all         take_all
 *   leave            lm_fifo_leave
 *   Owner's free     the inline loam_fifo_free_at before, free_remote after destroy
 *                    (loam_fifo_free_slow)
 *
 * Left out: allocations, the current page (destroy makes it one of the others), checked FIFOs,
 * whose notices are objects: the same list, with a count of one.
 *
 * mutation PUSH_ALWAYS: a thread pushes the page whatever the count was
 * mutation PUSH_FIRST: a thread pushes the page before it counts
 * mutation LINK_AFTER_COUNT: the owner reads a notice's link after it has taken the count
 * mutation NO_LEAVE: the owner destroys the FIFO and leaves nothing that says so
 * mutation LEAVE_BLINDLY: LEFT is stored whatever has been pushed meanwhile
 * mutation LEFT_IS_PUSHED_ON: a thread that finds LEFT does not become the owner
 * mutation PLAIN_FREE_AFTER_END: after destroy the owner counts objects down itself
 */
#define NIL 0
#define LEFT 9
#define PAGES 2

byte live[PAGES];    /* as the owner knows it */
byte remote[PAGES];  /* freed by others, not yet counted */
byte link[PAGES];    /* of the notice: page + 1 */
bool gone[PAGES];
byte notices;        /* page + 1, NIL or LEFT */
byte pages = PAGES;  /* that the FIFO has */
bool dead, ended;
byte owners;         /* threads that do an owner's work */

#define touch(p) assert(!gone[p])
#define fifo() assert(!ended)

inline less(p, n) {
    atomic {
        fifo();
        touch(p);
        assert(live[p] >= n);
        live[p] = live[p] - n;
        if
        :: live[p] == 0 && dead ->
           gone[p] = true;
           pages--;
           if
           :: pages == 0 -> ended = true; owners--; over = true
           :: else -> skip
           fi
        :: else -> skip
        fi
    }
}

inline take(p) {
    atomic {
        touch(p);
        n = remote[p];
        remote[p] = 0
    };
    less(p, n)
}

inline take_all() {
    atomic { fifo(); at = notices; notices = NIL };
    do
    :: at == NIL || over -> break
    :: else ->
       page = at - 1;
#ifdef LINK_AFTER_COUNT
       atomic { touch(page); n = remote[page]; remote[page] = 0 };
       touch(page);
       next = link[page];
       less(page, n);
#else
       touch(page);
       next = link[page];
       take(page);
#endif
       at = next
    od;
    atomic { at = 0; next = 0; page = 0; n = 0 }
}

inline leave() {
    done = false;
    do
    :: atomic {
           fifo();
           if
#ifdef LEAVE_BLINDLY
           :: true -> notices = LEFT; owners--; done = true
#else
           :: notices == NIL -> notices = LEFT; owners--; done = true
           :: else -> skip
#endif
           fi
       };
       if
       :: done -> break
       :: else ->
          take_all();
          if
          :: over -> break
          :: else -> skip
          fi
       fi
    od
}

inline push(p) {
    atomic { fifo(); first = notices };
    do
#ifndef LEFT_IS_PUSHED_ON
    :: first == LEFT ->
       atomic {
           fifo();
           if
           :: notices == LEFT ->
              notices = NIL;
              assert(owners == 0);
              owners++;
              done = true
           :: else -> first = notices; done = false
           fi
       };
       if
       :: done ->
          take(p);
          if
          :: !over -> leave()
          :: else -> skip
          fi;
          break
       :: else -> skip
       fi
    :: first != LEFT ->
#else
    :: true ->
#endif
       atomic { touch(p); link[p] = (first == LEFT -> NIL : first) };
       atomic {
           fifo();
           if
           :: notices == first -> notices = p + 1; done = true
           :: else -> first = notices; done = false
           fi
       };
       if
       :: done -> break
       :: else -> skip
       fi
    od
}

inline free_remote(p) {
#ifdef PUSH_FIRST
    push(p);
    atomic { touch(p); remote[p] = remote[p] + 1 };
#else
    atomic { touch(p); was = remote[p]; remote[p] = was + 1 };
    if
#ifdef PUSH_ALWAYS
    :: true -> push(p)
#else
    :: was == 0 -> push(p)
    :: else -> skip
#endif
    fi;
#endif
    atomic { over = false; was = 0; first = 0; done = false }
}

proctype Thread(bit which) {
    byte was, first, at, next, page, n;
    bool over, done;
    if
    :: which == 0 ->
       free_remote(0);
       free_remote(1)
    :: else ->
       free_remote(1);
       free_remote(0)
    fi
}

proctype Owner() {
    byte was, first, at, next, page, n;
    bool over, done;
    /* One free of its own before, one look, the end, and one free after it. */
    less(0, 1);
    if
    :: true -> take_all()
    :: true -> skip
    fi;
    atomic { fifo(); dead = true };
    /* Pages that others have emptied before the end are spares, which go with it. */
    atomic {
        page = 0;
        do
        :: page == PAGES -> break
        :: else ->
           if
           :: live[page] == 0 -> gone[page] = true; pages--
           :: else -> skip
           fi;
           page++
        od;
        page = 0;
        assert(pages > 0) /* it has an object itself */
    };
#ifndef NO_LEAVE
    leave();
#else
    owners--;
#endif
    atomic { over = false; done = false };
#ifdef PLAIN_FREE_AFTER_END
    atomic { assert(owners == 0); owners++ };
    less(1, 1);
    if
    :: !over -> owners--
    :: else -> skip
    fi
#else
    free_remote(1)
#endif
}

init {
    atomic {
        live[0] = 3;
        live[1] = 3;
        owners = 1;
        run Owner();
        run Thread(0);
        run Thread(1)
    };
    /* When all have ended, so has the FIFO. */
    _nr_pr == 1;
    assert(ended && gone[0] && gone[1] && owners == 0)
}
