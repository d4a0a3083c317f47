#!/usr/bin/env python3
"""wrapped.py: which functions of the C library libloam.so calls, and a tool that wraps all of them.

    wrapped.py --library libloam.so --list FILE  writes WRAP(number, function) for each
    wrapped.py --library libloam.so --check      fails if it calls one that CALLED does not list

A preloaded tool may wrap any function of libc and allocate in it. So loam calls libc only where it
holds no lock and the heap is in order. Each function that it calls stands below with the place. A
new one fails the check until somebody has looked at its calls. The functions that copy and fill
memory must not appear: malloc calls them with locks held, and has its own (override/memory.c).

It needs nm. It cannot see functions that loam finds by dlsym. These are libc's setuid family,
which a door calls after the worker has ended, and _dl_find_object.
"""

import argparse
import subprocess
import sys

# Functions of libc, by name: where loam calls them.
CALLED = {
    "__chk_fail": "at the end of a fortified copy's report; it does not return",
    "__cxa_at_quick_exit": "where options are read or set, without a lock",
    "__cxa_atexit": "when a module's first pool of a class is made, and as __cxa_at_quick_exit",
    "__cxa_finalize": "as the library ends, by the compiler's start files",
    "__errno_location": "as a call of the program ends, after the locks are released",
    "__register_atfork": "once, as the heap starts, without a lock",
    "_dl_find_object": "in a new expression that fails, to find the C++ library that throws",
    "abort": "at the end of a report; it does not return",
    "close": "when a scratch region's file is closed, before anything is freed",
    "dl_iterate_phdr": "in a new expression that fails, as _dl_find_object; as dladdr",
    "dladdr": "in a report, to name a call site, without a lock",
    "dlsym": "in a constructor, and before sampling or the record of call sites starts",
    "ferror": "in malloc_info, after the figures are taken",
    "fprintf": "in malloc_info, after the figures are taken",
    "fwrite": "in malloc_info, after the figures are taken",
    "memchr": "where options are read, and in a checked memccpy, without a lock",
    "pthread_key_create": "when a thread first allocates, without a lock, after its heap is made",
    "pthread_key_delete": "as pthread_key_create, if two threads made a key at once",
    "pthread_setspecific": "as pthread_key_create",
    "realpath": "in loam_realpath, before the copy is allocated",
    "sigaction": "when sampling starts, without a lock",
    "strchr": "in the constructor that reads options",
    "strcspn": "where options are read",
    "strlen": "in loam_strdup before it allocates, and where options are read",
    "strncmp": "where options are read: in a constructor, or in its first malloc, without a lock",
    "strnlen": "in loam_strndup before it allocates, and in a checked strcpy and its kin",
    "vsnprintf": "in loam_region_printf and the like, before they allocate and after",
    "wcslen": "in loam_wcsdup before it allocates",
    "wcsnlen": "in a checked wcscpy and its kin, without a lock",
}

# What no tool can wrap: data, and what only other libraries define.
NOT_LIBC = {
    "__environ",
    "__gmon_start__",
    "__libc_single_threaded",
    "__libc_stack_end",
    "_r_debug",
    "environ",
    "loam_config",
}
CXX = ("_Unwind_", "_Z", "__cxa_allocate", "__cxa_begin", "__cxa_end", "__cxa_throw", "__gxx_")
NOT_LIBC_PREFIXES = ("_ITM_", "__asan_", "__tsan_", *CXX)


def undefined(library):
    """Names of the symbols that the library takes from others, without their versions, sorted."""
    nm = ["nm", "-D", "-u", library]
    text = subprocess.run(nm, capture_output=True, text=True, check=True).stdout
    return sorted({line.split()[-1].split("@")[0] for line in text.splitlines() if line.strip()})


def functions_of_libc(library):
    names = [name for name in undefined(library) if name not in NOT_LIBC]
    return [name for name in names if not name.startswith(NOT_LIBC_PREFIXES)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", required=True)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--list", metavar="FILE")
    what.add_argument("--check", action="store_true")
    args = parser.parse_args()
    names = functions_of_libc(args.library)
    if args.list:
        with open(args.list, "w", encoding="utf-8") as file:
            file.writelines(f"WRAP({number}, {name})\n" for number, name in enumerate(names))
        return 0
    unknown = [name for name in names if name not in CALLED]
    for name in unknown:
        print(
            f"{args.library} calls {name} of libc, which a preloaded tool may wrap and allocate "
            "in. Make the system call or do it in loam, or call it without a lock and say so in "
            "wrapped.py"
        )
    print(f"{len(names)} functions of libc, {len(unknown)} of them unknown")
    return 1 if unknown or not names else 0


if __name__ == "__main__":
    sys.exit(main())
