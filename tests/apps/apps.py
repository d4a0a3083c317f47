#!/usr/bin/env python3
"""Large applications, unchanged, with libloam.so preloaded: one test an application, label apps.

    LOAM_LIB=build/release/libloam.so python3 tests/apps/apps.py NAME...   run these
    python3 tests/apps/apps.py --list                 names, packages, what runs
    python3 tests/apps/apps.py --install              packages of all of them
    python3 tests/apps/apps.py --table docs/apps.md LABEL=LIBRARY...       run all, write the table

An application does real work twice: on the C library's malloc and on the preloaded library. What it
prints and the files that it writes must be equal. While the second run works, /proc shows whether
the process that does the work has the library mapped. Use this for programs too large for every CI
run; smaller programs are in tests/override, whose Bench (preload.py) starts and ends everything
here.

It cannot see which functions of the library a process calls, nor speed or memory. An application
that is not installed is skipped, with the name of its package.

Exit status: 0 all passed, 1 one failed, 77 skipped, 2 called wrongly.
"""

import argparse
import contextlib
import datetime
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "override"))
import preload  # noqa: E402  (its folder is added above)

POLL_S = 0.004  # between two looks at the processes of a run


class Watch(threading.Thread):
    """Looks at all processes below this one until stop(): does one have both files mapped?"""

    def __init__(self, inside, library):
        super().__init__(daemon=True)
        self.inside, self.library = inside, str(library)
        self.seen = False
        self.ended = threading.Event()

    def run(self):
        while not self.seen and not self.ended.wait(POLL_S):
            for pid in preload.descendants(os.getpid()):
                try:
                    maps = pathlib.Path("/proc", str(pid), "maps").read_text(errors="replace")
                except OSError:
                    continue  # it has ended meanwhile
                names = {line.rsplit("/", 1)[-1] for line in maps.splitlines() if "/" in line}
                if self.library in maps and any(name.startswith(self.inside) for name in names):
                    self.seen = True

    def stop(self):
        self.ended.set()
        self.join()


class Work:
    """What an application's function is given: runs commands on both mallocs and compares."""

    def __init__(self, bench):
        self.bench = bench
        self.need = bench.need

    def write(self, name, text):
        return self.bench.write(name, text)

    @contextlib.contextmanager
    def expecting(self, pattern):
        """Meanwhile, lines on standard error that match the pattern are no failure."""
        usual = self.bench.no_complaint
        if pattern:
            known = re.compile(rb"^.*" + pattern + rb".*$", re.MULTILINE)
            self.bench.no_complaint = lambda text, what: usual(known.sub(b"", text), what)
        try:
            yield
        finally:
            self.bench.no_complaint = usual

    def keep(self, name):
        """Moves a file of the last run to where the next run leaves it. Returns its path."""
        return (self.bench.path("loaded") / name).rename(self.bench.path(name))

    def version(self, argv, line=0):
        """One line of what a program prints of its version, for the table."""
        result = self.bench.run(argv, preload=False, status=None)
        lines = [
            text
            for text in (result.out + result.err).decode("utf-8", "replace").splitlines()
            if text.strip()
        ]
        return " ".join(lines[line].split())[:48] if len(lines) > line else ""

    def twice(
        self,
        argv,
        *,
        inside,
        files=(),
        normal=None,
        env=None,
        status=0,
        stdin=b"",
        output=True,
        mistake=None,
    ):
        """Runs argv in a folder of its own on either malloc, and compares.

        inside: the start of the file name that the working process has mapped. files: names of
        files that it writes there. normal(bytes): what is compared of each output; without it,
        every byte is. output: whether standard output is compared. mistake: the kind, by
        LOAM_IGNORE's name, and the pattern of the report of a mistake that the program is known to
        make; it goes on after that kind, and reports of the pattern are no failure. Returns the
        output.
        """
        normal = normal or (lambda text: text)
        outputs = {}
        for kind in ("plain", "loaded"):
            folder = self.bench.path(kind)
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            loaded = kind == "loaded"
            extra = {
                "HOME": folder,
                "TMPDIR": folder,
                "SOURCE_DATE_EPOCH": 0,
                **(env or {}),
            }
            if mistake and loaded:
                extra["LOAM_IGNORE"] = mistake[0]
            watch = Watch(inside, self.bench.library)
            if loaded:
                watch.start()
            with self.expecting(mistake[1] if mistake else None):
                result = self.bench.run(
                    argv, preload=loaded, env=extra, cwd=folder, status=status, stdin=stdin
                )
            if loaded:
                watch.stop()
                preload.expect(watch.seen, f"no process had {inside} and the library mapped")
            preload.expect(not output or result.out, f"{preload.quoted(argv)} prints nothing")
            outputs[kind] = {"output": normal(result.out) if output else b""}
            for name in files:
                path = folder / name
                preload.expect(path.exists(), f"{preload.quoted(argv)} wrote no {name}")
                outputs[kind][name] = normal(path.read_bytes())
        for what, plain in outputs["plain"].items():
            self.bench.same(plain, outputs["loaded"][what], what)
        return outputs["loaded"]["output"]


def catalogue():
    """{name: (packages, function)} of all applications, in the order of the table."""
    import compilers_and_languages
    import desktop
    import media
    import servers

    found = {}
    for module in (compilers_and_languages, servers, desktop, media):
        found.update(module.APPS)
    return found


