#!/usr/bin/env python3
"""build.py: gets the rival allocators and proves that each serves a program when preloaded.

    python3 bench/peers/build.py [--only NAME,...] [--offline] [--jobs N] [--out DIR]
    python3 bench/peers/build.py --list
    python3 bench/peers/build.py --prove LIBRARY

Writes build/peers/NAME.so for those that are built, and build/peers/peers.json, which names all
that can be measured, with version, origin, flags and checksum, and those that are absent, with
the reason. What is up to date is neither built nor proved again. --only leaves the others in
peers.json as they were. --prove tells whether a library of one's own could take part.

Exit status: 0, at least one rival is there (or the library is proved); 1, none; 2, wrong use.

recipes.py has the rivals, sources.py gets the sources, verify.py the proof, README.md the reasons.
"""

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import recipes
import sources
import verify

HERE = Path(__file__).resolve().parent
DEFAULT_OUT = HERE.parent.parent / "build" / "peers"
TROUBLE = (sources.Unavailable, recipes.Failed, verify.Refused)


class Lab:
    """The folder of the results and what is known of it."""

    def __init__(self, out: Path, jobs: int, offline: bool):
        self.out, self.jobs, self.offline = out, jobs, offline
        self.crates = sources.locked(HERE)
        self._smoke: Path | None = None

    # ---- a rival ---------------------------------------------------------------------------------

    def peer(self, peer: recipes.Bundled | recipes.Installed) -> tuple[dict, str]:
        """(its entry in peers.json, what was done); raises one of TROUBLE."""
        if isinstance(peer, recipes.Installed):
            return self._installed(peer)
        return self._bundled(peer)

    def _installed(self, peer: recipes.Installed) -> tuple[dict, str]:
        library = recipes.find(peer)
        version, origin = recipes.package_of(library)
        entry = {
            "name": peer.name, "version": version, "origin": origin, "flags": "as packaged",
            "library": str(library), "kind": peer.kind, "sha256": sources.sha256(library),
        }  # fmt: skip
        return entry | {"note": self._proof(peer.name, library)}, "installed"

    def _bundled(self, peer: recipes.Bundled) -> tuple[dict, str]:
        crate = self.crates[peer.crate]
        library = self.out / f"{peer.name}.so"
        compiler = recipes.compiler_version(peer.compiler)
        key = _digest(crate.checksum, compiler, _text(recipes.__file__))
        stamp = self.out / "work" / peer.name / "built.json"
        with contextlib.suppress(OSError, ValueError, KeyError):
            known = json.loads(stamp.read_text())
            entry = known["entry"]
            if known["key"] == key and sources.sha256(library) == entry["sha256"]:
                return entry | {"note": self._proof(peer.name, library)}, "up to date"

        work = stamp.parent
        shutil.rmtree(work, ignore_errors=True)
        archive = sources.obtain(crate, HERE, self.out / "crates", self.offline)
        folder = sources.unpack(archive, work / "crate") / peer.folder
        job = recipes.Job(folder, work, self.jobs, crate.version)
        made, flags = peer.build(job)
        shutil.copy(made, work / "made.so")
        entry = {
            "name": peer.name, "version": peer.version(job), "origin": crate.origin,
            "flags": f"{flags} [{compiler}]", "library": library.name, "kind": peer.kind,
            "sha256": sources.sha256(made),
        }  # fmt: skip
        (work / "made.so").replace(library)
        _write_json(stamp, {"key": key, "entry": entry})
        return entry | {"note": self._proof(peer.name, library)}, "built"

    # ---- its proof -------------------------------------------------------------------------------

    def _proof(self, name: str, library: Path) -> str:
        """What is to be told with a library that is proved; raises verify.Refused."""
        smoke = self.smoke()
        key = _digest(
            sources.sha256(library), _text(verify.__file__), _text(HERE / "smoke.cc"),
            *verify.programs(),
        )  # fmt: skip
        stamp = self.out / "work" / f"{name}.proof.json"
        with contextlib.suppress(OSError, ValueError, KeyError):
            known = json.loads(stamp.read_text())
            if known["key"] == key:
                return known["note"]
        verify.prove(library, smoke)
        note = "; ".join(verify.troubles(library))
        _write_json(stamp, {"key": key, "note": note})
        return note

    def smoke(self) -> Path:
        """The compiled smoke program; raises recipes.Failed."""
        if self._smoke is None:
            work = self.out / "work"
            work.mkdir(parents=True, exist_ok=True)
            smoke, source = work / "smoke", HERE / "smoke.cc"
            if not smoke.exists() or smoke.stat().st_mtime < source.stat().st_mtime:
                cxx = shlex.split(recipes.compiler("CXX"))
                done = subprocess.run(
                    [*cxx, "-std=c++17", "-O1", "-fno-builtin", "-pthread", source, "-o", smoke],
                    capture_output=True, text=True, check=False,
                )  # fmt: skip
                if done.returncode != 0:
                    raise recipes.Failed(f"smoke.cc does not compile: {done.stderr.strip()[:200]}")
            self._smoke = smoke
        return self._smoke

    # ---- the list --------------------------------------------------------------------------------

    def known(self) -> dict[str, list[dict]]:
        """What peers.json says now, of libraries that have not changed since."""
        try:
            said = json.loads((self.out / "peers.json").read_text())
            peers = [
                peer for peer in said["peers"]
                if peer["name"] in recipes.NAMES
                and sources.sha256(self.out / peer["library"]) == peer["sha256"]
            ]  # fmt: skip
            return {"peers": peers, "absent": said["absent"]}
        except (OSError, ValueError, KeyError, TypeError):
            return {"peers": [], "absent": []}

    def write(self, peers: list[dict], absent: list[dict]) -> dict[str, list[dict]]:
        """Writes these and those known before, in the order of recipes.NAMES."""
        new = {entry["name"] for entry in peers + absent}
        before = self.known()
        merged = {
            part: sorted(
                [entry for entry in before[part] if entry["name"] not in new] + entries,
                key=lambda entry: recipes.NAMES.index(entry["name"]),
            )
            for part, entries in (("peers", peers), ("absent", absent))
        }
        _write_json(self.out / "peers.json", merged)
        return merged


