#!/usr/bin/env python3
"""safe_names.py: keeps the macros of a program out of loam's public headers.

    safe_names.py --write      puts the two includes into each header, and writes the lists of names
    safe_names.py --check      one line for each fault; exit 1 if there is any (the default)
    safe_names.py --self-test  proves on made-up headers that each fault is found

A program may define any word as a macro before it includes a header of loam: `unused`, `free(p)`,
`new`, `min`, `inline`. Each public header therefore begins with loam/names_begin.h, which saves and
undefines every word that any of loam's headers uses, and ends with loam/names_end.h, which puts the
program's macros back (docs/decisions/0045). This script collects the words.

The faults:
  lists    a list in include/loam/names_*.h is not what the headers need: run --write
  frame    a header does not begin with the one include, or does not end with the other
  spelled  an attribute without underlines: it would be the program's word where a macro of loam is
           used
  called   a call through a pointer that is a member, without parentheses around the member
  local    a macro of loam that has a word of its own in its text, which the program may have
           defined
"""

import argparse
import re
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINES = 560  # names in a list; a file has at most 600 lines

# Words of C. bool, true and false are macros there, which names_begin.h defines as <stdbool.h>
# does.
KEYWORDS = """auto break case char const continue default do double else enum extern float for goto
if inline int long register restrict return short signed sizeof static struct switch typedef union
unsigned void volatile while""".split()
BOOL = ["bool", "false", "true"]
KEYWORDS_CXX = """alignas alignof catch char16_t char32_t char8_t class co_await co_return co_yield
concept const_cast consteval constexpr constinit decltype delete dynamic_cast explicit export final
friend mutable namespace new noexcept nullptr operator override private protected public
reinterpret_cast requires static_assert static_cast template this thread_local throw try typeid
typename using virtual wchar_t""".split()
# Words of the C library, which are macros there or may be.
LIBRARY = {"NULL", "FILE", "SIZE_MAX", "PTRDIFF_MAX", "UINT64_MAX", "UINT32_MAX", "stdout", "errno",
           "offsetof", "defined", "include"}  # fmt: skip
OURS = re.compile(r"(?:loam_|LOAM_|__|_[A-Z])")
WORD = re.compile(r"[A-Za-z_]\w*")
BEGIN = '#include "loam/names_begin.h"\n'
END = '#include "loam/names_end.h"\n'
# loam/override.h defines malloc and the like for the program: that is its purpose.
UNFRAMED = ("override.h",)


def code(text):
    """The text without comments, strings and includes."""
    text = re.sub(r"/\*.*?\*/", lambda m: "\n" * m.group().count("\n") + " ", text, flags=re.S)
    text = re.sub(r"//[^\n]*", " ", text)
    text = re.sub(r'"(?:\\.|[^"\\\n])*"', '""', text)
    text = re.sub(r"'(?:\\.|[^'\\\n])+'", "0", text)
    text = re.sub(r"^[ \t]*#[ \t]*(?:include|pragma|error)[^\n]*", "", text, flags=re.M)
    return re.sub(r"\b\d[\w.']*", "0", text)


def headers(folder):
    return [
        path
        for path in sorted(folder.glob("*.h")) + sorted(folder.glob("*.hpp"))
        if not path.name.startswith("names_")
    ]


def macros(text):
    """(name, parameters, body) of each macro in code."""
    joined = text.replace("\\\n", " ")
    for match in re.finditer(
        r"^[ \t]*#[ \t]*define[ \t]+(\w+)(\([^)]*\))?[ \t]*(.*)$", joined, re.M
    ):
        yield match.group(1), set(WORD.findall(match.group(2) or "")), match.group(3)


def program_words(text):
    """What a header reads of the program, or defines for it: macros, which have to stay."""
    words = {name for name, _, _ in macros(text)}
    for line in re.findall(r"^[ \t]*#[ \t]*(?:el)?if[^\n]*", text.replace("\\\n", " "), re.M):
        words |= set(WORD.findall(line))
    return words


