#!/usr/bin/env python3
"""programs.py: random programs over the family's API, each beside a simple model.

    programs.py --library libloam.a --include include [--seed S] [--rounds N | --seconds N]
                [--all-ways] [--shapes c,cxx,...] [--only ROUND.SHAPE] [--debug]

A round writes and runs one program of each shape:
    c, cxx      cases with 3 to 5 allocators at once, over shared and limited sources, checked
                (LOAM_CHECK) and not
    containers  C++: std containers over the family's allocators and resources beside the same with
                std::allocator; owners, pooled classes
    threads     sets of allocators that go from thread to thread, and allocators that all threads
                share at once
    races       the same without loam_malloc and heaps, of which ThreadSanitizer knows nothing
    plugin      a program in C as a shared object, opened and closed several times, by several
                threads
    mistakes    correct calls, then one mistake that the library promises to report
                (programs_mistakes.py)
A correct program must end with status 0 and without a line on standard error; a mistake must be
reported, and nothing before it. Programs are compiled once for each way to run them: with the
library as it is, and with AddressSanitizer and UndefinedBehaviorSanitizer or with ThreadSanitizer
(the library is not compiled with them).

The seed is printed; the same seed and options give the same programs. What fails stays in the
folder that is printed, with the commands that repeat it. It cannot tell which of two calls was
wrong; reduce the source by hand. Invariant: a program is a function of seed, round and shape.
Exit: 0 all held, 1 not.
"""

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import programs_containers
import programs_family as family
import programs_mistakes

HERE = Path(__file__).resolve().parent
ASAN = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
TSAN = ["-fsanitize=thread"]
# The ways that a shape is run in: one a round, in turn; mistakes are made in all of them.
WAYS = {"c": ["asan", "plain"], "cxx": ["plain", "asan"], "containers": ["asan", "plain"],
        "threads": ["plain", "asan"], "races": ["tsan", "plain"], "plugin": ["plain"],
        "mistakes": ["plain", "asan"]}
ENVIRONMENT = {"ASAN_OPTIONS": "abort_on_error=0:exitcode=98:detect_leaks=0:symbolize=0",
               "UBSAN_OPTIONS": "print_stacktrace=0", "TSAN_OPTIONS": "exitcode=66",
               "PATH": "/usr/bin:/bin"}


class Source:
    """Where allocators of a world take their memory from."""

    def __init__(self, world, kind):
        self.world, self.kind = world, kind
        self.may_fail = kind in ("buffer", "limit")
        self.name = f"{kind}_{world.key}_{world.count()}"
        self.at = {"pages": "NULL", "heap": "loam_heap_source()"}.get(kind, f"&{self.name}.source")

    def begin(self):
        if self.kind in ("pages", "heap"):
            return
        self.world.declarations.append(f"static loam_{self.kind} {self.name};")
        if self.kind == "buffer":
            self.world.declarations.append(f"static char {self.name}_memory[1 << 20];")
        self.world.emit({
            "buffer": f"loam_buffer_init(&{self.name}, {self.name}_memory, sizeof "
                         f"{self.name}_memory);",
            "reserve": f"HOLDS(loam_reserve_init(&{self.name}, (size_t)1 << 28) == 0);",
            "limit": f"loam_limit_init(&{self.name}, loam_pages(), 3 << 20);",
            "count": f"loam_count_init(&{self.name}, loam_heap_source());"}[self.kind])

    def end(self):
        if self.kind == "buffer":
            self.world.emit(f"HOLDS({self.name}.out == 0);")
        if self.kind in ("limit", "count"):
            self.world.emit(f"HOLDS({self.name}.used_bytes == 0);")
        if self.kind == "reserve":
            self.world.emit(f"HOLDS({self.name}.out == 0); loam_reserve_deinit(&{self.name});")


