/* transfer.pml: blocks of one thread's page that another frees: its list, the transfer cache, what
 * malloc hands out of it, and what the worker sends home (src/heap/remote.c, transfer.c, idle.c,
 * refill.c).
 *
 * Thread 0 owns the page, thread 1 frees its blocks, and both allocate; the worker; somebody who
 * forks. Checked in every order of steps: a list never changes under who pops it or puts a block on
 * it; no block is in two places; calloc never takes a used block for zero; whenever somebody forks,
 * each block can be found but one that a thread is just freeing; and once both threads sleep for
 * ever, every block that the program has freed is home.
 *
 *   here             in src/heap
 *   malloc           lm_block_pop (heap.h): load lm_heap_self, load head[c], load the link, store
 *                    head[c]
 *   refill           lm_block_take, from_other_page, refill, of_others (refill.c), lm_foreign_take
 *   use              what malloc's caller does; thread 0 is calloc: cleared (resize.c)
 *   enlist           lm_block_free_slow, enlist (remote.c): room, link, foreign->first
 *   hand_over        the same in remote.c, with lm_foreign_unlist and lm_transfer_put
 *   take_list        lm_foreign_take, lm_transfer_take
 *   send             lm_foreign_send (remote.c): at home is where page->remote has it; remote.pml
 *                    goes on from there
 *   send_unwanted    lm_transfer_empty, send_home (transfer.c)
 *   park             the same in idle.c, with lm_foreign_return_sleeper (remote.c)
 *   heap_get         lm_heap_get, unpark (thread.c)
 *   Forker           what is there once before_fork (fork.c) has all locks
 *   in_call          what lm_os_thread_sleeps reads in /proc
 *   asked            lm_biased_ask and lm_biased_let (os/os.h); what an owner does inside is one
 *                    step, biased.pml is for how it gets there. The transfer cache's lock as well
 *
 * Room is granted once, for FULL blocks; `few` are not spared. Left out: what else malloc finds,
 * and thread 1's own pages; ends of threads (orphan.pml has their last list); several classes; that
 * a thread's own frees are counted (idle.pml); the worker's end, after a last round that takes all.
 *
 * mutation UNLIST_EARLY, by breadth: a full list is taken from its heap before the lock of its next
 *          place is
 * mutation SEND_UNREGISTERED, by breadth: the worker sends lists home without the registry's lock,
 *          which a fork takes
 * mutation PARK_AWAKE: parking does not ask whether the thread sleeps
 * mutation ASK_BEFORE_HIDING: parking asks only before it has hidden the heap from the thread
 * mutation KEEP_HEAD: parking leaves what malloc was to hand out of others' blocks
 * mutation KEEP_LOW: who takes a list does not lower the mark of what nobody wanted
 * mutation CALLOC_TRUSTS_HIDDEN: where its heap is hidden, calloc takes any block for zero
 * mutation KEEP_CARVED: a refill does not say anew what blocks the list holds
 * mutation NO_UNPARK: free does not look whether its heap is the empty one
 */
#define NIL 0
#define BLOCKS 3
#define FULL 2
#define SLOTS 1
#define FREED 0
#define CARVED 1
#define OTHERS 2

/* lm_page_never_used, of thread 0's page, whose memory is fresh. */
#ifdef CALLOC_TRUSTS_HIDDEN
#define virgin (self[0] == 0 || holds[0] == CARVED)
#else
#define virgin (self[0] == 1 && holds[0] == CARVED)
#endif

byte link[BLOCKS + 1];

/* The program: blocks in its hands, of whichever thread, and those it has written to. */
bit held[BLOCKS + 1], dirty[BLOCKS + 1];
bit home[BLOCKS + 1];

/* The heaps. Thread 0 frees nothing, so that only thread 1 has a list. */
bit self[2] = 1; /* lm_heap_self: 1 the heap, 0 the empty one */
byte head[2];
byte holds[2] = CARVED; /* what is in head[] */
byte first, room = FULL;
bit asked[2], parked[2];

/* The transfer cache. */
byte list; /* one slot */
bit count, low;

bit registry;

/* The threads in the kernel's eyes, and where they stand, for the assertions. */
bit in_call[2], for_ever[2];
byte flying[2]; /* a block neither in use nor on a list yet */

inline send(l) { /* in the hands of one process, and no more in any list */
    d_step {
        do
        :: l == NIL -> break
        :: else ->
           assert(!home[l] && !held[l]);
           home[l] = 1;
           dirty[l] = 0; /* nobody asks any more */
           next = link[l];
           link[l] = NIL;
           l = next;
           next = NIL
        od
    }
}

inline unlist() { l = first; first = NIL; room = FULL }

/* ---- Threads ---- */

inline heap_get(i) {
    if
    :: self[i] == 1 -> skip
    :: else -> atomic { asked[i] == 0 -> parked[i] = 0; self[i] = 1 }
    fi
}

inline take_list(i) {
    if
    :: i == 1 && first != NIL -> b = first; first = NIL; room = FULL
    :: else ->
       if
       :: count > 0 ->
          count--;
          b = list;
          list = NIL;
#ifndef KEEP_LOW
          low = (low > count -> count : low)
#endif
       :: else -> b = NIL
       fi
    fi
}

inline use(i) {
    atomic {
        assert(!held[b] && !home[b]);
        if
        :: i == 0 -> /* by calloc */
           assert(!(dirty[b] && virgin))
        :: else -> skip
        fi;
        flying[i] = NIL;
        dirty[b] = 1;
        link[b] = NIL;
        held[b] = 1;
        b = NIL
    }
}

