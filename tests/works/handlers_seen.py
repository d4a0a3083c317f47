#!/usr/bin/env python3
"""handlers_seen.py: what a handler writes is seen by the code that called malloc, and back.

    handlers_seen.py --build build/release [--include include --seed 1 --keep FOLDER]

gcc and clang know malloc by its name, and take it for a function that touches no memory of the
program. Then a variable that a handler shares with the code that called malloc may be stale on both
sides (loam/handlers.h). Each generated function fills shared variables, calls a function that
allocates or frees, in a state in which loam calls the handler, and compares what both sides saw:

    function    malloc ... operator new, loam_malloc ...
    handler     deferred, limit, oom, error, misuse
    variables   static, thread, global, heap, argument
    way         fence, volatile, own

The way `own` calls loam's names, `fence` calls loam_handler_fence(), `volatile` has volatile shared
variables. The way `plain` has none of these: at -O2 each compiler must get some of its
functions wrong, or this test could not see a thing; with loam/override.h in front, it must get none
wrong. Every set of flags gets another choice of half of the rows, and of shared variables for each;
the seed is printed. No function of loam's headers may have an attribute that lets compilers assume
that it changes no variable: leaf, pure, const.

Exit: 0 all held, 1 one did not. A compiler or linker that is missing is named and left out; 77 if
all are.
"""

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIG = "1048576u"
SHARED = ("static", "thread", "global", "heap", "argument")
HANDLERS = ("deferred", "limit", "oom", "error")

# What stands in place of the call: `p` takes the object, `old` is a small one, `wrong` is none.
C_CALLS = {
    "malloc": f"p = malloc({BIG});",
    "calloc": f"p = calloc(2, {BIG} / 2);",
    "realloc": f"p = realloc(old, {BIG}); if (p) old = NULL;",
    "reallocarray": f"p = reallocarray(old, 2, {BIG} / 2); if (p) old = NULL;",
    "aligned_alloc": f"p = aligned_alloc(64, {BIG});",
    "posix_memalign": f"if (posix_memalign(&p, 64, {BIG}) != 0) p = NULL;",
    "memalign": f"p = memalign(64, {BIG});",
    "valloc": f"p = valloc({BIG});",
    "strdup": "p = strdup(long_text);",
    "strndup": f"p = strndup(long_text, {BIG});",
}
OWN_CALLS = {
    "loam_malloc": f"p = loam_malloc({BIG});",
    "loam_zalloc": f"p = loam_zalloc({BIG});",
    "loam_calloc": f"p = loam_calloc(2, {BIG} / 2);",
    "loam_realloc": f"p = loam_realloc(old, {BIG}); if (p) old = NULL;",
    "loam_rezalloc": f"p = loam_rezalloc(zeroed, {BIG}); if (p) zeroed = NULL;",
    "loam_malloc_aligned": f"p = loam_malloc_aligned({BIG}, 64);",
    "loam_aligned_alloc": f"p = loam_aligned_alloc(64, {BIG});",
    "loam_posix_memalign": f"if (loam_posix_memalign(&p, 64, {BIG}) != 0) p = NULL;",
    "loam_strdup": "p = loam_strdup(long_text);",
    "loam_heap_malloc": f"p = loam_heap_malloc(heap, {BIG});",
}
CXX_CALLS = {
    "new": f"try {{ p = ::operator new({BIG}); }} catch (...) {{ p = nullptr; }}",
    "new_expression": f"try {{ p = new char[{BIG}]; }} catch (...) {{ p = nullptr; }}",
    "new_nothrow": f"p = ::operator new({BIG}, std::nothrow);",
    "new_array_nothrow": f"p = ::operator new[]({BIG}, std::nothrow);",
    "new_aligned": f"try {{ p = ::operator new({BIG}, std::align_val_t(64)); }} "
                   "catch (...) { p = nullptr; }",
    "new_aligned_nothrow": f"p = ::operator new({BIG}, std::align_val_t(64), std::nothrow);",
    "malloc": C_CALLS["malloc"],
}
OWN_CXX_CALLS = {
    "heap_new": f"try {{ p = loam::heap_new({BIG}); }} catch (...) {{ p = nullptr; }}",
    "heap_new_nothrow": f"p = loam::heap_new_nothrow({BIG}, 64);",
    "loam_malloc": OWN_CALLS["loam_malloc"],
}
FREES = {"free": "free(wrong);", "realloc_free": "p = realloc(wrong, 100); p = NULL;"}
OWN_FREES = {"loam_free": "loam_free(wrong);", "loam_free_sized": "loam_free_sized(wrong, 16);"}
CXX_FREES = {"delete": "::operator delete(wrong);", "delete_sized": "::operator delete(wrong, 16);"}

