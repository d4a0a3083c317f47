#!/usr/bin/env python3
"""run.py: fuzzes one harness for a bounded time; exit 1 and a clear message if it finds something.

    run.py --seconds 20 --corpus DIR --found DIR [--options options.def] PROGRAM

It starts from the committed corpus, which stays as it is; what this run adds is thrown away, but
for inputs that something was wrong with: they go to the folder --found, and the message says how to
repeat them. The variable LOAM_FUZZ_SECONDS overrides --seconds. To grow the committed corpus,
--keep what is new, and take the fewest files that reach as much code:

    LOAM_FUZZ_SECONDS=600 run.py --keep NEW ... PROGRAM
    PROGRAM -use_counters=0 -set_cover_merge=1 EMPTY NEW CORPUS
"""

import argparse
import base64
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

LONGEST_INPUT = 4096  # bytes: programs of some hundred calls
MEMORY_MB = 2048
SLOWEST_SECONDS = 25  # one input, on a busy machine
AFTERWARDS_SECONDS = 60  # to load the corpus before, and to write the report after


def dictionary(options, folder):
    """The options' names and words as a dictionary of libFuzzer's, from the table that makes the
    parser."""
    text = Path(options).read_text(encoding="utf-8")
    names = re.findall(r"^[A-Z_]+\((\w+),", text, re.M)
    words = {
        word
        for row in re.findall(r'^CHOICE\(\w+, \d+,\s*"([^"]*)"', text, re.M)
        for word in row.split("|")
    }
    file = Path(folder) / "options.dict"
    entries = [
        f"{before}{name}=" for name in names for before in ("LOAM_", "!", "@")
    ]  # options_fuzz.cc
    units = ["ms", "min", "KiB", "MB", "G", "true", "off"]
    file.write_text(
        "".join(f'"{word}"\n' for word in [*entries, *sorted(words), *units]), encoding="utf-8"
    )
    return file


def tail(text, lines):
    return "\n".join(text.splitlines()[-lines:])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=Path)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--found", type=Path, required=True)
    parser.add_argument("--options")
    parser.add_argument("--keep", type=Path)
    arguments = parser.parse_args()
    seconds = int(os.environ.get("LOAM_FUZZ_SECONDS") or arguments.seconds)

    arguments.found.mkdir(parents=True, exist_ok=True)
    for old in arguments.found.iterdir():
        old.unlink()
    with tempfile.TemporaryDirectory() as folder:
        grown = arguments.keep or Path(folder) / "corpus"
        grown.mkdir(parents=True, exist_ok=True)
        command = [
            str(arguments.program),
            str(grown),
            str(arguments.corpus),
            f"-max_total_time={seconds}",
            f"-max_len={LONGEST_INPUT}",
            f"-rss_limit_mb={MEMORY_MB}",
            f"-timeout={SLOWEST_SECONDS}",
            f"-artifact_prefix={arguments.found}/",
            "-print_final_stats=1",
        ]
        if arguments.options:
            command.append(f"-dict={dictionary(arguments.options, folder)}")
        # Stacks with names and places, whether or not there is an llvm-symbolizer that works.
        environment = {"ASAN_SYMBOLIZER_PATH": shutil.which("addr2line") or "", **os.environ}
        try:
            run = subprocess.run(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                check=False,
                timeout=seconds + AFTERWARDS_SECONDS + SLOWEST_SECONDS,
            )
            status, said = run.returncode, run.stdout.decode("utf-8", "replace")
        except subprocess.TimeoutExpired as expired:
            status, said = "none: it did not end", (expired.stdout or b"").decode(
                "utf-8", "replace"
            )

    found = sorted(arguments.found.iterdir())
    if status == 0 and not found:
        for line in said.splitlines():
            if line.startswith("stat::") or re.match(r"#\d+\s+DONE", line):
                print(line)
        print(f"run: {arguments.program.name}, {seconds} s: nothing found")
        return 0
    print(tail(said, 80))
    print(f"run: FAILED: {arguments.program.name} found something (exit status {status})")
    for file in found:
        content = file.read_bytes()
        print(f"run: the input is kept: {file} ({len(content)} bytes)")
        print(f"run: repeat it: {arguments.program}_replay {file}")
        print(f"run: it is, in base64: {base64.b64encode(content).decode()}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
