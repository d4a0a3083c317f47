#!/usr/bin/env python3
"""family_counts.py: instructions of the family's inline paths, counted by callgrind.

    family_counts.py --driver build/release/tests/family_driver [--compiler GNU]

The counts are held against the bars.

Each path is a function of family_driver that holds the inline call and nothing else. Two checks,
and the table of all figures whether they pass or not:
  1. the instructions that the function executed, its ret not counted (inlined into a program it has
     none); nothing may run outside the function: no call. With caches per thread one window in four
     may go out of line, where a batch of blocks is exchanged. All other windows of a path must show
     the same number;
  2. each instruction executed, looked up in the disassembly: no lock prefix, no exchange with
     memory, no system call, no call.

The bars are of x86-64 and gcc -O2. What another compiler made of the same code is shown and judged
by the rest, calls, exchanges and windows that differ, but not held against them. It cannot see
time. Exit: 0 all bars held, 1 a bar missed, 77 not checked (no valgrind, or another machine).
"""

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench" / "guard"))
import callgrind  # noqa: E402
import counts  # noqa: E402

# Those of the design,
BARS = {
    "region_alloc_24_by_8": 8,
    "region_alloc_24_by_16": 8,
    "region_alloc_64_by_8": 8,
    "region_alloc_64_by_16": 8,
    "stack_alloc_24_by_8": 8,
    "stack_alloc_24_by_16": 8,
    "stack_alloc_64_by_16": 8,
    "stack_alloc_13_by_1": 8,
    "pool_alloc fresh": 13,
    "pool_alloc recycled": 13,
    "pool_free": 5,
    "fifo_alloc_any": 10,
}
# and, in brackets in the table, what there is now (gcc 12) and one more, so that it is noticed when
# it grows.
HELD = {
    "region_alloc_any": 14,
    "region_free_24 the last object": 7,
    "region_free_any the last object": 9,
    "fifo_alloc_24": 9,
    "fifo_alloc_any_by_8": 11,
    "fifo_free": 7,
    "stack_alloc_any": 10,
    "stack_realloc the last object": 14,
    "stack_scope push and pop": 24,
    "stack_of_thread_24_by_8": 11,
    "ring_alloc_24": 10,
    "blocks_alloc_24 of one thread": 12,
    "blocks_alloc_any of one thread": 14,
    "blocks_free of one thread": 12,
    "blocks_alloc_24 of many threads": 23,
    "blocks_alloc_any of many threads": 25,
    "blocks_free of many threads": 26,
}
# The driver's own: what opens and closes windows, and calls the paths from between.
AROUND = {"window_open", "window_close", "main", "regions", "stacks", "pools", "fifos", "blocks_of"}
RET = re.compile(r"^(rep\s+|repz\s+|bnd\s+)?ret")


def count(driver, folder):
    """Runs the driver under callgrind; returns [(label, Profile)] in the order of windows."""
    out = os.path.join(folder, "family")
    options = ["--dump-instr=yes", "--dump-line=no"]
    options += ["--zero-before=window_open", "--dump-before=window_close"]
    plan = callgrind.run([driver], out, options)
    return [
        (line, callgrind.Profile(f"{out}.{number}"))
        for number, line in enumerate(plan.splitlines(), start=1)
    ]


def function_code(driver, name):
    """{address: text} of one function."""
    text = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", f"--disassemble={name}", driver],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    matches = (counts.DISASSEMBLY.match(line) for line in text.splitlines())
    return {int(match.group(1), 16): match.group(2) for match in matches if match}


def others(label, profile):
    """What ran in a window besides the path and the driver."""
    return [where for where in profile.functions if where[1] not in AROUND | {label.split()[0]}]


def look(label, profile, driver, problems):
    """(instructions without ret, number of rets) of one window in which nothing else ran."""
    name = label.split()[0]
    own = os.path.basename(driver)
    code = function_code(driver, name)
    base = min(code)
    # Addresses as linked and as loaded differ by whole pages, and functions lie apart.
    executed = {}
    for (obj, address), times in profile.executed.items():
        if obj == own and address in code:
            executed[address] = times
    if sum(executed.values()) != profile.functions.get((own, name), 0) or not executed:
        problems.append(f"{label}: {name} at {base:#x} was not found among what was executed")
        return 0, 0
    rets = 0
    for address, times in executed.items():
        if RET.match(code[address]):
            rets += times
        for what, pattern in counts.FORBIDDEN:
            if pattern.search(code[address]):
                problems.append(f"{label}: {what} at {address:#x}: {code[address]}")
    return sum(executed.values()) - rets, rets


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--driver", required=True)
    parser.add_argument(
        "--compiler", default="GNU", help="as CMake names it: which one made the driver"
    )
    args = parser.parse_args()

    if platform.machine() != "x86_64":
        print(f"counts: SKIPPED: the bars are for x86-64, this machine is {platform.machine()}")
        return counts.SKIPPED
    for tool in ("valgrind", "objdump"):
        if shutil.which(tool) is None:
            print(f"counts: SKIPPED: {tool} is not installed")
            return counts.SKIPPED

    problems = []
    figures = {}
    windows_of = {}
    outside = {}
    with tempfile.TemporaryDirectory(prefix="loam-counts-") as folder:
        try:
            windows = count(args.driver, folder)
        except callgrind.Failed as error:
            print(f"counts: {error}")
            return 1
        for label, profile in windows:
            figures.setdefault(label, set())
            windows_of[label] = windows_of.get(label, 0) + 1
            if others(label, profile):
                outside.setdefault(label, []).append(others(label, profile)[0])
                continue
            figures.setdefault(label, set()).add(look(label, profile, args.driver, problems))

    print("instructions of one call, inline; the ret of the function around it is counted apart")
    print(f"{'path':<34} {'body':>5} {'ret':>4} {'bar':>4}  windows, out of line")
    for label, seen in figures.items():
        away = outside.get(label, [])
        if len(away) > (windows_of[label] // 4 if "many threads" in label else 0):
            problems.append(
                f"{label}: {len(away)} of {windows_of[label]} went out of line: {away[0][1]}"
            )
        bar = BARS.get(label, HELD.get(label))
        if len(seen) != 1:
            problems.append(f"{label}: windows differ: {sorted(seen)}")
        body, rets = max(seen, default=(0, 0))
        shown = "-" if bar is None else bar if label in BARS else f"({bar})"
        over = bar is not None and body > bar
        missed = over and args.compiler == "GNU"
        print(
            f"{label:<34} {body:>5} {rets:>4} {shown:>4}  {windows_of[label]:>7}, {len(away)}"
            f"{'   MISSED' if missed else '   above what gcc has' if over else ''}"
        )
        if missed:
            problems.append(f"{label}: {body} instructions, at most {bar} allowed")
        if body < 3:
            problems.append(f"{label}: {body} instructions counted: not a real count")
    for label in set(BARS) | set(HELD):
        if label not in figures:
            problems.append(f"{label}: has a bar and was not counted")
    for problem in problems[:40]:
        print(f"counts: {problem}")
    good = "all bars held" if args.compiler == "GNU" else f"no problem; no bars for {args.compiler}"
    print("counts: " + (good if not problems else f"{len(problems)} problem(s)"))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
