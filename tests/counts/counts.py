#!/usr/bin/env python3
"""counts.py: instructions of the local path, counted by callgrind, held against the bars.

    counts.py --library build/release/libloam.so --driver build/release/tests/count_driver

Four checks, and the table of all figures whether they pass or not:
  1. the cheapest malloc and free of every size up to 64 KiB, ret included (the fast path);
  2. a warm pair in batches of 16, slow paths included, averaged over 1,024 pairs;
  3. the instructions that the cheapest calls really executed, looked up in the disassembly:
     no lock prefix, no exchange with memory, no system call, no call of another function;
  4. what guard sampling adds to a program that works with what it allocates, its own instructions
     counted too. How many samples there are is drawn anew in each process: the bars leave room for
     that.

Counted otherwise is every instruction outside the driver and the dynamic loader, so a helper in
another library would count too. It cannot see time: caches and mispredictions are the benchmarks'
business. Exit: 0 all bars held, 1 a bar missed, 77 not checked (no valgrind, or another machine).
"""

import argparse
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench" / "guard"))
import callgrind  # noqa: E402

SKIPPED = 77
KIB = 1024

# (what, first size, last size, bar, goal): instructions of the cheapest call, ret included.
SINGLE_BARS = [
    ("malloc", 1, 1 * KIB, 13, 12),
    ("malloc", 1 * KIB + 1, 64 * KIB, 22, 18),
    ("free", 1, 64 * KIB, 16, 15),
    ("loam_malloc_small", 1, 1 * KIB, 10, 10),
]
# size: bar of instructions for one malloc and one free in batches of 16, slow paths included.
PAIR_BARS = {48: 30, 3000: 45}

# One allocation of so many is sampled: bar of what that adds to all instructions of the driver's
# program, in percent.
SAMPLING_BARS = {5000: 1.0, 1000: 2.0}

# Sizes whose figures the table prints one by one.
SHOWN = [1, 16, 48, 128, 256, 512, 1024, 1025, 2048, 4096, 8192, 16384, 32768, 65536]

DISASSEMBLY = re.compile(r"^\s*([0-9a-f]+):\s+(.*)$")
FORBIDDEN = [
    ("lock prefix", re.compile(r"\block\b")),
    ("exchange with memory", re.compile(r"\bxchg\w*\s[^#<]*\(|\bxchg\w*\s.*%[fg]s:")),
    ("system call", re.compile(r"\bsyscall\b|\bsysenter\b|\bint\s+\$0x80")),
    ("call", re.compile(r"\bcall\w*\b")),
]


class Window:
    """What ran between window_open and window_close, outside the driver: {(object, address):
    times}; and in all."""

    def __init__(self, path, driver):
        executed = callgrind.Profile(path).executed
        self.total = sum(executed.values())
        self.executed = {at: times for at, times in executed.items() if at[0] != driver}

    @property
    def cost(self):
        return sum(self.executed.values())


def count(mode, args, folder):
    """Runs the driver under callgrind; returns [(what, size, Window)] in the order of windows."""
    out = os.path.join(folder, mode)
    environment = dict(os.environ, LD_PRELOAD=os.path.abspath(args.library))
    options = ["--dump-instr=yes", "--dump-line=no"]
    options += ["--zero-before=window_open", "--dump-before=window_close"]
    # The preload also reaches valgrind's own launcher, which is harmless: only the program is
    # counted.
    plan = callgrind.run([args.driver, mode], out, options, environment)
    driver = os.path.basename(args.driver)
    windows = []
    for number, line in enumerate(plan.splitlines(), start=1):
        what, size = line.split()
        windows.append((what, int(size), Window(f"{out}.{number}", driver)))
    return windows


def objects_of(windows):
    return {obj for _, _, window in windows for obj, _ in window.executed}


def disassemble(library):
    text = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", library],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    found = {}
    for line in text.splitlines():
        match = DISASSEMBLY.match(line)
        if match:
            found[int(match.group(1), 16)] = match.group(2)
    return found


def check_single(windows, problems):
    cheapest = {}
    every = {}
    for what, size, window in windows:
        every.setdefault((what, size), []).append(window.cost)
        if (what, size) not in cheapest or window.cost < cheapest[what, size].cost:
            cheapest[what, size] = window

    print("instructions of one call, ret included (cheapest; in brackets the median of 24)")
    print(f"{'size':>8}  {'malloc':>12}  {'free':>12}")
    for size in SHOWN:
        cells = [
            f"{cheapest[what, size].cost} ({statistics.median(every[what, size]):g})"
            for what in ("malloc", "free")
        ]
        print(f"{size:>8}  {cells[0]:>12}  {cells[1]:>12}")
    print()
    print(f"{'fast path':<28} {'sizes':>6} {'lowest':>7} {'highest':>8} {'bar':>4} {'goal':>5}")
    for what, first, last, bar, goal in SINGLE_BARS:
        costs = {s: w.cost for (k, s), w in cheapest.items() if k == what and first <= s <= last}
        worst = max(costs.values())
        print(
            f"{what + f' {first}..{last} B':<28} {len(costs):>6} {min(costs.values()):>7} "
            f"{worst:>8} {bar:>4} {goal:>5}{'' if worst <= bar else '   MISSED'}"
        )
        for size, cost in sorted(costs.items()):
            if cost > bar:
                problems.append(f"{what}({size}): {cost} instructions, at most {bar} allowed")
            if cost < 4:
                problems.append(f"{what}({size}): {cost} instructions counted: not a real count")
    print()
    return cheapest


