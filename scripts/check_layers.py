#!/usr/bin/env python3
"""check_layers.py: the layers of loam's code, as docs/architecture.md draws them.

    check_layers.py [--root DIR]     one line for each violation; exit 1 if there is any
    check_layers.py --write-map      draws the map of folders in docs/architecture.md anew
    check_layers.py --self-test      proves on made-up trees that each rule catches its violation

The rules:
  layer     base < os < span < heap < sampling < checks < fheap < survey < api < override, and
            beside the heap base < family < hosted, where hosted may include the heap, first-class
            heaps and what is below the heap: a folder includes itself, include/loam, and the
            folders below it; never upward, never sideways
  door      from another folder only its one header, named like the folder: base/base.h,
            heap/heap.h. The wings of the heap (sampling, checks, fheap, survey) also include
            heap/core.h
  hook      what heap/ calls in its wings is declared in heap/hooks.h; what a wing calls in a wing
            above it as well
  static    no two .c files of src/ and override/ have a static function, a type, an enumerator or
            a macro of one name, so that all of them compile as one file
  path      an include in quotes names its folder ("heap/page.h", not "page.h")
  compiler  only src/base/compiler.h has #ifs on compilers and processors; of the public headers
            one may, for attributes
  freestanding  of the system, src/base and src/family include only headers that every compiler
            brings (<stddef.h>, <stdint.h>, ...): no <string.h>, which bare metal may lack; two
            doors for hosted builds, base/memory.h and family/tool.c, include what else they need
  linux     only src/os/linux*.c includes <sys/*>, <linux/*> or <asm/*>, or mentions __linux__
  kernel    kernel/ stands on the public headers as another user does: it includes loam/*, the
            kernel's own <linux/*> and <asm/*>, and "module.h", its own; nothing includes kernel/
  length    a file has at most 600 lines
  opening   a file opens with a comment that starts with its name (a public header's as it is
            included: loam/malloc.h) and says what it is
  map       the map in docs/architecture.md is the one that the code gives

It reads text, not what the preprocessor makes of it: an include by macro would pass unseen. A
definition is a name lm_* at the start of a line of a .c file, outside of comments and functions.
"""

import argparse
import re
import sys
import tempfile
from pathlib import Path

# The wings of the heap, each above those before it.
WINGS = ("sampling", "checks", "fheap", "survey")
# What each folder may include besides itself and include/loam.
BELOW = {
    "base": (),
    "os": ("base",),
    "span": ("base", "os"),
    "heap": ("base", "os", "span"),
    **{wing: ("base", "os", "span", "heap", *WINGS[:number]) for number, wing in enumerate(WINGS)},
    "api": ("base", "os", "span", "heap", *WINGS),
    "override": ("base", "os", "span", "heap", *WINGS, "api"),
    "family": ("base",),
    "hosted": ("base", "os", "span", "heap", "fheap", "family"),
}
HOOKS = "src/heap/hooks.h"
WING_DOOR = "heap/core.h"
FREESTANDING = ("base", "family")
OF_THE_COMPILER = {"stdalign.h", "stdarg.h", "stdatomic.h", "stdbool.h", "stddef.h", "stdint.h"}
# What hosted builds include besides, inside an #if.
HOSTED_INCLUDES = {"src/base/memory.h": "string.h", "src/family/tool.c": "valgrind/memcheck.h"}
COMPILER_FILE = "src/base/compiler.h"
SYSTEM_FILE = re.compile(r"src/os/linux\w*\.c")
SYSTEM_FILES = "src/os/linux*.c"
# What another file includes of the system, inside an #if: no call, but words of a tool.
TOOL_INCLUDES = {"src/os/probe.h": "sys/sdt.h"}
MAX_LINES = 600
SUFFIXES = {".c", ".h", ".cpp", ".hpp", ".def", ".inc"}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
CONDITION = re.compile(r"^\s*#\s*(?:if|ifdef|ifndef|elif)\b(.*)")
# What tells compilers or processors apart. __cplusplus tells languages apart: allowed anywhere.
COMPILER_MACRO = re.compile(
    r"__GNUC__|__GNUC_MINOR__|__clang\w*|_MSC_VER|__INTEL_COMPILER|__ICC|__TINYC__|__has_\w+"
    r"|__SANITIZE_\w+|__x86_64__|__i386__|__amd64__|__aarch64__|__arm\w*|__riscv\w*|__powerpc\w*"
    r"|__SSE\w*|__AVX\w*|__BYTE_ORDER__|__OPTIMIZE\w*"
)
SYSTEM_HEADER = re.compile(r"^(sys|linux|asm|asm-generic)/")
KERNEL_HEADER = re.compile(r"^(linux|asm)/")
PUBLIC = ("kernel/include/", "include/")  # folders that users include from
SYSTEM_MACRO = re.compile(r"\b(__linux__|__linux|__gnu_linux__)\b")
# A comment, or a string or character (kept as it is: it may contain what looks like a comment).
TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def blanked(text, strings=False):
    """The text with comments, and strings if asked, blanked out; its lines stay where they were."""

    def blank(match):
        token = match.group(0)
        return re.sub(r"[^\n]", " ", token) if strings or token.startswith("/") else token

    return TOKEN.sub(blank, text)


