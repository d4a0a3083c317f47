"""The standalone pictures of a run, as SVG and PNG, for a README or a talk.

    plots.write(view, directory)    time, rss (bars), time_vs_rss (points), fragmentation (curves)

The bars are in plots_bars.py; here are the other two, and what all share. They are drawn in the
light tones of plots_colours.py on white paper, so a PNG can be read on any page; an SVG carries a
style for readers who prefer the dark, with each colour's other tone.

Needs python3-matplotlib; draws without a display. The same run gives the same bytes of SVG.
"""

import re
import textwrap

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402

from lab import plots_bars, plots_place, report_words  # noqa: E402
from lab.plots_colours import FAILURE, FAINT, GRID, INK, PAPER, legible  # noqa: E402

STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "text.color": INK.light,
    "axes.labelcolor": INK.light,
    "axes.edgecolor": FAINT.light,
    "xtick.color": FAINT.light,
    "ytick.color": FAINT.light,
    "figure.facecolor": PAPER.light,
    "axes.facecolor": PAPER.light,
    "svg.fonttype": "none",
    "svg.hashsalt": "loam",
}
DPI = 144
FORMATS = ("svg", "png")
LEADER = {"arrowstyle": "-", "color": FAINT.light, "linewidth": 0.7}


def write(view, directory):
    """Draws every picture that this run has data for; returns the paths."""
    pictures = {
        "time": lambda: plots_bars.draw(view, "cpu_s"),
        "rss": lambda: plots_bars.draw(view, "peak_kib"),
        "time_vs_rss": lambda: scatter(view),
        "fragmentation": lambda: curves(view),
    }
    written = []
    for name, draw in pictures.items():
        with plt.rc_context(STYLE):
            figure = draw()
            paths = [directory / f"{name}.{suffix}" for suffix in FORMATS]
            for path in paths:
                if figure is None:
                    path.unlink(missing_ok=True)
                    continue
                figure.savefig(
                    path, dpi=DPI, metadata={"Date": None} if path.suffix == ".svg" else None
                )
                written.append(path)
                if path.suffix == ".svg":
                    path.write_text(lean(for_the_dark(path.read_text(encoding="utf-8"), view)))
            plt.close("all")
    return written


def for_the_dark(svg, view):
    """The drawing with a style sheet that gives every colour its dark tone where that is wanted."""
    own = view.colours.values()
    tones = [PAPER, INK, FAINT, GRID, FAILURE, *own, *map(legible, own)]
    rules = "".join(
        f'[style*="{what}: {tone.light}"]{{{what}:{tone.dark}!important}}'
        for tone in tones
        for what in ("fill", "stroke")
        if f"{what}: {tone.light}" in svg
    )
    # Hatched bars are patterns, which have attributes instead.
    rules += "".join(
        f'pattern [{what}="{tone.light}"]{{{what}:{tone.dark}}}'
        for tone in tones
        for what in ("fill", "stroke")
        if f'{what}="{tone.light}"' in svg
    )
    sheet = f"<style>@media (prefers-color-scheme:dark){{{rules}}}</style>"
    svg = re.sub(r"(font: [^;\"]*)'DejaVu Sans'", r"\1'DejaVu Sans', Verdana", svg)
    return re.sub(r"(<svg [^>]*>)", lambda found: found[1] + "\n " + sheet, svg, count=1)


def lean(svg):
    """The drawing with coordinates to a tenth of a point, without metadata and indentation."""

    def rounded(attribute):
        if "scale" in attribute[2]:
            return attribute[0]
        value = re.sub(r"\d+\.\d+", lambda n: f"{float(n[0]):.1f}".removesuffix(".0"), attribute[2])
        return f'{attribute[1]}="{" ".join(value.split())}"'

    svg = re.sub(r"\s*<metadata>.*?</metadata>", "", svg, flags=re.S)
    svg = re.sub(r'\b(d|x|y|transform)="([^"]*)"', rounded, svg)
    return re.sub(r"\n +", "\n", svg)


