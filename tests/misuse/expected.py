#!/usr/bin/env python3
"""expected.py: a build of loam stops at least what it has stopped before.

    expected.py --kind secure --library build/secure/libloam.so --programs build/secure/tests/misuse
    expected.py ... --accept     writes what it stops now into expected/secure.txt: with the change
                                 that causes it

expected/<kind>.txt has a line for each counted case that the build stops, in every run (judge.py),
and one with "chance" before it for each that it stops in some, or that crashes late: nobody meant
that. "guards" stands before those that are stopped where the system has guard regions (Linux 6.13),
which elsewhere are of chance. A listed case that survives, or crashes late now, is a failure. A
case that is not listed and is stopped now, in MANY runs in a row, is one, too: so the list goes up,
and what has been gained cannot be lost unseen. Cases of chance may do either.
Exit: 0 as listed; 1 not; 2 wrong use.
"""

import argparse
import mmap
import os
import sys

import judge

HERE = os.path.dirname(os.path.abspath(__file__))
RUNS = 3
MANY = 40
GUARDS = "guards"
MADV_GUARD_INSTALL = 102


def read(path):
    """{cases that are stopped}, {of chance}, {stopped by guards}"""
    stopped, chance, guards = set(), set(), set()
    with open(path, encoding="utf-8") as file:
        for line in file:
            words = line.split("#")[0].split()
            if words:
                {judge.CHANCE: chance, GUARDS: guards}.get(words[0], stopped).add(words[-1])
    return stopped, chance, guards


def system_has_guards():
    if mmap.PAGESIZE > 4096:
        return False  # loam makes none then
    with mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as page:
        try:
            page.madvise(MADV_GUARD_INSTALL)
            return True
        except OSError:
            return False


def meant(result):
    return result.verdict == judge.STOPPED and not result.crash


def write(path, kind, results, guards):
    stopped = [each.case.id for each in results if meant(each)]
    chance = [
        each.case.id for each in results
        if not meant(each) and each.verdict in (judge.STOPPED, judge.CHANCE)
    ]  # fmt: skip
    with open(path, "w", encoding="utf-8") as file:
        file.write(
            f"# What the {kind} build stops, of {len(results)} cases; written by expected.py "
            "--accept.\n"
        )
        file.writelines(f"{GUARDS + ' ' if name in guards else ''}{name}\n" for name in stopped)
        file.writelines(f"{judge.CHANCE} {name}\n" for name in chance)
    print(f"{path}: {len(stopped)} stopped, {len(chance)} by chance, of {len(results)}")


def compare(cases, stopped, chance, judged):
    """Yields what is not as listed; judged(cases, runs) gives their results."""
    known = {case.id for case in cases}
    for name in sorted((stopped | chance) - known):
        yield f"{name} is listed, but there is no such case"
    rising = []
    for each in judged(cases, RUNS):
        name = each.case.id
        if each.verdict == judge.BROKEN:
            yield f"{name} is broken: it did not come as far as its mistake ({each.endings})"
        elif name in stopped and not meant(each):
            late = " only crashes late now" if each.crash else " is no longer stopped"
            yield f"{name}{late} ({each.endings}): {each.case.what}"
        elif name not in stopped | chance and meant(each):
            rising.append(each.case)
    for each in judged(rising, MANY):
        if meant(each):
            yield f"{each.case.id} is stopped now ({each.endings}): add it to the list, by --accept"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kind", required=True)
    parser.add_argument("--library", required=True)
    parser.add_argument("--programs", required=True)
    parser.add_argument("--list", help="default: expected/<kind>.txt beside this file")
    parser.add_argument("--accept", action="store_true", help="write the list")
    args = parser.parse_args()
    path = args.list or os.path.join(HERE, "expected", f"{args.kind}.txt")
    cases = [case for case in judge.listed(args.programs) if case.counted]
    if not cases or not os.path.exists(args.library):
        print(f"expected.py: no cases in {args.programs}, or no {args.library}", file=sys.stderr)
        return 2

    def judged(some, runs):
        return judge.judge(some, judge.environment(args.library), runs)

    if args.accept:
        write(
            path, args.kind, judged(cases, MANY), read(path)[2] if os.path.exists(path) else set()
        )
        return 0
    stopped, chance, guards = read(path)
    (stopped if system_has_guards() else chance).update(guards)
    problems = list(compare(cases, stopped, chance, judged))
    for problem in problems:
        print(problem)
    print(
        f"{len(cases)} cases on the {args.kind} build, {len(stopped)} listed, {len(problems)} not "
        "as listed"
    )
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
