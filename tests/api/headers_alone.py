#!/usr/bin/env python3
"""headers_alone.py: each public header compiles alone, and all together, in each standard.

    headers_alone.py [--include DIR --cc cc --cxx c++ --only HEADER --jobs N]
    headers_alone.py --self-test     proves on made-up headers that each kind of fault is found

    loam/*.h      C11, C17, C23                 by gcc and clang, as C
    loam/*.h      C++11, 14, 17, 20, 23         the C face of a header is enough for C++11
    loam/*.hpp    C++17, 20, 23

In the oldest standard of a language and the newest, each header is the only one of a source file,
and is included twice there. In C++ gcc tries the oldest, with exceptions, and clang the newest,
without exceptions and RTTI: both have the same library of C++, and so the same things that a header
lacks. In every standard of C++ and in C17, without exceptions in the oldest and newest
as well, and with LOAM_METER=2 and LOAM_CHECKED=1 in C11 and C++17, one source file has them all,
in the order of their names and then backwards, so that what a header lacks is not always behind
another that has it. These cases are tried by gcc and by clang. Every warning
is an error: gcc has -Wall -Wextra -Wpedantic and more, clang has -Weverything without the warnings
of NOT_WANTED, each with its reason. A warning of that list that no header gives any more is an
error as well, so that the list stays short (only where clang 16 runs and all headers are tried).

It cannot tell whether a header works: only whether compilers take it. Macros of a program in front
of a header are hostile.py's. Invariant: docs/guide/standards.md names the same standards.
Exit: 0 all held, 1 not, 77 no compiler of a known kind.
"""

import argparse
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SKIPPED = 77
ROOT = Path(__file__).resolve().parents[2]
GCC = "-Wall -Wextra -Wpedantic -Wshadow -Wundef -Wcast-qual -Wwrite-strings".split()

# Of -Weverything; each is about style, or about a language that the header is not written in.
NOT_WANTED = {
    "c++98-compat": "loam's C++ begins at C++11",
    "c++98-compat-pedantic": "loam's C++ begins at C++11",
    "padded": "says that a struct has padding; layouts are chosen for cache lines",
    "unsafe-buffer-usage": "an allocator computes pointers",
    "declaration-after-statement": "is about C89; loam's C is C11",
    "old-style-cast": "headers of C have no other cast",
    "zero-as-null-pointer-constant": "headers of C write NULL",
    "weak-vtables": "classes of memory resources live in headers alone",
    "missing-prototypes": "operators delete with a size, which clang 16 does not declare",
    "keyword-macro": "bool is made a macro where the compiler's C23 is not yet complete",
    "exit-time-destructors": "xallocator.h promises a static object of each file",
    "global-constructors": "xallocator.h promises a static object of each file",
}
# They cannot be C++, or are parts of the others.
ONLY_C = {"override.h"}
PARTS = re.compile(r"names_\w+\.h$")

C_STANDARDS = ("c11", "c17", "c2x")
C_FACE_STANDARDS = ("c++11", "c++14", "c++17", "c++20", "c++2b")
CXX_STANDARDS = ("c++17", "c++20", "c++2b")
BARE = ("-fno-exceptions", "-fno-rtti")
VARIANT = ("-DLOAM_METER=2", "-DLOAM_CHECKED=1")


def compilers(args):
    """(kind, compiler of C, compiler of C++), each kind once."""
    found = {}
    pairs = ((args.cc, args.cxx), ("gcc", "g++"), ("clang-16", "clang++-16"), ("clang", "clang++"))
    for cc, cxx in pairs:
        if not shutil.which(cc) or not shutil.which(cxx):
            continue
        said = subprocess.run([cxx, "--version"], capture_output=True, text=True, check=False)
        kind = "clang" if "clang" in said.stdout else "gcc"
        found.setdefault(kind, (kind, cc, cxx))
    return list(found.values())


def warnings_of(kind):
    """What a compiler looks at."""
    return ["-Weverything", *(f"-Wno-{one}" for one in NOT_WANTED)] if kind == "clang" else GCC


