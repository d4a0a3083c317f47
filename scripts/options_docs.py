#!/usr/bin/env python3
"""options_docs.py: makes the documentation of the options from their table, src/api/options.def.

    options_docs.py            writes docs/guide/options.md and docs/man/loam.7
    options_docs.py --check    writes nothing; exit 1, with a line, for each file that is not as it
                               would be written
    options_docs.py --list     a line for each option: name, kind, default, least, most, words (for
                               tests)

Both files are committed, so that nobody who builds or installs loam needs Python. It knows the
table's macros and C's string literals, not the preprocessor: a row is a macro's name at the start
of a line, with literals and numbers in it.
"""

import argparse
import ast
import re
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "src/api/options.def"
GUIDE = ROOT / "docs/guide/options.md"
MANUAL = ROOT / "docs/man/loam.7"
VERSION = ROOT / "include/loam/types.h"
WIDTH = 100

FIELDS = {
    "SWITCH": "name initial when build sentence text",
    "NUMBER": "name unit initial least most when build sentence text",
    "CHOICE": "name initial words when build sentence text",
    "SET": "name words when build sentence text",
    "PATH": "name when build sentence text",
    "ALIAS": "name of factor sentence",
}
UNITS = {
    "BYTES": (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)),
    "MS": (("ms", 1),),
}


@dataclass
class Row:
    kind: str
    name: str
    sentence: str
    text: str = ""
    when: str = ""
    build: str = ""
    unit: str = ""
    words: str = "0|1"
    of: str = ""
    initial: int = 0
    least: int = 0
    most: int = 1
    factor: int = 1

    def number(self, value):
        """As the program writes it."""
        for suffix, factor in UNITS.get(self.unit, ()):
            if value % factor == 0 and (value or self.unit == "MS"):
                return f"{value // factor}{suffix}"
        return str(value)

    def default(self):
        if self.kind == "PATH":
            return "none"
        return (
            self.number(self.initial)
            if self.kind == "NUMBER"
            else self.words.split("|")[self.initial]
        )

    def range(self):
        if self.kind == "PATH":
            return "a file"
        if self.kind == "SET":
            return "none, or any of: " + ", ".join(self.words.split("|")[1:])
        if self.kind == "NUMBER":
            return f"{self.number(self.least)} to {self.number(self.most)}"
        return ", ".join(self.words.split("|"))


TOKEN = re.compile(r'\s*(?:("(?:\\.|[^"\\])*")|([A-Za-z_0-9]+)|([(),]))')


def arguments(text, at):
    """The arguments of the macro call whose bracket is at `at`, strings joined; and where it
    ends."""
    fields, field = [], []
    while True:
        match = TOKEN.match(text, at)
        if not match:
            raise SystemExit(f"options_docs: {TABLE}: not understood: {text[at : at + 60]!r}")
        at = match.end()
        string, word, sign = match.groups()
        if string:
            field.append(ast.literal_eval(string))
        elif word:
            field.append(word)
        elif sign != "(":
            fields.append("".join(field))
            field = []
            if sign == ")":
                return fields, at


def rows():
    text = re.sub(r"/\*.*?\*/", "", TABLE.read_text(encoding="utf-8"), flags=re.S)
    found, at = [], 0
    for match in re.finditer(r"^([A-Z]+)(?=\()", text, re.M):
        if text[at : match.start()].strip() or match.group(1) not in FIELDS:
            raise SystemExit(
                f"options_docs: {TABLE}: not understood: {text[at : match.end()].strip()!r}"
            )
        values, at = arguments(text, match.end())
        names = FIELDS[match.group(1)].split()
        if len(values) != len(names):
            raise SystemExit(
                f"options_docs: {TABLE}: {values[0]} has {len(values)} fields, not {len(names)}"
            )
        fields = dict(zip(names, values))
        for name in ("initial", "least", "most", "factor"):
            if name in fields:
                fields[name] = int(fields[name])
        found.append(Row(match.group(1), **fields))
    return found


