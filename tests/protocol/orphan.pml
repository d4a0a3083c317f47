/* orphan.pml: a page whose thread ends, and who gets it (src/heap/orphan.c, thread.c).
 *
 * Two threads with heaps, which may end; the first one's heap may then be the next thread's; a
 * third thread without a heap; one page of four blocks, owned by the first thread, of which one is
 * free and each thread has one in use. Checked in every order of steps: the page has one owner or
 * is an orphan; only the owner frees without a lock; nobody touches it after its release; it is on
 * one stack at most, that of the heap that has it; all its blocks come back, and it is released.
 *
 *   here             in src/heap
 *   push             lm_remote_push, notify (remote.c)
 *   send             lm_foreign_send, put_own (remote.c), of a list of one block; heap lock held
 *   hand_over        hand_over (remote.c), where the transfer cache does not take the list
 *   drain            lm_remote_drain (remote.c), by the owner, or by the worker for an ended heap
 *   local_free       lm_block_free (heap.h) with lm_page_event (page.c)
 *   end              heap_ended, part_with_all, part_with (thread.c)
 *   keep, unkeep     the same, lm_heap_unkeep (thread.c): the page stays with the heap, for a while
 *   begin            heap_start, take_over (thread.c): the next thread takes the heap
 *   malloc           refill (refill.c): a block of a page of ours, of the list, or of an orphan
 *   orphan_add, orphan_adopt, orphan_free    the same in orphan.c
 *
 * The word `remote` is a count and two flags that change together; chains are counted, not linked
 * (remote.pml has the links). Left out: the worker in a living thread's heap, and page->bias
 * (idle.pml); fork; what happens to other pages. A thread mallocs once while it lives, which bounds
 * the search.
 *
 * mutation ADD_WITHOUT_COMPARE: a page becomes an orphan although somebody has pushed meanwhile
 * mutation HEAP_AFTER_WORD: the new owner takes the mark away before it has written page->heap
 * mutation ADOPT_WITHOUT_LOCK: who frees a block of an orphan does not look again under the lock
 * mutation UNKEEP_WITHOUT_LOCK: the worker takes a kept page back while the next thread takes it
 *          over
 * mutation KEEP_OWNER: an orphan's owner word still names the thread that has gone
 */
#define CAPACITY 4
#define NOBODY 0

mtype = {NOWHERE, CURRENT, PARTIAL, ORPHANS};

/* The page, and its word `remote`. */
byte count;
bit queued, orphan;
byte owner = 1, heap_of = 1, live = 3, free_count = 1;
bit released;
mtype place = PARTIAL;
byte list_of = 1; /* the heap whose list it is in, for the assertions */

bit notified[3], heap_lock[3], kept[3], orphan_lock;

#define touch() assert(!released)
#define take_lock(l) atomic { l == 0 -> l = 1 }
#define give_lock(l) l = 0

inline discard() {
    atomic {
        touch();
        assert(live == 0 && free_count == CAPACITY && count == 0 && !queued && !orphan);
        assert(!notified[1] && !notified[2] && place == NOWHERE);
        owner = NOBODY;
        released = 1
    }
}

inline unlink() { atomic { touch(); place = NOWHERE; list_of = 0 } }
inline to_partial(h) { atomic { touch(); place = PARTIAL; list_of = h } }

inline put(n) {
    atomic { touch(); free_count = free_count + n; assert(live >= n); live = live - n }
}

inline release(h) { /* lm_page_release */
    if
    :: queued ->
       if
       :: place != PARTIAL -> to_partial(h)
       :: else -> skip
       fi
    :: else -> unlink(); discard()
    fi
}

/* ---- orphan.c ---- */

inline orphan_add(h) {
    take_lock(orphan_lock);
#ifndef KEEP_OWNER
    owner = NOBODY;
#endif
    atomic {
        touch();
        if
#ifdef ADD_WITHOUT_COMPARE
        :: true ->
#else
        :: count == 0 && !queued && !orphan ->
#endif
           count = 0;
           queued = 0;
           orphan = 1;
           ok = 1
#ifndef ADD_WITHOUT_COMPARE
        :: else -> ok = 0
#endif
        fi
    };
    if
    :: ok && free_count > 0 -> place = ORPHANS
    :: else -> skip
    fi;
    give_lock(orphan_lock);
    if
    :: ok -> skip
    :: else -> to_partial(h)
    fi
}

