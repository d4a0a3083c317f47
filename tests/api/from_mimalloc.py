#!/usr/bin/env python3
"""from_mimalloc.py: holds docs/guide/from_mimalloc.md against mimalloc's names and loam's headers.

    from_mimalloc.py [--root DIR]    one line for each fault; exit 1 if there is any
    from_mimalloc.py --self-test     proves on made-up rows that each fault is found

The faults: a name of tests/api/mimalloc_names.txt without a row, or with two; a row of another
name; a function or class that loam's headers do not declare; a row without an equivalent and
without a reason; a note that does not exist; totals in the text that are not those of the tables.
"""

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROW = re.compile(r"^\| `(mi_\w+)` \| (.*?) \| (.*?) ?\|$", re.M)


def declared(root):
    """What the headers declare: functions of C, and names of namespace loam as loam::name."""
    names = set()
    for path in (root / "include/loam").glob("*.h*"):
        text = re.sub(r"/\*.*?\*/|//[^\n]*", "", path.read_text(encoding="utf-8"), flags=re.S)
        names.update(re.findall(r"\b(loam_\w+)\(", text))
        if path.suffix == ".hpp":
            words = re.findall(r"\b(?:class|struct)\s+(\w+)|\b(\w+)\(", text)
            names.update("loam::" + (a or b) for a, b in words)
    return names


def faults_of(page, wanted, known):
    rows = ROW.findall(page)
    names = [name for name, _, _ in rows]
    for name in sorted(wanted - set(names)):
        yield f"no row for {name}"
    for name in sorted(set(names) - wanted):
        yield f"{name} is no name of mimalloc's"
    for name in sorted({n for n in names if names.count(n) > 1}):
        yield f"{name} has {names.count(name)} rows"
    notes = set(re.findall(r"^(\d+)\. ", page, re.M))
    none = 0
    for name, equivalent, note in rows:
        if equivalent == "none":
            none += 1
            if not note:
                yield f"{name} has neither an equivalent nor a reason"
        elif not re.fullmatch(r"`[\w:]+`(, `[\w:]+`)*", equivalent):
            yield f"{name}: {equivalent!r} is no list of names"
        else:
            for one in re.findall(r"`([\w:]+)`", equivalent):
                if one not in known:
                    yield f"{name}: loam's headers have no {one}"
        for used in re.findall(r"`(loam_\w+)\(", note):
            if used not in known:
                yield f"{name}: loam's headers have no {used}"
        for number in re.findall(r"\bnote (\d+)", note):
            if number not in notes:
                yield f"{name}: there is no note {number}"
    said = re.search(
        r"have the (\d+) public names.*?(\d+) of the names have an equivalent, (\d+) have none",
        " ".join(page.split()),
    )
    counted = (len(rows), len(rows) - none, none)
    if not said or tuple(map(int, said.groups())) != counted:
        yield f"the text says {said and said.groups()}, the tables have {counted}"


def self_test():
    good = (
        "The tables have the 2 public names. 1 of the names have an equivalent, 1 have none.\n"
        "| `mi_a` | `loam_a`, `loam::b` | `loam_a(1)` |\n| `mi_b` | none | note 1 |\n1. Because.\n"
    )
    cases = (
        ("", good, 0),
        ("no row", good.replace("`mi_b`", "`mi_a`"), 2),
        ("another name", good.replace("`mi_b`", "`mi_c`"), 2),
        ("no function", good.replace("`loam_a`,", "`loam_c`,"), 1),
        ("no class", good.replace("loam::b", "loam::c"), 1),
        ("no function in a note", good.replace("loam_a(1)", "loam_c(1)"), 1),
        ("no reason", good.replace("note 1 ", ""), 1),
        ("no such note", good.replace("note 1", "note 2"), 1),
        ("another total", good.replace("1 have none", "2 have none"), 1),
        ("no list", good.replace("`loam_a`, ", "loam_a, "), 1),
    )
    for what, page, count in cases:
        found = list(faults_of(page, {"mi_a", "mi_b"}, {"loam_a", "loam::b"}))
        if len(found) != count:
            print(f"from_mimalloc: self-test: {what}: wanted {count} faults, found {found}")
            return 1
    print("from_mimalloc: the self-test passes")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=ROOT)
    parser.add_argument("--self-test", action="store_true")
    args = parser.parse_args()
    if args.self_test:
        return self_test()
    page = (args.root / "docs/guide/from_mimalloc.md").read_text(encoding="utf-8")
    listed = (args.root / "tests/api/mimalloc_names.txt").read_text(encoding="utf-8")
    wanted = {line for line in listed.split("\n") if line.startswith("mi_")}
    found = list(faults_of(page, wanted, declared(args.root)))
    for fault in found:
        print(f"from_mimalloc: {fault}")
    print(f"from_mimalloc: {len(wanted)} names, {len(found)} faults")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