SOURCES = (
    "the default",
    "a string in the program: `const char *loam_config = \"purge_delay=1s,show_stats=1\";`",
    "the environment: `LOAM_PURGE_DELAY=1s`",
    "a call: `loam_option_set(\"purge_delay\", \"1s\")` (`loam/options.h`); "
    "`loam_option_set_default` counts as source 2",
)  # fmt: skip

INTRODUCTION = (
    "Options change how loam works without a new build. The value of an option comes from one of "
    "four sources. A later source in this list counts more than an earlier one:",
    "A time is a whole number with the unit ms, s or min; without a unit it is ms. A size has the "
    "unit KiB, MiB, GiB or TiB; without a unit, or with B, it is bytes. K and KB mean KiB, M and "
    "MB mean MiB, and so on: all are powers of two. A size may also be a share: `80%` of the "
    "machine's memory, or `80%cgroup` of what the control group may hold (docs/guide/limits.md). "
    "Where 0 and 1 are values, so are no, false, off and yes, true, on. Units and words may have "
    "any case of letters. An option that loam cannot obey (an unknown name, a value out of range, "
    "an option given twice, an ability of another build of loam) costs one line on standard error; "
    "nothing else changes. The line names the source, as `LOAM_NAME` or `loam_config: name`, and "
    "the value that counts instead. loam does not read the environment of a process with more "
    "rights than its caller (set-user-ID, file capabilities), nor of a program with "
    "`environment=0` in its string. loam finds the string of every program that is linked with "
    "loam; for a preloaded libloam.so, the program has to export it (`cc -rdynamic`).",
)


CHANGES = (
    "`Changes` says what may set an option. `any time`: the program's string, the environment, or "
    "a call. `start`: the string or the environment, which are read before main; a call returns "
    "-EBUSY. `program's string`: only the string."
)


LATE = {
    "ANYTIME": "",
    "START": "; read at the start only",
    "PROGRAM": "; in the program's string only",
}

HANDLERS = (
    "Register a handler to receive loam's messages, or to act when memory runs out. A handler runs "
    "in the thread that called malloc or free, without loam's locks. It may allocate and free, and "
    "must return. No handler is called inside itself. After a mistake the process ends even if a "
    "handler was called, unless `LOAM_ON_ERROR` is `ignore`. For damage that loam finds in its own "
    "structures, such as a damaged list, it calls no handler, and writes a line to standard error. "
    "Compilers assume that `malloc` and `free` change no variables of the program: code that calls "
    "them by these names and shares variables with a handler needs `loam_handler_fence()` "
    "(docs/guide/malloc.md, handlers and the compiler)."
)


def lines_of(text, width=WIDTH):
    """The text cut into lines; what stands for itself is not cut."""
    lines = [""]
    for word in re.findall(r"`[^`]*`\S*|\S+", text):
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append("")
        lines[-1] += (" " if lines[-1] else "") + word
    return lines


def item_of(mark, text):
    """An item of a list."""
    first, *others = lines_of(text, WIDTH - len(mark))
    return [mark + first, *(" " * len(mark) + line for line in others)]


def when_text(row):
    return {"ANYTIME": "any time", "START": "start", "PROGRAM": "program's string"}[row.when]


