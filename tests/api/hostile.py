#!/usr/bin/env python3
"""hostile.py: each public header behind macros that programs define.

    hostile.py headers --include include [--cc cc --cxx c++]   what a compiler makes of each header
                                                               is the same
    hostile.py uses --include include [...]                    loam's own macros work in such a
                                                               program

`headers` compiles all headers as one source three times: as they are, behind MACROS, which are from
real programs, and behind a macro of each word that loam's headers have
(include/loam/names_save*.h), whose text is no C; and (gcc) each header alone twice: as it is, and
behind a macro of each word and those of MACROS that are none of these. The assembly has to be the
same each time, byte by byte, with the inline functions and the debug information of all types in
it: so that is sizeof and offsetof of each member, and the name of each parameter. Then it compares
what the macros expand to before and behind the header. `uses` compiles programs that use loam's own
macros behind MACROS. It cannot see what a program's own text does with its macros.

Exit: 0 all held, 1 not, 77 no compiler of a known kind.
"""

import argparse
import concurrent.futures
import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SKIPPED = 77
SAVED = re.compile(r'^#pragma push_macro\("(\w+)"\)', re.M)

# Of real programs. First: debug allocators, as Visual Studio's <crtdbg.h>, dmalloc and Emacs have.
MACROS = """
malloc(n) hostile_malloc((n), __FILE__, __LINE__)
calloc(n, m) hostile_calloc((n), (m), __FILE__, __LINE__)
realloc(p, n) hostile_realloc((p), (n), __FILE__, __LINE__)
free(p) hostile_free((p), __FILE__, __LINE__)
strdup(s) hostile_strdup((s), __FILE__, __LINE__)
strndup(s, n) hostile_strndup((s), (n), __FILE__, __LINE__)
reallocarray(p, n, m) hostile_realloc((p), (n) * (m), __FILE__, __LINE__)
memalign(a, n) hostile_malloc((n), __FILE__, __LINE__)
aligned_alloc(a, n) hostile_malloc((n), __FILE__, __LINE__)
posix_memalign(p, a, n) hostile_memalign(p)
alloc(n) hostile_malloc((n), __FILE__, __LINE__)
dealloc(p) hostile_free((p), __FILE__, __LINE__)
allocate(n) hostile_malloc((n), __FILE__, __LINE__)
deallocate(p) hostile_free((p), __FILE__, __LINE__)
unused __attribute__((__unused__))
used __attribute__((__used__))
noreturn _Noreturn
always_inline inline __attribute__((__always_inline__))
noinline __attribute__((__noinline__))
cold __attribute__((__cold__))
hot __attribute__((__hot__))
weak __attribute__((__weak__))
nonnull __attribute__((__nonnull__))
packed __attribute__((__packed__))
pure __attribute__((__pure__))
constructor __attribute__((__constructor__))
deprecated __attribute__((__deprecated__))
warn_unused_result __attribute__((__warn_unused_result__))
nodiscard __attribute__((__warn_unused_result__))
may_alias __attribute__((__may_alias__))
visibility hostile_visibility
hidden __attribute__((__visibility__("hidden")))
tls_model hostile_model
aligned(x) __attribute__((__aligned__(x)))
cleanup(f) __attribute__((__cleanup__(f)))
format(a, b) __attribute__((__format__(__printf__, a, b)))
printf hostile_printf
section(x) __attribute__((__section__(x)))
alloc_size(x) hostile_size(x)
__alloc_size__(x, ...) __attribute__((__alloc_size__(x, ## __VA_ARGS__)))
alloc_align(x) hostile_align(x)
fallthrough __attribute__((__fallthrough__))
near
far
huge
small char
hyper long long
interface struct
cdecl
pascal
IN
OUT
min(a, b) ((a) < (b) ? (a) : (b))
max(a, b) ((a) > (b) ? (a) : (b))
abs(x) ((x) < 0 ? -(x) : (x))
swap(a, b) hostile_swap(&(a), &(b))
check(x) ((x) ? (void)0 : hostile_fail(#x))
verify(x) ((x) ? (void)0 : hostile_fail(#x))
require(x) ((x) ? (void)0 : hostile_fail(#x))
assert(x) ((void)sizeof(x))
likely(x) __builtin_expect(!!(x), 1)
unlikely(x) __builtin_expect(!!(x), 0)
container_of(p, T, m) ((T *)(void *)((char *)(p) - __builtin_offsetof(T, m)))
offset_of(T, m) __builtin_offsetof(T, m)
array_size(x) (sizeof(x) / sizeof((x)[0]))
countof(x) (sizeof(x) / sizeof((x)[0]))
foreach(x, y) for (x : y)
forever for (;;)
loop while (1)
until(x) while (!(x))
unless(x) if (!(x))
elif else if
begin {
end }
then
not_used (void)
local static
global extern
private static
public
internal static
export
import extern
forward extern
emit
signals protected
slots
Status int
Bool int
True 1
False 0
None 0L
Success 0
Always 2
Complex 1
index strchr
rindex strrchr
major(d) ((d) >> 8)
minor(d) ((d) & 255)
unix 1
linux 1
sun 1
i386 1
mips 1
arm 1
I _Complex_I
E 2.718
N 16
T int
K 1024
M 1048576
U unsigned
X 1
a 97
b 98
i hostile_i
p hostile_p
x hostile_x
at hostile_at
to hostile_to
of hostile_of
on 1
off 0
yes 1
no 0
ok 0
error(x) hostile_fail(x)
fail(x) hostile_fail(x)
debug(x) ((void)(x))
log(x) hostile_log(x)
print(x) hostile_log(x)
count(x) hostile_count(x)
size(x) hostile_size(x)
length(x) hostile_size(x)
first(x) ((x)->first_)
last(x) ((x)->last_)
next(x) ((x)->next_)
prev(x) ((x)->prev_)
head(x) ((x)->head_)
tail(x) ((x)->tail_)
list hostile_list
pool hostile_pool
region hostile_region
stack hostile_stack
heap hostile_heap
block hostile_block
blocks hostile_blocks
bytes hostile_bytes
align hostile_align
chunk hostile_chunk
source hostile_source
flags hostile_flags
name hostile_name
kind hostile_kind
owner hostile_owner
context hostile_context
file hostile_file
line hostile_line
fd hostile_fd
key hostile_key
value hostile_value
base hostile_base
current get_current()
self hostile_self
lock(x) hostile_lock(x)
unlock(x) hostile_unlock(x)
get(x) hostile_get(x)
put(x) hostile_put(x)
set(x, y) hostile_set(x, y)
reset(x) hostile_reset(x)
trim(x) hostile_trim(x)
mark(x) hostile_mark(x)
rewind(x) hostile_rewind(x)
inline __inline__
"""
# Only before headers of C: old programs' own bool, and words that are C++'s.
MACROS_C = """
bool char
true (-1)
false 0
new hostile_new
class hostile_class
this hostile_this
delete hostile_delete
template hostile_template
"""
MACROS_CXX = """
new new (__FILE__, __LINE__)
override
final
nullptr 0
"""

