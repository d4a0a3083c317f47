#!/usr/bin/env python3
"""shell_blocks.py: blocks of commands and of CMake in the documents do what they say.

    shell_blocks.py --build DIR [--cc cc --cmake cmake --only TEXT]
    shell_blocks.py --list         the commands, and what becomes of each
    shell_blocks.py --self-test    proves that wrong blocks are found (with --build)

```sh blocks. Each command has to parse, and is run or checked:

    run        cc, readelf, valgrind, and ./program or ./server behind its environment, in a folder
               that has the reader's own files (READERS), libloam.* and include/; it must end with
               0 and without a complaint of loam's or of the dynamic linker's
    checked    make, cmake, ctest, and commands of this tree: each target, preset, option, flag
               and file that is named exists
    trusted    what changes the machine or needs what is not there (sudo, bpftrace): words alone

In all of them, and in commands within a text (in backquotes, checked only), an environment variable
LOAM_... and a library in LD_PRELOAD have to exist.

```cmake blocks are whole files CMakeLists.txt. Each is configured; one that has find_package(loam)
is built, and its program run. third_party/loam is this tree.

A block that is a part of something has <!-- fragment: why --> above it, and the text says it too. A
block without a language, or an indented one, holds no command. It cannot tell whether a command
does what the text says, nor whether the value of an option is right where it only checks.
Exit: 0 all held, 1 not, 77 no compiler.
"""

import argparse
import functools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from code_blocks import FENCE, FRAGMENT, ROOT, SKIPPED, pages

READERS = {
    "program.c": "#include <stdlib.h>\n#include <string.h>\n"
    "int main(void) { char *p = malloc(99); if (p == 0) return 1; memset(p, 1, 99); free(p);"
    " return 0; }\n",
    "plugin.c": "#include <loam/loam.h>\nvoid *make(void);\n"
    "void *make(void) { return loam_malloc(9); }\n",
}
PROGRAMS = ("program", "server")
LIBRARIES = ("libloam.so", "libloam-secure.so", "libloam-debug.so", "libloam_copies.so")
COMPILERS = {"cc": "cc", "arm-none-eabi-gcc": "arm-none-eabi-gcc"}
TRUSTED = ("sudo", "echo", "tee")
COMMAND = re.compile(
    r"(\$ )?((sudo|make|cmake|ctest|cc|gcc|g\+\+|valgrind|readelf|bpftrace|python3|cargo|apt-get"
    r"|pkg-config|LD_PRELOAD=\S+|LOAM_[A-Z_]+=\S+)\s+\S|(\./|[a-z.]+/)[\w./-]+( -|\s*$))"
)
INLINE = re.compile(r"(make|cmake|ctest|LD_PRELOAD=\S+|(\.ci|scripts|bench|tests|demo)/[\w./-]+) ")
COMPLAINT = re.compile(r"cannot be preloaded|loam: .*(unknown|not a |no such|bad)")


class Command:
    def __init__(self, where, line, environment, words):
        self.where, self.line, self.environment, self.words = where, line, environment, words


def commands_of(text):
    """[(line number, text)] of a block, continued lines joined, comments left out."""
    joined, first = "", 0
    for number, line in enumerate(text.split("\n")):
        if not joined:
            first = number
        joined += line
        if joined.endswith("\\"):
            joined = joined[:-1] + " "
            continue
        if joined.strip() and not joined.lstrip().startswith("#"):
            yield first, joined.strip()
        joined = ""


