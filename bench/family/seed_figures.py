#!/usr/bin/env python3
"""The figures of seeds 001 and 002 that run.py's bars do not show.

    bench/family/seed_figures.py [--out FOLDER] [--programs FOLDER] [--measured FOLDER] [FIGURE ...]

    worst_case    the frame stack in worst_case(20): memory used and held, old and new policy
    fifo_memory   the FIFO pool, 10,000 slots in turn and at random: the same
    average       the running means that size blocks, on seed 002's sequence of 4 million requests
    pages         time of a page by calloc and by mmap, and of the FIFO pool over them, by page size
    runs          seed 001's three runs of its benchmark, and its table (runs.txt)

The first three are one run of a table's program for each curve, with FAMILY_RECORD set: they come
out the same on every machine; the curves stay as CSV beside the pictures. The other two are drawn
from figures.csv of a run of run.py, in the folder --measured. Pictures are SVG and PNG. What is
missing leaves its figure out, with a line.
"""

import argparse
import csv
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

FAMILY = Path(__file__).resolve().parent
ROOT = FAMILY.parents[1]
sys.path.insert(0, str(FAMILY.parent))

MIB = 1 << 20
KIB = 1 << 10
POLICIES = {"intersec-old": "old policy", "intersec-new": "new policy"}
FIGURE_END = 2500  # entries: where the seed cuts its own
MEANS = {
    "intersec-new": "sum / count, divided by 4 at 65,535",
    "intersec-old": "the same without requests of 128 MiB and more",
    "exponential": "exponential, 1/27279",
    "plain": "of all requests ever",
}


class Missing(Exception):
    """What a figure needs and this machine does not have."""


def record(source, table, row, column):
    """Runs one cell; its curve as {column name: [numbers]} and the phase's figures."""
    path = source.out / f"{table}-{column}-{row}.csv"
    program = source.programs / table
    try:
        done = subprocess.run(
            [program, row, column],
            capture_output=True,
            text=True,
            env={**os.environ, "FAMILY_RECORD": str(path)},
        )
    except OSError as error:
        raise Missing(f"{program}: {error.strerror}") from None
    if done.returncode != 0:
        raise Missing(f"{table} {row} {column}: {done.stderr.strip() or done.returncode}")
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    words = ("allocator", "name", "function")  # of the meter's format; all else are numbers
    curve = {
        name: [float(row[i]) for row in rows[1:]]
        for i, name in enumerate(rows[0])
        if name not in words
    }
    return curve, json.loads(done.stdout.splitlines()[-1])


def measured(folder, table):
    """[{column: text}] of one table of figures.csv, huge pages never."""
    path = folder / "figures.csv"
    try:
        with open(path, newline="", encoding="utf-8") as file:
            rows = [row for row in csv.DictReader(file) if row["program"] == table]
    except OSError as error:
        raise Missing(f"{path}: {error.strerror} (run.py writes it)") from None
    rows = [row for row in rows if row["huge"] == "never"]
    if not rows:
        raise Missing(f"{path} has no table {table} (run.py --table {table})")
    return rows


# ---- memory against operations ------------------------------------------------------------------


def held_and_used(axes, across, curve, colours):
    """The seed's two curves: what the allocator holds, and what is in use of it."""
    ink, held = colours
    axes.fill_between(across, [v / MIB for v in curve["held"]], step="post", color=held, alpha=0.18)
    axes.step(across, [v / MIB for v in curve["held"]], where="post", color=held, linewidth=1.4)
    axes.step(across, [v / MIB for v in curve["used"]], where="post", color=ink, linewidth=1.1)
    axes.set_xlim(0, across[-1])


def panels(plt, look, rows, columns, size):
    """Panels below each other share their scale upwards."""
    figure, axes = plt.subplots(rows, columns, figsize=size, sharey="col", squeeze=False)
    for one in axes.flat:
        look.bare(one, "top", "right")
        one.grid(color=look.GRID.light, linewidth=0.8)
        one.set_axisbelow(True)
    return figure, axes


def key(axes, colours, where, held_in):
    """The two curves' names, once."""
    ink, held = colours
    for text, colour, down in ((f"held in {held_in}", held, 0), ("in use", ink, 0.09)):
        axes.text(where[0], where[1] - down, text, transform=axes.transAxes, color=colour,
                  fontweight="bold", fontsize=9.5)  # fmt: skip


