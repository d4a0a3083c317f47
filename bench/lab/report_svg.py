"""The page's own drawings, as inline SVG: time against memory, memory over time.

Inline, because then they take the page's colours, light or dark, and its switches for single
allocators; the standalone pictures are plots.py's. Each is drawn twice, wide and narrow: a wide
one shrunk to a telephone's width has letters that nobody reads.

Letters are 12 units high, and a unit is a pixel where a drawing has its own width.
"""

from html import escape
from math import exp, log

from lab import plots_place
from lab.report_words import figure, interval, memory

LETTER = 6.9
LINE = 14
WIDE, HALF, NARROW = (1000, 520), (600, 420), (358, 390)


def text(x, y, words, anchor="start", kind="", weight=""):
    classes = f' class="{kind}"' if kind else ""
    bold = f' font-weight="{weight}"' if weight else ""
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f"<text {place}{classes}{bold}>{escape(words)}</text>"


def line(x1, y1, x2, y2, kind):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def drawing(size, kind, label, parts):
    width, height = size
    body = "\n".join(parts)
    return (
        f'<svg class="{kind}" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escape(label)}">\n{body}\n</svg>'
    )


# ---- time against memory ------------------------------------------------------------------------


def scatter(view, workloads, marks, wide=WIDE):
    """Both sizes of the picture of all allocators, or nothing where there are no two figures.

    marks: {name: class} of the page.
    """
    points = {}
    for name in view.names:
        time, space = (view.mean(name, metric, workloads) for metric in ("cpu_s", "peak_kib"))
        if time and space:
            points[name] = (space, time)
    if not points:
        return ""
    return "".join(
        scatter_of(points, view.base, marks, size, kind)
        for size, kind in ((wide, "wide"), (NARROW, "narrow"))
    )


class Scale:
    """From a ratio to a coordinate, logarithmic."""

    def __init__(self, values, start, end):
        low, high = log(min(values)), log(max(values))
        margin = max(0.06 * (high - low), 0.02)
        self.low, self.high = low - margin, high + margin
        self.start, self.end = start, end

    def __call__(self, value):
        part = (log(value) - self.low) / (self.high - self.low)
        return self.start + min(1.0, max(0.0, part)) * (self.end - self.start)

    def ticks(self, most):
        return plots_place.ticks(exp(self.low), exp(self.high), most)


def scatter_of(points, base, marks, size, kind):
    width, height = size
    frame = (52, 14, width - 12, height - 44)
    x_of = Scale([v for s, _ in points.values() for v in (s.value,)] + [1], frame[0], frame[2])
    y_of = Scale([v for _, t in points.values() for v in (t.value,)] + [1], frame[3], frame[1])
    parts = axes(x_of, y_of, frame, size, base)
    places = [(x_of(space.value), y_of(time.value)) for space, time in points.values()]
    sizes = [(len(name) * LETTER + 2, LINE) for name in points]
    whiskers = plots_place.cross(x_of(1), y_of(1), frame[0], frame[2], frame[1], frame[3])
    for (space, time), (x, y) in zip(points.values(), places):
        ends = (x_of(space.low), x_of(space.high), y_of(time.high), y_of(time.low))
        whiskers += plots_place.cross(x, y, *ends)
    labels = plots_place.around(places, sizes, frame, whiskers)
    for (name, (space, time)), (x, y), label in zip(points.items(), places, labels):
        title = (
            f"{name}: CPU time {figure(time.value)} ({interval(time)}), "
            f"peak RSS {figure(space.value)} ({interval(space)}), {time.count} of {time.total} rows"
        )
        parts.append(f'<g class="{marks[name]} point"><title>{escape(title)}</title>')
        parts.append(line(x_of(space.low), y, x_of(space.high), y, "whisker"))
        parts.append(line(x, y_of(time.low), x, y_of(time.high), "whisker"))
        if label.far:
            parts.append(line(x, y, label.x, label.y, "leader"))
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5.5"/>')
        parts.append(text(label.x, label.y + 4, name, label.anchor, "name"))
        parts.append("</g>")
    return drawing(size, kind, "CPU time against peak memory of each allocator", parts)


