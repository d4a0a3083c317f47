#!/usr/bin/env python3
"""misuse.py: makes the mistakes on a build of loam, and holds its reports against the table below.

    misuse.py --kind debug --library build/debug/libloam.so --programs build/debug/tests/misuse

For each case that the build has to catch with a message of its own, four runs:
  as it is                 exactly one line on standard error, matching the table (with the pointer
                           and the thread that the case named), the way out at its end, and death by
                           SIGABRT
  LOAM_IGNORE=kind         with the kind that the line named: as LOAM_ON_ERROR=ignore
  LOAM_ON_ERROR=ignore     the same line, then the program goes on, and its heap works to the end;
                           lines may follow it where the same damage is met again (AGAIN)
  LOAM_SHOW_ERRORS=0       no line at all, and SIGABRT
Cases that a build does not promise to catch are not run in it: what they do is undefined there.
What is stopped in any way at all is asked by expected.py. no_mistake makes no mistake and is run
everywhere. Exit: 0 all as the table says, 1 not.
"""

import argparse
import re
import sys

import judge

ANY = "0x[0-9a-f]+"  # an underflow of more than the end of the block before is seen there
# The debug build knows what was requested, and in which object a pointer lies.
CLASS = (
    r"\(size class (?P<class>\d+) B(?:, \d+ requested|, block at 0x[0-9a-f]+)?, thread {thread}\)"
)
LARGE = (
    r"\((?:size class \d+ B(?:, \d+ requested)?|large object of \d+ B at 0x[0-9a-f]+"
    r"|a large object or a whole page, if there ever was one), thread {thread}\)"
)
# What waits is looked at by whoever comes first: the worker, once nothing has joined it for 50 ms.
BY_ANY = CLASS.replace("{thread}", r"\d+")
FOREIGN = r"loam: {function} of a pointer that loam did not allocate: {pointer} \(thread {thread}\)"


def foreign(function="free"):
    return FOREIGN.replace("{function}", function)


def double_free():
    return rf"loam: double free of {{pointer}} {CLASS}"


def after_free(function):
    return rf"loam: {function} after free of {{pointer}} {CLASS}"


def misaligned(function="free", where=CLASS):
    return rf"loam: misaligned pointer {{pointer}} passed to {function} {where}"


def overflow(extra, requested, where=CLASS):
    # The secure build's canary begins where it fits: there is not always a byte of slack before it.
    what = rf"(?:{extra} byte\(s\) past {requested} requested|the end of its block is overwritten)"
    either = rf", or underflow of {ANY}: the memory between them is overwritten"
    return rf"loam: overflow of {{pointer}}(?:: {what}|{either}) {where}"


def copied(function, size, left):
    return (
        rf"loam: {function} of {size} B to {{pointer}}, which has {left} left \(thread {{thread}}\)"
    )


def end_overwritten(pointer="{pointer}", where=CLASS):
    # By whom is told if the bytes tell it, or if nothing is in use behind.
    other = (
        rf"(?:, or underflow of (?:an object at or behind )?{ANY}: the memory between them"
        r"|: the end of its block)"
    )
    return rf"loam: overflow of {pointer}{other} is overwritten {where}"


def underflow():
    return rf"loam: underflow of {{pointer}}: the bytes before it are overwritten {CLASS}"


def between(pointer="{pointer}", other="0x[0-9a-f]+"):
    return (
        rf"loam: overflow of {pointer}, or underflow of {other}: "
        rf"the memory between them is overwritten {CLASS}"
    )


def wrong_size(told, requested):
    return rf"loam: free of {{pointer}} with a size of {told} B, {requested} requested {CLASS}"


def written(count, start, where=CLASS):
    return rf"loam: write after free of {{pointer}}: {count} byte\(s\) from byte {start} on {where}"


DAMAGED = rf"loam: free list damaged at {{pointer}}: written after free {CLASS}"
AGAIN = r"loam: (?:write after free|underflow|overflow|double free|misaligned pointer) .*"
# The span is nobody's after the first free: release finds that it belongs to no object.
LARGE_TWICE = rf"(?:loam: double free of {{pointer}} {LARGE}|{foreign()})"

# What a block's free finds before it.
BEFORE = (
    rf"loam: (?:(?:overflow of {ANY}, or )?underflow of {{pointer}}(?:, or of an object behind it)"
    r"?: the (?:bytes before it are|memory between them is) overwritten|"
    rf"write after free (?:or overflow )?of {ANY}: its end is overwritten, if not by an underflow "
    rf"of {{pointer}}, or of an object behind it) {CLASS}"
)
END_WRITTEN = (
    r"loam: write after free of {pointer}: its end is overwritten, "
    rf"if not by an underflow of {ANY}, or of an object behind it {CLASS}"
)
# The secure build also sees what is no link.
WRITTEN = (
    rf"(?:{DAMAGED.replace('(?P<class>', '(?:')}"
    rf"|loam: write after free of {{pointer}}: \d+ byte\(s\) from byte \d+ on {CLASS})"
)

