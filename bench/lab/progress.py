"""What is shown while a run goes on. Needs python3-rich.

On a terminal a bar with what runs now and the time left; elsewhere one plain
line for each task and round.
"""

import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

from lab.results import LABELS
from lab.tables import CODES, short_of

WIDTH = 80


def make_console():
    """A console of the terminal's width, or of 80 columns where there is none."""
    # No markup: a path or a command may have brackets.
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console = Console(highlight=False, markup=False, width=WIDTH)
    return console


def seconds_text(seconds):
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def turn_text(turn, turns):
    """Round 0 is the one whose output on glibc all others are compared with."""
    return f"round {turn}/{turns}" if turn else "reference"


def plain_figure(row, few=True):
    if row.status == "ok":
        return f"{row.cpu_s:.2f}"
    return row.status if few else CODES[LABELS[row.status]]


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
            auto_refresh=False,  # nothing of ours is to run beside what is measured
        )
        self.task = self.bar.add_task("starting", total=total, left="")

    def __enter__(self):
        self.bar.start()
        return self

    def __exit__(self, *_):
        self.bar.stop()

    def begin(self, turn, turns, label, allocator):
        what = f"{turn_text(turn, turns)}  {label} on {allocator}"
        self.bar.update(self.task, description=f"{what:<35}", refresh=True)

    def end(self, row):
        self.clock.done += 1
        left = self.clock.left()
        self.bar.update(self.task, advance=1, left=f"{seconds_text(left)} left")
        if row.status != "ok":
            self.bar.print(
                Text(f"{row.label} on {row.allocator}: {row.status}: {row.detail}", style="red")
            )

    def finish_group(self):
        """The bar needs no line for a task's end."""


class PlainProgress:
    """For a file or a pipe: a heading for each round, a line for each task."""

    def __init__(self, console, total, allocators):
        self.console = console
        self.clock = Clock(total)
        self.allocators = allocators
        self.few = len(allocators) <= 5
        self.turn = None
        self.rows = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def line(self, head, columns, tail=""):
        width = 10 if self.few else 6
        cells = "".join(f"{column[: width - 1]:>{width}}" for column in columns)
        self.console.print(Text(f"{head:<21}{cells}  {tail}".rstrip()), soft_wrap=True)

    def begin(self, turn, turns, _label, _allocator):
        if turn != self.turn:
            self.turn = turn
            names = self.allocators if self.few else [short_of(name) for name in self.allocators]
            self.line(turn_text(turn, turns), names, "CPU seconds")

    def end(self, row):
        self.clock.done += 1
        self.rows[row.allocator] = row

    def finish_group(self):
        rows = [self.rows.get(name) for name in self.allocators]
        label = next(row.label for row in rows if row)
        columns = [plain_figure(row, self.few) if row else "" for row in rows]
        self.line(f"  {label}", columns, f"{seconds_text(self.clock.left())} left")
        self.rows = {}


def make_progress(console, total, allocators):
    if console.is_terminal:
        return BarProgress(console, total)
    return PlainProgress(console, total, allocators)
