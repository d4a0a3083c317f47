"""Runs the demo's programs, one after the other, and judges each run.

Launcher starts launch.py for one run and can end it at any moment. Demo knows
the order of the runs, which pairs are refused, and what each program must have
written: what it wrote in the reference run on glibc, which comes first.
"""

import hashlib
import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

from lab import allocators, programs
from lab.results import BASELINE, Row, rotated

LAUNCH = Path(__file__).resolve().parent / "launch.py"
TOUCH_MB = 256
MEASURES = ("user_s", "sys_s", "wall_s", "minor_faults", "peak_kib")


class Interrupts:
    """Ctrl-C, TERM and HUP as KeyboardInterrupt, but not while a process is being
    started: it would be lost before anyone could end it."""

    def __init__(self):
        self.held = False
        self.pending = False

    def install(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self.arrive)

    def arrive(self, _number, _frame):
        if not self.held:
            raise KeyboardInterrupt
        self.pending = True

    def __enter__(self):
        self.held = True

    def __exit__(self, *_):
        self.held = False
        if self.pending:
            self.pending = False
            raise KeyboardInterrupt


INTERRUPTS = Interrupts()


class Launcher:
    """Runs launch.py once for each run; knows how to end it at any moment."""

    def __init__(self, work, timeout):
        self.work = work
        self.timeout = timeout
        self.process = None

    def specify(self, job, allocator, preload, folder):
        server = None
        if job.server:
            steps = []
            for step in job.server["steps"]:
                out = step.get("stdout")
                steps.append({**step, "stdout": str(folder / out) if out else None})
            server = {"socket": job.server["socket"], "steps": steps}
        return {
            "command": job.command,
            "env": programs.environment(job, preload),
            "cwd": str(folder),
            "stdin": job.stdin,
            "stdout": str(folder / "stdout"),
            "stderr": str(folder / "stderr"),
            "seconds": self.timeout,
            "touch_mb": TOUCH_MB,
            "library": allocator.library,
            "process": job.process,
            "server": server,
        }

    def run(self, job, allocator, preload, folder):
        """launch.py's answer to one run."""
        spec = self.work / "spec.json"
        spec.write_text(json.dumps(self.specify(job, allocator, preload, folder)))
        command = ["/usr/bin/python3", "-I", "-S", str(LAUNCH), str(spec)]
        try:
            with INTERRUPTS:
                # A session of its own, so that Ctrl-C reaches this process alone.
                self.process = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
                )
            text = self.process.stdout.read()
            self.process.wait()
        finally:
            self.stop()
        if not text:
            return {"status": "start", "detail": "launch.py gave no answer"}
        return json.loads(text)

    def stop(self):
        """Ends what runs. launch.py ends its children when its input closes."""
        process, self.process = self.process, None
        if process is None:
            return
        process.stdin.close()
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        process.stdout.close()


def digest(folder, names):
    """One SHA-256 over the output files, or None where one is missing."""
    total = hashlib.sha256()
    for name in names:
        try:
            with open(folder / name, "rb") as file:
                content = hashlib.file_digest(file, "sha256").digest()
        except OSError:
            return None
        total.update(content)
    return total.hexdigest()


def last_words(folder):
    """The last line of what the program said on stderr, shortened."""
    try:
        lines = (folder / "stderr").read_text(errors="replace").strip().splitlines()
    except OSError:
        return ""
    return f": {lines[-1][:120]}" if lines else ""


class Demo:
    def __init__(self, options, chosen_programs, found, work):
        self.options = options
        self.programs = chosen_programs
        self.allocators = found
        self.work = work
        self.launcher = Launcher(work, options.timeout)
        self.expected = {}
        self.jobs = {}
        self.preloads = {}
        self.refused = {}

    def set_up(self):
        """Writes the inputs and proves, pair by pair, which malloc is in use."""
        for program in self.programs:
            self.jobs[program.name] = programs.prepare(program, self.options.quick, self.work)
            for allocator in self.allocators:
                preload, why = allocators.preload_for(program, allocator)
                pair = (program.name, allocator.name)
                if why:
                    self.refused[pair] = ("refused", why)
                self.preloads[pair] = preload

    def judge(self, answer, program, allocator, folder):
        """(status, detail, digest) of a run that launch.py has answered for."""
        if answer["status"] != "ok":
            return answer["status"], answer["detail"] + last_words(folder), ""
        if not answer["library_seen"]:
            return "refused", f"{allocator.library} was not in its memory map", ""
        found = digest(folder, self.jobs[program.name].outputs)
        if found is None:
            return "differs", "it wrote no output", ""
        if allocator.name == BASELINE:
            self.expected.setdefault(program.name, found)
        wanted = self.expected.get(program.name)
        if wanted is None:
            return "differs", "there is no output on glibc to compare with", found
        if found != wanted:
            return "differs", "its output is not that on glibc", found
        return "ok", "", found

    def measure(self, turn, program, allocator):
        pair = (program.name, allocator.name)
        if pair in self.refused:
            status, detail = self.refused[pair]
            return Row(turn, *pair, status, detail=detail)
        folder = self.work / program.name / "out"
        programs.clear_folder(folder)
        job = self.jobs[program.name]
        answer = self.launcher.run(job, allocator, self.preloads[pair], folder)
        status, detail, found = self.judge(answer, program, allocator, folder)
        if status == "timeout":
            self.refused[pair] = (status, "not tried again")
        if status == "ok":
            shutil.rmtree(folder)
        measured = {name: answer[name] for name in MEASURES if name in answer}
        return Row(turn, *pair, status, **measured, output_sha256=found, detail=detail)

    def turns(self):
        """(round, program, allocators in this round's order) of everything to run.

        Round 0 is the reference: glibc alone, whose output all others are compared
        with. It also warms the file cache, and is not among the measured rows.
        """
        baseline = [each for each in self.allocators if each.name == BASELINE]
        for program in self.programs:
            yield 0, program, baseline
        for turn in range(self.options.rounds):
            for place, program in enumerate(self.programs):
                yield turn + 1, program, rotated(self.allocators, turn + place)

    def run(self, progress):
        for turn, program, order in self.turns():
            for allocator in order:
                progress.begin(turn, self.options.rounds, program.name, allocator.name)
                row = self.measure(turn, program, allocator)
                progress.end(row)
                yield row
            progress.finish_group()
