"""What the tests of real programs have in common: run a program unchanged with a malloc preloaded.

A test is one file, <program>_test.py, with one function that is handed a Bench:

    def test(bench):
        bench.need("perl")                                # or the test is skipped, and says why
        plain = bench.run(["perl", script], preload=False)
        loam = bench.run(["perl", script])                # fails where anything complains
        bench.same(plain.out, loam.out, "output")

    preload.main(test)

The library comes by the environment variable LOAM_LIB: any malloc that can be preloaded will do,
so the tests themselves can be tested against another allocator. What is checked everywhere:

  - the exit status, and that nothing on stderr is loam's or the dynamic linker's complaint;
  - that the preload took effect, in the very process that does the work: by a copy of its
    /proc/self/maps (Bench.mapped) or by what its calls of malloc were bound to (Bench.answers);
  - that nothing is left running. Every process started here, and every orphan of one, is a
    descendant of the test until the test has ended it; one that is still there fails the test.

What it cannot do: programs linked statically, or setuid, take no preload; nothing here looks at
speed or memory. Exit status: 0 passed, 1 failed, 77 skipped, 2 called wrongly.

LOAM_TEST_KEEP=1 keeps the temporary folder. LOAM_TEST_SECONDS is the time a test gives itself,
a little less than what ctest gives it, so that servers are ended in order.
"""

import collections
import ctypes
import difflib
import os
import pathlib
import pwd
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
LIBC = ctypes.CDLL(None, use_errno=True)

SEARCH_PATH = os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/sbin:/sbin"
COMPLAINT = re.compile(rb"^.*(?:\bloam: |ERROR: ld\.so:).*$", re.MULTILINE)

Result = collections.namedtuple("Result", "out err status")


class Failed(Exception):
    """The test has found something wrong."""


class Skipped(Exception):
    """The test cannot run here."""


def expect(condition, message):
    if not condition:
        raise Failed(message)


def tail(text, lines=25):
    return "\n".join(text.decode("utf-8", "replace").splitlines()[-lines:])


def quoted(argv):
    return " ".join(shlex.quote(str(word)) for word in argv)


def wait_until(condition, what, seconds=20.0):
    """The first true value of condition(), which is asked every 20 ms."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        expect(time.monotonic() < deadline, f"waited {seconds:.0f} s in vain for {what}")
        time.sleep(0.02)


def free_port():
    """A loopback port that nobody listens on. Another process may take it before it is used."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def answers_on(port):
    with socket.socket() as sock:
        sock.settimeout(1)
        return sock.connect_ex(("127.0.0.1", port)) == 0


# ---- processes -----------------------------------------------------------------------------------


def descendants(root):
    """{pid: name} of everything below process `root`, zombies left out."""
    children = collections.defaultdict(list)
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            text = pathlib.Path("/proc", entry, "stat").read_text(errors="replace")
        except OSError:
            continue  # ended meanwhile
        name, fields = (
            text[text.index("(") + 1 : text.rindex(")")],
            text[text.rindex(")") + 2 :].split(),
        )
        if fields[0] not in "ZX":
            children[int(fields[1])].append((int(entry), name))
    found, unseen = {}, [root]
    while unseen:
        for pid, name in children[unseen.pop()]:
            found[pid] = name
            unseen.append(pid)
    return found


def die_with_parent(sig):
    """For preexec_fn: the kernel sends `sig` when the test dies, however it dies."""
    parent = os.getpid()

    def in_child():
        LIBC.prctl(PR_SET_PDEATHSIG, int(sig))
        if os.getppid() != parent:
            os._exit(127)

    return in_child


class Server:
    """A server in the foreground of its own session. Ended by stop(), at the latest by the
    Bench."""

    def __init__(self, bench, process, log, stop_signal):
        self.bench, self.process, self.log, self.stop_signal = bench, process, log, stop_signal
        self.pid = process.pid

    def logged(self):
        return pathlib.Path(self.log).read_bytes()

    def alive(self):
        expect(
            self.process.poll() is None,
            f"the server ended with status {self.process.returncode}:\n{tail(self.logged())}",
        )

    def stop(self, sig=None, seconds=20):
        """Asks it to end, waits, and fails unless it ended with status 0 and without complaint."""
        self.alive()
        self.process.send_signal(self.stop_signal if sig is None else sig)
        self.ended(seconds)

    def ended(self, seconds=20):
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Failed(
                f"the server did not end within {seconds} s:\n{tail(self.logged())}"
            ) from None
        expect(status == 0, f"the server ended with status {status}:\n{tail(self.logged())}")
        self.bench.no_complaint(self.logged(), "the server")


# ---- the bench -----------------------------------------------------------------------------------