class World:
    """Allocators that one thread at a time uses, and the table of what they have alive."""

    def __init__(self, rng, key, checked=0.3):
        self.rng, self.key, self.checked = rng, key, checked
        self.declarations, self.lines, self.allocators = [f"static table_t table_{key};"], [], []
        self.slots, self.cleanups, self.counter = list(range(150)), 0, 0
        self.sources = []
        self.alone = True  # no other thread uses an allocator
        self.careful = False  # no allocator that may run out of memory

    def count(self):
        self.counter += 1
        return self.counter

    def emit(self, text):
        self.lines.append("    " + text)

    def slot(self):
        return self.slots.pop(0) if self.slots else None

    def put_back(self, slot):
        self.slots.append(slot)

    def add_sources(self, kinds):
        for kind in kinds:
            self.sources.append(Source(self, kind))
            self.sources[-1].begin()

    def add(self, kind, source, checked):
        number = self.count()
        made = kind(self, f"{kind.kind}_{self.key}_{number}", number, source, checked)
        self.declarations.append(made.declare())
        self.allocators.append(made)
        return made

    def draw(self, kinds, source=None):
        made = self.add(self.rng.choice(kinds), source or self.rng.choice(self.sources),
                        self.rng.random() < self.checked)
        made.begin()
        return made

    def leave(self, child):
        """It has ended with its parent."""
        child.back_to(0)
        self.allocators.remove(child)

    def steps(self, many):
        for _ in range(many):
            allocator = self.rng.choice(self.allocators)
            steps = allocator.steps()
            self.rng.choice(steps)() if self.rng.random() < 0.6 else allocator.alloc()
            if self.rng.random() < 0.1:
                self.emit("seen(T);")
            if self.alone and self.rng.random() < 0.02:
                self.emit("(void)loam_registry_check();")

    def end(self):
        order = [each for each in self.allocators if not isinstance(each, family.Child)
                 and each.exact]
        self.rng.shuffle(order)
        for allocator in order:
            if allocator in self.allocators:
                allocator.finish()
                self.allocators.remove(allocator)
        for source in self.sources:
            source.end()
        self.emit(f"HOLDS(T->cleanups == {self.cleanups}); T->cleanups = 0;")

    def cut(self, name):
        """What was written since the last cut, as a function."""
        text = f"static void {name}(void) {{\n    table_t *T = &table_{self.key};\n"
        text += "\n".join(self.lines) + "\n}\n"
        self.lines = []
        return text


SOURCES = ("pages", "pages", "heap", "heap", "buffer", "reserve", "limit", "count")


def case(rng, key):
    world = World(rng, key)
    world.add_sources([rng.choice(SOURCES) for _ in range(rng.randint(1, 3))])
    for _ in range(rng.randint(3, 5)):
        world.draw(family.KINDS)
    world.steps(rng.randint(60, 140))
    world.end()
    text = world.cut(f"case_{key}")
    return "\n".join(world.declarations) + "\n" + text


def threaded(rng, key, heaps=True):
    """Worlds that go to another thread in each phase, and allocators that all use at any time."""
    count, phases = rng.randint(2, 3), 3
    common = World(rng, key, 0.3)
    common.add_sources(["pages", "heap"])
    every = family.EVERY_THREADS_OF_HEAP if heaps else family.EVERY_THREADS
    shared = [common.draw([kind]) for kind in every]
    begin = common.cut(f"begin_{key}")
    worlds, texts = [], []
    for i in range(count):
        world = World(rng, f"{key}_{i}", 0.3)
        world.alone = False
        world.add_sources([rng.choice(["pages", "heap", "count"]) for _ in range(2)])
        for _ in range(2):
            world.draw([each for each in family.KINDS if each not in (family.Malloc,
                                                                      family.Xmalloc, family.Heap)])
        for each in shared:
            proxy = type(each)(world, each.name, 100 + each.number, each.source, each.checked)
            for member in ("size", "align", "extra", "small", "may_fail"):
                if hasattr(each, member):
                    setattr(proxy, member, getattr(each, member))
            proxy.exact = False
            world.allocators.append(proxy)
        worlds.append(world)
    for phase in range(phases):
        for world in worlds:
            if phase > 0:
                for allocator in world.allocators:
                    allocator.adopt()
            world.steps(rng.randint(20, 40))
            if phase == phases - 1:
                for allocator in [each for each in world.allocators if not each.exact]:
                    while allocator.objects:
                        allocator.free(allocator.objects[0])
                world.end()
            texts.append(world.cut(f"part_{world.key}_{phase}"))
    common.end()
    end = common.cut(f"end_{key}")
    parts = ",\n".join("    {" + ", ".join(f"part_{key}_{i}_{phase}"
                                           for phase in range(phases)) + "}"
                       for i in range(count))
    declarations = [line for world in [common, *worlds] for line in world.declarations]
    return "\n".join(declarations) + "\n" + begin + "".join(texts) + end + f"""
static void (*const parts_{key}[{count}][{phases}])(void) = {{
{parts}}};
static pthread_barrier_t barrier_{key};
static void *thread_{key}(void *argument) {{
    int i = *CAST(int *, argument);
    for (int phase = 0; phase < {phases}; phase++) {{
        (parts_{key}[(i + phase) % {count}][phase])();
        (void)pthread_barrier_wait(&barrier_{key});
    }}
    return NULL;
}}
static void case_{key}(void) {{
    pthread_t threads[{count}];
    int numbers[{count}];
    begin_{key}();
    (void)pthread_barrier_init(&barrier_{key}, NULL, {count});
    for (int i = 0; i < {count}; i++) {{
        numbers[i] = i;
        HOLDS(pthread_create(&threads[i], NULL, thread_{key}, &numbers[i]) == 0);
    }}
    for (int i = 0; i < {count}; i++) (void)pthread_join(threads[i], NULL);
    end_{key}();
}}
"""


