#!/usr/bin/env python3
"""statistics.py: the forms of loam's statistics, read by others' parsers and compared.

    statistics.py PROGRAM      PROGRAM is works_statistics, whose malloc is loam

The numbers on demand (JSON, mallinfo2, malloc_info's XML) are of one moment and must agree; those
at exit, as text and as JSON, must be there, add up, and fit into 80 columns.
"""

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

OBJECTS, THREADS = 1000, 3
LENT, LENT_LARGE = 256 << 20, 200 << 20
DESCRIPTOR = 128  # bytes of loam's own for each large object
ROWS = ("small_objects", "small_bytes", "large_objects", "large_bytes", "bytes_in_all", "committed",
        "reserved", "abandoned", "threads", "pages", "segments", "sampled_objects",
        "sampled_bytes")  # fmt: skip
WORDS = ("size class", "peak", "total", "freed", "current", "unit", "count", "committed",
         "reserved", "reset", "segments", "threads", "pages", "abandoned", "mmap", "elapsed",
         "user", "system", "faults", "peak rss", "malloc requested", " ok\n",
         " not freed\n")  # fmt: skip


def run(program, **options):
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("LOAM_")
    }
    environment.update(options)
    done = subprocess.run([program], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"exit status {done.returncode}: {done.stderr}"
    return done.stdout, done.stderr


def check_row(row, name):
    assert row["total"] - row["freed"] == row["current"], (name, row)
    assert row["current"] <= row["peak"], (name, row)


def check_sums(stats):
    assert stats["version"] == 1
    assert stats["build"] in ("release", "debug", "secure"), stats["build"]
    for name in ROWS:
        check_row(stats[name], name)
    for each in stats["classes"]:
        check_row(each, each["object_bytes"])
        assert each["current"] <= each["capacity"], each
    classes = stats["classes"]
    for column in ("total", "freed", "current", "peak"):
        assert sum(c[column] for c in classes) == stats["small_objects"][column], column
        assert sum(c[column] * c["object_bytes"] for c in classes) == stats["small_bytes"][column]
        parts = ("small_bytes", "large_bytes", "sampled_bytes")
        assert sum(stats[part][column] for part in parts) == stats["bytes_in_all"][column], column
        assert stats["segments"][column] << 16 == stats["reserved"][column], column
    assert sum(c["pages"] for c in classes) == stats["pages"]["current"]
    assert stats["arenas_bytes"] == LENT, stats["arenas_bytes"]
    assert stats["committed"]["current"] < LENT and stats["reserved"]["current"] < LENT, stats


def check_work(stats):
    """What the program is known to have done."""
    those = [c for c in stats["classes"] if 4000 <= c["object_bytes"] <= 5120]
    assert sum(c["total"] for c in those) >= OBJECTS * THREADS, those
    current = sum(c["current"] for c in those)
    assert OBJECTS * THREADS // 2 <= current <= OBJECTS * THREADS // 2 + 20, those
    assert stats["threads"]["total"] >= THREADS, stats["threads"]
    assert stats["large_bytes"]["total"] >= 10 << 20
    assert stats["verdict"] == ("not freed" if stats["bytes_in_all"]["current"] else "ok"), stats[
        "verdict"
    ]
    if stats["build"] == "debug":
        got = sum(stats[row]["total"] for row in ("small_bytes", "large_bytes", "sampled_bytes"))
        assert OBJECTS * THREADS * 4000 < stats["requested_bytes"] <= got, stats["requested_bytes"]
    else:
        assert stats["requested_bytes"] == 0, stats["requested_bytes"]
    assert stats["elapsed_us"] > 0 and stats["resident_peak"] > 10 << 20


def check_others(stats, info, document):
    small = stats["small_bytes"]["current"] + stats["sampled_bytes"]["current"]
    pages = DESCRIPTOR * stats["pages"]["current"]
    assert info["uordblks"] == small + pages, info
    assert info["hblks"] == stats["large_objects"]["current"], info
    mapped = info["hblkhd"] - DESCRIPTOR * info["hblks"]
    assert mapped == stats["large_bytes"]["current"], info
    assert info["keepcost"] == stats["dirty_bytes"], info
    assert info["fordblks"] == stats["held_bytes"] + stats["dirty_bytes"], info
    # What is lent is not loam's of the system; in the secure build an object may be a little
    # larger.
    lent = info["arena"] - pages + mapped - stats["reserved"]["current"]
    assert LENT_LARGE <= lent < LENT_LARGE + (1 << 16), (info, stats["reserved"])
    check_document(stats, info, ElementTree.fromstring(document))


def check_document(stats, info, whole):
    """As the C library writes it: this heap's, then the process's; "rest" is what is free in
    both."""
    heap = whole.find("heap")
    free = sum(c["capacity"] - c["current"] for c in stats["classes"])
    bytes_free = sum((c["capacity"] - c["current"]) * c["object_bytes"] for c in stats["classes"])
    for of in (heap, whole):
        totals = {
            t.get("type"): (int(t.get("count")), int(t.get("size"))) for t in of.findall("total")
        }
        assert totals["rest"] == (free, bytes_free) and totals["fast"] == (0, 0), totals
        assert of is heap or totals["mmap"] == (
            info["hblks"],
            stats["large_bytes"]["current"],
        ), totals
        system = {s.get("type"): int(s.get("size")) for s in of.findall("system")}
        assert system["current"] == stats["reserved"]["current"], system
        assert system["max"] == stats["reserved"]["peak"], system
        space = {s.get("type"): int(s.get("size")) for s in of.findall("aspace")}
        outside = space["total"] - system["current"]  # some of loam's own lies in the arena
        assert 0 < outside <= stats["metadata_bytes"], space
        assert space["mprotect"] <= space["total"], space
    left = {int(s.get("to")): int(s.get("count")) for s in heap.iter("size")}
    for each in stats["classes"]:
        if each["pages"] > 0:
            assert left[each["object_bytes"]] == each["capacity"] - each["current"], each


def main():
    program = sys.argv[1]
    out, err = run(program)
    assert err == "", err
    demanded, info, document = out.split("===\n")
    stats = json.loads(demanded)
    check_sums(stats)
    check_work(stats)
    check_others(stats, json.loads(info), document)

    out, _ = run(program, LOAM_GUARD_SAMPLING="20")
    demanded, info, document = out.split("===\n")
    sampled = json.loads(demanded)
    check_sums(sampled)
    check_others(sampled, json.loads(info), document)
    assert sampled["sampled_objects"]["current"] > 10, sampled["sampled_objects"]
    assert sampled["sampled_bytes"]["total"] > sampled["sampled_objects"]["total"], sampled
    _, err = run(program, LOAM_GUARD_SAMPLING="20", LOAM_SHOW_STATS="1")
    assert "\n     sampled" in err, err

    _, err = run(program, LOAM_SHOW_STATS="json")
    at_exit = json.loads(err)
    check_sums(at_exit)
    check_work(at_exit)
    assert at_exit["large_bytes"]["freed"] >= 10 << 20
    assert at_exit.keys() == stats.keys()

    _, err = run(program, LOAM_SHOW_STATS="1")
    for line in err.splitlines():
        assert len(line) <= 79, line
    for word in WORDS:
        assert word in err, f"no '{word}' in:\n{err}"


if __name__ == "__main__":
    main()