class Bench:
    def __init__(self, library, folder):
        self.folder = pathlib.Path(folder)
        # A copy, because servers run as a user who may not be able to read where it was built.
        self.library = self.folder / pathlib.Path(library).name
        shutil.copy(library, self.library)
        self.library.chmod(0o755)
        self.servers = []
        self.traces = 0
        self.rootless = None  # whom servers run as; None: whoever runs the test
        if os.geteuid() == 0:
            self.rootless = "nobody"

    # ---- files and programs --------------------------------------------------------------

    def need(self, *programs):
        """The paths of programs (the path alone, if there is one), or the test is skipped."""
        paths = [shutil.which(program, path=SEARCH_PATH) for program in programs]
        missing = [program for program, path in zip(programs, paths) if not path]
        if missing:
            raise Skipped("not installed: " + ", ".join(missing))
        return paths if len(paths) > 1 else paths[0]

    def path(self, name):
        return self.folder / name

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def subfolder(self, name, owner=None):
        path = self.folder / name
        path.mkdir()
        if owner:
            shutil.chown(path, owner)
        return path

    # ---- running -------------------------------------------------------------------------

    def environment(self, preload, extra=None):
        """A small, known environment: nothing of the caller's locale, loader or options."""
        env = {
            "PATH": SEARCH_PATH,
            "HOME": str(self.folder),
            "TMPDIR": str(self.folder),
            "LANG": "C.UTF-8",
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
        }
        env.update({key: str(value) for key, value in (extra or {}).items()})
        if preload:
            env["LD_PRELOAD"] = str(self.library)
        return env

    def start(self, argv, *, preload=True, env=None, user=None, death=signal.SIGKILL, **options):
        argv = [str(word) for word in argv]
        extra = (
            {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []} if user else {}
        )
        return subprocess.Popen(
            argv,
            env=self.environment(preload, env),
            start_new_session=True,
            preexec_fn=die_with_parent(death),
            **extra,
            **options,
        )

    def run(self, argv, *, preload=True, env=None, stdin=b"", cwd=None, user=None, status=0):
        """Runs a program to its end; status=None accepts every exit status."""
        process = self.start(
            argv,
            preload=preload,
            env=env,
            user=user,
            cwd=cwd or self.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        return self.finish(process, argv, preload=preload, stdin=stdin, status=status)

    def finish(self, process, argv, *, preload=True, stdin=b"", status=0):
        out, err = process.communicate(stdin)
        what = f"{'LD_PRELOAD=... ' if preload else ''}{quoted(argv)}"
        expect(
            status is None or process.returncode == status,
            f"{what}\nended with status {process.returncode}, not {status}; "
            f"its output ends:\n{tail(out)}\n{tail(err)}",
        )
        self.no_complaint(err, what)
        return Result(out, err, process.returncode)

    def twice(self, argv, what, *, env=None, cwd=None):
        """Runs a program that copies its maps to MAPS_COPY, without and with the preload; what it
        prints must be equal. Returns it."""
        outputs = []
        for preload in (False, True):
            maps = f"maps.{what.replace(' ', '_')}.{preload}"
            outputs.append(
                self.run(
                    argv,
                    preload=preload,
                    cwd=cwd,
                    env={**(env or {}), "MAPS_COPY": self.folder / maps},
                ).out
            )
            self.mapped(maps, preload)
        expect(outputs[0], f"{what} prints nothing")
        self.same(outputs[0], outputs[1], what)
        return outputs[1]

    def serve(self, argv, *, name, preload=True, env=None, user=None, stop_signal=signal.SIGTERM):
        """Starts a server, which must stay in the foreground; its stdout and stderr go to a
        file."""
        log = self.folder / f"{name}.{len(self.servers)}.log"
        with open(log, "wb") as output:
            process = self.start(
                argv,
                preload=preload,
                env=env,
                user=user,
                death=stop_signal,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self.folder,
            )
        server = Server(self, process, log, stop_signal)
        self.servers.append(server)
        return server

    # ---- checks --------------------------------------------------------------------------

    @staticmethod
    def no_complaint(text, what):
        found = COMPLAINT.search(text)
        expect(
            not found, found and f"{what}\ncomplained: {found.group().decode('utf-8', 'replace')}"
        )

    @staticmethod
    def same(plain, loam, what):
        """Equal bytes, or a failure that shows the first lines that differ."""
        if plain == loam:
            return
        lines = difflib.unified_diff(
            tail(plain, 10**6).splitlines(),
            tail(loam, 10**6).splitlines(),
            "plain",
            "preloaded",
            lineterm="",
            n=0,
        )
        shown = "\n".join(line[:300] for _, line in zip(range(12), lines))
        raise Failed(f"{what} differs: {len(plain)} and {len(loam)} bytes\n{shown}")

    def mapped(self, name, preload=True):
        """Checks the copy a program made: the library is in it, or without preload is not."""
        copy = self.folder / name
        expect(
            copy.exists() and copy.stat().st_size > 0,
            f"the program left no copy of its maps in {name}",
        )
        self.check_maps(copy.read_text(errors="replace"), name, preload)

    def mapped_in(self, pid, user=None, preload=True):
        """The same, of a running process. ProcessLookupError: it has ended, or is about to."""
        try:
            text = pathlib.Path("/proc", str(pid), "maps").read_text(errors="replace")
        except PermissionError:  # root without CAP_SYS_PTRACE: ask as the one who runs it
            text = self.run(["cat", f"/proc/{pid}/maps"], preload=False, user=user).out.decode()
        if not text:  # memory goes first, then the process
            raise ProcessLookupError(f"process {pid} has no memory any more")
        self.check_maps(text, f"process {pid}", preload)

    def check_maps(self, text, what, preload):
        there = any(line.endswith(" " + str(self.library)) for line in text.splitlines())
        expect(
            there == preload, f"{self.library.name} is {'not ' if preload else ''}mapped in {what}"
        )

    def answers(self, argv, callers, *, env=None, cwd=None, user=None, exempt=()):
        """Runs a program, with all it starts, while the dynamic linker records who answers malloc,
        and checks that each of `callers` (base names of programs or libraries) had its malloc from
        the library. Any other answer fails the test, but for callers in `exempt`. Returns {caller:
        answerers}.
        """
        self.traces += 1
        folder = self.subfolder(f"bindings.{self.traces}", user)
        self.run(
            argv,
            cwd=cwd,
            user=user,
            env={**(env or {}), "LD_DEBUG": "bindings", "LD_DEBUG_OUTPUT": folder / "ld"},
        )
        pattern = re.compile(r"binding file (\S+) \[0\] to (\S+) \[0\]: normal symbol `malloc'")
        bound = collections.defaultdict(set)
        for trace in folder.iterdir():
            with open(trace, errors="replace") as lines:
                for found in filter(None, map(pattern.search, lines)):
                    bound[found[1]].add(found[2])

        # A program at a fixed address whose code takes malloc's address lends its own jump table's
        # entry as that address, to everyone: then its own calls, and so the entry, tell the truth.
        ours = str(self.library)
        answered = collections.defaultdict(set)
        for caller, answers in bound.items():
            answered[os.path.basename(caller)] |= {
                ours if ".so" not in answer and ours in bound.get(answer, ()) else answer
                for answer in answers
            }
        for caller in callers:
            expect(
                answered.get(caller) == {ours},
                f"malloc of {caller} is answered by "
                f"{sorted(answered.get(caller, {'nobody'}))}; callers seen: {sorted(answered)}",
            )
        for caller, answers in answered.items():
            expect(
                answers == {ours} or caller in exempt,
                f"malloc of {caller} is answered by {sorted(answers)}",
            )
        return answered

    def close(self):
        """Ends whatever is still running: servers are asked, what remains is killed."""
        for server in self.servers:
            if server.process.poll() is None:
                server.process.send_signal(server.stop_signal)
        left = settled(5 if self.servers else 0)
        while left:
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            left = settled(0.5)


def settled(seconds=2.0):
    """What is still running below the test, after giving it a moment to end by itself."""
    deadline = time.monotonic() + seconds
    while True:
        left = descendants(os.getpid())
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.02)