MAIN = """
#ifdef __cplusplus
extern "C" {{
#endif
__attribute__((__visibility__("default"))) int run_cases(int which) {{
    static void (*const cases[])(void) = {{{cases}}};
    for (int i = 0; i < {count}; i++)
        if (which < 0 || which == i) (cases[i])();
    return 0;
}}
#ifdef __cplusplus
}}
#endif
#ifndef PLUGIN
int main(int argc, char **argv) {{ return run_cases(argc > 1 ? atoi(argv[1]) : -1); }}
#endif
"""

HOST = r"""
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <loam/loam.h>
static void *once(void *path) {
    void *plugin = dlopen((const char *)path, RTLD_NOW | RTLD_LOCAL);
    if (plugin == NULL) fprintf(stderr, "%s\n", dlerror()), _Exit(4);
    int (*run)(int) = (int (*)(int))dlsym(plugin, "run_cases");
    if (run == NULL || run(-1) != 0) _Exit(5);
    if (dlclose(plugin) != 0) _Exit(6);
    return NULL;
}
int main(int argc, char **argv) {
    void *kept = loam_malloc(100);
    for (int i = 0; i < 4 && argc > 1; i++) {
        pthread_t thread;
        if (i % 2 == 0) once(argv[1]);
        else if (pthread_create(&thread, NULL, once, argv[1]) != 0 ||
                 pthread_join(thread, NULL) != 0) _Exit(7);
    }
    loam_free(kept);
    return 0;
}
"""


def program(shape, rng, many):
    """Its text, and the cases' names."""
    write = {"threads": threaded, "races": lambda *args: threaded(*args, False)}
    write = write.get(shape, case)
    head = f'/* {shape} */\n#include "programs.{"hpp" if shape == "containers" else "h"}"\n'
    if shape == "containers":
        return head + programs_containers.program(rng, many) + MAIN.format(
            cases=", ".join(f"case_{i}" for i in range(many)), count=many), many
    text = head + "#define XALLOCATOR_NO_SHORT_NAMES\n#include <loam/xallocator.h>\n"
    text += "\n".join(write(rng, i) for i in range(many))
    return text + MAIN.format(cases=", ".join(f"case_{i}" for i in range(many)), count=many), many