def run_one(name, library, seconds):
    """Runs one application. Returns (status, one line about it)."""
    _, function = catalogue()[name]
    signal.alarm(seconds)
    return preload.run_test(lambda bench: function(Work(bench)), os.path.realpath(library))


def install():
    wanted = sorted(
        {
            package
            for packages, _ in catalogue().values()
            for package in packages
            if ":" not in package
        }
    )
    from_pypi = sorted(
        {
            package.split(":")[1]
            for packages, _ in catalogue().values()
            for package in packages
            if package.startswith("pypi:")
        }
    )
    as_root = [] if os.geteuid() == 0 else ["sudo"]
    # Tests start the servers themselves; an existing policy is somebody's decision and stays.
    policy = pathlib.Path("/usr/sbin/policy-rc.d")
    made = not policy.exists() and os.geteuid() == 0
    if made:
        policy.write_text("#!/bin/sh\nexit 101\n")
        policy.chmod(0o755)
    try:
        subprocess.run([*as_root, "apt-get", "-q", "update"], check=False)
        subprocess.run(
            [
                *as_root,
                "env",
                "DEBIAN_FRONTEND=noninteractive",
                "apt-get",
                "-q",
                "install",
                "-y",
                "--no-install-recommends",
                *wanted,
            ],
            check=True,
        )
    finally:
        if made:
            policy.unlink()
    if from_pypi:
        subprocess.run(
            [sys.executable, "-m", "pip", "install", "-q", "--target", PYPI, *from_pypi], check=True
        )


PYPI = pathlib.Path(__file__).resolve().parents[2] / "build" / "apps_pypi"


def table(path, libraries, seconds):
    """Runs all on each library and writes the page. Returns whether all passed."""
    rows, good = [], True
    for name, (packages, function) in catalogue().items():
        cells, about = [], ""
        for label, library in libraries:
            status, text = run_one(name, library, seconds)
            print(f"{name} {label}: {text}", flush=True)
            good = good and status in (0, 77)
            words = {0: "same", 77: "not installed"}.get(status, "FAILED")
            cells.append(words)
            if status == 0:
                about = text
        work = " ".join((function.__doc__ or "").split())
        rows.append(f"| {name} | {about} | {work} | {' | '.join(cells)} |")
    head = " | ".join(label for label, _ in libraries)
    text = TEXT.format(
        date=datetime.date.today().isoformat(),
        count=len(rows),
        head=head,
        lines="|---" * (3 + len(libraries)),
        rows="\n".join(rows),
    )
    pathlib.Path(path).write_text(text)
    return good


TEXT = """# Large applications on loam

This table shows which large applications run unchanged on loam. `tests/apps/apps.py --table` writes
it, and `.ci/run apps` runs the applications as tests. Each application runs twice in a fresh
folder: on glibc's malloc, and with the build's `libloam.so` preloaded. *same* means that both runs
ended with equal status, that output and files are equal (except clock times and random names), that
loam reported nothing, and that the process that did the work had loam mapped.

The last run was on {date}: {count} applications.

| application | version | work | {head} |
{lines}|
{rows}
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="applications; with --table: LABEL=LIBRARY")
    parser.add_argument("--list", action="store_true", help="list names, packages and work")
    parser.add_argument("--install", action="store_true", help="install all packages")
    parser.add_argument("--table", metavar="FILE", help="run all and write the page")
    parser.add_argument("--expect", action="store_true", help="names are all that there are")
    parser.add_argument("--seconds", type=int, default=240, help="limit of each run (240)")
    options = parser.parse_args()
    known = catalogue()
    if options.list:
        for name, (packages, function) in known.items():
            print(f"{name:12} {' '.join(packages)}\n{'':13}{' '.join(function.__doc__.split())}")
        return 0
    if options.expect:
        different = sorted(set(known) ^ set(options.names))
        print(
            f"in one list alone: {' '.join(different)}"
            if different
            else f"{len(known)} applications"
        )
        return 1 if different else 0
    if options.install:
        install()
        return 0
    preload.LIBC.prctl(preload.PR_SET_CHILD_SUBREAPER, 1)
    for sig in (signal.SIGALRM, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(sig, preload.interrupted)
    if options.table:
        libraries = [tuple(word.split("=", 1)) for word in options.names]
        if not libraries or any(len(pair) != 2 for pair in libraries):
            parser.error("--table takes LABEL=LIBRARY, one or more")
        return 0 if table(options.table, libraries, options.seconds) else 1
    unknown = [name for name in options.names if name not in known]
    if unknown or not options.names:
        parser.error(f"unknown {' '.join(unknown)}; known: {' '.join(known)}")
    library = os.environ.get("LOAM_LIB")
    if not library or not os.path.isfile(library):
        parser.error(f"LOAM_LIB={library}: it names the library to preload")
    worst = 0
    for name in options.names:
        start = time.monotonic()
        status, text = run_one(name, library, options.seconds)
        print(f"{name}: {text} ({time.monotonic() - start:.1f} s)", flush=True)
        worst = status if worst in (0, 77) else worst
    return worst


if __name__ == "__main__":
    sys.exit(main())
