"""The allocators: where they are, and the proof that one is in use.

glibc is the baseline and always takes part. A program that is itself linked to
another allocator (Debian's redis-server to jemalloc) would not use glibc's
without a preload; there libc.so.6 itself is preloaded, which puts its malloc
first in the search order, and the run says so.

Where they come from: the demo takes what Debian packages (KNOWN). The lab takes
the rivals that bench/peers/build.py has built, listed in peers.json, and any
library that is named on the command line.

The proof has two halves. Before the runs: bound_to() asks the dynamic linker,
without starting the program (LD_TRACE_LOADED_OBJECTS, LD_DEBUG=bindings), where
every malloc, calloc, realloc and free of the program and its libraries is bound.
In each run: launch.py finds the library in the process's memory map, or, where
the process was gone before anyone could look, sees that its file was opened. A
number is refused where either half fails.
"""

import json
import os
import re
import shutil
import stat
import subprocess
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from lab import programs

BINDING = re.compile(
    r"binding file (\S+) \[\d+\] to (\S+) \[\d+\]: normal symbol `(malloc|calloc|realloc|free)'"
)
NOT_PRELOADED = re.compile(r"object '[^']*' from LD_PRELOAD cannot be preloaded \((.*)\)")


@dataclass(frozen=True)
class Allocator:
    name: str
    library: str
    package: str = None
    known_version: str = ""
    origin: str = ""
    flags: str = ""
    kind: str = "fast"  # or "hardened"
    env: tuple = ()  # pairs of name and value, set for the program besides LD_PRELOAD

    def version(self):
        if self.known_version:
            return self.known_version
        if self.package is None:
            return loam_version(self.library)
        return package_version(self.package)


# Name, file, Debian package; alternatives of Debian's releases behind a bar. The
# order is that of the demo's columns.
KNOWN = (
    ("glibc", "libc.so.6", "libc6"),
    ("loam", None, None),
    ("jemalloc", "libjemalloc.so.2", "libjemalloc2"),
    ("tcmalloc", "libtcmalloc_minimal.so.4", "libtcmalloc-minimal4|libtcmalloc-minimal4t64"),
    ("mimalloc", "libmimalloc.so.2|libmimalloc.so.3", "libmimalloc2.0|libmimalloc3"),
)
NAMES = tuple(name for name, _, _ in KNOWN)

# The order of the lab's columns.
LAB_NAMES = (
    "glibc", "loam", "mimalloc", "mimalloc2", "jemalloc", "snmalloc", "rpmalloc", "tcmalloc",
    "tbbmalloc", "scudo", "mimalloc-secure",
)  # fmt: skip


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


def listed(peers):
    """({name: Allocator}, {name: why it is absent}) of a peers.json."""
    path = Path(peers)
    content = json.loads(path.read_text(encoding="utf-8"))
    found = {}
    absent = {each["name"]: each["why"] for each in content["absent"]}
    for each in content["peers"]:
        library = path.parent / each["library"]
        if not library.is_file():
            absent[each["name"]] = f"{library} has gone; run bench/peers/build.py"
            continue
        found[each["name"]] = Allocator(
            each["name"], real(library), None, each["version"], each["origin"], each["flags"],
            each["kind"],
        )  # fmt: skip
    return found, absent


def packaged(names=NAMES):
    """({name: Allocator}, {name: why}) of the rivals that Debian packages."""
    found, absent = find_all([name for name in names if name != "loam"], None)
    return (
        {each.name: each for each in found},
        {name: f"package {package} is not installed" for name, package in absent},
    )


def for_lab(names, loam, peers):
    """(allocators found in the lab's order, [(name, why not)]).

    Without a peers.json the rivals are those that Debian packages.
    """
    if Path(peers).is_file():
        rivals, missing = listed(peers)
    else:
        rivals, missing = packaged(NAMES[2:])
    found, absent = [], []
    for name in names:
        if name == "glibc":
            found.append(find_all(["glibc"], None)[0][0])
        elif name == "loam":
            found.append(Allocator("loam", real(loam), origin="this tree"))
        elif name in rivals:
            found.append(rivals[name])
        else:
            absent.append((name, missing.get(name, "not built: run bench/peers/build.py")))
    return found, absent


def custom(text):
    """An allocator as the command line names it: NAME=PATH.so[,KEY=VALUE...]."""
    head, *rest = text.split(",")
    name, equals, path = head.partition("=")
    pairs = [tuple(word.split("=", 1)) for word in rest]
    if not (name and equals and path) or any(len(pair) != 2 or not pair[0] for pair in pairs):
        raise ValueError(f"{text}: not of the form NAME=PATH.so[,KEY=VALUE...]")
    flags = " ".join("=".join(pair) for pair in pairs)
    version = loam_version(real(path)) or "its own"
    return Allocator(name, real(path), None, version, path, flags, env=tuple(pairs))


