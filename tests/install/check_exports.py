#!/usr/bin/env python3
"""check_exports.py: what the shared library and the override object offer, and what they ask for.

    check_exports.py --readelf readelf libloam.so loam-override.o [libloam_copies.so]
        [--copies-inside]

Checks, by readelf:
  1. both define every allocation function of the C library and every C++17 operator new/delete
  2. they define nothing else but loam_*, libc's aliases of these, and (the shared library) the
     calls that override/doors.c, unlock.c and binding.c define: an internal name that leaks could
     collide; with --copies-inside, for the secure build, also what libloam_copies.so defines
  3. libloam.so needs libc and the dynamic linker, nothing more; no text relocations; initial-exec
     thread-local memory (no call to __tls_get_addr); bound at start, never unloaded
  4. what of C++ it refers to is weak, so that it loads into a program without C++
  5. libloam_copies.so defines the memcpy and strcpy families and their fortified forms,
     unversioned, and nothing else, and needs no more than libloam.so does

It cannot see whether the functions work: the tests in libc/ do that.
Exit: 0 all held, 1 one line for each that does not.
"""

import argparse
import re
import subprocess
import sys

C_NAMES = (
    """malloc calloc realloc reallocarray free free_sized free_aligned_sized cfree aligned_alloc
memalign posix_memalign valloc pvalloc malloc_usable_size mallinfo mallinfo2 malloc_trim mallopt
malloc_stats malloc_info""".split()
)

# libc's second names for the same functions, which some programs call.
C_ALIASES = ["__posix_memalign"] + [f"__libc_{name}" for name in (
    "malloc calloc realloc reallocarray free cfree memalign valloc pvalloc".split())]  # fmt: skip

# In the shared library alone: calls before which the background worker has to end
# (override/doors.c), and calls after which memory may go back that the system has refused to take
# (override/unlock.c), and calls that would give libraries libc's free (override/binding.c).
DOORS = """dlmopen dlopen dlsym munlock munlockall prctl setegid seteuid setgid setgroups setns
setregid setresgid setresuid setreuid setuid syscall unshare""".split()

# In libloam_copies.so and libloam-secure.so (override/copies.c); COPIES_CHK also have
# fortified forms.
COPIES_CHK = """memcpy memmove mempcpy memset explicit_bzero strcpy stpcpy strncpy stpncpy strcat
strncat strlcpy strlcat wmemcpy wmemmove wmempcpy wmemset wcscpy wcpcpy wcsncpy wcpncpy wcscat
wcsncat wcslcpy wcslcat""".split()
COPIES = COPIES_CHK + [f"__{name}_chk" for name in COPIES_CHK] + ["bzero", "bcopy", "memccpy"]

SIZE, ALIGN, NOTHROW = "m", "St11align_val_t", "RKSt9nothrow_t"
CXX_NAMES = (
    # new: size [, alignment] [, nothrow]
    [f"_Zn{kind}{SIZE}{align}{no}" for kind in "wa" for align in ("", ALIGN)
     for no in ("", NOTHROW)]
    # delete: pointer; and size; and alignment; and nothrow
    + [f"_Zd{kind}Pv{rest}" for kind in "la" for rest in (
        "", SIZE, ALIGN, SIZE + ALIGN, NOTHROW, ALIGN + NOTHROW)]
)  # fmt: skip

ALLOWED_LIBRARIES = re.compile(r"^(libc\.so\.6|ld-linux[-\w]*\.so\.\d+)$")
# Made by the linker, or part of the C++ run-time interface, and shared by design.
LINKER_NAMES = re.compile(r"^(_init|_fini|_edata|_end|__bss_start|_GLOBAL_OFFSET_TABLE_)$")
CXX_RUNTIME = re.compile(r"^(__cxa_|__gxx_|_ZT[ISV]|_ZNS|_ZNK|_ZSt)")
# What libc itself offers under such a prefix, C++ or not.
CXX_IN_LIBC = {"__cxa_finalize", "__cxa_atexit", "__cxa_thread_atexit_impl", "__cxa_at_quick_exit"}


def readelf(tool, *arguments):
    result = subprocess.run([tool, "-W", *arguments], capture_output=True, text=True, check=True)
    return result.stdout


def symbols(tool, path, table):
    """(name, binding, visibility, defined) of each global symbol of a file."""
    for line in readelf(tool, table, path).splitlines():
        fields = line.split()
        if len(fields) < 8 or not fields[0].rstrip(":").isdigit():
            continue
        _, _, _, _, binding, visibility, section, name = fields[:8]
        if binding in ("GLOBAL", "WEAK", "UNIQUE"):
            yield name.split("@")[0], binding, visibility, section != "UND"


def check_names(path, found, names):
    defined = {name for name, _, visibility, is_defined in found
               if is_defined and visibility in ("DEFAULT", "PROTECTED")}  # fmt: skip
    for name in names:
        if name not in defined:
            yield f"{path}: does not define {name}"
    for name in sorted(defined - set(names)):
        if not name.startswith("loam_") and not LINKER_NAMES.match(name):
            yield f"{path}: defines {name}, which is not its to offer"
    for name, binding, _, is_defined in found:
        if (
            not is_defined
            and binding != "WEAK"
            and CXX_RUNTIME.match(name)
            and name not in CXX_IN_LIBC
        ):
            yield f"{path}: refers to {name} of C++, and not weakly"


def check_dynamic(tool, path):
    dynamic = readelf(tool, "-d", path)
    for library in re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic):
        if not ALLOWED_LIBRARIES.match(library):
            yield f"{path}: needs {library}"
    if "(TEXTREL)" in dynamic:
        yield f"{path}: has relocations in its code"
    flags = " ".join(re.findall(r"\(FLAGS(?:_1)?\)\s+(.*)", dynamic))
    for flag in ("STATIC_TLS", "NODELETE", "NOW"):
        if flag not in flags:
            yield f"{path}: lacks the flag {flag} (has: {flags})"


def check_copies(tool, path):
    found = list(symbols(tool, path, "--dyn-syms"))
    yield from check_names(path, found, COPIES)
    for name, _, _, is_defined in found:
        if is_defined and name.startswith("loam_"):
            yield f"{path}: defines {name}, which is libloam.so's"
        if not is_defined and name in COPIES:
            yield f"{path}: refers to {name}: it would call itself"
    for library in re.findall(r"\(NEEDED\).*\[(.*)\]", readelf(tool, "-d", path)):
        if not ALLOWED_LIBRARIES.match(library):
            yield f"{path}: needs {library}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--readelf", default="readelf")
    parser.add_argument("library")
    parser.add_argument("override_object")
    parser.add_argument("copies_library", nargs="?")
    parser.add_argument("--copies-inside", action="store_true")
    args = parser.parse_args()

    exported = list(symbols(args.readelf, args.library, "--dyn-syms"))
    joined = list(symbols(args.readelf, args.override_object, "--syms"))
    names = C_NAMES + C_ALIASES + CXX_NAMES
    shared = names + DOORS + (COPIES if args.copies_inside else [])
    wrong = [*check_names(args.library, exported, shared)]
    wrong += check_names(args.override_object, joined, names)
    wrong += check_dynamic(args.readelf, args.library)
    if any(name == "__tls_get_addr" for name, *_ in exported):
        wrong.append(f"{args.library}: calls __tls_get_addr: thread-local memory not initial-exec")
    if args.copies_library:
        wrong += check_copies(args.readelf, args.copies_library)
    for line in wrong:
        print(line)
    print(f"check_exports: {len(names)} names, {len(CXX_NAMES)} of them C++, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
