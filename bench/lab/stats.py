"""A finished run of the lab as figures: what the tables, the report and --compare are made of.

    run = stats.load("build/bench/results")       rows.csv, run.json, rss.csv and latency.csv of
                                                  that folder
    run.meta                                      run.json, a dictionary
    run.allocators                                ["glibc", "loam", ...] in the table's order
    run.workloads                                 [Workload(name, suite, threads, label, question,
                                                  tags)], one for each line of a table: larson/2
    run.suite("micro")                            those of one suite; "all" for every one
    run.rows                                      [results.Row], measured ones (round > 0)
    run.cells[(name, threads, allocator)]         results.Cell: .rows .bad .label .detail()
                                                  .values(metric); every combination has one
    run.rss[(name, threads, allocator)]           {round: [(ms, KiB), ...]}, {} if not sampled
    run.latency[(name, threads, allocator, call)] {round: latency.Latency}, {} if not measured
    run.absolute(workload, allocator, metric)     Figure(value, spread), the median; or None
    run.ratio(workload, allocator, metric)        Figure, median of the rounds' ratios to glibc's
                                                  run of the same round; against="fastest": to
                                                  the allocator of the lowest median
    run.fastest(workload, metric)                 its name, or None
    run.best(workload, metric)                    names within 5% of the lowest; none if all are
    run.geomean(allocator, metric, suite="all")   Mean(value, low, high, count) or None
    run.worst(allocator, metric, count=3)         [(workload, Figure)], the highest ratios first
    run.failures()                                [(workload, allocator, label, detail)]
    agreement(one, two)                           see below

`workload` is a Workload. Metrics: cpu_s, wall_s, peak_kib, minor_faults. A bad cell (a crash, a
time-out ...) has no figures: ratio() and absolute() give None, the geometric mean leaves it out,
and its `count` says of how many workloads it is. Compare it with len(run.suite(...)).

Intervals (low, high) hold 95% of bootstrap samples: rounds are drawn anew for each workload, and,
with over="both" (the default), workloads are drawn anew too. The first answers "would another run
of these workloads say the same?", the second "would other workloads like these?", and is wider.
With three rounds the first is rough. The draws are seeded: the same rows give the same interval.
"""

import csv
import json
import math
from dataclasses import dataclass
from pathlib import Path

import numpy

from lab import latency
from lab.results import BASELINE, Cell, Results, label_of, read_rows

METRICS = ("cpu_s", "wall_s", "peak_kib", "minor_faults")
DRAWS = 2000
SEED = 20
AGREEMENT = 0.05


@dataclass(frozen=True)
class Workload:
    """One line of a table: a workload with a number of threads."""

    name: str
    suite: str
    threads: int
    question: str = ""
    tags: tuple = ()

    @property
    def label(self):
        return label_of(self.suite, self.name, self.threads)


@dataclass(frozen=True)
class Mean:
    """A geometric mean of ratios, its interval, and of how many workloads it is."""

    value: float
    low: float
    high: float
    count: int


class NoRun(Exception):
    """The folder holds no run; told in one line."""