def guide(table):
    out = [
        "<!-- Made by scripts/options_docs.py from src/api/options.def: change that, and run it. "
        "-->",
        "",
        "# Options",
        "",
    ]
    out += [*lines_of(INTRODUCTION[0]), ""]
    for n, source in enumerate(SOURCES, 1):
        out += item_of(f"{n}. ", source)
    out += ["", *lines_of(INTRODUCTION[1]), ""]
    for row in table:
        if row.kind == "ALIAS":
            out += item_of("- ", f"`LOAM_{row.name}`: `LOAM_{row.of}` under {row.sentence}")
        else:
            link = f"[`LOAM_{row.name}`](#loam_{row.name.lower()})"
            out += item_of("- ", f"{link}: {row.sentence}")
    out += ["", *lines_of(CHANGES)]
    for row in table:
        if row.kind == "ALIAS":
            continue
        out += [
            "",
            f"## LOAM_{row.name}",
            "",
            *lines_of(f"{row.sentence[0].upper()}{row.sentence[1:]}. {row.text}"),
            "",
            *lines_of(
                f"Default: {row.default()}. Values: {row.range()}. Changes: {when_text(row)}."
            ),
        ]
        for other in table:
            if other.of == row.name:
                same = f"`LOAM_{other.name}` is this option under {other.sentence}."
                out += ["", *lines_of(same)]
    out += [
        "",
        "## From a program",
        "",
        "```c",
        "#include <loam/options.h>",
        "",
        'const char *loam_config = "purge_delay=1s,show_stats=1"; /* before main */',
        "",
        "int main(void) {",
        "    char delay[32];",
        "    /* Returns -EINVAL for an unknown name, -ENOSPC if the text does not fit. */",
        '    if (loam_option_get("purge_delay", delay, sizeof delay) < 0) return 1;',
        "    /* Returns 0, or -EINVAL, -EBUSY (too late), -ENOTSUP (not in this build). */",
        '    loam_option_set("page_reset", "0");',
        "    /* Counts unless the environment or a call has set the option. */",
        '    loam_option_set_default("purge_delay", "5s");',
        "    /* Takes a number in the smallest unit; loam_option_get_number returns it. */",
        '    loam_option_set_number("limit_hard", 1 << 30);',
        '    loam_option_source("limit_hard"); /* "default", "program", "environment" or "call" */',
        "    loam_options_print();             /* prints one line for each option */",
        "}",
        "```",
        "",
        "## Handlers",
        "",
        *lines_of(HANDLERS),
        "",
        "```c",
        "#include <loam/loam.h>",
        "#include <stdio.h>",
        "",
        "struct cache {",
        "    void *object;",
        "};",
        "",
        "static bool drop_cache(size_t bytes, void *argument) {",
        "    (void)bytes;",
        "    struct cache *cache = argument;",
        "    bool full = cache->object != NULL;",
        "    loam_free(cache->object);",
        "    cache->object = NULL;",
        "    return full;",
        "}",
        "",
        "static void log_report(int code, const char *message, void *log) {",
        '    fprintf(log, "%d: %s", code, message);',
        "}",
        "",
        "static void write_line(const char *text, size_t bytes, void *log) {",
        "    fwrite(text, 1, bytes, log);",
        "}",
        "",
        "int main(void) {",
        "    static struct cache cache;",
        "    cache.object = loam_malloc(1 << 20);",
        "    /* Called before malloc returns NULL; if it returns true, malloc tries again. */",
        "    loam_oom_register(drop_cache, &cache);",
        "    /* EINVAL and EFAULT: a mistake; ENOMEM: a refusal. */",
        "    loam_error_register(log_report, stderr);",
        "    /* Gets statistics and lists of options. */",
        "    loam_output_register(write_line, stdout);",
        "}",
        "```",
    ]  # fmt: skip
    return "\n".join(out) + "\n"


