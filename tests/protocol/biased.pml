/* biased.pml: the lock that its owner takes by a plain store (lm_biased_t in src/os/os.h,
 * os/thread.c).
 *
 * The owner enters and leaves, writing while inside; the worker, twice, and a fork come as others,
 * under the registry's lock; one thread forbids the barrier meanwhile, or the system refuses it.
 * Checked in every order of steps: the owner is never inside together with another; who comes
 * inside sees what the last one wrote there; nobody waits for ever.
 *
 * spin's memory is sequentially consistent, so the owner's plain stores go to two buffers first,
 * `inside` and `data`. Memory takes from them when it likes, in any order between the two, but a
 * release store of `inside` not before the data written earlier. The barrier empties both; so does
 * the owner's exchange.
 *
 *   here              in src
 *   enter, contended  lm_biased_enter (os/os.h), lm_biased_enter_contended (os/thread.c)
 *   leave             lm_biased_leave
 *   settle, let       lm_biased_settle, lm_biased_let
 *   Visit             visit_each (heap/idle.c): passes by where the owner is inside
 *   Stop              before_fork (heap/fork.c): waits for the owner, lm_biased_wait
 *   Forbid            lm_biased_forbid
 *   barrier           membarrier, or that the system refuses it and 4 ms pass: then what was stored
 *                     before has reached memory. No architecture promises that, all do it a
 *                     thousand times faster.
 *
 * Left out: loads that come early (on either side of a barrier the processor has them in order, and
 * an acquire load is not passed by what follows), several locks at once, the forking thread's own
 * way through, and the time before the start, when owners are fenced and others do not exist.
 *
 * mutation NO_BARRIER, by breadth: others look without a barrier
 * mutation BARRIER_FIRST, by breadth: the barrier comes before others ask
 * mutation TRUST_REFUSED, by breadth: nobody waits where the system refuses the barrier
 * mutation FENCED_FIRST, by breadth: the owner looks whether there are barriers before it says that
 *          it is inside
 * mutation FORBID_SILENT, by breadth: barriers end without a last one
 * mutation LEAVE_RELAXED: leaving may be seen before what was written inside
 * mutation ENTER_ONCE: an owner who waited does not look again whether somebody asks
 * mutation STAY_INSIDE: an owner who waits does not leave first
 * mutation LET_SILENT: nobody wakes the owner who waits
 */
#define TIMES 3 /* that the owner enters */
#define ROOM 4

/* Memory. */
bit inside, fenced, works = 1, registry;
byte asked, data;

/* The owner's buffers: stores of `inside`, each with how many of `data` come before it; stores of
 * `data`. */
bit store[ROOM];
byte after[ROOM], write[ROOM];
byte stores, writes, written, issued;

bit owner_in, other_in, refused, asleep;
byte turns; /* what `data` is for who sees everything: it counts who has been inside */

inline flush_store() {
    d_step {
        inside = store[0];
        store[0] = store[1]; store[1] = store[2]; store[2] = store[3]; store[3] = 0;
        after[0] = after[1]; after[1] = after[2]; after[2] = after[3]; after[3] = 0;
        stores--
    }
}

inline flush_write() {
    d_step {
        data = write[0];
        write[0] = write[1]; write[1] = write[2]; write[2] = write[3]; write[3] = 0;
        writes--;
        written++
    }
}

#ifdef LEAVE_RELAXED
#define store_ready (stores > 0)
#else
#define store_ready (stores > 0 && (store[0] == 1 || after[0] <= written))
#endif

active proctype Memory() {
end:
    do
    :: atomic { store_ready -> flush_store() }
    :: atomic { writes > 0 -> flush_write() }
    od
}

/* All at once: what lies in between is memory as others might have seen it without a barrier. */
inline barrier() {
    atomic {
        if
        :: !refused ->
           do
           :: writes > 0 -> flush_write()
           :: writes == 0 && stores > 0 -> flush_store()
           :: else -> break
           od
        :: true -> refused = 1
        fi
    }
}

/* ---- The owner ---- */

inline put_store(v) {
    atomic {
        stores < ROOM;
        store[stores] = v;
        after[stores] = issued;
        stores++
    }
}

inline exchange_inside() {
    atomic { stores == 0 && writes == 0 -> inside = 1 }
}

inline look_asked() {
    atomic {
        a = asked;
        if
        :: a == 0 -> assert(!other_in); owner_in = 1
        :: else -> skip
        fi
    }
}

inline contended() {
    do
    :: a == 0 -> break
    :: else ->
#ifndef STAY_INSIDE
       put_store(0);
#endif
       do
       :: atomic { asked == 0 -> break }
       :: atomic { asked != 0 -> asked = 2 };
          atomic { asked == 2 -> asleep = 1 } unless { asked != 2 }; /* the kernel looks again */
          asleep == 0
       od;
       exchange_inside();
#ifdef ENTER_ONCE
       atomic { a = 0; assert(!other_in); owner_in = 1 }
#else
       look_asked()
#endif
    od
}

inline enter() {
#ifdef FENCED_FIRST
    a = fenced;
    put_store(1);
#else
    put_store(1);
    a = fenced;
#endif
    if
    :: a -> exchange_inside()
    :: else -> skip
    fi;
    look_asked();
    contended()
}

active proctype Owner() {
    byte a, times;
    do
    :: times == TIMES -> break
    :: else ->
       times++;
       enter();
       /* What it reads: its own last write, if that is on its way still. */
       assert((writes > 0 -> write[writes - 1] : data) == turns);
       atomic {
           turns++;
           write[writes] = turns;
           writes++;
           issued++
       };
       atomic { owner_in = 0; put_store(0) }
    od
}

/* ---- Others ---- */

inline settle() {
    if
    :: works ->
       barrier();
       if
       :: refused ->
          fenced = 1;
#ifndef TRUST_REFUSED
          stores == 0 && writes == 0; /* time */
#endif
          works = 0
       :: else -> skip
       fi
    :: else -> skip
    fi
}

inline ask_and_settle() {
    atomic { registry == 0 -> registry = 1 };
#ifdef BARRIER_FIRST
    settle();
    asked = 1
#else
    asked = 1;
#ifndef NO_BARRIER
    settle()
#else
    skip
#endif
#endif
}

inline be_inside() {
    atomic { assert(!owner_in); assert(data == turns); other_in = 1 };
    atomic { turns++; data = turns };
    other_in = 0
}

inline let() {
    atomic { was = asked; asked = 0 };
#ifndef LET_SILENT
    if
    :: was == 2 -> asleep = 0
    :: else -> skip
    fi;
#endif
    registry = 0
}

active proctype Visit() {
    byte was, times;
    do
    :: times == 2 -> break
    :: else ->
       times++;
       ask_and_settle();
       if
       :: inside == 0 -> be_inside()
       :: inside != 0 -> skip
       fi;
       let()
    od
}

active proctype Stop() {
    byte was;
    ask_and_settle();
    inside == 0;
    be_inside();
    let()
}

active proctype Forbid() {
    fenced = 1;
#ifndef FORBID_SILENT
    if
    :: works ->
       barrier();
       if
       :: refused -> stores == 0 && writes == 0
       :: else -> skip
       fi
    :: else -> skip
    fi;
#endif
    works = 0
}
