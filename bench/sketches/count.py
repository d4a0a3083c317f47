#!/usr/bin/env python3
"""count.py: instructions of a sketch's calls, counted by callgrind.

    count.py DRIVER LAYOUT.so...

One window a call: the cheapest of 24 is the fast path, ret included; the median and the dearest show
how often it is left and what that costs; "pair" is a warm malloc and free in batches of 16, slow paths included, averaged over 1,024.
Only instructions inside the layout's shared object count. It cannot see time.
"""

import collections
import glob
import os
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "guard"))
import callgrind  # noqa: E402

COLUMNS = [
    ("malloc", 48), ("malloc", 3000), ("malloc", 40000),
    ("free", 48), ("free", 3000), ("free", 40000), ("free-NULL", 0),
    ("pair", 48), ("pair", 3000), ("pair", 40000),
]  # fmt: skip


def count(driver, layout):
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out")
        options = ["--zero-before=window_open", "--dump-before=window_close"]
        try:
            said = callgrind.run([driver, "count", layout], out, options)
        except callgrind.Failed as error:
            sys.exit(f"count: {layout}: {error}")
        plan = [line.split() for line in said.splitlines()]
        if len(glob.glob(out + ".*")) < len(plan):
            sys.exit("count: fewer windows than calls")
        figures = collections.defaultdict(list)
        for number, (what, size, calls) in enumerate(plan, start=1):
            cost = callgrind.Profile(f"{out}.{number}").cost(os.path.basename(layout))
            figures[what, int(size)].append(cost / int(calls))
        return figures


def main():
    driver, layouts = sys.argv[1], sys.argv[2:]
    print("instructions, ret included: cheapest call (median, dearest of 24); pair: average")
    heads = [f"{what} {size}" if size else what for what, size in COLUMNS]
    print(f"{'':<14}" + "".join(f"{head:>17}" for head in heads))
    for layout in layouts:
        figures = count(driver, layout)
        cells = []
        for what, size in COLUMNS:
            costs = figures[what, size]
            if what == "pair":
                cells.append(f"{costs[0]:.1f}")
            elif what == "free-NULL":
                cells.append(f"{costs[0]:.0f}")
            else:
                cells.append(f"{min(costs):.0f} ({statistics.median(costs):.0f}, {max(costs):.0f})")
        name = os.path.basename(layout).removesuffix(".so")
        print(f"{name:<14}" + "".join(f"{cell:>17}" for cell in cells))


if __name__ == "__main__":
    main()
