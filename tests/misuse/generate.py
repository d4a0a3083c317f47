#!/usr/bin/env python3
"""generate.py: draws mistakes at random, and reports which share of them each allocator stops.

    tests/misuse/generate.py loam-secure loam scudo glibc   100 of each mistake on these allocators
    tests/misuse/generate.py all --cases 40 --seed 7        the allocators that survey.py knows
    tests/misuse/generate.py --library FILE --floors        exit 1 if a share is below its floor

A case is {mistake, means, size, distance, time, thread}; mistakes and their means are below. Sizes
are log-uniform from 1 byte to 16 MiB, distances log-uniform from 1 to 4096 bytes. Half of the
mistakes are made by another thread than the one that allocated. An overflowed object is freed at
once, after up to 1,000 operations of its size, or never. Each case is one process (generated.cpp),
judged as judge.py says in one run. Every allocator gets the same cases. The seed is printed, and
--seed repeats a run.

The intervals are Wilson's, 95%. A floor is broken only if the upper end of the interval is below
it. The floors lie so far below the shares of a run of 1,500 cases each that chance alone breaks one
in fewer than 1 of 100,000 runs of 40 cases each. A case that does not come as far as its mistake is
an error, never a failure to stop.

Exit: 0 done; 1 a floor is broken; 2 wrong use, or a case did not run.
"""

import argparse
import dataclasses
import json
import math
import os
import random
import shlex
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE)]
sys.dont_write_bytecode = True

import judge  # noqa: E402
import survey  # noqa: E402

Z = 1.96  # of a normal distribution, 95% lie within so many deviations
SIZE_MAX = 16 << 20
DISTANCE_MAX = 4096
PAUSE_MAX = 1000
BYTES_MAX = 64 << 20  # what the operations of a pause may allocate
WRITES = ("store", "memcpy", "memset", "strcpy")
READS = ("load", "memcpy")
MISTAKES = {
    "overflow": WRITES,
    "far_overflow": ("byte",),
    "underflow": WRITES,
    "overread": READS,
    "underread": READS,
    "double_free": ("free",),
    "invalid_free": ("inside", "stack", "static"),
    "write_after_free": WRITES,
    "read_after_free": ("load",),
    "wrong_size": ("delete",),
    "zero_write": ("malloc", "calloc"),
    "zero_read": ("malloc", "calloc"),
    "old_data": ("malloc", "realloc"),
}
# Of the secure build, for 40 cases of each mistake.
FLOORS = {
    "overflow": 0.80,
    "far_overflow": 0.30,
    "underflow": 0.95,
    "overread": 0.05,
    "underread": 0.40,
    "double_free": 0.95,
    "invalid_free": 0.95,
    "write_after_free": 0.70,
    "read_after_free": 0.95,
    "wrong_size": 0.95,
    "zero_write": 0.95,
    "zero_read": 0.95,
    "old_data": 0.95,
}
BESIDE = ("overflow", "far_overflow", "underflow", "overread", "underread")
SIZES = (
    (0, "0 bytes"),
    (1024, "1 to 1,024 bytes"),
    (65536, "1,025 bytes to 64 KiB"),
    (SIZE_MAX, "64 KiB to 16 MiB"),
)
DISTANCES = ((32, "1 to 32 bytes"), (512, "33 to 512 bytes"), (DISTANCE_MAX, "513 to 4,096 bytes"))
ROWS = [
    *(("size", name) for _, name in SIZES),
    *(("distance", name) for _, name in DISTANCES),
    *(("object freed", name) for name in ("at once", "later", "never")),
    ("thread", "same"),
    ("thread", "other"),
]
INTRODUCTION = """\
`tests/misuse/generate.py --page` writes this section; do not edit it by hand. It draws size,
distance, time and thread of each mistake at random, and makes each in a process of its own, once on
each allocator. Sizes are log-uniform from 1 byte to 16 MiB, distances log-uniform from 1 to 4,096
bytes. A far overflow is one byte at that distance. A figure is the percentage stopped, with
Wilson's 95% interval. The lower table counts the cases of the upper one by what was drawn. Its rows
about distance have only the overflows, underflows and reads beside objects. A mistake that is
harmless by chance counts as not stopped, for instance a string's terminating zero on a byte of
padding.
"""


def label(value, bounds):
    """The name of the first bound that the value does not exceed."""
    return next(name for bound, name in bounds if value <= bound)


