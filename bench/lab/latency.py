"""How long single calls took: the lines that a workload prints, latency.csv, and their medians.

    latency malloc calls=2000000 p50=31 p99=190 p99.9=720 p99.99=3400 slow=61

Figures are cycles of the processor's counter (bench/workloads/latency.h); `slow` is the number of
calls of more than 2,000. A workload of cases.toml with `latency = true` prints one such line for
each function. What is shown is the median over the rounds of each figure, in cycles and not
relative to glibc: a quantile of another allocator is no unit for one.
"""

import csv
import re
import statistics
from dataclasses import dataclass

QUANTILES = ("p50", "p99", "p99.9", "p99.99")
CALLS = ("malloc", "free")
COLUMNS = ("round", "workload", "threads", "allocator", "call", "calls", *QUANTILES, "slow")
LINE = re.compile(
    r"^latency ([a-z]+) calls=(\d+) p50=(\d+) p99=(\d+) p99\.9=(\d+) p99\.99=(\d+) slow=(\d+)$",
    re.MULTILINE,
)
# Within this factor of the lowest a figure counts as the lowest.
TIE = 1.25


@dataclass(frozen=True)
class Latency:
    """Cycles of each quantile, and the share of calls of more than 2,000 cycles, in percent."""

    calls: int
    quantiles: tuple
    slow: float


def parse(text):
    """{call: Latency} of what a workload printed; {} if it printed no such line."""
    found = {}
    for match in LINE.finditer(text):
        calls, *quantiles, slow = (int(word) for word in match.groups()[1:])
        share = 100 * slow / calls if calls else 0.0
        found[match[1]] = Latency(calls, tuple(quantiles), share)
    return found


def rows(row, found):
    """The lines of latency.csv for one run: dictionaries."""
    for call, each in found.items():
        place = (row.round, row.workload, row.threads, row.allocator, call, each.calls)
        yield dict(zip(COLUMNS, (*place, *each.quantiles, f"{each.slow:.6f}")))


def load(path):
    """{(workload, threads, allocator, call): {round: Latency}}; {} where there is no file.

    A run that was made again counts once, the last. A line that was cut off is left out.
    """
    found = {}
    if not path.exists():
        return found
    with open(path, newline="", encoding="utf-8") as file:
        for values in csv.reader(file):
            if len(values) != len(COLUMNS) or not values[0].isdigit():
                continue
            quantiles = tuple(int(value) for value in values[6:-1])
            key = (values[1], int(values[2]), values[3], values[4])
            latency = Latency(int(values[5]), quantiles, float(values[-1]))
            found.setdefault(key, {})[int(values[0])] = latency
    return found


def median(rounds):
    """The Latency whose figures are the medians of the rounds' figures, or None."""
    found = list(rounds.values())
    if not found:
        return None
    quantiles = zip(*(each.quantiles for each in found))
    return Latency(
        round(statistics.median(each.calls for each in found)),
        tuple(statistics.median(each) for each in quantiles),
        statistics.median(each.slow for each in found),
    )


def table(run, workload):
    """{allocator: {call: Latency}} of one workload; {} if it has no latencies.

    An allocator that failed there is left out.
    """
    found = {}
    for name in run.allocators:
        if run.cell(workload, name).bad:
            continue
        for call in CALLS:
            key = (workload.name, workload.threads, name, call)
            figures = median(run.latency.get(key, {}))
            if figures:
                found.setdefault(name, {})[call] = figures
    return found


def tables(run, workloads=None):
    """[(workload, table())] of every workload that has latencies."""
    chosen = run.workloads if workloads is None else workloads
    found = [(workload, table(run, workload)) for workload in chosen]
    return [(workload, each) for workload, each in found if each]


def best(figures, call, place):
    """The allocators whose quantile is within 1.25 times the lowest; none if all are.

    `place` counts the quantiles; one past them, the shares of slow calls.
    """
    values = {}
    for name, calls in figures.items():
        if call in calls:
            values[name] = value_of(calls[call], place)
    limit = TIE * min(values.values(), default=0)
    names = {name for name, value in values.items() if value <= limit}
    return names if len(names) < len(values) else set()


def value_of(figures, place):
    return (*figures.quantiles, figures.slow)[place]


def text_of(figures, place, width=6):
    """A cell: cycles, in thousands where they need more than `width` characters; or percent."""
    value = value_of(figures, place)
    if place == len(QUANTILES):
        return f"{value:.3f}%"
    whole = f"{value:.0f}"
    return whole if len(whole) <= width else f"{value / 1000:.0f}k"


def cells(figures, name):
    """[(text, value, whether it is among the lowest)] of an allocator: a cell for each column."""
    found = []
    for call in CALLS:
        for place in range(len(QUANTILES) + 1):
            each = figures[name].get(call)
            if each is None:
                found.append(("–", None, False))
            else:
                lowest = name in best(figures, call, place)
                found.append((text_of(each, place), value_of(each, place), lowest))
    return found


def headings():
    """The columns of such a table, in the order of cells()."""
    return [f"{call} {what}" for call in CALLS for what in (*QUANTILES, "slow")]
