"""The demo's terminal side: progress while it runs, and the table at its end.

The table keeps to 80 columns. On a terminal the progress is a bar with what
runs now and the time left; elsewhere it is one plain line for each program and
round. Needs python3-rich.
"""

import time

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from results import BASELINE

WIDTH = 80
HIGHLIGHT = "loam"
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
    return f"{figure.value / 1024:.1f} MB" if figure.value < 102400 else f"{figure.value / 1024:.0f} MB"


def spread_text(figure):
    """Half the range in percent; blank below half a percent."""
    percent = round(100 * figure.spread)
    return f"±{percent}%" if percent else ""


def cell_text(results, program, allocator, metric):
    cell = results.cell(program, allocator)
    if cell.bad:
        return Text(cell.label, style="bold red")
    if allocator == BASELINE:
        figure = results.absolute(program, metric)
        value = absolute_text(figure, metric)
    else:
        figure = results.ratio(program, allocator, metric)
        value = f"{figure.value:.2f}" if figure else "-"
    best = allocator in results.best(program, metric)
    text = Text(f"{value}{'*' if best else ' '}", style="bold green" if best else "")
    text.append(f"{spread_text(figure):>5}" if figure else "     ", style="dim")
    return text


def mean_text(results, allocator, metric):
    value, count = results.mean(allocator, metric)
    if value is None:
        return Text("-      ")
    best = allocator in results.best_mean(metric)
    text = Text(f"{value:.2f}{'*' if best else ' '}", style="bold green" if best else "bold")
    text.append(f" {count}/{len(results.programs)} " if count < len(results.programs) else "     ")
    return text


def make_table(results, metric, title):
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold")
    table.add_column("program", no_wrap=True)
    for allocator in results.allocators:
        style = "bold" if allocator == HIGHLIGHT else None
        table.add_column(
            Text(f"{allocator}      ", style=style or ""), justify="right", no_wrap=True
        )
    for index, program in enumerate(results.programs):
        last = index + 1 == len(results.programs)
        cells = [cell_text(results, program, name, metric) for name in results.allocators]
        table.add_row(program, *cells, end_section=last)
    means = [mean_text(results, name, metric) for name in results.allocators]
    table.add_row(Text("geom. mean", style="bold"), *means)
    return table


def print_results(console, results, notes):
    """Both tables, then the notes: [(heading or None, text)]."""
    for metric, title in METRICS:
        console.print(make_table(results, metric, title))
    console.print(
        "* lowest, or within 5% of it (a tie; no star where all are). ± half the range of the runs."
        "\n",
        style="dim",
    )
    for program, allocator, label, detail in results.failures():
        console.print(Text(f"{program} on {allocator}: {label}: {detail}", style="red"))
    for heading, text in notes:
        line = Text(f"{heading}: ", style="bold") if heading else Text()
        console.print(line.append(text), soft_wrap=False)


def seconds_text(seconds):
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


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
        what = f"round {turn}/{turns}  {program} on {allocator}"
        self.bar.update(self.task, description=f"{what:<35}")

    def end(self, row):
        self.clock.done += 1
        left = self.clock.left()
        self.bar.update(self.task, advance=1, left=f"{seconds_text(left)} left")
        if row.status != "ok":
            self.bar.print(
                Text(f"{row.program} on {row.allocator}: {row.status}: {row.detail}", style="red")
            )

    def finish_group(self):
        """The bar needs no line for a program's end."""


class PlainProgress:
    """For a file or a pipe: a line for each program and round."""

    def __init__(self, console, total):
        self.console = console
        self.clock = Clock(total)
        self.head = ""
        self.parts = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def begin(self, turn, turns, program, _allocator):
        self.head = f"round {turn}/{turns} {program}:"

    def end(self, row):
        self.clock.done += 1
        value = f"{row.cpu_s:.2f}" if row.status == "ok" else row.status
        self.parts.append(f"{row.allocator} {value}")

    def finish_group(self):
        left = f"({seconds_text(self.clock.left())} left)"
        line = f"{self.head} {', '.join(self.parts)} {left}"
        self.console.print(Text(line), soft_wrap=True)
        self.parts = []


def make_progress(console, total):
    return (BarProgress if console.is_terminal else PlainProgress)(console, total)
