#!/usr/bin/env python3
"""run_consumers.py: installs a build into a temporary folder and uses it as others would.

    run_consumers.py KIND --build build/release [--cmake cmake --cc cc --cxx c++]

The kinds:
  find_package  a CMake project that finds it: loam::loam, loam::static, loam::override, C and C++
  embedded      a CMake project that has loam's sources as a subdirectory
  pkg_config    the compiler by hand, with what pkg-config says
  static        a fully static program, C and C++, with the override object linked first
  together      a build of each kind below one prefix: each is preloaded, and linked by pkg-config
                and by CMake
  preload       LD_PRELOAD of the installed library into a program that knows nothing of it
  relocated     the prefix, moved to a name with blanks: pkg-config and CMake find it there, nothing
                was left behind
  built         a CMake project that finds the folder of the build, where nothing was installed
  components    runtime, development and tools, each by itself; together they are all
  uninstall     the target of this name: nothing stays, and what another build needs stays
  two_builds    another build of the same names is refused, the same one not
  paths         no file of the installation names a folder of this machine
  gdb           the installed commands for gdb, which knows them then
  headers       all installed headers, as C11 and as C++17, with every warning an error, by the
                build's compilers, gcc and clang as far as they are there

It checks that loam is found, linked and in charge; that it allocates well is for the other tests.
Exit: 0 it works, 1 it does not, 77 cannot be tried here (says why).
"""

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parent.parent
SKIPPED = 77


class Failure(Exception):
    pass


class Skip(Exception):
    pass


def run(*command, env=None, cwd=None):
    """The command's output, both streams; a Failure with all of it if it does not end with 0."""
    command = [str(word) for word in command]
    result = subprocess.run(command, env={**os.environ, **(env or {})}, cwd=cwd, text=True,
                            check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            timeout=240)  # fmt: skip
    if result.returncode != 0:
        raise Failure(f"{shlex.join(command)}: exit status {result.returncode}\n{result.stdout}")
    return result.stdout


class Installed:
    """A build, installed below a temporary folder."""

    def __init__(self, args, folder):
        self.args = args
        self.folder = Path(folder)
        self.prefix = self.folder / "prefix"
        run(args.cmake, "--install", args.build, "--prefix", self.prefix)
        self.version = self.cache("CMAKE_PROJECT_VERSION")
        kinds = [kind for kind in ("debug", "secure") if self.is_on(kind.upper())]
        self.kind = (kinds or ["release"])[0]
        self.name = "loam" if self.kind == "release" else f"loam-{self.kind}"
        self.library = self.only(f"lib{self.name}.so")

    def only(self, name):
        found = list(self.prefix.rglob(name))
        if len(found) != 1:
            raise Failure(f"{name} was installed {len(found)} times, not once")
        return found[0]

    def cache(self, name):
        text = (Path(self.args.build) / "CMakeCache.txt").read_text(encoding="utf-8")
        match = re.search(rf"^{name}:\w+=(.*)$", text, re.M)
        if not match:
            raise Failure(f"{name} is not in CMakeCache.txt")
        return match.group(1)

    def is_on(self, option):
        text = (Path(self.args.build) / "CMakeCache.txt").read_text(encoding="utf-8")
        return re.search(rf"^LOAM_{option}:\w+=ON$", text, re.M) is not None

    def compile(self, language, program, *arguments):
        compiler = self.args.cc if language == "c" else self.args.cxx
        standard = "-std=c11" if language == "c" else "-std=c++17"
        run(compiler, standard, "-D_GNU_SOURCE", "-O1", HERE / f"consumer.{language}", "-o",
            program,
            *arguments)  # fmt: skip

    def cmake_project(self, name, *settings):
        build = self.folder / name
        run(self.args.cmake, "-S", HERE / name, "-B", build, "-G", "Ninja",
            f"-DCMAKE_C_COMPILER={self.args.cc}", f"-DCMAKE_CXX_COMPILER={self.args.cxx}",
            *settings)  # fmt: skip
        run(self.args.cmake, "--build", build, "-j", "2")
        run("ctest", "--output-on-failure", cwd=build)


def find_package(installed):
    major_minor = ".".join(installed.version.split(".")[:2])
    installed.cmake_project("find_package", f"-DCMAKE_PREFIX_PATH={installed.prefix}",
                            f"-DWANTED_VERSION={major_minor}")  # fmt: skip