def layer_of(path):
    """The layer that a path relative to the root belongs to; None for the public headers."""
    parts = Path(path).parts
    return (
        parts[1] if parts[0] == "src" else parts[0] if parts[0] in ("override", "kernel") else None
    )


def check_include(path, quote, target):
    """What is wrong with path's include of target: (rule, text) or None."""
    own = layer_of(path)
    if own == "kernel":
        allowed = (
            KERNEL_HEADER.match(target)
            if quote == "<"
            else target.startswith("loam/") or target == "module.h"
        )
        return (
            None
            if allowed
            else ("kernel", f"includes {target}: only loam/*, <linux/*>, <asm/*> and module.h")
        )
    if quote == "<":
        if (
            SYSTEM_HEADER.match(target)
            and not SYSTEM_FILE.fullmatch(path)
            and TOOL_INCLUDES.get(path) != target
        ):
            return "linux", f"includes <{target}>: only {SYSTEM_FILES} may know the system"
        if (
            own in FREESTANDING
            and target not in OF_THE_COMPILER
            and HOSTED_INCLUDES.get(path) != target
        ):
            return "freestanding", f"includes <{target}>, which a device may not have"
        return None
    if target.startswith("loam/"):
        return None
    if "/" not in target:
        if own == "override":  # it lies outside the include path: its own headers have no folder
            return None
        return "path", f'includes "{target}" without its folder'
    folder = target.split("/")[0]
    if own is None:
        return "layer", f'is public and includes "{target}": only loam/* may be included'
    if folder == own:
        return None
    if folder not in BELOW:
        return "path", f'includes "{target}", which is in no layer ({", ".join(BELOW)})'
    if own not in BELOW:
        return "layer", f"lies in folder {own}, which is no layer"
    if folder not in BELOW[own]:
        return "layer", f'includes "{target}", which is not below {own}'
    door = f"{folder}/{folder}.h"
    if target != door and not (own in WINGS and target == WING_DOOR):
        return "door", f'includes "{target}" from outside: only "{door}" is for others'
    return None


def check_file(path, text):
    """Yields (line, rule, what) for each violation in one file."""
    lines = text.splitlines()
    if len(lines) > MAX_LINES:
        yield MAX_LINES + 1, "length", f"has {len(lines)} lines, at most {MAX_LINES} are allowed"
    name = next((path.removeprefix(top) for top in PUBLIC if path.startswith(top)), Path(path).name)
    if not re.match(rf"(/\*|//)\s*{re.escape(name)}:\s+\S", text):
        yield 1, "opening", f'does not open with a comment "{name}: what it is"'
    for number, line in enumerate(blanked(text).splitlines(), 1):
        include = INCLUDE.match(line)
        if include:
            wrong = check_include(path, *include.groups())
            if wrong:
                yield (number, *wrong)
            continue
        if not SYSTEM_FILE.fullmatch(path) and SYSTEM_MACRO.search(line):
            yield number, "linux", f"mentions the system: only {SYSTEM_FILES} may"
        condition = CONDITION.match(line)
        if condition and path != COMPILER_FILE and COMPILER_MACRO.search(condition.group(1)):
            yield number, "compiler", f"tells compilers apart: only {COMPILER_FILE} may"