def check_pairs(windows, problems):
    print("warm pair (malloc + free), batches of 16, slow paths included")
    print(f"{'size':>8}  {'instructions':>12}  {'bar':>4}")
    for what, size, window in windows:
        pairs = int(what[len("pairs") :])
        each = window.cost / pairs
        bar = PAIR_BARS.get(size)
        missed = bar is not None and each > bar
        print(
            f"{size:>8}  {each:>12.2f}  {bar if bar is not None else '-':>4}"
            f"{'   MISSED' if missed else ''}"
        )
        if missed:
            problems.append(
                f"warm pair of {size} B: {each:.2f} instructions, at most {bar} allowed"
            )
    print()


def check_sampling(windows, problems):
    (what, rate, off), *others = windows
    assert rate == 0, "the first one has sampling off"
    steps = int(what[len("work") :])
    print(
        f"a program of {off.total / steps:.0f} instructions each allocation, "
        f"{off.cost / steps:.1f} of them loam's"
    )
    for _, rate, window in others:
        more = window.total - off.total
        bar = SAMPLING_BARS[rate]
        missed = more > bar / 100 * off.total
        print(
            f"one in {rate:<6} sampled: {more / off.total:+.2%}, {more / steps:+.2f} instructions "
            f"each   bar {bar:g}%{'   MISSED' if missed else ''}"
        )
        if missed:
            problems.append(
                f"sampling one in {rate}: {more / off.total:+.2%} instructions, at most {bar:g}% "
                "allowed"
            )
        # One in 5,000 costs less than what two runs differ by; one in 1,000 costs four times that.
        if more <= 0 and rate == min(SAMPLING_BARS):
            problems.append(f"sampling one in {rate}: {more} instructions: not a real count")
    print()


def check_kinds(cheapest, library, problems):
    code = disassemble(library)
    name = os.path.basename(library)
    looked_at = set()
    for (what, size), window in cheapest.items():
        for obj, address in window.executed:
            if obj != name:
                problems.append(f"{what}({size}) leaves the library: {obj} at {address:#x}")
                continue
            if (what, address) in looked_at:
                continue
            looked_at.add((what, address))
            text = code.get(address)
            if text is None:
                problems.append(f"{what}({size}): nothing disassembled at {address:#x}")
                continue
            for label, pattern in FORBIDDEN:
                if pattern.search(text):
                    problems.append(f"{what}({size}): {label} at {address:#x}: {text}")
    for what in ("malloc", "free", "loam_malloc_small"):
        number = sum(1 for kind, _ in looked_at if kind == what)
        print(f"{what}: {number} different instructions on its fast paths, looked up in {name}")
    print("looked for: " + ", ".join(label for label, _ in FORBIDDEN))
    return looked_at


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", required=True)
    parser.add_argument("--driver", required=True)
    args = parser.parse_args()

    if platform.machine() != "x86_64":
        print(f"counts: SKIPPED: the bars are for x86-64, this machine is {platform.machine()}")
        return SKIPPED
    for tool in ("valgrind", "objdump"):
        if shutil.which(tool) is None:
            print(f"counts: SKIPPED: {tool} is not installed")
            return SKIPPED

    problems = []
    library = os.path.realpath(args.library)
    with tempfile.TemporaryDirectory(prefix="loam-counts-") as folder:
        try:
            single = count("single", args, folder)
            pairs = count("pairs", args, folder)
            sampled = count("sampled", args, folder)
        except callgrind.Failed as error:
            print(f"counts: {error}")
            return 1
        if os.path.basename(library) not in objects_of(single):
            print(f"counts: the calls never reached {library}: {sorted(objects_of(single))}")
            return 1
        cheapest = check_single(single, problems)
        check_pairs(pairs, problems)
        check_sampling(sampled, problems)
        check_kinds(cheapest, library, problems)
    for problem in problems[:40]:
        print(f"counts: {problem}")
    if len(problems) > 40:
        print(f"counts: and {len(problems) - 40} more")
    print("counts: " + ("all bars held" if not problems else f"{len(problems)} problem(s)"))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