def embedded(installed):
    installed.cmake_project("embedded", f"-DLOAM_SOURCE={SOURCE}")


def pkg_config(installed):
    if not shutil.which("pkg-config"):
        raise Skip("there is no pkg-config")
    env = {"PKG_CONFIG_PATH": str(installed.only(f"{installed.name}.pc").parent)}
    version = run("pkg-config", "--modversion", installed.name, env=env).strip()
    if version != installed.version:
        raise Failure(f"pkg-config says version {version}, it is {installed.version}")
    flags = shlex.split(run("pkg-config", "--cflags", "--libs", installed.name, env=env))
    for language in ("c", "cpp"):
        program = installed.folder / f"by_hand_{language}"
        installed.compile(language, program, "-DTAKES_OVER=1", *flags,
                          f"-Wl,-rpath,{installed.library.parent}")  # fmt: skip
        run(program)


def static(installed):
    probe = installed.folder / "probe.c"
    probe.write_text("int main(void) { return 0; }\n", encoding="utf-8")
    try:
        run(installed.args.cc, "-static", probe, "-o", installed.folder / "probe")
    except Failure as failure:
        raise Skip("there is no static C library") from failure
    include = installed.only("loam.h").parent.parent
    for language in ("c", "cpp"):
        program = installed.folder / f"static_{language}"
        installed.compile(language, program, "-DTAKES_OVER=1", f"-I{include}",
                          installed.only(f"{installed.name}-override.o"), "-static",
                          "-pthread")  # fmt: skip
        run(program)


def preload(installed):
    manual = installed.only("loam.7").read_text(encoding="utf-8")
    if "LOAM_PURGE_DELAY" not in manual:
        raise Failure("loam(7) says nothing of LOAM_PURGE_DELAY")
    said = run(
        "/bin/sh", "-c", "exit 0", env={"LD_PRELOAD": str(installed.library), "LOAM_VERBOSE": "1"}
    )
    if f"loam: version {installed.version}" not in said:
        raise Failure(
            f"no line 'loam: version {installed.version}' from a preloaded program: {said!r}"
        )


def together(installed):
    """All three builds, this one and two made for it, below one prefix: no file of one is
    another's."""
    for kind in ("release", "secure", "debug"):
        if kind == installed.kind:
            continue
        build = installed.folder / f"build_{kind}"
        switches = [f"-DLOAM_SECURE={kind == 'secure'}", f"-DLOAM_DEBUG={kind == 'debug'}"]
        run(installed.args.cmake, "-S", SOURCE, "-B", build, "-G", "Ninja", "-DLOAM_TESTS=OFF",
            "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_C_FLAGS_DEBUG=-O0", "-DCMAKE_CXX_FLAGS_DEBUG=-O0",
            f"-DCMAKE_C_COMPILER={installed.args.cc}",
            f"-DCMAKE_CXX_COMPILER={installed.args.cxx}", *switches)  # fmt: skip
        run(installed.args.cmake, "--build", build, "-j", "2")
        before = {path: path.stat().st_ino for path in installed.prefix.rglob("libloam*")}
        run(installed.args.cmake, "--install", build, "--prefix", installed.prefix)
        lost = [path for path in before if not path.exists()]
        if lost:
            raise Failure(f"installing {kind} removed {lost}")
    for kind in ("release", "secure", "debug"):
        name = "loam" if kind == "release" else f"loam-{kind}"
        library = installed.only(f"lib{name}.so")
        said = run("/bin/sh", "-c", "exit 0", env={"LD_PRELOAD": str(library), "LOAM_VERBOSE": "1"})
        if f"loam: version {installed.version}, {kind} build" not in said:
            raise Failure(f"{library} does not say that it is {kind}: {said!r}")
        program = installed.folder / f"together_{kind}"
        flags = ["-I", installed.only("loam.h").parent.parent, "-L", library.parent, f"-l{name}"]
        if shutil.which("pkg-config"):
            env = {"PKG_CONFIG_PATH": str(installed.only(f"{name}.pc").parent)}
            flags = shlex.split(run("pkg-config", "--cflags", "--libs", name, env=env))
        installed.compile("c", program, "-DTAKES_OVER=1", *flags, f"-Wl,-rpath,{library.parent}")
        said = run(program, env={"LOAM_VERBOSE": "1"})
        if f"loam: version {installed.version}, {kind} build" not in said:
            raise Failure(f"a program linked with -l{name} does not run on {kind}: {said!r}")
    installed.cmake_project("together", f"-DCMAKE_PREFIX_PATH={installed.prefix}")


