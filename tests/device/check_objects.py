#!/usr/bin/env python3
"""check_objects.py: the freestanding library's size and needs, and what programs over it lack.

    check_objects.py needs --nm NM libloam-freestanding.a [--helpers REGEX]
        fails if the archive, as a whole, needs any symbol but memcpy and memset, and what REGEX
        matches: arithmetic of the compiler's own library (__aeabi_uldivmod), which is listed
    check_objects.py compile --compiler "CC FLAG..." --nm NM [--helpers REGEX] [--include DIR]...
        SOURCE... compiles the sources with -Os, -O2 and LOAM_DEBUG, without a warning, and judges
        their needs; 77 iff there is no such compiler, or it has no such target
    check_objects.py sizes --size SIZE [--less PROGRAM] libloam-freestanding.a | PROGRAM...
        a table: flash (code and constants) and RAM (variables) of each file; of programs, what they
        have more than another one
    check_objects.py no-heap --nm NM PROGRAM...
        fails if a program contains or imports any function that hands out memory of a system

It reads symbol tables: a function that is called by its address from a header would pass unseen.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile

OF_LIBC = {"memcpy", "memset"}
# AddressSanitizer's functions are asked for weakly, and only by hosted builds.
HEAP = re.compile(
    r"^_*(?:libc_)?(malloc|calloc|realloc|reallocarray|free|cfree|aligned_alloc|memalign"
    r"|posix_memalign|valloc|pvalloc|s?brk(_r)?|mmap(64)?|strdup|_?Z(nw|na|dl|da)\w+)(@.*)?$"
)


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def symbols(nm, file):
    """(name, kind) of each symbol; kind as nm has it, in upper case where it is global."""
    for line in output(nm, "--format=posix", file).splitlines():
        parts = line.split()
        if len(parts) >= 2 and len(parts[1]) == 1:
            yield parts[0], parts[1]


def needs(args, files=None):
    """Of all files taken together."""
    files = files or args.files
    found = [symbol for file in files for symbol in symbols(args.nm, file)]
    if not found:
        print(f"{files[0]}: no symbols: was nothing compiled?")
        return 1
    defined = {name for name, kind in found if kind not in "Uwv"}
    needed = sorted({name for name, kind in found if kind in "Uwv"} - defined)
    helpers = [name for name in needed if args.helpers and re.fullmatch(args.helpers, name)]
    wrong = [name for name in needed if name not in OF_LIBC and name not in helpers]
    print(
        f"{len(defined)} symbols; needed of a C library: "
        f"{' '.join(sorted(OF_LIBC & set(needed))) or 'nothing'}"
    )
    print(f"needed of the compiler's library: {' '.join(helpers) or 'nothing'}")
    for name in wrong:
        print(f"{files[0]}: needs {name}")
    return 1 if wrong else 0


FREESTANDING = (
    "-std=gnu11 -ffreestanding -nostdlib -fno-stack-protector -fvisibility=hidden".split()
)
WARNINGS = "-Wall -Wextra -Wpedantic -Wstrict-prototypes -Wmissing-prototypes -Werror".split()


def compile_all(args):
    compiler = args.compiler.split() + FREESTANDING + WARNINGS
    status = 0
    with tempfile.TemporaryDirectory(prefix="loam-objects-") as folder:
        empty = os.path.join(folder, "empty.c")
        with open(empty, "w") as file:
            file.write("int nothing;\n")
        try:
            works = subprocess.run(
                [*compiler, "-c", empty, "-o", empty + ".o"], capture_output=True
            )
        except FileNotFoundError:
            works = None
        if works is None or works.returncode != 0:
            print(f"SKIPPED: {args.compiler} does not compile here")
            return 77
        for options in (["-Os"], ["-O2"], ["-O1", "-DLOAM_DEBUG=1"]):
            objects = []
            for number, source in enumerate(args.files):
                objects.append(os.path.join(folder, f"{number}.o"))
                command = [*compiler, *options, *(f"-I{path}" for path in args.include)]
                done = subprocess.run(
                    [*command, "-c", source, "-o", objects[-1]], stderr=subprocess.PIPE, text=True
                )
                if done.returncode != 0:
                    print(f"{' '.join([*command, source])}\n{done.stderr}")
                    status = 1
            print(f"{args.compiler} {' '.join(options)}: {len(objects)} files")
            status |= 1 if status else needs(args, objects)
    return status


def sizes_of(size, file):
    """(name, flash, RAM) of each object file in an archive, or of a program."""
    for line in output(size, "--format=berkeley", file).splitlines()[1:]:
        text, data, bss = (int(column) for column in line.split()[:3])
        name = os.path.basename(line.split()[5]).replace(".obj", "").replace(".c.o", ".c")
        yield name, text + data, data + bss  # variables with a value lie in both


def sizes(args):
    less = next(sizes_of(args.size, args.less))[1:] if args.less else (0, 0)
    rows = [row for file in args.files for row in sizes_of(args.size, file)]
    if len(args.files) == 1:
        rows.append(("all", sum(row[1] for row in rows), sum(row[2] for row in rows)))
    print(f"{'':<24} {'flash':>7} {'RAM':>7}")
    for name, flash, ram in rows:
        print(f"{name:<24} {flash - less[0]:>7} {ram - less[1]:>7}")
    return 0 if rows and rows[-1][1] > 0 else 1


def no_heap(args):
    status = 0
    for file in args.files:
        names = {name for name, _ in symbols(args.nm, file)}
        heap = sorted(name for name in names if HEAP.match(name))
        print(f"{file}: {len(names)} symbols, of a heap: {' '.join(heap) or 'none'}")
        if heap or not names:
            status = 1
    return status


def self_test():
    has = [
        "malloc",
        "free",
        "_sbrk",
        "sbrk",
        "_Znwm",
        "_ZdlPv",
        "malloc@GLIBC_2.2.5",
        "mmap",
        "_malloc",
        "_sbrk_r",
    ]
    has_not = [
        "loam_pool_free",
        "xfree",
        "loam_blocks_malloc",
        "memset",
        "freestanding",
        "board_write",
    ]
    wrong = [name for name in has if not HEAP.match(name)] + [
        name for name in has_not if HEAP.match(name)
    ]
    print(f"self-test: {len(has) + len(has_not)} names, wrong: {wrong or 'none'}")
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["needs", "compile", "sizes", "no-heap", "self-test"])
    parser.add_argument("files", nargs="*")
    parser.add_argument("--compiler", default="cc")
    parser.add_argument("--include", action="append", default=[])
    parser.add_argument("--nm", default="nm")
    parser.add_argument("--size", default="size")
    parser.add_argument("--less", default="")
    parser.add_argument("--helpers", default="")
    args = parser.parse_intermixed_args()
    if args.what == "self-test":
        return self_test()
    return {"needs": needs, "compile": compile_all, "sizes": sizes, "no-heap": no_heap}[args.what](
        args
    )


if __name__ == "__main__":
    sys.exit(main())
