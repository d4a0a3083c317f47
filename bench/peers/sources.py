"""sources.py: the rivals' sources out of crates.io, pinned by Cargo.lock.

A .crate file is a gzipped tar archive; Cargo.lock holds its sha256. obtain() takes it from the
first place that has it with that checksum: our own folder, cargo's cache, `cargo fetch`, and
static.crates.io, where crates.io keeps its files. The last is for machines without cargo and for
Debian 12: its cargo 1.65 knows only the index that is a git repository, and would clone all of it.

Cannot: verify more than Cargo.lock says. Whoever changes a checksum there changes the source.
"""

import hashlib
import os
import re
import shutil
import subprocess
import tomllib
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path

SPARSE_INDEX = (1, 70)  # the first cargo that asks for single index entries by itself
DOWNLOADS = "https://static.crates.io/crates"
AGENT = "loam-bench-peers (benchmark of memory allocators)"


class Unavailable(Exception):
    """A source that cannot be had; the text says why."""


@dataclass(frozen=True)
class Crate:
    name: str
    version: str
    checksum: str

    @property
    def file_name(self) -> str:
        return f"{self.name}-{self.version}.crate"

    @property
    def origin(self) -> str:
        return f"crate {self.name} {self.version}, sha256 {self.checksum}"


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def locked(project: Path) -> dict[str, Crate]:
    """The crates of the project's Cargo.lock by name."""
    packages = tomllib.loads((project / "Cargo.lock").read_text())["package"]
    return {
        package["name"]: Crate(package["name"], package["version"], package["checksum"])
        for package in packages
        if "checksum" in package
    }


def obtain(crate: Crate, project: Path, folder: Path, offline: bool) -> Path:
    """The crate's file in the folder, its checksum verified; raises Unavailable."""
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / crate.file_name
    if kept.exists() and sha256(kept) == crate.checksum:
        return kept
    tried = [f"{kept} has the wrong checksum"] if kept.exists() else []
    ways = [_from_cache] if offline else [_from_cache, _by_cargo, _by_download]
    if offline:
        tried.append("not looked for in the network (--offline)")
    fetched = folder / f"{crate.file_name}.part"
    for way in ways:
        try:
            way(crate, project, fetched)
        except Unavailable as error:
            tried.append(str(error))
            continue
        if (found := sha256(fetched)) == crate.checksum:
            fetched.replace(kept)
            return kept
        tried.append(f"a file with the wrong checksum: {found}, not {crate.checksum}")
        fetched.unlink()
    raise Unavailable(f"no source: {crate.file_name}: {'; '.join(tried)}")


def unpack(archive: Path, folder: Path) -> Path:
    """The crate's contents, fresh, below the folder; raises Unavailable."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    done = subprocess.run(
        ["tar", "-xzf", archive, "-C", folder, "--strip-components=1", "--no-same-owner"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise Unavailable(f"no source: {archive.name} does not unpack: {done.stderr.strip()}")
    return folder


# ---- the ways to a crate -------------------------------------------------------------------------


def _from_cache(crate: Crate, _project: Path, to: Path) -> None:
    home = Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo")
    for file in sorted(home.glob(f"registry/cache/*/{crate.file_name}")):
        if sha256(file) == crate.checksum:
            shutil.copyfile(file, to)
            return
    raise Unavailable("not in cargo's cache")


def _by_cargo(crate: Crate, project: Path, to: Path) -> None:
    version = _cargo_version()
    if version is None:
        raise Unavailable("no cargo")
    if version < SPARSE_INDEX:
        raise Unavailable("cargo {}.{} would clone the whole index".format(*version))
    fetched = subprocess.run(
        ["cargo", "fetch", "--locked", "--quiet", "--manifest-path", project / "Cargo.toml"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if fetched.returncode != 0:
        raise Unavailable(f"cargo fetch: {_first_line(fetched.stderr)}")
    _from_cache(crate, project, to)


def _by_download(crate: Crate, _project: Path, to: Path) -> None:
    address = f"{DOWNLOADS}/{crate.name}/{urllib.parse.quote(crate.file_name)}"
    request = urllib.request.Request(address, headers={"User-Agent": AGENT})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer, to.open("wb") as file:
            shutil.copyfileobj(answer, file)
    except (OSError, urllib.error.URLError) as error:
        raise Unavailable(f"{address}: {error}") from error


def _cargo_version() -> tuple[int, int] | None:
    try:
        shown = subprocess.run(
            ["cargo", "--version"], capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.match(r"cargo (\d+)\.(\d+)", shown.stdout)
    return (int(found[1]), int(found[2])) if found else None


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0] if lines else "failed without a word"
