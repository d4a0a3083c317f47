"""One measured run: starts a program, waits for its end, prints what it used.

    /usr/bin/python3 -I -S launch.py SPEC

It is a process of its own because it outlives nobody: it ends early, with
everything it started, when its standard input closes or on SIGTERM, however the
runner ended. It cannot see a program that leaves its process group. The measured
program is started by `starter` (starter.c), so that this process's memory is not
counted as the program's.

SPEC is a file, or the number of one that is open. It holds a JSON object:
    starter     the starter's path
    command, env, cwd, stdin, stdout, stderr    what to start (paths or null)
    seconds     time limit; the whole process group is killed past it
    most_output bytes that it may write to stdout and stderr together; it is ended past that
    touch_mb    memory to touch and give back first, so that no run pays the
                host for pages that an earlier run gave back
    thp         "never": no transparent huge pages in the program; "default": as it is
    library     the shared library that must be mapped while it runs
    process     name of the process of the group that is looked at, e.g. cc1;
                null: the started process
    sample_ms   0, or how often the resident memory of that process is written down
    server      null, or {"socket": PATH, "steps": [{"command", "stdin", "stdout"}]}:
                the program is a server; once its socket (a path from cwd)
                answers, the steps run one after the other without the preload,
                then the server gets SIGTERM

The answer, one JSON object on standard output:
    status      ok, exit, crash, timeout, output (too much of it), client (a step failed) or start
    detail      why, in words, where status is not ok
    exit_status the number, where it ended by itself
    library_seen  "map": the line was in its memory map; "open": it ended before anyone
                could look, and the library's file was opened meanwhile; "": neither
    user_s, sys_s, wall_s, minor_faults, major_faults, peak_kib    of the process and
                the children it waited for; peak_kib is that of the largest
    rss         [[ms since the start, KiB], ...] if asked for
"""

import contextlib
import json
import mmap
import os
import resource
import select
import signal
import socket
import sys
import time

LOOK_EVERY = 0.01
# A program that lives longer than this was looked at often enough for its map to count.
OUTRUN = 0.15
PAGE_KIB = resource.getpagesize() // 1024


class Ended(Exception):
    """The run is over before the program ended by itself."""

    def __init__(self, status, detail):
        super().__init__(detail)
        self.status = status
        self.detail = detail


