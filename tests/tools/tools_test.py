#!/usr/bin/env python3
"""tools_test.py TOOL PROGRAM...: a tool on watched.c, built with a library that speaks to it.

    tools_test.py memcheck build/release/tests/tools/watched
    tools_test.py asan build/release/tests/tools/watched_asan
    tools_test.py probes build/release/tests/tools/watched cc src OBJECT...

Exit status 77, with a reason, where the tool is missing.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

MEMCHECK = {
    "past_end": r"Invalid read of size 1\n(?:.*\n)*?.*Address 0x\w+ is 0 bytes after a block of "
                r"size 100 alloc'd",
    "before_start": r"Invalid write of size 1\n(?:.*\n)*?.*Address 0x\w+ is 1 bytes before a block "
                    r"of size 100 alloc'd",
    "past_large": r"Invalid read of size 1\n(?:.*\n)*?.*Address 0x\w+ is 0 bytes after a block of "
                  r"size 200,000 alloc'd",
    "after_shrink": r"Invalid read of size 1",
    "after_free": r"Invalid read of size 1\n(?:.*\n)*?.*Address 0x\w+ is 20 bytes inside a block "
                  r"of size 100 free'd",
    "large_after_free": r"Invalid read of size 1\n(?:.*\n)*?.*Address 0x\w+ is 5,000 bytes inside "
                        r"a block of size 200,000",
    "huge_after_free": r"Invalid read of size 1\n(?:.*\n)*?.*Address 0x\w+ is 5,000 bytes inside a "
                       r"block of size 20,000,000",
    "after_destroy": r"Invalid read of size 1\n(?:.*\n)*?.*Address 0x\w+ is 20 bytes inside a "
                     r"block of size 100 free'd",
    "aligned_after_destroy": r"Invalid write of size 1\n(?:.*\n"
                             r")*?.*Address 0x\w+ is 999 bytes inside a block of size 1,000 free'd",
    "large_after_destroy": r"Invalid read of size 1\n(?:.*\n)*?.*Address 0x\w+ is 5,000 bytes "
                           r"inside a block of size 200,000",
    "huge_after_destroy": r"Invalid read of size 1\n(?:.*\n)*?.*Address 0x\w+ is 5,000 bytes "
                          r"inside a block of size 20,000,000",
    "uninitialised": r"Conditional jump or move depends on uninitialised value",
}
POISON = tuple(case for case in MEMCHECK if case != "uninitialised")
# Names and numbers of arguments: the table of docs/guide/tools.md.
PROBES = {
    "page_create": 2,
    "page_retire": 2,
    "span_take": 2,
    "span_give": 2,
    "purge": 2,
    "heap_create": 1,
    "heap_destroy": 1,
    "heap_delete": 1,
    "large_alloc": 2,
    "large_free": 2,
    "worker_start": 0,
    "worker_stop": 0,
}
GUIDE = Path(__file__).resolve().parents[2] / "docs/guide/tools.md"


def run(*command, **variables):
    done = subprocess.run(
        command,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def needed(command):
    if shutil.which(command) is None:
        print(f"SKIPPED: {command} is not installed")
        sys.exit(77)


def memcheck(program):
    needed("valgrind")
    valgrind = ("valgrind", "--quiet", "--error-exitcode=99", "--leak-check=no", program)
    # To look for leaks is to look at every object that Memcheck was told of: it ends where two
    # overlap.
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


def notes(file):
    """The probes that the file's notes name: (name, sizes of the arguments in bytes)."""
    _, said = run("readelf", "--notes", "--wide", file)
    found = re.findall(r"Provider: (\w+)\s+Name: (\w+)\s+Location: .*\s+Arguments:(.*)", said)
    for provider, name, arguments in found:
        if provider == "loam":
            yield name, re.findall(r"-?(\d+)@", arguments)


def check_notes(files):
    found = [probe for file in files for probe in notes(file)]
    missing = set(PROBES) - {name for name, _ in found}
    if missing:
        yield f"no probes {sorted(missing)} in {files}"
    for name, sizes in found:
        if name not in PROBES:
            yield f"{name} is in no table"
        elif sizes != ["8"] * PROBES[name]:
            yield f"{name} has arguments of {sizes} bytes, not {PROBES[name]} words"


def check_guide():
    """Names and numbers of arguments are what the guide says."""
    said = {}
    row = r"^\| (`\w+`(?:, `\w+`)*) \|([^|]*)\|"
    for names, arguments in re.findall(row, GUIDE.read_text(encoding="utf-8"), re.M):
        for name in re.findall(r"`(\w+)`", names):
            said[name] = len([word for word in arguments.split(",") if word.strip()])
    if said != PROBES:
        yield f"docs/guide/tools.md has {said}"


def check_values(program):
    """What a tool sees at the probes, here gdb, is what the program was given."""
    if shutil.which("gdb") is None:
        print("values of arguments are not looked at: there is no gdb")
        return
    script = "set confirm off\nset startup-with-shell off\n"
    for name, count in PROBES.items():
        if count > 0 and name not in ("span_give", "purge"):  # which the worker makes
            values = f"(unsigned long)$_probe_arg0, (unsigned long)$_probe_arg{count - 1}"
            script += f"break -probe-stap loam:{name}\ncommands\nsilent\n"
            script += f'printf "seen {name} %lu %lu\\n", {values}\ncontinue\nend\n'
    script += "run\n"
    Path("probes.gdb").write_text(script, encoding="utf-8")
    _, said = run("gdb", "-q", "-batch", "-nx", "-x", "probes.gdb", "--args", program, "probes")
    if "ptrace" in said:
        print("values of arguments are not looked at: gdb may not trace here")
        return
    given = re.findall(r"^given (\w+) (\d+) (\d+)$", said, re.M)
    seen = set(re.findall(r"^seen (\w+) (\d+) (\d+)$", said, re.M))
    if len(given) < 6:
        yield f"the program gave {given}:\n{said[-3000:]}"
    for probe in given:
        if probe not in seen:
            yield f"{probe} was not seen, but {sorted(seen)}"


def check_without_header(compiler, source):
    """Without LOAM_PROBES no header of the system is needed."""
    text = (
        '#include "os/probe.h"\nvoid f(void);\n'
        "void f(void) { LM_PROBE(a); LM_PROBE1(b, 1); LM_PROBE2(c, 1, 2); }\n"
    )
    command = [
        compiler,
        "-fsyntax-only",
        "-nostdinc",
        "-Wall",
        "-Werror",
        f"-I{source}",
        "-x",
        "c",
        "-",
    ]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        yield f"os/probe.h without probes: {done.stderr}"


def probes(program, compiler, source, *objects):
    needed("readelf")
    yield from check_notes([program])
    yield from check_notes(objects)
    yield from check_guide()
    yield from check_values(program)
    yield from check_without_header(compiler, source)


if __name__ == "__main__":
    tool, *arguments = sys.argv[1:]
    problems = list({"memcheck": memcheck, "asan": asan, "probes": probes}[tool](*arguments))
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)