# Programs that use loam's macros; the first line of each has the headers.
USES = {
    "c": ["""region stack alloc fifo ring pool blocks xallocator
typedef struct { double value_; } thing;
int main(void) {
    loam_region *r = loam_region_create(NULL, NULL);
    thing *t = LOAM_REGION_NEW(r, thing), *many = LOAM_REGION_ARRAY(r, thing, 3);
    loam_alloc handle = loam_region_as_alloc(r);
    thing *h = LOAM_ALLOC_NEW(handle, thing);
    LOAM_ALLOC_DROP(handle, h);
    LOAM_REGION_DROP_ARRAY(r, many, 3);
    LOAM_REGION_DROP(r, t);
    char *s = loam_region_sprintf(r, "%d", 1), *d = loam_region_strdup(r, s);
    (void)d;
    { LOAM_SCOPE; thing *u = LOAM_SCOPE_NEW(thing); (void)u; s = loam_scope_sprintf("%d", 1); }
    { LOAM_STACK_SCOPE(loam_thread_stack()); thing *v = LOAM_SCOPE_ARRAY(thing, 2); (void)v; }
    loam_region_destroy(r);
    loam_pool *o = loam_pool_create(NULL, 16, NULL);
    loam_pool_free(o, loam_pool_alloc(o));
    loam_pool_destroy(o);
    xfree(xrealloc(xmalloc(9), 99));
    return LOAM_VERSION == 0;
}"""],
    "c++": ["""pool stack blocks region xallocator fifo
struct A { double value_; LOAM_POOLED(A) };
struct B { double value_; XALLOCATOR };
struct C { double value_; DECLARE_ALLOCATOR };
IMPLEMENT_ALLOCATOR(C, 0, 0)
struct D { char text[9]; LOAM_POOLED_BLOCKS(D, 64, 2000, 7) };
int main() {
    { LOAM_SCOPE; int *n = LOAM_SCOPE_NEW(int); *n = 1; }
    delete ::new (std::nothrow) int;
    delete (new A);
    delete (new B);
    delete (new C);
    delete (new D);
}"""],
}  # fmt: skip


