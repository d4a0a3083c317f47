"""Pictures of the family's tables: bars for those with columns, lines over the count for table 003.

Bars: a panel for each column, a bar for each row, times the reference's time; the best rival, the
reference and loam have colours of their own. A failed cell is written where its bar would be.
Lines: as the seed's figures, a panel for each allocator and in it a line for each size; the scales
are logarithmic. Draws without a display.
"""

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402

import figures as shown  # noqa: E402
from lab.plots_colours import FAILURE, FAINT, GRID, INK, KNOWN  # noqa: E402

RENDITION = "#7d8590"
RIVAL = "#08519c"
RIVAL_HUGE = "#9cc3e8"
BESIDE = 0.38
SIZES = {"16": "#9ecae1", "64": "#4a94d0", "256": "#08519c", "1024": "#b8860b", "4096": "#6a51a3"}
MARKS = {"16": "o", "64": "s", "256": "^", "1024": "D", "4096": "v"}

plt.rcParams.update(
    {
        "font.size": 9,
        "axes.edgecolor": FAINT.light,
        "axes.labelcolor": INK.light,
        "text.color": INK.light,
        "xtick.color": FAINT.light,
        "ytick.color": INK.light,
        "svg.hashsalt": "family",
        "svg.fonttype": "none",
    }
)


def draw(figures, table, cells, out):
    if table.program == "pool":
        made = {"pool-cold": counts(figures, table, cells, "cold"),
                "pool-warm": counts(figures, table, cells, "warm")}  # fmt: skip
    else:
        made = {}
        for phase in shown.phases_of(figures, cells):
            name = table.program if phase == "use" else f"{table.program}-{phase.replace(' ', '')}"
            many, few = split(cells)
            made[name] = bars(figures, table, many, phase)
            made[f"{name}-few"] = bars(figures, table, few, phase)
    for name, picture in made.items():
        if picture is None:
            continue
        for kind in ("svg", "png"):
            metadata = {"Date": None} if kind == "svg" else None
            picture.savefig(out / f"{name}.{kind}", dpi=110, bbox_inches="tight", metadata=metadata)
        plt.close(picture)


def split(cells):
    """Columns that most rows have, and those of a few: these get a picture without the others."""
    rows = {}
    for cell in cells:
        rows.setdefault(cell.column, set()).add(cell.row)
    most = max(map(len, rows.values()))
    few = {column for column, names in rows.items() if len(names) * 3 < most}
    return [c for c in cells if c.column not in few], [c for c in cells if c.column in few]


def colour(kind, huge):
    if kind == "loam":
        return KNOWN["loam"].light if not huge else "#f4a574"
    if kind == "rendition":
        return RENDITION if not huge else "#c3c8ce"
    if kind == "limit":
        return INK.light if not huge else "#77777f"
    return RIVAL if not huge else RIVAL_HUGE


def named(kind):
    """How a row's name is written: loam's in its colour, and bold as the seed's own rules are."""
    return {
        "color": colour(kind, False) if kind == "loam" else INK.light,
        "fontweight": "normal" if kind == "rival" else "bold",
    }


