"""Runs tasks on allocators, one process at a time, and judges each run.

Launcher starts launch.py for one run and can end it at any moment. Bench knows
the order of the runs, which pairs are refused, how much memory each run will
need, and what each program must have written: what it wrote in the reference run
on glibc, which comes first.
"""

import datetime
import hashlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

from lab import allocators, latency, programs
from lab.results import BASELINE, Row, rotated

HERE = Path(__file__).resolve().parent
TOOLS = HERE.parents[1] / "build" / "lab"
STARTER = TOOLS / "starter"
# What a program may write to standard output and error, in bytes: the comparison needs it whole.
MOST_OUTPUT = 4 << 30
SAMPLE_MS = 10
# The touched memory: at least this, and more than the workload was ever seen to need.
LEAST_TOUCH = 64
TOUCH_MARGIN = 1.2
MEASURES = ("user_s", "sys_s", "wall_s", "minor_faults", "major_faults", "peak_kib")


class NoStarter(Exception):
    """The starter or the watcher cannot be built; told in one line."""


def built_starter(path=STARTER):
    return built("starter", path)


def built(name, path=None):
    """Compiles starter.c or watcher.c unless that has been done; returns the program's path."""
    path = path or TOOLS / name
    source = HERE / f"{name}.c"
    if path.exists() and path.stat().st_mtime >= source.stat().st_mtime:
        return str(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        fresh = Path(folder) / name
        command = ["cc", "-std=c11", "-D_GNU_SOURCE", "-O2", "-o", str(fresh), str(source)]
        try:
            subprocess.run(command, check=True, capture_output=True, text=True)
        except FileNotFoundError as error:
            raise NoStarter(f"there is no C compiler (cc) for bench/lab/{name}.c") from error
        except subprocess.CalledProcessError as error:
            raise NoStarter(f"bench/lab/{name}.c: {error.stderr.strip()[:200]}") from error
        os.replace(fresh, path)
    return str(path)


def available_mb():
    """Memory that can be touched without harm, in MiB."""
    with open("/proc/meminfo", encoding="ascii") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) // 1024
    return LEAST_TOUCH


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

    def __init__(self, timeout, thp="default"):
        self.timeout = timeout
        self.thp = thp
        self.starter = built_starter()
        self.process = None

    def specify(self, job, allocator, preload, folder, touch_mb, sample):
        server = None
        if job.server:
            steps = []
            for step in job.server["steps"]:
                out = step.get("stdout")
                steps.append({**step, "stdout": str(folder / out) if out else None})
            server = {"socket": job.server["socket"], "steps": steps}
        return {
            "starter": self.starter,
            "command": job.command,
            "env": programs.environment(job, preload, allocator.env),
            "cwd": job.cwd or str(folder),
            "stdin": job.stdin,
            "stdout": (
                str(folder / "stdout") if not job.own_env or "stdout" in job.outputs else None
            ),
            "stderr": str(folder / "stderr"),
            "seconds": self.timeout,
            "most_output": min(MOST_OUTPUT, shutil.disk_usage(folder).free // 2),
            "touch_mb": touch_mb,
            "thp": self.thp,
            "library": allocator.library,
            "process": job.process,
            "sample_ms": SAMPLE_MS if sample else 0,
            "server": server,
        }

    def run(self, *arguments):
        """launch.py's answer to one run."""
        # In a file: an environment may be longer than what one argument of a program can be.
        with tempfile.TemporaryFile("w+", prefix="loam-bench-") as file:
            json.dump(self.specify(*arguments), file)
            file.flush()
            file.seek(0)
            command = ["/usr/bin/python3", "-I", "-S", str(HERE / "launch.py"), str(file.fileno())]
            try:
                with INTERRUPTS:
                    # A session of its own, so that Ctrl-C reaches this process alone.
                    self.process = subprocess.Popen(
                        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                        pass_fds=(file.fileno(),), start_new_session=True,
                    )  # fmt: skip
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


def digest(folder, names, since=0.0, exit_status=0):
    """One SHA-256 over the output files, or None where one is missing or is an old one."""
    total = hashlib.sha256()
    if exit_status:
        total.update(f"exit status {exit_status}\n".encode())
    for name in names:
        try:
            with open(folder / name, "rb") as file:
                if os.fstat(file.fileno()).st_mtime < since:
                    return None
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


class Bench:
    """Tasks on allocators, `rounds` times; `done` has the (round, label, allocator) that are there.

    on_samples is told of each row with resident memory over time: (row, [[ms, KiB]]).
    on_latency is told of each row with the latencies of calls: (row, {call: latency.Latency}).
    """

    def __init__(self, tasks, found, work, rounds, timeout, thp="default", done=(), stamp=None):
        self.tasks = tasks
        self.allocators = found
        self.work = work
        self.rounds = rounds
        self.done = set(done)
        self.stamp = stamp or {}
        self.launcher = Launcher(timeout, thp)
        self.on_samples = lambda row, samples: None
        self.on_latency = lambda row, found: None
        self.expected = {}
        self.jobs = {}
        self.preloads = {}
        self.refused = {}
        self.ignored = set()  # exit statuses other than 0 that were let pass, in words
        self.peaks = {}

    def set_up(self):
        """Writes the inputs and proves, pair by pair, which malloc is in use.

        A task that cannot be prepared is refused on every allocator; the others go on.
        """
        known = {}
        for task in self.tasks:
            try:
                probe = task.probe()
                self.jobs[task.label] = task.prepare(self.work)
            except (OSError, subprocess.SubprocessError) as error:
                for allocator in self.allocators:
                    why = f"it cannot be prepared: {error}"
                    self.refused[task.label, allocator.name] = ("refused", why)
                continue
            for allocator in self.allocators:
                key = (probe[0], allocator.library)
                if key not in known:
                    known[key] = allocators.preload_for(probe, allocator, task.preloads, task.env)
                preload, why = known[key]
                pair = (task.label, allocator.name)
                if why:
                    self.refused[pair] = ("refused", why)
                self.preloads[pair] = preload

    def judge(self, answer, task, allocator, job, folder, since=0.0):
        """(status, detail, digest) of a run that launch.py has answered for."""
        passing = ("ok", "exit") if task.any_exit else ("ok",)
        if answer["status"] not in passing:
            return answer["status"], answer["detail"] + last_words(folder), ""
        if not answer["library_seen"]:
            return "refused", f"{allocator.library} was not in its memory map", ""
        if answer["status"] == "exit":
            self.ignored.add(answer["detail"] + last_words(folder))
        found = digest(folder, job.outputs, since, answer.get("exit_status"))
        if found is None:
            return "differs", "it wrote no output", ""
        if not task.compared:
            return "ok", "", found
        if allocator.name == BASELINE:
            self.expected.setdefault(task.label, found)
        wanted = self.expected.get(task.label)
        if wanted is None:
            return "differs", "there is no output on glibc to compare with", found
        if found == wanted:
            return "ok", "", found
        if allocator.name == BASELINE:
            more = " (--outputs none compares nothing)" if task.suite == "user" else ""
            return "differs", f"it writes something else each time, even on glibc{more}", found
        return "differs", "its output is not that on glibc", found

    def touch_mb(self, label):
        """As much as the task was seen to need on any allocator, and some more."""
        wanted = self.peaks.get(label, 0) / 1024 * TOUCH_MARGIN
        return int(min(max(LEAST_TOUCH, wanted), available_mb() * 0.7))

    def row(self, turn, task, allocator, status, detail="", **more):
        return Row(
            turn, task.name, allocator.name, status, " ".join(detail.split()),
            task.suite, task.threads,
            started=datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
            **self.stamp, **more,
        )  # fmt: skip

    def measure(self, turn, task, allocator):
        """The row of one run; trouble of this machine (a full disk) is a row as well."""
        pair = (task.label, allocator.name)
        if pair in self.refused:
            return self.row(turn, task, allocator, *self.refused[pair])
        try:
            return self.measure_pair(turn, task, allocator, pair)
        except OSError as error:
            return self.row(turn, task, allocator, "start", str(error))

    def measure_pair(self, turn, task, allocator, pair):
        folder = self.work / "out" / task.label
        programs.clear_folder(folder)
        job = self.jobs[task.label](turn)
        since = float(int(datetime.datetime.now().timestamp()))
        answer = self.launcher.run(
            job, allocator, self.preloads[pair], folder, self.touch_mb(task.label),
            task.sample_rss and turn > 0,
        )  # fmt: skip
        status, detail, found = self.judge(answer, task, allocator, job, folder, since)
        latencies = {}
        if status == "ok" and task.latency:
            latencies = latency.parse((folder / "stdout").read_text(encoding="utf-8"))
            if not latencies:
                status, detail = "differs", "it printed no latencies"
        if status == "timeout":
            self.refused[pair] = (status, "not tried again")
        if status == "ok":
            shutil.rmtree(folder)
            self.peaks[task.label] = max(self.peaks.get(task.label, 0), answer["peak_kib"])
        measured = {name: answer[name] for name in MEASURES if name in answer}
        row = self.row(
            turn, task, allocator, status, detail, **measured, output_sha256=found,
            command=self.command_line(job, pair, allocator),
        )  # fmt: skip
        if answer.get("rss"):
            self.on_samples(row, answer["rss"])
        if latencies and turn > 0:
            self.on_latency(row, latencies)
        return row

    def command_line(self, job, pair, allocator):
        """As one would type it, but for the input and the fixed environment."""
        words = [f"{name}={value}" for name, value in allocator.env]
        libraries = [self.preloads[pair], *job.preloads]
        if any(libraries):
            words.append(f"LD_PRELOAD={':'.join(filter(None, libraries))}")
        return programs.shell_line([*words, *job.command], job.stdin)

    def turns(self):
        """(round, task, allocators in this round's order) of everything left to run.

        Round 0 is the reference: glibc alone, whose output all others are compared
        with. It also warms the file cache and shows how much memory the task
        needs; it is not among the measured rows.
        """
        later = []
        for turn in range(self.rounds):
            for place, task in enumerate(self.tasks):
                order = [
                    allocator
                    for allocator in rotated(self.allocators, turn + place)
                    if (turn + 1, task.label, allocator.name) not in self.done
                ]
                if order:
                    later.append((turn + 1, task, order))
        baseline = [each for each in self.allocators if each.name == BASELINE]
        waiting = {task.label for _, task, _ in later}
        for task in self.tasks:
            if task.label in waiting:
                yield 0, task, baseline
        yield from later

    def total(self):
        return sum(len(order) for _, _, order in self.turns())

    def run(self, progress):
        for turn, task, order in self.turns():
            for allocator in order:
                progress.begin(turn, self.rounds, task.label, allocator.name)
                row = self.measure(turn, task, allocator)
                progress.end(row)
                yield row
            progress.finish_group()
