#!/usr/bin/env python3
"""guard.py: instructions of fixed workloads, held against a committed baseline.

    guard.py --build build/release              compare; what ctest and CI run
    guard.py --build build/release --update     make what is counted now the baseline

A workload fails if its count rises by more than 2%.

Counted by callgrind, on the release build's libloam.so: every instruction inside the library, and
apart from it those of the memory functions (memcpy, memset, ...) that the library calls, its own
(override/memory.c) and libc's. The workloads are calls.c and objects.cpp. A workload that grew is
shown by function: which grew, from what, to what.

Why a tool of its own beside the benchmarks: times on a shared machine scatter by far more than the
two percent by which a heap gets slower a commit at a time; counts repeat exactly. What they cannot
see: caches, mispredicted branches, system calls, waiting. A change may rightly cost instructions
and save time; then --update (or the target guard_update) belongs into its commit, and the reviewer
sees the price.

The purge worker is off (LOAM_PURGE_THREAD=0: purges happen in free, at fixed amounts), the
environment is fixed. Counts belong to a compiler: the baseline has one entry for each processor and
major version of a compiler, and where there is none, or other flags were used, nothing is compared,
and that is said. libc's part is compared only where libc is that of the baseline and chose the same
memory functions for this processor.

Exit: 0 nothing grew; 1 something grew, or could not be counted; 2 wrong use; 77 nothing to compare
with.
"""

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import callgrind

SKIPPED = 77
ALLOWED = 0.02
SHOWN_FUNCTIONS = 10
FORMAT = 1
BASELINE = Path(__file__).resolve().parent / "baseline.json"
MEMORY_FUNCTION = re.compile(
    r"mem(cpy|move|set|chr|cmp)"
)  # libc: __memset_avx2_unaligned and the like
OWN_MEMORY = re.compile(
    r"mem(cpy|move|set|cmp)([._]\w+)*"
)  # override/memory.c: memset, memset_wide, ...
UPDATE = "cmake --build --preset release --target guard_update"


class Skip(Exception):
    """Nothing can be compared here, for this reason."""


class Wrong(Exception):
    """Something that a person has to mend; one line."""


@dataclass
class Count:
    """What one workload executed: instructions by function, inside the library and in libc for
    it."""

    own: dict
    libc: dict

    @property
    def inside(self):
        return sum(self.own.values())

    @property
    def moved(self):
        return sum(self.libc.values())


# ---- counting ------------------------------------------------------------------------------------


def workloads_of(programs):
    """{workload: program}, in the order in which the programs list them."""
    found = {}
    for program in programs:
        listed = subprocess.run([program, "--list"], capture_output=True, text=True, check=True)
        for line in listed.stdout.splitlines():
            found[line.split("\t")[0]] = program
    return found


def count(workload, program, library, folder):
    out = os.path.join(folder, workload)
    environment = {"LD_PRELOAD": library, "LOAM_PURGE_THREAD": "0"}
    callgrind.run([program, workload], out, env=environment)
    profile = callgrind.Profile(out)
    name = os.path.basename(library)
    inside = {f: cost for (where, f), cost in profile.functions.items() if where == name and cost}
    moved = {f: inside.pop(f) for f in list(inside) if OWN_MEMORY.fullmatch(f)}
    moved.update(
        (function, callers[name])
        for (where, function), callers in profile.calls_out.items()
        if name in callers and where.startswith("libc") and MEMORY_FUNCTION.search(function)
    )
    if not inside:
        raise Wrong(f"{workload}: nothing of {library} was executed: it was not preloaded")
    return Count(inside, moved)


def count_all(workloads, library):
    with tempfile.TemporaryDirectory(prefix="loam-guard-") as folder:
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            counts = pool.map(lambda item: count(*item, library, folder), workloads.items())
            return dict(zip(workloads, counts))


# ---- the build and the baseline ------------------------------------------------------------------


def read_build(folder):
    """What CMake says of the build: compiler, version, flags, library, programs."""
    path = Path(folder) / "bench" / "guard" / "build.json"
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise Wrong(f"{path}: {error.strerror}: is it a release build, with tests?") from None
    except ValueError as error:
        raise Wrong(f"{path}: {error}") from None


def key_of(build):
    names = {"GNU": "gcc", "Clang": "clang"}
    major = build["version"].split(".")[0]
    return f"{platform.machine()} {names.get(build['compiler'], build['compiler'])} {major}"


