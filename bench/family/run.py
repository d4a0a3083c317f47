#!/usr/bin/python3
"""The special-purpose matrix: pools, regions, FIFO and stack beside their rivals.

    /usr/bin/python3 bench/family/run.py [--quick | --full] [--table NAMES] [--rows NAMES]
        [--columns NAMES] [--n N] [--rounds N] [--huge never,madvise] [--timeout S]
        [--out DIR] [--programs DIR] [--strace] [--list]

Runs each cell of the seeds' tables in a process of its own, the order rotated from round to round,
prints each table as its seed does, and writes into DIR: cells.csv (every run), figures.csv (medians
and intervals), tables.txt, run.json, and a picture of each table (SVG and PNG). NAMES are separated
by commas and may hold * and ?; a table is named by its program or by its seed (region or 000).

--quick is a look in under five minutes, --full the seeds' own sizes. --n is the work of a table's
largest column (the seed 000's N), others in proportion; of table 003 the largest count. --strace
times nothing and counts each cell's system calls for memory. A rival that is not installed is named
with its package.

How a table is made: family.h. What the figures say, and what is odd: README.md.

Exit status: 0 measured, 1 a cell failed or crashed, 2 wrong use or nothing to run, 130 interrupted.
"""

import argparse
import fnmatch
import json
import shutil
import sys
from datetime import datetime
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import cells  # noqa: E402
from lab.front import WrongUse, use_any_terminal  # noqa: E402

ROOT = HERE.parents[1]
LARGEST = 20_000_000  # the N of the seed 000, and of the longest loops of the others

PRESETS = {  # factor of the columns' own n, largest count of table 003, rounds, seconds a cell
    "quick": (0.04, 100_000, 3, 4),
    "": (0.25, 300_000, 5, 60),
    "full": (1.0, 1_000_000, 7, 300),
}
# A quick run of table 003 asks for three sizes in the order that says most, and for the others
# once.
QUICK = {"pool": ("16-random", "256-random", "4096-random", "64-pair", "64-lifo", "64-fifo")}


def number(least):
    def read(text):
        try:
            value = int(float(text)) if "e" in text else int(text)
        except (ValueError, OverflowError):
            value = least - 1
        if value < least:
            raise argparse.ArgumentTypeError(f"{text}: a whole number from {least} is needed")
        return value

    return read


def options():
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], epilog="See the head of this file."
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_const", dest="preset", const="quick", default="")
    size.add_argument("--full", action="store_const", dest="preset", const="full")
    parser.add_argument("--table", default="*", metavar="NAMES")
    parser.add_argument("--rows", default="*", metavar="NAMES")
    parser.add_argument("--columns", metavar="NAMES")
    parser.add_argument("--n", type=number(1))
    parser.add_argument("--rounds", type=number(1))
    parser.add_argument("--huge", default="never,madvise", metavar="never,madvise")
    parser.add_argument("--timeout", type=number(1), metavar="SECONDS")
    parser.add_argument("--out", type=Path, default=ROOT / "build/bench/family")
    parser.add_argument("--programs", type=Path, default=ROOT / "build/release/bench/family")
    parser.add_argument("--strace", action="store_true")
    parser.add_argument("--list", action="store_true")
    return parser.parse_args()


def chosen(patterns, names, kind):
    """The names that match, in their own order; a pattern that matches none is wrong use."""
    patterns = patterns.split(",")
    for pattern in patterns:
        if not fnmatch.filter(names, pattern):
            raise WrongUse(f'no {kind} "{pattern}" (known: {" ".join(names)})')
    return [name for name in names if any(fnmatch.fnmatchcase(name, p) for p in patterns)]


def choose(asked, found):
    """[(Table, rows, columns)] to run."""
    programs = []
    for pattern in asked.table.split(","):
        match = [
            n for n, t in found.items() if fnmatch.fnmatchcase(n, pattern) or t.seed == pattern
        ]
        if not match:
            known = " ".join(f"{name} ({table.seed})" for name, table in found.items())
            raise WrongUse(f'no table "{pattern}" (known: {known})')
        programs += [name for name in match if name not in programs]
    tables = [found[name] for name in found if name in programs]
    every_row = list(dict.fromkeys(row for table in tables for row in [*table.rows, *table.absent]))
    every_column = list(dict.fromkeys(column for table in tables for column in table.columns))
    rows = chosen(asked.rows, every_row, "row")
    columns = chosen(asked.columns or "*", every_column, "column")
    work = []
    for table in tables:
        limit = columns
        if asked.preset == "quick" and not asked.columns and table.program in QUICK:
            limit = QUICK[table.program]
        work.append(
            (table, [r for r in table.rows if r in rows], [c for c in table.columns if c in limit])
        )
    return work


