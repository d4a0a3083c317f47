"""The allocators of the demo: where they are, and the proof that one is in use.

glibc is the baseline and always takes part. A program that is itself linked to
another allocator (Debian's redis-server to jemalloc) would not use glibc's
without a preload; there libc.so.6 itself is preloaded, which puts its malloc
first in the search order, and the run says so.

The proof has two halves. Before the runs: in_use() asks the dynamic linker
(LD_DEBUG=bindings) where every malloc, calloc, realloc and free of the program
and its libraries was bound. In each run: launch.py finds the library in the
process's memory map. A number is refused where either half fails.
"""

import re
import subprocess
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from lab import programs

BINDING = re.compile(
    r"binding file (\S+) \[\d+\] to (\S+) \[\d+\]: normal symbol `(malloc|calloc|realloc|free)'"
)


@dataclass(frozen=True)
class Allocator:
    name: str
    library: str
    package: str

    def version(self):
        if self.name == "loam":
            return loam_version(self.library)
        return package_version(self.package)


# Name, file, Debian package; alternatives of Debian's releases behind a bar. The
# order is that of the table's columns.
KNOWN = (
    ("glibc", "libc.so.6", "libc6"),
    ("loam", None, None),
    ("jemalloc", "libjemalloc.so.2", "libjemalloc2"),
    ("tcmalloc", "libtcmalloc_minimal.so.4", "libtcmalloc-minimal4|libtcmalloc-minimal4t64"),
    ("mimalloc", "libmimalloc.so.2|libmimalloc.so.3", "libmimalloc2.0|libmimalloc3"),
)
NAMES = tuple(name for name, _, _ in KNOWN)


def library_folders():
    multiarch = sysconfig.get_config_var("MULTIARCH") or "x86_64-linux-gnu"
    return [f"/lib/{multiarch}", f"/usr/lib/{multiarch}", "/usr/lib64", "/lib64", "/usr/lib"]


def find_library(names, folders=None):
    """The first that is there of the names, which are separated by bars; or None."""
    for name in names.split("|"):
        for folder in library_folders() if folders is None else folders:
            path = Path(folder) / name
            if path.exists():
                return real(path)
    return None


def find_all(names, loam, folders=None):
    """(allocators found, [(name, package) not installed]) in the table's order."""
    found, absent = [], []
    for name, library, package in KNOWN:
        if name not in names:
            continue
        path = real(loam) if name == "loam" else find_library(library, folders)
        if path is None:
            absent.append((name, package.replace("|", " or ")))
        else:
            found.append(Allocator(name, path, package))
    return found, absent


def package_version(packages):
    """The upstream version of the first that is installed of the packages, or None."""
    for package in packages.split("|"):
        try:
            shown = subprocess.run(
                ["dpkg-query", "-W", "-f", "${Version}", package],
                capture_output=True, text=True, check=True,
            )  # fmt: skip
        except (OSError, subprocess.SubprocessError):
            continue
        found = re.search(r"\d+(\.\d+)+", shown.stdout)
        if found:
            return found.group(0)
    return None


def loam_version(library):
    """What the library itself says at the start of a process, or None."""
    env = {"LD_PRELOAD": library, "LOAM_VERBOSE": "1"}
    try:
        shown = subprocess.run(
            ["/bin/true"], env=env, capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r"^loam: version ([\w.+-]+)", shown.stderr, re.MULTILINE)
    return found.group(1) if found else None


def real(path):
    return str(Path(path).resolve())


def follow(bindings, executable):
    """The libraries that serve the allocation functions, from (file, target) pairs.

    Where a program that is not position-independent takes malloc's address, every
    library is bound to the program's own jump to malloc; what counts then is
    where that jump leads.
    """
    own = {target for file, target in bindings if file == executable}
    targets = {target for _, target in bindings}
    if executable in targets and own - {executable}:
        targets.remove(executable)
    return targets


def bound_to(command, preload):
    """The libraries that the program's allocation functions are bound to."""
    env = {"PATH": programs.SEARCH, "LC_ALL": "C", "LD_DEBUG": "bindings", "LD_BIND_NOW": "1"}
    if preload:
        env["LD_PRELOAD"] = preload
    shown = subprocess.run(
        command, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=30, check=False
    )
    text = shown.stderr.decode(errors="replace")
    bindings = {(real(file), real(target)) for file, target, _ in BINDING.findall(text)}
    return follow(bindings, real(command[0]))


def preload_for(program, allocator):
    """(what to preload or None, None), or (None, why this pair cannot be measured)."""
    choices = [allocator.library] if allocator.name != "glibc" else [None, allocator.library]
    targets = set()
    for choice in choices:
        try:
            targets = bound_to(program.probe(), choice)
        except (OSError, subprocess.SubprocessError) as error:
            return None, f"could not be asked which malloc it uses: {error}"
        if targets == {allocator.library}:
            return (choice, None)
    others = sorted(targets - {allocator.library})
    if not others:
        return None, "binds no malloc at all (linked statically?)"
    return None, f"its malloc is that of {', '.join(others)}"
