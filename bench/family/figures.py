"""Figures of the family's tables, and the text that shows them.

A run's time is its processor time, or its wall time if it is too short for that clock. A
figure is the median over the rounds with its 95% bootstrap interval (lab/stats.py's). A ratio is
to the table's reference, the first rendition of a seed's rules that has the column, and is the
median of the ratios of the same round.
"""

import csv
import statistics
from dataclasses import dataclass

from lab.stats import interval

SHORT = 0.001  # seconds: below, the wall clock
IN_MS = ("region", "blocks")  # as their seeds print; the others in ns an operation
SIDE = ("create", "destroy", "create-warm", "destroy-warm", "fill", "drain")
GAIN = ("grow", "grow-copy")  # shown as well: how many times the second takes of the first
NO_TIME = ("memory", "figure")  # phases whose own figures are the matter; cells.csv has them


@dataclass(frozen=True)
class Figure:
    value: float
    low: float
    high: float
    rounds: int

    def times(self, scale):
        return Figure(self.value * scale, self.low * scale, self.high * scale, self.rounds)


def seconds(phase):
    return phase["cpu_s"] if phase["cpu_s"] >= SHORT else phase["seconds"]


def named(phases):
    """{name: (seconds, ops)}; of a fixed pool also `cold`, allocation and free together."""
    found = {phase["phase"]: (seconds(phase), phase["ops"]) for phase in phases}
    if "allocate" in found and "free" in found:
        found["cold"] = (found["allocate"][0] + found["free"][0], found["free"][1])
    return found


def figure(values):
    values = [max(value, 1e-12) for value in values]
    low, high = interval([values], over="rounds") if len(values) > 1 else (values[0], values[0])
    return Figure(statistics.median(values), low, high, len(values))


class Figures:
    def __init__(self, tables, results):
        self.tables = tables
        self.results = results
        self.times = {}  # (cell, phase) -> [seconds of each round]
        self.ops = {}
        for cell, outcomes in results.items():
            if any(outcome.status != "ok" for outcome in outcomes):
                continue
            for outcome in outcomes:
                for name, (time, ops) in named(outcome.phases).items():
                    self.times.setdefault((cell, name), []).append(time)
                    self.ops[cell, name] = ops

    def status(self, cell):
        """(status, detail) of a cell that has no figures, or None."""
        for outcome in self.results.get(cell, ()):
            if outcome.status != "ok":
                return outcome.status, outcome.detail
        return None

    def time(self, cell, phase):
        values = self.times.get((cell, phase))
        return figure(values) if values else None

    def each(self, cell, phase):
        """The same in seconds an operation."""
        values = self.times.get((cell, phase))
        return figure([value / self.ops[cell, phase] for value in values]) if values else None

    def reference(self, cell):
        """The cell that this one is compared with, or None."""
        table = self.tables[cell.program]
        for name, row in table.rows.items():
            if row["kind"] == "rendition" and cell.column in row["columns"]:
                other = type(cell)(cell.program, name, cell.column, cell.n, "never")
                return other if other in self.results else None
        return None

    def ratio(self, cell, phase):
        base = self.reference(cell)
        mine, others = self.times.get((cell, phase)), self.times.get((base, phase))
        if not mine or not others or min(others) <= 0:
            return None
        return figure([one / other for one, other in zip(mine, others)])

    def gain(self, first, second, phase):
        """How many times the time of an operation of the first is that of the second; or None."""
        ones, others = self.times.get((first, phase)), self.times.get((second, phase))
        if not ones or not others or min(ones) <= 0:
            return None
        scale = self.ops[first, phase] / self.ops[second, phase]
        return figure([other / one * scale for one, other in zip(ones, others)])

    def write(self, path):
        with open(path, "w", newline="", encoding="utf-8") as file:
            out = csv.writer(file, lineterminator="\n")
            out.writerow(
                "program,table,row,column,n,huge,phase,rounds,seconds,low,high,ns_an_op,"
                "ratio,ratio_low,ratio_high".split(",")
            )
            for cell, phase in self.times:
                time, ratio = self.time(cell, phase), self.ratio(cell, phase)
                out.writerow(
                    [cell.program, self.tables[cell.program].seed, cell.row, cell.column, cell.n,
                     cell.huge, phase, time.rounds,
                     *(f"{v:.9f}" for v in (time.value, time.low, time.high)),
                     f"{self.each(cell, phase).value * 1e9:.3f}",
                     *((f"{v:.4f}" for v in (ratio.value, ratio.low, ratio.high)) if ratio
                       else ("", "", ""))]
                )  # fmt: skip


# ---- text ----------------------------------------------------------------------------------------


def short(value):
    return f"{value:.3g}" if value < 999.5 else f"{value:,.0f}"


