#!/usr/bin/env python3
"""code_blocks.py: each block of code in the documents and headers compiles and runs as it stands.

    code_blocks.py --build DIR [--cc cc --cxx c++ --only TEXT --jobs N]
    code_blocks.py --list         the blocks, and what becomes of each
    code_blocks.py --self-test    proves that broken blocks are found (with --build)

What a block is, and how a reader knows what it needs:

    the documents (pages())     ```c, ```cpp     a source file, complete as it stands
    comments at the margin of   lines that are   statements: they follow #include <loam/HEADER>,
    include/loam/HEADER         indented by 5    and the includes below, in a function; definitions
                                                 at the margin stand in front of the function

A group of indented lines in a header is code if a line of it ends with ; or } (a // comment may
follow) or begins with #include <; any other is a drawing. The includes are CONTAINERS in a .hpp
header and <string.h> in a .h header. No program includes names_begin.h, nor does its example.
A block that is a part of something says so by <!-- fragment: why --> in the line above ```, and to
the reader in the text above that (shell_blocks.py); at most MOST_FRAGMENTS blocks are.
No block has "..." for what the reader is to fill in, and no block without a language has C in it.

Each block is compiled with -Wall -Wextra -Werror, and run where it has a main; a failure is an exit
status that is not 0, or more than 20 seconds:

    fortified   -O2 -D_FORTIFY_SOURCE=3, linked with libloam.a
    sanitized   -O1, AddressSanitizer and UndefinedBehaviorSanitizer, leaks too; libloam.a as it is
    analysed    gcc's -fanalyzer, blocks of C alone: that of gcc 12 does not know C++ (its manual)

The examples of all .hpp headers are one program, which is split where it does not compile, so that
the containers are read once. So their headers are all included there; that each of them stands
alone is headers_alone.py's. It cannot tell whether a block does what the text says: only that it
compiles, ends with 0, and that no sanitizer objects. Exit: 0 all held, 1 not, 77 no compiler.
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
LANGUAGES = {"c": "c", "h": "c"} | dict.fromkeys(("cpp", "c++", "cc", "cxx", "hpp"), "c++")
STANDARD = {"c": "-std=gnu11", "c++": "-std=gnu++17"}
MOST_FRAGMENTS = 2
FENCE = re.compile(r"^( *)```(\S*)[^\n]*\n(.*?)^ *```$", re.M | re.S)
OUTSIDE = re.compile(r"#|template\b|using\b|static\b.*\)\s*\{|(class|struct)\b[^;=]*\{")
FRAGMENT = re.compile(r"<!-- fragment: (\S.*?) -->\n+$", re.S)
CONTAINERS = "cassert deque list map memory memory_resource string vector".split()
# They declare more than they use.
EXAMPLE_WARNINGS = ["-Wno-unused"]

# name: (options of the compiler, options of the linker)
WAYS = {
    "fortified": (["-O2", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=3"], []),
    "sanitized": (["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
                  ["-fsanitize=address,undefined"]),
}  # fmt: skip


class Block:
    """where: page and line; text: a source file; example: made from a header's comment."""

    def __init__(self, where, language, text, body=None, header=None):
        self.where, self.language, self.text = where, language, text
        self.body, self.header = body, header
        self.fragment = None

    @property
    def runs(self):
        return re.search(r"^int main\(", self.text, re.M) is not None


def blocks_of_page(name, text):
    for found in FENCE.finditer(text):
        language = LANGUAGES.get(found.group(2).lower())
        if not found.group(2) and re.search(r";$", found.group(3), re.M):
            language = "none"
        if language is None:
            continue
        indent = len(found.group(1))
        lines = [line[indent:] for line in found.group(3).split("\n")]
        line = text.count("\n", 0, found.start()) + 1
        block = Block(f"{name}:{line}", language, "\n".join(lines))
        why = FRAGMENT.search(text[: found.start()])
        block.fragment = why.group(1) if why else None
        yield block


