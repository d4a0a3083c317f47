#!/usr/bin/env python3
"""survey.py: which mistakes each allocator stops: loam's builds, the C library, the rivals.

    tests/misuse/survey.py --out build/misuse                    all that there is, a table
    tests/misuse/survey.py --allocators loam-secure,scudo        these
    tests/misuse/survey.py --cases 'overflow/*' --verbose        these cases, each with how it ended
    tests/misuse/survey.py --allocator mine=/path/libmine.so,OPTION=1

It runs what `cmake --build build/<preset> --target misuse` has built, on the libloam.so of the
presets that are built, and on the rivals of bench/peers/build.py. The protocol is in judge.py. Left
in --out: survey.csv (a row a case and allocator), survey.json (with versions and endings),
survey.md; --page FILE writes the last there as well (docs/misuse.md).

Exit: 0 done; 1 a case was broken on loam or the C library; 2 wrong use, or something is missing.
"""

import argparse
import csv
import datetime
import fnmatch
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE), str(ROOT / "bench")]
sys.dont_write_bytecode = True

import judge  # noqa: E402
from lab import allocators  # noqa: E402

BUILDS = {"loam": "release", "loam-secure": "secure", "loam-debug": "debug"}
HARDENED = (
    "hardened-malloc", "hardened-light", "scudo", "snmalloc-checks", "mimalloc-secure",
)  # fmt: skip
FAST = ("mimalloc", "mimalloc2", "snmalloc", "jemalloc", "rpmalloc", "tcmalloc", "tbbmalloc")
NAMES = (*BUILDS, *HARDENED, "glibc-check", "glibc", *FAST)
INTRODUCTION = (
    "This page says which mistakes each allocator stops. `tests/misuse/survey.py` writes it; do "
    "not edit it by hand. A mistake counts as stopped if in every run the process dies, at the "
    "latest when the damaged or freed block is freed or its address is handed out again, or if the "
    "case sees that no harm came of it ([judge.py](../tests/misuse/judge.py)). The cases are "
    "functions of a few lines in [tests/misuse](../tests/misuse)."
)
NOTES = (
    "*In a mean run* counts mistakes that are stopped only sometimes, by their share. Allocators "
    "that place blocks at random have more of them. *Late crashes* are among the stopped mistakes: "
    "a fault in the ordinary work afterwards ends the process, without a line. A mistake counts as "
    "not stopped, too, if the allocator does not notice it or quietly corrects it, as mimalloc's "
    "secure build does with most double frees: the program goes on, and nobody learns of its "
    "mistake. A mistake that no allocator stops need not be an attack, and one that is stopped "
    "here may get through in another form. Allocators that check nothing stop some mistakes by "
    "their layout."
)
DRAWN = "## Mistakes drawn at random"  # the page's last section, which generate.py writes
# the section before it, which tests/contract/rates.py writes
FAMILY = "## Checked allocators of the family"
MARKS = {judge.STOPPED: "●", judge.SURVIVED: "○", judge.CHANCE: "◐", judge.BROKEN: "×"}


class WrongUse(Exception):
    """What the command line asks for cannot be; the text says why."""


# ---- the allocators ------------------------------------------------------------------------------


def glibc_check():
    """The C library's own checks: its malloc with a magic byte after each block, and more."""
    library = allocators.find_library("libc_malloc_debug.so.0")
    if library is None:
        return None, "the C library has no libc_malloc_debug.so.0"
    return (
        allocators.Allocator(
            "glibc-check", library, "libc6", origin="MALLOC_CHECK_=3", env=(("MALLOC_CHECK_", "3"),)
        ),
        None,
    )


def find(name, options):
    """(Allocator, None) or (None, why not)."""
    if name in BUILDS:
        library = options.builds / BUILDS[name] / "libloam.so"
        if not library.exists():
            return None, f"{library} is not built"
        return (
            allocators.Allocator(
                name, allocators.real(library), origin=f"this tree, preset {BUILDS[name]}"
            ),
            None,
        )
    if name == "glibc":
        return allocators.find_all(["glibc"], None)[0][0], None
    if name == "glibc-check":
        return glibc_check()
    if not options.peers.is_file():
        return None, "not built: run bench/peers/build.py"
    found, absent = allocators.listed(options.peers)
    if name in found:
        return found[name], None
    return None, absent.get(name, "not built: run bench/peers/build.py")


