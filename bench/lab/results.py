"""What the runs gave: raw rows, medians, ratios, spreads, geometric means.

A ratio is the median, over the rounds, of a run against the baseline's run of
the same workload in the same round: runs of one round stand close together, so a
machine that slows down meanwhile slows both. A spread is half the range of what
the median was taken of, relative to it.

A cell is one (workload, allocator). It is good only if every one of its runs
was; one bad run makes the whole cell bad, with the reason, and neither the
ratios nor the means use it.

Plain Python, no packages. Intervals, suites and files of results: stats.py.
"""

import csv
import math
import statistics
from dataclasses import dataclass

BASELINE = "glibc"
TIE = 0.05

# What a bad run is called in the table and in the chart; the order is that of
# severity where the runs of one cell failed in different ways.
LABELS = {
    "crash": "crash",
    "timeout": "timeout",
    "exit": "failed",
    "output": "failed",
    "client": "failed",
    "start": "failed",
    "differs": "differs",
    "refused": "not used",
}


@dataclass
class Row:
    """One run. Times in seconds, memory in KiB. Round 0 is not measured."""

    round: int
    workload: str
    allocator: str
    status: str
    detail: str = ""
    suite: str = "real"  # real, micro or user
    threads: int = 1
    user_s: float = 0.0
    sys_s: float = 0.0
    wall_s: float = 0.0
    minor_faults: int = 0
    major_faults: int = 0
    peak_kib: int = 0
    output_sha256: str = ""
    started: str = ""
    command: str = ""
    commit: str = ""
    machine: str = ""

    @property
    def cpu_s(self):
        return self.user_s + self.sys_s

    @property
    def label(self):
        return label_of(self.suite, self.workload, self.threads)


def label_of(suite, workload, threads):
    """What a row of the table is called: larson/2, but sqlite3."""
    return f"{workload}/{threads}" if suite == "micro" else workload


@dataclass(frozen=True)
class Figure:
    """A median and its relative spread."""

    value: float
    spread: float


class Cell:
    def __init__(self, rows=()):
        self.rows = list(rows)

    @property
    def bad(self):
        """The status of the worst bad run, or None."""
        found = {row.status for row in self.rows} - {"ok"}
        return next((status for status in LABELS if status in found), None)

    @property
    def label(self):
        return LABELS[self.bad] if self.bad else ""

    def detail(self):
        bad = [row for row in self.rows if row.status == self.bad]
        return f"{bad[0].detail} ({len(bad)} of {len(self.rows)} runs)" if bad else ""

    def values(self, metric):
        """{round: the metric, a field or property of Row}, empty for a bad cell."""
        return {} if self.bad else {row.round: getattr(row, metric) for row in self.rows}


class Results:
    """Of measured rows; `workloads` are labels, in the order of the table."""

    def __init__(self, workloads, allocators, rows=()):
        self.workloads = list(workloads)
        self.allocators = list(allocators)
        self.rows = list(rows)
        self.found = {}
        for row in self.rows:
            self.found.setdefault((row.label, row.allocator), Cell()).rows.append(row)

    def cell(self, workload, allocator):
        return self.found.get((workload, allocator)) or Cell()

    def absolute(self, workload, metric, allocator=BASELINE):
        """The median itself; or None."""
        return median_of(list(self.cell(workload, allocator).values(metric).values()))

    def ratios(self, workload, allocator, metric, against=BASELINE):
        """[the ratio to `against` in each round that both have]."""
        own = self.cell(workload, allocator).values(metric)
        base = self.cell(workload, against).values(metric)
        return [own[turn] / base[turn] for turn in sorted(own) if base.get(turn, 0) > 0]

    def ratio(self, workload, allocator, metric, against=BASELINE):
        """Median of the rounds' ratios to the baseline; or None."""
        return median_of(self.ratios(workload, allocator, metric, against))

    def mean(self, allocator, metric, workloads=None):
        """(geometric mean of the ratios or None, workloads it is made of)."""
        chosen = self.workloads if workloads is None else workloads
        ratios = [self.ratio(workload, allocator, metric) for workload in chosen]
        values = [figure.value for figure in ratios if figure]
        if not values:
            return None, 0
        return math.exp(sum(math.log(value) for value in values) / len(values)), len(values)

    def best(self, workload, metric):
        """Allocators within 5% of the lowest ratio; empty if that is all of them."""
        ratios = {name: self.ratio(workload, name, metric) for name in self.allocators}
        return lowest({name: figure.value for name, figure in ratios.items() if figure})

    def best_mean(self, metric, workloads=None):
        """As best(), over the means that cover every workload."""
        chosen = self.workloads if workloads is None else workloads
        values = {}
        for allocator in self.allocators:
            value, count = self.mean(allocator, metric, chosen)
            if value is not None and count == len(chosen):
                values[allocator] = value
        return lowest(values)

    def failures(self):
        """[(workload, allocator, label, detail)] of every bad cell."""
        found = []
        for workload in self.workloads:
            for allocator in self.allocators:
                cell = self.cell(workload, allocator)
                if cell.bad:
                    found.append((workload, allocator, cell.label, cell.detail()))
        return found