def show_list(found):
    for table in found.values():
        print(f"{table.program} ({table.seed}): {table.title}")
        for column in table.columns.values():
            print(f"    column {column['name']:<16} {column['what']}")
        for row in table.rows.values():
            print(f"    row    {row['name']:<20} {row['what']} ({row['version']}, {row['kind']})")
        for row, package in table.absent.items():
            print(f"    absent {row:<20} needs {package}")


def show_calls(work, groups, found, timeout):
    if not shutil.which("strace"):
        raise WrongUse("--strace needs strace (package strace)")
    failed = False
    for group in groups:
        for cell in group:
            try:
                phases = cells.trace(found[cell.program], cell, timeout)
            except Exception as error:  # one cell, one line: the others go on
                print(f"{cell.label}: {error}", file=sys.stderr)
                failed = True
                continue
            print(cell.label)
            for phase, calls, growths in phases:
                counts = " ".join(f"{name} {count}" for name, count in sorted(calls.items()))
                print(f"    {phase:<13} {counts or 'none'}")
                shown = growths if len(growths) <= 14 else [*growths[:7], "...", *growths[-6:]]
                if growths:
                    print(f"    {'':<13} mapped: {' '.join(map(str, shown))}")
    return 1 if failed else 0


def measure(asked, work, groups, found, rounds, timeout):
    try:
        import figures
        import plots
        from lab import machine
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    except ImportError as error:
        raise WrongUse(f"{error}: scripts/bootstrap --bench installs what is missing") from error
    try:
        asked.out.mkdir(parents=True, exist_ok=True)
        what = machine.described()
        commit, dirty = machine.commit()
        log = cells.Log(asked.out / "cells.csv", commit, machine.short(what))
    except OSError as error:
        raise WrongUse(f"{error.filename}: {error.strerror}") from error
    started = datetime.now().isoformat(timespec="seconds")
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("", total=rounds * sum(map(len, groups)))
        results = cells.run_all(
            found, groups, rounds, timeout, log,
            lambda cell, done, _: progress.update(
                bar, completed=done, description=f"{cell.program} {cell.row} {cell.column}"
            ),
        )  # fmt: skip
    log.close()
    ran = {table.program: table for table, _, _ in work}
    made = figures.Figures(ran, results)
    made.write(asked.out / "figures.csv")
    text = []
    for table in ran.values():
        own = [cell for group in groups for cell in group if cell.program == table.program]
        if own:
            text += figures.describe(made, table, own)
            plots.draw(made, table, own, asked.out)
    without = figures.missing(made, ran)
    text += without
    (asked.out / "tables.txt").write_text("\n".join(text) + "\n", encoding="utf-8")
    meta = {
        "started": started, "ended": datetime.now().isoformat(timespec="seconds"), "machine": what,
        "commit": commit, "dirty": dirty, "command_line": sys.argv, "rounds": rounds,
        "tables": {t.program: {"seed": t.seed, "rows": list(t.rows.values()), "absent": t.absent}
                   for t in ran.values()},
        "missing": without,
    }  # fmt: skip
    (asked.out / "run.json").write_text(json.dumps(meta, indent=1) + "\n", encoding="utf-8")
    print("\n".join(text))
    print(f"\n{rounds} rounds on {machine.short(what)}, huge pages {what['thp']}")
    print(f"written to {asked.out}")
    bad = [o for outcomes in results.values() for o in outcomes if o.status in ("failed", "crash")]
    return 1 if bad else 0


def main():
    use_any_terminal()
    asked = options()
    try:
        huge = chosen(asked.huge, ["never", "madvise"], "kind of pages")
        found = cells.tables(asked.programs)
        if asked.list:
            show_list(found)
            return 0
        work = choose(asked, found)
        factor, most, rounds, timeout = PRESETS[asked.preset]
        if asked.n:
            factor, most = asked.n / LARGEST, asked.n
        rounds, timeout = asked.rounds or rounds, asked.timeout or timeout
        groups = [
            group
            for table, rows, columns in work
            for group in cells.plan(table, rows, columns, factor, most, huge)
        ]
        if not groups:
            absent = [f"{r} needs {p}" for t, _, _ in work for r, p in t.absent.items()]
            raise WrongUse(
                "no row has such a column" + (f" ({'; '.join(absent)})" if absent else "")
            )
        if asked.strace:
            return show_calls(work, groups, found, timeout)
        return measure(asked, work, groups, found, rounds, timeout)
    except (WrongUse, cells.NoTables) as error:
        print(f"run.py: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("run.py: interrupted; cells.csv has the runs so far", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
