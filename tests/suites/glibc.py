"""glibc's own tests on loam: those of malloc/, and the programs of other folders that allocate.

The programs need glibc's library of helpers (support/), which is built against the installed C
library, and small parts of malloc/ that a program may link (scratch buffers, dynamic arrays). A
program that does not build outside glibc's tree is named and not counted; so is one that fails on
glibc's own malloc outside that tree. Of malloc/, tst-compathooks-off and tst-mallocstate do not
build: they call functions that programs can no longer link. Programs that replace malloc themselves
(tst-interpose-*) run with their replacement in front of loam. Programs of other folders that wait
for a clock, and a few that compute for long, are left out: allocation is not what they test.
"""

import os
import platform
import re
import sys

import suite

# Folders beside malloc/, and which of their programs run: those that name an allocating function.
FOLDERS = ("stdlib", "nptl", "posix", "libio", "stdio-common", "string", "wcsmbs", "io", "dirent",
           "misc", "time", "signal", "argp", "rt", "dlfcn", "setjmp", "login", "assert",
           "sysdeps/pthread")
ALLOCATES = re.compile(r"\b(malloc|calloc|realloc|reallocarray|memalign|posix_memalign|"
                       r"aligned_alloc|free)\b")
WAITS = re.compile(r"\b(sleep|usleep|nanosleep|alarm|\w*timed\w*|arc4random\w*|clock_\w+|"
                   r"make_timespec|delayed_exit\w*) ?\(")
LONG = ("test-cxa_atexit-race2", "test-bz22786", "tst-cmp", "tst-mutex10", "tst-robust-fork",
        "tst-pututxline-lockfail", "tst-vfprintf-width-prec", "tst-aio6",
        "tst-pthread-setuid-loop", "tst-create-detached")
# Programs of other folders that run although they wait or do not allocate.
MORE = ("sysdeps/pthread/tst-key1",)  # makes all pthread keys that a process may have

# Sources that a program links beside its own.
WITH = {
    "malloc/tst-interpose-nothread": ["malloc/tst-interpose-aux-nothread.c"],
    "malloc/tst-interpose-thread": ["malloc/tst-interpose-aux-thread.c"],
}

# Programs that fork in the middle of malloc, from handlers and beside threads: a suite of their
# own, glibc_fork.
FORKS = ("malloc/tst-mallocfork2", "malloc/tst-mallocfork3", "malloc/tst-malloc-fork-deadlock")
# tst-mallocfork2 with _Fork, which runs no handlers of a fork: nothing that builds differ in.
FORKS_OF_RELEASE = ("malloc/tst-mallocfork3",)

# What glibc's own headers say inside its tree, for the parts of it that are built outside.
PREFACE = """
#include <limits.h>
#define TIMEOUTFACTOR 1
#define MODULE_NAME testsuite
#define attribute_hidden
#define libc_hidden_proto(name)
#define libc_hidden_def(name)
"""
PATHS = {"SRCDIR_PATH": "", "OBJDIR_PATH": "", "OBJDIR_ELF_LDSO_PATH": "", "INSTDIR_PATH": "/usr",
         "LIBDIR_PATH": "/usr/lib", "SLIBDIR_PATH": "/lib", "BINDIR_PATH": "/usr/bin",
         "SBINDIR_PATH": "/usr/sbin", "ROOTSBINDIR_PATH": "/sbin", "SYSCONFDIR_PATH": "/etc",
         "COMPLOCALEDIR_PATH": "/usr/lib/locale", "ROOTBINDIR_PATH": "/bin"}
HEADERS = ("include/array_length.h", "include/libc-diag.h", "include/scratch_buffer.h",
           "include/alloc_buffer.h", "include/intprops.h", "include/verify.h",
           "include/libc-pointer-arith.h", "test-skeleton.c", "sysdeps/generic/malloc-alignment.h",
           "sysdeps/generic/malloc-size.h", "sysdeps/generic/malloc-machine.h",
           f"sysdeps/{platform.machine()}/stackinfo.h")


def wanted(path):
    return path.startswith(("support/", "malloc/")) or path in HEADERS or (
        re.search(r"\.[ch]$", path) is not None
        and path.startswith(tuple(f"{name}/" for name in FOLDERS)))