def lists(folder):
    """(words of C and C++, words of C++ alone), sorted."""
    both, cxx, kept = set(KEYWORDS), set(KEYWORDS_CXX) | set(BOOL), set(LIBRARY)
    for path in headers(folder):
        text = code(path.read_text(encoding="utf-8"))
        if path.name not in UNFRAMED:
            kept |= program_words(text)
        words = {word for word in WORD.findall(text) if not OURS.match(word)}
        # Behind this line a C header has what only C++ reads.
        (both if path.suffix == ".h" else cxx).update(words)
    directives = {"define", "elif", "endif", "ifdef", "ifndef", "undef"}
    both -= kept | directives | set(KEYWORDS_CXX) - {"wchar_t"} | set(BOOL)
    return sorted(both), sorted(cxx - kept - both - directives)


def files(folder):
    """Name and text of each list."""
    made = (
        "Made by scripts/safe_names.py --write; not to be included by itself. */\n"
        "// clang-format off\n"
    )
    both, cxx = lists(folder)
    for which, words in (("", both), ("_cxx", cxx)):
        if len(words) > LINES:
            raise SystemExit(
                f"safe_names: {len(words)} words in a list, a file has at most {LINES}"
            )
        of = "C++ alone" if which else "C and C++"
        yield (f"names_save{which}.h", f"/* loam/names_save{which}.h: saves what the program has "
                                       f"defined, words of {of}.\n * "
               + made + "".join(f'#pragma push_macro("{word}")\n' for word in words))  # fmt: skip
        yield (f"names_hide{which}.h", f"/* loam/names_hide{which}.h: then undefines it, words of "
                                       f"{of}.\n * "
               + made + "".join(f"#undef {word}\n" for word in words))  # fmt: skip
        yield (f"names_back{which}.h", f"/* loam/names_back{which}.h: defines it as before, words "
                                       f"of {of}.\n * "
               + made + "".join(f'#pragma pop_macro("{word}")\n' for word in words))  # fmt: skip


def framed(text):
    """The header with both includes."""
    if BEGIN not in text:
        text = re.sub(
            r"(^#ifndef (LOAM_\w+)\n#define \2\n)", rf"\1\n{BEGIN}", text, count=1, flags=re.M
        )
    if END not in text:
        text = re.sub(r"\n#endif[^\n]*\n\Z", lambda m: f"\n{END}{m.group()}", text)
    return text


def faults(folder):
    for name, text in files(folder):
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            yield name, "lists", "is not what the headers need: scripts/safe_names.py --write"
    for path in headers(folder):
        raw = path.read_text(encoding="utf-8")
        if path.name not in UNFRAMED and (
            not re.search(rf"^#ifndef (LOAM_\w+)\n#define \1\n\n{re.escape(BEGIN)}", raw, re.M)
            or not re.search(rf"\n{re.escape(END)}\n#endif[^\n]*\n\Z", raw)
            or raw.count(BEGIN) != 1
            or raw.count(END) != 1
        ):
            yield path.name, "frame", "does not begin and end with loam/names_begin.h and _end.h"
        text = code(raw)
        for inner in re.findall(r"__attribute__\(\((.*?)\)\)(?!\))", text.replace("\n", " ")):
            for word in re.findall(
                r"(?:^|,\s*)([a-z]\w*)", re.sub(r"\([^()]*(?:\([^()]*\)[^()]*)*\)", "", inner)
            ):
                yield path.name, "spelled", f"attribute {word}, not __{word}__"
            for word in re.findall(r"\b(?:printf)\b", inner):
                yield path.name, "spelled", f"attribute's {word}, not __{word}__"
        if path.suffix == ".h":
            for member in re.findall(
                r"(?<!\()\b\w+(?:->|\.)(?:functions->)?(alloc|realloc|free|get|put)\(",
                text.split("#ifdef __cplusplus\n\n", 1)[0],
            ):
                yield path.name, "called", f"{member} of a struct: (x->{member})(...)"
        for name, parameters, body in macros(text):
            if path.name in UNFRAMED or INNER.match(name):
                continue
            words = {w for w in WORD.findall(body) if not OURS.match(w) and not w.endswith("_")}
            words -= parameters | ALLOWED | program_words(text)
            for word in sorted(words):
                yield path.name, "local", f"{name} has the word {word} in its text"