def cmake_install(installed, prefix, *arguments, env=None):
    return run(
        installed.args.cmake,
        "--install",
        installed.args.build,
        "--prefix",
        prefix,
        *arguments,
        env=env,
    )


def files_below(folder):
    return {path.relative_to(folder) for path in Path(folder).rglob("*") if not path.is_dir()}


def relocated(installed):
    moved = installed.folder / "a folder" / "with blanks"
    moved.parent.mkdir()
    installed.prefix.rename(moved)
    installed.prefix = moved
    major_minor = ".".join(installed.version.split(".")[:2])
    installed.cmake_project(
        "find_package", f"-DCMAKE_PREFIX_PATH={moved}", f"-DWANTED_VERSION={major_minor}"
    )
    pkg_config_file = installed.only(f"{installed.name}.pc")
    for path in (installed.args.build, installed.folder / "prefix"):
        if str(path) in pkg_config_file.read_text(encoding="utf-8"):
            raise Failure(f"{pkg_config_file} names {path}")
    if shutil.which("pkg-config"):
        env = {"PKG_CONFIG_PATH": str(pkg_config_file.parent)}
        flags = shlex.split(run("pkg-config", "--cflags", "--libs", installed.name, env=env))
        program = installed.folder / "relocated"
        installed.compile(
            "c", program, "-DTAKES_OVER=1", *flags, "-Wl,-rpath," + str(moved / "lib")
        )
        run(program, env={"LD_LIBRARY_PATH": str(installed.only(f"lib{installed.name}.so").parent)})


def built(installed):
    """-Dloam_DIR=build: export() of the build tree."""
    major_minor = ".".join(installed.version.split(".")[:2])
    installed.cmake_project(
        "find_package", f"-Dloam_DIR={installed.args.build}", f"-DWANTED_VERSION={major_minor}"
    )


def components(installed):
    whole = files_below(installed.prefix)
    parts = {}
    for component in ("runtime", "development", "tools"):
        prefix = installed.folder / component
        cmake_install(installed, prefix, "--component", component)
        parts[component] = files_below(prefix)
    if set.union(*parts.values()) != whole:
        raise Failure(f"components and the whole differ: {set.union(*parts.values()) ^ whole}")
    for one, other in (("runtime", "development"), ("runtime", "tools"), ("development", "tools")):
        if parts[one] & parts[other]:
            raise Failure(f"{one} and {other} share {parts[one] & parts[other]}")
    for component, pattern in (("runtime", rf"lib{installed.name}\.so\.\d"), ("runtime", "LICENSE"),
                               ("runtime", r"loam\.7"),
                               ("development", r"loam\.h"),
                               ("development", rf"{installed.name}-override\.o"),
                               ("development", rf"lib{installed.name}-freestanding\.a"),
                               ("development", rf"{installed.name}\.pc"),
                               ("tools", r"loam\.py"),
                               ("tools", r"libloam_copies\.so")):  # fmt: skip
        if not any(re.search(pattern, path.name) for path in parts[component]):
            raise Failure(f"the component {component} lacks {pattern}: {parts[component]}")


def uninstall(installed):
    """In two prefixes: alone, and beside another build (as far as its file says so)."""
    prefix = installed.folder / "usr"
    foreign = prefix / "include/foreign.h"
    foreign.parent.mkdir(parents=True)
    foreign.write_text("", encoding="utf-8")
    cmake_install(installed, prefix)
    run(installed.args.cmake, "--build", installed.args.build, "--target", "uninstall")
    left = {path for path in prefix.rglob("*") if "loam" in path.name}
    if left or not foreign.exists():
        raise Failure(f"the target uninstall left {left}, or removed {foreign}")
    cmake_install(installed, prefix)
    (prefix / "share/loam/loam-other.build").write_text("", encoding="utf-8")
    run(installed.args.cmake, "--build", installed.args.build, "--target", "uninstall")
    left = {path.name for path in prefix.rglob("*")}
    if not {"loam.h", "loamConfig.cmake", "loam.py"} <= left or f"lib{installed.name}.so" in left:
        raise Failure(f"beside another build, the target uninstall left {left}")
    try:
        run(installed.args.cmake, "--build", installed.args.build, "--target", "uninstall")
    except Failure as failure:
        if "nothing was installed" in str(failure):
            return
        raise
    raise Failure("the target uninstall, called again, said nothing")