def without_comment(line):
    return re.sub(r"//.*$|/\*.*?\*/", "", line).rstrip()


def split_items(lines):
    """(definitions, statements) of an example: items begin at the margin, and end as braces do."""
    definitions, statements, item, depth = [], [], [], 0
    for line in lines:
        item.append(line)
        bare = without_comment(line)
        depth += bare.count("{") - bare.count("}")
        if depth == 0 and (not bare.strip() or bare.endswith((";", "}")) or bare.startswith("#")):
            first = item[0]
            outside = OUTSIDE.match(first)
            (definitions if outside else statements).extend(item)
            item = []
    return definitions, statements + item


def examples_of_header(text):
    """(line, lines) of each example in a header's comments."""
    for comment in re.finditer(r"^/\*.*?\*/", text, re.M | re.S):
        group, first = [], text.count("\n", 0, comment.start()) + 1
        for number, line in enumerate([*comment.group().split("\n"), " *"], first):
            if line.startswith(" *     "):
                group.append(line[7:])
                continue
            bare = [without_comment(one) for one in group]
            if any(one.endswith((";", "}")) or one.startswith("#include <") for one in bare):
                yield number - len(group), group
            group = []


def block_of_example(name, line, lines):
    is_c = name.endswith(".h")
    includes = [] if name.startswith("names_") else [f"#include <loam/{name}>"]
    includes += [f"#include <{one}>" for one in (["string.h"] if is_c else CONTAINERS)]
    definitions, statements = split_items(lines)
    definitions = [d for d in definitions if without_comment(d) not in includes]
    head = "static int example_NUMBER(void) {" if is_c else "static int example_NUMBER() {"
    body = "\n".join([*definitions, head, *statements, "    return 0;", "}"])
    language = "c" if is_c else "c++"
    whole = "\n".join(includes) + "\n" + body.replace("NUMBER", "0") + main_of(language, 1)
    return Block(f"include/loam/{name}:{line}", language, whole, body, includes)


def main_of(language, count):
    calls = "".join(f"    example_{i}();\n" for i in range(count))
    return f"\nint main({'void' if language == 'c' else ''}) {{\n{calls}    return 0;\n}}\n"


def together(examples):
    """One program of the examples of C++; each has a namespace of its own."""
    includes = dict.fromkeys(line for block in examples for line in block.header)
    text = "\n".join(includes) + "\n"
    for i, block in enumerate(examples):
        body = block.body.replace("NUMBER", str(i))
        text += f"namespace of_{i} {{\n{body}\n}}\nusing of_{i}::example_{i};\n"
    where = ", ".join(block.where for block in examples)
    return Block(where, "c++", text + main_of("c++", len(examples)), header=includes)


def pages(root):
    """All documents, but for what is built."""
    found = sorted(root.glob("*.md"))
    for folder in sorted(each for each in root.iterdir() if each.is_dir()):
        if folder.name not in ("build", ".git"):
            found += sorted(folder.rglob("*.md"))
    return found


def collect(root):
    """All blocks: those of pages, then examples of headers."""
    for page in pages(root):
        yield from blocks_of_page(str(page.relative_to(root)), page.read_text(encoding="utf-8"))
    for header in sorted((root / "include/loam").glob("*.h*")):
        text = header.read_text(encoding="utf-8")
        for line, lines in examples_of_header(text):
            yield block_of_example(header.name, line, lines)


def rules(blocks):
    """Faults that need no compiler."""
    fragments = [block for block in blocks if block.fragment]
    if len(fragments) > MOST_FRAGMENTS:
        yield f"{len(fragments)} fragments are more than {MOST_FRAGMENTS}"
    for block in blocks:
        if block.language == "none":
            yield f"{block.where}: has lines that end with ; but names no language"
        code = re.sub(r"//[^\n]*|/\*.*?\*/|\"(\\.|[^\"\\\n])*\"", "", block.text, flags=re.S)
        if not block.fragment and re.search(r"(?<!\w)\.\.\.(?!\))", code):
            yield f"{block.where}: has ... for what the reader is to fill in"