DEBUG = ("debug",)
SECURE = ("secure",)
CHECKED = ("debug", "secure")
ALL = ("debug", "secure", "release")

# case: (builds that must catch it, pattern of the one line on standard error)
TABLE = {
    "no_mistake/none": (ALL, None),
    "double_free/small": (CHECKED, double_free()),
    "double_free/medium": (CHECKED, double_free()),
    "double_free/large": (ALL, LARGE_TWICE),
    "double_free/interleaved_small": (CHECKED, double_free()),
    "double_free/interleaved_large": (ALL, LARGE_TWICE),
    # The page may have gone back as a whole: then it is as with large ones.
    "double_free/delayed_small": (
        CHECKED,
        rf"loam: double free of {{pointer}} (?:{CLASS}|{LARGE})",
    ),
    "double_free/delayed_large": (ALL, LARGE_TWICE),
    "double_free/reused_small": (CHECKED, double_free()),
    "double_free/reused_large": (ALL, LARGE_TWICE),
    "double_free/by_another_thread": (CHECKED, double_free()),
    "double_free/after_another_thread": (CHECKED, double_free()),
    "double_free/aligned": (CHECKED, double_free()),
    "double_free/by_realloc": (CHECKED, double_free()),
    "double_free/by_realloc_to_nothing": (CHECKED, double_free()),
    "double_free/sized": (CHECKED, double_free()),
    "invalid_free/stack": (ALL, foreign()),
    "invalid_free/alloca_block": (ALL, foreign()),
    "invalid_free/static_array": (ALL, foreign()),
    "invalid_free/mapped": (ALL, foreign()),
    "invalid_free/far_away": (ALL, foreign()),
    "invalid_free/beyond": (ALL, foreign()),
    "invalid_free/first_call": (ALL, foreign()),
    "invalid_free/low": (ALL, foreign()),
    "invalid_free/high": (ALL, foreign()),
    "invalid_free/one_byte_in": (CHECKED, misaligned()),
    "invalid_free/eight_bytes_in": (CHECKED, misaligned()),
    "invalid_free/sixteen_bytes_in": (CHECKED, misaligned()),
    "invalid_free/inside_medium": (CHECKED, misaligned()),
    "invalid_free/inside_large": (ALL, misaligned(where=LARGE)),
    # Only the first slice of a large object is known: further in, nothing is.
    "invalid_free/deep_inside_large": (ALL, rf"(?:{misaligned(where=LARGE)}|{foreign()})"),
    "invalid_free/past_the_end": (CHECKED, misaligned()),
    # Blocks of the secure build lie in no order.
    "invalid_free/before_the_start": (ALL, rf"(?:{foreign()}|{misaligned(where=CLASS)})"),
    "invalid_free/never_given": (
        CHECKED,
        rf"(?:{double_free().replace('(?P<class>', '(?:')}|{misaligned()})",
    ),
    "resizing/freed_small": (CHECKED, after_free("realloc")),
    "resizing/freed_same": (CHECKED, after_free("realloc")),
    "resizing/freed_large": (
        ALL,
        rf"(?:loam: realloc after free of {{pointer}} {LARGE}|{foreign('realloc')})",
    ),
    "resizing/foreign": (ALL, foreign("realloc")),
    "resizing/eight_bytes_in": (CHECKED, misaligned("realloc")),
    "resizing/sixteen_bytes_in": (CHECKED, misaligned("realloc")),
    "resizing/stale_write": (CHECKED, WRITTEN),
    "resizing/usable_of_freed": (CHECKED, after_free("malloc_usable_size")),
    "resizing/usable_of_foreign": (ALL, foreign("malloc_usable_size")),
    "overflow/small_by_1": (CHECKED, overflow(1, 40)),
    "overflow/small_by_8": (CHECKED, overflow(8, 40)),
    "overflow/small_by_32": (DEBUG, end_overwritten()),
    "overflow/medium_by_1": (CHECKED, overflow(1, 3000)),
    "overflow/medium_by_32": (CHECKED, overflow(32, 3000)),
    "overflow/large_by_1": (DEBUG, overflow(1, 1 << 20)),
    "overflow/large_by_1_mib": (DEBUG, end_overwritten(where=LARGE)),
    "overflow/edge_by_1": (CHECKED, overflow(1, 64)),
    "overflow/large_odd_by_1": (DEBUG, overflow(1, 100000)),
    "overflow/small_usable_by_1": (CHECKED, overflow(1, 40)),
    "overflow/small_by_zero_byte": (DEBUG, overflow(1, 40)),
    "overflow/memcpy_small_by_1": (CHECKED, overflow(1, 40)),
    "overflow/memcpy_small_by_32": (DEBUG, end_overwritten()),
    "overflow/memcpy_medium_by_8": (CHECKED, overflow(8, 3000)),
    "overflow/memset_medium_by_1": (CHECKED, overflow(1, 3000)),
    "overflow/strcpy_small_by_1": (CHECKED, overflow(1, 40)),
    "overflow/aligned_by_1": (CHECKED, overflow(1, 300)),
    "overflow/calloc_by_1": (CHECKED, overflow(1, 70)),
    "overflow/reallocated_by_1": (CHECKED, overflow(1, 90)),
    "overflow/found_by_realloc": (CHECKED, overflow(2, 40)),
    "overflow/found_by_another_thread": (CHECKED, overflow(1, 40)),
    "underflow/small_by_1": (DEBUG, underflow()),
    "underflow/small_by_8": (DEBUG, underflow()),
    "underflow/small_by_32": (DEBUG, end_overwritten(ANY)),
    "underflow/medium_by_1": (DEBUG, underflow()),
    "underflow/large_by_1": (DEBUG, between(ANY, "{pointer}")),
    "underflow/large_by_1_mib": (DEBUG, end_overwritten(ANY, LARGE)),
    "underflow/memcpy_small_by_8": (DEBUG, underflow()),
    "underflow/memcpy_medium_by_32": (DEBUG, end_overwritten(ANY)),
    "underflow/alone_by_1": (SECURE, BEFORE),
    "underflow/alone_at_9": (SECURE, BEFORE),
    "underflow/alone_at_32": (SECURE, BEFORE),
    "write_after_free/small_first_word": (CHECKED, WRITTEN),
    "write_after_free/small_second_word": (CHECKED, written(8, 8)),
    "write_after_free/small_middle": (CHECKED, written(8, 24)),
    # The secure build sees it as well when the object behind is freed.
    "write_after_free/small_last_byte": (
        CHECKED,
        rf"(?:{written(1, 47).replace('(?P<class>', '(?:')}|{END_WRITTEN})",
    ),
    "write_after_free/medium_last_byte": (CHECKED, written(1, 2999)),
    "write_after_free/large_first_word": (DEBUG, written(8, 0, BY_ANY)),
    "write_after_free/large_middle": (DEBUG, written(8, 1 << 19, BY_ANY)),
    "write_after_free/small_whole": (CHECKED, WRITTEN),
    "write_after_free/medium_first_word": (CHECKED, WRITTEN),
    "write_after_free/by_another_thread": (CHECKED, WRITTEN),
    "zero_size/write": (DEBUG, overflow(1, 0)),  # the secure build has no memory there
    "zero_size/write_32": (DEBUG, end_overwritten()),
    "zero_size/calloc_write": (DEBUG, overflow(1, 0)),
    "sizes/counted_array_by_delete": (CHECKED, misaligned()),
    "sizes/deleted_twice": (CHECKED, double_free()),
    "sizes/array_by_delete": (CHECKED, wrong_size(8, 80)),
    "sizes/derived_by_base": (CHECKED, wrong_size(16, 496)),
    "sizes/malloc_by_delete": (CHECKED, wrong_size(8, 200)),
    "sizes/medium_size": (CHECKED, wrong_size(1000, 3000)),
    "sizes/large_size": (DEBUG, wrong_size(2 << 20, 1 << 20)),
    "sizes/aligned_by_plain": (CHECKED, wrong_size(8, 256)),
    "sizes/aligned_size": (CHECKED, wrong_size(4096, 256)),
    "sizes/plain_by_aligned": (
        DEBUG,
        rf"loam: free of {{pointer}} as one aligned to 4096 B, which it is not {CLASS}",
    ),
    "sizes/free_sized_small": (CHECKED, wrong_size(8, 200)),
    "metadata/large_down_8_kib": (DEBUG, between(ANY, "{pointer}")),
    "forged/link": (DEBUG, DAMAGED),
    "forged/masked_link": (DEBUG, DAMAGED),
    "forged/medium_links": (DEBUG, DAMAGED),
    "forged/key": (CHECKED, double_free()),
    "forged/header": (ALL, foreign()),
}

