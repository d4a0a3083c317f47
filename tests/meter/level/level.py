#!/usr/bin/env python3
"""level.py: what LOAM_METER costs where it is 0: nothing.

    level.py --cc gcc --include include --library libloam.a [--metered libloam_metered.a]

At level 0 an object of a program, and the library, have no symbol of the meter, and the object is
the same, byte for byte, as one whose headers know no meter (the hooks' #includes and definitions
cut out). At levels 1 and 2 the object asks for the meter's functions, which a library of level 0
does not have, so that the mix does not link.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).with_name("calls.c")
HOOKS = re.compile(r"#if LOAM_METER && LOAM_METER_HOOKS\n#include \"loam/meter_\w+\.h\"\n#endif\n")


def symbols(path):
    text = subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout
    return {
        line.split()[-1] for line in text.splitlines() if line.split() and not line.endswith(":")
    }


def compiled(cc, include, out, *more):
    subprocess.run(
        [cc, "-O2", "-std=c11", f"-I{include}", *more, "-c", SOURCE, "-o", out], check=True
    )
    return out


def code(path):
    text = subprocess.run(
        ["objdump", "-dr", "--no-show-raw-insn", path], capture_output=True, text=True, check=True
    )
    return text.stdout.split("Disassembly", 1)[1]


def without_hooks(include, folder):
    """The headers as they would be if nobody had thought of meters; how many hooks there were."""
    copy = Path(folder) / "include"
    shutil.copytree(include, copy)
    hooks = 0
    for header in (copy / "loam").glob("*.h"):
        if header.name.startswith("meter_"):
            header.unlink()
            continue
        text, found = HOOKS.subn("", header.read_text(encoding="utf-8"))
        hooks += found
        header.write_text(text, encoding="utf-8")
    return copy, hooks


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cc", required=True)
    parser.add_argument("--include", required=True)
    parser.add_argument("--library", required=True)
    parser.add_argument("--metered", required=True)
    args = parser.parse_args()
    problems = []
    with tempfile.TemporaryDirectory(prefix="loam-level-") as folder:
        objects = [
            compiled(args.cc, args.include, f"{folder}/{level}.o", f"-DLOAM_METER={level}")
            for level in (0, 1, 2)
        ]
        plain = compiled(args.cc, args.include, f"{folder}/plain.o")
        copy, hooks = without_hooks(args.include, folder)
        bare = compiled(args.cc, copy, f"{folder}/bare.o")
        if hooks < 6:
            problems.append(
                f"{hooks} hooks were found in the headers: this looks for something else"
            )
        if not code(plain) == code(objects[0]) == code(bare):
            problems.append("an object of level 0 differs from one without hooks")
        for path, name in (
            (objects[0], "an object of level 0"),
            (args.library, "the library of level 0"),
        ):
            found = sorted(symbol for symbol in symbols(path) if "meter" in symbol)
            if found:
                problems.append(f"{name} has {', '.join(found[:5])}")
        own = symbols(args.metered)
        for level in (1, 2):
            asked = {symbol for symbol in symbols(objects[level]) if "meter" in symbol}
            if not asked:
                problems.append(f"an object of level {level} asks for no function of the meter")
            if asked - own:
                problems.append(
                    f"level {level}: the metered library lacks {', '.join(sorted(asked - own))}"
                )
            if code(objects[level]) == code(objects[0]):
                problems.append(f"level {level} is as level 0")
    for problem in problems:
        print(f"level: {problem}")
    print(f"level: {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