def trouble(allocator):
    """Why a library cannot stand in for malloc, in one line; None if it can.

    Asks of /bin/true, which allocates: whether the library is taken, whether the calls go to
    it, and whether the program then starts and ends as it should.
    """
    if not Path(allocator.library).is_file():
        return f"{allocator.library}: there is no such file"
    env = {"LD_PRELOAD": allocator.library, "LC_ALL": "C", **dict(allocator.env)}
    try:
        shown = subprocess.run(
            ["/bin/true"], env=env, capture_output=True, text=True, errors="replace", timeout=10,
            check=False,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        return f"/bin/true does not run on it: {error}"
    refused = NOT_PRELOADED.search(shown.stderr)
    if refused:
        return f"{allocator.library} cannot be preloaded: {refused.group(1)}"
    if shown.returncode != 0:
        last = (shown.stderr.strip().splitlines() or ["no word"])[-1]
        return f"/bin/true ends with {shown.returncode} on it: {last[:120]}"
    if allocator.name == "glibc":
        return None
    targets = bound_to(["/bin/true"], allocator.library)
    if targets != {allocator.library}:
        return f"{allocator.library} does not replace malloc, calloc, realloc and free"
    return None


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


def executable_of(command):
    """The ELF file that a command starts: the interpreter, if it is a script."""
    path = shutil.which(command[0]) or command[0]
    for _ in range(4):
        try:
            with open(path, "rb") as file:
                line = file.readline(256)
        except FileNotFoundError as error:
            if path == command[0]:
                raise
            raise ValueError(f"{command[0]}: there is no {path}, which is to run it") from error
        if not line.startswith(b"#!"):
            break
        words = line[2:].decode(errors="replace").split()
        if not words:
            break
        if Path(words[0]).name == "env" and len(words) > 1:
            words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
        path = shutil.which(words[0]) or words[0] if words else path
    return real(path)


def is_dynamic(executable):
    """Whether an ELF file asks for a dynamic linker; raises ValueError if it is none."""
    with open(executable, "rb") as file:
        head = file.read(64)
        if head[:4] != b"\x7fELF" or head[4] != 2:
            raise ValueError(f"{executable} is neither a 64-bit program nor a script with #!")
        offset = int.from_bytes(head[32:40], "little")
        size, count = (int.from_bytes(head[at : at + 2], "little") for at in (54, 56))
        file.seek(offset)
        table = file.read(size * count)
    kinds = [int.from_bytes(table[at : at + 4], "little") for at in range(0, len(table), size)]
    return 3 in kinds  # PT_INTERP


def unfit(command):
    """Why a program's malloc cannot be replaced by a preload, or None."""
    try:
        executable = executable_of(command)
        mode = os.stat(executable).st_mode
        if not is_dynamic(executable):
            return f"{executable} is linked statically: nothing can be preloaded"
    except (OSError, ValueError) as error:
        return str(error)
    if mode & (stat.S_ISUID | stat.S_ISGID):
        return f"{executable} is setuid or setgid: the dynamic linker ignores the preload"
    if "security.capability" in os.listxattr(executable):
        return f"{executable} has capabilities: the dynamic linker ignores the preload"
    return None


def bound_to(command, preload, own=None):
    """The libraries that the program's allocation functions are bound to.

    `own` is the environment of the command; of it only LD_LIBRARY_PATH is of use.
    """
    executable = executable_of(command)
    env = {"PATH": programs.SEARCH, "LC_ALL": "C", "LD_DEBUG": "bindings", "LD_BIND_NOW": "1"}
    # Everything is loaded and bound, as ldd -r does it, and nothing is started.
    env.update({"LD_TRACE_LOADED_OBJECTS": "1", "LD_WARN": "yes"})
    if own and own.get("LD_LIBRARY_PATH"):
        env["LD_LIBRARY_PATH"] = own["LD_LIBRARY_PATH"]
    if preload:
        env["LD_PRELOAD"] = preload
    shown = subprocess.run(
        [executable], env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=30,
        check=False,
    )  # fmt: skip
    text = shown.stderr.decode(errors="replace") + shown.stdout.decode(errors="replace")
    bindings = {(real(file), real(target)) for file, target, _ in BINDING.findall(text)}
    return follow(bindings, executable)


def preload_for(command, allocator, others=(), own=None):
    """(what to preload or None, None), or (None, why this pair cannot be measured).

    `others` are libraries that are preloaded behind it, `own` the environment (bound_to).
    """
    why = unfit(command)
    if why:
        return None, why
    choices = [allocator.library] if allocator.name != "glibc" else [None, allocator.library]
    targets = set()
    for choice in choices:
        try:
            together = ":".join([choice, *others] if choice else others)
            targets = bound_to(command, together, own)
        except (OSError, subprocess.SubprocessError) as error:
            return None, f"could not be asked which malloc it uses: {error}"
        if targets == {allocator.library}:
            return (choice, None)
    others = sorted(targets - {allocator.library})
    if not others:
        return None, "binds no malloc at all"
    return None, f"its malloc is that of {', '.join(others)}"
