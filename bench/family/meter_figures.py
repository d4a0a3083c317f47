#!/usr/bin/env python3
"""Pictures of what a metered program did, from the rows that it wrote (loam/meter.h).

    LOAM_METER=rows.csv ./program                       a program over a library with -DLOAM_METER=2
    bench/family/meter_figures.py rows.csv              rows-memory.png, rows-cost.png (and .svg)
                                                        beside it
    bench/family/meter_figures.py rows.csv --out FOLDER --only region,heap --most 8

    memory   for each allocator, against its operations: bytes held and in use, bytes requested so
             far, slow calls so far
    cost     for each allocator and function: how many calls took how many nanoseconds

Allocators that held most come first; the others are left out, with a line. A file of any length is
read once and kept as some thousand points for each allocator: of the rows between two points the
most and the least that was held and used. Where these are far apart, because memory comes and goes
all the time, the picture shows a band.
"""

import argparse
import csv
import sys
from pathlib import Path

FAMILY = Path(__file__).resolve().parent
sys.path.insert(0, str(FAMILY.parent))

POINTS = 4096  # of a curve; while reading, up to twice as many
SHOWN, LEAST = 600, 40  # of a curve in the picture: more would run into each other
FUNCTIONS = ("alloc", "free", "realloc")
NEEDED = ("allocator", "name", "meter", "operation", "used", "held", "requested", "slow_calls")
BYTES = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("bytes", 1))
COUNTS = (("millions", 10**6), ("thousands", 1000), ("", 1))


class Bad(Exception):
    """What is no file of rows, in words."""


class Curve:
    """One meter's rows, thinned as they come."""

    def __init__(self):
        self.points, self.step, self.rows = [], 1, 0
        self.histograms = {}  # function: {least ns: calls}
        self.held_most = 0

    def add(self, operation, held, used, requested, slow):
        self.held_most = max(self.held_most, held)
        point = [operation, held, used, requested, slow, held, used]
        if self.rows % self.step == 0:
            self.points.append(point)
        else:
            self.points[-1] = joined(self.points[-1], point)
        self.rows += 1
        if len(self.points) == 2 * POINTS:
            self.step *= 2
            self.points = [joined(a, b) for a, b in zip(self.points[::2], self.points[1::2])]

    def columns(self):
        """(operation, most held, most used, requested, slow, least held, least used), each a
        list."""
        points = self.points
        while len(points) > SHOWN or (len(points) > LEAST and is_restless(points)):
            odd = points[-1:] if len(points) % 2 else []
            points = [joined(a, b) for a, b in zip(points[::2], points[1::2])] + odd
        return [list(column) for column in zip(*points)]


def is_restless(points):
    """Whether its lines would go up and down so often that nothing but ink is seen."""
    ways = 0
    for column in (1, 2):
        line = [point[column] for point in points]
        ways += sum(abs(b - a) for a, b in zip(line, line[1:]))
    return ways > 100 * max(max(point[1:3]) for point in points)


def joined(a, b):
    """Two points of a curve as one, at the first's place."""
    most = (max(a[1], b[1]), max(a[2], b[2]))
    return [a[0], *most, b[3], b[4], min(a[5], b[5]), min(a[6], b[6])]


def read(path):
    """{(allocator, name, meter): Curve} of a file."""
    curves = {}
    with open(path, newline="", encoding="utf-8", errors="replace") as file:
        first = file.readline().rstrip("\n").split(",")
        if any(name not in first for name in NEEDED):
            raise Bad(
                f"{path}: not a file of the meter's rows (its first line is not their header)"
            )
        at = [first.index(name) for name in NEEDED]
        for number, row in enumerate(csv.reader(file), start=2):
            if row and row[0].startswith("#"):
                if row[0] == "# histogram" and len(row) > 5:
                    counts = dict(tuple(map(int, cell.split(":"))) for cell in row[5:])
                    curve = curves.setdefault((row[1], row[2], int(row[3])), Curve())
                    curve.histograms[row[4]] = counts
                continue
            try:
                values = [row[i] for i in at]
                allocator, name = values[:2]
                meter, operation, used, held, requested, slow = map(int, values[2:])
            except (IndexError, ValueError):
                # A program that was killed leaves half a line, the last.
                if file.readline():
                    raise Bad(f"{path}:{number}: not a row: {','.join(row)[:60]}") from None
                break
            curve = curves.setdefault((allocator, name, meter), Curve())
            curve.add(operation, held, used, requested, slow)
    if not curves:
        raise Bad(f"{path}: no rows")
    return curves