# A definition at the start of a line: a function with its body, or a variable.
DEFINITION = re.compile(
    r"^(?!static\b|typedef\b|extern\b|LM_INLINE\b)[A-Za-z_][\w \*]*?\b(lm_\w+)\s*"
    r"(?:\([^;{]*\)\s*\{|(?:\[[^\]]*\])?\s*(?:=|;))",
    re.M,
)


def check_hooks(texts):
    """Yields (path, line, rule, what) for each call upward that hooks.h does not declare. The texts
    have no comments or strings."""
    defined = {}
    for path, text in texts.items():
        if path.endswith(".c") and layer_of(path) in BELOW:
            for match in DEFINITION.finditer(text):
                defined.setdefault(match.group(1), set()).add(layer_of(path))
    hooks = set(re.findall(r"\blm_\w+", texts.get(HOOKS, "")))
    for path, text in texts.items():
        own = layer_of(path)
        if own != "heap" and own not in WINGS:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            for name in re.findall(r"\blm_\w+", line):
                homes = defined.get(name, set())
                reachable = any(home == own or home in BELOW[own] for home in homes)
                if homes & set(WINGS) and not reachable and name not in hooks:
                    yield path, number, "hook", f"uses {name}, which {HOOKS} does not declare"


# Names at file scope that no other file sees: functions, variables, types, enumerators, macros.
PRIVATE = (
    re.compile(
        r"^(?:static|LM_INLINE|LM_COLD|LM_NOINLINE|LM_READS_ANYTHING)\b[^;={]*?\b(\w+)\s*"
        r"\([^;{]*\)\s*\{",
        re.M,
    ),
    re.compile(r"^static\b[^;({]*?\b(\w+)\s*(?:\[[^\]]*\])*\s*(?:=|;)", re.M),
    re.compile(r"^\}\s*(\w+)\s*;", re.M),
    re.compile(r"^typedef\b[^{;]*?\b(\w+)\s*(?:\([^;]*\))?;", re.M),
    re.compile(r"^#\s*define\s+(\w+)", re.M),
)
ENUMERATION = re.compile(r"^(?:static )?enum\s*\w*\s*\{([^}]*)\}", re.M)
# What files set for a header, or define in case the system lacks it.
OF_ALL = re.compile(r"LM_|LOAM_|MADV_|_")
# Other builds' files: they never meet the others.
ALONE = re.compile(r"src/os/(faulty|freestanding|linux_module)\.c")


def check_statics(texts):
    """Yields (path, line, rule, what) for each private name that another .c file has as well. The
    texts have no comments or strings."""
    homes = {}
    for path, text in texts.items():
        if not re.fullmatch(r"(src|override)/.*\.c", path) or ALONE.match(path):
            continue
        names = {name for pattern in PRIVATE for name in pattern.findall(text)}
        for body in ENUMERATION.findall(text):
            names |= set(re.findall(r"(?:^|,)\s*([A-Z]\w*)", body))
        for name in names:
            if not OF_ALL.match(name):
                homes.setdefault(name, []).append(path)
    for name, paths in homes.items():
        for path in paths[1:]:
            lines = texts[path].splitlines()
            number = next(n for n, line in enumerate(lines, 1) if re.search(rf"\b{name}\b", line))
            text = f"has a {name}, as {paths[0]} has: the module's noun goes first"
            yield path, number, "static", text


MAP_BEGIN = "<!-- map: scripts/check_layers.py --write-map -->"
MAP_END = "<!-- end of the map -->"


def draw_map(texts):
    """The folders of the code, from the top down: size, and what they include."""
    sizes, includes = {}, {}
    for path, text in texts.items():
        own = layer_of(path)
        if own not in BELOW:
            continue
        files, lines = sizes.get(own, (0, 0))
        sizes[own] = (files + 1, lines + text.count("\n"))
        for line in blanked(text).splitlines():
            include = INCLUDE.match(line)
            folder = include.group(2).split("/")[0] if include and include.group(1) == '"' else None
            if folder in BELOW and folder != own:
                includes.setdefault(own, set()).add(folder)
    rows = ["folder    files   lines   includes"]
    order = list(BELOW)
    for own in sorted(sizes, key=order.index, reverse=True):
        files, lines = sizes[own]
        below = sorted(includes.get(own, ()), key=order.index, reverse=True)
        rows.append(f"{own:9} {files:5} {lines:7,}   {', '.join(below)}".rstrip())
    return "\n".join([MAP_BEGIN, "```", *rows, "```", MAP_END])