inline malloc(i) {
    b = (self[i] -> head[i] : NIL);
    if
    :: b != NIL ->
       c = link[b];
       atomic { assert(head[i] == b); head[i] = c; flying[i] = b; c = NIL };
       use(i)
    :: else ->
       heap_get(i);
       if
       :: head[i] != NIL -> skip /* it had been hidden for a moment; the next malloc takes it */
       :: else ->
          atomic {
              asked[i] == 0;
              take_list(i);
              if
              :: b != NIL ->
#ifndef KEEP_CARVED
                 holds[i] = OTHERS;
#endif
                 head[i] = link[b];
                 flying[i] = b
              :: else -> skip
              fi
          };
          if
          :: b != NIL -> use(i)
          :: else -> skip
          fi
       fi
    fi;
    skip
}

/* A list that is full. */
inline hand_over() {
#ifdef UNLIST_EARLY
    d_step { unlist() };
#endif
    atomic {
        if
        :: count < SLOTS ->
           h = 1;
#ifndef UNLIST_EARLY
           unlist();
#endif
           list = l;
           l = NIL;
           count++
        :: true -> h = 0 /* no slot, or not worth one */
        fi
    };
    if
    :: h -> skip
    :: else ->
       atomic {
           asked[1] == 0;
#ifndef UNLIST_EARLY
           unlist();
#endif
           send(l)
       }
    fi
}

inline enlist() {
    room--;
    link[b] = first;
    atomic { assert(link[b] == first); first = b; flying[1] = NIL }
}

inline free_other() {
#ifdef NO_UNPARK
    h = (room > 0);
#else
    h = (self[1] && room > 0);
#endif
    if
    :: h -> enlist()
    :: else ->
       heap_get(1);
       if
       :: room == 0 -> hand_over()
       :: else -> skip
       fi;
       enlist()
    fi;
    atomic { b = NIL; h = 0 }
}

proctype Thread(bit me) {
    byte b, c, l, next;
    bit h;
    do
    :: malloc(me)
    :: atomic {
           me == 1 && (held[1] || held[2] || held[3]) ->
           if
           :: held[1] -> b = 1
           :: held[2] -> b = 2
           :: held[3] -> b = 3
           fi;
           held[b] = 0;
           flying[1] = b
       };
       free_other()
    :: in_call[me] = 1; in_call[me] = 0
    :: atomic { in_call[me] = 1; for_ever[me] = 1 }; break
    od
}

/* ---- The worker ---- */

inline send_unwanted() {
    atomic {
        assert(low <= count);
        if
        :: low > 0 ->
           l = list;
           list = NIL;
           count--
        :: else -> skip
        fi;
        low = count
    };
    send(l)
}

#ifdef PARK_AWAKE
#define asleep(i) (true)
#define still_asleep(i) (true)
#else
#define asleep(i) (in_call[i] == 1)
#ifdef ASK_BEFORE_HIDING
#define still_asleep(i) (true)
#else
#define still_asleep(i) (in_call[i] == 1)
#endif
#endif

inline park(i) {
    asked[i] = 1;
    if
    :: parked[i] || !asleep(i) -> skip
    :: else ->
       self[i] = 0;
       if
       :: still_asleep(i) ->
          parked[i] = 1;
#ifndef KEEP_HEAD
          if
          :: holds[i] == OTHERS ->
             d_step { l = head[i]; head[i] = NIL; holds[i] = FREED };
             send(l)
          :: else -> skip
          fi;
#endif
          if
          :: i == 1 && first != NIL ->
             d_step { unlist() };
             send(l)
          :: else -> skip
          fi
       :: else -> self[i] = 1
       fi
    fi;
    asked[i] = 0
}

proctype Worker() {
    byte l, next, passes;
    bit last;
    do
    :: passes == 4 -> break
    :: else ->
       last = for_ever[0] && for_ever[1]; /* from here on only we act */
       atomic {
           if
           :: last -> passes++
           :: else -> skip
           fi;
           last = 0
       };
#ifdef SEND_UNREGISTERED
       send_unwanted();
#endif
       atomic { registry == 0 -> registry = 1 };
#ifndef SEND_UNREGISTERED
       send_unwanted();
#endif
       park(0);
       park(1);
       registry = 0
    od;
    atomic {
        assert(count == 0 && first == NIL && head[1] == NIL);
        assert(head[0] == NIL || holds[0] != OTHERS);
        l = (holds[0] == OTHERS -> NIL : head[0]);
        do
        :: l == NIL -> break
        :: else -> home[l] = 1; l = link[l] /* never allocated */
        od;
        head[0] = NIL;
        assert((home[1] || held[1]) && (home[2] || held[2]) && (home[3] || held[3]))
    }
}

/* ---- Fork ---- */

inline see(l) {
    do
    :: l == NIL -> break
    :: else ->
       assert(!seen[l]);
       seen[l] = 1;
       l = link[l]
    od
}

proctype Forker() {
    byte l, b;
    bit seen[BLOCKS + 1];
    atomic {
        registry == 0 && asked[0] == 0 && asked[1] == 0;
        l = head[0]; see(l);
        l = head[1]; see(l);
        l = first; see(l);
        l = list; see(l);
        b = 1;
        do
        :: b > BLOCKS -> break
        :: else ->
           assert(!(seen[b] && (held[b] || home[b])));
           assert(seen[b] || held[b] || home[b] || flying[0] == b || flying[1] == b);
           b++
        od;
        b = 0;
        seen[1] = 0; seen[2] = 0; seen[3] = 0
    }
}

init {
    atomic {
        link[1] = 2;
        link[2] = 3;
        head[0] = 1;
        run Thread(0);
        run Thread(1);
        run Worker();
        run Forker()
    }
}