class Tools:
    def __init__(self, args, folder):
        self.args, self.folder = args, Path(folder)
        self.run_seconds = 20
        self.compiler = {"c": args.cc, "c++": args.cxx}
        self.library = args.build and Path(args.build) / "libloam.a"
        said = subprocess.run([args.cc, "--version"], capture_output=True, text=True, check=False)
        self.analyses = "clang" not in said.stdout

    def call(self, command, cwd, seconds=300):
        """None, or what is wrong."""
        try:
            result = subprocess.run([str(c) for c in command], capture_output=True, text=True,
                                    cwd=cwd, check=False, timeout=seconds, errors="replace",
                                    env={**os.environ, "LC_ALL": "C"})  # fmt: skip
        except subprocess.TimeoutExpired:
            return f"runs for more than {seconds} seconds"
        if result.returncode == 0:
            return None
        lines = [one for one in result.stderr.split("\n") if re.search("error|ERROR|:", one)]
        return f"exit status {result.returncode}\n    " + "\n    ".join(lines[:8])

    def __call__(self, job):
        """None, or what is wrong with a block compiled and run in one way."""
        block, way = job
        place = Path(tempfile.mkdtemp(dir=self.folder))
        source = place / ("block.c" if block.language == "c" else "block.cpp")
        source.write_text(block.text, encoding="utf-8")
        common = [self.compiler[block.language], STANDARD[block.language], "-Wall", "-Wextra",
                  "-Werror", *(EXAMPLE_WARNINGS if block.header else []),
                  "-I", self.args.include.resolve()]  # fmt: skip
        if way == "analysed":
            wrong = self.call([*common, "-O1", "-fanalyzer", "-S", "-o", os.devnull, source], place)
        else:
            options, links = WAYS[way]
            if block.runs:
                program = [source, "-o", place / "block", self.library, "-pthread", *links]
            else:
                program = ["-c", source, "-o", place / "block.o"]
            wrong = self.call([*common, *options, *program], place)
            if wrong is None and block.runs:
                wrong = self.call([place / "block"], place, self.run_seconds)
        shutil.rmtree(place, ignore_errors=True)
        return wrong and f"{block.where}: {way}: {wrong}"


def try_all(blocks, tools, jobs):
    """Faults of all blocks that are no fragments; examples of C++ are tried together first."""
    whole = [block for block in blocks if not block.fragment and block.language != "none"]
    examples = [block for block in whole if block.header and block.language == "c++"]
    rest = [block for block in whole if block not in examples]
    todo = [(block, way) for block in rest for way in WAYS]
    todo += [(block, "analysed") for block in rest if block.language == "c" and tools.analyses]
    batch = [(together(examples), way) for way in WAYS] if examples else []
    with concurrent.futures.ThreadPoolExecutor(max_workers=jobs) as pool:
        said = list(pool.map(tools, [*batch, *todo]))
        wrong = [line for line in said[len(batch):] if line]  # fmt: skip
        for (_, way), line in zip(batch, said):
            if line:  # which of them is it?
                found = [one for one in pool.map(tools, [(e, way) for e in examples]) if one]
                wrong += found or [line]
    return wrong