def check_map(root, texts, write):
    """Yields a violation iff the map in docs/architecture.md is another one; or writes it."""
    page = root / "docs/architecture.md"
    if not page.is_file():
        return
    text = page.read_text(encoding="utf-8")
    begin, end = text.find(MAP_BEGIN), text.find(MAP_END)
    drawn = draw_map(texts)
    if begin < 0 or end < begin:
        yield "docs/architecture.md", 1, "map", f"has no map between {MAP_BEGIN} and {MAP_END}"
    elif write:
        page.write_text(text[:begin] + drawn + text[end + len(MAP_END) :], encoding="utf-8")
    elif text[begin : end + len(MAP_END)] != drawn:
        line = text.count("\n", 0, begin) + 1
        yield "docs/architecture.md", line, "map", "is not what the code gives: --write-map"


def check_tree(root, write_map=False):
    """All violations as (path, line, rule, what), and the number of files that were read."""
    violations = []
    public_with_ifs = []
    texts = {}
    for top in ("include/loam", "src", "override", "kernel"):
        for file in sorted((root / top).rglob("*")):
            if file.suffix not in SUFFIXES or not file.is_file():
                continue
            path = file.relative_to(root).as_posix()
            texts[path] = file.read_text(encoding="utf-8")
            found = list(check_file(path, texts[path]))
            if top == "include/loam" and any(rule == "compiler" for _, rule, _ in found):
                public_with_ifs.append(path)
                if len(public_with_ifs) == 1:
                    found = [v for v in found if v[1] != "compiler"]
            violations += [(path, *v) for v in found]
    code = {path: blanked(text, strings=True) for path, text in texts.items()}
    violations += check_hooks(code)
    violations += check_statics(code)
    violations += check_map(root, texts, write_map)
    return violations, len(texts)


# ---- self-test -----------------------------------------------------------------------------------

SOUND = {
    "include/loam/loam.h": '/* loam/loam.h: all. */\n#include "loam/types.h"\n#ifdef __cplusplus\n'
                           '#endif\n',
    "include/loam/types.h": "/* loam/types.h: attributes. */\n#if defined(__GNUC__)\n#endif\n",
    "src/base/compiler.h": "/* compiler.h: compilers. */\n#if defined(__clang__)\n#endif\n",
    "src/base/base.h": '/* base.h: ground. */\n#include "base/compiler.h"\n',
    "src/base/memory.h": "/* memory.h: memcpy. */\n#include <string.h>\n",
    "src/family/family.h": '/* family.h: all. */\n#include "base/base.h"\n#include <stdint.h>\n'
                           '#include <stdatomic.h>\n',
    "src/family/tool.c": '/* tool.c: x. */\n#include "family/family.h"\n'
                         '#include <valgrind/memcheck.h>\n',
    "src/hosted/pages.c": '/* pages.c: x. */\n#include "heap/heap.h"\n#include "family/family.h"\n'
                          '#include <errno.h>\n',
    "src/os/os.h": '/* os.h: the contract. */\n#include "base/base.h"\n',
    "src/os/linux.c": '/* linux.c: Linux. */\n#include "os/os.h"\n#include <sys/mman.h>\n'
                      '#ifdef __linux__\n#endif\n',
    "src/os/linux_cgroup.c": '/* linux_cgroup.c: groups. */\n#include "os/os.h"\n'
                             '#include <sys/syscall.h>\n'
                             'enum { TWO, ONE };\nstatic int one(void) { return 0; }\n',
    "src/os/probe.h": "/* probe.h: probes. */\n#include <sys/sdt.h>\n",
    "src/span/span.h": "/* span.h: spans. */\n",
    "src/heap/page.h": '/* page.h: pages. */\n#include "span/span.h"\n#include "base/base.h"\n',
    "src/heap/heap.h": '/* heap.h: heaps. */\n#include "heap/page.h"\n',
    "src/heap/free.c": '/* free.c: says "on __linux__" in a comment. */\n// #include "api/api.h"\n'
                       '#include "heap/heap.h"\n',
    "src/heap/core.h": '/* core.h: shared. */\n#include "heap/heap.h"\n',
    "src/heap/hooks.h": "/* hooks.h: hooks. */\nvoid lm_sampled_free(void *p);\n",
    "src/heap/remote.c": '/* remote.c: x. */\n#include "heap/core.h"\n'
                         'void lm_go(void) { lm_sampled_free(0); }\n',
    "src/sampling/sampling.h": '/* sampling.h: x. */\n#include "heap/core.h"\n',
    "src/sampling/sampled.c": '/* sampled.c: x. */\n#include "sampling/sampling.h"\n'
    "void lm_sampled_free(void *p) {}\nvoid lm_sampled_note_size(void) {}\nint lm_sampled;\n",
    "src/survey/survey.h": '/* survey.h: x. */\n#include "sampling/sampling.h"\n',
    "src/survey/count.c": '/* count.c: x. */\n#include "survey/survey.h"\n'
                          'void lm_count(void) { lm_sampled_note_size(); }\n',
    "src/api/api.h": '/* api.h: faces. */\n#include "heap/heap.h"\n#include "loam/loam.h"\n',
    "override/libc.c": '/* libc.c: names. */\n#include "api/api.h"\n#include "names.h"\n'
                       '#include <stdlib.h>\n',
    "override/names.h": "// names.h: the list.\n",
    "kernel/pages.c": '/* pages.c: pages. */\n#include "module.h"\n#include <linux/mm.h>\n',
    "kernel/module.h": '/* module.h: shared. */\n#include "loam/pages.h"\n',
    "kernel/include/loam/pages.h": '/* loam/pages.h: a source. */\n#include "loam/source.h"\n',
}