def interrupted(sig, _frame):
    raise Failed("out of time" if sig == signal.SIGALRM else f"ended by signal {sig}")


def run_test(test, library):
    """Runs one test in a folder of its own. Returns (exit status, one line or more about it)."""
    folder = tempfile.mkdtemp(prefix="loam-real-")
    os.chmod(folder, 0o755)
    bench = Bench(library, folder)
    try:
        try:
            note = test(bench)
            left = settled()
            expect(not left, f"left running: {left}")
            return 0, note or "passed"
        finally:
            signal.alarm(0)
            bench.close()
            if os.environ.get("LOAM_TEST_KEEP") == "1":
                print(f"kept: {folder}")
            else:
                shutil.rmtree(folder, ignore_errors=True)
    except Skipped as why:
        return 77, f"skipped: {why}"
    except Failed as why:
        return 1, f"FAILED: {why}"


def main(test):
    library = os.environ.get("LOAM_LIB")
    if not library or not os.path.isfile(library):
        print(f"LOAM_LIB={library}: not a file; it names the library to preload", file=sys.stderr)
        sys.exit(2)
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1)
    for sig in (signal.SIGALRM, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(sig, interrupted)
    signal.alarm(int(os.environ.get("LOAM_TEST_SECONDS", "55")))
    status, text = run_test(test, os.path.realpath(library))
    print(text, flush=True)
    sys.exit(status)