def proved(one, program):
    """Why this library would not serve that program, or None."""
    if why := allocators.trouble(one) if one.name != "glibc" else None:
        return why
    preload = None if one.name == "glibc" else one.library
    targets = allocators.bound_to([program], preload)
    if targets != {one.library}:
        return f"malloc of {program} is that of {', '.join(sorted(targets))}"
    return None


def chosen(options, program):
    names = list(NAMES) if options.allocators == "all" else options.allocators.split(",")
    if unknown := [name for name in names if name not in NAMES]:
        raise WrongUse(f"unknown allocator {', '.join(unknown)}; there are: {', '.join(NAMES)}")
    good, absent = [], []
    for name in names:
        one, why = find(name, options)
        why = why or proved(one, program)
        if why:
            absent.append((name, why))
        else:
            good.append(one)
    for text in options.allocator:
        try:
            one = allocators.custom(text)
        except ValueError as error:
            raise WrongUse(f"--allocator {error}") from error
        if why := proved(one, program):
            raise WrongUse(f"--allocator {one.name}: {why}")
        good.append(one)
    return good, absent


# ---- the tables ----------------------------------------------------------------------------------


def families(cases):
    """{family: number of its cases}, in order."""
    counts = {}
    for case in cases:
        counts[case.family] = counts.get(case.family, 0) + 1
    return counts


def rows_of(cases, results):
    """Rows (heading, of, [stopped by each allocator]): the families, and three of all cases."""
    rows = []
    for family, count in families(cases).items():
        stopped = [
            sum(each.case.family == family and each.verdict == judge.STOPPED for each in column)
            for column in results.values()
        ]
        rows.append((family.replace("_", " "), count, stopped))
    totals = [sum(each.verdict == judge.STOPPED for each in column) for column in results.values()]
    crashes = [sum(each.crash for each in column) for column in results.values()]
    means = [f"{sum(each.share for each in column):.1f}" for column in results.values()]
    return rows, [
        ("all", len(cases), totals),
        ("in a mean run", "", means),
        ("late crashes", "", crashes),
    ]


def heading(name):
    """A name in pieces of at most 8 characters, to stand above each other."""
    words = [
        word if len(word) < 9 else word.replace("malloc", " malloc") for word in name.split("-")
    ]
    return textwrap.wrap(" ".join(words), 8)


