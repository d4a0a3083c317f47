"""A program of one's own (bench/run.py --program): what is run, with which preloads.

The program gets its caller's folder and environment as they are. Libraries that the caller
preloads stay in every run, behind the allocator: the allocator's malloc is the one in use, and
what else those libraries replace they go on replacing.
"""

import os
import re
import shlex
import shutil
import statistics
import subprocess
from pathlib import Path

from lab import allocators, watch, workloads
from lab.front import WrongUse
from lab.measure import built
from lab.results import BASELINE

# What the caller preloads. The processes that measure and ask do so without it: such a library may
# print, or have a malloc of its own.
CALLERS = os.environ.pop("LD_PRELOAD", "")
# CPU time in seconds; a run of less says more about starting processes than about malloc.
SHORT = 0.005


def found_program(word):
    """The path of a command's first word; raises WrongUse."""
    path = shutil.which(word)
    if path is not None:
        return os.path.abspath(path)
    if os.path.isdir(word):
        raise WrongUse(f"{word}: that is a folder, not a program")
    if "/" in word and os.path.exists(word):
        raise WrongUse(f"{word}: it is not executable (chmod +x)")
    hint = ""
    if len(word.split()) > 1:
        hint = f"; a line for a shell is given as: -- sh -c {shlex.quote(word)}"
    raise WrongUse(f"{word}: there is no such program{hint}")


def own_stdin(named):
    """The file for the program's standard input, or None."""
    if named:
        path = os.path.abspath(named)
        if not os.path.isfile(path) or not os.access(path, os.R_OK):
            raise WrongUse(f"--stdin {named}: cannot be read")
        return path
    try:  # bench/run.py --program -- sort < FILE
        path = os.readlink("/proc/self/fd/0")
        if os.path.isfile(path) and os.lseek(0, 0, os.SEEK_CUR) == 0:
            return path
    except OSError:
        pass
    return None


def preloads(found):
    """(the caller's preloads that stay, [what is to be said of them])."""
    kept, said = [], []
    taking_part = {each.library for each in found}
    for word in re.split(r"[ :]+", CALLERS):
        if not word:
            continue
        path = word if "/" in word else allocators.find_library(word) or word
        if allocators.real(path) in taking_part or Path(path).name.startswith("libloam."):
            said.append(f"LD_PRELOAD: {word} is left out: it is an allocator that takes part")
            continue
        kept.append(word)
        try:
            targets = allocators.bound_to(["/bin/true"], word)
        except (OSError, subprocess.SubprocessError):
            continue
        if allocators.real(path) in targets:
            said.append(
                f"LD_PRELOAD: {word} has a malloc of its own: every allocator stands before it"
            )
    return tuple(kept), said


def check_name(name):
    if name and ("/" in name or not name.isprintable() or name.strip(". ") == ""):
        raise WrongUse(f"--name {name!r}: the name of a file is wanted, without / or line breaks")


def task(options, kept):
    words = [found_program(options.command[0]), *options.command[1:]]
    why = allocators.unfit(words)
    if why:
        raise WrongUse(why)
    outputs = [word.strip() for word in options.outputs.split(",") if word.strip()]
    if outputs == ["none"]:
        outputs = []
    outputs = [name if name == "stdout" else os.path.abspath(name) for name in outputs]
    return workloads.user(
        words, options.name, own_stdin(options.stdin), outputs, kept, options.ignore_failure
    )


def foreign_malloc(own, glibc):
    """A program whose malloc is not to be replaced is refused before anything is run."""
    why = allocators.preload_for(own.probe(), glibc, own.preloads, own.env)[1]
    if why:
        raise WrongUse(f"{own.name}: {why}; a preload cannot replace it")


def failure(row):
    """What to say where the command fails on glibc: nothing can be compared with that."""
    failed = row.status == "exit"
    text = (
        f"{row.workload} on {BASELINE}: {row.detail if failed else f'{row.status}: {row.detail}'}"
    )
    more = "; --ignore-failure measures a command that fails as well" if failed else ""
    return f"{text}. Nothing was measured{more}"


def look(bench, own, work, timeout):
    """Watches a run with loam, or another allocator: what is to be said of what ran: [text].

    Pairs of which no figure would be of the allocator are refused from now on.
    """
    rivals = [each for each in bench.allocators if each.name != BASELINE]
    rivals = [each for each in rivals if (own.label, each.name) not in bench.refused]
    if not rivals:
        return []
    one = next((each for each in rivals if each.name == "loam"), rivals[0])
    job = bench.jobs[own.label](0)
    preload = bench.preloads[own.label, one.name]
    try:
        images = watch.watched(job, one, preload, work / "watched", timeout, built("watcher"))
    except watch.CannotWatch as error:
        return [f"which executables ran with {one.name} is not known: {error}"]
    why = watch.refusal(images, one.name)
    for each in rivals if why else ():
        bench.refused[own.label, each.name] = ("refused", why.replace(one.name, each.name))
    return watch.sentences(images, one.name)


def remarks(options, own, rows, ignored):
    """What the reader of the figures should know: [(heading, text)]."""
    said = []
    if own.stdin:
        said.append(("standard input", own.stdin))
    times = [row.cpu_s for row in rows if row.allocator == BASELINE and row.status == "ok"]
    if times and statistics.median(times) < SHORT:
        said.append((
            "short",
            f"a run takes {1000 * statistics.median(times):.1f} ms of CPU time on {BASELINE}: "
            "mostly the start of processes. Let the program do more",
        ))  # fmt: skip
    if options.rounds == 1:
        said.append(("one round", "nothing says how far figures vary: --rounds 5"))
    if options.ignore_failure:
        said += [("failure", f"measured all the same: {text}") for text in sorted(ignored)]
    return said
