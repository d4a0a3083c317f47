"""The lab's tables for a terminal, at 80 columns. Needs python3-rich.

One table for CPU time and one for peak memory: a line a workload, a column an
allocator; glibc's own figure, then ratios to it. With many allocators the
columns carry short names, spelled out below. Then each allocator in one line:
geometric means with their intervals, and where it is worst. Workloads that time
single calls have a table each: cycles of malloc and of free, a line an allocator.
"""

import statistics

from rich.text import Text

from lab import latency
from lab.results import BASELINE

WIDTH = 80
LABEL = 19
OWN = 7  # glibc's own figure, and a star or a blank
SPREAD = 4
HIGHLIGHT = "loam"
SHORT = {
    "glibc": "glibc", "mimalloc": "mi3", "mimalloc2": "mi2", "jemalloc": "je", "snmalloc": "sn",
    "rpmalloc": "rp", "tcmalloc": "tc", "tbbmalloc": "tbb", "scudo": "scu",
    "mimalloc-secure": "mis",
}  # fmt: skip
CODES = {
    "crash": "crsh", "timeout": "time", "failed": "fail", "differs": "diff", "not used": "none",
}  # fmt: skip
METRICS = (
    ("cpu_s", "CPU time, user + system, relative to glibc (lower is better)"),
    ("peak_kib", "Peak memory (RSS), relative to glibc (lower is better)"),
)
# Of a table of latencies: an allocator's name, then four quantiles and the share of slow calls.
NAME = 14
QUANTILE_WIDTHS = (5, 6, 7, 7, 8)
# Notes that are not broken into lines.
WITH_PATHS = ("executables", "failure", "preload", "standard input", "trouble")
SUITES = {"micro": "micro", "real": "programs", "user": "program"}


def short_of(name):
    return SHORT.get(name, name[:4])


def chunks(names):
    """At most ten allocators side by side."""
    return [names[at : at + 10] for at in range(0, len(names), 10)]


