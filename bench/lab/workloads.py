"""What is run: a Task is one line of the table, wherever its program comes from.

    micro   a case of bench/workloads/cases.toml with a number of threads; the programs are
            built by `cmake --build --preset release --target bench`
    real    a program of the distribution on an input of its own (programs.py, more_programs.py)
    user    what the command line gave after --program
"""

import os
import shlex
import tomllib
from dataclasses import dataclass
from pathlib import Path

from lab import more_programs, programs
from lab.results import label_of

CASES = Path(__file__).resolve().parents[1] / "workloads" / "cases.toml"
MICRO_QUICK = 0.4
REAL_QUICK = 0.3
# Those of the real programs that a quick run includes: small ones, each of another kind.
QUICK_PROGRAMS = ("sqlite3", "python3", "perl", "gcc", "redis", "lua")


@dataclass(frozen=True)
class Task:
    name: str
    suite: str
    threads: int
    question: str
    tags: tuple
    prepare: object  # (folder for inputs) -> (round -> programs.Job)
    probe: object  # () -> a command whose malloc is looked up
    command: str  # as text, for the records
    sample_rss: bool = False
    latency: bool = False  # it prints how long single calls took: lab/latency.py
    compared: bool = True  # its output must be that on glibc
    any_exit: bool = False  # it may fail, if it fails as on glibc
    preloads: tuple = ()  # libraries of the caller's that are preloaded behind the allocator
    env: dict = None  # its whole environment, where that is the caller's
    stdin: str = None

    @property
    def label(self):
        return label_of(self.suite, self.name, self.threads)


class BadCases(Exception):
    """cases.toml does not say what it must; told in one line."""


def thread_counts(text, cores):
    """[1, 2, 8] of "1,2,8"; N stands for the number of cores. Raises ValueError."""
    counts = []
    for word in text.split(","):
        count = cores if word.strip() in ("N", "n") else int(word)
        if not 1 <= count <= 1024:
            raise ValueError(f"{count} threads")
        if count not in counts:
            counts.append(count)
    return counts


def read_cases(path=CASES):
    try:
        with open(path, "rb") as file:
            cases = tomllib.load(file)["case"]
        for case in cases:
            for name in ("name", "program", "args", "threads", "question", "tags", "quick"):
                if name not in case:
                    raise BadCases(f"{path}: case {case.get('name', '?')} has no {name}")
    except OSError as error:
        raise BadCases(f"{path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, KeyError) as error:
        raise BadCases(f"{path}: {error}") from error
    return cases


def chosen_threads(case, quick, given):
    """The case's own counts, the quick run's, or those given, as far as it can have them."""
    if case["threads"] == [1]:
        return [1]
    if given:
        return [count for count in given if count >= min(case["threads"])]
    return case.get("quick_threads", case["threads"]) if quick else case["threads"]


def micro_task(case, threads, folder, scale, seed):
    binary = folder / case["program"]
    fixed = [str(binary), "--threads", str(threads), "--scale", f"{scale:g}"]

    def command(turn):
        # The same numbers for all allocators, others in each round.
        number = seed if seed is not None else max(1, turn)
        return [*fixed, "--seed", str(number), *(str(word) for word in case["args"])]

    return Task(
        case["name"], "micro", threads, case["question"], tuple(case["tags"]),
        lambda _folder: lambda turn: programs.Job(command(turn)),
        lambda: [str(binary)], shlex.join(command(1)), bool(case.get("sample_rss")),
        latency=bool(case.get("latency")), compared=False,
    )  # fmt: skip


def micro(folder, quick, threads=None, scale=None, seed=None, path=CASES):
    """(tasks, [(name, why it cannot be run)])."""
    tasks, absent = [], []
    for case in read_cases(path):
        if quick and not case["quick"]:
            continue
        if not os.access(folder / case["program"], os.X_OK):
            absent.append((case["name"], f"{folder / case['program']} is not built"))
            continue
        size = (MICRO_QUICK if quick else 1.0) if scale is None else scale
        size *= case.get("scale", 1.0)
        counts = chosen_threads(case, quick, threads)
        if not counts:
            absent.append((case["name"], f"it takes {min(case['threads'])} threads or more"))
        for count in counts:
            tasks.append(micro_task(case, count, folder, size, seed))
    return tasks, absent


def real_task(program, scale):
    def prepare(folder):
        job = programs.prepare(program, scale, folder)
        return lambda _turn: job

    return Task(
        program.name, "real", 1, program.what, ("real",), prepare, program.probe,
        f"real program {program.name} (bench/lab), {scale:g} times its full size",
    )  # fmt: skip


def real(quick, scale=None):
    """(tasks, [(name, why it cannot be run)])."""
    tasks, absent = [], []
    for program in (*programs.PROGRAMS, *more_programs.MORE):
        if quick and program.name not in QUICK_PROGRAMS:
            continue
        missing = program.missing()
        if missing:
            absent.append((program.name, f"no {', '.join(missing)} (package {program.package})"))
            continue
        size = (REAL_QUICK if quick else 1.0) if scale is None else scale
        tasks.append(real_task(program, size))
    return tasks, absent


def user(command, name=None, stdin=None, outputs=("stdout",), preloads=(), any_exit=False):
    """The user's own program: in his folder, with his environment."""
    env = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
    job = programs.Job(
        command, env=env, stdin=stdin, outputs=tuple(outputs), cwd=os.getcwd(), own_env=True,
        preloads=tuple(preloads),
    )  # fmt: skip
    return Task(
        name or Path(command[0]).name, "user", 1, "", ("user",), lambda _folder: lambda _turn: job,
        lambda: command, shlex.join(command), sample_rss=True, compared=True, any_exit=any_exit,
        preloads=tuple(preloads), env=env, stdin=stdin,
    )  # fmt: skip