def conditions(build):
    """What the figures may depend on; part of the baseline."""
    valgrind = subprocess.run(["valgrind", "--version"], capture_output=True, text=True, check=True)
    return {
        "compiler": f"{build['compiler']} {build['version']}",
        "flags": " ".join(build["flags"].split()),
        "libc": " ".join(platform.libc_ver()),
        "valgrind": valgrind.stdout.strip(),
    }


def whole_numbers(table):
    return isinstance(table, dict) and all(type(n) is int and n >= 0 for n in table.values())


def read_baselines(path):
    """{key: entry}, every entry looked at: what passes here can be compared."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise Wrong(f"{path}: cannot be read: {error}") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise Wrong(f"{path}: is no baseline of format {FORMAT}")
    for key, entry in content.items():
        if key == "format":
            continue
        texts = isinstance(entry, dict) and all(
            isinstance(entry.get(name), str) for name in ("compiler", "flags", "libc", "valgrind")
        )
        if not texts or not isinstance(entry.get("workloads"), dict):
            raise Wrong(f"{path}: {key}: lacks its conditions or its workloads")
        for name, figures in entry["workloads"].items():
            if not isinstance(figures, dict) or not all(
                whole_numbers(figures.get(part)) for part in ("library", "libc")
            ):
                raise Wrong(f"{path}: {key}: {name}: not instructions by function")
            if not any(figures["library"].values()):
                raise Wrong(f"{path}: {key}: {name}: has no instructions")
            if not all(MEMORY_FUNCTION.search(function) for function in figures["libc"]):
                raise Wrong(f"{path}: {key}: {name}: libc's functions are not memory functions")
    del content["format"]
    return content


def write_baselines(path, baselines):
    text = json.dumps({"format": FORMAT, **baselines}, indent=1, sort_keys=True) + "\n"
    try:
        beside = path.with_suffix(".new")
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        raise Wrong(f"{path}: cannot be written: {error.strerror}") from None


# ---- comparing -----------------------------------------------------------------------------------


def grown(before, after):
    """[(function, from, to)] of the functions that grew, the largest growth first."""
    pairs = [(f, before.get(f, 0), after.get(f, 0)) for f in before.keys() | after.keys()]
    return sorted((p for p in pairs if p[2] > p[1]), key=lambda p: (p[1] - p[2], p[0]))


def show_growth(before, after):
    rows = grown(before, after)
    width = max([len("function"), *(len(name) for name, _, _ in rows[:SHOWN_FUNCTIONS])])
    print(f"    {'function':<{width}} {'from':>12} {'to':>12} {'more':>12}")
    for name, old, new in rows[:SHOWN_FUNCTIONS]:
        print(f"    {name:<{width}} {old:>12,} {new:>12,} {new - old:>+12,}")
    if len(rows) > SHOWN_FUNCTIONS:
        rest = sum(new - old for _, old, new in rows[SHOWN_FUNCTIONS:])
        print(f"    and {len(rows) - SHOWN_FUNCTIONS} more functions: {rest:+,}")
    less = sum(max(0, old - after.get(name, 0)) for name, old in before.items())
    if less > 0:
        print(f"    what other functions have less: {-less:+,}")


def variants(libc_tables):
    """{memory function: its variants that were called}."""
    found = {}
    for table in libc_tables:
        for name in table:
            found.setdefault(MEMORY_FUNCTION.search(name).group(), set()).add(name)
    return found


def libc_differs(counts, entry, here):
    """Why libc's part cannot be compared, or None."""
    for what in ("libc", "valgrind"):
        if entry[what] != here[what]:
            return f"{here[what]} here, {entry[what]} in the baseline"
    known = variants(
        entry["workloads"][name]["libc"] for name in counts if name in entry["workloads"]
    )
    for function, names in variants(now.libc for now in counts.values()).items():
        if known.get(function, names).isdisjoint(names):
            return f"{min(names)} here, {min(known[function])} in the baseline"
    return None


def compare(name, before, now, same_libc):
    """Says what changed beyond what is allowed; returns "up", "down" or None."""
    parts = [("libloam.so", before.own, now.own, before.inside)]
    if same_libc:
        # Of the whole: a few bytes more in a workload that moves hardly any are no news.
        parts.append(("the memory functions", before.libc, now.libc, before.inside + before.moved))
    result = None
    for where, old, new, base in parts:
        was, are = sum(old.values()), sum(new.values())
        change = (are - was) / base
        if change > ALLOWED:
            print(f"\nguard: {name}: {change:+.1%} in {where}: {was:,} -> {are:,} instructions")
            show_growth(old, new)
            result = "up"
        elif change < -ALLOWED:
            print(f"\nguard: {name}: {change:+.1%} in {where}: {was:,} -> {are:,} instructions")
            result = result or "down"
    return result


