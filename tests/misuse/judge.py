"""judge.py: makes one mistake at a time on one allocator, and says whether it was stopped.

The protocol, for all allocators the same:

  1. A case is a process of its own: `<family> <case>` (misuse.h), the allocator preloaded, its
     address space random as the system makes it, no core files, TIMEOUT seconds at most.
  2. The case names its pointer on standard output before it makes the mistake. What ends before
     that is "broken": the allocator does not run the program, which says nothing about the mistake.
  3. After the mistake the case frees the damaged block, does a fixed amount of ordinary work, in
     which freed addresses come back, writes "survived" and exits 42; or 43, as soon as memory in
     use is handed out again: the mistake had its effect, and a crash that might follow does not
     count. Cases that can look for the bad effect themselves exit 42 where it is there, and 0
     ("prevented") where it is not.
  4. A run is stopped if the process dies by SIGABRT, SIGSEGV, SIGBUS, SIGTRAP or SIGILL before it
     has written "survived", or is prevented. Everything else is not: exits with any status, other
     signals, time-outs.
  5. A case is run RUNS times and counts as stopped if every run was; if only some were, it is a
     matter of chance, is told so, and does not count.

A process that dies in the ordinary work of SIGSEGV or SIGBUS without a word has stumbled over its
damaged heap more than it was stopped. By rule 4 it counts; how many of an allocator's are such
crashes is told beside. Messages are not asked for here; misuse.py asks for loam's.
"""

import os
import resource
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

RUNS = 5
TIMEOUT = 20
DEADLY = {signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGTRAP, signal.SIGILL}

STOPPED, PREVENTED, SURVIVED, BROKEN = "stopped", "prevented", "survived", "broken"
CHANCE = "chance"


@dataclass(frozen=True)
class Case:
    family: str
    name: str
    counted: bool
    what: str
    program: str

    @property
    def id(self):
        return f"{self.family}/{self.name}"


@dataclass(frozen=True)
class Run:
    outcome: str  # STOPPED, PREVENTED, SURVIVED or BROKEN
    ending: str  # SIGABRT, exit 42, time-out
    stdout: str = ""
    stderr: str = ""

    @property
    def good(self):
        return self.outcome in (STOPPED, PREVENTED)

    @property
    def crash(self):
        """Whether it was the work after the mistake that faulted, without a message."""
        faulted = self.ending in ("SIGSEGV", "SIGBUS") and not self.stderr.strip()
        return self.outcome == STOPPED and faulted and "work" in self.stdout.splitlines()


@dataclass
class Result:
    case: Case
    runs: list = field(default_factory=list)

    @property
    def verdict(self):
        good = sum(run.good for run in self.runs)
        if good == len(self.runs):
            return STOPPED
        if any(run.outcome == BROKEN for run in self.runs):
            return BROKEN
        return CHANCE if good else SURVIVED

    @property
    def share(self):
        """Of the runs, those in which it was stopped: 0 to 1."""
        return sum(run.good for run in self.runs) / len(self.runs)

    @property
    def crash(self):
        """Whether it counts as stopped, but only crashed in some run."""
        return self.verdict == STOPPED and any(run.crash for run in self.runs)

    @property
    def endings(self):
        """How the runs ended, each way once."""
        return ", ".join(dict.fromkeys(run.ending for run in self.runs))

    @property
    def message(self):
        """The first line that a run wrote to standard error."""
        lines = [line for run in self.runs for line in run.stderr.splitlines() if line.strip()]
        return lines[0].strip() if lines else ""


def listed(programs):
    """All cases of the programs in a folder, in the order of their sources."""
    found = []
    for family in sorted(os.listdir(programs)):
        program = os.path.join(programs, family)
        if not os.path.isfile(program) or not os.access(program, os.X_OK):
            continue
        shown = subprocess.run([program, "--list"], capture_output=True, text=True, check=True)
        for line in shown.stdout.splitlines():
            name, counted, what = line.split("\t")
            found.append(Case(family, name, counted == "counted", what, program))
    return found


def environment(preload, settings=()):
    """What a case runs in: nothing of the caller's that would change an allocator."""
    made = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", **dict(settings)}
    if preload:
        made["LD_PRELOAD"] = preload
    return made


def run(case, env, timeout=TIMEOUT):
    """One process, one mistake."""
    try:
        done = subprocess.run(
            [case.program, case.name],
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout,
            check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)),
        )
    except subprocess.TimeoutExpired as late:
        said = (late.stdout or b"").decode(errors="replace")
        return Run(SURVIVED if "pointer " in said else BROKEN, "time-out", said)
    stdout, stderr = (text.decode(errors="replace") for text in (done.stdout, done.stderr))
    return Run(outcome(done.returncode, stdout), ending(done.returncode), stdout, stderr)


def outcome(status, stdout):
    lines = stdout.splitlines()
    if not any(line.startswith("pointer ") for line in lines):
        return BROKEN
    if any(line.startswith("survived") for line in lines):
        return SURVIVED
    if status < 0 and -status in DEADLY:
        return STOPPED
    return PREVENTED if status == 0 and "prevented" in lines else SURVIVED


def ending(status):
    if status >= 0:
        return f"exit {status}"
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"


def judge(cases, env, runs=RUNS, jobs=None, done=lambda result: None):
    """A Result for each case, in their order; done() hears of each as it is complete."""

    def of(case):
        result = Result(case, [run(case, env) for _ in range(runs)])
        done(result)
        return result

    with ThreadPoolExecutor(jobs or os.cpu_count()) as pool:
        return list(pool.map(of, cases))