def column_width(names):
    return min(10, (WIDTH - LABEL - OWN - SPREAD) // max(1, len(names)))


def full_names(names):
    """Whether the columns are wide enough for them."""
    return all(len(name) < column_width(names) for name in names)


def ratio_text(value):
    if value < 9.995:
        return f"{value:.2f}"
    return f"{value:.1f}" if value < 99.5 else f"{value:.0f}"


def own_text(figure, metric):
    if figure is None:
        return "-"
    if metric == "cpu_s":
        if figure.value < 0.0995:
            milliseconds = 1000 * figure.value
            return f"{milliseconds:.{1 if milliseconds < 9.95 else 0}f}ms"
        places = 2 if figure.value < 9.995 else 1 if figure.value < 99.95 else 0
        return f"{figure.value:.{places}f}s"
    megabytes = figure.value / 1024
    return f"{megabytes:.1f}M" if megabytes < 99.95 else f"{megabytes:.0f}M"


def cut(text, width):
    return text if len(text) <= width else text[: width - 1] + "…"


def heading(names, width):
    line = Text(f"{'':<{LABEL}}{'glibc':>{OWN - 1}} ", style="bold")
    full = full_names(names)
    for name in names:
        line.append(f"{name if full else short_of(name):>{width - 1}} ")
    return line.append(f"{'±':>{SPREAD}}")


def ratio_cell(run, workload, name, metric, best, width):
    cell = run.cell(workload, name)
    if cell.bad:
        return Text(f"{CODES[cell.label]:>{width - 1}} ", style="bold red")
    figure = run.ratio(workload, name, metric)
    text = ratio_text(figure.value) if figure else "-"
    style = "bold green" if name in best else "bold" if name == HIGHLIGHT else ""
    return Text(f"{text:>{width - 1}}{'*' if name in best else ' '}", style=style)


def spread_text(run, workload, metric):
    """What is usual for this workload: the middle of the allocators' spreads."""
    figures = [run.ratio(workload, name, metric) for name in run.allocators if name != BASELINE]
    spreads = [figure.spread for figure in figures if figure]
    percent = round(100 * statistics.median(spreads)) if spreads else 0
    return "" if not percent else f"{percent}%" if percent < 100 else ">99%"


def workload_line(run, workload, metric, names, width):
    line = Text(f"{cut(workload.label, LABEL):<{LABEL}}")
    best = run.best(workload, metric)
    base = run.cell(workload, BASELINE)
    if base.bad:
        line.append(f"{CODES[base.label]:>{OWN - 1}} ", style="bold red")
    else:
        own = own_text(run.absolute(workload, BASELINE, metric), metric)
        mark = BASELINE in best
        line.append(f"{own:>{OWN - 1}}{'*' if mark else ' '}", style="bold green" if mark else "")
    for name in names:
        line.append(ratio_cell(run, workload, name, metric, best, width))
    return line.append(f"{spread_text(run, workload, metric):>{SPREAD}}", style="dim")


def mean_line(run, suite, title, metric, names, width):
    total = len(run.suite(suite))
    line = Text(f"{title:<{LABEL}}{f'n={total}':>{OWN - 1}} ", style="bold")
    best = run.best_mean(metric, suite)
    for name in names:
        mean = run.geomean(name, metric, suite)
        text = ratio_text(mean.value) if mean else "-"
        mark = "*" if name in best else "'" if mean and mean.count < total else " "
        line.append(f"{text:>{width - 1}}{mark}", style="bold green" if name in best else "bold")
    return line


def print_table(console, run, metric, title, names):
    width = column_width(names)
    console.print()
    console.print(Text(title, style="bold"))
    console.print(heading(names, width))
    for suite in run.suites():
        for workload in run.suite(suite):
            console.print(workload_line(run, workload, metric, names, width))
    if len(run.workloads) < 2:
        return
    console.print(Text("─" * WIDTH, style="dim"))
    if len(run.suites()) > 1:
        for suite in run.suites():
            title = f"mean, {SUITES.get(suite, suite)}"
            console.print(mean_line(run, suite, title, metric, names, width))
    console.print(mean_line(run, "all", "geometric mean", metric, names, width))


def mean_cell(mean, total):
    if mean is None:
        return f"{'-':>19}"
    few = f" ({mean.count})" if mean.count < total else ""
    return f"{ratio_text(mean.value):>5} [{ratio_text(mean.low)}-{ratio_text(mean.high)}]{few}"


def summary(console, run):
    """Each allocator in one line: means with intervals, and its worst workload."""
    total = len(run.workloads)
    console.print()
    title = "Geometric means of all workloads, with 95% intervals, and the worst case"
    console.print(Text(title, style="bold"))
    console.print(Text(f"{'':<16}{'CPU time':<26}{'peak memory':<26}", style="bold"))
    for name in run.allocators:
        if name == BASELINE:
            continue
        line = Text(f"{cut(name, 16):<16}", style="bold" if name == HIGHLIGHT else "")
        for metric in ("cpu_s", "peak_kib"):
            mean = run.geomean(name, metric)
            line.append(f"{mean_cell(mean, total):<26}")
        console.print(line)
        worst = []
        for metric, word in (("cpu_s", "time"), ("peak_kib", "memory")):
            for workload, figure in run.worst(name, metric, 1):
                worst.append(f"{word} {ratio_text(figure.value)} in {workload.label}")
        if worst and total > 1:
            console.print(Text(cut(f"  worst: {', '.join(worst)}", WIDTH), style="dim"))


def latency_line(figures, name):
    line = Text(f"{cut(name, NAME):<{NAME}}", style="bold" if name == HIGHLIGHT else "")
    for call in latency.CALLS:
        for place, width in enumerate(QUANTILE_WIDTHS):
            each = figures[name].get(call)
            text = latency.text_of(each, place, width - 2) if each else "-"
            lowest = each is not None and name in latency.best(figures, call, place)
            style = "bold green" if lowest else ""
            line.append(f"{text:>{width - 1}}{'*' if lowest else ' '}", style=style)
    return line


def print_latencies(console, run):
    """A table for each workload that times single calls."""
    found = latency.tables(run)
    if not found:
        return
    console.print()
    console.print(Text("Cycles of single calls; slow: more than 2,000 cycles", style="bold"))
    half = sum(QUANTILE_WIDTHS)
    for workload, figures in found:
        title = f"{cut(workload.label, NAME + 5):<{NAME}}"
        columns = "".join(
            f"{what:>{width - 1}} "
            for what, width in zip((*latency.QUANTILES, "slow"), QUANTILE_WIDTHS)
        )
        calls = "".join(f"{call:^{half}}" for call in latency.CALLS)
        console.print(Text(f"{title}{calls[len(title) - NAME :]}".rstrip(), style="bold"))
        console.print(Text(f"{'':<{NAME}}{columns}{columns}".rstrip(), style="bold"))
        for name in figures:
            console.print(latency_line(figures, name))
    console.print("* within 1.25 times the lowest, unless all are.", style="dim")


def legend(run):
    """Versions, and the names behind the short ones."""
    parts = []
    others = [name for name in run.allocators if name != BASELINE]
    full = all(full_names(names) for names in chunks(others))
    for each in run.meta["allocators"]:
        name, short = each["name"], short_of(each["name"])
        before = "" if full or name == short else f"{short} = "
        more = " (hardened)" if each["kind"] == "hardened" else ""
        parts.append(f"{before}{name} {each['version']}{more}")
    return ", ".join(parts)


def print_run(console, run, notes=()):
    """All tables, then the failures, then the notes: [(heading or None, text)]."""
    others = [name for name in run.allocators if name != BASELINE]
    for metric, title in METRICS:
        for names in chunks(others) or [[]]:
            print_table(console, run, metric, title, names)
    console.print(
        "\n* within 5% of the lowest (a tie), unless all are. ' not of all workloads.\n"
        "± half the range of the rounds' ratios, in the middle over the allocators.",
        style="dim",
    )
    print_latencies(console, run)
    if others:
        summary(console, run)
    console.print()
    for workload, name, label, detail in run.failures():
        console.print(Text(f"{workload.label} on {name}: {label}: {detail}", style="red"))
    for heading_, text in [("allocators", legend(run)), *notes]:
        line = Text(f"{heading_}: ", style="bold") if heading_ else Text()
        console.print(line.append(text), soft_wrap=heading_ in WITH_PATHS)


def print_agreement(console, found):
    """The comparison of two runs; True if all means agree."""
    console.print(Text(f"{'':<16}{'':<10}{'one':>8}{'two':>8}{'differs':>9}", style="bold"))
    words = {"cpu_s": "time", "peak_kib": "memory"}
    for each in found:
        style = "" if each.holds else "bold red"
        line = f"{cut(each.allocator, 15):<16}{words[each.metric]:<10}{each.one:>8.3f}"
        line += f"{each.two:>8.3f}{100 * each.difference:>+8.1f}%  of {each.count}"
        console.print(Text(line, style=style))
    apart = [each for each in found if not each.holds]
    verdict = f"{len(apart)} of {len(found)} geometric means differ by more than 5%"
    console.print(Text(verdict if apart else "all geometric means agree within 5%", style="bold"))
    return not apart
