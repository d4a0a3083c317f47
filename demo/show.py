"""The demo's tables, at 80 columns. Needs python3-rich."""

from rich import box
from rich.table import Table
from rich.text import Text

from lab.results import BASELINE

HIGHLIGHT = "loam"
VALUE_WIDTH = {True: 7, False: 5}
METRICS = (
    ("cpu_s", "CPU time, user + system, relative to glibc (lower is better)"),
    ("peak_kib", "Peak memory (RSS), relative to glibc (lower is better)"),
)


def absolute_text(figure, metric):
    if figure is None:
        return "-"
    if metric == "cpu_s":
        return f"{figure.value:.2f} s"
    megabytes = figure.value / 1024
    return f"{megabytes:.1f} MB" if megabytes < 99.95 else f"{megabytes:.0f} MB"


def spread_text(figure):
    """Half the range in percent; blank below half a percent, never over four columns."""
    percent = round(100 * figure.spread)
    if percent >= 100:
        return ">99%"
    return f"±{percent}%" if percent else ""


def laid_out(allocator, value, star, tail, style):
    """A cell of fixed width, so that figures, stars and spreads stand in columns."""
    text = Text(f"{value:>{VALUE_WIDTH[allocator == BASELINE]}}", style=style)
    text.append("*" if star else " ")
    return text.append(f"{tail:>5}", style="not bold dim")


def failed(label):
    return Text(f"{label:>8}", style="bold red")


def cell_text(results, program, allocator, metric):
    cell = results.cell(program, allocator)
    if cell.bad:
        return failed(cell.label)
    if allocator == BASELINE:
        figure = results.absolute(program, metric)
        value = absolute_text(figure, metric)
    else:
        figure = results.ratio(program, allocator, metric)
        value = f"{figure.value:.2f}" if figure else "-"
    best = allocator in results.best(program, metric)
    tail = spread_text(figure) if figure else ""
    return laid_out(allocator, value, best, tail, "bold green" if best else "")


def mean_text(results, allocator, metric):
    value, count = results.mean(allocator, metric)
    if value is None:
        return laid_out(allocator, "-", False, "", "")
    best = allocator in results.best_mean(metric)
    tail = f"of {count}" if count < len(results.workloads) else ""
    return laid_out(allocator, f"{value:.2f}", best, tail, "bold green" if best else "bold")


def make_table(results, metric):
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column("program", no_wrap=True, min_width=11)
    for allocator in results.allocators:
        width = 7 if allocator == BASELINE else 8
        style = "bold" if allocator == HIGHLIGHT else "not bold"
        table.add_column(Text(f"{allocator:>{width}}", style=style), no_wrap=True)
    for index, program in enumerate(results.workloads):
        last = index + 1 == len(results.workloads)
        cells = [cell_text(results, program, name, metric) for name in results.allocators]
        table.add_row(program, *cells, end_section=last)
    means = [mean_text(results, name, metric) for name in results.allocators]
    table.add_row(Text("geom. mean", style="bold"), *means)
    return table


def print_results(console, results, notes):
    """Both tables, then the notes: [(heading or None, text)]."""
    for metric, title in METRICS:
        console.print()
        console.print(Text(title, style="bold"))
        console.print(make_table(results, metric))
    console.print(
        "\n* within 5% of the lowest (a tie), unless all are. ± half the rounds' range\n",
        style="dim",
    )
    for program, allocator, label, detail in results.failures():
        console.print(Text(f"{program} on {allocator}: {label}: {detail}", style="red"))
    for heading, text in notes:
        line = Text(f"{heading}: ", style="bold") if heading else Text()
        console.print(line.append(text), soft_wrap=False)