@dataclasses.dataclass(frozen=True)
class Drawn:
    mistake: str
    means: str
    size: int
    distance: int
    at: int
    pause: int
    thread: str

    @property
    def text(self):
        return " ".join(str(each) for each in dataclasses.astuple(self))

    @property
    def groups(self):
        """What the case is counted in, beside its mistake."""
        yield "size", label(self.size, SIZES)
        if self.mistake in BESIDE:
            yield "distance", label(self.distance, DISTANCES)
        if self.mistake in BESIDE and not self.mistake.endswith("read"):
            yield "object freed", (
                "never" if self.pause < 0 else "at once" if self.pause == 0 else "later"
            )
        yield "thread", self.thread


# ---- the cases -----------------------------------------------------------------------------------


def log_uniform(rng, low, high):
    """An integer of [low, high], every doubling as likely as another; low is at least 1."""
    return min(high, int(math.exp(rng.uniform(math.log(low), math.log(high + 1)))))


def paused(rng, size):
    """A number of operations, so many at most that they allocate BYTES_MAX."""
    return log_uniform(rng, 1, max(1, min(PAUSE_MAX, BYTES_MAX // size)))


def draw(rng, mistake):
    means = rng.choice(MISTAKES[mistake])
    size = log_uniform(rng, 2 if mistake in ("invalid_free", "write_after_free") else 1, SIZE_MAX)
    distance = log_uniform(rng, 1, DISTANCE_MAX)
    at, pause = 0, 0
    later = rng.random() < 0.5
    if mistake in BESIDE:
        at = rng.randrange(8)
        pause = rng.choice((0, paused(rng, size), -1))
    elif mistake == "invalid_free":
        limit = size - 1 if means == "inside" else 8191
        at = log_uniform(rng, 1, limit)
        if rng.random() < 0.5 and at >= 16:
            at -= at % 16
    elif mistake == "write_after_free":
        at = log_uniform(rng, 1, size - 1) - 1 if rng.random() < 0.5 else rng.randrange(size - 1)
        distance = max(2, min(distance, size - at))
    elif mistake == "wrong_size":
        at = size + distance if later else max(1, size - distance)
        at += at == size
    elif mistake in ("zero_write", "zero_read"):
        size = 0
    if mistake in ("double_free", "write_after_free", "read_after_free") and later:
        pause = paused(rng, size)
    elif mistake in ("zero_write", "zero_read"):
        pause = int(later)
    elif mistake == "old_data":
        pause = max(1, min(64, BYTES_MAX // size // 2))
    return Drawn(mistake, means, size, distance, at, pause, rng.choice(("same", "other")))


def drawn(seed, count):
    """`count` cases of each mistake, the same for the same seed."""
    rng = random.Random(seed)
    return [draw(rng, mistake) for mistake in MISTAKES for _ in range(count)]


def run_all(cases, program, env, jobs):
    """A judge.Run for each case."""
    case = judge.Case("generated", "mistake", False, "", str(program))

    def one(each):
        return judge.run(case, {**env, "GENERATED": each.text})

    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(one, cases))


# ---- the shares ----------------------------------------------------------------------------------


def wilson(good, of):
    """The ends of the interval of a share: good of so many."""
    if of == 0:
        return 0.0, 1.0
    share = good / of
    middle = share + Z * Z / (2 * of)
    width = Z * math.sqrt(share * (1 - share) / of + Z * Z / (4 * of * of))
    return max(0.0, (middle - width) / (1 + Z * Z / of)), min(
        1.0, (middle + width) / (1 + Z * Z / of)
    )


def broken_floors(shares, floors):
    """Lines on the shares {mistake: (good, of)} whose interval lies below the floor."""
    for mistake, floor in floors.items():
        good, of = shares[mistake]
        if wilson(good, of)[1] < floor:
            high = wilson(good, of)[1]
            yield f"{mistake}: {good} of {of} stopped, {high:.2f} at most; the floor is {floor:.2f}"


def counted(cases, runs):
    """{mistake: (good, of)}, and {(dimension, value): (good, of)}."""
    shares, groups = {}, {}
    for each, run in zip(cases, runs, strict=True):
        for table, key in ((shares, each.mistake), *((groups, group) for group in each.groups)):
            good, of = table.get(key, (0, 0))
            table[key] = (good + run.good, of + 1)
    return shares, groups


def percent(good, of):
    low, high = wilson(good, of)
    return f"{100 * good / of:.0f} ({100 * low:.0f}–{100 * high:.0f})"


def markdown(tables):
    """Two tables of {allocator: (shares, groups)}: by mistake, and by what else was drawn."""
    names = list(tables)
    head = ["| | of | " + " | ".join(names) + " |", "|---|---|" + "---|" * len(names)]
    lines = []
    for part in (0, 1):
        lines += head
        rows = [key for key in ROWS if key in tables[names[0]][1]] if part else MISTAKES
        for key in rows:
            label = ", ".join(key) if part else key.replace("_", " ")
            cells = " | ".join(percent(*tables[name][part][key]) for name in names)
            lines.append(f"| {label} | {tables[names[0]][part][key][1]} | {cells} |")
        lines.append("")
    return "\n".join(lines)


# ---- the run -------------------------------------------------------------------------------------


def parse(arguments):
    parser = argparse.ArgumentParser(prog="generate.py", description=__doc__.splitlines()[0])
    parser.add_argument(
        "names", nargs="*", metavar="ALLOCATOR", help=f"all, or: {', '.join(survey.NAMES)}"
    )
    parser.add_argument(
        "--library", type=Path, metavar="FILE", help="this libloam.so, and no other allocator"
    )
    parser.add_argument("--floors", action="store_true", help="hold the secure build's floors")
    parser.add_argument("--cases", type=int, default=100, metavar="N", help="of each mistake (100)")
    parser.add_argument("--seed", type=int, help="default: a random one, which is printed")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count(), metavar="N", help="cases at once"
    )
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="write every case and its ending there, as JSON"
    )
    parser.add_argument(
        "--page", type=Path, metavar="FILE", help="write the tables into that page (docs/misuse.md)"
    )
    parser.add_argument(
        "--builds", type=Path, default=survey.ROOT / "build", metavar="DIR", help="loam's builds"
    )
    parser.add_argument(
        "--program", type=Path, metavar="FILE", help="default: build/release/tests/misuse/generated"
    )
    parser.add_argument(
        "--peers", type=Path, default=survey.ROOT / "build/peers/peers.json", metavar="FILE"
    )
    parser.add_argument(
        "--verbose", action="store_true", help="a line for each case that was not stopped"
    )
    options = parser.parse_args(arguments)
    options.program = options.program or options.builds / "release/tests/misuse/generated"
    options.allocators, options.allocator = ",".join(options.names), []
    if bool(options.names) == bool(options.library):
        raise survey.WrongUse("name allocators, or give --library FILE")
    if options.cases < 1 or options.jobs < 1:
        raise survey.WrongUse("--cases and --jobs are at least 1")
    for file in filter(None, (options.program, options.library)):
        if not file.is_file():
            raise survey.WrongUse(f"{file} is not there: build the target misuse")
    return options


def environments(options):
    """{name: environment of a case}, in the order of the command line."""
    if options.library:
        return {str(options.library): judge.environment(str(options.library))}
    found, absent = survey.chosen(options, str(options.program))
    for name, why in absent:
        print(f"left out: {name}: {why}")
    return {
        one.name: judge.environment(None if one.name == "glibc" else one.library, one.env)
        for one in found
    }


def generate(options, command):
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}, {options.cases} cases of each mistake", flush=True)
    cases = drawn(seed, options.cases)
    tables, status, endings = {}, 0, {}
    for name, env in environments(options).items():
        runs = run_all(cases, options.program, env, options.jobs)
        tables[name] = shares, _ = counted(cases, runs)
        endings[name] = [
            (each.text, run.outcome, run.ending) for each, run in zip(cases, runs, strict=True)
        ]
        good = sum(run.good for run in runs)
        print(f"{name}: {good} of {len(runs)}", flush=True)
        for each, run in zip(cases, runs, strict=True):
            if run.outcome == judge.BROKEN:
                said = f"{run.stdout.strip()} {run.stderr.strip()}"
                print(f"  did not run: {each.text}: {run.ending} {said}")
                status = 2
            elif options.verbose and not run.good:
                print(f"  {run.outcome}: {each.text}: {run.ending}")
        if options.floors:
            for line in broken_floors(shares, FLOORS):
                print(f"  below its floor: {line}")
                status = max(status, 1)
    text = markdown(tables) if tables else ""
    print(f"\nstopped, in percent, with Wilson intervals of 95%:\n\n{text}")
    repeat = "" if options.seed is not None else f" --seed {seed}"
    if options.page and tables:
        section = f"{survey.DRAWN}\n\n{INTRODUCTION}\n```sh\n{command}{repeat}\n```\n\n{text}"
        survey.replace_drawn(options.page, section)
    if options.out:
        options.out.write_text(json.dumps({"seed": seed, "runs": endings}, indent=0) + "\n")
    return status


def main(arguments):
    try:
        return generate(parse(arguments), shlex.join(["tests/misuse/generate.py", *arguments]))
    except (survey.WrongUse, OSError) as error:
        print(f"generate.py: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