def shim(tree, folder):
    """Returns a folder for -I with those internal headers of glibc that the programs need."""
    folder.mkdir(exist_ok=True)
    for path in (*HEADERS, "support", "malloc"):
        link = folder / os.path.basename(path)
        if (tree / path).exists() and not link.exists():
            link.symlink_to(tree / path)
    (folder / "config.h").write_text("")
    (folder / "preface.h").write_text(PREFACE)
    return folder


def waits(file, text):
    """Whether the program, or a source that it includes, waits for a clock."""
    for name in re.findall(r'#include "([^"]+\.c)"', text):
        if (file.parent / name).is_file():
            text += (file.parent / name).read_text(errors="replace")
    return WAITS.search(text) is not None


def build(tree, out):
    """Builds helpers, then programs. Returns ({name: program}, [names that do not build])."""
    headers = shim(tree, out / "shim")
    flags = ["gcc", "-std=gnu11", "-O1", "-g1", "-w", "-fno-builtin", "-pthread", "-D_GNU_SOURCE",
             "-include", headers / "preface.h", "-I", headers, "-I", tree / "support"]
    flags += [f'-D{name}="{value}"' for name, value in PATHS.items()]
    flags += ["-DTEST_NO_MALLOPT"]  # or each sets M_PERTURB, and malloc's fast paths are not taken
    helpers = out / "helpers"
    helpers.mkdir(exist_ok=True)
    other = re.compile(r"tst-|README|links-dso|test-driver|test-run-command|.*-container")
    sources = sorted((tree / "support").glob("*.c"))
    sources = [file for file in sources if not other.match(file.name)]
    for part in ("scratch_buffer_*", "dynarray_*", "alloc_buffer_*"):
        sources += sorted((tree / "malloc").glob(f"{part}.c"))
    suite.compile_all([(helpers / f"{file.stem}.o", [*flags, "-c", file]) for file in sources])
    archive = out / "libsupport.a"
    suite.archive(archive, sorted(helpers.glob("*.o")))

    commands, programs = [], {}
    for folder in ("malloc", *FOLDERS):
        for file in sorted((tree / folder).glob("*.c")):
            name = f"{folder}/{file.stem}"
            if not re.match(r"(tst|test|bug)[-_.]|bug|mallocbug", file.name) or "-static" in name:
                continue
            text = file.read_text(errors="replace")
            if not re.search(r"test-driver\.c|test-skeleton\.c|\bmain \(", text):
                continue
            allocates = ALLOCATES.search(text) is not None and not waits(file, text)
            if folder != "malloc" and name not in MORE and (not allocates or file.stem in LONG):
                continue
            programs[name] = out / "programs" / name
            programs[name].parent.mkdir(parents=True, exist_ok=True)
            extra = [tree / path for path in WITH.get(name, [])]
            argv = [*flags, "-I", file.parent, "-I", tree / "malloc", file, *extra, archive, "-lm"]
            commands.append((programs[name], argv))
    failed = suite.compile_all(commands)
    lines = (f"== {output}\n{said}\n" for output, said in sorted(failed.items()))
    (out / "failed.txt").write_text("".join(lines))
    missing = sorted(name for name, output in programs.items() if output in failed)
    return {name: path for name, path in programs.items() if name not in missing}, missing


def test():
    with suite.Lock("glibc"):
        tree = suite.fetch("glibc", wanted)
        out = suite.CACHE / "glibc" / "out"
        out.mkdir(exist_ok=True)
        built, missing = build(tree, out)
    print(f"{len(missing)} do not build outside glibc's tree: {' '.join(missing)}")
    env = {"TIMEOUTFACTOR": "{factor}"}
    programs = [suite.Program(name, [path], env, 60, None) for name, path in built.items()]
    if "--fork" in sys.argv[1:]:
        sys.argv.remove("--fork")
        left_out = () if os.environ.get("LOAM_BUILD") == "release" else FORKS_OF_RELEASE
        names = set(FORKS) - set(left_out)
        chosen, least = [each for each in programs if each.name in names], len(names)
    else:
        chosen, least = [each for each in programs if each.name not in FORKS], 300
    suite.run_suite("glibc", chosen, least)


suite.main(test)