# (rule that must catch it, file, its text): each alone in an otherwise sound tree.
WRONG = [
    ("layer", "src/base/up.c", '/* up.c: x. */\n#include "os/os.h"\n'),
    ("layer", "src/os/up.c", '/* up.c: x. */\n#include "span/span.h"\n'),
    ("layer", "src/span/up.c", '/* up.c: x. */\n#  include "heap/heap.h"\n'),
    ("layer", "src/heap/up.c", '/* up.c: x. */\n#include "api/api.h"\n'),
    ("layer", "src/family/os.c", '/* os.c: x. */\n#include "os/os.h"\n'),
    ("layer", "src/family/heap.c", '/* heap.c: x. */\n#include "heap/heap.h"\n'),
    ("layer", "src/family/hosted.c", '/* hosted.c: x. */\n#include "hosted/hosted.h"\n'),
    ("layer", "src/heap/family.c", '/* family.c: x. */\n#include "family/family.h"\n'),
    ("layer", "src/hosted/api.c", '/* api.c: x. */\n#include "api/api.h"\n'),
    ("freestanding", "src/family/lib.c", "/* lib.c: x. */\n#include <stdlib.h>\n"),
    ("freestanding", "src/family/string.c", "/* string.c: x. */\n#include <string.h>\n"),
    ("freestanding", "src/base/io.h", "/* io.h: x. */\n#  include <stdio.h>\n"),
    ("layer", "include/loam/up.h", '/* loam/up.h: x. */\n#include "base/base.h"\n'),
    ("door", "src/api/in.c", '/* in.c: x. */\n#include "heap/page.h"\n'),
    ("door", "src/os/in.c", '/* in.c: x. */\n#include "base/compiler.h"\n'),
    ("door", "override/in.cpp", '/* in.cpp: x. */\n#include "heap/page.h"\n'),
    ("layer", "src/heap/wing.c", '/* wing.c: x. */\n#include "sampling/sampling.h"\n'),
    ("layer", "src/checks/survey.c", '/* survey.c: x. */\n#include "survey/survey.h"\n'),
    ("door", "src/api/core.c", '/* core.c: x. */\n#include "heap/core.h"\n'),
    ("door", "src/survey/inner.c", '/* inner.c: x. */\n#include "heap/page.h"\n'),
    ("hook", "src/heap/up.h", "/* up.h: x. */\nvoid lm_sampled_note_size(void);\n"),
    ("hook", "src/heap/data.c", "/* data.c: x. */\nint lm_get(void) { return lm_sampled; }\n"),
    ("hook", "src/checks/up.c", "/* up.c: x. */\nvoid lm_it(void) { lm_count(); }\n"),
    ("static", "src/span/two.c", "/* two.c: x. */\nstatic int one(void) { return 1; }\n"),
    ("static", "src/span/type.c", "/* type.c: x. */\ntypedef struct x {\n    int y;\n} one;\n"),
    ("static", "src/span/enum.c", "/* enum.c: x. */\nenum { ONE = 1 };\n"),
    ("static", "src/span/macro.c", "/* macro.c: x. */\n#define ONE 1\n"),
    ("map", "docs/architecture.md", f"# Map\n\n{MAP_BEGIN}\n```\n```\n{MAP_END}\n"),
    ("path", "src/heap/short.c", '/* short.c: x. */\n#include "page.h"\n'),
    ("path", "src/heap/far.c", '/* far.c: x. */\n#include "../span/span.h"\n'),
    ("path", "src/heap/tests.c", '/* tests.c: x. */\n#include "tests/help.h"\n'),
    ("compiler", "src/heap/cc.c", "/* cc.c: x. */\n#if defined(__GNUC__)\n#endif\n"),
    ("compiler", "src/heap/cpu.c", "/* cpu.c: x. */\n#ifdef __x86_64__\n#endif\n"),
    ("compiler", "src/os/cpu.c", "/* cpu.c: x. */\n#if 0\n#elif __has_builtin(x)\n#endif\n"),
    ("compiler", "include/loam/zz.h", "/* loam/zz.h: x. */\n#ifdef __clang__\n#endif\n"),
    ("linux", "src/os/thread.c", "/* thread.c: x. */\n#include <sys/mman.h>\n"),
    ("linux", "src/os/xlinux.c", "/* xlinux.c: x. */\n#include <sys/mman.h>\n"),
    ("linux", "src/span/sys.c", "/* sys.c: x. */\n#include <linux/futex.h>\n"),
    ("linux", "src/heap/if.c", "/* if.c: x. */\n#ifdef __linux__\n#endif\n"),
    ("kernel", "kernel/in.c", '/* in.c: x. */\n#include "family/family.h"\n'),
    ("kernel", "kernel/libc.c", "/* libc.c: x. */\n#include <string.h>\n"),
    ("path", "src/heap/kernel.c", '/* kernel.c: x. */\n#include "kernel/module.h"\n'),
    ("opening", "kernel/include/loam/bare.h", "/* bare.h: x. */\n"),
    ("linux", "override/sys.c", "/* sys.c: x. */\n#include <sys/types.h>\n"),
    ("length", "src/heap/long.c", "/* long.c: x. */\n" + "int x;\n" * MAX_LINES),
    ("opening", "src/heap/bare.c", '#include "heap/heap.h"\n'),
    ("opening", "src/heap/wrong.c", "/* other.c: x. */\n"),
]


