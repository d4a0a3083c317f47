#!/usr/bin/env python3
"""refused.py: what compilers must refuse of loam's C++ headers, and what they must take.

    refused.py --include include [--cxx c++]

Each snippet stands in a file of its own. One that has a text must fail with it; one that has none
must compile without a warning. g++ and clang++ are tried, and the compiler that --cxx names. It
cannot see whether anything works. Exit: 0 all held, 1 not, 77 no compiler.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HEAD = "#include <loam/pool.hpp>\n#include <loam/blocks.hpp>\n#include <loam/region.hpp>\n"
X = "#include <loam/xallocator.h>\n"
CLASSES = X + """#include <loam/pool.hpp>
class A { LOAM_POOLED(A) public: int x = 1; };
class B { DECLARE_ALLOCATOR public: int x = 1; };
class C { XALLOCATOR public: int x = 1; };
class D : public loam::pooled<D> { public: int x = 1; };
alignas(64) char place[4096];
"""

# (name, snippet, text of the error or None)
SNIPPETS = [
    (
        "a block as large as its class",
        HEAD + "struct A { LOAM_POOLED_BLOCKS(A, 24, 0, 0) long v[3]; };",
        None,
    ),
    (
        "a block smaller than its class",
        HEAD + "struct A { LOAM_POOLED_BLOCKS(A, 16, 0, 0) long v[3]; };",
        "smaller than its class",
    ),
    (
        "a block smaller than its class, by a base",
        HEAD + "struct A : loam::pooled<A, 16> { long v[3]; }; void f() { delete new A; }",
        "smaller than its class",
    ),
    (
        "a resource over a temporary region",
        HEAD + "loam::region_resource r{loam::region()};",
        "delete",
    ),
    (
        "an allocator over a temporary region",
        HEAD + "loam::region_allocator<int> a(loam::region{});\n"
        "loam::region_allocator<int> b{loam::region{}};",
        "delete",
    ),
    (
        "a scope over a temporary region",
        HEAD + "void f() { loam::region_scope s{loam::region()}; }",
        "delete",
    ),
    (
        "a resource over a child that is temporary",
        HEAD + "void f(loam::region &r) { loam::region_resource s{r.child()}; }",
        "delete",
    ),
    (
        "a resource over a region",
        HEAD + "void f(const loam::region &r) { loam::region_resource s(r); (void)s; }",
        None,
    ),
    (
        "a base without a virtual destructor",
        HEAD + """struct A { long a; }; struct B : A { long b; };
void f(loam::blocks &blocks) { loam::blocks::unique_ptr<A> p = blocks.make_unique<B>(); }""",
        "conver",
    ),
    (
        "a base with one",
        HEAD + """struct A { virtual ~A() = default; }; struct B : A { long b; };
void f(loam::blocks &blocks) { loam::blocks::unique_ptr<A> p = blocks.make_unique<B>(); }""",
        None,
    ),
    (
        "a private member behind loam::pooled",
        HEAD + "class A : public loam::pooled<A> { int secret; }; int f(A &a) { return a.secret; }",
        "private",
    ),
    (
        "long names only",
        "#define XALLOCATOR_NO_SHORT_NAMES\n" + X + """
struct Allocator {};
static void *xmalloc(std::size_t size) { return loam_xmalloc(size); }
static void xfree(void *p) { loam_xfree(p); }
static void *xrealloc(void *p, std::size_t size) { return loam_xrealloc(p, size); }
static void xalloc_init() {}
class E { DECLARE_ALLOCATOR public: int x; };
IMPLEMENT_ALLOCATOR(E, 0, nullptr)
void f() { xfree(xrealloc(xmalloc(1), 2)); xalloc_init(); delete new E; (void)Allocator(); }""",
        None,
    ),
    (
        "short names taken twice",
        X + "static void *xmalloc(std::size_t) { return nullptr; }",
        "xmalloc",
    ),
]
FORMS = [
    "delete new {0};",
    "delete new (std::nothrow) {0};",
    "delete[] new {0}[3];",
    "delete[] new (std::nothrow) {0}[3];",
    "{0} *p = new (place) {0}; (void)p;",
    "{0} *p = new (place) {0}[3]; (void)p;",
    "{0} *p = ::new {0}; ::delete p;",
]
WIDE = {"WA": "LOAM_POOLED(WA)", "WC": "XALLOCATOR", "WB": "DECLARE_ALLOCATOR"}
# All in one file: a compiler takes a second to read the headers.
SNIPPETS.append(
    (
        "every form of new",
        CLASSES
        + "\n".join(
            f"struct alignas(64) {name} {{ {macro} public: int x; }};"
            for name, macro in WIDE.items()
        )
        + "".join(
            f"\nvoid form_{name}_{i}() {{ " + form.format(name) + " }"
            for name in ["A", "B", "C", "D", *WIDE]
            for i, form in enumerate(FORMS)
        ),
        None,
    )
)


def command(compiler, include, *words):
    warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Wno-error=unused"]
    return [compiler, "-std=c++17", *warnings, "-I", include, *words]


def precompile(compiler, include, folder):
    """HEAD, once for a compiler: reading it is what takes time."""
    header = Path(folder) / "head.hpp"
    header.write_text(HEAD, encoding="utf-8")
    suffix = ".pch" if "clang" in Path(compiler).name else ".gch"
    to = ["-o", f"{header}{suffix}"]
    subprocess.run(command(compiler, include, "-x", "c++-header", header, *to), check=True)
    return header


def run(compiler, include, name, snippet, text, header):
    source = header.with_name("snippet.cc")
    source.write_text(snippet.removeprefix(HEAD) + "\n", encoding="utf-8")
    head = ["-include", header] if snippet.startswith(HEAD) else []
    done = subprocess.run(command(compiler, include, *head, "-fsyntax-only", source),
                          capture_output=True, text=True, check=False)  # fmt: skip
    if text is None and done.returncode != 0:
        return f"{compiler}: {name}: must compile\n{done.stderr}"
    if text is not None and (done.returncode == 0 or text not in done.stderr):
        return f"{compiler}: {name}: must be refused, with '{text}'\n{done.stderr}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--include", required=True)
    parser.add_argument("--cxx", default="c++")
    arguments = parser.parse_args()
    compilers = []
    for each in (arguments.cxx, "g++", "clang++", "clang++-16"):
        found = shutil.which(each)
        if (
            found
            and found not in compilers
            and not any(Path(found).samefile(other) for other in compilers)
        ):
            compilers.append(found)
    if not compilers:
        return 77
    faults = []
    with tempfile.TemporaryDirectory() as folder:
        for compiler in compilers:
            header = precompile(compiler, arguments.include, folder)
            for name, snippet, text in SNIPPETS:
                fault = run(compiler, arguments.include, name, snippet, text, header)
                if fault:
                    faults.append(fault)
    print("\n".join(faults) or f"{len(SNIPPETS)} snippets, {len(compilers)} compilers")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