WAY_OUT = re.compile(r"(.*); LOAM_IGNORE=([a-z+-]+) goes on")
NAMED = re.compile(r"^pointer (0x[0-9a-f]+) thread (\d+)$", re.MULTILINE)


# Cases whose damage is met again as another kind of mistake, or which are of one kind or the other
# by chance.
LATER = {
    "underflow/alone_by_1": "underflow+overflow+double-free+use-after-free",
    "forged/key": "double-free+use-after-free",
    "invalid_free/never_given": "double-free+misaligned",
}

# The secure build stops copies at the call.
AT_THE_CALL = {
    "overflow/memcpy_small_by_1": copied("memcpy", 41, 40),
    "overflow/memcpy_small_by_32": copied("memcpy", 72, 40),
    "overflow/memcpy_medium_by_8": copied("memcpy", 3008, 3000),
    "overflow/memset_medium_by_1": copied("memset", 3001, 3000),
    "overflow/strcpy_small_by_1": copied("strcpy", 41, 40),
}

GONE_ON = (
    "exit 42",
    "exit 0",
)  # how a case ends that nobody stops: it survived, or the effect was prevented


def wrong_line(run, pattern, again=False, ends=False):
    """What is wrong with standard error, or None.

    again: whether the damage may be met once more; ends: whether the program ends, so that the line
    names the way out.
    """
    named = NAMED.search(run.stdout)
    if named is None:
        return "the program did not come as far as its mistake"
    first, *more = run.stderr.split("\n")
    way_out = WAY_OUT.fullmatch(first)
    if ends != bool(way_out):
        return f"line {first!r} {'lacks' if ends else 'has'} the way out"
    first = way_out.group(1) if ends else first
    if (
        not more
        or more.pop() != ""
        or not all(again and re.fullmatch(AGAIN, line) for line in more)
    ):
        return f"not exactly one line: {run.stderr[:300]!r}"
    expected = pattern.replace("{pointer}", named.group(1)).replace("{thread}", named.group(2))
    match = re.fullmatch(expected, first)
    if match is None:
        return f"line {first!r} is not {expected}"
    size_class = match.groupdict().get("class")
    requested = re.search(r"past (\d+) requested", run.stderr)
    if size_class and requested and int(size_class) < int(requested.group(1)):
        return f"size class smaller than what was requested: {run.stderr!r}"
    return None