# ---- the run -------------------------------------------------------------------------------------


def build(lab: Lab, names: list[str]) -> int:
    peers, absent = [], []
    with _progress(len(names)) as step:
        for peer in recipes.PEERS:
            if peer.name not in names:
                continue
            step(peer.name)
            try:
                entry, done = lab.peer(peer)
            except (*TROUBLE, OSError) as error:
                absent.append({"name": peer.name, "why": str(error)})
                print(f"build.py: {peer.name} is absent: {error}", file=sys.stderr, flush=True)
                continue
            peers.append(entry)
            note = f" ({entry['note']})" if entry["note"] else ""
            print(f"{peer.name:16}{entry['version']:16}{done}{note}", flush=True)
    merged = lab.write(peers, absent)
    counts = f"{len(merged['peers'])} listed, {len(merged['absent'])} absent"
    print(f"{lab.out / 'peers.json'}: {counts}")
    return 0 if merged["peers"] else 1


@contextlib.contextmanager
def _progress(total: int):
    """Gives a function that says which rival is next: a bar on a terminal, else nothing."""
    if not sys.stderr.isatty():
        yield lambda name: None
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
        from rich.progress import TimeElapsedColumn
    except ImportError:  # one line a rival is told anyway
        yield lambda name: None
        return

    columns = (
        TextColumn("{task.description:16}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=total)
        started = False

        def step(name: str) -> None:
            nonlocal started
            progress.update(task, description=name, advance=1 if started else 0)
            started = True

        yield step


def show_list(lab: Lab) -> int:
    known = lab.known()
    versions = {peer["name"]: peer["version"] for peer in known["peers"]}
    reasons = {entry["name"]: entry["why"] for entry in known["absent"]}
    for peer in recipes.PEERS:
        if isinstance(peer, recipes.Bundled):
            origin = f"crate {peer.crate} {lab.crates[peer.crate].version}"
        else:
            origin = f"package {peer.packages}"
        state = versions.get(peer.name) or reasons.get(peer.name) or "not built yet"
        print(f"{peer.name:16}{peer.kind:10}{state:16}{origin}")
    return 0


def prove(lab: Lab, library: Path) -> int:
    try:
        if not library.is_file():
            raise verify.Refused("there is no such file")
        verify.prove(library.resolve(), lab.smoke())
    except TROUBLE as error:
        print(f"build.py: {library} is refused: {error}", file=sys.stderr)
        return 1
    notes = verify.troubles(library.resolve())
    print(f"{library} serves malloc, free and operator new" + "".join(f"\n  {n}" for n in notes))
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Gets the rival allocators of the benchmarks.")
    parser.add_argument("--only", metavar="NAME,...", help=f"of {', '.join(recipes.NAMES)}")
    parser.add_argument("--list", action="store_true", help="show them and their state, build none")
    parser.add_argument("--prove", metavar="LIBRARY", type=Path, help="try a library of your own")
    parser.add_argument("--offline", action="store_true", help="use no network")
    parser.add_argument(
        "--jobs", metavar="N", type=int, default=os.cpu_count(), help="compilers at once"
    )
    parser.add_argument(
        "--out", metavar="DIR", type=Path, default=DEFAULT_OUT, help="default: build/peers"
    )
    options = parser.parse_args()
    names = options.only.split(",") if options.only else list(recipes.NAMES)
    if unknown := [name for name in names if name not in recipes.NAMES]:
        parser.error(f"no such rival: {', '.join(unknown)} (known: {', '.join(recipes.NAMES)})")
    if options.jobs < 1:
        parser.error("--jobs must be at least 1")

    lab = Lab(options.out.resolve(), options.jobs, options.offline)
    if options.list:
        return show_list(lab)
    try:
        lab.out.mkdir(parents=True, exist_ok=True)
        with (lab.out / "lock").open("w") as lock:
            _take(lock)
            return prove(lab, options.prove) if options.prove else build(lab, names)
    except OSError as error:
        print(f"build.py: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("build.py: interrupted; what is built is kept", file=sys.stderr)
        return 130


def _take(lock) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("build.py: waiting for another build.py", file=sys.stderr, flush=True)
        fcntl.flock(lock, fcntl.LOCK_EX)


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


def _text(path: str | Path) -> str:
    return Path(path).read_text()


def _write_json(path: Path, content: dict) -> None:
    """Whole or not at all."""
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(content, indent=2) + "\n")
    part.replace(path)


if __name__ == "__main__":
    sys.exit(main())