# In the text of loam's macros: types, and what C++ has no other name for.
# The last line: names that xallocator's users call.
ALLOWED = set(KEYWORDS) | set(KEYWORDS_CXX) | set(BOOL) | LIBRARY
ALLOWED |= {
    "std",
    "size_t",
    "uint32_t",
    "align_val_t",
    "nothrow_t",
    "nothrow",
    "loam",
    "detail",
    "class_pool",
    "class_allocator",
    "class_allocator_end",
    "class_pool_tag",
    "need",
    "xalloc_again",
    "xalloc_again_nothrow",
    "checks",
}
ALLOWED |= {"Allocator", "AllocatorPool", "Allocate", "Deallocate", "allocator"}
# Macros that loam's headers alone use, between the two includes.
INNER = re.compile(r"LOAM_(?:FORM|FOR_EACH_ARITY|TYPES|ARGUMENTS|FORWARD)_")


def check(folder):
    found = list(faults(folder))
    for name, rule, what in found:
        print(f"{name}: {rule}: {what}")
    both, cxx = lists(folder)
    print(
        f"safe_names: {len(headers(folder))} headers, {len(both)} words, {len(cxx)} more of C++, "
        f"{len(found)} faults"
    )
    return 1 if found else 0


def write(folder):
    for path in headers(folder):
        if path.name not in UNFRAMED:
            path.write_text(framed(path.read_text(encoding="utf-8")), encoding="utf-8")
    for name, text in files(folder):
        (folder / name).write_text(text, encoding="utf-8")
    return check(folder)


GOOD = """/* loam/a.h: x. */
#ifndef LOAM_A_H
#define LOAM_A_H

#include "loam/names_begin.h"

#include <stddef.h>

struct loam_a { int small; void (*put)(int p); };
#define LOAM_B(x) __attribute__((__cold__, __aligned__(x)))
static inline void loam_a_put(struct loam_a *owner) { (owner->put)(2); }

#include "loam/names_end.h"

#endif
"""


def self_test():
    wrong = []
    for rule, old, new in (
        (None, "", ""),
        ("lists", "int small", "int near"),
        ("frame", '#include "loam/names_end.h"\n', ""),
        ("frame", '#include "loam/names_begin.h"\n', ""),
        ("frame", "#include <stddef.h>\n", '#include <stddef.h>\n#include "loam/names_begin.h"\n'),
        ("spelled", "__cold__", "cold"),
        ("spelled", "__aligned__", "aligned"),
        ("spelled", "__cold__", "__format__(printf, 1, 2)"),
        ("called", "(owner->put)(2)", "owner->put(2)"),
        ("local", "#define LOAM_B(x)", "#define LOAM_C(x) small(x)\n#define LOAM_B(x)"),
    ):
        with tempfile.TemporaryDirectory(prefix="loam-names-") as name:
            folder = Path(name)
            (folder / "a.h").write_text(GOOD, encoding="utf-8")
            for file, text in files(folder):
                (folder / file).write_text(text, encoding="utf-8")
            (folder / "a.h").write_text(GOOD.replace(old, new) if old else GOOD, encoding="utf-8")
            found = {fault for _, fault, _ in faults(folder)}
            if (rule is None and found) or (rule is not None and rule not in found):
                wrong.append(f"{rule}: {old!r} to {new!r}: found {found}")
    for line in wrong:
        print(f"safe_names: {line}")
    print(f"safe_names: self-test, {len(wrong)} wrong")
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("--root", type=Path, default=ROOT)
    args = parser.parse_args()
    if args.self_test:
        return self_test()
    folder = args.root / "include/loam"
    return write(folder) if args.write else check(folder)


if __name__ == "__main__":
    sys.exit(main())