def recorded(source, table, columns):
    """[(words, [(curve, phase) of each column])]: both policies, and loam's own where it has these
    columns."""
    found = []
    for row, words in {**POLICIES, "loam": "loam"}.items():
        try:
            found.append((words, [record(source, table, row, column) for column in columns]))
        except Missing:
            if row in POLICIES:
                raise
    return found


def worst_case(plt, look, source):
    colours = (look.INK.light, look.PURPLE)
    found = recorded(source, "stack", ["worst-memory"])
    height = 1.2 + 2.7 * len(found)
    figure, axes = panels(plt, look, len(found), 1, (9.6, height))
    for one, (words, [(curve, phase)]) in zip(axes.flat, found):
        held_and_used(one, curve["entry"], curve, colours)
        total = phase["held_in_all"] / MIB
        one.set_title(
            f"{words}: {total:.1f} MiB of blocks were allocated in all", loc="left", fontsize=11
        )
        one.set_ylabel("MiB")
        one.set_xlim(0, FIGURE_END)
    axes[0][0].set_ylim(0, 5.6)
    key(axes[1][0], colours, (0.80, 0.62), "blocks")
    axes[-1][0].set_xlabel(
        "entries of the record: one for 300 operations, one for each block that comes or goes"
    )
    figure.subplots_adjust(
        left=0.06, right=0.97, top=1 - 1.0 / height, bottom=0.56 / height, hspace=0.36
    )
    look.heading(
        figure,
        "The frame stack in worst_case(20)",
        "20 times: 20,000 blocks of 100 bytes in a frame, then one of 158 KiB outside it",
        height,
    )
    return figure


def fifo_memory(plt, look, source):
    colours = (look.INK.light, look.PURPLE)
    orders = {"cyclic-memory": "in turn", "random-memory": "at random"}
    found = recorded(source, "fifo", orders)
    height = 1.2 + 2.7 * len(found)
    figure, axes = panels(plt, look, len(found), 2, (9.6, height))
    for down, (words, cells) in enumerate(found):
        for right, ((curve, phase), order) in enumerate(zip(cells, orders.values())):
            one = axes[down][right]
            held_and_used(one, [n / 1000 for n in curve["operation"]], curve, colours)
            total = phase["held_in_all"] / MIB
            title = f"{words}, slots {order}: {total:.1f} MiB in all"
            one.set_title(title, loc="left", fontsize=10.5)
        axes[down][0].set_ylabel("MiB")
    key(axes[0][0], colours, (0.36, 0.55), "pages")
    for one in axes[-1]:
        one.set_ylim(bottom=0)
        one.set_xlabel("operations (thousands)")
    figure.subplots_adjust(left=0.065, right=0.985, top=1 - 1.0 / height, bottom=0.56 / height)
    figure.subplots_adjust(hspace=0.34, wspace=0.12)
    look.heading(
        figure,
        "The FIFO pool: memory held for 10,000 blocks of 1 to 512 bytes",
        "a page is free when its last block is: in turn that is soon, at random it is late",
        height,
    )
    return figure


# ---- running means ------------------------------------------------------------------------------


def average(plt, look, source):
    curves = {row: record(source, "average", row, "figure") for row in MEANS}
    colours = dict(zip(MEANS, look.LINES))
    figure, axes = plt.subplots(figsize=(9.6, 5.6))
    look.bare(axes, "top", "right")
    axes.grid(color=look.GRID.light, linewidth=0.8)
    axes.set_axisbelow(True)
    curve, _ = curves["intersec-new"]
    # Requests far above the others are drawn as what they are: marks at the upper edge.
    across = [n / 1e6 for n in curve["request"]]
    usual = [(x, y) for x, y in zip(across, curve["largest"]) if y < 64 * KIB]
    marks = {"color": look.GRID.light, "markersize": 2, "zorder": 1}
    axes.plot(*zip(*[(x, y / KIB) for x, y in usual]), ".", **marks)
    for row, words in MEANS.items():
        curve, _ = curves[row]
        across = [n / 1e6 for n in curve["request"]]
        style = (0, (3, 2)) if row == "intersec-old" else "-"
        axes.plot(across, [m / KIB for m in curve["mean"]], color=colours[row], linewidth=1.5,
                  linestyle=style, label=words)  # fmt: skip
    axes.set_ylim(0, 64)
    n = round(across[-1], 1)
    axes.set_xlim(0, n)
    places = {eighth * n / 8: "2000 × 256 KiB" for eighth in range(1, 6)}
    places[n * 13 / 16] = "1 GiB"
    for x, words in places.items():
        axes.annotate(words, (x, 62), color=look.FAINT.light, fontsize=8, ha="center")
    axes.set_ylabel("KiB")
    axes.set_xlabel("requests (millions); grey: the largest of each thousand")
    axes.legend(loc="upper left", bbox_to_anchor=(0.0, 0.93), frameon=True, framealpha=0.9,
                edgecolor="none", fontsize=9)  # fmt: skip
    figure.subplots_adjust(left=0.06, right=0.975, top=0.84, bottom=0.1)
    look.heading(
        figure,
        "Running means of the requests",
        "4 million requests, 16 ± 3 KiB, five bunches and one peak: how far do they move it?",
        5.6,
    )
    return figure