def scale(most, units):
    """The unit in which `most` is no less than 2, and its size."""
    return next(((words, size) for words, size in units if most >= 2 * size), units[-1])


def title(key):
    allocator, name, meter = key
    return (
        f"{allocator} {name}" if name else f"{allocator}" if meter == 0 else f"{allocator} {meter}"
    )


def prepare(axes, look):
    look.bare(axes, "top", "right")
    axes.grid(color=look.GRID.light, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=8.5)


def memory(plt, look, shown):
    """A row of three panels for each allocator."""
    height = 1.35 + 1.85 * len(shown)
    figure, rows = plt.subplots(len(shown), 3, figsize=(9.6, height), squeeze=False,
                                gridspec_kw={"width_ratios": [2.2, 1, 1]})  # fmt: skip
    ink, purple = look.INK.light, look.PURPLE
    for down, ((key, curve), axes) in enumerate(zip(shown, rows)):
        unit_across, across_size = scale(curve.points[-1][0], COUNTS)
        operations, held, used, requested, slow, held_least, used_least = curve.columns()
        across = [n / across_size for n in operations]
        unit, size = scale(max(held + used), BYTES)
        for most, least, colour, words, shade in (
            (held, held_least, purple, "held", 0.5), (used, used_least, ink, "in use", 0.3),
        ):  # fmt: skip
            most, least = [n / size for n in most], [n / size for n in least]
            below = 0.18 if colour == purple else 0
            axes[0].fill_between(across, least, step="post", color=colour, alpha=below, linewidth=0)
            axes[0].fill_between(
                across, least, most, step="post", color=colour, alpha=shade, linewidth=0
            )
            axes[0].step(across, most, where="post", color=colour, linewidth=1.2, label=words)
        axes[0].set_title(f"{title(key)}: {unit}", loc="left", fontsize=10.5)
        unit, size = scale(curve.points[-1][3], BYTES)
        axes[1].plot(across, [n / size for n in requested], color=ink, linewidth=1.3)
        axes[1].set_title(f"requested so far: {unit}", loc="left", fontsize=9.5)
        unit, size = scale(curve.points[-1][4], COUNTS)
        axes[2].step(across, [n / size for n in slow], where="post", color=ink, linewidth=1.3)
        axes[2].set_title(f"slow calls so far{unit and ': '}{unit}", loc="left", fontsize=9.5)
        for one in axes:
            prepare(one, look)
            one.set_xlim(across[0] if len(across) > 1 else 0, across[-1] or 1)
            one.set_ylim(bottom=0)
            one.locator_params(axis="x", nbins=7 if one is axes[0] else 4)
            one.locator_params(axis="y", nbins=5)
            if unit_across or down == len(shown) - 1:
                one.set_xlabel(f"operations{unit_across and ', '}{unit_across}", fontsize=8.5)
    rows[0][0].legend(
        frameon=False, fontsize=9, ncols=2, loc="lower right", bbox_to_anchor=(1.02, 0.97)
    )
    figure.subplots_adjust(left=0.065, right=0.985, top=1 - 1.0 / height, bottom=0.5 / height,
                           hspace=0.62, wspace=0.2)  # fmt: skip
    words = f"{len(shown)} allocators" if len(shown) > 1 else "one allocator"
    look.heading(
        figure,
        "Memory held and in use",
        f"{words}, against operations: calls of alloc, free and realloc",
        height,
    )
    return figure


def words_of(ns):
    for size, words in ((10**9, "s"), (10**6, "ms"), (1000, "µs")):
        if ns >= size:
            return f"{float(f'{ns / size:.2g}'):g} {words}"
    return f"{ns} ns"


