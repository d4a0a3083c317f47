"""A finished run as the report shows it: over stats.py, what stands together, and in which order.

Adds to stats.Run what a page needs and a table does not: an order of allocators, groups of rows,
an interval for each single ratio, verdicts between any two allocators, means over any choice of
rows. An interval of a single ratio tells how much the rounds disagree; one of a geometric mean
also draws the workloads anew ("would other workloads like these say the same?").

A run that is kept for the documentation lies packed (.xz) in bench/results/; load() reads both.
"""

import lzma
import math
import shlex
import shutil
import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy

from lab import plots_colours, stats
from lab.plots_colours import HERO
from lab.results import BASELINE, TIE

METRICS = ("cpu_s", "peak_kib", "wall_s")
TITLES = {"cpu_s": "CPU time", "peak_kib": "peak RSS", "wall_s": "wall time"}
SUITES = {"micro": "synthetic workloads", "real": "real programs", "user": "your program"}
FILES = ("rows.csv", "run.json", "rss.csv", "latency.csv")


@dataclass(frozen=True)
class Estimate:
    """The median of the rounds' ratios, and its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Mean:
    """A geometric mean over `count` of the `total` rows asked for."""

    value: float
    low: float
    high: float
    count: int
    total: int


@dataclass(frozen=True)
class Allocator:
    name: str
    version: str = ""
    origin: str = ""
    flags: str = ""
    library: str = ""
    sha256: str = ""
    kind: str = "fast"


@dataclass(frozen=True)
class Group:
    """Rows shown together: one suite, and of the synthetic workloads one number of threads."""

    ident: str
    title: str
    workloads: tuple


class View:
    def __init__(self, directory, run):
        self.directory = Path(directory)
        self.run = run
        self.meta = run.meta
        self.workloads = [
            w for w in run.workloads if any(run.cell(w, n).rows for n in run.allocators)
        ]
        self.base = BASELINE if BASELINE in run.allocators else run.allocators[0]
        self.hero = HERO if HERO in run.allocators and HERO != self.base else None
        self.colours = plots_colours.colours(run.allocators)
        self.estimates = {}

    # ---- who and what --------------------------------------------------------------------------

    @cached_property
    def allocators(self):
        """{name: Allocator}, as run.json describes them."""
        fields = Allocator.__dataclass_fields__
        described = [
            Allocator(**{key: str(value) for key, value in each.items() if key in fields and value})
            for each in self.meta["allocators"]
        ]
        return {each.name: each for each in described}

    @cached_property
    def hardened(self):
        return {name for name, each in self.allocators.items() if each.kind == "hardened"}

    @cached_property
    def names(self):
        """Every allocator in the order of the pictures."""
        return plots_colours.ordered(self.run.allocators, self.base, self.hardened)

    @cached_property
    def others(self):
        """Every allocator but the one that the ratios are to."""
        return [name for name in self.names if name != self.base]

    @cached_property
    def groups(self):
        found = {}
        for workload in self.workloads:
            key = (workload.suite, workload.threads if workload.suite == "micro" else 0)
            found.setdefault(key, []).append(workload)
        suites = [*SUITES, *(suite for suite, _ in found)]
        order = sorted(found, key=lambda key: (suites.index(key[0]), key[1]))
        return [Group(f"{k[0]}{k[1] or ''}", group_title(*k), tuple(found[k])) for k in order]

    @cached_property
    def scopes(self):
        """[(name, rows)]: all, then each suite where there is more than one."""
        suites = list(dict.fromkeys(group.workloads[0].suite for group in self.groups))
        found = [("all", self.workloads)]
        if len(suites) > 1:
            found += [(s, [w for w in self.workloads if w.suite == s]) for s in suites]
        return found

    @cached_property
    def rounds(self):
        return max((row.round for row in self.run.rows), default=0)

    @cached_property
    def command_line(self):
        command = self.meta.get("command_line") or "bench/run.py"
        return command if isinstance(command, str) else shlex.join(command)

    # ---- figures -------------------------------------------------------------------------------

    def bad(self, workload, name):
        """(word, detail) of a cell that failed, or None."""
        cell = self.run.cell(workload, name)
        return (cell.label, cell.detail()) if cell.bad else None

    def absolute(self, workload, name, metric):
        """The median itself, or None."""
        found = self.run.absolute(workload, name, metric)
        return found.value if found else None

    def ratio(self, workload, name, metric, base=None):
        """Estimate of `name` relative to `base`, or None."""
        key = (workload.label, name, metric, base or self.base)
        if key not in self.estimates:
            samples = self.samples(workload, name, metric, base)
            self.estimates[key] = estimate(samples) if samples else None
        return self.estimates[key]

    def samples(self, workload, name, metric, base=None):
        """Each round's ratio; empty where one of the two has no figure."""
        found = self.run.results.ratios(workload.label, name, metric, base or self.base)
        return found if found and min(found) > 0 else []

    def mean(self, name, metric, workloads, base=None):
        """Geometric mean of the ratios that are there, or None."""
        samples = [self.samples(workload, name, metric, base) for workload in workloads]
        samples = [each for each in samples if each]
        if not samples:
            return None
        middle = [math.log(numpy.median(each)) for each in samples]
        low, high = stats.interval(samples)
        return Mean(math.exp(sum(middle) / len(middle)), low, high, len(samples), len(workloads))

    def verdict(self, workload, one, other, metric):
        """'ahead', 'tie', 'behind' of `one` against `other`; None where one has no figure.

        A tie is a difference of up to 5%, or one that the rounds do not bear out.
        """
        found = self.ratio(workload, one, metric, other)
        if not found:
            return None
        if found.value < 1 / (1 + TIE) and found.high < 1:
            return "ahead"
        if found.value > 1 + TIE and found.low > 1:
            return "behind"
        return "tie"

    def lowest(self, workload, metric, names):
        """The name of the lowest among these, or None."""
        found = {name: self.absolute(workload, name, metric) for name in names}
        good = {name: value for name, value in found.items() if value}
        return min(good, key=good.get) if good else None

    def failures(self):
        """[(workload, name, word, detail)] of every cell that failed."""
        cells = [(workload, name) for workload in self.workloads for name in self.names]
        return [(*cell, *self.bad(*cell)) for cell in cells if self.bad(*cell)]

    def curves(self):
        """{workload: {allocator: [(ms, KiB)]}}: memory over time in the first round that has it."""
        found = {}
        for workload in self.workloads:
            lines = {}
            for name in self.names:
                rounds = self.run.rss.get((workload.name, workload.threads, name), {})
                rounds = {turn: curve for turn, curve in rounds.items() if turn > 0}
                if rounds and not self.bad(workload, name):
                    lines[name] = sorted(rounds[min(rounds)])
            if lines:
                found[workload] = lines
        return found