def laid_out(head, lines):
    """Columns as wide as they need: the first to the left, the others to the right."""
    widths = [max(len(line[place]) for line in [head, *lines]) for place in range(len(head))]
    text = []
    for line in [head, *lines]:
        cells = [line[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(line[1:], widths[1:])]
        text.append("  ".join(cells).rstrip())
    text.insert(1, "-" * len(text[0]))
    return text


def phases_of(figures, cells):
    """The phases that are a table of their own, in the order in which they came."""
    names = dict.fromkeys(phase for cell, phase in figures.times if cell in cells)
    parts = ("allocate", "free") if "cold" in names else ()
    chosen = [name for name in names if name not in (*SIDE, *NO_TIME, *parts)]
    return sorted(chosen, key=lambda name: name == "warm")


def cell_text(figures, cell, phase, milliseconds):
    bad = figures.status(cell)
    if bad:
        return bad[0]
    found = figures.time(cell, phase) if milliseconds else figures.each(cell, phase)
    if not found:
        return "-"
    scale = 1e3 if milliseconds else 1e9
    ratio = figures.ratio(cell, phase)
    wide = max(found.high - found.value, found.value - found.low) / found.value
    return (
        short(found.value * scale)
        + f" ±{wide * 100:.0f}%"
        + (f" {ratio.value:.2f}x" if ratio else "")
    )


def matrix(figures, table, cells, phase, huge, counted=False):
    """Rows of the table against its columns (or, counted, one column's counts)."""
    cells = [cell for cell in cells if cell.huge == huge]
    has = {cell for cell, name in figures.times if name == phase}
    if counted:
        heads = list(dict.fromkeys(cell.n for cell in cells))
        place = {(cell.row, cell.n): cell for cell in cells}
    else:
        heads = list(dict.fromkeys(cell.column for cell in cells if cell in has))
        place = {(cell.row, cell.column): cell for cell in cells}
    gains = not counted and set(GAIN) <= set(heads)
    rows = [name for name in table.rows if any(cell.row == name for cell in cells)]
    milliseconds = table.program in IN_MS
    lines = []
    for row in rows:
        line = [row]
        for head in heads:
            cell = place.get((row, head))
            line.append(cell_text(figures, cell, phase, milliseconds) if cell else "-")
        if gains:
            first, second = (place.get((row, column)) for column in GAIN)
            found = figures.gain(first, second, phase) if first and second else None
            line.append(f"{found.value:.2f}x" if found else "-")
        if any(text != "-" for text in line[1:]):
            lines.append(line)
    heads = [f"{head:,}" if counted else head for head in heads] + ["gain"] * gains
    return laid_out([table.program, *heads], lines)


# The seed's own words for the columns of its list.
WORDS = {
    "small": "(Small)", "small-free": "w/ free (Small)", "big": "(Big)",
    "big-free": "w/ free (Big)", "mix": "(Mix)", "mix-free": "w/ free (Mix)",
    "create-destroy": "cr. & destr.", "page-16": "16B aligned", "page-4096": "page aligned",
}  # fmt: skip


def seed_list(figures, table, cells, huge):
    """Table 000 as its seed prints it: one line a cell, in milliseconds."""
    text = []
    for row in table.rows:
        lines = []
        for cell in cells:
            found = figures.time(cell, "use") if cell.row == row and cell.huge == huge else None
            if found:
                name = f"{row} {WORDS.get(cell.column, cell.column)}:"
                lines.append(f"    {name:<34} {found.value * 1000:>7.0f}ms")
        text += lines + [""] if lines else []
    return text


def describe(figures, table, cells):
    """The whole text of one table."""
    text = [f"{table.seed}: {table.title}", ""]
    milliseconds = table.program in IN_MS
    unit = "milliseconds" if milliseconds else "nanoseconds an operation"
    reference = next((n for n, row in table.rows.items() if row["kind"] == "rendition"), None)
    against = f"; x: times {reference}'s, huge pages never" if reference else ""
    for huge in dict.fromkeys(cell.huge for cell in cells):
        pages = f", huge pages {huge}" if table.program == "region" else ""
        for phase in phases_of(figures, cells):
            if table.program != "pool":
                text.append(f"{phase}{pages}: {unit}, ± half of the 95% interval{against}")
                text += matrix(figures, table, cells, phase, huge) + [""]
                continue
            for column in dict.fromkeys(cell.column for cell in cells):
                chosen = [cell for cell in cells if cell.column == column]
                if phase in phases_of(figures, chosen):
                    text.append(f"{column}, {phase}: {unit}, by count{against}")
                    text += matrix(figures, table, chosen, phase, huge, counted=True) + [""]
        if table.program == "region":
            text += [f"the same as the seed prints it{pages}", ""]
            text += seed_list(figures, table, cells, huge)
    return text


def missing(figures, tables):
    """What has no figures and why, one line each."""
    lines = []
    for table in tables.values():
        for row, package in table.absent.items():
            lines.append(
                f"{table.program}: without {row}: package {package} was not there at its build"
            )
    told = set()
    for cell in figures.results:
        bad = figures.status(cell)
        if not bad or bad[1].endswith(" already"):  # told once, by the count that brought it
            continue
        key = (cell.program, cell.row) if bad[0] == "absent" else cell
        if key not in told:
            told.add(key)
            what = f"{cell.program}: without {cell.row}" if bad[0] == "absent" else cell.label
            lines.append(f"{what}: {bad[0]}: {bad[1]}")
    return lines