class Runner:
    def __init__(self, args, folder):
        self.args, self.folder = args, Path(folder)
        self.faults, self.programs, self.cases = [], 0, 0

    def command(self, source, output, way, level, language):
        flags = {"plain": [], "asan": ASAN, "tsan": TSAN}[way]
        if "containers" in str(source) and way == "asan":
            flags = ["-fsanitize=address"]  # UndefinedBehaviorSanitizer's takes four times as long
            # to compile
        head = [self.args.cc, "-std=gnu11"] if language == "c" else [self.args.cxx, "-std=c++17"]
        return [*head, level, "-w", *flags, "-pthread", "-I", self.args.include, "-I", HERE,
                source, "-o", output]

    def call(self, command, what):
        done = subprocess.run([str(each) for each in command], capture_output=True, text=True,
                              check=False,
                              errors="replace")
        if done.returncode != 0:
            self.fault(what, [command], f"does not compile:\n{done.stderr[:3000]}")
        return done.returncode == 0

    def fault(self, what, commands, text):
        keep = Path(self.args.keep or tempfile.mkdtemp(prefix="loam-programs-kept-"))
        self.args.keep = str(keep)
        keep.mkdir(parents=True, exist_ok=True)
        for each in self.folder.iterdir():
            if each.is_file():
                shutil.copy2(each, keep / each.name)
        lines = [" ".join(str(part).replace(str(self.folder), str(keep)) for part in command)
                 for command in commands]
        self.faults.append(what)
        print(f"programs: {what}: {text}\n" + "\n".join(f"    {line}" for line in lines))
        print(f"    programs.py --seed {self.args.seed} --only {what.split()[0]} ...    writes "
              f"and runs it again", flush=True)

    def run(self, command, limit=120):
        try:
            done = subprocess.run([str(each) for each in command], capture_output=True, text=True,
                                  check=False,
                                  timeout=limit * (1 + 4 * self.args.slow), env=ENVIRONMENT,
                                  errors="replace")
            return done.returncode, done.stdout, done.stderr
        except subprocess.TimeoutExpired as expired:
            return -1000, "", f"still running after {expired.timeout} s"

    def correct(self, what, commands, run):
        status, _, errors = self.run(run)
        if "FATAL: ThreadSanitizer" in errors:
            return
        if status != 0 or errors:
            self.fault(what, [*commands, run],
                       f"a correct program ended with {status}:\n{errors[:3000]}")

    def shape(self, number, shape):
        rng = random.Random(f"{self.args.seed}/{number}/{shape}")
        level = rng.choice(["-O0", "-O1", "-O2"] if shape != "containers" else ["-O0", "-O0",
                                                                                "-O1"])
        many = {"containers": 2, "threads": 2, "races": 2, "plugin": 3}.get(shape, 5)
        language = "c++" if shape in ("cxx", "containers") else "c"
        for each in self.folder.iterdir():
            if each.is_file():
                each.unlink()
        source = self.folder / f"{shape}_{number}.{'c' if language == 'c' else 'cc'}"
        if shape == "mistakes":
            text, mistakes = programs_mistakes.program(rng, World, MAIN, self.args.debug)
            source.write_text(text, encoding="utf-8")
        else:
            text, count = program(shape, rng, many)
            source.write_text(text, encoding="utf-8")
            self.cases += count
        # A debug library fills what loam_free takes back: a write, for ThreadSanitizer.
        ways = [way for way in WAYS[shape] if not self.args.debug or way != "tsan"]
        if not self.args.all_ways and shape != "mistakes":
            ways = [ways[number % len(ways)]]
        for way in ways:
            self.programs += 1
            what = f"{number}.{shape} {way} {level}"
            output = self.folder / f"{shape}_{number}_{way}"
            command = self.command(source, output, way, level, language)
            if shape == "plugin":
                self.plugin(what, rng, source, level)
                continue
            command += [self.args.library, "-ldl"]
            if not self.call(command, what):
                continue
            if shape != "mistakes":
                self.correct(what, [command], [output])
                continue
            for i, mistake in enumerate(mistakes):
                self.cases += 1
                status, said, errors = self.run([output, i])
                fault = mistake.judge(way, status, said, errors)
                if fault:
                    self.fault(what, [command, [output, i]],
                               f"{mistake.name}: {fault}\n{errors[:2000]}")

    def plugin(self, what, rng, source, level):
        """loam in the host, which exports it, or in the plugin as well, where the host does not."""
        inside = rng.random() < 0.5
        host, plugin = self.folder / "host", self.folder / "plugin.so"
        (self.folder / "host.c").write_text(HOST, encoding="utf-8")
        whole = ["-Wl,--whole-archive", self.args.library, "-Wl,--no-whole-archive", "-ldl"]
        first = self.command(self.folder / "host.c", host, "plain", level, "c")
        first += [self.args.library, "-ldl"] if inside else ["-rdynamic", *whole]
        second = self.command(source, plugin, "plain", level, "c") + [
            "-DPLUGIN", "-fPIC", "-shared", "-fvisibility=hidden"] + ([self.args.library, "-ldl"]
                                                                      if inside else [])
        if self.call(first, what) and self.call(second, what):
            self.correct(what, [first, second], [host, plugin])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", required=True, help="libloam.a")
    parser.add_argument("--include", required=True)
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--cxx", default="c++")
    parser.add_argument("--debug", action="store_true",
                        help="the library checks all allocators (LOAM_DEBUG)")
    parser.add_argument("--seed", default=str(random.SystemRandom().randrange(10**9)))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=0,
                        help="as many rounds as begin within them")
    parser.add_argument("--all-ways", action="store_true",
                        help="each program in every way, not one way a round")
    parser.add_argument("--only", metavar="ROUND.SHAPE")
    parser.add_argument("--shapes", default=",".join(WAYS))
    parser.add_argument("--keep", help="folder for what fails")
    parser.add_argument("--slow", type=int, default=1, help="times out so much later")
    args = parser.parse_args()
    print(f"programs: seed {args.seed}", flush=True)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="loam-programs-") as folder:
        runner = Runner(args, folder)
        if args.only:
            number, shape = args.only.split(".")
            args.all_ways = True
            runner.shape(int(number), shape)
        number = 0
        while not args.only and (time.monotonic() - begin < args.seconds if args.seconds
                                 else number < args.rounds):
            for shape in args.shapes.split(","):
                runner.shape(number, shape)
            number += 1
    print(f"programs: {runner.programs} programs, {runner.cases} cases, {len(runner.faults)} "
          f"wrong, "
          f"{time.monotonic() - begin:.0f} s")
    return 1 if runner.faults else 0


if __name__ == "__main__":
    sys.exit(main())
