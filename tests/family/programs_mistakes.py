"""programs_mistakes.py: correct calls, and then one mistake that the library promises to report.

A mistake is a function that writes it, for the kinds of allocator in its line of MISTAKES; what
must be said is the last column. The allocator is checked (LOAM_CHECK; a debug library checks all),
or, where the line says "every", any; where it says "tool", not checked, and AddressSanitizer has to
report it. ENDED says which allocators report uses after their end.

Each mistake stands behind a line "planted" on standard output: a report before it is a false one,
none after it a missed one. It cannot plant two mistakes, nor one that only a crash would show.
"""

import random
import re

import programs_family as family
from programs_family import Blocks, Fifo, Pool, PoolSet, Region, Ring, SharedPool, Stack

EVERY = (Region, Pool, SharedPool, PoolSet, Fifo, Stack, Ring, Blocks)
WALKED = (Region, Pool, SharedPool, Fifo, Stack, Ring, Blocks)  # check() looks at guards and freed
# objects
ENDED = {kind: True for kind in EVERY}
SIZED = (Region, Stack, Ring)


class Mistake:
    def __init__(self, name, words, tool):
        self.name, self.words, self.tool = name, words, tool

    def judge(self, way, status, said, errors):
        """What is wrong; None: the mistake, and nothing else, was reported."""
        if "planted" not in said:
            return f"ended with {status} before its mistake"
        if self.tool and way != "asan":
            return None
        if way == "asan" and "AddressSanitizer" in errors and status != 0:
            return None
        said_so = not self.tool and re.search(f"loam: .*({self.words})", errors)
        if said_so and (status != 0 or self.words == "leak of"):
            return None
        return f"was not reported (status {status}; expected: {self.words or 'AddressSanitizer'})"


def raw_free(a, p, made):
    return {
        Region: f"loam_region_free_aligned({a.at}, {p}, {made.size}, {made.align})",
        Stack: f"loam_stack_free({a.at}, {p}, {made.size})",
            Ring: f"loam_ring_free({a.at}, {p}, {made.size})",
        Blocks: f"loam_blocks_free({a.at}, {p})",
    }.get(type(a), f"loam_{a.kind}_free({a.at}, {p})")


def victim(a, least=1, most=300):
    """An object between two others that stay. Its address is in p."""
    for _ in range(60):
        around = a.alloc()
        made = a.alloc()
        last = a.alloc()
        if around and made and last and least <= made.size <= most and made in a.freeable():
            a.emit(f"unsigned char *p = CAST(unsigned char *, object(T, {made.slot}));")
            return made
        for each in (last, made, around):
            if each and each in a.freeable():
                a.free(each)
    return None


def found(a, made=None):
    """The next thing that the program does is to be what finds it."""
    ways = [a.step_check]
    if made is not None and made in a.objects:
        ways += [lambda: a.emit(f"{raw_free(a, 'p', made)};"), lambda: a.emit(f"{end_of(a)};")]
    a.rng.choice(ways)()


def end_of(a):
    return f"loam_fifo_deinit({a.at})" if isinstance(a, Fifo) else a.end()


def forget_all(a):
    """Its objects end, and those of its children."""
    for child, _ in getattr(a, "children", ()):
        forget_all(child)
    a.forget(list(a.objects))


def planted(a):
    a.emit("seen(T);")
    a.emit("planted();")


def double_free(a):
    made = victim(a, 1, 16 if isinstance(a, PoolSet) else 300)
    if made:
        a.free(made)
        planted(a)
        a.emit(f"{raw_free(a, 'p', made)};")
    return made


def overflow(a):
    made = victim(a)
    if made:
        planted(a)
        a.emit(f"poke(p, {made.size + a.rng.choice([0, 0, 0, 1, 3, 7])});")
        found(a, made)
    return made


def underflow(a):
    made = victim(a)
    if made:
        planted(a)
        a.emit(f"poke(p, -{a.rng.choice([1, 1, 2, 8])});")
        found(a, made)
    return made


def write_after_free(a):
    made = victim(a, 16)
    if made:
        a.free(made)
        planted(a)
        a.emit(f"poke(p, {a.rng.randrange(made.size)});")
        found(a)
    return made


def interior(a):
    made = victim(a, 40)
    if made:
        planted(a)
        a.emit(f"{raw_free(a, f'p + {a.rng.choice([1, 8, 16, 32])}', made)};")
    return made


def no_object(a):
    made = victim(a)
    if made:
        a.emit("static LOAM_FAR char elsewhere[512];")
        planted(a)
        a.emit(f"{raw_free(a, 'elsewhere + 64', made)};")
    return made