def touch(megabytes):
    """Makes the host back this much memory, then gives it back.

    Once by small pages and once by huge ones: the kernel keeps their free memory apart, and a
    host's page is seen to cost 16 us whichever way the program comes to it.
    """
    for advice in (mmap.MADV_NOHUGEPAGE, mmap.MADV_HUGEPAGE) if megabytes > 0 else ():
        with mmap.mmap(-1, megabytes << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
            with contextlib.suppress(OSError):  # a kernel without huge pages
                memory.madvise(advice)
            for page in range(0, len(memory), resource.getpagesize()):
                memory[page] = 1


def in_child(command, env, cwd, stdin, stdout, stderr):
    os.setpgid(0, 0)
    os.chdir(cwd)
    os.dup2(os.open(stdin or os.devnull, os.O_RDONLY), 0)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    os.dup2(os.open(stdout or os.devnull, flags, 0o644), 1)
    os.dup2(os.open(stderr or os.devnull, flags, 0o644), 2)
    os.execve(command[0], command, env)


def start(command, env, cwd, stdin, stdout, stderr):
    """Forks and executes; returns once the new program image is in place."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reader)
            in_child(command, env, cwd, stdin, stdout, stderr)
        except OSError as error:
            os.write(writer, str(error).encode())
        finally:
            os._exit(127)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        message = pipe.read().decode()
    if message:
        os.waitpid(pid, 0)
        raise Ended("start", f"{command[0]}: {message}")
    return pid


def read_line(handle):
    """A line of the starter's report, as words; none at its end."""
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(handle, 1)
        if not byte:
            break
        line += byte
    return line.decode(errors="replace").split()


def group_members(group, name):
    """Processes of the group that carry this name."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file:
                head, _, tail = file.read().rpartition(")")
        except OSError:
            continue
        if head.partition("(")[2] == name and int(tail.split()[2]) == group:
            found.append(int(entry))
    return found


def resident_kib(pid):
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * PAGE_KIB
    except (OSError, IndexError):
        return 0


def size_of(path):
    try:
        return os.stat(path).st_size if path else 0
    except OSError:
        return 0


def maps_library(pid, library):
    try:
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as file:
            return any(line.rstrip("\n").endswith(" " + library) for line in file)
    except OSError:
        return False


class Run:
    def __init__(self, spec):
        self.spec = spec
        self.deadline = time.monotonic() + spec["seconds"]
        self.seen = False
        self.samples = []
        self.next_sample = 0
        self.groups = []
        # SIGTERM arrives through a pipe: an exception might lose a process just started.
        self.told, teller = os.pipe()
        signal.signal(signal.SIGTERM, lambda *_: os.write(teller, b"x"))

    def spawn(self, command, env, stdin, stdout, stderr):
        pid = start(command, env, self.spec["cwd"], stdin, stdout, stderr)
        self.groups.append(pid)
        return pid

    def look(self, pid):
        if self.seen and not self.spec["sample_ms"]:
            return
        name = self.spec["process"]
        pids = group_members(pid, name) if name else [pid]
        if not self.seen:
            self.seen = any(maps_library(each, self.spec["library"]) for each in pids)
        if self.spec["sample_ms"] and time.monotonic() >= self.next_sample:
            now = time.monotonic()
            self.next_sample = now + self.spec["sample_ms"] / 1000
            kib = sum(resident_kib(each) for each in pids)
            if kib:
                self.samples.append([round(1000 * (now - self.started), 1), kib])

    def wait_readable(self, handles, pid, seconds=None):
        """Those of the handles that are readable, none only after so many seconds.

        Looks at the program meanwhile, and ends with the demo.
        """
        until = None if seconds is None else time.monotonic() + seconds
        while True:
            self.look(pid)
            left = self.deadline - time.monotonic()
            if left <= 0:
                raise Ended("timeout", f"no end after {self.spec['seconds']:g} s")
            self.check_output()
            idle = self.seen and until is None and not self.spec["sample_ms"]
            pause = min(left, 1.0 if idle else LOOK_EVERY)
            ready = select.select([0, self.told, *handles], [], [], pause)[0]
            if self.told in ready or (0 in ready and not os.read(0, 1)):
                raise Ended("stopped", "the demo went away")
            ready = [handle for handle in ready if handle in handles]
            if ready or (until is not None and time.monotonic() >= until):
                return ready

    def check_output(self):
        written = sum(size_of(self.spec[name]) for name in ("stdout", "stderr"))
        if written > self.spec["most_output"]:
            most = self.spec["most_output"] >> 20
            raise Ended("output", f"more than {most} MiB of output (--outputs none keeps none)")

    def wait_ready(self, pid, handle):
        path = self.spec["server"]["socket"]
        while True:
            with socket.socket(socket.AF_UNIX) as probe:
                try:
                    probe.connect(path)
                    probe.sendall(b"PING\r\n")
                    if handle in self.wait_readable([handle, probe.fileno()], pid):
                        return False
                    if probe.recv(64).startswith(b"+PONG"):
                        return True
                except OSError:
                    pass
            if self.wait_readable([handle], pid, LOOK_EVERY):
                return False

    def run_step(self, step, pid, handle):
        env = {"PATH": self.spec["env"].get("PATH", "/usr/bin:/bin"), "LC_ALL": "C"}
        client = self.spawn(
            step["command"], env, step.get("stdin"), step.get("stdout"), self.spec["stderr"]
        )
        client_handle = os.pidfd_open(client)
        try:
            ready = self.wait_readable([handle, client_handle], pid)
            if client_handle not in ready:
                return False
            code = os.waitstatus_to_exitcode(os.waitpid(client, 0)[1])
            if code != 0 and not self.wait_readable([handle], pid, 0.2):
                raise Ended("client", f"{os.path.basename(step['command'][0])} ended with {code}")
            return code == 0
        finally:
            os.close(client_handle)

    def serve(self, pid, handle):
        """Drives a server through its steps; stops at once when it has died."""
        if not self.wait_ready(pid, handle):
            return
        for step in self.spec["server"]["steps"]:
            if not self.run_step(step, pid, handle):
                return
        os.kill(pid, signal.SIGTERM)

    def start_measured(self):
        """(process id, where the starter will say what was used)."""
        spec = self.spec
        reader, writer = os.pipe()
        os.set_inheritable(writer, True)
        words = [f"{name}={value}" for name, value in spec["env"].items()]
        command = [spec["starter"], str(writer), spec["library"], spec["thp"], str(len(words))]
        command += [*words, *spec["command"]]
        self.started = time.monotonic()
        self.spawn(command, {}, spec["stdin"], spec["stdout"], spec["stderr"])
        os.close(writer)
        said = read_line(reader)
        if said[:1] != ["started"]:
            raise Ended("start", " ".join(said[1:]) or "the starter said nothing")
        pid = int(said[1])
        self.groups.append(pid)
        return pid, reader

    def measure(self):
        """(Ended or None, what the starter reported)."""
        touch(self.spec["touch_mb"])
        pid, handle = self.start_measured()
        try:
            if self.spec["server"]:
                self.serve(pid, handle)
            self.wait_readable([handle], pid)
            ended = None
        except Ended as early:
            ended = early
            end_group(pid)
        said = read_line(handle)
        if said[:1] != ["ended"]:
            raise Ended("start", "the starter died")
        return ended, [int(word) for word in said[1:]]

    def end_all(self):
        for group in self.groups:
            end_group(group)
            try:
                os.waitpid(group, 0)
            except ChildProcessError:
                pass


def end_group(group):
    try:
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def describe(ended, status):
    """(status, detail) of a program that ended, or that had to be ended."""
    if ended:
        return ended.status, ended.detail
    if os.WIFSIGNALED(status):
        return "crash", signal_name(os.WTERMSIG(status))
    code = os.WEXITSTATUS(status)
    return ("ok", "") if code == 0 else ("exit", f"exit status {code}{meaning(code)}")


def signal_name(number):
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"  # most of the real-time signals have no name


def meaning(code):
    """What a shell means by an exit status: a signal ended the command that it ran."""
    if code > 128:
        with contextlib.suppress(ValueError):
            return f" (in a shell: ended by {signal.Signals(code - 128).name})"
    return ""


def seen_how(run, wall, opened):
    if run.seen:
        return "map"
    return "open" if opened and wall < OUTRUN and not run.spec["process"] else ""


def answer(spec):
    run = Run(spec)
    try:
        ended, (status, user, system, wall, minor, major, peak, opened) = run.measure()
        what, detail = describe(ended, status)
        return {
            "status": what,
            "detail": detail,
            "exit_status": os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
            "library_seen": seen_how(run, wall / 1e6, opened),
            "user_s": user / 1e6,
            "sys_s": system / 1e6,
            "wall_s": wall / 1e6,
            "minor_faults": minor,
            "major_faults": major,
            "peak_kib": peak,
            "rss": run.samples,
        }
    except Ended as error:
        return {"status": error.status, "detail": error.detail}
    finally:
        run.end_all()


def main():
    place = sys.argv[1]
    with open(int(place) if place.isdigit() else place, encoding="utf-8") as file:
        spec = json.load(file)
    os.chdir(spec["cwd"])
    print(json.dumps(answer(spec)), flush=True)


if __name__ == "__main__":
    main()
