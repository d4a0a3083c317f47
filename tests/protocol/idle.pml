/* idle.pml: what the worker does with the page of a thread while that thread runs, or sleeps
 * (src/heap/idle.c).
 *
 * One heap, its owner, a thread that frees the owner's blocks, the worker; one page of two blocks.
 * The fast paths, which take no lock, are modelled load by load and store by store. Checked in
 * every order of steps: the page is released only when nobody is inside it, about to be told of, or
 * holding a block; a list never changes under who pops it; others' blocks are sent home for nobody
 * who is listing them; and once the owner sleeps for ever without a block of the page, the page is
 * released, also where it freed on its fast path between two sleeps, with its heap parked all the
 * while.
 *
 *   here             in src/heap
 *   fast_malloc      lm_block_pop (heap.h): load lm_heap_self, load head[c], load the link, store
 *                    head[c]
 *   slow_malloc      lm_block_take, from_other_page, refill, list_of, look_behind (refill.c)
 *   fast_free        lm_block_free (heap.h): link, page->free, count down
 *   event            lm_page_event (page.c)
 *   heap_get         lm_heap_get, unpark (thread.c)
 *   drain_some       lm_remote_drain_some (remote.c): heap->coming holds what was on the stack
 *   listed           what the owner holds of others' pages (remote.c), as one word; transfer.pml
 *                    has the lists
 *   Other            lm_remote_push, notify (remote.c); the worker, when it sends home what another
 *                    sleeper or the transfer cache had of this page, does the same
 *   collect_page, sweep, park, trim, Worker    the same names in idle.c and page.c; lm_idle_collect
 *   in_call          what lm_os_thread_sleeps reads in /proc
 *   take_lock        lm_biased_enter and lm_biased_leave (os/os.h), as one step: biased.pml is for
 *   ask, let         what is within it. The worker does not wait for an owner who is inside: it
 *                    passes by
 *
 * `slow` here is a bit: slow paths taken since the worker noted how far the owner was. It is read
 * without the lock, to choose. Left out: signal handlers, which may
 * sleep in the middle of malloc (the test of the stack in os/linux_thread.c is for them), the end
 * of the thread and of its heap (orphan.pml), a second page and a second class, other pages that
 * malloc would take when this one is exhausted, others' blocks among them.
 *
 * mutation NO_OWNER_CHECK: an event believes that the page is still the heap's
 * mutation OVERWRITE_HEAD: the slow half of malloc reads lm_heap_self again, and trusts that the
 *                          fast half met an empty list of that heap
 * mutation PARK_AWAKE: parking does not ask whether the owner sleeps
 * mutation ASK_BEFORE_HIDING: parking asks only before it has hidden the heap from the owner
 * mutation TAKE_CURRENT: collecting a page does not ask whether malloc is taking from it
 * mutation NO_LOOK: the worker goes on although the owner is inside
 * mutation FORGET_REST: the worker takes in what is notified, not what the owner left of that
 * mutation FORGET_QUEUED: a page that cannot be collected is dropped from the stack, its flag stays
 */
#define NIL 0
#define ALL 2 /* blocks, 1 and 2 */

mtype = {NOWHERE, CURRENT, PARTIAL, FULL};

/* The page. The first three are its word `remote` and change together. */
byte there, there_count;
bit queued;
byte free_list, live, bias;
bit owned;
bit released = 1;
mtype place = NOWHERE;
byte link[ALL + 1];

/* The heap. */
bit self = 1; /* lm_heap_self: 1 the heap, 0 the empty one */
byte head;
bit notified, coming, inside, asked, slow, parked, left_behind, listed;

/* The owner in the kernel's eyes. */
bit in_call, for_ever;

/* Blocks on their way, and who stands where, for the assertions. */
bit held[ALL + 1]; /* by the owner's program */
byte box;          /* by the other thread */
bit other_busy, owner_inside, listing;

#define take_lock() atomic { asked == 0 -> inside = 1 }
#define give_lock() inside = 0
#ifdef NO_LOOK
#define owner_outside (true)
#else
#define owner_outside (inside == 0)
#endif
#define touch() assert(!released)

inline discard() {
    atomic {
        touch();
        assert(there_count == 0 && !queued);
        assert(!owner_inside && !other_busy && box == NIL && head == NIL);
        assert(!held[1] && !held[2] && place == NOWHERE && !notified && !coming);
        owned = 0;
        released = 1;
        free_list = NIL;
        live = 0
    }
}

/* Under the lock: no step of others comes between that would matter. */
inline unlink() {
    d_step {
        touch();
        if
        :: place == FULL -> live = live + bias; bias = 0
        :: else -> skip
        fi;
        place = NOWHERE
    }
}

inline to_partial() {
    unlink();
    place = PARTIAL
}

inline to_full() {
    d_step {
        touch();
        assert(free_list == NIL && bias == 0 && live == ALL);
        bias = live - 1;
        live = 1;
        place = FULL
    }
}

inline put_chain(first, n) {
    atomic {
        t = first;
        do
        :: link[t] != NIL -> t = link[t]
        :: else -> break
        od;
        link[t] = free_list;
        free_list = first;
        live = live - n;
        t = 0
    }
}

