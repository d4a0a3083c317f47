"""The cells of the family's tables: what there is, one run of one, and all runs in a fair order.

A cell is (program, row, column, n, huge pages); a run of it is a process of its own. Rounds go
through all columns, and through the rows of a column in an order that is rotated from round to
round, so that no row always runs first. Results are appended to cells.csv as they come.
"""

import csv
import datetime
import json
import os
import re
import signal
import subprocess
from dataclasses import dataclass, field

# What --n and the presets scale; a column with less work than this is small enough as it is.
SMALL_ENOUGH = 50_000
MOST_BYTES = 1 << 30  # of live objects in a cell of table 003
COUNTS = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
HUGE_TABLES = ("region",)  # where huge pages are asked about
SWEPT = "pool"  # the table whose question is time against count

FIELDS = (
    "started,round,program,table,row,column,n,huge,status,phase,ops,seconds,cpu_s,faults,"
    "major_faults,also,detail,commit,machine"
).split(",")


@dataclass(frozen=True)
class Cell:
    program: str
    row: str
    column: str
    n: int
    huge: str

    @property
    def label(self):
        return f"{self.program} {self.row} {self.column} --n {self.n} --huge {self.huge}"


@dataclass
class Table:
    """What `program --list` says."""

    program: str
    path: object
    seed: str
    title: str
    columns: dict  # name -> {"name", "what", "n"}
    rows: dict  # name -> {"name", "version", "what", "kind", "columns"}
    absent: dict  # name -> package


@dataclass
class Outcome:
    status: str  # ok, absent, failed, crash, timeout
    phases: list = field(default_factory=list)
    detail: str = ""


class NoTables(Exception):
    """Nothing to run; told in one line."""


def tables(folder):
    """{program: Table} of every program of the family in the folder."""
    found = {}
    for path in sorted(folder.glob("*")) if folder.is_dir() else ():
        if path.suffix or not path.is_file() or not os.access(path, os.X_OK):
            continue
        shown = subprocess.run([path, "--list"], capture_output=True, text=True, timeout=30)
        try:
            what = json.loads(shown.stdout)
            found[path.name] = Table(
                path.name,
                path,
                what["table"],
                what["title"],
                {each["name"]: each for each in what["columns"]},
                {each["name"]: each for each in what["rows"]},
                {each["name"]: each["package"] for each in what.get("absent", ())},
            )
        except (ValueError, KeyError) as error:
            raise NoTables(f"{path} --list: not a table of the family: {error!r}") from error
    if not found:
        raise NoTables(
            f"{folder}: no tables there (make them: cmake --build --preset release --target bench)"
        )
    return found


def counts_of(table, column, factor, most):
    """The n of a column's cells: one, or the counts that table 003 is drawn over."""
    if table.program != SWEPT:
        n = table.columns[column]["n"]
        return [n if n <= SMALL_ENOUGH else max(SMALL_ENOUGH, round(n * factor))]
    size = int(column.split("-")[0])
    if column.endswith("-pair"):
        return [min(10_000, most)]
    counts = [count for count in COUNTS if count < most] + [most]
    return [count for count in counts if count * size <= MOST_BYTES]


def plan(table, rows, columns, factor, most, huge):
    """[[Cell of each row] for each column, count and kind of pages], in the table's order."""
    groups = []
    for column in columns:
        for pages in huge if table.program in HUGE_TABLES else ("never",):
            for n in counts_of(table, column, factor, most):
                group = [
                    Cell(table.program, row, column, n, pages)
                    for row in rows
                    if column in table.rows[row]["columns"]
                ]
                if group:
                    groups.append(group)
    return groups


def command(table, cell):
    return [
        str(table.path), cell.row, cell.column, "--n", str(cell.n), "--huge", cell.huge
    ]  # fmt: skip


