"""What the figures say, in words: where loam stands, what it wins and loses, everybody's worst.

No figure is written here that was not measured, and none is left out because loam looks bad in
it: wins and losses come from one rule. "Rows" are workloads at a number of threads.
"""

from dataclasses import dataclass

from lab.report_data import SUITES, TITLES
from lab.results import TIE

ORDINALS = "lowest,second lowest,third lowest,fourth lowest,fifth lowest,sixth lowest".split(",")
ASKED = ("cpu_s", "peak_kib")


@dataclass(frozen=True)
class Against:
    """loam against one rival in one metric: the geometric mean of the ratios, and the count."""

    mean: object
    ahead: int
    tie: int
    behind: int


@dataclass(frozen=True)
class Worst:
    """The row in which an allocator stands worst against the lowest of that row."""

    name: str
    factor: float
    workload: object
    best: str


def figure(value):
    """A ratio as it is written everywhere: two decimals, fewer where it is large."""
    if value is None:
        return "–"
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 99.95 else f"{value:.0f}"


def interval(found):
    return f"{figure(found.low)}–{figure(found.high)}"


def seconds(value):
    return "–" if value is None else f"{value:.3f} s" if value < 1 else f"{value:.2f} s"


def memory(kib):
    if kib is None:
        return "–"
    mib = kib / 1024
    return f"{mib:.1f} MiB" if mib < 99.95 else f"{mib:.0f} MiB"


def amount(value, metric):
    return memory(value) if metric == "peak_kib" else seconds(value)


def capital(text):
    """With a capital at its beginning and the rest as it is."""
    return text[:1].upper() + text[1:]


def listed(words):
    words = list(words)
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]


def rows_text(count):
    return "1 row" if count == 1 else f"{count} rows"


# ---- where loam stands --------------------------------------------------------------------------


def ranking(run, metric, workloads, names=None):
    """[(name, Mean)], the lowest first."""
    found = [(name, run.mean(name, metric, workloads)) for name in names or run.names]
    return sorted(((n, m) for n, m in found if m), key=lambda each: each[1].value)


def standing(run, metric, scope, workloads):
    """One sentence: loam's geometric mean, its place, who is ahead or next, who ties with it."""
    order = ranking(run, metric, workloads)
    place = next((i for i, (name, _) in enumerate(order) if name == run.hero), None)
    if place is None:
        return f"{scope}: no {TITLES[metric]} of {run.hero} can be compared."
    own = order[place][1]
    rank = ORDINALS[place] if place < len(ORDINALS) else f"{place + 1}th lowest"
    where = "over all " if scope == "all" else f"on {SUITES.get(scope, scope)}, over "
    where += rows_text(own.count)
    short = "" if own.count == own.total else f" (of {own.total}; the others failed)"
    text = (
        f"{capital(TITLES[metric])} {where}{short}: {figure(own.value)} of {run.base}'s "
        f"({interval(own)}), the {rank} of {len(order)}."
    )
    ahead = order[:place]
    if ahead:
        names = [f"{name} ({figure(mean.value)})" for name, mean in ahead[:4]]
        more = f" and {len(ahead) - 4} more" if len(ahead) > 4 else ""
        text += f" Lower: {', '.join(names)}{more}."
    elif len(order) > 1:
        text += f" Next: {order[1][0]} ({figure(order[1][1].value)})."
    close = [n for n, mean in order if n != run.hero and is_close(mean, own)]
    if close:
        text += f" Within 5%, so a tie: {', '.join(close)}."
    return text


def is_close(one, other):
    ratio = one.value / other.value
    return 1 / (1 + TIE) <= ratio <= 1 + TIE


def headline(run):
    """[(scope, [sentence])] for loam; empty where it did not run."""
    if not run.hero:
        return []
    return [
        (
            scope,
            [
                f"{standing(run, metric, scope, workloads)} {score(run, metric, workloads)}"
                for metric in ASKED
            ],
        )
        for scope, workloads in run.scopes
    ]


