#!/usr/bin/env python3
"""vocabulary.py: holds the public functions against docs/guide/names.md: one act has one name.

    vocabulary.py                one line for each fault; exit 1 if there is any
    vocabulary.py --self-test    proves on made-up headers that each rule catches its fault

The rules:
  table     an act that several allocators have stands in a table of the page
  there     what the tables name is a function, a macro or a method of a header
  synonym   no function has a name that means what another act's name means
  pair      what has `init` has `deinit`; what has `create` has `destroy`
"""

import argparse
import re
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NOUNS = ("pool_set|shared_pool|thread_stack|region|pool|blocks|fifo|ring|stack|heap|arena|alloc"
         "|reserve|scratch|source|registry")  # fmt: skip
MARKS = re.compile(r"(_at|_as|_slow|_metered|_flags|_buffer|_child|_object|_in)+$")
# What inline functions call.
PRIVATE = {"round", "mark"}
# The names of before, which programs may still use.
OLDER = {"is_from", "create"}
# No function is called so: the act has the other name.
SYNONYMS = {"fini": "deinit", "term": "deinit", "dispose": "destroy", "clear": "reset",
            "new": "create", "is_from": "contains", "has": "contains", "holds": "contains",
            "is_own": "owns", "purge": "trim", "shrink_to_fit": "trim", "walk": "visit",
            "each": "visit", "validate": "check", "verify": "check"}  # fmt: skip
CXX_SYNONYMS = {"create": "make", "emplace": "make", "is_from": "contains", "clear": "reset",
                "validate": "check"}  # fmt: skip
# Set up by their owner, which ends them: a thread, a count around a source of the program.
NO_DEINIT = {"thread_stack", "source"}


def without_comments(text):
    return re.sub(r"/\*.*?\*/", "", text, flags=re.S)


def functions_of(headers):
    """{act: nouns} of the C headers."""
    acts = defaultdict(set)
    for name, text in headers.items():
        if not name.endswith(".h"):
            continue
        for noun, act in re.findall(
            rf"\bloam_({NOUNS})_([a-z_0-9]*[a-z0-9])\s*\(", without_comments(text)
        ):
            acts[MARKS.sub("", act)].add(noun)
    return acts


def methods_of(headers):
    names = set()
    for name, text in headers.items():
        if name.endswith(".hpp"):
            names |= set(re.findall(r"[ *&]([a-z_]+)\((?!\))?", without_comments(text)))
    return names


def tables_of(page):
    """The names in the first two columns, of tables that have `C` and `C++` as heads."""
    c, cxx, inside = set(), set(), False
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|"):
            inside = False
        elif cells[:2] == ["C", "C++"]:
            inside = True
        elif inside:
            c |= set(re.findall(r"`([A-Za-z_]+)[^`]*`", cells[0]))
            cxx |= set(re.findall(r"`([a-z_]+)[^`]*`", cells[1]))
    return c, cxx


def faults_of(headers, page):
    acts, methods, everything = (
        functions_of(headers),
        methods_of(headers),
        "\n".join(headers.values()),
    )
    c, cxx = tables_of(page)
    faults = []
    for act, nouns in sorted(acts.items()):
        if (
            len(nouns) > 1
            and act not in c | PRIVATE | OLDER
            and not any(act.startswith(known + "_") for known in c)
        ):
            faults.append(
                f"table: {act} ({', '.join(sorted(nouns))}) is in no table of docs/guide/names.md"
            )
        if act in set(SYNONYMS) - OLDER:
            faults.append(
                f"synonym: loam_{min(nouns)}_{act}: {SYNONYMS[act]} is the name of this act"
            )
    for name in sorted(c):
        if MARKS.sub("", name) not in acts and not re.search(rf"\b{name}\b", everything):
            faults.append(f"there: no function is called {name}")
    for name in sorted(cxx):
        if not re.search(rf"\b{name}\b", everything):
            faults.append(f"there: no method is called {name}")
    for name in sorted((methods & set(CXX_SYNONYMS)) - OLDER):
        faults.append(f"synonym: {name}: {CXX_SYNONYMS[name]} is the name of this act in C++")
    for begin, end in (("init", "deinit"), ("create", "destroy")):
        for noun in sorted(acts[begin] - acts[end] - (NO_DEINIT if begin == "init" else set())):
            faults.append(f"pair: loam_{noun}_{begin} has no loam_{noun}_{end}")
    return faults


def self_test():
    good = {"a.h": "int loam_pool_init(int); void loam_pool_deinit(int); int loam_pool_trim(int); "
                   "int loam_region_trim(int);",
            "a.hpp": "size_t trim() noexcept; T *make(int);"}  # fmt: skip
    page = "| C | C++ | act |\n|---|---|---|\n| `trim` | `trim` | . |\n| `init`, `deinit` | | . |\n"
    cases = [
        (None, good, page),
        ("table", dict(good, b="", c=""), page.replace("`trim` | `trim`", "`init` | `trim`")),
        ("there", good, page + "| `nowhere` | | . |\n"),
        ("there", good, page + "| `init` | `nowhere` | . |\n"),
        ("synonym", dict(good, **{"b.h": "void loam_pool_clear(int);"}), page),
        ("synonym", dict(good, **{"b.hpp": "T *emplace(int);"}), page),
        ("pair", dict(good, **{"b.h": "int loam_ring_init(int);"}), page),
    ]
    for rule, headers, text in cases:
        found = {fault.split(":")[0] for fault in faults_of(headers, text)}
        if found != ({rule} if rule else set()):
            sys.exit(f"vocabulary: expected {rule}, found {found}")
    print(f"vocabulary: {len(cases)} made-up cases are as expected")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--self-test", action="store_true")
    if parser.parse_args().self_test:
        return self_test()
    headers = {path.name: path.read_text() for path in (ROOT / "include/loam").iterdir()
               if not path.name.startswith(("names_", "meter_"))}  # fmt: skip
    faults = faults_of(headers, (ROOT / "docs/guide/names.md").read_text())
    print(
        "\n".join(faults) or f"vocabulary: {len(functions_of(headers))} acts, none with two names"
    )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
