#!/usr/bin/env python3
"""leaks.py: LOAM_SHOW_LEAKS lists what no code of the process frees, and only that; call sites name
the module that allocated.

    leaks.py ends PROGRAM... PLUGIN          programs that differ in how loam is in them
    leaks.py preload LOAM PROGRAM PLUGIN     a program without loam, under LD_PRELOAD
    leaks.py sites LOAM PROGRAM PLUGIN OTHER names of modules, of closed and replaced plugins, too
    leaks.py tools LOAM                      against Valgrind, on installed programs

Plans (leaks.h) are generated: which module allocates at which moment, how much, and when that is
freed. The truth is computed from the plan. Sizes are larger than what the C and C++ libraries keep,
and of each item its own.
"""

import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

BORN, DIES = "ecom", "mxsdytkn"  # moments of leaks.h
LEAST = 80_000  # bytes of an item
GROUP = re.compile(r"loam:   (\d+) object\(s\) of (\d+) B, the first at")
# Reports of sampled objects name no functions, and have no parentheses.
SITE = re.compile(r"loam:     #(\d+) (?:(\S+)\+0x[0-9a-f]+ )?\(?([^() ]+)\+0x[0-9a-f]+")
TOTAL = re.compile(r"loam: (\d+) object\(s\) of (\d+) B in all are still in use")
SKIP = 77


class Item:
    def __init__(self, module, allocates, size, frees):
        self.module, self.allocates, self.size, self.frees = module, allocates, size, frees

    def __str__(self):
        return f"{self.module}:{self.allocates}:{self.size}:{self.frees}"


def plan(random_, modules, count):
    items = []
    for i in range(count):
        module = random_.choice(modules)
        born = random_.choice(BORN)
        dies = random_.choice(DIES)
        items.append(Item(module, born, LEAST + 977 * i + random_.randrange(500), dies))
    return items


def run(command, items=(), expected=0, **more):
    environment = {n: v for n, v in os.environ.items() if not n.startswith(("LOAM_", "LEAKS_"))}
    environment.update(LOAM_SHOW_LEAKS="1", LEAKS_PLAN=" ".join(map(str, items)), **more)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == expected, f"{command}: exit status {done.returncode}\n{done.stderr}"
    return done.stderr


def listed(text):
    """Sizes of what is listed, each with its sites."""
    found, sites = {}, None
    for line in text.splitlines():
        group, site = GROUP.match(line), SITE.match(line)
        if group:
            size, sites = int(group[2]), []
            assert size < LEAST or size not in found, f"{size} B twice\n{text}"
            found[size] = (int(group[1]), sites)
        elif site and sites is not None:
            sites.append((site[2], site[3]))
    return found


def stays(item, end, closed):
    if end == "quick_exit" and not (item.module == "g" and closed):
        return item.frees in "txsdykn"
    return item.frees == "n"


def check_end(command, plugin, seed, **environment):
    random_ = random.Random(seed)
    end = random_.choice(("return", "return", "exit", "thread", "child", "quick_exit", "_exit"))
    plugged = random_.random() < 0.7
    closed = plugged and random_.random() < 0.5
    items = plan(random_, "pabg" if plugged else "pab", 20)
    for item in items:
        # A thread's object would keep the plugin loaded, a handler of on_exit is gone with it.
        if item.module == "g" and closed and item.frees in "tk":
            item.frees = "x"
    command = [command, end] + ([plugin] if plugged else []) + (["closes"] if closed else [])
    text = run(command, items, **environment)
    what = f"seed {seed}: {' '.join(command)} LEAKS_PLAN='{' '.join(map(str, items))}'\n{text}"
    if end == "_exit":
        assert not TOTAL.search(text), what
        return
    assert len(TOTAL.findall(text)) == 1, what
    truth = {item.size for item in items if stays(item, end, closed)}
    ours = {item.size for item in items}
    found = {size: count for size, (count, _) in listed(text).items() if size in ours}
    assert all(count == 1 for count in found.values()), what
    missing, wrong = truth - found.keys(), found.keys() - truth
    assert not missing and not wrong, f"not listed: {missing}, but freed: {wrong}; {what}"


def ends(programs, plugin):
    for seed in range(30):
        check_end(programs[seed % len(programs)], plugin, seed)


def preload(loam, program, plugin):
    for seed in range(100, 120):
        check_end(program, plugin, seed, LD_PRELOAD=loam)


# ---- Sites ----


def module_of(item, program, plugins):
    names = {"p": os.path.basename(program), "a": "works_leaks_a", "b": "works_leaks_b"}
    return names.get(item.module) or os.path.basename(plugins[item.module])


def check_item(item, sites, names, text, gone, named=True):
    """The innermost site is in the item's module, and no site is in another plugin."""
    assert sites, f"{item} has no site\n{text}"
    module = os.path.basename(sites[0][1])
    assert names[item.module] in module, f"{item}: {module}\n{text}"
    if item.module not in "gh":
        return
    functions = {function for function, file in sites if names[item.module] in file}
    other = {"g": "leaks_main_h", "h": "leaks_main_g"}[item.module]
    assert other not in functions, f"{item}: {functions}\n{text}"
    if item.allocates == "m" and named and not gone:
        assert f"leaks_main_{item.module}" in functions, f"{item}: {functions}\n{text}"
    if gone:
        assert "build ID " in text, text


