#!/usr/bin/python3
"""make demo: real programs, unchanged, on loam and beside it.

    /usr/bin/python3 demo/run.py [--rounds N] [--programs a,b] [--allocators x,y]
                                 [--out DIR] [--loam PATH] [--timeout S] [--quick]

Runs each program on each allocator, one process for each pair, the order
rotated from round to round; compares what the program wrote with what it wrote
on glibc; prints a table of medians and writes raw rows (CSV) and a chart (SVG,
PNG). A crash, a time-out or a wrong output is shown as such and ends nothing;
again.sh then has the commands that failed, on the inputs that stay in inputs-used/.
Ctrl-C ends what runs, servers too, and keeps the rows so far.

It measures what the machine gives: ratios on a quiet machine mean something,
absolute times little. Which program does what: programs.py. How one run is
measured and judged: launch.py, measure.py. How the allocator in use is proved:
allocators.py.

Exit status: 0 measured and loam failed nowhere, 1 loam (or glibc) failed
somewhere, 2 wrong use or something missing, 130 interrupted.
"""

import argparse
import datetime
import os
import shlex
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "bench")]
sys.dont_write_bytecode = True

from lab import allocators, machine, programs, workloads  # noqa: E402
from lab.front import WrongUse, make_out, require, use_any_terminal  # noqa: E402
from lab.measure import INTERRUPTS, Bench, NoStarter  # noqa: E402
from lab.results import BASELINE, RawRows, Results  # noqa: E402

WORK = "inputs-used"


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(
        prog="demo/run.py", description="Real programs, unchanged, on loam and beside it."
    )
    names = ",".join(program.name for program in programs.PROGRAMS)
    parser.add_argument("--rounds", type=int, metavar="N", help="runs of each pair (default 3)")
    parser.add_argument("--programs", default=names, metavar="A,B", help=f"of {names}")
    parser.add_argument(
        "--allocators", default=",".join(allocators.NAMES), metavar="X,Y",
        help=f"of {','.join(allocators.NAMES)}; glibc always takes part",
    )  # fmt: skip
    parser.add_argument("--out", default="build/demo", metavar="DIR", help="default build/demo")
    parser.add_argument(
        "--loam", default="build/release/libloam.so", metavar="PATH",
        help="default build/release/libloam.so",
    )  # fmt: skip
    parser.add_argument(
        "--timeout", type=float, default=30, metavar="S", help="seconds for one run (default 30)"
    )
    parser.add_argument(
        "--quick", action="store_true", help="small inputs, one round: a check, not a measurement"
    )
    options = parser.parse_args(arguments)
    if options.rounds is None:
        options.rounds = 1 if options.quick else 3
    return options