def bars(figures, table, cells, phase):
    has = [cell for cell in cells if (cell, phase) in figures.times]
    columns = list(dict.fromkeys(cell.column for cell in has))
    if not columns:
        return None
    rows = [name for name in table.rows if any(cell.row == name for cell in cells)]
    pages = list(dict.fromkeys(cell.huge for cell in cells))
    across = min(4, len(columns))
    down = -(-len(columns) // across)
    picture, axes = plt.subplots(
        down, across, figsize=(3.1 * across + 1.2, 0.21 * len(rows) * down + 0.9 * down + 0.8),
        sharey=True, squeeze=False,
    )  # fmt: skip
    for place, axis in enumerate(axes.flat):
        if place >= len(columns):
            axis.set_visible(False)
            continue
        panel(axis, figures, table, cells, rows, pages, columns[place], phase)
    for line in axes:
        line[0].set_yticks(range(len(rows)), rows)
        line[0].set_ylim(len(rows) - 0.4, -0.6)
        for label, name in zip(line[0].get_yticklabels(), rows):
            label.set(**named(table.rows[name]["kind"]))
    labels = [
        ("rival", "rivals"),
        ("rendition", "the seed's own rules"),
        ("loam", "loam"),
        ("limit", "no allocator"),
    ]
    kinds = {table.rows[name]["kind"] for name in rows}
    handles = [
        plt.Rectangle((0, 0), 1, 1, color=colour(kind, huge == "madvise"),
                      label=name + (f", huge pages {huge}" if len(pages) > 1 else ""))
        for kind, name in labels if kind in kinds for huge in pages
    ]  # fmt: skip
    picture.suptitle(f"{table.title} ({phase})", y=1.0, fontsize=11)
    picture.tight_layout(rect=(0, 0.03, 1, 0.995))
    picture.legend(handles=handles, loc="upper center", ncols=min(4, len(handles)), frameon=False,
                   bbox_to_anchor=(0.5, 0.03))  # fmt: skip
    return picture


def panel(axis, figures, table, cells, rows, pages, column, phase):
    values = {}
    for cell in cells:
        if cell.column == column:
            found = figures.ratio(cell, phase) or figures.time(cell, phase)
            values[cell.row, cell.huge] = (cell, found)
    is_ratio = any(figures.ratio(cell, phase) for cell, _ in values.values())
    if not is_ratio:
        values = {key: (cell, found and found.times(1e3)) for key, (cell, found) in values.items()}
    high = max((found.value for _, found in values.values() if found), default=1.0)
    limit = min(high, 4.0) if is_ratio else high
    thick = 0.76 / len(pages)
    for (row, huge), (cell, found) in values.items():
        at = rows.index(row) + (pages.index(huge) - (len(pages) - 1) / 2) * thick
        if not found:
            bad = figures.status(cell)
            if bad:
                axis.text(0.02 * limit, at, bad[0], color=FAILURE.light, va="center", fontsize=7)
            continue
        kind = table.rows[row]["kind"]
        axis.barh(at, min(found.value, limit), thick, color=colour(kind, huge == "madvise"))
        if found.high > found.low and found.value < limit:
            axis.plot([found.low, min(found.high, limit)], [at, at], color=INK.light, linewidth=0.8)
        text = f"{found.value:.2f}" if is_ratio else shown.short(found.value)
        right = min(max(found.value, found.high), limit * 1.04)
        axis.text(right + 0.02 * limit, at, ("▸ " if found.value > limit else "") + text,
                  va="center", fontsize=6.5 if len(pages) > 1 else 7.5,
                  color=FAINT.light)  # fmt: skip
    if is_ratio:
        axis.axvline(1, color=RENDITION, linewidth=0.8, zorder=0)
    axis.set_xlim(0, limit * 1.22)
    axis.set_title(column, fontsize=9, loc="left")
    axis.tick_params(length=0)
    axis.xaxis.grid(True, color=GRID.light, linewidth=0.6)
    axis.set_axisbelow(True)
    reference = next((n for n, row in table.rows.items() if row["kind"] == "rendition"), "")
    axis.set_xlabel(f"times {reference}" if is_ratio else "milliseconds", fontsize=7.5)
    for side in ("top", "right", "left"):
        axis.spines[side].set_visible(False)


def counts(figures, table, cells, phase):
    """A panel for each row; lines by size, each of its most telling order of frees."""
    orders = {cell.column.split("-")[1] for cell in cells}
    order = next((order for order in ("random", "fifo", "lifo") if order in orders), None)
    cells = [cell for cell in cells if order and cell.column.endswith(order)]
    shown_rows = {cell.row for cell in cells if (cell, phase) in figures.times}
    rows = [name for name in table.rows if name in shown_rows]
    if not rows:
        return None
    across = min(3, len(rows))
    down = -(-len(rows) // across)
    picture, axes = plt.subplots(
        down, across, figsize=(3.4 * across, 2.5 * down + 0.5), sharex=True, sharey=True,
        squeeze=False
    )  # fmt: skip
    for place, axis in enumerate(axes.flat):
        if place >= len(rows):
            axis.set_visible(False)
            continue
        row = rows[place]
        for size in SIZES:
            line = sorted(
                (cell for cell in cells if cell.row == row and cell.column == f"{size}-{order}"),
                key=lambda cell: cell.n,
            )
            points = [(cell.n, figure_of(figures, cell, phase)) for cell in line]
            points = [(n, found) for n, found in points if found]
            if points:
                axis.plot([n for n, _ in points], [f.value for _, f in points], color=SIZES[size],
                          marker=MARKS[size], markersize=3, linewidth=1.4,
                          label=f"{size} bytes")  # fmt: skip
                axis.fill_between([n for n, _ in points], [f.low for _, f in points],
                                  [f.high for _, f in points], color=SIZES[size], alpha=0.2,
                                  linewidth=0)  # fmt: skip
        bad = {bad[0] for bad in (figures.status(c) for c in cells if c.row == row) if bad}
        if bad:
            axis.text(0.97, 0.04, f"missing points: {', '.join(sorted(bad))}", ha="right",
                      fontsize=7, transform=axis.transAxes, color=FAILURE.light)  # fmt: skip
        axis.set_title(row, fontsize=9, loc="left", **named(table.rows[row]["kind"]))
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.grid(True, color=GRID.light, linewidth=0.6)
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
    for axis in axes[-1]:
        axis.set_xlabel("objects")
    for place, axis in enumerate(axes.flat):  # panels above an empty place have the lowest axis
        if place + across >= len(rows) and place < len(rows):
            axis.set_xlabel("objects")
            axis.tick_params(labelbottom=True)
    unit = "ms, all" if phase == "cold" else "ns a pair"
    for line in axes:
        line[0].set_ylabel(unit)
    what = "allocated and freed once, fresh memory" if phase == "cold" else "again and again, warm"
    way = {"random": "in random order", "fifo": "from the first", "lifo": "from the last"}[order]
    picture.suptitle(f"Fixed pools: {what}; freed {way}", fontsize=11)
    handles, labels = axes[0][0].get_legend_handles_labels()
    picture.tight_layout(rect=(0, 0.02, 1, 0.99))
    picture.legend(handles, labels, loc="upper center", ncols=len(labels), frameon=False,
                   bbox_to_anchor=(0.5, 0.02))  # fmt: skip
    return picture


def figure_of(figures, cell, phase):
    found = figures.time(cell, phase) if phase == "cold" else figures.each(cell, phase)
    if not found:
        return None
    return found.times(1e3 if phase == "cold" else 1e9)