inline take_word() { /* lm_remote_take: the flag stays */
    d_step { c = there; n = there_count; there = NIL; there_count = 0 }
}

inline release() { /* lm_page_release */
    if
    :: queued ->
       if
       :: place != PARTIAL -> to_partial()
       :: else -> skip
       fi
    :: else ->
       unlink();
       discard()
    fi
}

/* ---- The owner ---- */

inline heap_get() {
    if
    :: self == 1 -> skip
    :: else ->
       take_lock();
       parked = 0;
       slow = 1;
       self = 1;
       give_lock()
    fi
}

inline pop(h) {
    atomic { b = (h -> head : NIL); owner_inside = (b != NIL) };
    if
    :: b != NIL ->
       c = link[b];
       atomic {
           touch();
           assert(head == b);
           head = c;
           owner_inside = 0;
           held[b] = 1;
           c = 0
       }
    :: else -> skip
    fi
}

inline drain_some() {
    if
    :: !coming && notified -> notified = 0; coming = 1
    :: coming ->
       coming = 0;
       d_step { touch(); c = there; n = there_count; there = NIL; there_count = 0; queued = 0 };
       if
       :: place == FULL -> to_partial()
       :: else -> skip
       fi;
       if
       :: n > 0 -> put_chain(c, n)
       :: else -> skip
       fi;
       if
       :: place == PARTIAL && live == 0 -> release()
       :: else -> skip
       fi
    :: else -> skip
    fi
}

/* What list_of finds, into `b`; a page that is its heap's and current. */
inline list_of() {
    if
    :: free_list != NIL -> atomic { b = free_list; free_list = NIL; live = ALL }
    :: else -> take_word(); b = c
    fi
}

inline take_page() {
    unlink();
    place = CURRENT;
    list_of();
    if
    :: b == NIL -> to_full()
    :: else -> skip
    fi
}

inline refill() {
    b = NIL;
    if
    :: place == CURRENT ->
       list_of();
       if
       :: b == NIL -> to_full()
       :: else -> skip
       fi
    :: else -> skip
    fi;
    if
    :: b == NIL && place == PARTIAL -> take_page()
    :: b == NIL && place == FULL && left_behind ->
       left_behind = 0;
       take_word();
       if
       :: n > 0 ->
          to_partial();
          put_chain(c, n);
          if
          :: live == 0 -> release()
          :: else -> take_page()
          fi
       :: else -> skip
       fi
    :: b == NIL && released -> /* lm_page_create, lm_page_carve */
       d_step {
           released = 0;
           owned = 1;
           link[1] = 2;
           link[2] = NIL;
           live = ALL;
           bias = 0;
           place = CURRENT;
           b = 1
       }
    :: else -> skip /* the program is served from another page */
    fi;
    if
    :: b != NIL -> d_step { head = link[b]; held[b] = 1 }
    :: else -> skip
    fi
}

/* h: the heap whose list the fast half met empty. */
inline slow_malloc() {
#ifdef OVERWRITE_HEAD
    h = self;
#endif
    if
    :: h == 1 && place == CURRENT && free_list != NIL -> /* lm_page_take: no lock */
       owner_inside = 1;
       b = free_list;
       free_list = NIL;
       live = ALL;
       c = link[b];
       atomic { touch(); assert(head == NIL); head = c; owner_inside = 0; held[b] = 1 }
    :: else ->
       heap_get();
       if
       :: head != NIL -> pop(1)
       :: else ->
          take_lock();
          slow = 1;
          drain_some();
          refill();
          give_lock()
       fi
    fi
}

inline malloc() {
    h = self;
    pop(h);
    if
    :: b == NIL -> slow_malloc()
    :: else -> skip
    fi
}

inline event() {
    heap_get();
    take_lock();
    slow = 1;
    if
#ifndef NO_OWNER_CHECK
    :: !owned -> skip /* the worker has already taken the page away */
#endif
    :: else ->
       assert(owned && !released); /* its descriptor may be that of another heap's page by now */
       if
       :: place == FULL -> to_partial()
       :: else -> skip
       fi;
       if
       :: live == 0 && place == PARTIAL -> release()
       :: else -> skip
       fi
    fi;
    give_lock()
}

inline fast_free(p) {
    atomic { touch(); assert(owned); owner_inside = 1; held[p] = 0 };
    link[p] = free_list;
    free_list = p;
    n = live;
    atomic { touch(); live = n - 1; n = n - 1; owner_inside = 0 };
    if
    :: n == 0 -> event()
    :: else -> skip
    fi
}

proctype Owner() {
    byte b, c, n, t;
    bit h;
    do
    :: malloc(); atomic { b = 0; c = 0; n = 0; h = 0 }
    :: held[1] -> fast_free(1); atomic { c = 0; n = 0 }
    :: held[2] -> fast_free(2); atomic { c = 0; n = 0 }
    :: atomic { held[1] && box == NIL -> held[1] = 0; box = 1 }
    :: atomic { held[2] && box == NIL -> held[2] = 0; box = 2 }
    :: heap_get();
       listing = 1;
       listed = 1;
       listing = 0
    :: in_call = 1; in_call = 0
    :: atomic { in_call = 1; for_ever = 1 }; break
    od
}