def languages(name):
    """(language, standards) of a header."""
    if name.endswith(".h"):
        yield "c", C_STANDARDS
    if name not in ONLY_C:
        yield "c++", C_FACE_STANDARDS if name.endswith(".h") else CXX_STANDARDS


def ends(language, standards):
    """(standard, flags) of the oldest standard and the newest."""
    return [
        (s, flags)
        for s in (standards[0], standards[-1])
        for flags in ((), BARE)[: 1 + (language == "c++")]
    ]


def said_of(standard, flags):
    return (
        standard
        + ", without exceptions and RTTI" * (BARE[0] in flags)
        + ", metered and checked" * (VARIANT[0] in flags)
    )


def cases_of(name, found):
    """(kind, command without a source, description) of each case of a header alone."""
    for language, standards in languages(name):
        cases = [(found, case) for case in ends(language, standards)]
        if language == "c++":
            cases = [(found[:1], cases[0][1]), (found[-1:], cases[-1][1])]
        for some, (standard, flags) in cases:
            for kind, cc, cxx in some:
                command = [cc if language == "c" else cxx, *warnings_of(kind), "-x", language]
                yield kind, [*command, f"-std={standard}", *flags], said_of(standard, flags)


def cases_together(names, kind, cc, cxx):
    """(headers, command, description) of all headers in one source."""
    for language in ("c", "c++"):
        wanted = {}
        for name in names:
            for one, standards in languages(name):
                if one == language:
                    cases = [(standard, ()) for standard in standards[1:-1]]
                    cases += ends(language, standards) if language == "c++" else []
                    cases.append(
                        ("c11", VARIANT) if language == "c" else ("c++17", (*BARE, *VARIANT))
                    )
                    for case in cases:
                        wanted.setdefault(case, []).append(name)
        command = [cc if language == "c" else cxx, *warnings_of(kind), "-x", language]
        for (standard, flags), some in wanted.items():
            yield some, [*command, f"-std={standard}", *flags], said_of(standard, flags)


def try_case(job):
    """(None or what is wrong) of one case."""
    include, source, name, command, said, kind = job
    full = [*command, "-Werror", "-fsyntax-only", "-I", str(include), str(source)]
    result = subprocess.run(full, capture_output=True, text=True, check=False,
                            env={**os.environ, "LC_ALL": "C"})  # fmt: skip
    if result.returncode == 0:
        return None
    lines = [line for line in result.stderr.split("\n") if "error" in line][:4]
    return f"{name}, {kind}, {said}:\n  " + "\n  ".join(lines or [result.stderr[:400]])


def sources_of(include, folder, only):
    """{name: source file} of each header."""
    found = {}
    paths = sorted((include / "loam").glob("*.h")) + sorted((include / "loam").glob("*.hpp"))
    for path in paths:
        if PARTS.match(path.name) or (only and path.name != only):
            continue
        found[path.name] = source_with(folder, path.name.replace(".", "_"), [path.name] * 2)
    return found


def source_with(folder, stem, names):
    """A source file that includes these headers."""
    source = Path(folder) / (stem + ".txt")
    text = "".join(f"#include <loam/{name}>\n" for name in names) + "typedef int loam_end;\n"
    source.write_text(text, encoding="utf-8")
    return source


def unused_warnings(include, sources, folder, cc, cxx):
    """Names of NOT_WANTED that no header gives, in any of the languages."""
    every = Path(folder) / "every.txt"
    seen = set()
    for names, command in (
        ([n for n in sources if n.endswith(".h")], [cc, "-std=c2x", "-x", "c"]),
        ([n for n in sources if n.endswith(".h")], [cc, "-std=c11", "-x", "c"]),
        ([n for n in sources if n not in ONLY_C], [cxx, "-std=c++17", "-x", "c++"]),
    ):
        text = "".join(f"#include <loam/{name}>\n" for name in names)
        every.write_text(text, encoding="utf-8")
        full = [*command, "-Weverything", "-fsyntax-only", "-I", str(include), str(every)]
        said = subprocess.run(full, capture_output=True, text=True, check=False).stderr
        seen.update(re.findall(r"\[-W([\w+-]+)\]", said))
    return sorted(set(NOT_WANTED) - seen)


