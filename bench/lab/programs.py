"""The real programs of the demo: what is started, on what input, what must come out.

Every program runs unchanged, as the distribution installs it, on an input that
depends on nothing but its size; so its output is the same on every allocator.
Sizes give one to two seconds of CPU time on a machine of 2020.

To add a program: write its input into inputs/, a function that prepares it, and
one line in PROGRAMS, or in more_programs.py if the demo need not run it.
"""

import os
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from lab.inputs import make_c, make_load

INPUTS = Path(__file__).resolve().parent / "inputs"
SEARCH = "/usr/bin:/bin:/usr/local/bin:/usr/sbin"
QUICK = 0.08


@dataclass
class Job:
    """One program ready to be started; a new output folder is given to each run."""

    command: list
    env: dict = field(default_factory=dict)
    stdin: str = None
    process: str = None  # the process of the group that allocates, by name
    outputs: tuple = ("stdout",)  # files of the run's folder that must be as on glibc
    server: dict = None
    cwd: str = None  # where it runs if not in the run's folder
    own_env: bool = False  # env is all of its environment
    preloads: tuple = ()  # libraries that are preloaded behind the allocator


@dataclass(frozen=True)
class Program:
    name: str
    package: str
    needs: tuple
    size: int
    prepare: object
    what: str
    probe: object

    def missing(self):
        """The executables it needs and that are not installed."""
        return [need for need in self.needs if find(need) is None]


def find(executable):
    return shutil.which(executable, path=SEARCH)


def template(name, size, work):
    """Writes an input with @SIZE@ filled in; returns its path."""
    target = work / name
    target.write_text((INPUTS / name).read_text().replace("@SIZE@", str(size)))
    return str(target)


def sqlite3(size, work):
    return Job([find("sqlite3"), "-batch", ":memory:"], stdin=template("rows.sql", size, work))


def python3(size, _work):
    command = [find("python3"), "-S", "-s", str(INPUTS / "objects.py"), str(size)]
    return Job(command, env={"PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0"})


def perl(size, _work):
    command = [find("perl"), str(INPUTS / "text.pl"), str(size)]
    return Job(command, env={"PERL_HASH_SEED": "0", "PERL_PERTURB_KEYS": "0"})


def gcc(size, work):
    source = work / "large.c"
    make_c.write(source, size)
    command = [find("gcc"), "-O2", "-c", str(source), "-o", "large.o"]
    return Job(command, process="cc1", outputs=("large.o",))


def lua(size, _work):
    return Job([find("lua5.4"), str(INPUTS / "tables.lua"), str(size)])


def ghostscript(size, work):
    options = "-q -dBATCH -dNOPAUSE -dSAFER -sDEVICE=ppmraw -r100"
    bands = "-dMaxBitmap=0 -dBufferSpace=2000000 -dNumRenderingThreads=2"
    command = [find("gs"), *options.split(), *bands.split(), "-sOutputFile=pages.ppm"]
    return Job([*command, template("pages.ps", size, work)], outputs=("pages.ppm", "stdout"))


def redis(size, work):
    """Fill (checked at the end), redis-benchmark in another database, drop that one."""
    load = work / "load.txt"
    make_load.write(load, size)
    socket = "redis.sock"  # in the run's own folder, and short: 107 characters are the limit
    options = f"--port 0 --unixsocket {socket} --appendonly no --loglevel warning --databases 2"
    command = [find("redis-server"), *options.split(), "--save", ""]
    client = [find("redis-cli"), "-s", socket]
    tests = "set,get,lpush,rpop,hset,sadd,zadd,spop,zpopmin"
    bench = f"-s {socket} --dbnum 1 -q -P 16 -r 60000 -d 120 -t {tests} -n {size}"
    steps = [
        {"command": [*client, "--pipe"], "stdin": str(load)},
        {"command": [find("redis-benchmark"), *bench.split()]},
        {"command": [*client, "-n", "1", "FLUSHDB", "SYNC"]},
        {"command": [*client, "--eval", str(INPUTS / "digest.lua")], "stdout": "digest"},
    ]
    server = {"socket": socket, "steps": steps}
    return Job(command, outputs=("digest",), server=server)


def plain(executable, *arguments):
    """A probe: a command that loads the program's libraries and does little."""
    return lambda: [find(executable), *arguments]


def compiler_proper(driver, name):
    """A probe: gcc and g++ are drivers; the allocations are those of cc1 and cc1plus."""

    def ask():
        asked = subprocess.run(
            [find(driver), f"-print-prog-name={name}"], capture_output=True, text=True, check=True
        )
        path = asked.stdout.strip()
        return [shutil.which(path, path=SEARCH) or path, "-version", "-o", os.devnull]

    return ask


PROGRAMS = (
    Program(
        "sqlite3", "sqlite3", ("sqlite3",), 180_000, sqlite3,
        "two tables in memory: indexes, joins, group by, json",
        plain("sqlite3", "-version"),
    ),
    Program(
        "python3", "python3", ("python3",), 80_000, python3,
        "objects, dicts, strings and JSON, PYTHONMALLOC=malloc",
        plain("python3", "-S", "-V"),
    ),
    Program(
        "perl", "perl", ("perl",), 150_000, perl,
        "a log taken apart with regular expressions into hashes",
        plain("perl", "-v"),
    ),
    Program(
        "gcc", "gcc", ("gcc",), 60, gcc,
        "-O2 of one large C file",
        compiler_proper("gcc", "cc1"),
    ),
    Program(
        "redis", "redis-server redis-tools", ("redis-server", "redis-cli", "redis-benchmark"),
        200_000, redis,
        "the server under redis-benchmark, its own time",
        plain("redis-server", "--version"),
    ),
    Program(
        "lua", "lua5.4", ("lua5.4",), 400_000, lua,
        "trees, closures, strings, the collector",
        plain("lua5.4", "-v"),
    ),
    Program(
        "ghostscript", "ghostscript", ("gs",), 24, ghostscript,
        "pages drawn by two threads into a bitmap",
        plain("gs", "--version"),
    ),
)  # fmt: skip


def prepare(program, scale, work):
    """Writes inputs of `scale` times the full size into `work` and returns the job."""
    folder = work / program.name
    folder.mkdir(parents=True, exist_ok=True)
    return program.prepare(max(2, int(program.size * scale)), folder)


def environment(job, preload, more=()):
    """A small, fixed environment: nothing of the caller's reaches the program, unless it is own."""
    env = {"PATH": SEARCH, "HOME": "/nonexistent", "LC_ALL": "C", "TZ": "UTC"}
    env = dict(job.env) if job.own_env else env | job.env
    env.update(more)
    libraries = [preload, *job.preloads] if preload else job.preloads
    if libraries:
        env["LD_PRELOAD"] = ":".join(libraries)
    return env


def shell_line(words, stdin=None):
    """A command for a shell; NAME=VALUE words stay assignments."""
    text = " ".join(shlex.quote(word) if "=" not in word else assignment(word) for word in words)
    return f"{text} < {shlex.quote(stdin)}" if stdin else text


def assignment(word):
    name, _, value = word.partition("=")
    return f"{name}={shlex.quote(value)}" if name.isidentifier() else shlex.quote(word)


def version(program):
    """The first number of the form 1.2 in what the probe prints, or None."""
    try:
        shown = subprocess.run(
            program.probe(), stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=20, check=False,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r"\d+\.\d+(\.\d+)?", shown.stdout + shown.stderr)
    return found.group(0) if found else None


def clear_folder(folder):
    """An empty folder for the output of the next run."""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