def of_another(a):
    other = a.world.draw([type(a)], a.source)
    if getattr(other, "size", 1) > 2000:
        return None
    made = victim(other, 1, 16 if isinstance(a, PoolSet) else 2000)
    if made:
        planted(a)
        a.emit(f"{raw_free(a, 'p', made)};")
    return made


def wrong_size(a):
    made = victim(a, 2)
    if made:
        planted(a)
        made.size += a.rng.choice([-1, 1, 16])
        a.emit(f"{raw_free(a, 'p', made)};")
    return made


def wrong_align(a):
    made = victim(a)
    if made:
        planted(a)
        made.align = a.rng.choice([each for each in (1, 8, 16, 64) if each != made.align])
        a.emit(f"{raw_free(a, 'p', made)};")
    return made


def realloc_of_freed(a):
    made = victim(a, 1)
    if made:
        a.free(made)
        planted(a)
        size = made.size + 40
        call = (f"loam_blocks_realloc({a.at}, p, {size})" if isinstance(a, Blocks) else
                f"loam_{a.kind}_realloc({a.at}, p, {made.size}, {size})")
        a.emit(f"(void)!{call};")
    return made


def ended(a):
    made = victim(a)
    if made:
        for each in list(a.freeable()):
            if a.must_free() and each is not made:
                a.free(each)
        if a.must_free():
            a.free(made)
        forget_all(a)
        a.emit(f"{end_of(a)};")
        planted(a)
        alloc = f"loam_{a.kind}_alloc({a.at}{'' if isinstance(a, (Pool, SharedPool)) else ', 20'})"
        a.emit(a.rng.choice([f"{end_of(a)};", f"(void)!{alloc};", f"{raw_free(a, 'p', made)};"]))
    return made


def leak(a):
    made = victim(a)
    if made:
        planted(a)
        a.emit(f"{a.end()};")
    return made


def mark_ended(a):
    if len(a.levels) >= 8:
        return None
    a.emit(f"loam_region_mark m = loam_region_mark_here({a.at});")
    made = a.alloc()
    if made:
        a.levels[-1].remove(made)
        a.forget([made])
    a.emit(a.rng.choice([f"loam_region_rewind({a.at}, &m);", f"loam_region_keep({a.at}, &m);"]))
    planted(a)
    a.emit(a.rng.choice([f"loam_region_rewind({a.at}, &m);", f"loam_region_keep({a.at}, &m);"]))
    return True


def pop_wrong(a):
    a.emit(f"loam_stack_frame f = loam_stack_push({a.at}), g = loam_stack_push({a.at}); (void)g;")
    a.emit("planted();")
    a.emit(f"loam_stack_pop({a.at}, f);")
    return True


def sealed(a):
    a.emit(f"loam_stack_seal({a.at});")
    a.emit("planted();")
    a.emit(f"(void)!loam_stack_alloc({a.at}, 30);")
    return True


def rewind_ended(a):
    a.emit(f"loam_stack_frame f = loam_stack_push({a.at}); loam_stack_mark m = "
           f"loam_stack_mark_here({a.at});")
    a.emit(f"(void)!loam_stack_alloc({a.at}, 30); loam_stack_frame g = loam_stack_push({a.at}); "
           f"(void)f, (void)g;")
    a.emit("planted();")
    a.emit(f"loam_stack_rewind({a.at}, &m);")
    return True


def release_twice(a):
    a.emit(f"loam_ring_frame *f = loam_ring_open({a.at}), *g = loam_ring_open({a.at}); (void)g;")
    a.emit(f"(void)!loam_ring_alloc({a.at}, 30); loam_ring_release({a.at}, f);")
    a.emit("planted();")
    a.emit(f"loam_ring_release({a.at}, f);")
    return True


def no_frame(a):
    while a.frames:
        a.step_release()
    a.emit("planted();")
    a.emit(f"(void)!loam_ring_alloc({a.at}, 30);")
    return True


def remote(a):
    made = None if a.remote else victim(a)
    if made:
        a.emit("planted();")
        a.emit(f"loam_fifo_free_remote({a.at}, p);")
    return made


def no_allocator(a):
    made = victim(a)
    if made:
        a.emit("loam_alloc none = ALL_ZERO;")
        a.emit("planted();")
        a.emit(f"loam_alloc_free(none, p, {made.size}, {made.align});")
    return made


def touch(a, made):
    planted(a)
    at = a.rng.randrange(made.size)
    a.emit(a.rng.choice([f"poke(p, {at});",
                         f"if (((volatile unsigned char *)p)[{at}] == 77) (void)puts(\"\");"]))