class Run:
    def __init__(self, meta, rows, rss=None, latencies=None):
        self.meta = meta
        self.rows = [row for row in rows if row.round > 0]
        self.rss = rss or {}
        self.latency = latencies or {}
        self.allocators = [each["name"] for each in meta["allocators"]]
        self.workloads = [
            Workload(
                each["name"], each["suite"], threads, each["question"], tuple(each["tags"])
            )
            for each in meta["workloads"]
            for threads in each["threads"]
        ]
        labels = [each.label for each in self.workloads]
        self.results = Results(labels, self.allocators, self.rows)
        self.cells = {
            (each.name, each.threads, name): self.results.cell(each.label, name)
            for each in self.workloads
            for name in self.allocators
        }

    def suite(self, name="all"):
        return [each for each in self.workloads if name in ("all", each.suite)]

    def suites(self):
        """The names of the suites that have workloads, in order."""
        return list(dict.fromkeys(each.suite for each in self.workloads))

    def cell(self, workload, allocator):
        return self.cells.get((workload.name, workload.threads, allocator)) or Cell()

    def absolute(self, workload, allocator, metric):
        return self.results.absolute(workload.label, metric, allocator)

    def fastest(self, workload, metric):
        figures = {name: self.absolute(workload, name, metric) for name in self.allocators}
        good = {name: figure.value for name, figure in figures.items() if figure}
        return min(good, key=good.get) if good else None

    def ratio(self, workload, allocator, metric, against=BASELINE):
        if against == "fastest":
            against = self.fastest(workload, metric)
        return self.results.ratio(workload.label, allocator, metric, against)

    def best(self, workload, metric):
        return self.results.best(workload.label, metric)

    def best_mean(self, metric, suite="all"):
        return self.results.best_mean(metric, [each.label for each in self.suite(suite)])

    def geomean(self, allocator, metric, suite="all", against=BASELINE, over="both"):
        samples = []
        for each in self.suite(suite):
            base = self.fastest(each, metric) if against == "fastest" else against
            ratios = self.results.ratios(each.label, allocator, metric, base)
            if ratios and min(ratios) > 0:
                samples.append(ratios)
        if not samples:
            return None
        middle = [math.log(numpy.median(ratios)) for ratios in samples]
        low, high = interval(samples, over)
        return Mean(math.exp(sum(middle) / len(middle)), low, high, len(middle))

    def worst(self, allocator, metric, count=3, against=BASELINE):
        found = [(each, self.ratio(each, allocator, metric, against)) for each in self.workloads]
        found = [(each, figure) for each, figure in found if figure]
        found.sort(key=lambda pair: -pair[1].value)
        return found[:count]

    def failures(self):
        return [
            (each, name, self.cell(each, name).label, self.cell(each, name).detail())
            for each in self.workloads
            for name in self.allocators
            if self.cell(each, name).bad
        ]


def interval(samples, over="both", draws=DRAWS):
    """The 95% bootstrap interval of the geometric mean of the samples' medians."""
    random = numpy.random.default_rng(SEED)
    logs = numpy.empty((draws, len(samples)))
    for place, ratios in enumerate(samples):
        chosen = random.integers(len(ratios), size=(draws, len(ratios)))
        logs[:, place] = numpy.log(numpy.median(numpy.asarray(ratios)[chosen], axis=1))
    if over == "both":
        chosen = random.integers(len(samples), size=logs.shape)
        logs = numpy.take_along_axis(logs, chosen, axis=1)
    low, high = numpy.percentile(numpy.exp(logs.mean(axis=1)), (2.5, 97.5))
    return float(low), float(high)


@dataclass(frozen=True)
class Agreement:
    """One allocator's geometric means in two runs, over the workloads that both have."""

    allocator: str
    metric: str
    one: float
    two: float
    count: int

    @property
    def difference(self):
        return self.two / self.one - 1

    @property
    def holds(self):
        return abs(self.difference) <= AGREEMENT


def agreement(one, two, metrics=("cpu_s", "peak_kib")):
    """[Agreement] for each metric and each allocator that both runs have."""
    found = []
    common = {each.label for each in one.workloads} & {each.label for each in two.workloads}
    for metric in metrics:
        for name in one.allocators:
            if name == BASELINE or name not in two.allocators:
                continue
            pairs = [
                (one.results.ratio(label, name, metric), two.results.ratio(label, name, metric))
                for label in sorted(common)
            ]
            pairs = [pair for pair in pairs if all(pair)]
            if not pairs:
                continue
            sums = [sum(math.log(pair[side].value) for pair in pairs) for side in (0, 1)]
            means = [math.exp(total / len(pairs)) for total in sums]
            found.append(Agreement(name, metric, *means, len(pairs)))
    return found


def load_rss(path):
    """{(workload, threads, allocator): {round: [(ms, KiB)]}}; empty where there is no file."""
    found = {}
    if not path.exists():
        return found
    with open(path, newline="", encoding="utf-8") as file:
        for values in csv.reader(file):
            if len(values) != 6 or not values[0].isdigit():
                continue
            key = (values[1], int(values[2]), values[3])
            curve = found.setdefault(key, {}).setdefault(int(values[0]), [])
            if curve and float(values[4]) <= curve[-1][0]:
                curve.clear()  # this run was interrupted and made again
            curve.append((float(values[4]), int(values[5])))
    return found


def load(folder):
    folder = Path(folder)
    try:
        meta = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        rows = read_rows(folder / "rows.csv")
        found = latency.load(folder / "latency.csv")
        return Run(meta, rows, load_rss(folder / "rss.csv"), found)
    except OSError as error:
        raise NoRun(f"{error.filename}: {error.strerror}: no run of the lab is there") from error
    except (ValueError, KeyError, TypeError) as error:
        raise NoRun(f"{folder}: not the files of a run: {error!r}") from error