PROGRAM = "```c\n" + "".join(f"#include <{name}.h>\n" for name in "limits stdlib string".split())
PROGRAM += "#include <loam/loam.h>\nint main(void) {{\n{}\n}}\n```\n"
COMMENT = "/* loam/pool.hpp: x.\n *\n *     {}\n *\n */\n"
# A page or a header's comment, its code, and what is said of it: a broken block of each kind.
BROKEN = (
    (PROGRAM, "    loam_free(loam_malloc(9));", None),
    (PROGRAM, "    loam_free(loam_malloc(9))", "expected ';'"),
    (PROGRAM, "    ...\n    loam_free(loam_malloc(9));", "fill in"),
    (PROGRAM, "    return loam_no_such_function() == 0;", "loam_no_such_function"),
    (PROGRAM, "    return 3;", "exit status 3"),
    (PROGRAM, "    for (;;) loam_collect();", "seconds"),
    (PROGRAM, "    char *p = loam_malloc(9);\n    if (p == NULL) return 1;\n"
     "    volatile size_t n = 10;\n    memset(p, 1, n);\n    loam_free(p);", "fortified"),
    (PROGRAM, "    volatile size_t n = 9;\n    char *p = malloc(9);\n    if (p == NULL) return 1;\n"
     "    ((volatile char *)p)[n] = 1;\n    free(p);", "sanitized"),
    (PROGRAM, "    volatile int n = INT_MAX;\n    n = n + 1;", "overflow"),
    (PROGRAM, "    int *p = loam_malloc(sizeof *p);\n    *p = 1;\n    loam_free(p);", "analysed"),
    ("```cpp\n#include <loam/pool.hpp>\nint main() {{ {} }}\n```\n", "loam::pool p;", "no match"),
    ("<!-- fragment: a part -->\n```c\n{}\n```\n", "x = 1;", None),
    ("```\n{}\n```\n", "loam_collect();", "names no language"),
    (COMMENT, "loam::pool p(64);   // good", None),
    (COMMENT, "loam::pool p(64);   not good\n *     loam::pool q(64);", "not"),
    (COMMENT, "loam::pool p(64);\n *     assert(p.alloc() == nullptr);", "exit status"),
    (COMMENT, "a drawing ──> nothing", None),
)  # fmt: skip


def self_test(args):
    with tempfile.TemporaryDirectory(prefix="loam-blocks-") as folder:
        tools = Tools(args, folder)
        tools.run_seconds = 8

        def fails(case):
            form, code, wanted = case
            if wanted == "analysed" and not tools.analyses:
                return None
            text = form.format(code)
            blocks = list(blocks_of_page("page", text))
            blocks += [block_of_example("pool.hpp", *one) for one in examples_of_header(text)]
            wrong = "\n".join(list(rules(blocks)) or try_all(blocks, tools, 1))
            if (wanted is None and wrong) or (wanted is not None and wanted not in wrong):
                return f"code_blocks: self-test: wanted {wanted!r} of\n{text}was told: {wrong!r}"
            return None

        with concurrent.futures.ThreadPoolExecutor(max_workers=args.jobs) as pool:
            wrong = [line for line in pool.map(fails, BROKEN) if line]
    for line in wrong:
        print(line)
    print(f"code_blocks: the self-test has {len(BROKEN)} cases, {len(wrong)} wrong")
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, help="the folder that has libloam.a")
    parser.add_argument("--include", type=Path, default=ROOT / "include")
    parser.add_argument("--root", type=Path, default=ROOT)
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--cxx", default="c++")
    parser.add_argument("--only", default="", help="blocks whose place has this text")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    args = parser.parse_args()
    if not args.list and (not args.build or not (args.build / "libloam.a").exists()):
        parser.error("--build must name a folder that has libloam.a")
    args.build = args.build and args.build.resolve()
    if not shutil.which(args.cc) or not shutil.which(args.cxx):
        print("code_blocks: skipped: no compiler")
        return SKIPPED
    if args.self_test:
        return self_test(args)
    blocks = [block for block in collect(args.root) if args.only in block.where]
    if args.list:
        for block in blocks:
            what = block.fragment or ("runs" if block.runs else "compiles")
            print(f"{block.where}: {block.language}: {what}")
        return 0
    with tempfile.TemporaryDirectory(prefix="loam-blocks-") as folder:
        wrong = list(rules(blocks)) + try_all(blocks, Tools(args, folder), args.jobs)
    for line in wrong:
        print(f"code_blocks: {line}")
    run = sum(block.runs and not block.fragment for block in blocks)
    print(f"code_blocks: {len(blocks)} blocks, {run} of them run, {len(wrong)} faults")
    return 1 if wrong or not blocks else 0


if __name__ == "__main__":
    sys.exit(main())
