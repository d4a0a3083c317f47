"""A made-up run of the lab, in the files that a real one leaves: rows.csv, rss.csv, run.json.

For the report's tests and for looking at its pages without hours of measuring. Every figure
follows from a seed; none of them says anything about the allocators whose names they carry.

    python3 tests/bench/made_run.py DIRECTORY      sixty rows, eleven allocators, some failures
"""

import csv
import json
import math
import random
import sys
from pathlib import Path

COLUMNS = (
    "started,round,suite,workload,threads,allocator,status,detail,user_s,sys_s,wall_s,"
    "minor_faults,major_faults,peak_kib,output_sha256,command,commit,machine"
).split(",")

# name: (CPU time, share that remote frees add, peak RSS, kind)
CHARACTERS = {
    "glibc": (1.00, 1.0, 1.00, "fast"),
    "loam": (0.62, 0.30, 0.97, "fast"),
    "mimalloc": (0.66, 0.35, 1.08, "fast"),
    "mimalloc2": (0.68, 0.40, 1.12, "fast"),
    "jemalloc": (0.78, 1.10, 1.15, "fast"),
    "snmalloc": (0.67, 0.20, 1.20, "fast"),
    "rpmalloc": (0.70, 0.45, 1.40, "fast"),
    "tcmalloc": (0.72, 1.60, 1.25, "fast"),
    "tbbmalloc": (0.85, 0.60, 1.31, "fast"),
    "scudo": (1.40, 1.20, 1.22, "hardened"),
    "mimalloc-secure": (0.95, 0.50, 1.18, "hardened"),
}
SINGLE = "cfrac sh6 glibc-simple alloc-test realloc-growth calloc-large many-16 many-256 many-64k"
THREADED = "larson xmalloc sh8 mstress rptest cache-scratch cache-thrash glibc-thread thread-churn"
REAL = "sqlite3 redis python3 lua gcc ghostscript z3 perl node rustc"
REMOTE = {"larson", "xmalloc", "sh8", "mstress", "rptest"}


def full_workloads():
    """[(suite, name, threads, tags, sampled)] as a full run has them."""
    found = [("micro", name, 1, ["single"], False) for name in SINGLE.split()]
    for threads in (1, 2, 8):
        for name in THREADED.split():
            tags = ["threads"] + (["remote"] if name in REMOTE else [])
            found.append(("micro", name, threads, tags, False))
    found += [("micro", "fragmentation", threads, ["rss"], True) for threads in (1, 2)]
    return found + [("real", name, 1, [], False) for name in REAL.split()]


def one_row(chance, turn, workload, allocator, seconds, peak, noise):
    suite, name, threads, _, _ = workload
    cpu = seconds * math.exp(chance.gauss(0, noise))
    return {
        "started": f"2026-11-21T12:{turn:02d}:00Z", "round": turn, "suite": suite,
        "workload": name, "threads": threads, "allocator": allocator, "status": "ok",
        "detail": "", "user_s": f"{cpu * 0.9:.4f}", "sys_s": f"{cpu * 0.1:.4f}",
        "wall_s": f"{cpu / min(threads, 2) * 1.02:.4f}", "minor_faults": 1000, "major_faults": 0,
        "peak_kib": int(peak * math.exp(chance.gauss(0, noise / 3))), "output_sha256": "00",
        "command": f"{name} --threads {threads}", "commit": "0123456789ab", "machine": "made-up",
    }  # fmt: skip


def growth(chance, row):
    """Resident memory over time: up, holes, other sizes, down."""
    end = float(row["wall_s"]) * 1000
    for step in range(61):
        part = step / 60
        level = min(1.0, part * 3) * (1 - 0.5 * max(0, (part - 0.45)) / 0.55)
        yield part * end, max(2000, row["peak_kib"] * level * math.exp(chance.gauss(0, 0.01)))


