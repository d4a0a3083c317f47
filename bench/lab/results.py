"""What the runs gave: raw rows, medians, ratios, spreads, geometric means.

A ratio is the median, over the rounds, of a run against the baseline's run of
the same program in the same round: runs of one round stand close together, so a
machine that slows down meanwhile slows both. A spread is half the range of what
the median was taken of, relative to it.

A cell is one (program, allocator). It is good only if every one of its runs
was; one bad run makes the whole cell bad, with the reason, and neither the
ratios nor the means use it.
"""

import csv
import math
import statistics
from dataclasses import asdict, dataclass, fields

BASELINE = "glibc"
TIE = 0.05

# What a bad run is called in the table and in the chart; the order is that of
# severity where the runs of one cell failed in different ways.
LABELS = {
    "crash": "crash",
    "timeout": "timeout",
    "exit": "failed",
    "client": "failed",
    "start": "failed",
    "differs": "differs",
    "refused": "not used",
}


@dataclass
class Row:
    """One run. Times in seconds, memory in KiB. Round 0 is not measured."""

    round: int
    program: str
    allocator: str
    status: str
    user_s: float = 0.0
    sys_s: float = 0.0
    wall_s: float = 0.0
    minor_faults: int = 0
    peak_kib: int = 0
    output_sha256: str = ""
    detail: str = ""

    @property
    def cpu_s(self):
        return self.user_s + self.sys_s


@dataclass(frozen=True)
class Figure:
    """A median and its relative spread."""

    value: float
    spread: float


@dataclass
class Cell:
    rows: list

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
        """{round: cpu_s or peak_kib}, empty for a bad cell."""
        return {} if self.bad else {row.round: getattr(row, metric) for row in self.rows}


class Results:
    def __init__(self, programs, allocators, rows=()):
        self.programs = list(programs)
        self.allocators = list(allocators)
        self.rows = list(rows)

    def cell(self, program, allocator):
        return Cell(
            [row for row in self.rows if (row.program, row.allocator) == (program, allocator)]
        )

    def absolute(self, program, metric):
        """The baseline's own median; or None."""
        return median_of(list(self.cell(program, BASELINE).values(metric).values()))

    def ratio(self, program, allocator, metric):
        """Median of the rounds' ratios to the baseline; or None."""
        own = self.cell(program, allocator).values(metric)
        base = self.cell(program, BASELINE).values(metric)
        return median_of([own[turn] / base[turn] for turn in own if base.get(turn, 0) > 0])

    def mean(self, allocator, metric):
        """(geometric mean of the ratios or None, programs it is made of)."""
        ratios = [self.ratio(program, allocator, metric) for program in self.programs]
        values = [figure.value for figure in ratios if figure]
        if not values:
            return None, 0
        return math.exp(sum(math.log(value) for value in values) / len(values)), len(values)

    def best(self, program, metric):
        """Allocators within 5% of the lowest ratio; empty if that is all of them."""
        ratios = {name: self.ratio(program, name, metric) for name in self.allocators}
        return lowest({name: figure.value for name, figure in ratios.items() if figure})

    def best_mean(self, metric):
        """As best(), over the means that cover every program."""
        values = {}
        for allocator in self.allocators:
            value, count = self.mean(allocator, metric)
            if count == len(self.programs):
                values[allocator] = value
        return lowest(values)

    def failures(self):
        """[(program, allocator, label, detail)] of every bad cell."""
        found = []
        for program in self.programs:
            for allocator in self.allocators:
                cell = self.cell(program, allocator)
                if cell.bad:
                    found.append((program, allocator, cell.label, cell.detail()))
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


class RawRows:
    """The CSV of all rows, written as they come: an interrupted run keeps its rows."""

    COLUMNS = [each.name for each in fields(Row)]

    def __init__(self, path):
        self.path = path
        self.count = 0
        self.file = open(path, "w", newline="", encoding="utf-8")
        self.writer = csv.DictWriter(self.file, self.COLUMNS)
        self.writer.writeheader()

    def add(self, row):
        values = asdict(row)
        for name in ("user_s", "sys_s", "wall_s"):
            values[name] = f"{values[name]:.4f}"
        self.writer.writerow(values)
        self.count += 1
        self.file.flush()

    def close(self):
        self.file.close()
