"""The bar charts of all allocators on all workloads: time.* and rss.*.

Groups of bars as the field draws them, one for each row, in strips, by suite and number
of threads; one scale for all strips, so that heights compare across. The legend carries each
allocator's geometric mean, the lowest first. The line at 1 is what the ratios are to; loam's own
figure stands under each group. A bar beyond the scale is cut, with its figure on it; a failed
cell is a cross and a word. A row that its baseline failed says so.
"""

import textwrap

import matplotlib.pyplot as plt

from lab import plots, report_words
from lab.plots_colours import FAILURE, FAINT, GRID, INK, PAPER
from lab.report_data import TITLES
from lab.report_words import figure as figure_text

PER_STRIP = range(7, 13)
STRIP_COST = 3  # empty places that a further strip is worth
STRIP = 1.62  # inches, with the names below it
ABOVE = 0.34  # more, where a strip begins a group and carries its title
WIDTH = 12.0
LEGEND_COLUMNS = 5
GROUP_WIDTH = 0.88


def per_strip(view):
    """How many rows a strip holds: few strips, and little of the picture empty."""
    sizes = [len(group.workloads) for group in view.groups]

    def cost(count):
        used = sum(-(-size // count) for size in sizes)
        return STRIP_COST * used + used * count - sum(sizes)

    return min(PER_STRIP, key=cost)


def strips(view, most):
    """[(title or '', rows)]: the groups cut to strips of even length."""
    found = []
    for group in view.groups:
        count = len(group.workloads)
        length = -(-count // -(-count // most))
        for at in range(0, count, length):
            found.append(("" if at else group.title, group.workloads[at : at + length]))
    return found


def scale_top(view, metric):
    """The common upper end: what 95% of the bars stay below, within 1.25 to 3."""
    ratios = [view.ratio(w, name, metric) for w in view.workloads for name in view.others]
    values = sorted(ratio.value for ratio in ratios if ratio)
    most = values[int(0.95 * (len(values) - 1))] if values else 1
    return min(3.0, max(1.25, 1.1 * most))


def draw(view, metric):
    """The figure, or None where nothing is to be compared."""
    if not view.others or not view.workloads:
        return None
    columns = per_strip(view)
    found = strips(view, columns)
    top = scale_top(view, metric)
    legend_lines = -(-len(view.names) // LEGEND_COLUMNS)
    head = 0.82 + 0.24 * legend_lines
    height = head + sum(STRIP + (ABOVE if title else 0.06) for title, _ in found) + 0.32
    figure = plt.figure(figsize=(WIDTH, height))
    at = height - head
    for title, rows in found:
        at -= STRIP + (ABOVE if title else 0.06)
        axes = figure.add_axes([0.035, (at + 0.44) / height, 0.955, (STRIP - 0.5) / height])
        draw_strip(axes, view, metric, rows, (columns, top))
        if title:
            words = report_words.capital(title)
            axes.set_title(words, loc="left", fontsize=11, fontweight="bold", pad=9)
    what = report_words.capital(TITLES[metric])
    below = (
        f"{view.base} is the line at 1; lower is better. "
        "In the legend: geometric means over all rows."
    )
    if view.hero:
        below += f" Under each name: {view.hero}'s own."
    plots.heading(figure, f"{what} relative to {view.base}", below, height)
    draw_legend(figure, view, metric, height)
    plots.footing(figure, view, height)
    return figure


def draw_legend(figure, view, metric, height):
    order = report_words.ranking(view, metric, view.workloads)
    for index, (name, mean) in enumerate(order):
        column, line = index % LEGEND_COLUMNS, index // LEGEND_COLUMNS
        x = 0.012 + column * 0.197
        y = 1 - (0.86 + 0.24 * line) / height
        short = "" if mean.count == mean.total else f" ({mean.count} rows)"
        figure.text(
            x, y, "■", color=view.colours[name].light, fontsize=14, va="center", ha="left",
        )  # fmt: skip
        figure.text(
            x + 0.017, y, f"{name}  {figure_text(mean.value)}{short}", fontsize=10, va="center",
            fontweight="bold" if name == view.hero else "normal",
        )  # fmt: skip


def draw_strip(axes, view, metric, rows, size):
    columns, top = size
    shown = view.others
    width = GROUP_WIDTH / len(shown)
    for place, workload in enumerate(rows):
        for index, name in enumerate(shown):
            x = place + (index - (len(shown) - 1) / 2) * width
            draw_bar(axes, view, workload, name, metric, (x, width, top))
        label(axes, view, workload, metric, (place, columns))
    axes.axhline(1.0, color=INK.light, linewidth=0.9, zorder=6)
    axes.set_xlim(-0.5, columns - 0.5)
    axes.set_ylim(0, top)
    axes.set_xticks([])
    ticks = [tick / 2 for tick in range(int(2 * top) + 1)]
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks], fontsize=9)
    axes.grid(axis="y", color=GRID.light, linewidth=0.7)
    axes.set_axisbelow(True)
    plots.bare(axes, "top", "right", "left")


def draw_bar(axes, view, workload, name, metric, where):
    x, width, top = where
    colour, strong = view.colours[name].light, name == view.hero
    bad, ratio = view.bad(workload, name), view.ratio(workload, name, metric)
    if bad:
        axes.text(
            x, 0.04 * top, f"✗ {bad[0]}", rotation=90, ha="center", va="bottom", fontsize=8,
            color=FAILURE.light, fontweight="bold", zorder=7,
        )  # fmt: skip
    if bad or not ratio:
        return
    hatch = "////" if name in view.hardened else None
    axes.bar(
        [x], [min(ratio.value, top)], width * 0.94, color=colour, linewidth=0,
        zorder=4 if strong else 3, hatch=hatch, edgecolor=PAPER.light,
    )  # fmt: skip
    if ratio.value > top:
        axes.text(
            x, 0.97 * top, figure_text(ratio.value), rotation=90, ha="center", va="top",
            fontsize=7.5, color=PAPER.light, fontweight="bold", zorder=8,
            bbox={"facecolor": colour, "edgecolor": "none", "pad": 0.6},
        )  # fmt: skip
    elif ratio.high - ratio.low > 0.02 * top:
        ends = [ratio.low, min(ratio.high, top)]
        axes.plot([x, x], ends, color=INK.light, linewidth=0.8, zorder=5)


def label(axes, view, workload, metric, where):
    """The row's name, and under it loam's own figure; or why there is nothing to compare."""
    place, columns = where
    names = "\n".join(textwrap.wrap(workload.name, int(165 / columns), break_long_words=False))
    axes.annotate(
        names, (place, 0), (0, -4), textcoords="offset points", ha="center", va="top", fontsize=9,
    )  # fmt: skip
    below = -15 - 11 * names.count("\n")
    bad = view.bad(workload, view.base)
    ratio = view.hero and view.ratio(workload, view.hero, metric)
    if bad:
        words, colour = f"{view.base}: {bad[0]}", FAILURE.light
    elif ratio:
        words, colour = figure_text(ratio.value), view.colours[view.hero].light
    else:
        words, colour = "–", FAINT.light
    axes.annotate(
        words, (place, 0), (0, below), textcoords="offset points", ha="center", va="top",
        fontsize=9, fontweight="bold", color=colour,
    )  # fmt: skip