COMMON = r"""
#include <loam/loam.h>
#include <loam/heap.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __cplusplus
#include <loam/malloc.hpp>
#include <new>
#define THREAD thread_local
#else
#define THREAD _Thread_local
#endif

static char *long_text;
static loam_heap *heap;
static void *volatile sink;
static char not_an_object[64] __attribute__((aligned(16)));
static int failures, calls;

static void prepare(int limits) {
    loam_limits now;
    loam_limit_set(0, 0);
    loam_collect();
    loam_limit_get(&now);
    if (limits == 1) loam_limit_set(now.held + 131072, 0);
    if (limits == 2) loam_limit_set(0, now.held + 131072);
}

static void done(const char *name, int called, int seen) {
    loam_limit_set(0, 0);
    calls += called;
    if (called && seen) return;
    failures++;
    printf("%s: %s\n", name, called ? "stale" : "the handler was not called");
}
"""

REGISTER = {
    "deferred": ("bool force, unsigned long long beat, void *argument", "(void)force, (void)beat;",
                 "", "loam_deferred_free_register({f}, {a});"),
    "limit": ("size_t held, size_t soft, void *argument", "(void)held, (void)soft;", "",
              "loam_limit_register({f}, {a});"),
    "oom": ("size_t size, void *argument", "(void)size;", " return false;",
            "loam_oom_register({f}, {a});"),
    "error": ("int code, const char *message, void *argument", "(void)code, (void)message;", "",
              "loam_error_register({f}, {a});"),
}
REGISTER["misuse"] = REGISTER["error"]
LIMITS = {"deferred": 0, "limit": 1, "oom": 2, "error": 2, "misuse": 0}


def function(n, name, call, handler, shared, way, seed):
    """The text of one function, with its handler and shared variables; and its name."""
    parameters, unused, result, register = REGISTER[handler]
    f, q = f"h{n}", "volatile " if way == "volatile" else ""
    returns = "bool" if result else "void"
    struct = f"struct s{n} {{ {q}long want, got; {q}int called; }};"
    where, at, argument, setup, end = {
        "static": (f"static struct s{n} v{n};", f"v{n}.", "NULL", "", ""),
        "thread": (f"static THREAD struct s{n} v{n};", f"v{n}.", "NULL", "", ""),
        "global": (f"struct s{n} v{n};", f"v{n}.", "NULL", "", ""),
        "heap": (f"static struct s{n} *v{n};", f"v{n}->", "NULL",
                 f"v{n} = (struct s{n} *)loam_calloc(1, sizeof *v{n}); if (!v{n}) abort();",
                 f"loam_free(v{n});"),
        "argument": ("", f"v{n}.", f"(void *)&v{n}", f"struct s{n} v{n} = {{0, 0, 0}};", ""),
    }[shared]
    inside = f"((struct s{n} *)argument)->" if shared == "argument" else at
    fence = "loam_handler_fence();" if way == "fence" else ""
    title = f"{name} {handler} {shared} {way}"
    text = f"""
{struct}
{where}
static {returns} {f}({parameters}) {{
    (void)argument; {unused}
    {inside}called++;
    {inside}got = {inside}want * 3 + 1;{result}
}}
static __attribute__((noinline)) void t{n}(void) {{
    void *p = NULL, *old = loam_malloc(100), *zeroed = loam_zalloc(100);
    void *wrong = not_an_object; (void)wrong;
    {setup}
    prepare({LIMITS[handler]});
    {register.format(f=f, a=argument)}
    {at}called = 0;
    {at}got = 7;
    {at}want = {seed};
    {fence}
    {call}
    {fence}
    long got = {at}got;
    int called = {at}called;
    {at}want = 5;
    {fence}
    {register.format(f="NULL", a="NULL")}
    sink = p;
    loam_free(p), loam_free(old), loam_free(zeroed);
    {end}
    done("{title}", PLAIN ? 1 : called, called && got == {seed}L * 3 + 1);
}}"""
    return text, f"t{n}"


