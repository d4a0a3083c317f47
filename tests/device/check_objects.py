#!/usr/bin/env python3
"""check_objects.py: what the freestanding library asks for, and how large it is; what programs over it lack.

    check_objects.py needs --nm NM libloam-freestanding.a [--helpers REGEX]
        fails if the archive, as a whole, needs any symbol but memcpy, memmove and memset, and what REGEX
        matches: arithmetic of the compiler's own library (__aeabi_uldivmod), which is listed
    check_objects.py sizes --size SIZE [--less PROGRAM] libloam-freestanding.a | PROGRAM...
        a table: flash (code and constants) and RAM (variables) of each file; of programs, what they have
        more than another one
    check_objects.py no-heap --nm NM PROGRAM...
        fails if a program contains or imports any function that hands out memory of a system

It reads symbol tables: a function that is called by its address from a header would pass unseen.
"""

import argparse
import os
import re
import subprocess
import sys

OF_LIBC = {"memcpy", "memmove", "memset"}
# AddressSanitizer's functions are asked for weakly, and only by hosted builds.
HEAP = re.compile(
    r"^_*(?:libc_)?(malloc|calloc|realloc|reallocarray|free|cfree|aligned_alloc|memalign|posix_memalign|valloc"
    r"|pvalloc|s?brk(_r)?|mmap(64)?|strdup|_?Z(nw|na|dl|da)\w+)(@.*)?$"
)


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def symbols(nm, file):
    """(name, kind) of each symbol; kind as nm has it, in upper case where it is global."""
    for line in output(nm, "--format=posix", file).splitlines():
        parts = line.split()
        if len(parts) >= 2 and len(parts[1]) == 1:
            yield parts[0], parts[1]


def needs(args):
    found = list(symbols(args.nm, args.files[0]))
    if not found:
        print(f"{args.files[0]}: no symbols: not an archive that was compiled?")
        return 1
    defined = {name for name, kind in found if kind not in "Uwv"}
    needed = sorted({name for name, kind in found if kind in "Uwv"} - defined)
    helpers = [name for name in needed if args.helpers and re.fullmatch(args.helpers, name)]
    wrong = [name for name in needed if name not in OF_LIBC and name not in helpers]
    print(f"{len(defined)} symbols; needed of a C library: {' '.join(sorted(OF_LIBC & set(needed))) or 'nothing'}")
    print(f"needed of the compiler's library: {' '.join(helpers) or 'nothing'}")
    for name in wrong:
        print(f"{args.files[0]}: needs {name}")
    return 1 if wrong else 0


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
    has = ["malloc", "free", "_sbrk", "sbrk", "_Znwm", "_ZdlPv", "malloc@GLIBC_2.2.5", "mmap", "_malloc", "_sbrk_r"]
    has_not = ["loam_pool_free", "xfree", "loam_blocks_malloc", "memset", "freestanding", "board_write"]
    wrong = [name for name in has if not HEAP.match(name)] + [name for name in has_not if HEAP.match(name)]
    print(f"self-test: {len(has) + len(has_not)} names, wrong: {wrong or 'none'}")
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["needs", "sizes", "no-heap", "self-test"])
    parser.add_argument("files", nargs="*")
    parser.add_argument("--nm", default="nm")
    parser.add_argument("--size", default="size")
    parser.add_argument("--less", default="")
    parser.add_argument("--helpers", default="")
    args = parser.parse_intermixed_args()
    if args.what == "self-test":
        return self_test()
    return {"needs": needs, "sizes": sizes, "no-heap": no_heap}[args.what](args)


if __name__ == "__main__":
    sys.exit(main())