def median_of(values):
    middle = statistics.median(values) if values else 0
    if middle <= 0:
        return None
    return Figure(middle, (max(values) - min(values)) / 2 / middle)


def lowest(values):
    if not values:
        return set()
    limit = min(values.values()) * (1 + TIE)
    names = {name for name, value in values.items() if value <= limit}
    return names if len(names) < len(values) else set()


def rotated(items, turn):
    """The items in the order A B C, B C A, C A B, ... by turn."""
    turn %= len(items)
    return list(items[turn:]) + list(items[:turn])


COLUMNS = (
    "started", "round", "suite", "workload", "threads", "allocator", "status", "detail",
    "user_s", "sys_s", "wall_s", "minor_faults", "major_faults", "peak_kib", "output_sha256",
    "command", "commit", "machine",
)  # fmt: skip
TIMES = ("user_s", "sys_s", "wall_s")
COUNTS = ("round", "threads", "minor_faults", "major_faults", "peak_kib")


def cut_off(path):
    """Ends the file after its last whole line; whether there is one."""
    try:
        with open(path, "rb+") as file:
            whole = file.read().rfind(b"\n") + 1
            file.truncate(whole)
            return whole > 0
    except FileNotFoundError:
        return False


class RawFile:
    """A CSV that grows line by line, so that an interrupted run keeps its rows.

    A disk that is full ends the file, not the run: `lost` counts the lines that
    were not written, `on_trouble` is told once, with one line of text.
    """

    def __init__(self, path, columns, again=False, on_trouble=None):
        self.path = path
        self.columns = columns
        self.count = 0
        self.lost = 0
        self.on_trouble = on_trouble
        fresh = not again or not cut_off(path)
        # Names of files and arguments need not be text.
        self.file = open(
            path, "w" if fresh else "a", newline="", encoding="utf-8", errors="backslashreplace"
        )
        self.writer = csv.DictWriter(self.file, columns)
        if fresh:
            self.write(self.writer.writeheader)

    def write(self, put, *arguments):
        if self.lost == 0:
            try:
                put(*arguments)
                self.file.flush()
                return True
            except OSError as error:
                if self.on_trouble is None:
                    raise
                self.on_trouble(f"{self.path}: {error.strerror}: later rows are in memory only")
        self.lost += 1
        return False

    def add(self, values):
        self.count += self.write(self.writer.writerow, values)

    def close(self):
        try:
            self.file.close()
        except OSError:
            # What could not be written was reported when it was added.
            pass


class RawRows(RawFile):
    """The CSV of all rows."""

    def __init__(self, path, again=False, on_trouble=None):
        super().__init__(path, COLUMNS, again, on_trouble)

    def add(self, row):
        values = {name: getattr(row, name) for name in COLUMNS}
        for name in TIMES:
            values[name] = f"{values[name]:.6f}"
        super().add(values)


def read_rows(path):
    """The rows of a CSV; a last line cut off in the middle is left out."""
    rows = []
    with open(path, newline="", encoding="utf-8") as file:
        for values in csv.DictReader(file):
            if None in values or None in values.values():
                continue
            for name in TIMES:
                values[name] = float(values[name])
            for name in COUNTS:
                values[name] = int(values[name])
            rows.append(Row(**{name: values[name] for name in COLUMNS}))
    return rows
