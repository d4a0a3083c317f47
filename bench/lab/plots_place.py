"""Where labels go so that they neither overlap nor lose what they name.

Works in plain units of the page (pixels, points), so that the standalone pictures and the
page's own drawings place theirs alike. No optimum: a greedy choice, good for some dozen labels.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Label:
    """A placed label: its anchor's position and 'start', 'middle' or 'end'; whether it is far."""

    x: float
    y: float
    anchor: str
    far: bool


def spread(positions, gap, low, high):
    """The positions moved apart to at least `gap`, in order, within low..high if they fit."""
    if not positions:
        return []
    order = sorted(range(len(positions)), key=lambda index: positions[index])
    gap = min(gap, (high - low) / max(1, len(positions) - 1))
    blocks = []  # [sum of wanted starts, count], each a run of labels that touch
    for rank, index in enumerate(order):
        blocks.append([positions[index], 1])
        while len(blocks) > 1 and start(blocks[-2]) + blocks[-2][1] * gap > start(blocks[-1]):
            total, count = blocks.pop()
            blocks[-1][0] += total - count * blocks[-1][1] * gap
            blocks[-1][1] += count
    placed = [0.0] * len(positions)
    turn = 0
    for block in blocks:
        for step in range(block[1]):
            placed[order[turn]] = start(block) + step * gap
            turn += 1
    return inside(placed, order, gap, low, high)


def start(block):
    return block[0] / block[1]


def inside(placed, order, gap, low, high):
    """Pushes what stands outside back in, and its neighbours along."""
    for rank, index in enumerate(order):
        placed[index] = max(placed[index], low + rank * gap)
    for rank, index in enumerate(reversed(order)):
        placed[index] = min(placed[index], high - rank * gap)
    return placed


def boxes(x, y, width, height, near, far):
    """Candidate places around a point, the best first: (label, box)."""
    for distance in (near, near * 1.8, far, far * 1.6, far * 2.3):
        away = distance > near * 1.8
        for dx, dy in (
            (1, 0),
            (-1, 0),
            (0, -1),
            (0, 1),
            (0.8, -0.8),
            (0.8, 0.8),
            (-0.8, -0.8),
            (-0.8, 0.8),
        ):
            at_x, at_y = x + dx * distance, y + dy * (distance + height * 0.35)
            anchor = "start" if dx > 0 else "end" if dx < 0 else "middle"
            left = at_x - {"start": 0, "middle": width / 2, "end": width}[anchor]
            box = (left, at_y - height / 2, left + width, at_y + height / 2)
            yield Label(at_x, at_y, anchor, away), box


def overlap(one, other):
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    return max(0.0, width) * max(0.0, height)


def outside(box, frame):
    beyond = max(0, frame[0] - box[0]) + max(0, box[2] - frame[2])
    return beyond * 100 + 100 * (max(0, frame[1] - box[1]) + max(0, box[3] - frame[3]))


def around(points, sizes, frame, obstacles=(), near=9.0):
    """A Label for each point: beside it where nothing is, else farther off.

    points: [(x, y)]; sizes: [(width, height)] of the labels; frame: (left, top, right, bottom);
    obstacles: boxes to keep clear of, whiskers for one.
    """
    marks = [(x - 6, y - 6, x + 6, y + 6) for x, y in points]
    taken, labels = list(obstacles), [None] * len(points)
    crowd = sorted(range(len(points)), key=lambda index: -crowding(points, index))
    for index in crowd:
        best = None
        others = marks[:index] + marks[index + 1 :]
        for rank, (label, box) in enumerate(boxes(*points[index], *sizes[index], near, near * 3)):
            cost = rank * 0.7 + outside(box, frame)
            cost += 4 * sum(overlap(box, other) for other in taken)
            cost += 2 * sum(overlap(box, other) for other in others)
            if best is None or cost < best[0]:
                best = (cost, label, box)
        labels[index] = best[1]
        taken.append(best[2])
    return labels


def cross(x, y, left, right, top, bottom):
    """The boxes of a point's two whiskers."""
    return [(left, y - 1.5, right, y + 1.5), (x - 1.5, top, x + 1.5, bottom)]


def crowding(points, index):
    x, y = points[index]
    return sum(1 / (30 + abs(x - a) + abs(y - b)) for a, b in points)


def ticks(low, high, most=7):
    """Round figures for a logarithmic axis of ratios, all within low..high."""
    fine = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]
    finer = [
        0.1,
        0.2,
        0.3,
        0.4,
        0.5,
        0.6,
        0.7,
        0.8,
        0.9,
        1,
        1.2,
        1.4,
        1.6,
        1.8,
        2,
        2.5,
        3,
        4,
        5,
        7,
        10,
    ]
    hundredths = [step / 100 for step in range(50, 200)]
    fiftieths = [step / 50 for step in range(25, 100)]
    tenths = [step / 10 for step in range(1, 30)]
    twentieths = [step / 20 for step in range(2, 60)]
    fifths = [step / 5 for step in range(1, 20)]
    quarters = [step / 4 for step in range(1, 20)]
    every = (hundredths, fiftieths, twentieths, tenths, finer, fifths, quarters, fine)
    fits = [[tick for tick in steps if low <= tick <= high] for steps in every]
    return next((found for found in fits if 2 < len(found) <= most), fits[-1] or [1.0])
