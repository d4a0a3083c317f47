#!/usr/bin/env python3
"""misuse.py: runs the one-mistake programs and holds their reports against the table below.

    misuse.py --kind debug --programs build/debug/tests/misuse

For each program that the build has to catch, three runs:
  as it is                 exactly one line on standard error, matching the table (with the pointer and
                           the thread that the program named), and death by SIGABRT
  LOAM_ON_ERROR=ignore     the same line, then the program goes on, its heap works, and it exits 0
  LOAM_SHOW_ERRORS=0       no line at all, and SIGABRT
Programs that a build does not promise to catch are not run in it: what they do is undefined there.
no_mistake.c makes no mistake and is run everywhere. Exit: 0 all as the table says, 1 not.
"""

import argparse
import os
import re
import resource
import signal
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))

CLASS = r"\(size class (?P<class>\d+) B, thread {thread}\)"
LARGE = r"\((?:size class \d+ B|large object of \d+ B at 0x[0-9a-f]+|a large object or a whole page), thread {thread}\)"
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
    return rf"loam: overflow of {{pointer}}: {extra} byte\(s\) past {requested} requested {where}"


DEBUG = ("debug",)
CHECKED = ("debug", "secure")
ALL = ("debug", "secure", "release")

# program: (builds that must catch it, pattern of the one line on standard error)
TABLE = {
    "no_mistake": (ALL, None),
    "double_free_small": (CHECKED, double_free()),
    "double_free_medium": (CHECKED, double_free()),
    "double_free_interleaved": (CHECKED, double_free()),
    "double_free_sized": (CHECKED, double_free()),
    "double_free_remote": (DEBUG, double_free()),
    "double_free_elsewhere": (DEBUG, double_free()),
    # The span is nobody's after the first free: release finds that it belongs to no object.
    "double_free_large": (ALL, rf"(?:loam: double free of {{pointer}} {LARGE}|{foreign()})"),
    "foreign_stack": (ALL, foreign()),
    "foreign_static": (ALL, foreign()),
    "foreign_mmap": (ALL, foreign()),
    "foreign_far": (ALL, foreign()),
    "foreign_first": (ALL, foreign()),
    "foreign_low": (ALL, foreign()),
    "foreign_high": (ALL, foreign()),
    "foreign_beyond": (ALL, foreign()),
    "realloc_foreign": (ALL, foreign("realloc")),
    "usable_size_foreign": (ALL, foreign("malloc_usable_size")),
    "realloc_freed": (DEBUG, after_free("realloc")),
    "usable_size_freed": (DEBUG, after_free("malloc_usable_size")),
    "misaligned_small": (CHECKED, misaligned()),
    "misaligned_inside": (CHECKED, misaligned()),
    "misaligned_medium": (CHECKED, misaligned()),
    "misaligned_realloc": (CHECKED, misaligned("realloc")),
    "misaligned_large": (ALL, misaligned(where=LARGE)),
    # Only the first slice of a large object is known: further in, nothing is.
    "misaligned_large_deep": (ALL, rf"(?:{misaligned(where=LARGE)}|{foreign()})"),
    "overflow_by_1": (DEBUG, overflow(1, 40)),
    "overflow_by_8": (DEBUG, overflow(8, 40)),
    "overflow_of_nothing": (DEBUG, overflow(1, 0)),
    "overflow_on_edge": (DEBUG, overflow(1, 64)),
    "overflow_medium": (DEBUG, overflow(3, 3000)),
    "overflow_large": (DEBUG, overflow(1, 100000)),
    "overflow_whole_pages": (DEBUG, overflow(1, 1 << 20)),
    "overflow_calloc": (DEBUG, overflow(1, 70)),
    "overflow_aligned": (DEBUG, overflow(1, 300)),
    "overflow_reallocated": (DEBUG, overflow(1, 90)),
    "overflow_before_realloc": (DEBUG, overflow(2, 40)),
    "overflow_remote": (DEBUG, overflow(1, 40)),
    "overflow_long": (
        DEBUG,
        rf"loam: overflow of {{pointer}}: the end of its block is overwritten {CLASS}",
    ),
    "write_after_free": (
        CHECKED,
        rf"loam: free list damaged at {{pointer}}: written after free {CLASS}",
    ),
}

NAMED = re.compile(r"^pointer (0x[0-9a-f]+) thread (\d+)$", re.MULTILINE)


class Run:
    def __init__(self, program, **options):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("LOAM_")}
        environment.update(options)
        done = subprocess.run(
            [program],
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=60,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)),
        )
        self.status = done.returncode
        self.errors = done.stderr
        self.named = NAMED.search(done.stdout)

    @property
    def ending(self):
        if self.status < 0:
            return signal.Signals(-self.status).name
        return f"exit {self.status}"


def wrong_line(run, pattern):
    """What is wrong with standard error, or None."""
    if run.named is None:
        return "the program did not come as far as its mistake"
    if run.errors.count("\n") != 1 or not run.errors.endswith("\n"):
        return f"not exactly one line: {run.errors[:300]!r}"
    expected = pattern.replace("{pointer}", run.named.group(1)).replace("{thread}", run.named.group(2))
    match = re.fullmatch(expected, run.errors[:-1])
    if match is None:
        return f"line {run.errors[:-1]!r} is not {expected}"
    size_class = match.groupdict().get("class")
    requested = re.search(r"past (\d+) requested", run.errors)
    if size_class and requested and int(size_class) < int(requested.group(1)):
        return f"size class smaller than what was requested: {run.errors!r}"
    return None


def check(program, pattern):
    """Yields what is not as the table says."""
    if pattern is None:
        run = Run(program)
        if run.status != 0 or run.errors:
            yield f"no mistake, but {run.ending}, {run.errors[:300]!r}"
        return

    run = Run(program)
    problem = wrong_line(run, pattern)
    if problem:
        yield problem
    if run.status != -signal.SIGABRT:
        yield f"ended by {run.ending}, not SIGABRT"

    run = Run(program, LOAM_ON_ERROR="ignore")
    problem = wrong_line(run, pattern)
    if problem:
        yield f"with LOAM_ON_ERROR=ignore: {problem}"
    if run.status != 0:
        yield f"with LOAM_ON_ERROR=ignore: {run.ending}, not exit 0"

    run = Run(program, LOAM_SHOW_ERRORS="0")
    if run.errors:
        yield f"with LOAM_SHOW_ERRORS=0: {run.errors[:300]!r}"
    if run.status != -signal.SIGABRT:
        yield f"with LOAM_SHOW_ERRORS=0: ended by {run.ending}, not SIGABRT"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kind", required=True, choices=ALL)
    parser.add_argument("--programs", required=True, help="the folder of the built programs")
    args = parser.parse_args()

    sources = {name[:-2] for name in os.listdir(HERE) if name.endswith(".c")}
    if sources != set(TABLE):
        print(f"misuse: table and files differ: {sorted(sources ^ set(TABLE))}")
        return 1

    failed = 0
    left_out = []
    for name, (kinds, pattern) in TABLE.items():
        if args.kind not in kinds:
            left_out.append(name)
            continue
        try:
            problems = list(check(os.path.join(args.programs, name), pattern))
        except subprocess.TimeoutExpired:
            problems = ["did not end within 60 seconds"]
        print(f"{name:<26} {'as expected' if not problems else 'WRONG'}")
        for problem in problems:
            print(f"    {problem}")
        failed += bool(problems)
    print(f"\n{len(TABLE) - len(left_out)} programs run in the {args.kind} build, {failed} wrong")
    if left_out:
        print(f"not promised in this build, so not run: {', '.join(left_out)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