def printed(cases, results, width):
    """The table as lines, in as many parts as the width asks for."""
    rows, totals = rows_of(cases, results)
    first = max(len(row[0]) for row in [*rows, *totals]) + 6
    a_part = max(1, (width - first) // 9)
    names = list(results)
    lines = []
    for start in range(0, len(names), a_part):
        part = slice(start, start + a_part)
        heads = [heading(name) for name in names[part]]
        height = max(map(len, heads))
        for line in range(height):
            words = [([""] * (height - len(head)) + head)[line] for head in heads]
            lines.append(" " * first + "".join(f"{word:>9}" for word in words))
        for name, count, stopped in [*rows, *totals]:
            if name == totals[0][0]:
                lines.append("-" * (first + 9 * len(heads)))
            figures = "".join(f"{each:>9}" for each in stopped[part])
            lines.append(f"{name:<{first - 5}}{count:>5}{figures}")
        lines.append("")
    return [line.rstrip() for line in lines]


def by_chance(results):
    """(allocator, case, good runs, runs) of what is stopped sometimes."""
    for name, column in results.items():
        for each in column:
            if each.verdict == judge.CHANCE:
                yield name, each.case, sum(run.good for run in each.runs), len(each.runs)


def filled(text):
    return textwrap.wrap(text, 100, break_long_words=False, break_on_hyphens=False)


def page(cases, results, found, absent, options, command):
    """The table as Markdown: families, versions, every case."""
    rows, totals = rows_of(cases, results)
    names = list(results)
    line = (
        f"{len(cases)} mistakes, each made {options.runs} times on each allocator, a process each"
    )
    today = datetime.date.today()
    text = [
        "# Mistakes, and who stops them", "",
        *filled(INTRODUCTION), "",
        *filled(
            f"{today}, Linux {platform.release().split('-')[0]}, {platform.machine()}; {line}."
        ), "",
        "```sh", command, "```", "",
        "| | of | " + " | ".join(names) + " |",
        "|---|---|" + "---|" * len(names),
    ]  # fmt: skip
    for name, count, stopped in [*rows, *totals]:
        strong = "**" if name == totals[0][0] else ""
        figures = " | ".join(f"{strong}{each}{strong}" for each in stopped)
        text.append(f"| {strong}{name}{strong} | {count} | {figures} |")
    text += ["", *filled(NOTES), "", "## Versions", ""]
    text += ["| name | version | from |", "|---|---|---|"]
    for one in found:
        origin = one.origin.split(", sha256")[0] or f"package {one.package}"
        text.append(f"| {one.name} | {one.version() or '?'} | {origin} |")
    text += [f"| {name} | absent | {why} |" for name, why in absent]
    text += [
        "",
        "## Every case",
        "",
        "● stopped in every run, ○ in no run, ◐ in some runs (not counted), × not run.",
        "",
    ]
    for family, count in families(cases).items():
        text += [f"### {family.replace('_', ' ')} ({count})", "",
                 "| case | what is done | " + " | ".join(names) + " |",
                 "|---|---|" + "---|" * len(names)]  # fmt: skip
        for at, case in enumerate(cases):
            if case.family == family:
                marks = " | ".join(MARKS[column[at].verdict] for column in results.values())
                text.append(f"| {case.name} | {case.what} | {marks} |")
        text.append("")
    return "\n".join(text).rstrip() + "\n"


def parted(page):
    """The text of a page before the sections that survey.py does not write, and these sections;
    either may be empty."""
    text = page.read_text() if page.is_file() else ""
    at = min(
        (text.find(heading) for heading in (FAMILY, DRAWN) if heading in text), default=len(text)
    )
    return text[:at], text[at:]


def replace_drawn(page, section):
    """Writes the section DRAWN of a page, and leaves what stands before it."""
    text = page.read_text() if page.is_file() else ""
    page.write_text(text.partition(DRAWN)[0].rstrip() + "\n\n" + section.rstrip() + "\n")


def replace_family(page, section):
    """Writes the section FAMILY of a page, and leaves what stands before and behind it."""
    before, rest = parted(page)
    drawn = rest[rest.find(DRAWN) :] if DRAWN in rest else ""
    page.write_text(
        before.rstrip() + "\n\n" + section.rstrip() + "\n" + ("\n" + drawn if drawn else "")
    )


def save(out, cases, results, found, absent, options, command, text):
    out.mkdir(parents=True, exist_ok=True)
    with (out / "survey.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(
            ["allocator", "family", "case", "verdict", "good", "runs", "endings", "message"]
        )
        for name, column in results.items():
            for each in column:
                good = sum(run.good for run in each.runs)
                writer.writerow([name, each.case.family, each.case.name, each.verdict, good,
                                 len(each.runs), each.endings, each.message])  # fmt: skip
    content = {
        "date": datetime.datetime.now().isoformat(timespec="seconds"),
        "command": command, "runs": options.runs, "system": platform.platform(),
        "allocators": [
            {"name": one.name, "version": one.version(), "library": one.library,
             "origin": one.origin,
             "flags": one.flags, "environment": dict(one.env),
             "stopped": sum(each.verdict == judge.STOPPED for each in results[one.name])}
            for one in found
        ],
        "absent": [{"name": name, "why": why} for name, why in absent],
        "cases": [
            {"case": case.id, "what": case.what,
             "verdicts": {name: column[at].verdict for name, column in results.items()},
             "endings": {name: column[at].endings for name, column in results.items()}}
            for at, case in enumerate(cases)
        ],
    }  # fmt: skip
    (out / "survey.json").write_text(json.dumps(content, indent=1) + "\n")
    (out / "survey.md").write_text(text)


# ---- the run -------------------------------------------------------------------------------------


def parse(arguments):
    parser = argparse.ArgumentParser(
        prog="survey.py", description="Which mistakes each allocator stops.",
        epilog=f"allocators: {', '.join(NAMES)}",
    )  # fmt: skip
    parser.add_argument("--allocators", default="all", metavar="A,B", help="all, or these")
    parser.add_argument(
        "--allocator", action="append", default=[], metavar="NAME=PATH.so[,KEY=VALUE]"
    )
    parser.add_argument(
        "--cases", default="*", metavar="PATTERN,...", help="family/case, with * and ?"
    )
    parser.add_argument(
        "--runs", type=int, default=judge.RUNS, metavar="N", help="of each case (5)"
    )
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count(), metavar="N", help="cases at once"
    )
    parser.add_argument("--out", type=Path, default=ROOT / "build/misuse", metavar="DIR")
    parser.add_argument(
        "--page", type=Path, metavar="FILE", help="write the Markdown table there, too"
    )
    parser.add_argument(
        "--builds", type=Path, default=ROOT / "build", metavar="DIR", help="loam's builds"
    )
    parser.add_argument(
        "--programs", type=Path, metavar="DIR", help="default: build/release/tests/misuse"
    )
    parser.add_argument(
        "--peers", type=Path, default=ROOT / "build/peers/peers.json", metavar="FILE"
    )
    parser.add_argument("--verbose", action="store_true", help="a line for each case and allocator")
    options = parser.parse_args(arguments)
    options.programs = options.programs or options.builds / "release/tests/misuse"
    if options.runs < 1 or options.jobs < 1:
        raise WrongUse("--runs and --jobs are at least 1")
    return options


