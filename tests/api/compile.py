#!/usr/bin/env python3
"""compile.py: the attributes of loam/malloc.h and heap.h, seen in what compilers warn of.

    compile.py attributes --include include [--cc cc --cxx c++]     every function, each kind of
                                                                    mistake, gcc and clang
    compile.py names --nm nm --object FILE                          what a source with
                                                                    loam/override.h asks for: none
                                                                    of what override/libc.c
                                                                    replaces, and it
                                                                    (tests/api/override.c) tries all
                                                                    of that

`attributes`: for each function a program with one mistake has to give exactly the warnings that are
expected, by their names (-W...), from each compiler that is there; a program without a mistake, all
functions in it, none at all. The sizes that compilers know of an object are tested where they use
them: a wrong __builtin_object_size is an error. It cannot see whether the functions work. Exit: 0
all held, 1 not, 77 no compiler of a known kind.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SKIPPED = 77
HUGE = "(size_t)-1"

# name: (call for 96 bytes, call for more than there can be, or None)
FUNCTIONS = {
    "malloc": ("loam_malloc(96)", f"loam_malloc({HUGE})"),
    "zalloc": ("loam_zalloc(96)", f"loam_zalloc({HUGE})"),
    "calloc": ("loam_calloc(2, 48)", f"loam_calloc({HUGE} / 4, 8)"),
    "mallocarray": ("loam_mallocarray(2, 48)", f"loam_mallocarray({HUGE} / 4, 8)"),
    "malloc_small": ("loam_malloc_small(96)", f"loam_malloc_small({HUGE})"),
    "zalloc_small": ("loam_zalloc_small(96)", f"loam_zalloc_small({HUGE})"),
    "realloc": ("loam_realloc(old, 96)", f"loam_realloc(old, {HUGE})"),
    "reallocarray": ("loam_reallocarray(old, 2, 48)", f"loam_reallocarray(old, {HUGE} / 4, 8)"),
    "reallocf": ("loam_reallocf(old, 96)", f"loam_reallocf(old, {HUGE})"),
    "rezalloc": ("loam_rezalloc(old, 96)", f"loam_rezalloc(old, {HUGE})"),
    "recalloc": ("loam_recalloc(old, 2, 48)", f"loam_recalloc(old, {HUGE} / 4, 8)"),
    "expand": ("loam_expand(old, 96)", f"loam_expand(old, {HUGE})"),
    "malloc_aligned": ("loam_malloc_aligned(96, 32)", f"loam_malloc_aligned({HUGE}, 32)"),
    "zalloc_aligned": ("loam_zalloc_aligned(96, 32)", f"loam_zalloc_aligned({HUGE}, 32)"),
    "calloc_aligned": ("loam_calloc_aligned(2, 48, 32)", f"loam_calloc_aligned({HUGE} / 4, 8, 32)"),
    "realloc_aligned": ("loam_realloc_aligned(old, 96, 32)",
                        f"loam_realloc_aligned(old, {HUGE}, 32)"),
    "rezalloc_aligned": ("loam_rezalloc_aligned(old, 96, 32)",
                         f"loam_rezalloc_aligned(old, {HUGE}, 32)"),
    "recalloc_aligned": ("loam_recalloc_aligned(old, 2, 48, 32)",
                         f"loam_recalloc_aligned(old, {HUGE} / 4, 8, 32)"),
    "malloc_aligned_offset": ("loam_malloc_aligned_offset(96, 32, 8)",
                              f"loam_malloc_aligned_offset({HUGE}, 32, 8)"),
    "zalloc_aligned_offset": ("loam_zalloc_aligned_offset(96, 32, 8)",
                              f"loam_zalloc_aligned_offset({HUGE}, 32, 8)"),
    "calloc_aligned_offset": ("loam_calloc_aligned_offset(2, 48, 32, 8)",
                              f"loam_calloc_aligned_offset({HUGE} / 4, 8, 32, 8)"),
    "realloc_aligned_offset": ("loam_realloc_aligned_offset(old, 96, 32, 8)",
                               f"loam_realloc_aligned_offset(old, {HUGE}, 32, 8)"),
    "rezalloc_aligned_offset": ("loam_rezalloc_aligned_offset(old, 96, 32, 8)",
                                f"loam_rezalloc_aligned_offset(old, {HUGE}, 32, 8)"),
    "recalloc_aligned_offset": ("loam_recalloc_aligned_offset(old, 2, 48, 32, 8)",
                                f"loam_recalloc_aligned_offset(old, {HUGE} / 4, 8, 32, 8)"),
    "aligned_alloc": ("loam_aligned_alloc(32, 96)", f"loam_aligned_alloc(32, {HUGE})"),
    "memalign": ("loam_memalign(32, 96)", f"loam_memalign(32, {HUGE})"),
    "valloc": ("loam_valloc(96)", f"loam_valloc({HUGE})"),
    "pvalloc": ("loam_pvalloc(96)", None),
    "memdup": ("loam_memdup(old, 96)", f"loam_memdup(old, {HUGE})"),
    "strdup": ("loam_strdup((char *)old)", None),
    "strndup": ("loam_strndup((char *)old, 9)", None),
    "wcsdup": ("loam_wcsdup((wchar_t *)old)", None),
    "realpath": ("loam_realpath((char *)old, NULL)", None),
    "heap_malloc": ("loam_heap_malloc(heap, 96)", f"loam_heap_malloc(heap, {HUGE})"),
    "heap_zalloc": ("loam_heap_zalloc(heap, 96)", f"loam_heap_zalloc(heap, {HUGE})"),
    "heap_calloc": ("loam_heap_calloc(heap, 2, 48)", f"loam_heap_calloc(heap, {HUGE} / 4, 8)"),
    "heap_mallocarray": ("loam_heap_mallocarray(heap, 2, 48)",
                         f"loam_heap_mallocarray(heap, {HUGE} / 4, 8)"),
    "heap_malloc_small": ("loam_heap_malloc_small(heap, 96)",
                          f"loam_heap_malloc_small(heap, {HUGE})"),
    "heap_zalloc_small": ("loam_heap_zalloc_small(heap, 96)",
                          f"loam_heap_zalloc_small(heap, {HUGE})"),
    "heap_malloc_aligned": ("loam_heap_malloc_aligned(heap, 96, 32)",
                            f"loam_heap_malloc_aligned(heap, {HUGE}, 32)"),
    "heap_zalloc_aligned": ("loam_heap_zalloc_aligned(heap, 96, 32)",
                            f"loam_heap_zalloc_aligned(heap, {HUGE}, 32)"),
    "heap_calloc_aligned": ("loam_heap_calloc_aligned(heap, 2, 48, 32)",
                            f"loam_heap_calloc_aligned(heap, {HUGE} / 4, 8, 32)"),
    "heap_realloc": ("loam_heap_realloc(heap, old, 96)", f"loam_heap_realloc(heap, old, {HUGE})"),
    "heap_reallocarray": ("loam_heap_reallocarray(heap, old, 2, 48)",
                          f"loam_heap_reallocarray(heap, old, {HUGE} / 4, 8)"),
    "heap_reallocf": ("loam_heap_reallocf(heap, old, 96)",
                      f"loam_heap_reallocf(heap, old, {HUGE})"),
    "heap_rezalloc": ("loam_heap_rezalloc(heap, old, 96)",
                      f"loam_heap_rezalloc(heap, old, {HUGE})"),
    "heap_recalloc": ("loam_heap_recalloc(heap, old, 2, 48)",
                      f"loam_heap_recalloc(heap, old, {HUGE} / 4, 8)"),
    "heap_realloc_aligned": ("loam_heap_realloc_aligned(heap, old, 96, 32)",
                             f"loam_heap_realloc_aligned(heap, old, {HUGE}, 32)"),
    "heap_rezalloc_aligned": ("loam_heap_rezalloc_aligned(heap, old, 96, 32)",
                              f"loam_heap_rezalloc_aligned(heap, old, {HUGE}, 32)"),
    "heap_recalloc_aligned": ("loam_heap_recalloc_aligned(heap, old, 2, 48, 32)",
                              f"loam_heap_recalloc_aligned(heap, old, {HUGE} / 4, 8, 32)"),
    "heap_strdup": ("loam_heap_strdup(heap, (char *)old)", None),
    "heap_strndup": ("loam_heap_strndup(heap, (char *)old, 9)", None),
    "heap_memdup": ("loam_heap_memdup(heap, old, 96)", f"loam_heap_memdup(heap, old, {HUGE})"),
    "heap_realpath": ("loam_heap_realpath(heap, (char *)old, NULL)", None),
}  # fmt: skip
# Their results may be of the C library, or are old itself.
NOT_NEW = {"expand", "realpath", "heap_realpath"}
# They take old and give another: as free, for who looks at old afterwards.
RESIZING = [name for name in FUNCTIONS if re.search("re(alloc|zalloc|calloc)", name)]
ALIGNED = [name for name in FUNCTIONS if name.endswith("_aligned") or name == "aligned_alloc"]

HEAD = """#include <loam/arena.h>
#include <loam/heap.h>
#include <loam/malloc.h>
#include <stdlib.h>
#include <string.h>
void sink(void *p);
"""


def function(body, name="test"):
    arguments = "loam_heap *heap, void *old"
    return (
        f"void {name}({arguments});\nvoid {name}({arguments}) {{ (void)heap, (void)old; {body} }}\n"
    )


def programs():
    """(name, body of a function, {compiler: {warning}}) of every mistake."""
    for name, (call, huge) in FUNCTIONS.items():
        yield f"ignored {name}", f"{call};", {"gcc": {"unused-result"}, "clang": {"unused-result"}}
        if name not in NOT_NEW:
            for release in ("free(p)", "realloc(p, 5) == NULL ? (void)0 : sink(p)"):
                if "realloc" in release and name != "malloc":
                    continue
                yield (f"{name} to {release}", f"void *p = {call}; sink(p); {release};",
                       {"gcc": {"mismatched-dealloc"} | ({"use-after-free"} if "realloc" in release
                                                         else set())})  # fmt: skip
            yield (f"{name} used after free",
                   f"char *p = (char *){call}; if (p == NULL) return; loam_free(p); sink(p);",
                   {"gcc": {"use-after-free"}})  # fmt: skip
        if huge:
            yield f"{name} of too much", f"sink({huge});", {"gcc": {"alloc-size-larger-than="}}
            yield (f"{name} overflowed",
                   f"char *p = (char *){call}; if (p != NULL) memset(p, 1, 97), sink(p);",
                   {"gcc": {"overflow"}})  # fmt: skip
    for name in ALIGNED:
        call = FUNCTIONS[name][0].replace("32", "48")
        yield f"{name} to no power of two", f"sink({call});", {
            "clang": {"non-power-of-two-alignment"}
        }
    for name in RESIZING:
        call = FUNCTIONS[name][0].replace("old", "p")
        yield (f"used after {name}",
               f"char *p = (char *)loam_malloc(9); if (p == NULL) return; void *q = {call}; "
               "sink(p); sink(q);",
               {"gcc": {"use-after-free"}})  # fmt: skip
    resizes = [f"sink({FUNCTIONS[name][0].replace('old', 'p')})" for name in RESIZING]
    for release in (
        "loam_free(p)",
        "loam_free_sized(p, 9)",
        "loam_free_aligned_sized(p, 9, 9)",
        *resizes,
    ):
        yield f"malloc to {release}", f"void *p = malloc(9); sink(p); {release};", {
            "gcc": {"mismatched-dealloc"}
        }
    yield "strdup of NULL", "sink(loam_strdup(NULL));", {"gcc": {"nonnull"}, "clang": {"nonnull"}}
    yield "strndup of NULL", "sink(loam_strndup(NULL, 4));", {
        "gcc": {"nonnull"},
        "clang": {"nonnull"},
    }
    yield "ignored posix_memalign", "loam_posix_memalign(&old, 32, 9);", {
        "gcc": {"unused-result"},
        "clang": {"unused-result"},
    }
    yield "posix_memalign to NULL", "if (loam_posix_memalign(NULL, 32, 9) == 0) sink(old);", {
        "gcc": {"nonnull"},
        "clang": {"nonnull"},
    }
    yield "wcsdup of NULL", "sink(loam_wcsdup(NULL));", {"gcc": {"nonnull"}, "clang": {"nonnull"}}
    yield "memdup of NULL", "sink(loam_memdup(NULL, 4));", {
        "gcc": {"nonnull"},
        "clang": {"nonnull"},
    }
    calls = [f"sink({call})" for name, (call, _) in FUNCTIONS.items() if name.startswith("heap_")]
    calls += ["loam_heap_set_limits(heap, 1, 1, NULL, NULL)", "loam_heap_collect(heap)",
              "loam_heap_usage(heap, NULL)",
              "loam_heap_get_limits(heap, NULL)", "loam_heap_visit(NULL, NULL, NULL, NULL)",
              "sink(loam_heap_strdup(heap, NULL))", "sink(loam_heap_strndup(heap, NULL, 1))",
              "sink(loam_heap_memdup(heap, NULL, 1))"]  # fmt: skip
    for call in calls:
        yield (f"{call} of NULL", call.replace("heap,", "NULL,").replace("heap)", "NULL)") + ";",
               {"gcc": {"nonnull"}, "clang": {"nonnull"}})  # fmt: skip
    yield "ignored heap", "loam_heap_create();", {
        "gcc": {"unused-result"},
        "clang": {"unused-result"},
    }
    for release in ("loam_free(made)", "free(made)", "sink(loam_realloc(made, 9))"):
        yield (f"heap to {release}", "loam_heap *made = loam_heap_create(); sink(made); "
                                     f"{release};",
               {"gcc": {"mismatched-dealloc"}})  # fmt: skip
    for make in ("loam_heap_create()", "loam_heap_create_in((loam_arena *)old, false)"):
        for end in ("loam_heap_destroy(made)", "loam_heap_delete(made)"):
            yield (f"heap used after {end}",
                   f"loam_heap *made = {make}; sink(made); {end}; sink(loam_heap_malloc(made, 9));",
                   {"gcc": {"use-after-free"}})  # fmt: skip
    yield "object to heap's end", "loam_heap_destroy((loam_heap *)loam_malloc(9));", {
        "gcc": {"mismatched-dealloc"}
    }


def right_program():
    """Every function as it should be used; NULL is looked for everywhere, and is possible
    everywhere."""
    body = ["void *p; char *text = NULL;"]
    for name, (call, _) in FUNCTIONS.items():
        if name.endswith(("strdup", "strndup", "realpath")):
            body.append(f"text = {call}; if (text != NULL) {{ text[0] = 1; loam_free(text); }}")
        elif name == "expand":
            body.append(f"if ({call} != NULL) memset(old, 1, 96);")
        elif name in RESIZING:
            body.append(f"p = {call}; if (p == NULL) {{ "
                        f"{'' if name.endswith('reallocf') else 'loam_free(old);'} return; }} "
                        "memset(p, 1, 96); old = p;")  # fmt: skip
        else:
            body.append(f"p = {call}; if (p != NULL) memset(p, 1, 96); loam_free(p);")
    for name in RESIZING:  # who keeps what cannot be resized
        if not name.endswith("reallocf"):
            body.append(
                f"old = loam_malloc(9); p = {FUNCTIONS[name][0]}; if (p == NULL) p = old; sink(p); "
                "loam_free(p);"
            )
    body += ["p = loam_malloc(9); loam_free_sized(p, 9);",
             "p = loam_malloc_aligned(9, 64); loam_free_aligned_sized(p, 64, 9);",
             "p = loam_malloc(9); old = loam_realloc(p, 99); if (old == NULL) loam_free(p);",
             "p = loam_malloc(100); sink(p); p = loam_reallocf(p, 10); loam_free(p);",
             "if (loam_usable_size(old) > loam_good_size(3)) loam_collect();", "loam_free(old);",
             "p = loam_heap_malloc(heap, 9); loam_heap_destroy(heap); heap = loam_heap_create(); "
             "loam_heap_delete(heap);"]  # fmt: skip
    return HEAD + function("\n".join(body))


def size_program():
    """A wrong size, or a result that is taken for never NULL, calls what does not exist."""
    text = HEAD + 'extern void wrong(void) __attribute__((error("wrong size")));\n'
    text += 'extern void never_null(void) __attribute__((error("NULL is taken for impossible")));\n'
    for name, (call, huge) in FUNCTIONS.items():
        if huge:
            text += (f"void size_{name}(loam_heap *heap, void *old); void size_{name}(loam_heap "
                     "*heap, void *old)\n"
                     f"{{ (void)heap, (void)old; char *p = (char *){call};\n"
                     "  if (__builtin_object_size(p, 0) != 96) wrong();\n"
                     "  if (__builtin_object_size(p + 90, 0) != 6) wrong();\n"
                     "  sink(p); }\n")  # fmt: skip
        text += (f"void *null_{name}(loam_heap *heap, void *old); void *null_{name}(loam_heap "
                 "*heap, void *old)\n"
                 f"{{ (void)heap, (void)old; void *p = (void *){call};\n"
                 "  if (__builtin_constant_p(p == NULL)) never_null();\n"
                 "  return p; }\n")  # fmt: skip
    return text


class Compilers:
    def __init__(self, args, folder):
        self.include, self.folder = args.include, Path(folder)
        self.found = {}
        for language, standard, names in (
            ("c", "c11", (args.cc, "gcc", "clang", "clang-16")),
            ("c++", "c++17", (args.cxx, "g++", "clang++", "clang++-16")),
        ):
            for name in names:
                path = shutil.which(name)
                kind = path and self.kind(path)
                if kind:
                    self.found[language, kind] = (path, standard)

    @staticmethod
    def kind(path):
        text = subprocess.run(
            [path, "--version"], capture_output=True, text=True, check=False
        ).stdout
        return "clang" if "clang" in text else "gcc" if "Free Software" in text else None

    def messages(self, language, kind, text):
        path, standard = self.found[language, kind]
        source = self.folder / ("program.c" if language == "c" else "program.cpp")
        source.write_text(text, encoding="utf-8")
        command = [path, f"-std={standard}", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-I",
                   self.include, "-S", source, "-o", self.folder / "program.s"]  # fmt: skip
        result = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"},
        )
        return result.returncode, result.stderr


def warnings_by_file(said):
    """{file: {name of a warning}} of what a compiler said."""
    given = {}
    for file, name in re.findall(r"^([^:\n]+):\d+:\d+: warning: .*\[-W([^\]]+)\]", said, re.M):
        name = re.sub(r"=.*", "=", name)
        # It depends on the version which of the two it is.
        name = "overflow" if name in ("array-bounds", "stringop-overflow=") else name
        given.setdefault(file, set()).add(name)
    return given


def attributes(args):
    wrong = []
    count = 0
    with tempfile.TemporaryDirectory(prefix="loam-compile-") as folder:
        compilers = Compilers(args, folder)
        if not compilers.found:
            print("compile: skipped: neither gcc nor clang")
            return SKIPPED
        for language, kind in compilers.found:
            mistakes = list(programs())
            count += len(mistakes)
            # One source, because starting a compiler takes longer than a function; each has its own
            # file name in it.
            text = HEAD + "".join(f'#line 1 "mistake_{number}"\n' + function(body, f"test_{number}")
                                  for number, (_, body, _) in enumerate(mistakes))  # fmt: skip
            status, said = compilers.messages(language, kind, text)
            if status != 0:
                wrong.append(f"{language} {kind}: the mistakes do not compile:\n{said}")
            given = warnings_by_file(said)
            for number, (name, _, expected) in enumerate(mistakes):
                warnings = given.pop(f"mistake_{number}", set())
                if warnings != expected.get(kind, set()):
                    wrong.append(
                        f"{language} {kind}: {name}: expected {expected.get(kind, set())}, got "
                        f"{warnings}"
                    )
            wrong += [f"{language} {kind}: {file}: {warnings}" for file, warnings in given.items()]
            for name, text in (("a right program", right_program()), ("sizes", size_program())):
                count += 1
                status, said = compilers.messages(language, kind, text)
                if status != 0 or said:
                    wrong.append(f"{language} {kind}: {name}:\n{said}")
        for line in wrong:
            print(f"compile: {line}")
        print(f"compile: {count} functions by "
              f"{', '.join(f'{kind} ({language})' for language, kind in compilers.found)}, "
              f"{len(wrong)} wrong")  # fmt: skip
    return 1 if wrong else 0


# Of the C library, which allocate with its malloc: libloam.so has no need to replace them.
COPYING = "strdup strndup wcsdup realpath canonicalize_file_name".split()


def names(args):
    root = Path(__file__).resolve().parents[2]
    libc, used, header = ((root / name).read_text(encoding="utf-8") for name in (
        "override/libc.c", "tests/api/override.c", "include/loam/override.h"))  # fmt: skip
    replaced = set(re.findall(r"^LM_EXPORT [\w ]*?\**(\w+)\(", libc, re.M)) | set(COPYING)
    text = subprocess.run(
        [args.nm, "--undefined-only", args.object], capture_output=True, text=True, check=True
    ).stdout
    undefined = {line.split()[-1].split("@")[0] for line in text.splitlines()}
    theirs = replaced | {f"__{name}" for name in replaced}
    wrong = [
        f"{name}: the program asks the C library for it" for name in sorted(undefined & theirs)
    ]
    for name in sorted(replaced):
        if not re.search(rf"^#define {name}\b", header, re.M):
            wrong.append(f"{name}: not in loam/override.h")
        if not re.search(rf"\b{name}\(", used):
            wrong.append(f"{name}: not tried in override.c")
    for line in wrong:
        print(f"compile: {line}")
    print(
        f"compile: {args.object} asks for {len(undefined)} names; of {len(replaced)} to be "
        f"replaced {len(wrong)} wrong"
    )
    return 1 if wrong or len(replaced) < 20 or "loam_malloc" not in undefined else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=("attributes", "names"))
    parser.add_argument("--include", default=Path(__file__).resolve().parents[2] / "include")
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--cxx", default="c++")
    parser.add_argument("--nm", default="nm")
    parser.add_argument("--object")
    args = parser.parse_args()
    return attributes(args) if args.kind == "attributes" else names(args)


if __name__ == "__main__":
    sys.exit(main())