def two_builds(installed):
    cmake_install(installed, installed.prefix)  # the same again
    marker = installed.only(f"{installed.name}.build")
    text = marker.read_text(encoding="utf-8")
    marker.write_text(text.replace("LOAM_METER 0", "LOAM_METER 2"), encoding="utf-8")
    for component in ((), ("--component", "runtime"), ("--component", "development")):
        before = {path: path.stat().st_mtime_ns for path in installed.prefix.rglob("*")}
        try:
            cmake_install(installed, installed.prefix, *component)
        except Failure as failure:
            if "there: LOAM_METER 2; to be installed: LOAM_METER 0" not in str(failure).replace(
                "\n", " "
            ):
                raise
        else:
            raise Failure("a metered build was overwritten by one that is not")
        if before != {path: path.stat().st_mtime_ns for path in installed.prefix.rglob("*")}:
            raise Failure("the build was refused, and files were changed")
    cmake_install(installed, installed.prefix, env={"LOAM_INSTALL_REPLACE": "1"})
    if marker.read_text(encoding="utf-8") != text:
        raise Failure("LOAM_INSTALL_REPLACE=1 did not replace the other build")


def paths(installed):
    """Of a debug configuration only the text files: its debug information is for this machine."""
    folders = [str(SOURCE), str(Path(installed.args.build).resolve()), str(installed.prefix)]
    debug = installed.cache("CMAKE_BUILD_TYPE") == "Debug"
    wrong = []
    for path in sorted(installed.prefix.rglob("*")):
        if (
            path.is_dir()
            or path.is_symlink()
            or (debug and path.suffix in (".a", ".o", ".so", ".0"))
        ):
            continue
        content = path.read_bytes()
        wrong += [f"{path} names {folder}" for folder in folders if folder.encode()
                  + b"/" in content
                  or folder.encode() + b"\0" in content]  # fmt: skip
    if wrong:
        raise Failure("\n".join(wrong))


def gdb(installed):
    if not shutil.which("gdb"):
        raise Skip("there is no gdb")
    script = installed.only("loam.py")
    said = run("gdb", "-nx", "-batch", "-ex", f"source {script}", "-ex", "help loam heap")
    if "the arena" not in said:
        raise Failure(f"gdb knows no 'loam heap' with {script}: {said!r}")


def compilers(args):
    """(language, standard, compiler), each compiler once."""
    found = {}
    for language, standard, names in (("c", "c11", (args.cc, "gcc", "clang")),
                                      ("c++", "c++17", (args.cxx, "g++", "clang++"))):  # fmt: skip
        for name in names:
            path = shutil.which(name)
            if path:
                found[language, Path(path).resolve()] = (language, standard, path)
    return found.values()


def headers(installed):
    """What a header includes is installed, too. Whether it compiles alone: api/headers_alone.py."""
    include = installed.only("loam.h").parent.parent
    names = sorted(include.rglob("*.h")) + sorted(include.rglob("*.hpp"))
    names = [name for name in names if not name.name.startswith("names_")]  # parts of the others
    for language, standard, compiler in compilers(installed.args):
        if language == "c++":
            some = [name for name in names if name.name != "override.h"]  # says that it is for C
        else:
            some = [name for name in names if name.suffix == ".h"]
        run(compiler, f"-std={standard}", "-Wall", "-Wextra", "-Wpedantic", "-Werror",
            "-fsyntax-only", f"-I{include}", "-x", language,
            *(word for name in some for word in ("-include", name)), "/dev/null")  # fmt: skip
    print(f"{len(names)} headers")


KINDS = {f.__name__: f for f in (find_package, embedded, pkg_config, static, together, preload,
                                 relocated, built, components, uninstall, two_builds, paths, gdb,
                                 headers)}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--build", required=True)
    parser.add_argument("--cmake", default="cmake")
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--cxx", default="c++")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="loam-install-") as folder:
        try:
            KINDS[args.kind](Installed(args, folder))
        except Skip as reason:
            print(f"run_consumers: {args.kind} skipped: {reason}")
            return SKIPPED
        except Failure as failure:
            print(f"run_consumers: {args.kind} failed: {failure}")
            return 1
    print(f"run_consumers: {args.kind} works")
    return 0


if __name__ == "__main__":
    sys.exit(main())