# ---- pages --------------------------------------------------------------------------------------

UNITS = {"KiB": KIB, "MiB": MIB}
PAGE_LINES = (  # row, words, colour of the lab's palette, dashes
    ("mmap-touch", "mmap, touched", "snmalloc", "-"),
    ("mmap", "mmap, not touched", "snmalloc", (0, (3, 2))),
    ("calloc-touch", "calloc, touched", "mimalloc", "-"),
    ("calloc", "calloc, not touched", "mimalloc", (0, (3, 2))),
)
POOL_LINES = (("fifo-mmap", "mmap", "snmalloc", "-"), ("fifo-calloc", "calloc", "mimalloc", "-"))


def bytes_of(column):
    return int(column[:-3]) * UNITS[column[-3:]]


def pages(plt, look, source):
    by_row = {}
    for row in measured(source.measured, "pages"):
        if row["phase"] == "use":
            by_row.setdefault(row["row"], []).append((row["column"], float(row["ns_an_op"])))
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 4.8))
    ticks = {}
    for axes, lines, scale in ((left, PAGE_LINES, 1000), (right, POOL_LINES, 1)):
        look.bare(axes, "top", "right")
        axes.set_xscale("log", base=2)
        axes.grid(color=look.GRID.light, linewidth=0.8)
        axes.set_axisbelow(True)
        for row, words, colour, dashes in lines:
            points = sorted((bytes_of(name), ns / scale) for name, ns in by_row.get(row, ()))
            ticks.update({bytes_of(name): name for name, _ in by_row.get(row, ())})
            if points:
                axes.plot(*zip(*points), color=look.KNOWN[colour].light, linestyle=dashes,
                          marker="o", markersize=3.5, linewidth=1.5, label=words)  # fmt: skip
        if not axes.lines:
            raise Missing("figures.csv has no such rows of pages")
        axes.legend(frameon=False, fontsize=9, loc="upper left" if axes is left else "upper center")
        axes.set_xlabel("page size")
    for axes in (left, right):
        axes.set_xticks(list(ticks), [name.replace("iB", "") for name in ticks.values()])
        axes.set_xticks([], minor=True)
    left.set_yscale("log")
    powers = [10.0**power for power in range(-2, 5)]
    low, high = left.get_ylim()
    shown = [tick for tick in powers if low <= tick <= high]
    left.set_yticks(shown, [f"{tick:,g}" for tick in shown])
    left.set_yticks([], minor=True)
    left.set_title("a page, in a ring of 8: microseconds", loc="left", fontsize=10.5)
    right.set_ylim(bottom=0)
    right.set_title("a block of the FIFO pool: nanoseconds", loc="left", fontsize=10.5)
    figure.subplots_adjust(left=0.065, right=0.985, top=0.80, bottom=0.115, wspace=0.14)
    look.heading(
        figure,
        "Pages by calloc and by mmap",
        "calloc clears what was freed before; mmap gives fresh pages, a fault for each 4 KiB "
        "touched",
        4.8,
    )
    return figure


# ---- seed 001's three runs ----------------------------------------------------------------------

RUNS = ("run 1", "run 2", "run 3")