def split(line):
    """[(assignments, words)] of the simple commands in a line; raises ValueError."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="();<>|&")
    lexer.whitespace_split = True
    found, now = [], []
    for word in [*lexer, ";"]:
        if word not in (";", "&&", "||", "|"):
            now.append(word)
            continue
        at = 0
        while at < len(now) and re.match(r"[A-Za-z_]\w*=", now[at]):
            at += 1
        if now:
            found.append((dict(pair.split("=", 1) for pair in now[:at]), now[at:]))
        now = []
    return found


# ---- what exists ---------------------------------------------------------------------------------


@functools.cache
def text_of(path):
    return (ROOT / path).read_text(encoding="utf-8")


@functools.cache
def cmake_text():
    files = [ROOT / "CMakeLists.txt", *(ROOT / "cmake").glob("*.cmake")]
    for folder in ("tests", "bench", "examples", "override"):
        files += (ROOT / folder).rglob("CMakeLists.txt")
    return "\n".join(file.read_text(encoding="utf-8") for file in files)


def has_option(name):
    """An option at run time, or a variable that a script or a test reads."""
    if re.search(rf"\b{name.removeprefix('LOAM_')}\b", text_of("src/api/options.def")):
        return True
    return re.search(rf"\b{name}\b", cmake_text() + text_of(".ci/run")) is not None


def has_target(name):
    pattern = rf"(add_custom_target|add_library|add_executable|target_of)\(\s*{re.escape(name)}\b"
    return re.search(pattern, cmake_text()) is not None


@functools.cache
def presets(kind):
    return {each["name"] for each in json.loads(text_of("CMakePresets.json"))[kind]}


# ---- checks: each yields what is wrong -----------------------------------------------------------


def check_environment(values):
    for name, value in values.items():
        if name == "LD_PRELOAD":
            for library in re.split("[: ]", value):
                if Path(library).name not in LIBRARIES:
                    yield f"no library is called {library}"
        elif name.startswith("LOAM_") and not has_option(name):
            yield f"no option is called {name}"


def check_make(words):
    makefile, at = "Makefile", 0
    while at < len(words):
        word, at = words[at], at + 1
        if word == "-C":
            makefile, at = f"{words[at]}/Makefile", at + 1
            if not (ROOT / makefile).exists():
                yield f"there is no {makefile}"
                return
        elif "=" in word:
            if not re.search(rf"\b{word.split('=')[0]}\b", text_of(makefile)):
                yield f"{makefile} knows no {word.split('=')[0]}"
        elif not word.startswith("-") and not re.search(rf"^{word}:", text_of(makefile), re.M):
            yield f"{makefile} has no target {word}"


def check_cmake(words):
    kind = "buildPresets" if "--build" in words else "configurePresets"
    for word, value in zip(words, [*words[1:], ""]):
        if word == "--preset" and value not in presets(kind):
            yield f"no preset of {kind} is called {value}"
        elif word == "--target" and not has_target(value) and value != "uninstall":
            yield f"no target is called {value}"
        elif word == "-S" and not (ROOT / value / "CMakeLists.txt").exists():
            yield f"{value} has no CMakeLists.txt"
        elif word == "--component" and value not in ("runtime", "development", "tools"):
            yield f"no component is called {value}"
        elif word.startswith("-D"):
            name = re.split("[:=]", word[2:])[0]
            known = name.startswith(("CMAKE_", "BUILD_")) or name == "loam_DIR"
            if not known and not re.search(rf"(option|set)\({name}\b", cmake_text()):
                yield f"no option of the build is called {name}"
        elif word.startswith("--") and word.split("=")[0] not in (
            "--preset", "--target", "--build", "--install", "--prefix", "--component", "--parallel",
            "--config",
        ):  # fmt: skip
            yield f"cmake has no {word}"


def check_ctest(words):
    for word, value in zip(words, [*words[1:], ""]):
        if word == "--preset" and value not in presets("testPresets"):
            yield f"no test preset is called {value}"


def check_script(words, executed=True):
    """A command of this tree: it can be executed, and its text names each --flag that it gets."""
    path = ROOT / words[0]
    if not path.is_file() or (executed and not os.access(path, os.X_OK)):
        yield f"{words[0]} is no program of this tree"
        return
    if executed and not text_of(words[0]).startswith("#!"):
        yield f"{words[0]} does not begin with #!"
    if words[0] == ".ci/run":
        phases = re.findall(r"^all_phases=\((.*?)\)", text_of(".ci/run"), re.M)[0].split()
        yield from (f".ci/run has no phase {w}" for w in words[1:] if w not in [*phases, "apps"])
    own = words[1 : words.index("--")] if "--" in words else words[1:]
    for word in own:
        if word.startswith("--") and f'"{word.split("=")[0]}"' not in text_of(words[0]):
            yield f"{words[0]} has no {word}"


CHECKS = {"make": check_make, "cmake": check_cmake, "ctest": check_ctest}


def what_becomes_of(words):
    """run, checked or trusted; None for a command that nobody knows."""
    first = words[0]
    if first in TRUSTED:
        return "trusted"
    if first in COMPILERS or first in ("readelf", "valgrind"):
        return "run"
    if first.removeprefix("./") in PROGRAMS:
        return "run"
    if first == "python3" and len(words) > 1:
        return "checked"
    return "checked" if first in CHECKS or "/" in first else None


def check(command):
    yield from check_environment(command.environment)
    words = command.words
    if not words:
        return
    kind = what_becomes_of(words)
    if kind is None:
        yield f"{words[0]}: nobody knows how to check that"
    elif kind == "checked":
        known = CHECKS.get(words[0])
        if words[0] == "python3":
            yield from check_script(words[1:], executed=False)
        else:
            yield from known(words[1:]) if known else check_script(words)


# ---- running -------------------------------------------------------------------------------------


class Place:
    """A folder as a reader may have it."""

    def __init__(self, folder, args):
        self.folder, self.args = Path(folder), args
        for name, text in READERS.items():
            (self.folder / name).write_text(text)
        for name in ("libloam.so", "libloam.a", "libloam_copies.so"):
            (self.folder / name).symlink_to(args.build / name)
        (self.folder / "include").symlink_to(ROOT / "include")
        (self.folder / "loam").symlink_to(ROOT)
        (self.folder / "build").mkdir()
        for name in ("release", "mine"):
            (self.folder / "build" / name).symlink_to(args.build)
        for name in PROGRAMS:
            source = self.folder / "program.c"
            subprocess.run([args.cc, source, "-o", self.folder / name], check=True)

    def call(self, command, cwd, environment=()):
        """(None or what is wrong)."""
        env = {**os.environ, "LC_ALL": "C", "LD_LIBRARY_PATH": str(self.args.build),
               "LIBRARY_PATH": str(self.args.build), **dict(environment)}  # fmt: skip
        env["C_INCLUDE_PATH"] = str(ROOT / "include")
        done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True,
                              errors="replace", timeout=120, check=False)  # fmt: skip
        complaint = COMPLAINT.search(done.stderr)
        if done.returncode == 0 and not complaint:
            return None
        last = complaint.group() if complaint else "\n    ".join(done.stderr.split("\n")[-6:])
        return f"exit status {done.returncode}: {last}"

    def unable(self, command):
        """Why a command cannot be run here, or None."""
        first = command.words[0]
        if "/" not in first and first not in PROGRAMS and shutil.which(first) is None:
            return f"there is no {first} here"
        for word in [*command.words[1:], *command.environment.values()]:
            word = word.removeprefix("$PWD/")
            if re.match(r"build/[\w-]+/", word) and not (self.folder / word).exists():
                return f"{word} is another build's"
        return None

    def run(self, command):
        words = list(command.words)
        words[0] = str(self.folder / words[0]) if words[0] in PROGRAMS else words[0]
        if words[0] == "cc":
            words[0] = self.args.cc
        environment = dict(command.environment)
        if words[0] == "arm-none-eabi-gcc":
            words += ["-o", "one.o"] if len([w for w in words if w.endswith(".c")]) == 1 else []
            line = " ".join(w if "*" in w else shlex.quote(w) for w in words)
            return self.call(["sh", "-c", line], self.folder, environment)
        return self.call(words, self.folder, environment)

    def build(self, text):
        """A block of CMake: configured; built and run if it takes what is built already."""
        if not re.search(r"^project\(", text, re.M):
            return "is no whole CMakeLists.txt: it has no project()"
        project = Path(tempfile.mkdtemp(dir=self.folder))
        (project / "CMakeLists.txt").write_text(text)
        (project / "program.c").write_text(READERS["program.c"])
        (project / "third_party").mkdir()
        (project / "third_party" / "loam").symlink_to(ROOT)
        cmake = [self.args.cmake, "-S", project, "-B", project / "build"]
        compilers = [f"-DCMAKE_C_COMPILER={self.args.cc}", f"-DCMAKE_CXX_COMPILER={self.args.cxx}"]
        wrong = self.call([*cmake, *compilers, f"-Dloam_DIR={self.args.build}"], project)
        if wrong or "find_package(loam" not in text:
            return wrong
        wrong = self.call([self.args.cmake, "--build", project / "build"], project)
        return wrong or self.call([project / "build" / "program"], project)


# ---- pages ---------------------------------------------------------------------------------------


def without_fences(text):
    return re.sub(FENCE, lambda found: "\n" * found.group().count("\n"), text)


def is_said(above):
    return re.search(r"fragment", re.sub(r"<!--.*?-->", "", above[-400:]), re.I) is not None


def blocks_of(name, text):
    """(where, language, text, wrong) of each block that is for this script."""
    for found in FENCE.finditer(text):
        where = f"{name}:{text.count(chr(10), 0, found.start()) + 1}"
        language, body = found.group(2).lower(), found.group(3)
        indent = len(found.group(1))
        body = "\n".join(line[indent:] for line in body.split("\n"))
        above = text[: found.start()]
        if FRAGMENT.search(above):
            if not is_said(above):
                yield where, "", "", "is a fragment, which the text above does not say"
        elif language in ("sh", "cmake"):
            yield where, language, body, None
        elif language in ("bash", "shell", "console"):
            yield where, "", "", f"is a block of {language}: sh is the word"
        elif not language and COMMAND.match(body):
            yield where, "", "", "holds commands but names no language"
    bare = without_fences(text)
    for found in re.finditer(r"\n\n((?: {4,8}\S[^\n]*\n)+)", bare):
        if COMMAND.match(found.group(1).strip()):
            where = f"{name}:{bare.count(chr(10), 0, found.start()) + 3}"
            yield where, "", "", "is an indented block of commands: ```sh is for them"


def faults(name, text, place, report=lambda *_: None):
    """All that is wrong with a page's blocks: [text]."""
    found = []
    for where, language, body, wrong in blocks_of(name, text):
        if wrong:
            found.append(f"{where}: {wrong}")
        elif language == "cmake":
            report(where, "cmake", "configured")
            wrong = place and place.build(body)
            found += [f"{where}: {wrong}"] if wrong else []
        else:
            found += faults_of_shell(where, body, place, report)
    # The commands in benchmarks.md are those that built the rivals.
    return found + ([] if name == "docs/benchmarks.md" else list(faults_of_lines(name, text)))


