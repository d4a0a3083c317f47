"""recipes.py: what the rivals are, and how each becomes a library to preload.

A Bundled rival is compiled from the C or C++ source inside a crate, by its own build system with
the settings its authors recommend for use; where the crate left that build system out, by one
compiler command with the flags it would have used. An Installed rival is a file of a Debian or
Ubuntu package. README.md has the table and the reasons.

CFLAGS and the like of the caller are kept away from the builds: every rival shall have its own
flags on every machine. CC and CXX count, and the compiler is part of what is reported.
"""

import glob
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

FLAG_VARIABLES = ("CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "LD_PRELOAD", "MAKEFLAGS")
BUILT_AT = "1577836800"  # what __DATE__ says in every build, so that two builds are the same file


class Failed(Exception):
    """A rival that cannot be built or found; the text says why."""


@dataclass(frozen=True)
class Job:
    """One build: where the crate lies, where to build, with how many processes."""

    source: Path
    work: Path
    jobs: int
    crate_version: str

    def run(self, command: list, folder: Path | None = None) -> None:
        """Runs a build step, its output appended to build.log; raises Failed."""
        log = self.work / "build.log"
        env = {name: text for name, text in os.environ.items() if name not in FLAG_VARIABLES}
        env |= {name: compiler(name) for name in ("CC", "CXX")} | {"SOURCE_DATE_EPOCH": BUILT_AT}
        if shutil.which(str(command[0])) is None:
            raise Failed(f"{command[0]} is not installed")
        with log.open("a") as file:
            print("$", shlex.join(map(str, command)), file=file, flush=True)
            done = subprocess.run(
                command, cwd=folder or self.source, env=env, stdin=subprocess.DEVNULL,
                stdout=file, stderr=subprocess.STDOUT, check=False,
            )  # fmt: skip
        if done.returncode != 0:
            raise Failed(f"does not build: {_complaint(log)} ({log})")


@dataclass(frozen=True)
class Bundled:
    name: str
    kind: str
    crate: str
    folder: str  # of the source inside the crate
    version: Callable[[Job], str]
    build: Callable[[Job], tuple[Path, str]]  # gives the library and the flags as used
    compiler: str = "CC"


@dataclass(frozen=True)
class Installed:
    name: str
    kind: str
    files: tuple[str, ...]  # patterns; the highest version of the first that matches is taken
    packages: str  # for those who lack it


# ---- building ------------------------------------------------------------------------------------


def compiler(variable: str) -> str:
    return os.environ.get(variable) or {"CC": "cc", "CXX": "c++"}[variable]


def compiler_version(variable: str) -> str:
    """The first line of what the compiler says of itself; raises Failed."""
    command = [*shlex.split(compiler(variable)), "--version"]
    try:
        shown = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise Failed(f"no compiler: {shlex.join(command)}: {error}") from error
    return shown.stdout.splitlines()[0]


def by_cmake(*options: str, target: str) -> Callable[[Job], tuple[Path, str]]:
    def build(job: Job) -> tuple[Path, str]:
        tree = job.work / "build"
        job.run([
            "cmake", "-S", job.source, "-B", tree, "-DCMAKE_BUILD_TYPE=Release",
            "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", *options,
        ])  # fmt: skip
        job.run(["cmake", "--build", tree, "--target", target, "--parallel", str(job.jobs)])
        flags = f"cmake {' '.join(('-DCMAKE_BUILD_TYPE=Release', *options))}"
        return _library(tree, "lib*.so*"), f"{flags}: {_cmake_flags(tree, target)}"

    return build


def by_mimallocs_cmake(*options: str) -> Callable[[Job], tuple[Path, str]]:
    """The crate has mimalloc's CMakeLists.txt but not the folder cmake/ that it includes.

    What the library needs of that folder is the version; the rest serves an installation.
    """
    build_it = by_cmake(
        "-DMI_BUILD_STATIC=OFF", "-DMI_BUILD_OBJECT=OFF", "-DMI_BUILD_TESTS=OFF", *options,
        target="mimalloc",
    )  # fmt: skip

    def build(job: Job) -> tuple[Path, str]:
        major, minor, patch = mimalloc_version(job).split(".")
        helpers = job.source / "cmake"
        helpers.mkdir()
        (helpers / "mimalloc-config-version.cmake").write_text(
            f"set(mi_version_major {major})\nset(mi_version_minor {minor})\n"
            f"set(mi_version_patch {patch})\nset(mi_version {major}.{minor})\n"
        )
        (helpers / "JoinPaths.cmake").write_text("function(join_paths)\nendfunction()\n")
        return build_it(job)

    return build


def by_jemallocs_make(job: Job) -> tuple[Path, str]:
    """The crate has jemalloc's configure script in a folder of its own, for want of autoconf."""
    shutil.copy(job.source.parent / "configure" / "configure", job.source / "configure")
    options = ["--disable-doc", f"--with-version={job.crate_version.partition('+')[2]}"]
    job.run(["sh", "./configure", *options])
    job.run(["make", f"-j{job.jobs}", "build_lib_shared"])
    made_with = (job.source / "Makefile").read_text()
    flags = re.search(r"^CONFIGURE_CFLAGS := (.*)$", made_with, re.MULTILINE)
    used = _telling(flags[1].split()) if flags else "its own"
    return _library(job.source / "lib", "libjemalloc.so*"), f"./configure {options[0]}: {used}"


def by_one_command(job: Job) -> tuple[Path, str]:
    """rpmalloc, as its configure.py builds the target rpmallocwrap with gcc for release.

    That build itself has -Werror, which a newer compiler's warnings break. Linked without
    -ffast-math, as there: gcc 12 would add start code that changes the program's arithmetic.
    """
    flags = (
        "-std=c11 -O3 -funroll-loops -fstrict-aliasing -ffast-math -fPIC -D_GNU_SOURCE=1 "
        "-DENABLE_PRELOAD=1 -DENABLE_OVERRIDE=1"
    )
    source = job.source / "rpmalloc" / "rpmalloc.c"
    made, library = job.work / "rpmalloc.o", job.work / "librpmallocwrap.so"
    cc = shlex.split(compiler("CC"))
    job.run([*cc, *flags.split(), "-c", source, "-o", made])
    job.run([*cc, "-shared", made, "-o", library, "-pthread", "-ldl"])
    return library, flags


def by_hardened_mallocs_flags(config: str) -> Callable[[Job], tuple[Path, str]]:
    """hardened_malloc, as its Makefile builds it, but for -march=native; the crate lacks that file.

    What its config/<name>.mk says stands, as definitions, in the crate's config-<name>.conf. The
    headers give gcc 12 the words that are keywords in C23.
    """
    words = [f"-include{name}.h" for name in ("stdalign", "stdbool", "assert", "threads")]
    shared = (
        "-O3 -flto -fPIC -fvisibility=hidden -fno-plt -pipe -fstack-clash-protection "
        "-fcf-protection -fstack-protector-strong -D_GNU_SOURCE"
    )

    def build(job: Job) -> tuple[Path, str]:
        crate = job.source.parents[1]
        lines = (crate / f"config-{config}.conf").read_text().splitlines()
        settings = [f"-D{line}" for line in lines if line and not line.startswith("#")]
        made = []
        for name in (
            "chacha.c",
            "h_malloc.c",
            "memory.c",
            "pages.c",
            "random.c",
            "util.c",
            "new.cc",
        ):
            plus = name.endswith(".cc")
            command = [*shlex.split(compiler("CXX" if plus else "CC")), *shared.split()]
            command += [*(["-std=c++17"] if plus else ["-std=c2x", *words]), *settings]
            command += [f"-I{job.source / folder}" for folder in (".", "include", "third_party")]
            made.append(job.work / f"{name}.o")
            job.run([*command, "-c", job.source / name, "-o", made[-1]])
        library = job.work / "libhardened_malloc.so"
        limits = "-Wl,-O1,--as-needed,-z,defs,-z,relro,-z,now,-z,nodlopen,-z,text"
        job.run([
            *shlex.split(compiler("CXX")), *shared.split(), limits, "-shared", *made, "-o", library,
            "-pthread",
        ])  # fmt: skip
        return library, f"config-{config}.conf: {shared}"

    return build


def _library(folder: Path, pattern: str) -> Path:
    files = [file for file in sorted(folder.glob(pattern)) if not file.is_symlink()]
    if len(files) != 1:
        raise Failed(f"its build gave {len(files)} libraries {pattern}, not one, in {folder}")
    return files[0]


def _cmake_flags(tree: Path, target: str) -> str:
    """What the target's first source was compiled with."""
    for entry in json.loads((tree / "compile_commands.json").read_text()):
        if f"CMakeFiles/{target}.dir/" in entry["command"]:
            return _telling(shlex.split(entry["command"])[1:])
    raise Failed(f"its build has no target {target}")


def _telling(words: list[str]) -> str:
    """A compiler's arguments less file names, include folders and warnings."""
    kept, skip = [], False
    for word in words:
        if skip or word.startswith(("-I", "-W")):
            skip = False
        elif word in ("-o", "-c", "-isystem"):
            skip = True
        else:
            kept.append(word)
    return " ".join(kept)


def _complaint(log: Path) -> str:
    """The log's line that says most: the first error, else the last one."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if re.search(r"\berror\b", line, re.IGNORECASE)]
    return (errors or lines or ["without a word"])[0 if errors else -1]


# ---- versions ------------------------------------------------------------------------------------


def mimalloc_version(job: Job) -> str:
    """major, then two digits each of minor and patch"""
    text = (job.source / "include" / "mimalloc.h").read_text()
    found = re.search(r"#define\s+MI_MALLOC_VERSION\s+(\d+)(\d\d)(\d\d)\b", text)
    if not found:
        raise Failed("its header names no version")
    return ".".join(str(int(part)) for part in found.groups())


def jemalloc_version(job: Job) -> str:
    return job.crate_version.partition("+")[2].partition("-")[0]


def rpmalloc_version(job: Job) -> str:
    """The crate names a commit; the newest heading of the change log says after which release."""
    release = (job.source / "CHANGELOG").read_text().split()[0]
    return f"{release}+{job.crate_version.partition('+')[2]}"


def crate_version(job: Job) -> str:
    return job.crate_version


# ---- the rivals ----------------------------------------------------------------------------------

MULTIARCH = sysconfig.get_config_var("MULTIARCH") or f"{platform.machine()}-linux-gnu"

PEERS: tuple[Bundled | Installed, ...] = (
    Bundled(
        "mimalloc", "fast", "libmimalloc-sys", "c_src/mimalloc/v3",
        mimalloc_version, by_mimallocs_cmake(),
    ),
    Bundled(
        "mimalloc2", "fast", "libmimalloc-sys", "c_src/mimalloc/v2",
        mimalloc_version, by_mimallocs_cmake(),
    ),
    Bundled(
        "jemalloc", "fast", "tikv-jemalloc-sys", "jemalloc",
        jemalloc_version, by_jemallocs_make,
    ),
    Bundled(
        "snmalloc", "fast", "snmalloc-sys", "upstream", crate_version,
        by_cmake(
            "-DSNMALLOC_BUILD_TESTING=OFF", "-DSNMALLOC_STATIC_LIBRARY=OFF", target="snmallocshim"
        ),
        compiler="CXX",
    ),
    Bundled(
        "rpmalloc", "fast", "rpmalloc-sys", "rpmalloc",
        rpmalloc_version, by_one_command,
    ),
    Installed(
        "tcmalloc", "fast",
        (f"/usr/lib/{MULTIARCH}/libtcmalloc_minimal.so.4", "/usr/lib*/libtcmalloc_minimal.so.4"),
        "libtcmalloc-minimal4 or libtcmalloc-minimal4t64",
    ),
    Installed(
        "tbbmalloc", "fast",
        (f"/usr/lib/{MULTIARCH}/libtbbmalloc_proxy.so.2", "/usr/lib*/libtbbmalloc_proxy.so.2"),
        "libtbbmalloc2",
    ),
    Installed(
        "scudo", "hardened",
        (
            "/usr/lib/llvm-*/lib/clang/*/lib/linux/"
            f"libclang_rt.scudo_standalone-{platform.machine()}.so",
            f"/usr/lib/llvm-*/lib/clang/*/lib/{platform.machine()}-*/"
            "libclang_rt.scudo_standalone.so",
        ),
        "libclang-rt-22-dev or an older one",
    ),
    Bundled(
        "mimalloc-secure", "hardened", "libmimalloc-sys", "c_src/mimalloc/v3",
        mimalloc_version, by_mimallocs_cmake("-DMI_SECURE=ON"),
    ),
    Bundled(
        "snmalloc-checks", "hardened", "snmalloc-sys", "upstream", crate_version,
        by_cmake(
            "-DSNMALLOC_BUILD_TESTING=OFF", "-DSNMALLOC_STATIC_LIBRARY=OFF",
            target="snmallocshim-checks",
        ),
        compiler="CXX",
    ),
    Bundled(
        "hardened-malloc", "hardened", "hardened-malloc-sys", "vendor/hardened-malloc",
        crate_version, by_hardened_mallocs_flags("default"),
    ),
    Bundled(
        "hardened-light", "hardened", "hardened-malloc-sys", "vendor/hardened-malloc",
        crate_version, by_hardened_mallocs_flags("light"),
    ),
)  # fmt: skip
NAMES = tuple(peer.name for peer in PEERS)


# ---- installed packages --------------------------------------------------------------------------


def find(peer: Installed) -> Path:
    """The library's file; raises Failed."""
    for pattern in peer.files:
        if found := glob.glob(pattern):
            return Path(max(found, key=_by_numbers)).resolve()
    raise Failed(f"{Path(peer.files[0]).name} is not installed (package {peer.packages})")


def package_of(library: Path) -> tuple[str, str]:
    """(upstream version, origin) of an installed library; raises Failed."""
    try:
        owner = subprocess.run(
            ["dpkg-query", "-S", library], capture_output=True, text=True, check=True
        ).stdout.partition(": ")[0]
        version = subprocess.run(
            ["dpkg-query", "-W", "-f", "${Version}", owner],
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        raise Failed(f"{library} belongs to no package that dpkg knows") from error
    upstream = version.partition(":")[2] or version
    system = platform.freedesktop_os_release().get("NAME", "Linux")
    return upstream.rpartition("-")[0] or upstream, f"{system} package {owner} {version}"


def _by_numbers(path: str) -> list[int]:
    return [int(digits) for digits in re.findall(r"\d+", path)]