def chosen(text, known, what):
    """The names of a comma-separated list, each checked, in the order of `known`."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in known:
            raise WrongUse(f"unknown {what} '{name}'; there are: {', '.join(known)}")
    if not names:
        raise WrongUse(f"no {what} named; there are: {', '.join(known)}")
    return [name for name in known if name in names]


def check_numbers(options):
    if not 1 <= options.rounds <= 100:
        raise WrongUse(f"--rounds {options.rounds}: not a number from 1 to 100")
    if not 1 <= options.timeout <= 3600:
        raise WrongUse(f"--timeout {options.timeout:g}: not a number from 1 to 3600")


def check_loam(path):
    if not Path(path).is_file():
        raise WrongUse(
            f"{path} is not there; build it: cmake --preset release && "
            "cmake --build --preset release (or name it with --loam PATH)"
        )


def import_front():
    """chart and show need Debian packages; says which are missing."""
    require({"matplotlib": "python3-matplotlib", "rich": "python3-rich"}, "apt-get install {}")
    import chart
    import show
    from lab import progress

    return chart, show, progress


def how_obtained(options, found):
    """Two lines: the machine and the day; the versions."""
    runs = "1 run" if options.rounds == 1 else f"median of {options.rounds} interleaved runs"
    size = ", small inputs (no measurement)" if options.quick else ""
    today = datetime.date.today().isoformat()
    where = f"{machine.cpu_model()}, {os.cpu_count()} cores"
    where += f", transparent huge pages {machine.huge_pages()}"
    versions = ", ".join(f"{each.name} {each.version() or 'of unknown version'}" for each in found)
    return f"{runs}{size}; {where}; {today}", versions


def busy_note(load, cores):
    """A warning where the machine had other work when the demo began."""
    if load <= cores / 2:
        return []
    text = f"load {load:.1f} on {cores} cores at the start: other work disturbs these figures"
    return [("busy machine", text)]


def absent_notes(absent, unrunnable):
    notes = [("not installed", f"{name} (package {package})") for name, package in absent]
    for program in unrunnable:
        missing = ", ".join(program.missing())
        notes.append(("not run", f"{program.name}: no {missing} (package {program.package})"))
    return notes


def odd_baselines(demo):
    """Programs that needed a preload to be on glibc at all."""
    odd = [name for (name, who), preload in demo.preloads.items() if who == BASELINE and preload]
    if not odd:
        return []
    return [("glibc", f"{', '.join(odd)} is linked to another malloc: libc.so.6 was preloaded")]


def select(options):
    """(programs to run, those that cannot, allocators found, those not installed)."""
    check_numbers(options)
    by_name = {program.name: program for program in programs.PROGRAMS}
    wanted = [by_name[name] for name in chosen(options.programs, tuple(by_name), "program")]
    names = {BASELINE, *chosen(options.allocators, allocators.NAMES, "allocator")}
    if "loam" in names:
        check_loam(options.loam)
    found, absent = allocators.find_all(names, options.loam)
    runnable = [program for program in wanted if not program.missing()]
    unrunnable = [program for program in wanted if program.missing()]
    if not runnable:
        lines = [text for _, text in absent_notes([], unrunnable)]
        raise WrongUse(f"nothing to run: {'; '.join(lines)}")
    return runnable, unrunnable, found, absent


def write_again(demo, failures, path):
    """A script that starts each failed program once more, outside the demo."""
    lines = ["#!/bin/sh", "# The runs that failed, to be looked at one by one."]
    for program, allocator, label, detail in failures:
        if program not in demo.jobs:
            continue  # its input could not be written: there is nothing to start
        job = demo.jobs[program](1)
        env = programs.environment(job, demo.preloads[program, allocator])
        words = ["env", "-i", *(f"{name}={value}" for name, value in env.items()), *job.command]
        start = f" < {shlex.quote(job.stdin)}" if job.stdin else ""
        folder = shlex.quote(str(demo.work / program))
        lines += ["", f"# {program} on {allocator}: {label}: {detail}"]
        lines.append(f"(cd {folder} && {shlex.join(words)}{start})")
    path.write_text("\n".join(lines) + "\n")
    path.chmod(0o755)
    return path


def announce(demo, console):
    pairs = len(demo.tasks) * len(demo.allocators)
    console.print(
        f"loam demo: {len(demo.tasks)} programs on {len(demo.allocators)} allocators, "
        f"{pairs * demo.rounds} runs"
    )
    for task in demo.tasks:
        console.print(f"  {task.name:<12} {task.question}")


def run_all(demo, raw, shown):
    """Everything, in order; each row is in the CSV before the next run begins."""
    rows = []
    with shown:
        for row in demo.run(shown):
            raw.add(row)
            rows.append(row)
    return [row for row in rows if row.round > 0]


def run(options):
    runnable, unrunnable, found, absent = select(options)
    chart, show, progress = import_front()
    out = make_out(options.out)
    console = progress.make_console()
    load = os.getloadavg()[0]
    names = [each.name for each in found]
    again = out / "again.sh"
    again.unlink(missing_ok=True)
    work = (out / WORK).resolve()
    work.mkdir(exist_ok=True)
    scale = programs.QUICK if options.quick else 1.0
    tasks = [workloads.real_task(program, scale) for program in runnable]
    demo = Bench(tasks, found, work, options.rounds, options.timeout)
    announce(demo, console)
    raw = RawRows(out / "runs.csv")
    try:
        demo.set_up()
        rows = run_all(demo, raw, progress.make_progress(console, demo.total(), names))
    except KeyboardInterrupt:
        demo.launcher.stop()
        console.print(f"interrupted; rows so far: {raw.count}, in {raw.path}")
        return 130
    finally:
        raw.close()
    results = Results([each.name for each in runnable], names, rows)
    how, versions = how_obtained(options, found)
    pictures = [out / "demo.svg", out / "demo.png"]
    chart.draw(results, f"{how}\n{versions}", pictures)
    notes = absent_notes(absent, unrunnable) + odd_baselines(demo)
    notes += busy_note(load, os.cpu_count())
    notes += [(None, how), (None, versions)]
    files = [*pictures, raw.path]
    failures = results.failures()
    if failures:
        files.append(write_again(demo, failures, again))
    notes.append(("files", ", ".join(str(path) for path in files)))
    show.print_results(console, results, notes)
    ours = {name for _, name, _, _ in failures} & {"loam", BASELINE}
    return 1 if ours else 0


def main(arguments):
    INTERRUPTS.install()
    use_any_terminal()
    options = parse_arguments(arguments)
    try:
        return run(options)
    except WrongUse as error:
        print(f"demo: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # Whoever read the output has gone: no use in going on, none in complaining.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 141
    except (OSError, NoStarter) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("demo: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
