"""verify.py: the proof that a library serves a program's memory when it is preloaded.

prove() refuses a library that does not start, that leaves one of the allocation functions to
somebody else, or that gives memory a program cannot use (smoke.cc). troubles() then tries real
programs; what fails there is no reason to refuse the rival but is told with it: a crash is a
result too.

Cannot: tell whether a binding holds for a library that is loaded later with dlopen.
"""

import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

REQUIRED = {
    "malloc": "malloc", "calloc": "calloc", "realloc": "realloc", "free": "free",
    "posix_memalign": "posix_memalign", "aligned_alloc": "aligned_alloc",
    "malloc_usable_size": "malloc_usable_size",
    "_Znwm": "operator new", "_ZdlPv": "operator delete",
}  # fmt: skip
BINDING = re.compile(
    r"binding file (\S+) \[\d+\] to (\S+) \[\d+\]: normal symbol `(" + "|".join(REQUIRED) + ")'"
)
SEARCH = "/usr/sbin:/usr/bin:/sbin:/bin"  # Debian's own programs, not what a user put before them
TIME_LIMIT = 60  # seconds; the slowest takes 2


class Refused(Exception):
    """A library that cannot be measured; the text says why."""


def environment(library: Path, **more: str) -> dict[str, str]:
    return {"PATH": SEARCH, "LC_ALL": "C", "LD_PRELOAD": str(library), **more}


def prove(library: Path, smoke: Path) -> None:
    """Returns where the library can be measured; raises Refused."""
    started = _run(["/bin/true"], environment(library))
    if "cannot be preloaded" in started.stderr:
        raise Refused(f"does not preload: {_last_line(started.stderr)}")
    _expect_success("/bin/true", started)
    _prove_bindings(library, smoke)
    _expect_success("the smoke program", _run([str(smoke)], environment(library)))


def _prove_bindings(library: Path, smoke: Path) -> None:
    shown = _run([str(smoke)], environment(library, LD_DEBUG="bindings", LD_BIND_NOW="1"))
    program, served = smoke.resolve(), set()
    for binding in BINDING.findall(shown.stderr):
        file, target, symbol = Path(binding[0]).resolve(), Path(binding[1]).resolve(), binding[2]
        if file == library.resolve():
            continue  # it may well look for the functions that it replaces
        if target != library.resolve():
            raise Refused(f"{REQUIRED[symbol]} of {file.name} stays with {target}")
        if file == program:
            served.add(symbol)
    if lacking := [name for symbol, name in REQUIRED.items() if symbol not in served]:
        raise Refused(f"does not take over {', '.join(lacking)}")


def _expect_success(what: str, done: subprocess.CompletedProcess) -> None:
    if done.returncode != 0:
        raise Refused(f"{what} {ended(done.returncode)} with it: {_last_line(done.stderr)}")


def _run(command: list[str], env: dict[str, str]) -> subprocess.CompletedProcess:
    try:
        return subprocess.run(
            command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            errors="replace", timeout=TIME_LIMIT, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise Refused(f"{Path(command[0]).name} hangs with it (over {TIME_LIMIT} s)") from error


def ended(status: int) -> str:
    if status >= 0:
        return f"exits with {status}"
    return f"is killed by {signal.Signals(-status).name}"


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no message"


# ---- real programs -------------------------------------------------------------------------------


def programs() -> list[str]:
    """Those of the real programs that are there to be tried."""
    return [name for name in ATTEMPTS if shutil.which(name, path=SEARCH)]


def troubles(library: Path) -> list[str]:
    """What went wrong with real programs, and which were not there to be tried."""
    found, there = [], programs()
    for name, attempt in ATTEMPTS.items():
        if name not in there:
            found.append(f"{name}: not tried, not installed")
            continue
        try:
            trouble = attempt(library)
        except Refused as error:
            trouble = str(error)
        if trouble:
            found.append(f"{name}: {trouble}")
    return found


def _program(command: list[str], output: str) -> Callable[[Path], str]:
    def attempt(library: Path) -> str:
        done = _run(command, environment(library))
        if done.returncode != 0:
            return f"{ended(done.returncode)}: {_last_line(done.stderr)}"
        return "" if output in done.stdout else "gives a wrong result"

    return attempt


def _compile(library: Path) -> str:
    """gcc's driver, and cc1 below it, over a file with a few hundred functions."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "many.c")
        source.write_text("".join(
            f"int f{i}(int a, int b) {{ int c = a * {i}; while (b--) c += b ^ {i}; return c; }}\n"
            for i in range(500)
        ))  # fmt: skip
        command = ["gcc", "-O2", "-S", str(source), "-o", str(source.with_suffix(".s"))]
        done = _run(command, environment(library))
    return "" if done.returncode == 0 else f"{ended(done.returncode)}: {_last_line(done.stderr)}"


def _serve(library: Path) -> str:
    """redis-server: 20,000 values set, replaced by longer ones, counted, dropped."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "socket")
        server = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--dir", folder],
            env=environment(library), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            return _talk(server, path)
        finally:
            server.kill()
            server.wait()


def _talk(server: subprocess.Popen, path: Path) -> str:
    deadline = time.monotonic() + TIME_LIMIT
    while not path.exists():
        if server.poll() is not None:
            return f"{ended(server.returncode)} at its start"
        if time.monotonic() > deadline:
            return "does not start"
        time.sleep(0.02)
    requests = [
        f"SET key:{i} {'x' * (length + i % 300)}\r\n" for length in (1, 400) for i in range(20000)
    ]
    requests += ["DBSIZE\r\n", "FLUSHALL\r\n", "PING\r\n"]
    answer = b""
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(TIME_LIMIT)
            client.connect(str(path))
            for start in range(0, len(requests), 500):
                client.sendall("".join(requests[start : start + 500]).encode())
                answer = answer[-100:] + client.recv(1 << 16)
            while not answer.endswith(b"+PONG\r\n"):
                received = client.recv(1 << 16)
                if not received:
                    break
                answer = answer[-100:] + received
            if b":20000\r\n" not in answer:
                return "loses its connection or its values"
            client.sendall(b"SHUTDOWN NOSAVE\r\n")
        return "" if server.wait(TIME_LIMIT) == 0 else f"{ended(server.returncode)} at its end"
    except OSError as error:
        return f"does not answer: {error}"
    except subprocess.TimeoutExpired:
        return "does not end"


PYTHON = """
import json, threading
def work(): json.loads(json.dumps([{str(i): [i] * (i % 9)} for i in range(20000)]))
threads = [threading.Thread(target=work) for _ in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
print('all', len(threads))
"""
SQL = """
create table t(a, b);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 50000)
insert into t select i, printf('%0*d', i % 97, i) from n;
create index tb on t(b);
delete from t where a % 3 = 0;
select count(*), 'rows' from t where length(b) > 0;
"""
ATTEMPTS: dict[str, Callable[[Path], str]] = {
    "python3": _program(["/usr/bin/python3", "-c", PYTHON], "all 4"),
    "gcc": _compile,
    "sqlite3": _program(["sqlite3", ":memory:", SQL], "33334|rows"),
    "redis-server": _serve,
}
