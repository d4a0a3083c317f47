"""One measured run: starts a program, waits for its end, prints what it used.

    /usr/bin/python3 -I -S launch.py SPEC.json

It is a process of its own, and a small one, because Linux hands a process the
peak memory of whoever forked it: the program would otherwise be charged with
the plotting library of the demo. (Its own 10 MB stay the least it can report.)

The specification, a JSON object:
    command, env, cwd, stdin, stdout, stderr    what to start (paths or null)
    seconds     time limit; the whole process group is killed past it
    touch_mb    memory to touch and give back first, so that no run pays the
                host for pages that an earlier run gave back
    library     the shared library that must be mapped while it runs
    process     name of the process of the group that is looked at, e.g. cc1;
                null: the started process
    server      null, or {"socket": PATH, "steps": [{"command", "stdin", "stdout"}]}:
                the program is a server; once its socket (a path from cwd)
                answers, the steps run one after the other without the preload,
                then the server gets SIGTERM

The answer, one JSON object on standard output:
    status      ok, exit, crash, timeout, client (a step failed) or start
    detail      why, in words, where status is not ok
    library_seen  whether the map line was there
    user_s, sys_s, wall_s, minor_faults, peak_kib    of the process and the
                children it waited for; peak_kib is that of the largest

It ends early, with everything it started, when its standard input closes or on
SIGTERM: no server outlives the demo, however the demo ended. It cannot see a program that
leaves its process group.
"""

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


class Ended(Exception):
    """The run is over before the program ended by itself."""

    def __init__(self, status, detail):
        super().__init__(detail)
        self.status = status
        self.detail = detail


def touch(megabytes):
    """Makes the host back this much memory, then gives it back."""
    if megabytes > 0:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE
        mmap.mmap(-1, megabytes << 20, flags=flags).close()


def in_child(command, env, cwd, stdin, stdout, stderr):
    os.setpgid(0, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
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
        self.groups = []
        # SIGTERM arrives through a pipe: an exception might lose a process just started.
        self.told, teller = os.pipe()
        signal.signal(signal.SIGTERM, lambda *_: os.write(teller, b"x"))

    def spawn(self, command, env, stdin, stdout, stderr):
        pid = start(command, env, self.spec["cwd"], stdin, stdout, stderr)
        self.groups.append(pid)
        return pid

    def look(self, pid):
        if not self.seen:
            name = self.spec["process"]
            pids = group_members(pid, name) if name else [pid]
            self.seen = any(maps_library(each, self.spec["library"]) for each in pids)

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
            pause = left if self.seen and until is None else min(left, LOOK_EVERY)
            ready = select.select([0, self.told, *handles], [], [], pause)[0]
            if self.told in ready or (0 in ready and not os.read(0, 1)):
                raise Ended("stopped", "the demo went away")
            ready = [handle for handle in ready if handle in handles]
            if ready or (until is not None and time.monotonic() >= until):
                return ready

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

    def measure(self):
        spec = self.spec
        touch(spec["touch_mb"])
        started = time.monotonic()
        pid = self.spawn(
            spec["command"], spec["env"], spec["stdin"], spec["stdout"], spec["stderr"]
        )
        handle = os.pidfd_open(pid)
        try:
            if spec["server"]:
                self.serve(pid, handle)
            self.wait_readable([handle], pid)
            ended = None
        except Ended as early:
            ended = early
            os.killpg(pid, signal.SIGKILL)
        _, status, used = os.wait4(pid, 0)
        self.wall = time.monotonic() - started
        return ended, status, used

    def end_all(self):
        for group in self.groups:
            try:
                os.killpg(group, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass
            try:
                os.waitpid(group, 0)
            except ChildProcessError:
                pass


def describe(ended, status):
    """(status, detail) of a program that ended, or that had to be ended."""
    if ended:
        return ended.status, ended.detail
    if os.WIFSIGNALED(status):
        return "crash", signal.Signals(os.WTERMSIG(status)).name
    code = os.WEXITSTATUS(status)
    return ("ok", "") if code == 0 else ("exit", f"exit status {code}")


def answer(spec):
    run = Run(spec)
    try:
        ended, status, used = run.measure()
        what, detail = describe(ended, status)
        return {
            "status": what,
            "detail": detail,
            "library_seen": run.seen,
            "user_s": used.ru_utime,
            "sys_s": used.ru_stime,
            "wall_s": run.wall,
            "minor_faults": used.ru_minflt,
            "peak_kib": used.ru_maxrss,
        }
    except Ended as error:
        return {"status": error.status, "detail": error.detail}
    finally:
        run.end_all()


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        spec = json.load(file)
    os.chdir(spec["cwd"])
    print(json.dumps(answer(spec)), flush=True)


if __name__ == "__main__":
    main()