def program(cxx, ways, numbers):
    """A source: each call and handler in each way, with shared variables of the numbers' choice."""
    parts, names = [COMMON], []
    parts.append(f"#define PLAIN {int('plain' in ways)}")
    for way in ways:
        if way == "own":
            calls, frees = (OWN_CXX_CALLS, OWN_FREES) if cxx else (OWN_CALLS, OWN_FREES)
        else:
            calls, frees = (CXX_CALLS, CXX_FREES) if cxx else (C_CALLS, FREES)
        rows = [(name, call, handler) for name, call in calls.items() for handler in HANDLERS]
        rows += [(name, call, "misuse") for name, call in frees.items()]
        if "plain" not in ways:
            rows = numbers.sample(rows, len(rows) // 2)
        for name, call, handler in rows:
            shared, seed = numbers.choice(SHARED), numbers.randint(2, 99999)
            text, run = function(len(names), name, call, handler, shared, way, seed)
            parts.append(text)
            names.append(run)
    parts.append("int main(void) {")
    parts.append(f"    long_text = (char *)loam_malloc({BIG} + 1); if (!long_text) return 2;")
    parts.append(f"    memset(long_text, 'x', {BIG}); long_text[{BIG}] = 0;")
    parts.append("    heap = loam_heap_create();")
    parts.append('    loam_option_set("on_error", "ignore");')
    parts += [f"    {name}();" for name in names]
    parts.append('    printf("%d of ' + str(len(names)) + ' wrong\\n", failures);')
    parts.append("    return failures != 0;\n}")
    return "\n".join(parts), len(names)


def links(compiler, flag):
    with tempfile.TemporaryDirectory() as folder:
        command = [compiler, flag, "-x", "c", "-", "-o", f"{folder}/a"]
        program = "int main(void) { return 0; }"
        return not subprocess.run(command, input=program, text=True, capture_output=True).returncode


def compilers():
    """Rows of language, name, command, flags; and lines about what is missing."""
    rows, missing = [], []
    levels = ("-O0", "-O1", "-O2", "-O3")
    for cxx, gnu, clang in ((False, "gcc", "clang"), (True, "g++", "clang++")):
        found = shutil.which(gnu)
        if found:
            rows += [(cxx, found, [level]) for level in levels] + [(cxx, found, ["-O2", "-flto"])]
        else:
            missing.append(gnu)
        found = shutil.which(f"{clang}-16") or shutil.which(clang)
        if found:
            rows += [(cxx, found, [level]) for level in levels]
            if links(found, "-flto=thin"):
                rows += [(cxx, found, ["-O3", f"-flto={kind}"]) for kind in ("thin", "full")]
            else:
                missing.append(f"linker for {found} -flto")
        else:
            missing.append(clang)
    return rows, missing


def build_and_run(row, text, folder, args):
    cxx, compiler, flags = row
    source, target = folder / ("seen.cc" if cxx else "seen.c"), folder / "seen"
    source.write_text(text, encoding="utf-8")
    standard = ["-std=gnu++17", "-fsized-deallocation"] if cxx else ["-std=gnu11"]
    command = [compiler, *standard, "-w", "-fPIE", "-pie", "-pthread", *flags,
               "-I", str(args.include), str(source), "-o", str(target), "-L", str(args.build),
               "-Wl,--no-as-needed", "-lloam", f"-Wl,-rpath,{args.build}"]
    made = subprocess.run(command, capture_output=True, text=True)
    if made.returncode:
        return 1, f"does not compile: {made.stderr[:2000]}"
    environment = {name: text for name, text in os.environ.items() if not name.startswith("LOAM_")}
    environment["LOAM_PURGE_THREAD"] = "0"
    ran = subprocess.run([str(target)], capture_output=True, text=True, env=environment, timeout=60)
    return ran.returncode, ran.stdout + ran.stderr


def attributes(include):
    """Lines of the headers that have such an attribute."""
    word = re.compile(r"__(leaf|pure|const)__|LOAM_(LEAF|PURE)|\bleaf\s*[,)]")
    lines = []
    for path in sorted((include / "loam").glob("*.h*")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if word.search(line) and not path.name.startswith("names_"):
                lines.append(f"{path.name}:{number}: {line.strip()}")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--include", type=Path, default=ROOT / "include")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randint(1, 1 << 30))
    parser.add_argument("--keep", type=Path)
    args = parser.parse_args()
    args.build = args.build.resolve()
    numbers = random.Random(args.seed)
    rows, missing = compilers()
    for name in missing:
        print(f"skipped: no {name}")
    if not rows:
        return 77
    found = attributes(args.include)
    bad = len(found)
    for line in found:
        print(f"FAILED {line}")
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for row in rows:
            cxx, compiler, flags = row
            called = f"{Path(compiler).name} {' '.join(flags)}"
            text, count = program(cxx, ("fence", "volatile", "own"), numbers)
            status, said = build_and_run(row, text, folder, args)
            if status:
                bad += 1
                print(f"FAILED {called} (seed {args.seed}): {said}")
            if flags != ["-O2"] or cxx:
                continue
            text, count = program(cxx, ("plain",), numbers)
            status, said = build_and_run(row, text, folder, args)
            if status != 1 or "stale" not in said:
                bad += 1
                print(f"FAILED {called} (seed {args.seed}): plain calls are right: blind: {said}")
            renamed = (cxx, compiler, [*flags, "-include", "loam/override.h"])
            status, said = build_and_run(renamed, text, folder, args)
            if status:
                bad += 1
                print(f"FAILED {called} with override.h (seed {args.seed}): {said}")
    print(f"{len(rows)} sets of flags, {bad} failed, seed {args.seed}")
    return bad != 0


if __name__ == "__main__":
    sys.exit(main())