def cost(plt, look, shown):
    """A row for each allocator, a panel for each function that it was asked for."""
    shown = [(key, curve) for key, curve in shown if curve.histograms]
    if not shown:
        return None
    height = 1.35 + 1.75 * len(shown)
    functions = [name for name in FUNCTIONS if any(name in curve.histograms for _, curve in shown)]
    figure, rows = plt.subplots(len(shown), len(functions), figsize=(9.6, height), squeeze=False,
                                sharex=True)  # fmt: skip
    every = [ns for _, curve in shown for counts in curve.histograms.values() for ns in counts]
    power = lambda ns: ns.bit_length() - 1 if ns else 0  # noqa: E731
    first, last = power(min(every)), power(max(every))
    for (key, curve), axes in zip(shown, rows):
        for one, function in zip(axes, functions):
            counts = curve.histograms.get(function)
            if counts is None:
                one.set_visible(False)
                continue
            prepare(one, look)
            one.bar([power(ns) for ns in counts], counts.values(), width=0.86,
                    color=look.PURPLE, align="edge")  # fmt: skip
            one.set_yscale("log")
            one.set_ylim(0.7, max(counts.values()) * 2)
            calls = sum(counts.values())
            one.set_title(f"{title(key)}, {function}: {calls:,} calls", loc="left", fontsize=9.5)
            step = max(1, (last - first + 3) // (4 if len(functions) == 3 else 6))
            ticks = range(first, last + 2, step)
            one.set_xticks(ticks, [words_of(1 << tick) for tick in ticks], fontsize=8)
            one.tick_params(axis="x", labelbottom=True)
            one.yaxis.get_major_locator().set_params(numticks=5)
            one.set_yticks([], minor=True)
    figure.subplots_adjust(left=0.065, right=0.985, top=1 - 1.0 / height, bottom=0.38 / height,
                           hspace=0.5, wspace=0.2)  # fmt: skip
    look.heading(figure, "What calls cost",
                 "how many calls took how long, measuring included; each bar's time is twice that "
                 "of the one before",
                 height)  # fmt: skip
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", type=Path, help="a file that LOAM_METER named")
    parser.add_argument("--out", type=Path, help="the folder for pictures; else that of the rows")
    parser.add_argument("--only", default="", help="kinds or names of allocators, by commas")
    parser.add_argument("--most", type=int, default=6, help="allocators in a picture (6)")
    asked = parser.parse_args()
    try:
        curves = read(asked.rows)
        import seed_figures  # the lab's look

        plt, look = seed_figures.looks()
    except (Bad, OSError) as error:
        print(f"meter_figures: {error}", file=sys.stderr)
        return 1
    except ImportError as error:
        print(f"meter_figures: {error} (package python3-matplotlib)", file=sys.stderr)
        return 77
    only = set(filter(None, asked.only.split(",")))
    wanted = [(key, curve) for key, curve in curves.items() if not only or only & set(key[:2])]
    wanted.sort(key=lambda pair: -pair[1].held_most)
    wanted = [pair for pair in wanted if pair[1].points]
    if not wanted:
        known = sorted({word for key in curves for word in key[:2] if word})
        print(
            f"meter_figures: nothing of {asked.only}; there are {', '.join(known)}", file=sys.stderr
        )
        return 1
    shown = wanted[: max(1, asked.most)]
    if len(shown) < len(wanted):
        left = ", ".join(title(key) for key, _ in wanted[len(shown) :][:20])
        print(
            f"meter_figures: left out {len(wanted) - len(shown)} that held less: {left}",
            file=sys.stderr,
        )
    out = asked.out or asked.rows.parent
    out.mkdir(parents=True, exist_ok=True)
    for name, draw in (("memory", memory), ("cost", cost)):
        with plt.rc_context(look.STYLE):
            figure = draw(plt, look, shown)
            for suffix in look.FORMATS if figure else ():
                path = out / f"{asked.rows.stem}-{name}.{suffix}"
                figure.savefig(
                    path, dpi=look.DPI, metadata={"Date": None} if suffix == "svg" else None
                )
                print(path)
            plt.close("all")
    return 0


if __name__ == "__main__":
    sys.exit(main())