def run(include, folder, found, jobs, only=None):
    """(faults, number of cases) of all headers in include/loam."""
    sources = sources_of(include, folder, only)
    todo = [
        (include, source, name, command, said, kind)
        for name, source in sources.items()
        for kind, command, said in cases_of(name, found)
    ]
    for kind, cc, cxx in found:
        for names, command, said in cases_together(sources, kind, cc, cxx):
            for order, some in (("", names), (" backwards", names[::-1])):
                source = source_with(folder, f"together_{len(todo)}", some)
                todo.append((include, source, f"all headers{order}", command, said, kind))
    with concurrent.futures.ThreadPoolExecutor(max_workers=jobs) as pool:
        return [wrong for wrong in pool.map(try_case, todo) if wrong], len(todo)


def standards_of_guide(root):
    """Faults of the guide's page: it names each standard that is tried."""
    page = (root / "docs/guide/standards.md").read_text(encoding="utf-8")
    names = {"c11": "C11", "c17": "C17", "c2x": "C23"}
    names.update({s: "C++" + s[3:].replace("2b", "23") for s in C_FACE_STANDARDS})
    return [f"docs/guide/standards.md does not name {name}" for name in names.values()
            if not re.search(re.escape(name) + r"\b", page)]  # fmt: skip


# A header with one fault, and what is said about it.
BAD = (
    ("a.h", "int a(void);", None),
    ("a.h", "typedef struct a { bool b; } a;", "bool"),
    ("a.h", "#ifdef __cplusplus\ninline int a = 1;\n#endif\n", "c++11"),
    ("a.h", "static int a(void) { return 1; }\n", "unused"),
    ("a.hpp", "#include <new>\ninline void a() { throw std::bad_alloc(); }", "without exceptions"),
    ("a.hpp", "inline auto a(int &b) { return typeid(b).name(); }", "typeid"),
    ("a.hpp", "struct b { int c; };\ninline void a(b &d) { (void)dynamic_cast<b *>(&d); }", None),
    ("a.hpp", "#include <vector>\ninline std::vector<int> a() { return std::string(); }", "string"),
)


def self_test(found):
    for number, (name, text, wanted) in enumerate(BAD):
        with tempfile.TemporaryDirectory(prefix="loam-headers-") as folder:
            (Path(folder) / "loam").mkdir()
            guard = f"#ifndef A_\n#define A_\n{text}\n#endif\n"
            (Path(folder) / "loam" / name).write_text(guard, encoding="utf-8")
            wrong, _ = run(Path(folder), folder, found, 2)
        if (wanted is None) != (not wrong) or (wanted and wanted not in "\n".join(wrong)):
            print(f"headers_alone: self-test {number}: wanted {wanted!r}, was told {wrong[:2]}")
            return 1
    print(f"headers_alone: the self-test passes, {len(BAD)} headers")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--include", type=Path, default=ROOT / "include")
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--cxx", default="c++")
    parser.add_argument("--only", help="this header")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--self-test", action="store_true")
    args = parser.parse_args()
    found = compilers(args)
    if not found:
        print("headers_alone: skipped: neither gcc nor clang")
        return SKIPPED
    if args.self_test:
        return self_test(found)
    with tempfile.TemporaryDirectory(prefix="loam-headers-") as folder:
        wrong, tried = run(args.include, folder, found, args.jobs, args.only)
        for kind, cc, cxx in found:
            said = subprocess.run([cxx, "--version"], capture_output=True, text=True, check=False)
            if kind == "clang" and "version 16" in said.stdout and not args.only:
                sources = sources_of(args.include, folder, None)
                unused = unused_warnings(args.include, sources, folder, cc, cxx)
                wrong += [f"no header gives -W{name} any more: take it away" for name in unused]
    wrong += standards_of_guide(ROOT)
    for line in wrong:
        print(f"headers_alone: {line}")
    print(f"headers_alone: {tried} cases, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
