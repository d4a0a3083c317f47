#!/usr/bin/env python3
"""tools_test.py TOOL PROGRAM...: what a tool makes of watched.c, built with a library that speaks to it.

    tools_test.py memcheck build/release/tests/tools/watched
    tools_test.py asan build/release/tests/tools/watched_asan
    tools_test.py probes build/release/tests/tools/watched

Exit status 77, with a reason, where the tool is missing.
"""

import os
import re
import shutil
import subprocess
import sys

MEMCHECK = {
    "past_end": r"Invalid read of size 1\n(?:.*\n)*?.*Address 0x\w+ is 0 bytes after a block of size 100 alloc'd",
    "before_start": r"Invalid write of size 1\n(?:.*\n)*?.*Address 0x\w+ is 1 bytes before a block of size 100 alloc'd",
    "past_large": r"Invalid read of size 1\n(?:.*\n)*?.*Address 0x\w+ is 0 bytes after a block of size 200,000 alloc'd",
    "after_shrink": r"Invalid read of size 1",
    "after_free": r"Invalid read of size 1\n(?:.*\n)*?.*Address 0x\w+ is 20 bytes inside a block of size 100 free'd",
    "large_after_free": r"Invalid read of size 1\n(?:.*\n)*?.*Address 0x\w+ is 5,000 bytes inside a block of size 200,000",
    "huge_after_free": r"Invalid read of size 1\n(?:.*\n)*?.*Address 0x\w+ is 5,000 bytes inside a block of size 20,000,000",
    "after_destroy": r"Invalid read of size 1\n(?:.*\n)*?.*Address 0x\w+ is 20 bytes inside a block of size 100 free'd",
    "aligned_after_destroy": r"Invalid write of size 1\n(?:.*\n)*?.*Address 0x\w+ is 999 bytes inside a block of size 1,000 free'd",
    "large_after_destroy": r"Invalid read of size 1\n(?:.*\n)*?.*Address 0x\w+ is 5,000 bytes inside a block of size 200,000",
    "huge_after_destroy": r"Invalid read of size 1\n(?:.*\n)*?.*Address 0x\w+ is 5,000 bytes inside a block of size 20,000,000",
    "uninitialised": r"Conditional jump or move depends on uninitialised value",
}
POISON = tuple(case for case in MEMCHECK if case != "uninitialised")
PROBES = ("page_create", "page_retire", "span_take", "span_give", "purge", "heap_create", "heap_destroy", "heap_delete",
          "large_alloc", "large_free", "worker_start", "worker_stop")


def run(*command, **variables):
    done = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, timeout=200, check=False)
    return done.returncode, done.stdout + done.stderr


def needed(command):
    if shutil.which(command) is None:
        print(f"SKIPPED: {command} is not installed")
        sys.exit(77)


def memcheck(program):
    needed("valgrind")
    valgrind = ("valgrind", "--quiet", "--error-exitcode=99", "--leak-check=no", program)
    # To look for leaks is to look at every object that Memcheck was told of: it ends where two overlap.
    status, said = run(*valgrind[:3], "--leak-check=full", program, "clean")
    if (status, said) != (0, ""):
        yield f"clean: {status}, {said}"
    status, said = run(*valgrind, "many_end")
    if (status, said) != (0, ""):
        yield f"many_end: {status}, {said}"
    for case, pattern in MEMCHECK.items():
        status, said = run(*valgrind, case)
        # A write before a block is found by loam as well, which ends the program.
        if status not in (99, -6) or re.search(pattern, said) is None:
            yield f"{case}: {status}, not {pattern}:\n{said}"


def asan(program):
    options = {"ASAN_OPTIONS": "abort_on_error=0:exitcode=99:detect_leaks=0"}
    status, said = run(program, "clean", **options)
    if (status, said) != (0, ""):
        yield f"clean: {status}, {said}"
    status, said = run(program, "many_end", **options)
    if (status, said) != (0, ""):
        yield f"many_end: {status}, {said}"
    for case in POISON:
        status, said = run(program, case, **options)
        if status != 99 or "AddressSanitizer: use-after-poison" not in said:
            yield f"{case}: {status}, no use-after-poison:\n{said}"


def probes(program):
    needed("readelf")
    _, said = run("readelf", "--notes", "--wide", program)
    found = set(re.findall(r"Provider: loam\s+Name: (\w+)", said))
    if found != set(PROBES):
        yield f"probes found: {sorted(found)}, not {sorted(PROBES)}"


if __name__ == "__main__":
    tool, *arguments = sys.argv[1:]
    problems = list({"memcheck": memcheck, "asan": asan, "probes": probes}[tool](*arguments))
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)