def tree_rules(files):
    """The rules violated in a tree made of these files."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for path, text in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text, encoding="utf-8")
        violations, _ = check_tree(root)
        return [(path, rule) for path, _, rule, _ in violations]


def self_test():
    failures = 0
    if tree_rules(SOUND):
        print(f"self-test: a sound tree is refused: {tree_rules(SOUND)}")
        failures += 1
    for rule, path, text in WRONG:
        found = tree_rules({**SOUND, path: text})
        if found != [(path, rule)]:
            print(f"self-test: {path} should break exactly {rule!r}, found {found}")
            failures += 1
    rules = {
        "layer",
        "door",
        "path",
        "freestanding",
        "compiler",
        "linux",
        "kernel",
        "length",
        "opening",
    }
    rules |= {"hook", "static", "map"}
    unproven = rules - {w[0] for w in WRONG}
    if unproven:
        print(f"self-test: no case for {sorted(unproven)}")
        failures += 1
    print(f"self-test: {len(WRONG) + 1} trees, {failures} failures")
    return 1 if failures else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--write-map", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    args = parser.parse_args()
    if args.self_test:
        return self_test()
    violations, files = check_tree(args.root, args.write_map)
    for path, line, rule, what in violations:
        print(f"{path}:{line}: [{rule}] {what}")
    if files == 0:
        print(f"no source found under {args.root}")
        return 1
    print(f"check_layers: {files} files, {len(violations)} violations")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