def estimate(samples):
    low, high = stats.interval([samples], over="rounds")
    return Estimate(float(numpy.median(samples)), low, high)


def group_title(suite, threads):
    if suite != "micro":
        return SUITES.get(suite, suite)
    return f"{SUITES['micro']}, {threads} thread{'s' if threads > 1 else ''}"


# ---- files --------------------------------------------------------------------------------------


def load(directory):
    """The View of a directory, packed or not. stats.NoRun, in one line, where it holds no run."""
    directory = Path(directory)
    with tempfile.TemporaryDirectory() as scratch:
        source = directory
        if not (directory / "rows.csv").exists() and (directory / "rows.csv.xz").exists():
            unpack(directory, Path(scratch))
            source = Path(scratch)
        run = stats.load(source)
    if not run.allocators:
        raise stats.NoRun(f"{directory}: a run without allocators")
    return View(directory, run)


def unpack(directory, target):
    for name in FILES:
        packed = directory / f"{name}.xz"
        if packed.exists():
            (target / name).write_bytes(lzma.decompress(packed.read_bytes()))
        elif (directory / name).exists():
            shutil.copyfile(directory / name, target / name)


def pack(directory, target, root):
    """Keeps a run's files, small, where the documentation is made from them.

    Paths inside the repository become relative to it: where it lay is nobody's business.
    """
    target.mkdir(parents=True, exist_ok=True)
    if target.samefile(directory):
        return  # it is the one that is kept
    for name in FILES:
        source, packed = directory / name, target / f"{name}.xz"
        packed.unlink(missing_ok=True)
        if not source.exists():
            continue
        content = source.read_bytes().replace(f"{root}/".encode(), b"")
        if name == "run.json":
            (target / name).write_bytes(content)
        else:
            packed.write_bytes(lzma.compress(content, preset=9))
