"""The demo's terminal side: progress while it runs, and the tables at its end.

The tables keep to 80 columns. On a terminal the progress is a bar with what
runs now and the time left; elsewhere it is one plain line for each program and
round. Needs python3-rich.
"""

import time

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from lab.results import BASELINE

WIDTH = 80
HIGHLIGHT = "loam"
VALUE_WIDTH = {True: 7, False: 5}
METRICS = (
    ("cpu_s", "CPU time, user + system, relative to glibc (lower is better)"),
    ("peak_kib", "Peak memory (RSS), relative to glibc (lower is better)"),
)


def make_console():
    """A console of the terminal's width, or of 80 columns where there is none."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=WIDTH)
    return console


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


def seconds_text(seconds):
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def turn_text(turn, turns):
    """Round 0 is the one whose output on glibc all others are compared with."""
    return f"round {turn}/{turns}" if turn else "reference"


def plain_figure(row):
    return f"{row.cpu_s:.2f}" if row.status == "ok" else row.status


class Clock:
    """Time left, from how long the runs so far took."""

    def __init__(self, total):
        self.total = total
        self.done = 0
        self.started = time.monotonic()

    def left(self):
        if not self.done:
            return None
        each = (time.monotonic() - self.started) / self.done
        return each * (self.total - self.done)


class BarProgress:
    """For a terminal."""

    def __init__(self, console, total):
        self.clock = Clock(total)
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}"),
            console=console,
            transient=True,
            expand=True,
        )
        self.task = self.bar.add_task("starting", total=total, left="")

    def __enter__(self):
        self.bar.start()
        return self

    def __exit__(self, *_):
        self.bar.stop()

    def begin(self, turn, turns, program, allocator):
        what = f"{turn_text(turn, turns)}  {program} on {allocator}"
        self.bar.update(self.task, description=f"{what:<35}")

    def end(self, row):
        self.clock.done += 1
        left = self.clock.left()
        self.bar.update(self.task, advance=1, left=f"{seconds_text(left)} left")
        if row.status != "ok":
            self.bar.print(
                Text(f"{row.workload} on {row.allocator}: {row.status}: {row.detail}", style="red")
            )

    def finish_group(self):
        """The bar needs no line for a program's end."""


class PlainProgress:
    """For a file or a pipe: a heading for each round, a line for each program."""

    def __init__(self, console, total, allocators):
        self.console = console
        self.clock = Clock(total)
        self.allocators = allocators
        self.turn = None
        self.rows = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def line(self, head, columns, tail=""):
        cells = "".join(f"{column:>10}" for column in columns)
        self.console.print(Text(f"{head:<14}{cells}  {tail}".rstrip()), soft_wrap=True)

    def begin(self, turn, turns, _program, _allocator):
        if turn != self.turn:
            self.turn = turn
            self.line(turn_text(turn, turns), self.allocators, "CPU seconds")

    def end(self, row):
        self.clock.done += 1
        self.rows[row.allocator] = row

    def finish_group(self):
        rows = [self.rows.get(name) for name in self.allocators]
        program = next(row.workload for row in rows if row)
        columns = [plain_figure(row) if row else "" for row in rows]
        self.line(f"  {program}", columns, f"{seconds_text(self.clock.left())} left")
        self.rows = {}


def make_progress(console, total, allocators):
    if console.is_terminal:
        return BarProgress(console, total)
    return PlainProgress(console, total, allocators)