def compilers(args):
    """(language, standard, path, kind) of each compiler that is there."""
    for language, standard, names in (("c", "c11", (args.cc, "gcc", "clang", "clang-16")),
                                      ("c++", "c++17",
                                       (args.cxx, "g++", "clang++", "clang++-16"))):  # fmt: skip
        seen = set()
        for name in names:
            path = shutil.which(name)
            if not path:
                continue
            said = subprocess.run(
                [path, "--version"], capture_output=True, text=True, check=False
            ).stdout
            kind = "clang" if "clang" in said else "gcc" if "Free Software" in said else None
            if kind and kind not in seen:
                seen.add(kind)
                yield language, standard, path, kind


def macros(language):
    lines = [line for line in MACROS.splitlines() if line]
    if language == "c":
        return lines + [line for line in MACROS_C.splitlines() if line]
    return lines + [line for line in MACROS_CXX.splitlines() if line]


def name_of(macro):
    return re.match(r"\w+", macro).group()


def sources(language, words):
    """{kind: (lines of definitions, list of names)} to put in front of a header."""
    real = macros(language)
    every = [f'{word} ) hostile ] 1.2.3 "{word}" }}' for word in words]
    others = [macro for macro in real if name_of(macro) not in words]
    return {
        "real programs' macros": real,
        "a macro of each word": every,
        "all macros": every + others,
    }


# What a program of that kind has included before it defines such macros.
C_HEADERS = "errno malloc stdbool stddef stdint stdio stdlib string unistd wchar".split()
CXX_HEADERS = """algorithm deque forward_list functional list map memory memory_resource new queue
set sstream stack string type_traits unordered_map unordered_set utility vector""".split()
PRELUDE = {".h": "".join(f"#include <{name}.h>\n" for name in C_HEADERS)}
PRELUDE[".hpp"] = PRELUDE[".h"] + "".join(f"#include <{name}>\n" for name in CXX_HEADERS)


def define(definitions):
    return "".join(f"#undef {name_of(d)}\n#define {d}\n" for d in definitions)


def includes_of(names):
    return "".join(f"#include <loam/{name}>\n" for name in names)


