#!/usr/bin/env python3
"""ways.py: builds loam in the ways that others build it, and a consumer on each form of it.

    ways.py --list
    ways.py WAY... --source . [--cmake cmake --jobs 2 --keep FOLDER]

A way is a row of WAYS: a generator, compilers, a linker, flags. In each of them the project ways/
has loam as a subproject; the same build is installed, and the project built on what is installed;
and on the folder where it was built. Its programs say whether malloc is loam's, whether one heap is
there and not two, whether a program may replace operator new (ways/CMakeLists.txt).

Ways of one call that compile the same (generator, compilers, flags) do it once: each is configured
anew, by an empty cache, in the folder of the one before, and links. A way whose tool is not there
(mold, gold) is skipped and says which. Flags of distributions are theirs, but for -O2, which is -O1
here (clang: -O0): it halves the time to compile.

It cannot see how well loam allocates: that is for the tests of each build.
Exit: 0 all held, 1 one did not, 77 one was skipped.
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
SKIPPED = 77

DEBIAN = (
    "-g1 -O1 -fstack-protector-strong -fstack-clash-protection -Wformat -Werror=format-security "
    "-fcf-protection -Wdate-time -D_FORTIFY_SOURCE=2"
)
FEDORA = (
    "-O1 -flto=auto -ffat-lto-objects -fexceptions -g1 -grecord-gcc-switches -pipe -Wall "
    "-Werror=format-security -Wp,-U_FORTIFY_SOURCE,-D_FORTIFY_SOURCE=3 -Wp,-D_GLIBCXX_ASSERTIONS "
    "-fstack-protector-strong -fasynchronous-unwind-tables -fstack-clash-protection "
    "-fcf-protection -fno-omit-frame-pointer -mno-omit-leaf-frame-pointer"
)
# What a careless parent may set; all of it is its own business.
RUDE = (
    "-Wall -Wextra -Wconversion -Wshadow -Wundef -Wcast-qual -Wswitch-enum "
    "-Wno-error=unused-result -Werror -std=gnu99 -fvisibility=default -fno-exceptions"
)


class Failure(Exception):
    pass


class Way:
    """How loam and its consumers are configured. needs: commands, any of each tuple. link: for all
    links."""

    def __init__(
        self, needs=(), generator="Ninja", c="", cxx=None, link="", more=(), configs=("",), probe=""
    ):
        self.needs, self.generator, self.configs = needs, generator, configs
        self.flags = {"CMAKE_C_FLAGS": c, "CMAKE_CXX_FLAGS": c if cxx is None else cxx}
        if link:
            for kind in ("EXE", "SHARED", "MODULE"):
                self.flags[f"CMAKE_{kind}_LINKER_FLAGS"] = link
        self.more, self.probe = more, probe

    def compiles(self):
        """The same for ways that have the same objects."""
        return [
            self.generator,
            self.needs == CLANG,
            *(self.flags[f"CMAKE_{one}_FLAGS"] for one in ("C", "CXX")),
        ]

    def arguments(self):
        return [
            "-G",
            self.generator,
            *(f"-D{name}={value}" for name, value in self.flags.items()),
            *self.more,
        ]


CLANG = (("clang-16", "clang"), ("clang++-16", "clang++"))


def multi(needs=(), link="", more=(), configs=("Release",)):
    """A way of the generator for several configurations; they all have the objects of one
    Release."""
    flags = ("-DCMAKE_CONFIGURATION_TYPES=Debug;Release", "-DCMAKE_DEBUG_POSTFIX=d",
             "-DCMAKE_C_FLAGS_RELEASE=-O0", "-DCMAKE_CXX_FLAGS_RELEASE=-O0")  # fmt: skip
    return Way(
        needs,
        "Ninja Multi-Config",
        link=link,
        more=(*flags, *more),
        configs=configs,
        probe=link.split(" ")[0],
    )


WAYS = {
    # before others leave shared libraries in the folder
    "no_shared": multi(more=("-DBUILD_SHARED_LIBS=OFF",)),
    "multi_config": multi(configs=("Debug", "Release")),
    "lld": multi((("ld.lld",),), "-fuse-ld=lld -Wl,--gc-sections -Wl,--icf=all"),
    "gold": multi((("ld.gold",),), "-fuse-ld=gold"),
    "mold": multi((("mold", "ld.mold"),), "-fuse-ld=mold"),
    "rude_parent": Way(c=RUDE + " -O0", cxx="-O0 -Wall -Werror",
                       more=("-DCMAKE_UNITY_BUILD=ON", "-DCMAKE_COMPILE_WARNING_AS_ERROR=ON",
                             "-DCHECK_IPO=ON",
                             "-DCMAKE_C_STANDARD=99", "-DCMAKE_CXX_STANDARD=20",
                             "-DCMAKE_POSITION_INDEPENDENT_CODE=OFF",
                             "-DCMAKE_C_VISIBILITY_PRESET=default",
                             "-DCMAKE_LIBRARY_OUTPUT_DIRECTORY=/nowhere",
                             "-DCMAKE_BUILD_TYPE=Debug")),
    # With the generator of debhelper.
    "debian": Way((("make",),), "Unix Makefiles", c=DEBIAN, link="-Wl,-z,relro -Wl,-z,now"),
    "fedora_lto": Way(c=FEDORA, link="-Wl,-z,relro -Wl,--as-needed -Wl,-z,pack-relative-relocs "
                                     "-Wl,-z,now -Wl,--build-id=sha1",
                                     probe="-Wl,-z,pack-relative-relocs"),
    # What Ubuntu has when it links; it compiles by flags that Debian or Fedora has as well.
    "ubuntu_lto": Way(c=FEDORA, link="-Wl,-Bsymbolic-functions -flto=auto -ffat-lto-objects "
                                     "-Wl,-z,relro -Wl,-z,now"),
    "clang_thin_lto": Way(CLANG, c="-O0 -flto=thin", probe="-flto=thin"),
}  # fmt: skip


def run(*command, env=None, cwd=None):
    """The command's output; a Failure with all of it if it does not end with 0."""
    command = [str(word) for word in command]
    environment = {**os.environ, **(env or {})}
    for name in ("CFLAGS", "CXXFLAGS", "LDFLAGS", "DESTDIR"):  # the way's own, and no other
        environment.pop(name, None)
    result = subprocess.run(command, env=environment, cwd=cwd, text=True, check=False, timeout=600,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
    if result.returncode != 0:
        raise Failure(
            f"{shlex.join(command)}: exit status {result.returncode}\n{result.stdout[-6000:]}"
        )
    return result.stdout


def first(names):
    return next(filter(None, map(shutil.which, names)), None)


class Build:
    """One way, in a folder where others that compile as it does may have been."""

    def __init__(self, args, name, folder):
        self.args, self.name, self.way, self.folder = args, name, WAYS[name], Path(folder)
        self.prefix = self.folder / name / "the prefix"

    def missing(self):
        """Why the way cannot be tried here, or an empty text."""
        for names in self.way.needs:
            if not first(names):
                return f"there is no {names[0]}"
        if self.way.probe:
            probe = self.folder / "probe.c"
            probe.write_text("int main(void) { return 0; }\n", encoding="utf-8")
            cc = first(CLANG[0]) if self.way.needs == CLANG else self.args.cc
            try:
                run(cc, self.way.probe, probe, "-o", self.folder / "probe")
            except Failure:
                return f"{cc} has no {self.way.probe}"
        return ""

    def project(self, name, *settings):
        """Configures, builds and runs the consumer project; each of the way's configurations."""
        build = self.folder / name
        (build / "CMakeCache.txt").unlink(missing_ok=True)  # another way's, or another form's
        cc, cxx = (
            (first(CLANG[0]), first(CLANG[1]))
            if self.way.needs == CLANG
            else (self.args.cc, self.args.cxx)
        )
        if self.way.needs == CLANG:
            settings = (
                *settings,
                *(f"-DCMAKE_{tool.upper()}={self.archiver(cc, tool)}" for tool in ("ar", "ranlib")),
            )
        arguments = [
            word.replace("/nowhere", str(build / "libraries")) for word in self.way.arguments()
        ]
        run(self.args.cmake, "-S", HERE / "ways", "-B", build, f"-DCMAKE_C_COMPILER={cc}",
            f"-DCMAKE_CXX_COMPILER={cxx}", *arguments, *settings)  # fmt: skip
        for config in self.way.configs:
            chosen = ["--config", config] if config else []
            run(self.args.cmake, "--build", build, "-j", self.args.jobs, *chosen)
            run(
                "ctest",
                "--no-tests=error",
                "--output-on-failure",
                *(["-C", config] if config else []),
                cwd=build,
            )
        return build

    def archiver(self, cc, tool):
        """clang's own llvm-ar (one of another version does not know its objects), or binutils' with
        clang's plugin."""
        own = shutil.which(f"llvm-{tool}-{run(cc, '-dumpversion').split('.')[0]}")
        plugin = Path(run(cc, "-print-resource-dir").strip()).parents[1] / "LLVMgold.so"
        if own or not plugin.exists():
            return own or shutil.which(f"llvm-{tool}")
        script = self.folder / tool
        script.write_text(f'#!/bin/sh\nexec {tool} --plugin "{plugin}" "$@"\n', encoding="utf-8")
        script.chmod(0o755)
        return script

    def all_forms(self):
        build = self.project(
            "subproject", "-DLOAM_FROM=subproject", f"-DLOAM_SOURCE={self.args.source}"
        )
        for config in self.way.configs:
            run(
                self.args.cmake,
                "--install",
                build,
                "--prefix",
                self.prefix,
                *(["--config", config] if config else []),
            )
        for path in (build / "loam", self.prefix):
            self.project("consumer", "-DLOAM_FROM=package", f"-DLOAM_PATH={path}")
        check = globals().get(f"check_{self.name}")
        if check:
            check(self, build)


# ---- what a way has to show besides --------------------------------------------------------------


def debug_sections(path):
    return len(re.findall(r"\.debug_info\b", run("readelf", "-SW", path)))


def check_multi_config(way, build):
    """An object for each configuration, in the build and where both are installed."""
    for folder, debug, release in (
        (build / "loam", "Debug/loam-override.o", "Release/loam-override.o"),
        (way.prefix / "lib", "loam-overrided.o", "loam-override.o"),
    ):  # fmt: skip
        if not debug_sections(folder / debug) or debug_sections(folder / release):
            raise Failure(f"{folder}: {debug} has to have debug information, and {release} none")


def check_rude_parent(way, build):
    cache = (build / "CMakeCache.txt").read_text(encoding="utf-8")
    if re.search(r"^LOAM_(TESTS|WERROR):BOOL=ON$", cache, re.M):
        raise Failure("a subproject has tests or -Werror")
    if not (build / "libraries/libloam.so").exists():
        raise Failure("the parent's CMAKE_LIBRARY_OUTPUT_DIRECTORY was not taken")


def check_no_shared(way, build):
    shared = [path for folder in (build, way.prefix) for path in folder.rglob("*.so*")]
    if shared:
        raise Failure(f"BUILD_SHARED_LIBS is OFF, and there is {shared}")


def check_fortified(way, build):
    """The names that a fortified libloam.so would call, of a libc that a tool may wrap."""
    names = run("readelf", "--dyn-syms", "-W", way.prefix / "lib/libloam.so")
    if "_chk" in names:
        raise Failure("libloam.so calls libc's fortified functions")


check_debian = check_fedora_lto = check_fortified


# ---- the command ---------------------------------------------------------------------------------


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("way", nargs="*", choices=[*WAYS, []])
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--source", default=str(HERE.parent.parent))
    parser.add_argument("--cmake", default="cmake")
    parser.add_argument("--cc", default="gcc")
    parser.add_argument("--cxx", default="g++")
    parser.add_argument("--jobs", default="2")
    parser.add_argument("--keep", help="build here, and leave it")
    args = parser.parse_args()
    if args.list:
        print("\n".join(WAYS))
        return 0
    skipped = failed = 0
    names = args.way or list(WAYS)
    with tempfile.TemporaryDirectory(prefix="loam-ways-") as temporary:
        for name in names:
            same = next(other for other in names if WAYS[other].compiles() == WAYS[name].compiles())
            folder = Path(args.keep or temporary) / same
            (folder / name).mkdir(parents=True, exist_ok=True)
            build = Build(args, name, folder)
            why = build.missing()
            if why:
                print(f"ways: {name} skipped: {why}", flush=True)
                skipped += 1
                continue
            try:
                build.all_forms()
            except Failure as failure:
                print(f"ways: {name} failed: {failure}", flush=True)
                failed += 1
            else:
                print(f"ways: {name} works", flush=True)
    print(f"ways: {len(names) - skipped - failed} work, {failed} failed, {skipped} skipped")
    return 1 if failed else SKIPPED if skipped else 0


if __name__ == "__main__":
    sys.exit(main())
