#!/usr/bin/env python3
"""checked_file.py: LOAM_CHECKED=1 for a whole file holds in C++, whatever the linker sees first.

    checked_file.py --include include --library libloam.a [--cxx c++]

checked_file.cc is compiled with LOAM_CHECKED=1 and without, at -O0, -Og and -O2, and linked in both
orders. In each program, each allocator is set up by either file: the file with LOAM_CHECKED has to
get the report of an overflow, the other one none. Exit: 0 all held, 1 not.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).resolve().parent / "checked_file.cc"
LETTERS = "bBfrRspPomaxX"


def compiled(args, folder, level):
    objects = []
    for with_checks in (1, 0):
        objects.append(Path(folder) / f"checked_file{level}_{with_checks}.o")
        defines = [f"-DWITH={with_checks}"] + (["-DLOAM_CHECKED=1"] if with_checks else [])
        command = [args.cxx, "-std=c++17", level, *defines, "-I", args.include]
        subprocess.run([*command, "-c", SOURCE, "-o", objects[-1]], check=True)
    return objects


def wrong_of(args, folder, level):
    objects = compiled(args, folder, level)
    for order in (objects, objects[::-1]):
        program = Path(folder) / "program"
        subprocess.run(
            [args.cxx, *order, args.library, "-pthread", "-ldl", "-o", program], check=True
        )
        for letter in LETTERS:
            for file in "10":
                result = subprocess.run(
                    [program, file, letter], capture_output=True, text=True, check=False
                )
                reported = "overflow" in result.stderr and result.returncode != 0
                if reported != (file == "1") or (
                    file == "0" and "not reported" not in result.stdout
                ):
                    first = "checked first" if order is objects else "checked last"
                    said = result.stderr.strip() or "not reported"
                    yield f"{level}, {first}: {letter} of file {file}: {said}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--include", required=True)
    parser.add_argument("--library", required=True)
    parser.add_argument("--cxx", default="c++")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="loam-checked-") as folder:
        wrong = [line for level in ("-O0", "-Og", "-O2") for line in wrong_of(args, folder, level)]
    for line in wrong:
        print(f"checked_file: {line}")
    print(f"checked_file: {len(LETTERS)} allocators, 3 levels, 2 orders, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