def roff(text):
    """Text for troff: what stands for itself in bold."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    text = re.sub(r"`([^`]*)`", r"\\fB\1\\fR", text)
    return text


def filled(text):
    """A sentence a line, none of which begins with a control character."""
    lines = re.sub(r"(?<=[.:;]) (?=[A-Z`0-9])", "\n", text).split("\n")
    return [re.sub(r"^([.'])", r"\\&\1", roff(line)) for line in lines]


def manual(table):
    text = VERSION.read_text(encoding="utf-8")
    version = re.search(r'LOAM_VERSION_TEXT "([^"]+)"', text).group(1)
    out = [
        '.\\" Made by scripts/options_docs.py from src/api/options.def: change that, and run it.',
        f'.TH LOAM 7 "" "loam {version}" "Miscellaneous Information Manual"',
        ".nh",
        ".ad l",
        ".SH NAME",
        "loam \\- a drop\\-in memory allocator, and its options",
        ".SH SYNOPSIS",
        ".EX",
        "\\fBLD_PRELOAD=libloam.so\\fR [\\fBLOAM_\\fINAME\\fB=\\fIvalue\\fR]... \\fIprogram\\fR",
        "",
        "\\fB#include <loam/loam.h>\\fR",
        "\\fBcc \\fIprogram.c\\fB \\-lloam\\fR",
        ".EE",
        ".SH DESCRIPTION",
        *filled("loam replaces malloc, free and their kin, and the C++ operators new and delete, "
                "in the program that it is linked with or preloaded into. It needs no options."),
        ".PP",
        *filled(INTRODUCTION[0]),
    ]  # fmt: skip
    for n, source in enumerate(SOURCES, 1):
        out += [f".IP {n}. 4", *filled(source)]
    out += [".PP", *filled(INTRODUCTION[1]), ".SH OPTIONS"]
    for row in table:
        if row.kind == "ALIAS":
            out += [
                ".TP",
                f".B LOAM_{row.name}",
                *filled(f"`LOAM_{row.of}` under {row.sentence}."),
            ]
            continue
        late = LATE[row.when]
        words = f"{row.range()}; default {row.default()}{late}"
        out += [".TP", f'.BR LOAM_{row.name} " ({roff(words)})"']
        out += filled(f"{row.sentence[0].upper()}{row.sentence[1:]}. {row.text}")
    out += [
        ".SH FROM A PROGRAM",
        ".EX",
        "\\fB#include <loam/options.h>\\fR",
        "\\fBint loam_option_set(const char *\\fIname\\fB, const char *\\fIvalue\\fB);\\fR",
        "\\fBint loam_option_get(const char *\\fIname\\fB, char *\\fIvalue\\fB, size_t "
        "\\fIbytes\\fB);\\fR",
        "\\fBint loam_option_set_default(const char *\\fIname\\fB, const char *\\fIvalue\\fB);\\fR",
        "\\fBint loam_option_set_number(const char *\\fIname\\fB, size_t \\fInumber\\fB);\\fR",
        "\\fBint loam_option_get_number(const char *\\fIname\\fB, size_t *\\fInumber\\fB);\\fR",
        "\\fBconst char *loam_option_source(const char *\\fIname\\fB);\\fR",
        "\\fBconst char *loam_option_name(size_t \\fIindex\\fB);\\fR",
        "\\fBvoid loam_options_print(void);\\fR",
        ".EE",
        ".PP",
        *filled("A name has no `LOAM_`, and any case of letters. A function of type int returns a "
                "negative errno if it fails: `EINVAL` for an unknown name or a value out of range, "
                "`EBUSY` for an option that is read at the start only, `ENOTSUP` for what this "
                "build cannot do, `ENOSPC` if the value does not fit. `loam_option_set_default` "
                "sets an option that neither the environment nor a call has set. Numbers are in "
                "the least unit: milliseconds, bytes. `loam_option_source` returns where a value "
                "comes from: default, program, environment or call."),
        ".SH SEE ALSO",
        ".BR malloc (3),",
        ".BR mallopt (3),",
        ".BR ld.so (8)",
    ]  # fmt: skip
    return "\n".join(out) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    table = rows()
    if args.list:
        for row in table:
            print(
                row.name,
                row.kind,
                row.default(),
                row.least,
                row.most,
                row.words,
                row.of or "-",
                row.factor,
            )
        return 0
    stale = 0
    for path, text in ((GUIDE, guide(table)), (MANUAL, manual(table))):
        if not args.check:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            print(
                f"{path.relative_to(ROOT)} is not what src/api/options.def says: run "
                "scripts/options_docs.py"
            )
            stale = 1
    return stale


if __name__ == "__main__":
    sys.exit(main())