def faults_of_shell(where, body, place, report):
    found = []
    for number, line in commands_of(body):
        at = f"{where}+{number + 1}: {line[:60]}"
        try:
            simple = split(line)
        except ValueError as error:
            found.append(f"{at}: {error}")
            continue
        for environment, words in simple:
            command = Command(where, line, environment, words)
            wrong = list(check(command))
            found += [f"{at}: {text}" for text in wrong]
            kind = what_becomes_of(words) if words else "checked"
            why = place.unable(command) if place and kind == "run" else None
            report(where, line, f"{kind}, not run: {why}" if why else kind)
            if place and kind == "run" and not wrong and not why:
                wrong = place.run(command)
                found += [f"{at}: {wrong}"] if wrong else []
    return found


def faults_of_lines(name, text):
    """Of commands within the text, in `backquotes`: they are checked, and not run."""
    bare = without_fences(text)
    for found in re.finditer(r"(?<!`)`([^`\n]+)`(?!`)", bare):
        words = found.group(1)
        if INLINE.match(words) and not re.search(r"[<>*]|\.\.\.", words):
            where = f"{name}:{bare.count(chr(10), 0, found.start()) + 1}"
            yield from faults_of_shell(where, words, None, lambda *_: None)


BLOCK = "Text.\n\n```sh\n{}\n```\n"
CMAKE = "```cmake\ncmake_minimum_required(VERSION 3.20)\nproject(p C)\n{}\n```\n"
WRONG = (
    (BLOCK, "make test", None),
    (BLOCK, "make tset", "no target tset"),
    (BLOCK, "make -C kernel KDIR=/x example", None),
    (BLOCK, "make -C nowhere", "no nowhere/Makefile"),
    (BLOCK, "cmake --preset release && ctest --preset releese", "no test preset is called releese"),
    (BLOCK, "cmake --preset debgu", "is called debgu"),
    (BLOCK, "cmake -S . -B x -DLOAM_TEST=OFF", "called LOAM_TEST"),
    (BLOCK, "cmake --build build/mine --traget loam", "cmake has no --traget"),
    (BLOCK, "cmake --build build/mine --target lom", "no target is called lom"),
    (BLOCK, "bench/run.py --program --rounds 9 -- ./x --anything", None),
    (BLOCK, "bench/run.py --round 9", "bench/run.py has no --round"),
    (BLOCK, "bench/walk.py", "is no program of this tree"),
    (BLOCK, "LOAM_VERBOSE=1 LD_PRELOAD=libloam.so ./program", None),
    (BLOCK, "LOAM_VERBOSITY=1 ./program", "no option is called LOAM_VERBOSITY"),
    (BLOCK, "LOAM_PURGE_DELAY=soon LD_PRELOAD=libloam.so ./program", "PURGE_DELAY"),
    (BLOCK, "LD_PRELOAD=liblaom.so ./program", "no library is called liblaom.so"),
    (BLOCK, "cc -Iinclude program.c libloam.a -pthread", None),
    (BLOCK, "cc -Iinclude programme.c libloam.a", "exit status 1"),
    (BLOCK, "echo 'unfinished", "quotation"),
    (BLOCK, "frobnicate loam", "nobody knows"),
    ("Text: `make tset`.\n", "", "no target tset"),
    ("Text: `make test`, `cmake --preset x` of y.\n", "", "is called x"),
    ("Text: `bench/run.py --program -- ./yours`.\n", "", None),
    ("Text.\n\n    make test\n\nText.\n", "", "indented block of commands"),
    ("```\nmake test\n```\n", "", "names no language"),
    ("```console\n$ make\n```\n", "", "sh is the word"),
    ("<!-- fragment: x -->\n```sh\nanything\n```\n", "", "does not say"),
    ("A fragment:\n\n<!-- fragment: x -->\n```sh\nanything\n```\n", "", None),
    (CMAKE, "find_package(loam REQUIRED)\nadd_executable(program program.c)\n"
     "target_link_libraries(program loam::loam)", None),
    (CMAKE, "find_package(laom REQUIRED)", "exit status 1"),
    ("```cmake\nfind_package(loam REQUIRED)\n```\n", "", "no whole CMakeLists.txt"),
)  # fmt: skip