inline become_owner(h) {
    unlink();
#ifdef HEAP_AFTER_WORD
    owner = h;
    orphan = 0;
    heap_of = h
#else
    heap_of = h;
    owner = h;
    atomic { assert(count == 0 && !queued); orphan = 0 }
#endif
}

inline orphan_adopt(h) {
    take_lock(orphan_lock);
    if
    :: place == ORPHANS -> become_owner(h); ok = 1
    :: else -> ok = 0
    fi;
    give_lock(orphan_lock)
}

#ifdef ADOPT_WITHOUT_LOCK
#define still_orphan (true)
#else
#define still_orphan (orphan == 1)
#endif

inline orphan_free(h) {
    if
    :: h != NOBODY -> take_lock(heap_lock[h])
    :: else -> skip
    fi;
    take_lock(orphan_lock);
    touch();
    ok = still_orphan;
    emptied = 0;
    if
    :: ok ->
       put(1);
       if
       :: live == 0 ->
          emptied = 1;
          unlink();
          orphan = 0
       :: live != 0 && h != NOBODY -> become_owner(h)
       :: else ->
          if
          :: place != ORPHANS && free_count > 0 -> place = ORPHANS
          :: else -> skip
          fi
       fi
    :: else -> skip
    fi;
    give_lock(orphan_lock);
    if
    :: emptied -> discard()
    :: else -> skip
    fi;
    if
    :: h != NOBODY ->
       if
       :: ok && !emptied -> to_partial(h)
       :: else -> skip
       fi;
       give_lock(heap_lock[h])
    :: else -> skip
    fi
}

/* ---- remote.c ---- */

inline push(h) {
    ok = 0;
    do
    :: ok -> break
    :: else ->
       atomic { touch(); n = count; q = queued; o = orphan };
       if
       :: o ->
          orphan_free(h);
          q = 1 /* then there is nobody to tell */
       :: else ->
          atomic {
              touch();
              if
              :: count == n && queued == q && orphan == o -> count = n + 1; queued = 1; ok = 1
              :: else -> ok = 0
              fi
          }
       fi
    od;
    if
    :: !q ->
       atomic { touch(); to = heap_of };
       atomic { touch(); assert(!notified[to]); notified[to] = 1; to = 0 }
    :: else -> skip
    fi;
    atomic { n = 0; q = 0; o = 0; ok = 0; emptied = 0 }
}

/* Heap lock held. */
inline drain(h) {
    if
    :: notified[h] ->
       notified[h] = 0;
       atomic {
           touch();
           assert(heap_of == h && !orphan && queued);
           n = count; count = 0; queued = 0
       };
       put(n);
       if
       :: place == PARTIAL && live == 0 -> release(h)
       :: place == PARTIAL && live != 0 && !alive -> unlink(); orphan_add(h)
       :: else -> skip
       fi;
       atomic { n = 0; ok = 0 }
    :: else -> skip
    fi
}

/* The page may have become ours meanwhile. */
inline send(h) {
    listed = 0;
    if
    :: owner == h ->
       put(1);
       if
       :: live == 0 && place == PARTIAL -> release(h)
       :: else -> skip
       fi
    :: else -> push(NOBODY)
    fi
}

inline hand_over(h) {
    take_lock(heap_lock[h]);
    send(h);
    give_lock(heap_lock[h])
}

/* ---- Threads ---- */

inline local_free(h) {
    atomic { touch(); assert(heap_of == h && list_of == h && !orphan); free_count++ };
    n = live;
    atomic { touch(); assert(n == live); live = n - 1; n = n - 1 };
    if
    :: n == 0 ->
       take_lock(heap_lock[h]);
       if
       :: owner == h && place == PARTIAL -> release(h)
       :: else -> skip
       fi;
       give_lock(heap_lock[h])
    :: else -> skip
    fi;
    n = 0
}

inline thread_free(h) {
    held--;
    touch();
    if
    :: owner == h -> local_free(h)
    :: else ->
       if
       :: owner == NOBODY -> push(h)
       :: else ->
          if
          :: listed -> hand_over(h)
          :: else -> skip
          fi;
          listed = 1
       fi
    fi
}