def run_cell(table, cell, timeout):
    # A group of its own: what a time-out ends is the cell and whatever it became or started.
    process = subprocess.Popen(
        command(table, cell),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, said = process.communicate(timeout=timeout)
    except BaseException as error:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            return Outcome("timeout", detail=f"over {timeout:g} s")
        raise
    last = said.strip().splitlines()[-1] if said.strip() else ""
    if process.returncode == 77:
        return Outcome("absent", detail=last)
    if process.returncode < 0:
        return Outcome("crash", detail=signal.Signals(-process.returncode).name)
    if process.returncode:
        return Outcome("failed", detail=last or f"status {process.returncode}")
    try:
        phases = [json.loads(line) for line in out.splitlines()]
        if not phases or any(phase["seconds"] < 0 for phase in phases):
            raise ValueError("no phases")
    except (ValueError, KeyError, TypeError) as error:
        return Outcome("failed", detail=f"not the output of a cell: {error}")
    return Outcome("ok", phases)


class Log:
    """cells.csv: a line for each phase of each run, or one that says why there is none."""

    def __init__(self, path, commit, machine):
        self.file = open(path, "w", newline="", encoding="utf-8")
        self.writer = csv.DictWriter(self.file, FIELDS, lineterminator="\n")
        self.writer.writeheader()
        self.common = {"commit": commit, "machine": machine}

    def add(self, number, table, cell, outcome):
        started = datetime.datetime.now().isoformat(timespec="seconds")
        line = {
            "started": started, "round": number, "program": cell.program, "table": table.seed,
            "row": cell.row, "column": cell.column, "n": cell.n, "huge": cell.huge,
            "status": outcome.status, "detail": outcome.detail, **self.common,
        }  # fmt: skip
        for phase in outcome.phases or [{}]:
            known = {key: value for key, value in phase.items() if key in FIELDS}
            also = {key: value for key, value in phase.items() if key not in FIELDS}
            self.writer.writerow({**line, **known, "also": json.dumps(also) if also else ""})
        self.file.flush()

    def close(self):
        self.file.close()


def rotated(rows, number):
    start = number % len(rows)
    return rows[start:] + rows[:start]


def run_all(found, groups, rounds, timeout, log, tell):
    """{Cell: [Outcome, ...]}. tell(cell, done, all) is called before each run.

    A row that failed or took too long is not asked again, nor for a larger count of its column.
    """
    results = {}
    hopeless = {}  # (program, row, column, huge) -> Outcome and the n that brought it
    total = rounds * sum(map(len, groups))
    done = 0
    for number in range(rounds):
        for group in groups:
            for cell in rotated(group, number):
                tell(cell, done, total)
                done += 1
                key = (cell.program, cell.row, cell.column, cell.huge)
                outcome, n = hopeless.get(key, (None, 0))
                if outcome and cell.n == n:
                    continue
                if not outcome or cell.n < n:
                    outcome = run_cell(found[cell.program], cell, timeout)
                    if outcome.status != "ok":
                        hopeless[key] = (outcome, cell.n)
                elif cell in results:
                    continue
                else:
                    outcome = Outcome(outcome.status, [], f"{outcome.detail} at n = {n} already")
                results.setdefault(cell, []).append(outcome)
                log.add(number, found[cell.program], cell, outcome)
    return results


# ---- system calls --------------------------------------------------------------------------------

CALL = re.compile(r"^(?:\[pid +\d+\] |\d+ +)?(\w+)\((.*)\) += (\S+)")
TRACED = "brk,mmap,munmap,mremap,madvise,mprotect,getrusage"


def trace(table, cell, timeout, strace="strace"):
    """[(phase, {call: count}, [bytes of each growth by mmap or mremap])] of a cell.

    The clock of the cells asks getrusage where a phase starts and where it ends.
    """
    with open(os.memfd_create("calls"), "w+", encoding="utf-8") as file:
        wrapped = [
            strace, "-f", "-qq", "-e", f"trace={TRACED}", "-e", "signal=none",
            "-o", f"/proc/{os.getpid()}/fd/{file.fileno()}", *command(table, cell),
        ]  # fmt: skip
        shown = subprocess.run(wrapped, capture_output=True, text=True, timeout=timeout)
        if shown.returncode:
            said = shown.stderr.strip().splitlines()
            raise NoTables(said[-1] if said else "strace failed")
        names = [json.loads(line)["phase"] for line in shown.stdout.splitlines()]
        file.seek(0)
        lines = file.readlines()
    phases, inside = [], False
    for line in lines:
        match = CALL.match(line)
        if not match:
            continue
        name, arguments, _ = match.groups()
        if name == "getrusage":
            inside = not inside
            if inside:
                phases.append(({}, []))
        elif inside:
            calls, growths = phases[-1]
            calls[name] = calls.get(name, 0) + 1
            if name == "mmap":
                growths.append(int(arguments.split(",")[1]))
            elif name == "mremap":
                growths.append(int(arguments.split(",")[2]))
    return [(name, calls, growths) for name, (calls, growths) in zip(names, phases)]