class Compile:
    def __init__(self, include, folder, compiler):
        self.include, self.folder = include, Path(folder)
        self.language, self.standard, self.path, self.kind = compiler
        keep = (
            ["-fkeep-static-functions"]
            if self.kind == "gcc" and self.language == "c"
            else ["-Wno-unused"]
        )
        self.to_assembly = [
            "-O1" if self.language == "c" else "-O0",
            "-gdwarf-4",
            "-fno-eliminate-unused-debug-types",
            *keep,
        ]
        self.preludes = PRELUDE

    def __call__(self, text, name, *options, output="-"):
        """(status, output, messages) of the text as a file of that name, the same one each time."""
        place = Path(tempfile.mkdtemp(dir=self.folder))
        source = place / (name + (".c" if self.language == "c" else ".cpp"))
        source.write_text(text, encoding="utf-8")
        command = [
            self.path,
            f"-std={self.standard}",
            "-Wall",
            "-Wextra",
            "-Werror",
            f"-ffile-prefix-map={place}=/place",
            "-I",
            str(self.include.resolve()),
            *options,
            source.name,
            "-o",
            output,
        ]
        result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=place,
                                env={**os.environ, "LC_ALL": "C"})  # fmt: skip
        return result.returncode, result.stdout, result.stderr

    def prepare(self):
        """C++'s own headers, parsed once by gcc: a quarter of the time."""
        if (self.language, self.kind) == ("c++", "gcc"):
            file = self.folder / "prelude.h"
            file.write_text(PRELUDE[".hpp"], encoding="utf-8")
            self(
                PRELUDE[".hpp"],
                "prelude",
                *self.to_assembly,
                "-x",
                "c++-header",
                output=f"{file}.gch",
            )
            self.preludes = {**PRELUDE, ".hpp": f'#include "{file}"\n'}

    def prelude(self, names):
        """xallocator.h has its C++ half in itself."""
        of_cxx = self.language == "c++" and "xallocator.h" in names
        return self.preludes[".hpp" if of_cxx else Path(names[-1]).suffix]

    def assembly(self, definitions, names, empty):
        """What is made of the headers; the lines have the same numbers whatever is defined."""
        defined = define(definitions) + "\n" * 2 * (empty - len(definitions))
        text = self.prelude(names) + defined + includes_of(names)
        text += (
            "".join(f"#undef {name_of(d)}\n" for d in definitions) + "#line 9999\nint loam_end;\n"
        )
        return self(text, "header", "-S", *self.to_assembly)

    def survivors(self, definitions, names):
        """Macros that mean something else behind the headers, or nothing."""
        marks = "".join(
            f'loam_mark "{name_of(d)}" {name_of(d)}\n'
            for d in definitions
            if "(" not in d.split(" ")[0]
        )
        marks += "".join(
            f'#ifdef {name_of(d)}\nloam_mark "defined {name_of(d)}"\n#endif\n' for d in definitions
        )
        before = self.prelude(names) + define(definitions)
        return sorted(self.marks(before + marks) ^ self.marks(before + includes_of(names) + marks))

    @functools.lru_cache  # before all headers of C, or of C++, it is the same
    def marks(self, text):
        _, output, _ = self(text, "header", "-E", "-P")
        return {
            re.sub(r"\b\d+\b", "LINE", mark)
            for mark in re.findall(r"^loam_mark (.*)$", output, re.M)
        }


def headers_of(include, language, kind):
    found = sorted((include / "loam").glob("*.h"))
    if language == "c++":
        # One compiler has seen the headers of C as C++.
        found = (found if kind == "gcc" else []) + sorted((include / "loam").glob("*.hpp"))
        found += [include / "loam/xallocator.h"] if kind == "clang" else []
    # The last two define the program's macros, or its operators.
    return [
        path.name
        for path in found
        if not path.name.startswith("names_") and path.name != "override.h"
    ]