def heading(figure, title, below, height):
    """The picture's title and a line under it, at fixed distances from the upper edge."""
    figure.text(0.012, 1 - 0.30 / height, title, fontsize=14, fontweight="bold", va="center")
    figure.text(0.012, 1 - 0.56 / height, below, fontsize=9.5, color=FAINT.light, va="center")


def footing(figure, view, height):
    room = int(figure.get_figwidth() * 72 / 4.6)
    words = "\n".join(textwrap.wrap(report_words.how(view), room))
    figure.text(0.012, 0.06 / height, words, fontsize=8, color=FAINT.light, va="bottom")


def bare(axes, *sides):
    for side in sides:
        axes.spines[side].set_visible(False)
    axes.tick_params(length=0)


# ---- time against memory ------------------------------------------------------------------------


def scatter(view):
    """Each allocator a point: its geometric mean in memory across, in time upwards."""
    means = {
        name: [view.mean(name, metric, view.workloads) for metric in ("peak_kib", "cpu_s")]
        for name in view.names
    }
    means = {name: pair for name, pair in means.items() if all(pair)}
    if not means:
        return None
    height = 6.2
    figure = plt.figure(figsize=(9.6, height))
    axes = figure.add_axes([0.075, 0.125, 0.905, 0.755])
    axes.set_xscale("log")
    axes.set_yscale("log")
    frame_around(axes, means)
    bare(axes, "top", "right")
    for set_ticks, limits in (
        (axes.set_xticks, axes.get_xlim()),
        (axes.set_yticks, axes.get_ylim()),
    ):
        found = plots_place.ticks(*limits, most=8)
        set_ticks(found, [f"{tick:g}" for tick in found])
        set_ticks([], minor=True)
    axes.grid(color=GRID.light, linewidth=0.8)
    axes.set_axisbelow(True)
    for draw in (axes.axhline, axes.axvline):
        draw(1.0, color=FAINT.light, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
    draw_points(figure, axes, view, means)
    axes.set_xlabel(f"peak RSS relative to {view.base}  →", loc="right")
    axes.set_ylabel(f"CPU time relative to {view.base}  →", loc="top")
    rows = report_words.rows_text(len(view.workloads))
    below = f"lower left is better; geometric means over {rows}; thin lines: 95% intervals"
    heading(figure, "Time against memory", below, height)
    footing(figure, view, height)
    return figure


def frame_around(axes, means):
    """Limits by the points, not by their whiskers, which are cut at the frame."""
    for values, set_limits in (
        ([pair[0].value for pair in means.values()], axes.set_xlim),
        ([pair[1].value for pair in means.values()], axes.set_ylim),
    ):
        low, high = min([1.0, *values]), max([1.0, *values])
        margin = max((high / low) ** 0.08, 1.03)
        set_limits(low / margin, high * margin)


def draw_points(figure, axes, view, means):
    figure.canvas.draw()
    pixels = {n: axes.transData.transform((s.value, t.value)) for n, (s, t) in means.items()}
    unit = figure.dpi / 72
    flipped = figure.bbox.height
    places = [(x / unit, (flipped - y) / unit) for x, y in pixels.values()]
    box = axes.bbox
    frame = tuple(v / unit for v in (box.x0, flipped - box.y1, box.x1, flipped - box.y0))
    sizes = [(6.4 * len(name) + 2, 12) for name in means]
    one_x, one_y = axes.transData.transform((1, 1)) / unit
    lines = plots_place.cross(one_x, flipped / unit - one_y, frame[0], frame[2], frame[1], frame[3])
    whiskers = list(lines)
    for (space, time), (x, y) in zip(means.values(), places):
        left, low = axes.transData.transform((space.low, time.low)) / unit
        right, high = axes.transData.transform((space.high, time.high)) / unit
        top, bottom = flipped / unit - high, flipped / unit - low
        whiskers += plots_place.cross(x, y, left, right, top, bottom)
    labels = plots_place.around(places, sizes, frame, whiskers, near=8)
    clear = {"facecolor": PAPER.light, "edgecolor": "none", "alpha": 0.7, "pad": 0.5}
    for (name, (space, time)), (x, y), label in zip(means.items(), places, labels):
        colour, strong = view.colours[name].light, name == view.hero
        axes.plot([space.low, space.high], [time.value] * 2, color=colour, linewidth=1, alpha=0.35)
        axes.plot([space.value] * 2, [time.low, time.high], color=colour, linewidth=1, alpha=0.35)
        axes.plot(
            [space.value], [time.value], "o", color=colour, markersize=11 if strong else 8,
            markeredgecolor=PAPER.light, markeredgewidth=1, zorder=5,
        )  # fmt: skip
        axes.annotate(
            name, (space.value, time.value), (label.x - x, y - label.y),
            textcoords="offset points", fontsize=10, zorder=6,
            ha={"start": "left", "middle": "center", "end": "right"}[label.anchor], va="center",
            fontweight="bold" if strong else "normal", color=INK.light, bbox=clear,
            arrowprops=LEADER if label.far else None,
        )  # fmt: skip


# ---- memory over time ---------------------------------------------------------------------------


def curves(view):
    """Resident memory over time, a panel for each workload that was sampled."""
    found = view.curves()
    if not found:
        return None
    columns = min(2, len(found))
    lines = -(-len(found) // columns)
    height = 1.05 + 3.6 * lines
    width = 9.6 if columns == 1 else 12.4
    figure, panels = plt.subplots(lines, columns, figsize=(width, height), squeeze=False)
    for axes in panels.flat[len(found) :]:
        axes.set_visible(False)
    for axes, (workload, shown) in zip(panels.flat, found.items()):
        draw_curves(figure, axes, view, workload, shown)
    figure.subplots_adjust(
        left=0.58 / width, right=1 - 1.25 / width, wspace=0.42,
        top=1 - 1.1 / height, bottom=0.75 / height, hspace=0.42,
    )  # fmt: skip
    for axes in panels.flat[: len(found)]:
        label_ends(figure, axes)
    below = "resident memory in MiB against seconds; a line ends with its program"
    heading(figure, "Memory over time", below, height)
    footing(figure, view, height)
    return figure


def draw_curves(figure, axes, view, workload, shown):
    axes.ends = []
    for name, curve in shown.items():
        strong = name == view.hero
        xs, ys = [ms / 1000 for ms, _ in curve], [kib / 1024 for _, kib in curve]
        colour = view.colours[name].light
        axes.plot(xs, ys, color=colour, linewidth=2.6 if strong else 1.2, zorder=5 if strong else 3)
        axes.ends.append((name, xs[-1], ys[-1], view.colours[name], strong))
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0, right=1.01 * max(end[1] for end in axes.ends))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_title(workload.label, loc="left", fontsize=11, fontweight="bold")
    axes.grid(axis="y", color=GRID.light, linewidth=0.8)
    axes.set_axisbelow(True)
    bare(axes, "top", "right", "left")


def label_ends(figure, axes):
    """Each line's name at the right edge, moved apart; dots lead there from where the line ends."""
    unit = figure.dpi / 72
    low, high = axes.get_ylim()
    size = axes.bbox.height / unit
    wanted = [(end[2] - low) / (high - low) * size for end in axes.ends]
    placed = plots_place.spread(wanted, 11.5, 0, size)
    right = axes.get_xlim()[1]
    for (name, x, y, colour, strong), place in zip(axes.ends, placed):
        level = low + place / size * (high - low)
        letters, colour = legible(colour).light, colour.light
        axes.plot(
            [x, right, right * 1.03], [y, y, level], color=colour, linewidth=0.8, linestyle=":",
            clip_on=False, zorder=2,
        )  # fmt: skip
        axes.annotate(
            name, (right * 1.04, level), annotation_clip=False, fontsize=9, va="center",
            color=letters, fontweight="bold" if strong else "normal",
        )  # fmt: skip