/* ---- The other thread ---- */

proctype Other() {
    byte b, c, n;
    bit q, done;
end_wait:
    do
    :: box != NIL ->
       atomic { touch(); b = box; c = there; n = there_count; q = queued };
       do
       :: atomic { touch(); link[b] = c };
          atomic {
              touch();
              if
              :: there == c && there_count == n && queued == q ->
                 there = b;
                 there_count = n + 1;
                 queued = 1;
                 other_busy = !q;
                 box = NIL;
                 done = 1
              :: else -> c = there; n = there_count; q = queued; done = 0
              fi
          };
          if
          :: done -> break
          :: else -> skip
          fi
       od;
       if
       :: !q -> atomic { touch(); assert(!notified && !coming); notified = 1; other_busy = 0 }
       :: else -> skip
       fi;
       atomic { b = 0; c = 0; n = 0; q = 0; done = 0 }
    od
}

/* ---- The worker ---- */

inline collect_page() {
    atomic { touch(); c = there; n = there_count; q = queued };
    do
    :: t = live;
#ifdef TAKE_CURRENT
       done = (t + bias == n);
#else
       done = (t + bias == n && place != CURRENT);
#endif
       if
       :: done -> break
       :: else ->
#ifdef FORGET_QUEUED
          break
#else
          atomic {
              touch();
              if
              :: there == c && there_count == n && queued == q -> queued = 0; q = 0; left_behind = 1
              :: else -> c = there; n = there_count; q = queued
              fi
          };
          if
          :: left_behind && !q -> break
          :: else -> skip
          fi
#endif
       fi
    od;
    if
    :: done ->
       d_step { there = NIL; there_count = 0; queued = 0 };
       unlink();
       discard()
    :: else -> skip
    fi;
    atomic { c = 0; n = 0; q = 0; t = 0; done = 0 }
}

inline sweep() {
    if
    :: place == PARTIAL || place == FULL ->
       atomic { touch(); n = there_count; q = queued };
       t = live;
       if
       :: t + bias == n && !q ->
          d_step { there = NIL; there_count = 0; queued = 0 };
          unlink();
          discard()
       :: else -> skip
       fi;
       atomic { n = 0; q = 0; t = 0 }
    :: else -> skip
    fi
}

#ifdef PARK_AWAKE
#define asleep (true)
#define still_asleep (true)
#else
#define asleep (in_call == 1)
#ifdef ASK_BEFORE_HIDING
#define still_asleep (true)
#else
#define still_asleep (in_call == 1)
#endif
#endif

inline park() {
    if
    :: parked || !asleep -> skip
    :: else ->
       self = 0;
       if
       :: still_asleep ->
          parked = 1;
          if
          :: listed -> assert(!listing); listed = 0
          :: else -> skip
          fi
       :: else -> self = 1
       fi
    fi
}

inline trim() {
    if
    :: place == CURRENT ->
       t = live;
       n = there_count;
       /* lm_page_trim's `unused`: walks the owner's list */
       atomic {
           c = head;
           do
           :: c != NIL && t > n -> c = link[c]; t--
           :: else -> break
           od;
           done = (c == NIL && t == n)
       };
       if
       :: done ->
          take_word();
          if
          :: n > 0 -> put_chain(c, n)
          :: else -> skip
          fi;
          c = head;
          if
          :: c != NIL ->
             head = NIL;
             n = (link[c] == NIL -> 1 : 2);
             put_chain(c, n)
          :: else -> skip
          fi;
          assert(live == 0);
          release()
       :: else -> skip
       fi;
       atomic { c = 0; n = 0; t = 0; done = 0 }
    :: else -> skip
    fi
}

proctype Worker() {
    byte c, n, t, passes;
    bit q, done, last;
    do
    :: passes == 4 -> break
    :: else ->
       last = for_ever && box == NIL && !other_busy; /* from here on only we act */
       atomic {
           if
           :: last -> passes++
           :: else -> skip
           fi;
           last = 0
       };
       if
       :: slow -> skip
       :: else -> /* hand_over */
          asked = 1;
          if
          :: owner_outside -> park()
          :: else -> skip
          fi;
          asked = 0
       fi;
       if
       :: slow -> skip
       :: else -> /* take_in; lm_idle_collect sweeps every eighth tick only */
          asked = 1;
          if
          :: owner_outside ->
             if
#ifndef FORGET_REST
             :: coming -> coming = 0; collect_page()
#endif
             :: notified -> notified = 0; collect_page()
             :: else -> skip
             fi;
             if
             :: parked -> trim(); sweep()
             :: else -> skip
             fi
          :: else -> skip
          fi;
          asked = 0
       fi;
       slow = 0 /* note */
    od;
    assert(released || held[1] || held[2]);
    assert(!listed)
}

init {
    atomic {
        run Owner();
        run Other();
        run Worker()
    }
}