def guilty(compile_, definitions, names, empty, good):
    """A macro that alone makes a difference, found by halves."""
    while len(definitions) > 1:
        half = definitions[: len(definitions) // 2]
        differs = compile_.assembly(half, names, empty)[:2] != good[:2]
        definitions = half if differs else definitions[len(half) :]
    return definitions[0]


def try_headers(compile_, names, words):
    wrong = []
    kinds = sources(compile_.language, words)
    kinds = {kind: kinds[kind] for kind in kinds if (kind == "all macros") == (len(names) == 1)}
    empty = max(len(definitions) for definitions in kinds.values())
    good = compile_.assembly([], names, empty)
    who = f"{names[0] if len(names) == 1 else 'all headers'}, {compile_.kind}, {compile_.language}"
    if good[0] != 0 or "loam_end" not in good[1]:
        return [f"{who}: does not compile as it is:\n{good[2]}"]
    for kind, definitions in kinds.items():
        result = compile_.assembly(definitions, names, empty)
        if result[:2] != good[:2]:
            first = guilty(compile_, definitions, names, empty, good)
            wrong.append(f"{who}: {kind} make a difference, as: #define {first}\n{result[2][:600]}")
        lost = compile_.survivors(definitions, names) if compile_.kind == "gcc" else []
        if lost:
            wrong.append(f"{who}: {kind} are not the same behind it: {lost[:5]}")
    return wrong


def in_parallel(jobs):
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        return [line for lines in pool.map(lambda job: job[0](*job[1:]), jobs) for line in lines]


def headers(args, folder, found):
    words = [word for file in ("names_save.h", "names_save_cxx.h")
             for word in SAVED.findall((args.include / "loam" / file)
                                       .read_text(encoding="utf-8"))]  # fmt: skip
    jobs = []
    for compiler in found:
        # Words of C++ alone may be C's here: a struct's member `template`.
        own = (
            words
            if compiler[0] == "c++"
            else SAVED.findall((args.include / "loam/names_save.h").read_text(encoding="utf-8"))
            + ["bool", "true", "false"]
        )
        names = [name for name in headers_of(args.include, compiler[0], compiler[3])
                 if not args.only or name == args.only]  # fmt: skip
        # gcc tries each header alone, too; clang's differences are those of its parser, which sees
        # all of them together.
        compile_ = Compile(args.include, folder, compiler)
        compile_.prepare()
        for some in [names] * bool(names) + [
            [name] for name in names if compiler[3] == "gcc" and len(names) > 1
        ]:
            jobs.append((try_headers, compile_, some, own))
    wrong = in_parallel(jobs)
    print(f"hostile: {len(jobs)} sources, {len(macros('c'))} macros of C, {len(macros('c++'))} of "
          f"C++, {len(words)} words")  # fmt: skip
    return wrong


def try_use(compile_, text):
    first, body = text.split("\n", 1)
    suffix = ".h" if compile_.language == "c" else ".hpp"
    includes = "".join(f"#include <loam/{name}{suffix}>\n" for name in first.split())
    out = set(SPARED)
    defined = define([d for d in macros(compile_.language) if name_of(d) not in out])
    status, _, said = compile_(
        PRELUDE[suffix] + defined + includes + body + "\n", "uses", "-S", "-O1", "-Wno-unused"
    )
    return [f"uses, {compile_.kind}, {compile_.language}:\n{said}"] if status else []


# What the programs of USES say themselves.
SPARED = "new delete class p i x a b T U this public private struct override final nullptr".split()


def uses(args, folder, found):
    jobs = [(try_use, Compile(args.include, folder, c), text) for c in found for text in USES[c[0]]]
    wrong = in_parallel(jobs)
    print(f"hostile: {len(jobs)} programs")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=("headers", "uses"))
    parser.add_argument(
        "--include", type=Path, default=Path(__file__).resolve().parents[2] / "include"
    )
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--cxx", default="c++")
    parser.add_argument("--only", help="this header")
    args = parser.parse_args()
    found = list(compilers(args))
    if not found:
        print("hostile: skipped: neither gcc nor clang")
        return SKIPPED
    with tempfile.TemporaryDirectory(prefix="loam-hostile-") as folder:
        wrong = (headers if args.kind == "headers" else uses)(args, folder, found)
    for line in wrong:
        print(f"hostile: {line}")
    print(f"hostile: {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