def show_table(counts, entry):
    known = entry["workloads"] if entry else {}
    print(f"{'workload':<18} {'libloam.so':>12} {'baseline':>12} {'change':>8} {'memory':>12}")
    for name, now in counts.items():
        was = sum(known[name]["library"].values()) if name in known else None
        change = f"{(now.inside - was) / was:+.2%}" if was else "-"
        before = f"{was:,}" if was else "-"
        print(f"{name:<18} {now.inside:>12,} {before:>12} {change:>8} {now.moved:>12,}")


def compare_all(counts, entry, here, asked_all):
    other = libc_differs(counts, entry, here)
    if other:
        print(f"guard: libc's part is not compared: {other}")
    known = entry["workloads"]
    results = {"up": [], "down": [], None: []}
    for name, now in counts.items():
        if name in known:
            before = Count(known[name]["library"], known[name]["libc"])
            results[compare(name, before, now, other is None)].append(name)
    unknown = [name for name in counts if name not in known]
    gone = [name for name in known if name not in counts] if asked_all else []
    print()
    for names, what in ((unknown, "has no figure"), (gone, "is no workload any more")):
        for name in names:
            print(f"guard: {name} {what} in the baseline's entry: {UPDATE}")
    if results["down"]:
        names = ", ".join(results["down"])
        print(f"guard: cheaper by more than {ALLOWED:.0%}: {names}; keep the gain: {UPDATE}")
    if results["up"]:
        print(
            f"guard: FAILED: more than {ALLOWED:.0%} dearer: {', '.join(results['up'])}. If it is "
            f"worth it, say so in the commit and update: {UPDATE}"
        )
    if results["up"] or unknown or gone:
        return 1
    print(f"guard: {len(counts)} workloads, none dearer by more than {ALLOWED:.0%}")
    return 0


# ---- the command line ----------------------------------------------------------------------------


def choose(workloads, only):
    if not only:
        return workloads
    for name in only:
        if name not in workloads:
            raise Wrong(f"no workload {name} (known: {' '.join(workloads)})")
    return {name: workloads[name] for name in only}


def guard(args):
    if shutil.which("valgrind") is None:
        raise Skip("valgrind is not installed")
    build = read_build(args.build)
    library = os.path.realpath(args.tested or build["library"])
    if not os.path.exists(library):
        raise Wrong(f"{library}: no such library")
    key = key_of(build)
    baselines = read_baselines(args.baseline)
    entry = baselines.get(key)
    here = conditions(build)
    if not args.update:
        if entry is None:
            raise Skip(f"{args.baseline} has no figures for {key}: {UPDATE}")
        if entry["flags"] != here["flags"]:
            raise Skip(
                f"built with '{here['flags']}', the figures for {key} are for '{entry['flags']}'"
            )
    workloads = workloads_of(build["programs"])
    counts = count_all(choose(workloads, args.only), library)

    print(f"guard: {key}: {here['compiler']}, {here['flags']}, {here['libc']}, {here['valgrind']}")
    show_table(counts, entry)
    if not args.update:
        return compare_all(counts, entry, here, not args.only)
    figures = {name: {"library": now.own, "libc": now.libc} for name, now in counts.items()}
    if args.only and entry:
        figures = {**entry["workloads"], **figures}
    baselines[key] = {**here, "workloads": figures}
    write_baselines(args.baseline, baselines)
    print(f"guard: {args.baseline}: {len(counts)} workloads written for {key}")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True, help="folder of the build, e.g. build/release")
    parser.add_argument(
        "--library", dest="tested", help="count this library instead of the build's own"
    )
    parser.add_argument(
        "--baseline", type=Path, default=BASELINE, help="the file to hold it against"
    )
    parser.add_argument("--update", action="store_true", help="write the baseline")
    parser.add_argument("--only", nargs="+", metavar="WORKLOAD", help="these workloads alone")
    args = parser.parse_args()
    try:
        return guard(args)
    except Skip as why:
        print(f"guard: SKIPPED: {why}")
        return SKIPPED
    except (Wrong, callgrind.Failed) as error:
        print(f"guard: {error}")
        return 1


if __name__ == "__main__":
    sys.exit(main())
