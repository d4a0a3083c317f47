#!/usr/bin/env python3
"""environment.py: LOAM_METER=path for a program that knows no loam, with libloam.so preloaded.

    environment.py --library libloam.so --level N [--debug]

At level 2 the program's mallocs are in rows, from before main to exit, one in 300 and each slow
one; a path that cannot be written costs one line; each process of a family has a file of its own by
%p. At levels 0 and 1 the variable is refused, in one line.
"""

import argparse
import csv
import os
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = "x = [str(i) * 100 for i in range(20000)]; print(len(x))"


def run(library, rows, *command):
    environment = {
        "LD_PRELOAD": library,
        "LOAM_METER": rows,
        "PYTHONMALLOC": "malloc",
        "PATH": os.environ["PATH"],
    }
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)


def check_rows(path, problems):
    with open(path, newline="", encoding="utf-8") as file:
        lines = file.read().splitlines()
    rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    notes = [line for line in lines if line.startswith("# histogram,heap,,0,")]
    last = rows[-1]
    if len(notes) < 2:
        problems.append(f"{path}: {len(notes)} histograms")
    if int(last["operation"]) < 20000 or any(row["allocator"] != "heap" for row in rows):
        problems.append(f"{path}: the last row is {last}")
    if [int(row["entry"]) for row in rows] != list(range(1, len(rows) + 1)):
        problems.append(f"{path}: entries are missing")
    if max(int(row["used"]) for row in rows) < 2000000:
        problems.append(f"{path}: two megabytes were in use, but nobody saw them")
    for row in rows:
        if int(row["operation"]) % 300 != 0 and row["slow"] != "1":
            problems.append(f"{path}: nothing asked for row {row}")
            break
    regular = sum(int(row["operation"]) % 300 == 0 for row in rows)
    if regular != int(last["operation"]) // 300:
        problems.append(f"{path}: {regular} rows for {last['operation']} operations")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", required=True)
    parser.add_argument("--level", type=int, required=True)
    args = parser.parse_args()
    problems = []
    program = [sys.executable, "-S", "-c", PROGRAM]
    with tempfile.TemporaryDirectory(prefix="loam-meter-") as folder:
        rows = Path(folder) / "rows.csv"
        done = run(args.library, rows, *program)
        if done.returncode != 0 or done.stdout != "20000\n":
            problems.append(f"the program failed: {done}")
        if args.level < 2:
            said = (
                "loam: LOAM_METER ignored: this library was built without it "
                "(cmake -DLOAM_METER=2)\n"
            )
            if done.stderr != said or rows.exists():
                problems.append(f"said: {done.stderr!r}")
        else:
            if done.stderr:
                problems.append(f"said: {done.stderr!r}")
            check_rows(rows, problems)
            done = run(args.library, f"{folder}/none/rows.csv", *program)
            said = f"loam: meter: cannot write {folder}/none/rows.csv: No such file or directory\n"
            if done.stderr != said or done.stdout != "20000\n":
                problems.append(f"a bad path: {done}")
            child = f"import os, subprocess; {PROGRAM}; os.fork() or os._exit(0); os.wait(); "
            child += f"subprocess.run({program!r})"
            done = run(args.library, f"{folder}/of-%p.csv", sys.executable, "-S", "-c", child)
            files = sorted(Path(folder).glob("of-*.csv"))
            if len(files) != 2 or done.stderr:
                problems.append(
                    f"two programs and a fork made {len(files)} files, and said {done.stderr!r}"
                )
            for path in files:
                check_rows(path, problems)
    for problem in problems:
        print(f"environment: {problem}")
    print(f"environment: {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