def score(run, metric, workloads):
    """One sentence: row by row, against whichever rival is the best there."""
    rows = row_by_row(run, metric, workloads)
    counts = [
        f"{len(rows[word])} {text}"
        for word, text in (("ahead", "won"), ("tie", "tied"), ("behind", "lost"))
    ]
    return f"Row by row against the best rival of each: {', '.join(counts)}."


# ---- wins and losses ----------------------------------------------------------------------------


def against(run, rival, metric):
    """loam against one rival as Against, or None."""
    mean = run.mean(run.hero, metric, run.workloads, rival)
    if not mean:
        return None
    verdicts = [run.verdict(w, run.hero, rival, metric) for w in run.workloads]
    return Against(mean, *(verdicts.count(word) for word in ("ahead", "tie", "behind")))


def rivals(run):
    """[(name, {metric: Against})] for every allocator but loam."""
    names = [name for name in run.names if name != run.hero]
    return [(n, {metric: against(run, n, metric) for metric in ASKED}) for n in names]


def fast_rivals(run):
    """Those that loam is measured against row by row: not the hardened, not glibc's or its own."""
    return [n for n in run.names if n != run.hero and n not in run.hardened]


def row_by_row(run, metric, workloads=None):
    """{'ahead'|'tie'|'behind': [(ratio, workload, best rival)]}, the largest differences first.

    Against the best of the fast rivals in each row, whoever that is: a hard measure, which
    no single allocator passes everywhere.
    """
    found = {"ahead": [], "tie": [], "behind": []}
    for workload in run.workloads if workloads is None else workloads:
        best = run.lowest(workload, metric, fast_rivals(run))
        ratio = best and run.ratio(workload, run.hero, metric, best)
        if ratio:
            verdict = run.verdict(workload, run.hero, best, metric)
            found[verdict].append((ratio.value, workload, best))
    found["ahead"].sort(key=lambda each: each[0])
    found["behind"].sort(key=lambda each: -each[0])
    return found


def worst(run, name, metric):
    """Worst of one allocator, or None: against the lowest of all allocators in that row."""
    found = []
    for workload in run.workloads:
        best = run.lowest(workload, metric, run.names)
        ratio = best and best != name and run.ratio(workload, name, metric, best)
        if ratio:
            found.append(Worst(name, ratio.value, workload, best))
    return max(found, key=lambda each: each.factor, default=None)


def worst_cases(run):
    """[(name, {metric: Worst or None}, failed rows)], all allocators."""
    failed = [name for _, name, *_ in run.failures()]
    return [(n, {m: worst(run, n, m) for m in ASKED}, failed.count(n)) for n in run.names]


# ---- how it was measured ------------------------------------------------------------------------


def machine(run):
    """The machine in a line, of what is known about it."""
    found = run.meta.get("machine") or {}
    cores = found.get("cores")
    parts = [
        found.get("model"),
        cores and f"{cores} core{'s' if cores != 1 else ''}",
        found.get("memory_kib") and f"{found['memory_kib'] / 2**20:.1f} GiB",
        found.get("kernel") and f"Linux {found['kernel']}",
        found.get("libc"),
        huge_pages(run) and f"huge pages: {huge_pages(run)}",
    ]
    return ", ".join(str(part) for part in parts if part)


def huge_pages(run):
    """Of the runs, and of the machine where that is another."""
    own = (run.meta.get("machine") or {}).get("thp", "")
    asked = (run.meta.get("options") or {}).get("thp", "default")
    return own if asked in ("default", own) else f"{asked} (the machine's: {own})"


def when(run):
    return str(run.meta.get("started", ""))[:16].replace("T", " ")


def commit(run):
    text = str(run.meta.get("commit", ""))[:12]
    return f"{text} with changes" if text and run.meta.get("dirty") else text


def how(run):
    """One line under a picture."""
    rounds = run.rounds
    parts = [
        f"median of {rounds} interleaved round{'s' if rounds != 1 else ''}",
        machine(run), when(run), commit(run) and f"loam at {commit(run)}",
    ]  # fmt: skip
    return "; ".join(part for part in parts if part)
