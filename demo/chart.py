"""The demo's bar chart: relative CPU time above, relative peak memory below.

One group of bars for each program and one for the geometric mean; the baseline
is the line at 1, its own figure stands under the program's name. Whiskers show
the spread of the runs where it can be seen. A failed cell is drawn as a cross
with its reason, never left out, and a mean without it says of how many programs
it is. Each bar carries its value; those beyond LIMIT are cut there, under an
arrow. The colours are told apart without red-green vision and in grey print;
loam's is the strong one.

Needs python3-matplotlib; draws without a display.
"""

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402

from lab.results import BASELINE  # noqa: E402
from show import HIGHLIGHT, absolute_text  # noqa: E402

LIMIT = 2.5
VISIBLE = 0.006
COLOURS = {
    "loam": "#d55e00",
    "jemalloc": "#0b3c5d",
    "tcmalloc": "#56a0d3",
    "mimalloc": "#b9c7d1",
}
WHITE_INSIDE = ("loam", "jemalloc")
PANELS = (
    ("cpu_s", "CPU time (user + system) relative to glibc"),
    ("peak_kib", "Peak memory (RSS) relative to glibc"),
)
GROUP_WIDTH = 0.8
INK = "#222222"
STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.edgecolor": "#888888",
    "svg.fonttype": "none",
    "svg.hashsalt": "loam",
}


def positions(count, index):
    """Centre of bar `index` of `count`, relative to the group's centre, and its width."""
    width = GROUP_WIDTH / count
    return (index - (count - 1) / 2) * width, width


def values(results, metric, allocator):
    """[(position, value, spread, label of a failure, note)] for one allocator."""
    points = []
    for place, program in enumerate(results.workloads):
        cell = results.cell(program, allocator)
        figure = results.ratio(program, allocator, metric)
        if cell.bad:
            points.append((place, None, 0.0, cell.label, ""))
        elif figure:
            points.append((place, figure.value, figure.spread * figure.value, "", ""))
        elif cell.rows:
            points.append((place, None, 0.0, "no baseline", ""))
    mean, count = results.mean(allocator, metric)
    if mean is not None:
        total = len(results.workloads)
        note = f"({count} of {total})" if count < total else ""
        points.append((total + 0.15, mean, 0.0, "", note))
    return points


def draw_bar(axes, x, width, point, allocator, top):
    _, value, spread, failure, note = point
    strong = allocator == HIGHLIGHT
    if failure:
        axes.plot([x], [0.05 * top], marker="x", markersize=7, markeredgewidth=2, color="#b00020")
        axes.text(
            x, 0.1 * top, failure, rotation=90, ha="center", va="bottom", fontsize=8.5,
            color="#b00020",
        )  # fmt: skip
        return
    axes.bar(
        [x], [min(value, top)], width * 0.92, color=COLOURS[allocator], linewidth=0,
        zorder=3 if strong else 2,
    )  # fmt: skip
    if spread > VISIBLE and value < top:
        axes.errorbar([x], [value], yerr=[spread], color=INK, linewidth=0.9, capsize=1.8, zorder=4)
    if value > top:
        axes.plot([x], [1.03 * top], marker="^", markersize=6, color=COLOURS[allocator])
    axes.text(
        x, 0.03 * top, f"{value:.2f} {note}".rstrip(),
        rotation=90, ha="center", va="bottom", fontsize=8.5, zorder=5,
        fontweight="bold" if strong else "normal",
        color="white" if allocator in WHITE_INSIDE else INK,
    )  # fmt: skip


def panel_top(results, metric, shown):
    highest = [
        value + spread
        for allocator in shown
        for _, value, spread, failure, _ in values(results, metric, allocator)
        if not failure
    ]
    return min(LIMIT, 1.08 * max([1.15, *highest]))


def tick_labels(results, metric):
    names = []
    for program in results.workloads:
        figure = results.absolute(program, metric)
        names.append(f"{program}\n{absolute_text(figure, metric)}")
    return [*names, "geometric\nmean"]


def draw_panel(axes, results, metric, title):
    shown = [name for name in results.allocators if name != BASELINE]
    top = panel_top(results, metric, shown)
    for index, allocator in enumerate(shown):
        offset, width = positions(len(shown), index)
        for point in values(results, metric, allocator):
            draw_bar(axes, point[0] + offset, width, point, allocator, top)
    axes.axhline(1.0, color=INK, linewidth=1.1, zorder=6)
    count = len(results.workloads)
    axes.axvline(count - 0.425, color="#cccccc", linewidth=0.8)
    axes.text(count + 0.62, 1.0, "glibc", va="center", ha="left", fontsize=9)
    axes.set_xlim(-0.55, count + 0.6)
    axes.set_ylim(0, top * 1.07)
    axes.set_xticks([*range(count), count + 0.15], tick_labels(results, metric), fontsize=9.5)
    axes.tick_params(axis="x", length=0)
    axes.set_title(title, loc="left", fontsize=11, fontweight="bold")
    axes.grid(axis="y", color="#e4e4e4", linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


def draw_legend(figure, results):
    shown = [name for name in results.allocators if name != BASELINE]
    handles = [plt.Rectangle((0, 0), 1, 1, color=COLOURS[name]) for name in shown]
    handles.append(plt.Line2D([0], [0], color=INK, linewidth=1.1))
    names = [*shown, "glibc = 1 (its own figure under each name)"]
    figure.legend(
        handles, names, loc="upper left", bbox_to_anchor=(0.045, 0.945), ncols=len(names),
        frameon=False, fontsize=10, handlelength=1.2, columnspacing=1.6, borderaxespad=0,
    )  # fmt: skip


def draw(results, how, paths):
    """Writes the chart to every path; the suffix decides the format."""
    with plt.rc_context(STYLE):
        figure, panels = plt.subplots(2, 1, figsize=(10.5, 7.8))
        figure.suptitle(
            "Unmodified programs on each allocator: lower is better",
            x=0.045, y=0.985, ha="left", fontsize=14, fontweight="bold",
        )  # fmt: skip
        for axes, (metric, title) in zip(panels, PANELS):
            draw_panel(axes, results, metric, title)
        draw_legend(figure, results)
        figure.text(0.045, 0.012, how, fontsize=8, color="#555555", va="bottom")
        figure.subplots_adjust(left=0.045, right=0.945, top=0.865, bottom=0.105, hspace=0.38)
        for path in paths:
            is_svg = str(path).endswith(".svg")
            figure.savefig(path, dpi=144, metadata={"Date": None} if is_svg else None)
        plt.close(figure)