def check(case, library, pattern, kind):
    """Yields what is not as the table says."""

    def run(**options):
        return judge.run(case, judge.environment(library, options.items()), timeout=60)

    if pattern is None:
        plain = run()
        if plain.ending != "exit 42" or plain.stderr:
            yield f"no mistake, but {plain.ending}, {plain.stderr[:300]!r}"
        return

    plain = run()
    problem = wrong_line(plain, pattern, ends=True)
    if problem:
        yield problem
        return
    if plain.ending != "SIGABRT":
        yield f"ended by {plain.ending}, not SIGABRT"

    word = WAY_OUT.fullmatch(plain.stderr.split("\n")[0]).group(2)
    for name, value in (("LOAM_ON_ERROR", "ignore"), ("LOAM_IGNORE", LATER.get(case.id, word))):
        ignored = run(**{name: value})
        problem = wrong_line(ignored, pattern, again=kind != "release")
        if problem:
            yield f"with {name}={value}: {problem}"
        if ignored.ending not in GONE_ON:
            yield f"with {name}={value}: {ignored.ending}, not one of {GONE_ON}"

    silent = run(LOAM_SHOW_ERRORS="0")
    if silent.stderr:
        yield f"with LOAM_SHOW_ERRORS=0: {silent.stderr[:300]!r}"
    if silent.ending != "SIGABRT":
        yield f"with LOAM_SHOW_ERRORS=0: ended by {silent.ending}, not SIGABRT"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kind", required=True, choices=ALL)
    parser.add_argument("--library", required=True, help="the libloam.so of that build")
    parser.add_argument("--programs", required=True, help="the folder of the built programs")
    args = parser.parse_args()

    cases = {case.id: case for case in judge.listed(args.programs)}
    if unknown := sorted(set(TABLE) - set(cases)):
        print(f"misuse: the table has cases that no program has: {unknown}")
        return 1

    failed = ran = 0
    for name, (kinds, pattern) in TABLE.items():
        at_the_call = args.kind == "secure" and name in AT_THE_CALL
        if args.kind not in kinds and not at_the_call:
            continue
        pattern = AT_THE_CALL[name] if at_the_call else pattern
        ran += 1
        problems = list(check(cases[name], args.library, pattern, args.kind))
        print(f"{name:<36} {'as expected' if not problems else 'WRONG'}")
        for problem in problems:
            print(f"    {problem}")
        failed += bool(problems)
    print(f"\n{ran} cases run in the {args.kind} build, {failed} wrong")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