inline part_with(h) {
    atomic { touch(); n = count; count = 0 }; /* lm_remote_take */
    unlink();
    put(n);
    n = 0;
    if
    :: live == 0 -> release(h)
    :: else -> orphan_add(h)
    fi;
    if
    :: !released && list_of == h -> owner = NOBODY
    :: else -> skip
    fi
}

#ifdef UNKEEP_WITHOUT_LOCK
#define worker_takes_lock(l) skip
#define worker_gives_lock(l) skip
#else
#define worker_takes_lock(l) take_lock(l)
#define worker_gives_lock(l) give_lock(l)
#endif

inline unkeep(h) {
    worker_takes_lock(heap_lock[h]);
    if
    :: kept[h] ->
       drain(h);
       part_with(h);
       kept[h] = 0
    :: else -> skip
    fi;
    ok = 0;
    worker_gives_lock(heap_lock[h])
}

inline end(h) {
    take_lock(heap_lock[h]);
    if
    :: listed -> send(h)
    :: else -> skip
    fi;
    alive = 0;
    drain(h);
    if
    :: list_of == h -> part_with(h)
    :: list_of == h && may_keep -> /* keep */
       may_keep = 0;
       atomic { touch(); place = CURRENT; owner = NOBODY };
       kept[h] = 1
    :: else -> skip
    fi;
    ok = 0;
    give_lock(heap_lock[h])
}

/* A block of a page of ours, or of an orphan, if there is one. */
inline malloc(h) {
    take_lock(heap_lock[h]);
    drain(h);
    if
    :: !released && list_of == h && free_count > 0 -> /* take_own */
       owner = h; /* it may be left over from the heap's last thread */
       ok = 1
    :: !(!released && list_of == h && free_count > 0) && listed -> /* lm_foreign_take */
       listed = 0;
       held++
    :: else ->
       orphan_adopt(h);
       if
       :: ok -> to_partial(h)
       :: else -> skip
       fi
    fi;
    if
    :: ok -> atomic { touch(); assert(free_count > 0 && owner == h); free_count--; live++; held++ }
    :: else -> skip
    fi;
    ok = 0;
    give_lock(heap_lock[h])
}

proctype Thread(byte h; byte lives) {
    byte held = 1, n, to;
    /* One thread that may keep its heap is enough, and bounds the search. */
    bit alive = 1, listed, q, o, ok, emptied, may_malloc = 1, may_keep = (h == 1);
    do
    :: released && held == 0 && !listed -> break
    :: held > 0 && alive -> thread_free(h)
    :: held > 0 && !alive -> held--; push(NOBODY)
    :: listed && alive -> hand_over(h)
    :: alive && may_malloc -> may_malloc = 0; malloc(h)
    :: alive && notified[h] -> take_lock(heap_lock[h]); drain(h); give_lock(heap_lock[h])
    :: alive && !released && lives > 0 -> lives--; end(h)
    :: !alive && notified[h] -> /* by the worker */
       take_lock(heap_lock[h]);
       drain(h);
       give_lock(heap_lock[h])
    :: !alive && !released && lives > 0 -> /* begin */
       take_lock(heap_lock[h]);
       drain(h);
       if
       :: kept[h] ->
          owner = h;
          kept[h] = 0
       :: else -> skip
       fi;
       alive = 1;
       give_lock(heap_lock[h])
    :: alive && place == CURRENT && list_of == h -> /* another page becomes the current one */
       take_lock(heap_lock[h]);
       if
       :: live == 0 && place == CURRENT -> release(h)
       :: live != 0 && place == CURRENT -> to_partial(h)
       :: else -> skip
       fi;
       give_lock(heap_lock[h])
    od
}

proctype Worker() {
    byte n, to;
    bit alive, ok;
    do
    :: kept[1] -> unkeep(1)
    :: released -> break
    od
}

proctype Bare() {
    byte n, to;
    bit q, o, ok, emptied;
    push(NOBODY)
}

init {
    atomic {
        run Thread(1, 2);
        run Thread(2, 1);
        run Bare();
        run Worker()
    }
}