def check_sites(loam, program, originals, folder, seed):
    random_ = random.Random(seed)
    how = random_.choice(("closes", "removes", "renames", "stays", "twice"))
    plugins = {}
    for letter, original in originals.items():
        plugins[letter] = os.path.join(folder, os.path.basename(original))
        shutil.copy(original, plugins[letter])
    g, h = plugins["g"], plugins["h"]
    steps = {"closes": [g, "closes", h],
             "twice": [g, "closes", h],
             "removes": [g, "closes", "removes", g, h],
             "renames": [g, "closes", "renames", h, g, g],
             "stays": [g, h]}[how]  # fmt: skip
    if how == "renames":
        plugins["h"] = g
    modules = "gh" if how == "twice" else "pabgh"
    items = plan(random_, modules, 12)
    for item in items:
        item.frees = "n"
    more = {"LOAM_GUARD_SAMPLING": "1"} if random_.random() < 0.4 else {}
    if how == "twice":
        # Sampled objects are small.
        items = [Item("g", "m", random_.randrange(100, 4000) if more else LEAST, "n")] + items
    text = run([program, "twice" if how == "twice" else "return", *steps], items,
               expected=-6 if how == "twice" else 0, LD_PRELOAD=loam, LOAM_RECORD_SITES="12",
               **more)  # fmt: skip
    what = f"seed {seed}, {how} {more}: {' '.join(map(str, items))}\n{text}"
    names = {item.module: module_of(item, program, plugins) for item in items}
    gone = how in ("removes", "renames")
    if how == "twice":
        before, after = text.split("allocated by thread")[1].split("freed by thread")
        sites = [(s[2], s[3]) for s in map(SITE.match, before.splitlines()) if s]
        check_item(items[0], sites, names, what, False, named=not more)
        freed = [s[3] for s in map(SITE.match, after.splitlines()) if s]
        assert os.path.basename(freed[0]) == os.path.basename(program), what
        return
    found = listed(text)
    for item in items:
        assert item.size in found, f"{item} is not listed\n{what}"
        check_item(item, found[item.size][1], names, what, gone and item.module == "g")


def sites(loam, program, g, h):
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(40):
            check_sites(loam, program, {"g": g, "h": h}, folder, seed)


# ---- Against Valgrind ----

TOOLS = (
    ["cmake", "--version"],
    ["git", "--version"],
    ["apt-cache", "--version"],
    ["/usr/bin/python3", "-S", "-c", "pass"],
    ["gdb", "-nx", "-q", "-batch", "-ex", "quit"],
)
# One object has an entry for each thread-local module, and loam is one more; others hold texts of
# the environment.
BYTES_APART = 200


def quiet_iconv(folder):
    """Makes an iconv there that prints no list of objects: gdb keeps each word that `iconv -l`
    prints, on standard error, too, as the name of a character set."""
    real = shutil.which("iconv")
    if real is not None:
        script = Path(folder, "iconv")
        script.write_text(f'#!/bin/sh\nexec env -u LOAM_SHOW_LEAKS -u LD_PRELOAD {real} "$@"\n')
        script.chmod(0o755)


def tools(loam):
    if shutil.which("valgrind") is None:
        print("no valgrind to compare with")
        return SKIP
    with tempfile.TemporaryDirectory() as folder:
        quiet_iconv(folder)
        os.environ["PATH"] = folder + os.pathsep + os.environ["PATH"]
        os.environ["PYTHONHASHSEED"] = "0"  # Python's tables have the same lengths each time
        # ncurses, in gdb, lists its databases anew in each second of the clock, and keeps two more
        # objects if it has done so. It reads none for a name that is too long for a terminal's.
        os.environ["TERM"] = "x" * 600
        compared = compare(loam)
    if compared == 0:
        print("no program to compare on")
        return SKIP
    return 0


def compare(loam):
    compared = 0
    for command in TOOLS:
        if shutil.which(command[0]) is None:
            continue
        # The processor that Valgrind plays: what signal handlers' stacks have depends on it.
        ours = TOTAL.search(run(["valgrind", "--tool=none", *command], LD_PRELOAD=loam))
        theirs = run(["valgrind", "--run-libc-freeres=no", "--run-cxx-freeres=no", *command])
        theirs = re.search(r"in use at exit: ([\d,]+) bytes in ([\d,]+) blocks", theirs)
        objects, size = (int(theirs[i].replace(",", "")) for i in (2, 1))
        print(f"{command[0]}: loam {ours[1]} of {ours[2]} B, Valgrind {objects} of {size} B")
        assert int(ours[1]) == objects and abs(int(ours[2]) - size) <= BYTES_APART
        compared += 1
    return compared


def main():
    what, arguments = sys.argv[1], sys.argv[2:]
    if what == "ends":
        ends(arguments[:-1], arguments[-1])
    elif what == "preload":
        preload(*arguments)
    elif what == "sites":
        sites(*arguments)
    elif what == "tools":
        return tools(*arguments)
    else:
        return 2
    return 0


sys.exit(main())