def touch_freed(a):
    made = victim(a, 16)
    if made:
        a.free(made)
        touch(a, made)
    return made


def touch_past(a):
    made = victim(a)
    if made:
        planted(a)
        a.emit(f"poke(p, {made.size});")
    return made


def touch_ended(a):
    made = victim(a, 16)
    if made:
        forget_all(a)
        a.emit(f"{end_of(a)};")
        touch(a, made)
    return made


def touch_reset(a):
    made = victim(a, 16)
    if made:
        forget_all(a)
        a.emit(f"loam_{a.kind}_reset({a.at});" if not isinstance(a, Ring)
               else f"loam_ring_deinit({a.at});")
        touch(a, made)
    return made


FREED = "after its free|free already|no object"
# (name, function, allocators, "checked" | "every" | "tool", words)
MISTAKES = (
    ("double free", double_free, EVERY, "checked", FREED),
    ("overflow", overflow, WALKED, "checked", "overflow"),
    ("underflow", underflow, WALKED, "checked", "underflow"),
    ("write after free", write_after_free, WALKED, "checked", "written after"),
    ("free of a middle", interior, EVERY, "checked", "no object"),
    ("free of no object", no_object, EVERY, "checked", "no object"),
    ("free of another's object", of_another, EVERY, "checked", "belongs to|no object"),
    ("wrong size", wrong_size, SIZED, "checked", "bytes, allocated with"),
    ("wrong alignment", wrong_align, (Region,), "checked", "alignment"),
    ("realloc of a freed object", realloc_of_freed, (Region, Fifo, Stack, Ring, Blocks), "checked",
     FREED),
    ("use after the end", ended, tuple(kind for kind in EVERY if ENDED[kind]), "checked",
     "end|deinit|destroy"),
    ("leak", leak, (Pool, Blocks, PoolSet), "checked", "leak of"),
    ("mark that has ended", mark_ended, (Region,), "checked", "mark"),
    ("pop of another frame", pop_wrong, (Stack,), "every", "pop of a frame"),
    ("allocation in a sealed frame", sealed, (Stack,), "every", "sealed"),
    ("rewind to a mark of another frame", rewind_ended, (Stack,), "every", "rewind to a mark"),
    ("frame released twice", release_twice, (Ring,), "every", "release"),
    ("allocation without a frame", no_frame, (Ring,), "every", "frame"),
    ("remote free without the flag", remote, (Fifo,), "every", "LOAM_FIFO_REMOTE"),
    ("free without an allocator", no_allocator, EVERY, "every", "handle to no allocator"),
    ("touched after its free", touch_freed, WALKED, "tool", ""),
    ("touched behind its end", touch_past, (Region, Pool, Fifo, Stack, Ring, Blocks), "tool", ""),
    ("touched after the allocator's end", touch_ended, WALKED, "tool", ""),
    ("touched after a reset", touch_reset, (Region, Pool, Stack, Ring, Blocks), "tool", ""),
)


def program(rng, world_of, main, debug):
    """The text of a program with a case for each drawn mistake, and these mistakes."""
    head = ('/* mistakes */\n#include "programs.h"\n#define XALLOCATOR_NO_SHORT_NAMES\n#include '
            '<loam/xallocator.h>\n'
            "#define LOAM_FAR __attribute__((__aligned__(64)))\n")
    texts, mistakes = [], []
    rows = list(MISTAKES)
    rng.shuffle(rows)
    drawn = 0
    while len(mistakes) < len(rows) and drawn < 4 * len(rows):
        name, write, kinds, how, words = rows[drawn % len(rows)]
        drawn += 1
        key = len(mistakes)
        for _ in range(20):
            world = world_of(random.Random(rng.random()), key, {"checked": 1, "every": 0.5,
                                                                "tool": 0}[how])
            world.careful = True
            at_end = "end" in name and how == "checked"
            world.add_sources([world.rng.choice(["pages"] if at_end else ["pages", "heap",
                                                                          "count"])])
            a = world.draw([world.rng.choice(kinds)])
            other = world.draw(family.KINDS)
            world.allocators += [a] * 3
            world.steps(world.rng.randint(0, 25))
            if a.may_fail or other.may_fail or getattr(a, "levels", [0])[1:2]:
                continue
            if write(a):
                break
        else:
            continue
        texts.append("\n".join(world.declarations) + "\n" + world.cut(f"case_{key}"))
        mistakes.append(Mistake(f"{name} of {a.kind}, case {key}", words, how == "tool"))
    return head + "\n".join(texts) + main.format(cases=", ".join(f"case_{i}"
                                                                 for i in range(len(mistakes))),
                                                 count=len(mistakes)), mistakes