def survey(options, command):
    if not options.programs.is_dir():
        raise WrongUse(
            f"{options.programs} is not there: cmake --build build/release --target misuse"
        )
    patterns = options.cases.split(",")
    cases = [
        case for case in judge.listed(options.programs)
        if case.counted and any(fnmatch.fnmatch(case.id, pattern) for pattern in patterns)
    ]  # fmt: skip
    if not cases:
        raise WrongUse(f"--cases {options.cases}: there is no such case")
    found, absent = chosen(options, cases[0].program)
    for name, why in absent:
        print(f"left out: {name}: {why}")
    if not found:
        raise WrongUse("no allocator is left")
    results = {}
    for one in found:
        env = judge.environment(None if one.name == "glibc" else one.library, one.env)
        column = judge.judge(cases, env, options.runs, options.jobs)
        results[one.name] = column
        stopped = sum(each.verdict == judge.STOPPED for each in column)
        print(f"{one.name:<16}{stopped:>4} of {len(cases)}", flush=True)
        for each in column:
            if options.verbose or each.verdict == judge.BROKEN:
                print(f"  {each.verdict:<9}{each.case.id:<38}{each.endings}  {each.message}")
    print()
    print("\n".join(printed(cases, results, shutil.get_terminal_size((80, 24)).columns)))
    for name, case, good, runs in by_chance(results):
        print(f"by chance, not counted: {case.id} on {name}: {good} of {runs} runs")
    text = page(cases, results, found, absent, options, command)
    save(options.out, cases, results, found, absent, options, command, text)
    if options.page:
        section = parted(options.page)[1]
        options.page.write_text(text + ("\n" + section if section else ""))
    print(f"\nwritten: {options.out}/survey.csv, survey.json, survey.md")
    ours = [results[name] for name in results if name in BUILDS or name == "glibc"]
    return 1 if any(each.verdict == judge.BROKEN for column in ours for each in column) else 0


def main(arguments):
    try:
        return survey(parse(arguments), shlex.join(["tests/misuse/survey.py", *arguments]))
    except (WrongUse, OSError, subprocess.SubprocessError) as error:
        print(f"survey.py: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("survey.py: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