def make(directory, workloads=None, allocators=None, rounds=5, noise=0.015, change=None, seed=7):
    """Writes a run into a directory. `change(row)` may alter a row, or give None to drop it."""
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    chance = random.Random(seed)
    workloads = full_workloads() if workloads is None else workloads
    allocators = list(CHARACTERS) if allocators is None else allocators
    rows, samples = [], []
    for workload in workloads:
        _, name, threads, tags, sampled = workload
        seconds, peak = chance.uniform(0.4, 1.2), chance.uniform(8e3, 9e4)
        for allocator in allocators:
            own, remote, memory, _ = CHARACTERS.get(allocator, (0.8, 0.5, 1.1, "fast"))
            taste = math.exp(chance.gauss(0, 0.12))
            factor = own * taste * (1 + (remote if "remote" in tags and threads > 1 else 0))
            for turn in range(rounds + 1):
                row = one_row(
                    chance, turn, workload, allocator,
                    seconds * (1 if allocator == "glibc" else factor),
                    peak * (1 if allocator == "glibc" else memory * taste), noise,
                )  # fmt: skip
                row = change(row) if change else row
                if row is None:
                    continue
                rows.append(row)
                if sampled and turn:
                    samples += [
                        (turn, name, threads, allocator, round(ms), round(kib))
                        for ms, kib in growth(chance, row)
                    ]
    write(directory, rows, samples, workloads, allocators)
    return directory


def write(directory, rows, samples, workloads, allocators):
    with open(directory / "rows.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    with open(directory / "rss.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["round", "workload", "threads", "allocator", "ms", "rss_kib"])
        writer.writerows(samples)
    (directory / "run.json").write_text(json.dumps(about(workloads, allocators), indent=1))


def about(workloads, allocators):
    kinds = {(each[0], each[1]): (each[0], each[1], each[3]) for each in workloads}
    return {
        "started": "2026-11-21T12:00:00Z", "ended": "2026-11-21T13:40:00Z",
        "machine": {
            "model": "Made-up Processor 9000", "cores": 2, "memory_kib": 8_000_000,
            "kernel": "6.1.0", "libc": "glibc 2.36", "thp": "madvise", "governor": "unknown",
        },
        "commit": "0123456789abcdef", "dirty": False,
        "command_line": "bench/run.py --full --rounds 5", "options": {"rounds": 5, "full": True},
        "allocators": [
            {
                "name": name, "version": "1.2.3", "origin": f"crate {name}-sys", "flags": "-O3",
                "library": f"/tmp/{name}.so", "sha256": "ab" * 32,
                "kind": CHARACTERS.get(name, (0, 0, 0, "fast"))[3],
            }
            for name in allocators
        ],
        "absent": [{"name": "hoard", "why": "in no package registry"}],
        "workloads": [
            {
                "name": name, "suite": suite, "question": f"What does {name} ask of <malloc> & "
                                                          "free?",
                "threads": [t for s, n, t, _, _ in workloads if (s, n) == (suite, name)],
                "tags": tags, "command": f"build/release/bench/{name} --seed 1",
            }
            for suite, name, tags in kinds.values()
        ],
    }  # fmt: skip


def with_failures(row):
    """One of each kind of failure, and one cell far beyond all others."""
    place = (row["workload"], row["threads"], row["allocator"])
    failures = {
        ("mstress", 8, "scudo"): ("crash", "signal 11 (Segmentation fault)"),
        ("xmalloc", 8, "jemalloc"): ("timeout", "no end after 60 s"),
        ("gcc", 1, "rpmalloc"): ("exit", "exit status 1: internal compiler error"),
        ("lua", 1, "tbbmalloc"): ("differs", "output is not the reference's"),
    }
    if place in failures:
        row["status"], row["detail"] = failures[place]
    if place == ("cache-scratch", 8, "tcmalloc"):
        row["user_s"] = f"{float(row['user_s']) * 40:.4f}"
    return row


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: made_run.py DIRECTORY")
    make(sys.argv[1], change=with_failures)