def self_test(place):
    wrong = 0
    for form, text, wanted in WRONG:
        page = form.format(text) if text else form
        said = "\n".join(faults("page", page, place))
        if (wanted is None and said) or (wanted is not None and wanted not in said):
            print(f"shell_blocks: self-test: wanted {wanted!r} of\n{page}was told: {said!r}")
            wrong += 1
    print(f"shell_blocks: the self-test has {len(WRONG)} cases, {wrong} wrong")
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, help="the folder that has libloam.so")
    parser.add_argument("--root", type=Path, default=ROOT)
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--cxx", default="c++")
    parser.add_argument("--cmake", default="cmake")
    parser.add_argument("--only", default="", help="pages whose name has this text")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    args = parser.parse_args()
    if args.list:
        for page in pages(args.root):
            name = str(page.relative_to(args.root))
            faults(name, page.read_text(encoding="utf-8"), None,
                   lambda *said: print(": ".join(said)))  # fmt: skip
        return 0
    if not args.build or not (args.build / "libloam.so").exists():
        parser.error("--build must name a folder that has libloam.so")
    args.build = args.build.resolve()
    if not shutil.which(args.cc):
        print("shell_blocks: skipped: no compiler")
        return SKIPPED
    with tempfile.TemporaryDirectory(prefix="loam-shell-") as folder:
        place = Place(folder, args)
        if args.self_test:
            return self_test(place)
        wrong, counts = [], {}

        def count(where, line, kind):
            counts[kind.split(",")[0]] = counts.get(kind.split(",")[0], 0) + 1
            if "not run" in kind:
                print(f"shell_blocks: {where}: {line}: {kind}")

        for page in pages(args.root):
            name = str(page.relative_to(args.root))
            if args.only in name:
                wrong += faults(name, page.read_text(encoding="utf-8"), place, count)
    for line in wrong:
        print(f"shell_blocks: {line}")
    shown = ", ".join(f"{number} {kind}" for kind, number in sorted(counts.items()))
    print(f"shell_blocks: {shown}; {len(wrong)} faults")
    return 1 if wrong or not counts else 0


if __name__ == "__main__":
    sys.exit(main())
