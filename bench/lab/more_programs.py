"""The real programs that the lab runs and the demo does not: compilers, a solver, a runtime.

As in programs.py: unchanged binaries of the distribution, inputs that depend on nothing but a size,
output that must be as on glibc, one to two seconds of CPU time at full size.

How much of its time each spends in malloc and free (glibc, perf, symbols of malloc's own: copies
and page faults come on top) decides whether it can tell allocators apart:

    node 20%   z3 10%   rustc 9%   clang 8%   g++ 5%   git 3%

Left out, because their malloc is not what they wait for: PostgreSQL and memcached (heaps of their
own over few large blocks), nginx (pools, and most of its time is the kernel's). rustup's rustc is
linked to a malloc of its own (its executable exports one, which comes before any preload): only the
distribution's rustc, which uses libc's, is found here.
"""

from lab.inputs import make_cpp, make_history, make_rust, make_smt
from lab.programs import INPUTS, Job, Program, compiler_proper, find, plain

CLANGS = ("clang++-16", "clang++-18", "clang++-17", "clang++-19", "clang++-20", "clang++")
CLANG = next((name for name in CLANGS if find(name)), CLANGS[0])


def z3(size, work):
    source = work / "problems.smt2"
    make_smt.write(source, size)
    return Job([find("z3"), str(source)])


def node(size, _work):
    # V8 would sweep and compile on other threads, when it finds time: another order each run.
    return Job([find("node"), "--single-threaded", str(INPUTS / "objects.js"), str(size)])


def rustc(size, work):
    source = work / "parts.rs"
    make_rust.write(source, size)
    options = "--edition 2021 --crate-type lib --emit obj -C opt-level=0 -C codegen-units=1"
    command = [find("rustc"), *options.split(), "-o", "parts.o", str(source)]
    return Job(command, outputs=("parts.o",))


def gxx(size, work):
    source = work / "parts.cpp"
    make_cpp.write(source, size)
    command = [find("g++"), "-std=c++17", "-O1", "-c", str(source), "-o", "parts.o"]
    return Job(command, process="cc1plus", outputs=("parts.o",))


def clang(size, work):
    source = work / "parts.cpp"
    make_cpp.write(source, size)
    command = [find(CLANG), "-std=c++17", "-O1", "-c", str(source), "-o", "parts.o"]
    return Job(command, outputs=("parts.o",))


def git(size, work):
    history = work / "history.git"
    make_history.write(find("git"), history, size)
    command = [find("git"), "--no-pager", "--git-dir", str(history)]
    return Job([*command, "log", "-p", "-M", "--stat", "--all"])


MORE = (
    Program(
        "z3", "z3", ("z3",), 8, z3,
        "problems of arrays, functions and integers",
        plain("z3", "--version"),
    ),
    Program(
        "node", "nodejs", ("node",), 120_000, node,
        "buffers, JSON, zlib, maps; JavaScript's objects are in V8's own heap",
        plain("node", "--version"),
    ),
    Program(
        "rustc", "rustc", ("rustc",), 4, rustc,
        "a library of structures, traits and iterators, unoptimised",
        plain("rustc", "--version"),
    ),
    Program(
        "g++", "g++", ("g++",), 2, gxx,
        "C++17 templates: maps, variants, tuples, lambdas",
        compiler_proper("g++", "cc1plus"),
    ),
    Program(
        "clang", "clang-16", (CLANG,), 2, clang,
        "the same C++17 templates",
        plain(CLANG, "--version"),
    ),
    Program(
        "git", "git", ("git",), 3500, git,
        "log of a long history: renames found, every patch shown",
        plain("git", "--version"),
    ),
)  # fmt: skip