def runs(plt, look, source):
    times = {}
    for row in measured(source.measured, "blocks"):
        if row["phase"] in RUNS:
            times.setdefault(row["row"], {})[row["phase"]] = float(row["seconds"]) * 1000
    times = {row: found for row, found in times.items() if len(found) == len(RUNS)}
    if not times:
        raise Missing("figures.csv has no cell of the column benchmark (run.py --table blocks)")
    lines = [f"{'Allocator':<24}{'Run':>4}{'Benchmark time (ms)':>22}"]
    for row, found in times.items():
        lines += [f"{row:<24}{run[-1]:>4}{found[run]:>22.2f}" for run in RUNS]
    (source.out / "runs.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    order = sorted(times, key=lambda row: times[row]["run 3"])
    height = 1.5 + 0.27 * len(order)
    figure, axes = plt.subplots(figsize=(9.6, height))
    look.bare(axes, "top", "right")
    marks = zip(RUNS, ("#9aa4af", look.KNOWN["mimalloc2"].light, look.INK.light), "^so")
    for run, colour, mark in marks:
        across = [times[row][run] for row in order]
        axes.plot(across, range(len(order)), mark, color=colour, markersize=6, label=run)
    for at, row in enumerate(order):
        ends = [times[row][run] for run in RUNS]
        axes.plot([min(ends), max(ends)], [at, at], color=look.GRID.light, linewidth=2, zorder=1)
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    shown = [tick for tick in (0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200) if low <= tick <= high]
    axes.set_xticks(shown, [f"{tick:g}" for tick in shown])
    axes.set_xticks([], minor=True)
    axes.set_yticks(range(len(order)), order, color=look.INK.light)
    for label in axes.get_yticklabels():
        if label.get_text() == "loam":
            label.set(color=look.KNOWN["loam"].light, fontweight="bold")
    axes.set_ylim(len(order) - 0.4, -0.6)
    axes.xaxis.grid(color=look.GRID.light, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.set_xlabel("milliseconds of processor time (below one, of wall time)")
    axes.legend(frameon=False, ncols=3, loc="lower right", bbox_to_anchor=(1.0, 1.0))
    figure.subplots_adjust(left=0.2, right=0.98, top=1 - 0.95 / height, bottom=0.5 / height)
    look.heading(
        figure,
        "Three runs in one process",
        "10,000 blocks of 2000 bytes, every other one freed, 10,000 of 4000, all freed; and again",
        height,
    )
    return figure


# ---- the command --------------------------------------------------------------------------------

FIGURES = {
    "worst_case": worst_case,
    "fifo_memory": fifo_memory,
    "average": average,
    "pages": pages,
    "runs": runs,
}


@dataclass(frozen=True)
class Source:
    """Where figures come from, and go to."""

    programs: Path
    measured: Path
    out: Path


def looks():
    """The lab's own style and colours, and matplotlib, which they need."""
    import matplotlib.pyplot as plt

    from lab import plots
    from lab.plots_colours import FAINT, GRID, INK, KNOWN

    class Look:
        STYLE, DPI, FORMATS = plots.STYLE, plots.DPI, plots.FORMATS
        heading, bare = staticmethod(plots.heading), staticmethod(plots.bare)

    Look.INK, Look.FAINT, Look.GRID, Look.KNOWN = INK, FAINT, GRID, KNOWN
    Look.PURPLE = KNOWN["rpmalloc"].light
    Look.LINES = [KNOWN[name].light for name in ("rpmalloc", "mimalloc", "snmalloc", "jemalloc")]
    return plt, Look


def write(names, source):
    """Draws these figures; the paths, and what kept the others from being drawn."""
    plt, look = looks()
    source.out.mkdir(parents=True, exist_ok=True)
    written, missing = [], []
    for name in names:
        with plt.rc_context(look.STYLE):
            try:
                figure = FIGURES[name](plt, look, source)
            except Missing as error:
                missing.append(f"{name}: {error}")
                continue
            finally:
                plt.close("all")
            for suffix in look.FORMATS:
                path = source.out / f"{name}.{suffix}"
                metadata = {"Date": None} if suffix == "svg" else None
                figure.savefig(path, dpi=look.DPI, metadata=metadata)
                written.append(path)
    return written, missing


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help=", ".join(FIGURES))
    parser.add_argument("--out", type=Path, default=ROOT / "build/bench/family")
    parser.add_argument("--programs", type=Path, default=ROOT / "build/release/bench/family")
    parser.add_argument("--measured", type=Path, default=ROOT / "build/bench/family")
    asked = parser.parse_args()
    for name in asked.figures:
        if name not in FIGURES:
            parser.error(f"no figure {name} (there are {', '.join(FIGURES)})")
    source = Source(asked.programs, asked.measured, asked.out)
    try:
        written, missing = write(asked.figures or list(FIGURES), source)
    except ImportError as error:
        print(f"seed_figures: {error} (package python3-matplotlib)", file=sys.stderr)
        return 77
    except OSError as error:
        print(f"seed_figures: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    for path in written:
        print(path)
    for line in missing:
        print(f"seed_figures: left out {line}", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
