#!/usr/bin/env python3
"""Checks one Promela model with spin: every reachable state, and every mutation.

    protocol.py MODEL.pml [--trace MUTATION|none]

The model as it stands must have no error: no assertion fails, no process waits for ever, in no
order of steps. Lines of the model's header that read

    mutation NAME: what is wrong then
    mutation NAME, by breadth: what is wrong then

name its mutations. With -DNAME the model makes that mistake, and spin must find an error in it: a
model that cannot see the mistakes it was written against shows nothing. It searches by depth, or by
breadth where that comes to the error after a hundredth of the states.

--trace prints the steps that lead to the error instead, for a person to read.

Exit status: 0 fine, 1 not, 77 spin or a C compiler is missing (said on standard output).
It cannot see reorderings by the processor: spin's memory is sequentially consistent. The stress
tests on ThreadSanitizer and on aarch64 look at those.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

MEMORY_MIB = 2000
DEPTH = 2_000_000
SECONDS = 500
FEW_STATES = ("ask.pml", "call.pml", "fork.pml", "fifo.pml")  # less than 100,000


def run(command, folder):
    done = subprocess.run(
        command,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    return done.returncode, done.stdout


def build(tools, model, mutation, folder, by_breadth=False):
    """Makes folder/pan; returns its path, or exits with what the tools said. Where the search ends
    soon, what it takes is the compiler's time."""
    soon = mutation or os.path.basename(model) in FEW_STATES
    define = ["-D" + mutation] if mutation else []
    status, said = run([tools["spin"], *define, "-a", model], folder)
    pan = os.path.join(folder, "pan")
    if status == 0 and os.path.exists(pan + ".c"):
        status, said = run([tools["cc"], "-O0" if soon else "-O2", "-w", "-DSAFETY", "-DCOLLAPSE",
                            *(["-DBFS"] if by_breadth else []), f"-DMEMLIM={MEMORY_MIB}",
                            "-o", pan, pan + ".c"], folder)  # fmt: skip
        if status == 0:
            return pan
    sys.exit(f"{model} {mutation or ''}: cannot be built:\n{said}")


def search(pan, folder):
    """Returns (errors, complete, pan's words)."""
    _, said = run([pan, f"-m{DEPTH}"], folder)
    errors = re.search(r"errors: (\d+)", said)
    cut_short = re.search(
        r"max search depth too small|memory|aborted|Search not completed",
        said.split("State-vector")[0],
    )
    return (int(errors.group(1)) if errors else None), not cut_short, said


def check(tools, model, mutation, by_breadth=False):
    """One line about it; returns whether all is well."""
    name = mutation or "as it is"
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        pan = build(tools, model, mutation, folder, by_breadth)
        errors, complete, said = search(pan, folder)
        states = re.search(r"(\d+) states, stored", said)
        what = re.search(r"pan:\d+: (.*?) \(at depth", said)
        memory = re.search(r"([\d.]+)\s+total actual memory", said)
        line = (
            f"{name}: {states.group(1) if states else '?'} states, "
            f"{memory.group(1) if memory else '?'} MiB, {time.monotonic() - began:.1f} s"
        )
        if errors is None:
            print(f"FAIL {line}: the search ended without a result:\n{said}")
            return False
        if mutation:
            found = errors > 0 and what is not None
            print(
                f"{'ok  ' if found else 'FAIL'} {line}: "
                + (f"found: {what.group(1)}" if found else "NOT found")
            )
            return found
        good = errors == 0 and complete
        print(
            f"{'ok  ' if good else 'FAIL'} {line}"
            + ("" if errors == 0 else f": {what.group(1) if what else said}")
            + ("" if complete else ": not searched to the end:\n" + said)
        )
        return good


def trace(tools, model, mutation):
    mutation = None if mutation == "none" else mutation
    with tempfile.TemporaryDirectory() as folder:
        pan = build(tools, model, mutation, folder)
        run([pan, f"-m{DEPTH}"], folder)
        trails = [name for name in os.listdir(folder) if name.endswith(".trail")]
        if not trails:
            sys.exit("no error, so nothing leads to it")
        define = ["-D" + mutation] if mutation else []
        print(
            run(
                [
                    tools["spin"],
                    *define,
                    "-p",
                    "-g",
                    "-l",
                    "-k",
                    os.path.join(folder, trails[0]),
                    model,
                ],
                folder,
            )[1]
        )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--trace", metavar="MUTATION|none")
    options = parser.parse_args()
    tools = {"spin": shutil.which("spin"), "cc": shutil.which("gcc") or shutil.which("cc")}
    if not tools["spin"] or not tools["cc"]:
        missing = "spin (Debian package spin)" if not tools["spin"] else "a C compiler"
        print(f"skipped: {missing} is not installed, so the models cannot be checked")
        return 77
    model = os.path.abspath(options.model)
    if options.trace:
        trace(tools, model, options.trace)
        return 0
    with open(model, encoding="utf-8") as text:
        mutations = re.findall(
            r"^ \* mutation ([A-Z_]+)(, by breadth)?:", text.read(), re.MULTILINE
        )
    if not mutations:
        print(f"FAIL {model}: names no mutation")
        return 1
    results = [check(tools, model, *mutation) for mutation in [(None,), *mutations]]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