def axes(x_of, y_of, frame, size, base):
    parts = []
    most = 5 if size == NARROW else 8
    for tick in x_of.ticks(most):
        kind = "one" if tick == 1 else "grid"
        parts.append(line(x_of(tick), frame[1], x_of(tick), frame[3], kind))
        parts.append(text(x_of(tick), frame[3] + 16, f"{tick:g}", "middle", "tick"))
    for tick in y_of.ticks(most):
        kind = "one" if tick == 1 else "grid"
        parts.append(line(frame[0], y_of(tick), frame[2], y_of(tick), kind))
        parts.append(text(frame[0] - 6, y_of(tick) + 4, f"{tick:g}", "end", "tick"))
    middle = (frame[1] + frame[3]) / 2
    words = f"peak RSS relative to {base} →" if size != NARROW else "peak RSS →"
    parts.append(text(frame[2], size[1] - 8, words, "end", "axis"))
    parts.append(text(frame[0], size[1] - 8, "↙ lower left is better", "start", "axis"))
    parts.append(
        f'<text transform="translate(11 {middle:.0f}) rotate(-90)" text-anchor="middle" '
        f'class="axis">CPU time relative to {escape(base)} →</text>'
    )
    return parts


# ---- memory over time ---------------------------------------------------------------------------


def curves(view, lines, marks):
    """Both sizes of one workload's curves; lines: {name: [(ms, KiB)]}."""
    shown = {name: curve for name, curve in lines.items() if curve}
    if not shown:
        return ""
    return "".join(
        curves_of(view, shown, marks, size, kind)
        for size, kind in (((600, 340), "wide"), ((358, 340), "narrow"))
    )


def curves_of(view, lines, marks, size, kind):
    width, height = size
    names = max(len(name) for name in lines)
    frame = (52, 22, width - names * LETTER - 16, height - 34)
    end = max(curve[-1][0] for curve in lines.values()) or 1
    top = max(kib for curve in lines.values() for _, kib in curve) * 1.04 or 1
    unit = step(top / 1024)
    parts = []
    level = 0
    while level * 1024 <= top:
        y = frame[3] - level * 1024 / top * (frame[3] - frame[1])
        parts.append(line(frame[0], y, frame[2], y, "grid"))
        parts.append(text(frame[0] - 6, y + 4, f"{level:g}", "end", "tick"))
        level += unit
    parts.append(text(2, 11, "RSS in MiB", "start", "axis"))
    parts += seconds_axis(end, frame, size)
    order = list(lines)
    ends = [frame[3] - lines[n][-1][1] / top * (frame[3] - frame[1]) for n in order]
    wanted = plots_place.spread(ends, LINE, frame[1], frame[3])
    for name, y, label in sorted(zip(order, ends, wanted), key=lambda each: each[0] == view.hero):
        curve = thinned(lines[name], 160)
        path = " ".join(
            f"{frame[0] + ms / end * (frame[2] - frame[0]):.1f},"
            f"{frame[3] - kib / top * (frame[3] - frame[1]):.1f}"
            for ms, kib in curve
        )
        last = frame[0] + curve[-1][0] / end * (frame[2] - frame[0])
        peak = max(kib for _, kib in lines[name])
        title = f"{name}: peak {memory(peak)}, at the end {memory(curve[-1][1])}"
        parts.append(f'<g class="{marks[name]} curve"><title>{escape(title)}</title>')
        parts.append(f'<polyline points="{path}"/>')
        parts.append(
            f'<path class="leader" d="M{last:.1f} {y:.1f}H{frame[2]:.1f}L{frame[2] + 6:.1f} '
            f'{label:.1f}"/>'
        )
        parts.append(text(frame[2] + 8, label + 4, name, "start", "name"))
        parts.append("</g>")
    return drawing(size, kind, "resident memory over time, one line an allocator", parts)


def seconds_axis(end, frame, size):
    unit = step(end / 1000)
    parts, at = [], 0.0
    while at * 1000 <= end:
        x = frame[0] + at * 1000 / end * (frame[2] - frame[0])
        parts.append(text(x, frame[3] + 15, f"{at:g}", "middle", "tick"))
        at = round(at + unit, 6)
    parts.append(text(frame[2], size[1] - 4, "seconds", "end", "axis"))
    return parts


def step(most):
    """A round distance of grid lines: four to eight up to `most`."""
    size = 10.0**-6
    while True:
        for factor in (1, 2, 5):
            if most / (size * factor) <= 8:
                return size * factor
        size *= 10


def thinned(curve, most):
    """At most about that many points, the highest of each stretch kept."""
    if len(curve) <= most:
        return curve
    width = -(-len(curve) // most)
    parts = [curve[at : at + width] for at in range(0, len(curve), width)]
    kept = [max(part, key=lambda point: point[1]) for part in parts]
    return [curve[0], *kept[1:-1], curve[-1]]
