/* remote.pml: blocks that two threads free on pages of a third (src/heap/remote.c).
 *
 * Two pages, one owner, two pushers. Checked in every order of steps: no page is touched after its
 * release, a released page has each of its blocks exactly once on its list, and both pages are
 * released in the end, so that no block and no notice gets lost.
 *
 *   here             in src/heap
 *   push             lm_remote_push (remote.c): links the chain, compare-and-swap on page->remote
 *   notify           notify (remote.c): page->notified, compare-and-swap on heap->notified
 *   drain_some       lm_remote_drain_some (remote.c), of an active heap, pages in `partial`;
 *                    lm_remote_drain does the same until nothing is left
 *   take             lm_remote_take (remote.c) as lm_page_trim and look_at (refill.c) use it: the
 *                    flag stays
 *   Owner's free     lm_block_free (heap.h) with lm_page_event (page.c)
 *   release          lm_page_release (page.c)
 *
 * Left out: orphans (orphan.pml), the worker and page->bias (idle.pml), how blocks come to be a
 * chain (transfer.pml has the lists that are sorted into chains). Nothing is allocated again, a
 * page is in no list but `partial`, `pending` does not exist.
 *
 * mutation RELEASE_QUEUED: a page is released although a pusher is about to tell its heap of it
 * mutation LINK_AFTER_FLAG: the drain reads page->notified after it has cleared the flag
 * mutation OVERWRITE_REST: a stack is taken although there is a rest of the last one
 * mutation NO_COMPARE: a push overwrites the word whatever it has become since it was read
 */
#define NIL 0
#define PAGES 2

typedef page_t {
    byte head, tail, count; /* the word `remote`: the three and the flag change together */
    bit queued;
    byte notified; /* next page on the stack, + 1 */
    byte live, free, capacity;
    bit released;
};

page_t page[PAGES];
byte link[8];  /* of block 1 to 7 */
byte notified; /* the heap's stack: page + 1 */
byte coming;   /* what is left of the last one: the owner's */

#define touch(p) assert(!page[p].released)

inline read_word(p) {
    head = page[p].head;
    tail = page[p].tail;
    count = page[p].count;
    queued = page[p].queued
}

inline notify(p) {
    touch(p);
    top = notified;
    do
    :: atomic { touch(p); page[p].notified = top };
       atomic {
           if
           :: notified == top -> notified = p + 1; done = true
           :: else -> top = notified; done = false
           fi
       };
       if
       :: done -> break
       :: else -> skip
       fi
    od
}

inline push(p, first, last, n) {
    atomic { touch(p); read_word(p) };
    do
    :: atomic { touch(p); link[last] = (count > 0 -> head : NIL) };
       atomic {
           touch(p);
           if
#ifdef NO_COMPARE
           :: true ->
#else
           :: page[p].head == head && page[p].tail == tail && page[p].count == count &&
              page[p].queued == queued ->
#endif
              page[p].head = first;
              page[p].tail = (count > 0 -> tail : last);
              page[p].count = count + n;
              page[p].queued = 1;
              done = true
#ifndef NO_COMPARE
           :: else -> read_word(p); done = false
#endif
           fi
       };
       if
       :: done -> break
       :: else -> skip
       fi
    od;
    if
    :: !queued -> notify(p)
    :: else -> skip
    fi
}

proctype Pusher(bit which) {
    byte head, tail, count, top;
    bit queued;
    bool done;
    if
    :: which == 0 ->
       push(0, 1, 2, 2);
       push(1, 6, 6, 1)
    :: else ->
       push(0, 3, 3, 1);
       push(1, 7, 7, 1);
       push(0, 4, 4, 1)
    fi
}

inline put(p, first, last, n) {
    d_step {
        link[last] = page[p].free;
        page[p].free = first;
        page[p].live = page[p].live - n
    }
}

inline release(p) {
    touch(p);
    assert(page[p].live == 0);
    if
#ifndef RELEASE_QUEUED
    :: page[p].queued -> skip /* it stays until the notice has arrived */
#endif
    :: else ->
       atomic {
           b = page[p].free;
           n = 0;
           do
           :: b != NIL && n <= page[p].capacity -> n++; b = link[b]
           :: else -> break
           od;
           assert(n == page[p].capacity);
           page[p].released = 1;
           b = 0;
           n = 0
       }
    fi
}

inline release_if_empty(p) {
    if
    :: page[p].live == 0 -> release(p)
    :: else -> skip
    fi
}

inline drain_some() {
    if
#ifdef OVERWRITE_REST
    :: notified != NIL -> d_step { coming = notified; notified = NIL }
#else
    :: coming == NIL && notified != NIL -> d_step { coming = notified; notified = NIL }
#endif
    :: coming != NIL ->
       q = coming - 1;
       touch(q);
#ifndef LINK_AFTER_FLAG
       coming = page[q].notified;
#endif
       d_step {
           read_word(q);
           page[q].head = 0;
           page[q].tail = 0;
           page[q].count = 0;
           page[q].queued = 0
       };
#ifdef LINK_AFTER_FLAG
       coming = page[q].notified;
#endif
       if
       :: count > 0 -> put(q, head, tail, count)
       :: else -> skip
       fi;
       release_if_empty(q)
    :: else -> skip
    fi;
    atomic { q = 0; head = 0; tail = 0; count = 0; queued = 0 }
}

inline take(p) {
    d_step {
        touch(p);
        read_word(p);
        page[p].head = 0;
        page[p].tail = 0;
        page[p].count = 0
    };
    put(p, head, tail, count);
    release_if_empty(p);
    d_step { head = 0; tail = 0; count = 0; queued = 0 }
}

proctype Owner() {
    byte head, tail, count, q, b, n;
    bit queued;
    bool mine = true; /* block 5 is still in use */
    do
    :: page[0].released && page[1].released -> break
    :: notified != NIL || coming != NIL -> drain_some()
    :: !page[0].released && page[0].count > 0 -> take(0)
    :: !page[1].released && page[1].count > 0 -> take(1)
    :: mine ->
       mine = false;
       put(0, 5, 5, 1);
       release_if_empty(0)
    od
}

init {
    atomic {
        page[0].live = 5;
        page[0].capacity = 5;
        page[1].live = 2;
        page[1].capacity = 2;
        link[1] = 2;
        run Owner();
        run Pusher(0);
        run Pusher(1)
    }
}
