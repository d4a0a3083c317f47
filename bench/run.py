#!/usr/bin/python3
"""bench/run.py: every workload on every allocator, interleaved, and what came of it.

    bench/run.py [--full] [options]                       the lab's workloads and real programs
    bench/run.py --program [options] -- ./prog args...    a program of your own
    bench/run.py --list | --report-only DIR | --compare DIR1 DIR2

Each run is a process of its own; the order of the allocators rotates from round to
round; memory is touched and given back before each; the malloc in use is proved.
Tables of ratios to glibc are printed; raw rows, RSS over time, a page and pictures
are left in --out. A crash, a time-out or a wrong output is shown as such and ends
nothing. Ctrl-C keeps what there is; --resume goes on.

It measures what the machine gives: ratios on a quiet machine mean something,
absolute times little. How a run is measured: lab/launch.py, lab/starter.c; how the
allocator is proved: lab/allocators.py; the figures: lab/stats.py; see README.md.

Exit status: 0 measured and neither glibc nor loam failed; 1 one of them failed
somewhere, or two runs that were compared differ, or the program of --program
fails on glibc; 2 wrong use or something missing; 130 interrupted.
"""

import argparse
import fnmatch
import math
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True
signal.signal(signal.SIGINT, signal.SIG_DFL)  # until main() knows what to do

from lab import allocators, latency, machine, own, workloads  # noqa: E402
from lab.front import WrongUse, make_out, require, use_any_terminal  # noqa: E402
from lab.measure import INTERRUPTS, Bench, NoStarter  # noqa: E402
from lab.results import BASELINE  # noqa: E402

PEERS = ROOT / "build" / "peers" / "peers.json"
THP_FILE = "/sys/kernel/mm/transparent_hugepage/enabled"


# ---- the command line ----------------------------------------------------------------------------


def make_parser():
    parser = argparse.ArgumentParser(
        prog="bench/run.py", description="Every workload on every allocator.",
        epilog="NAME in --workloads may be a pattern: 'sh*', 'larson/2'.",
    )  # fmt: skip
    what = parser.add_argument_group("what is run")
    what.add_argument("--full", action="store_true", help="everything, at full size (else quick)")
    what.add_argument("--suite", choices=("micro", "real", "all"), default="all")
    what.add_argument("--workloads", metavar="A,B", help="only these names or patterns")
    what.add_argument("--allocators", metavar="X,Y", help=f"of {','.join(allocators.LAB_NAMES)}")
    what.add_argument(
        "--allocator", action="append", default=[], metavar="NAME=PATH.so[,KEY=VALUE...]",
        help="one more, any library that replaces malloc; with these set in its environment",
    )  # fmt: skip
    what.add_argument("--threads", metavar="1,2,8,N", help="of threaded workloads; N: the cores")
    what.add_argument("--scale", type=float, metavar="F", help="size of the work (full: 1)")
    what.add_argument("--rounds", type=int, metavar="N", help="runs of each pair (default 3)")
    what.add_argument("--seed", type=int, metavar="N", help="for all rounds (default: the round)")
    what.add_argument(
        "--thp", choices=("default", "never", "madvise", "always"), default="default",
        help="transparent huge pages; default: as this machine has it",
    )  # fmt: skip
    what.add_argument(
        "--timeout", type=float, metavar="S", help="for one run (quick 15, full 60, program 600)"
    )
    program = parser.add_argument_group("a program of your own")
    program.add_argument("--program", action="store_true", help="what follows -- is run instead")
    program.add_argument("--name", help="what it is called in the table")
    program.add_argument("--stdin", metavar="FILE", help="its standard input")
    program.add_argument(
        "--outputs", metavar="A,B", default="stdout",
        help="files that must be as on glibc (default stdout), or none",
    )  # fmt: skip
    program.add_argument(
        "--ignore-failure", action="store_true",
        help="measure it although its exit status is not 0; it must be that on glibc",
    )  # fmt: skip
    where = parser.add_argument_group("where")
    where.add_argument("--out", metavar="DIR", help="default build/bench, bench-full or bench-NAME")
    where.add_argument("--loam", default=str(ROOT / "build/release/libloam.so"), metavar="PATH")
    where.add_argument(
        "--programs-dir", default=str(ROOT / "build/release/bench"), metavar="DIR",
        help="the built workloads",
    )  # fmt: skip
    where.add_argument("--peers-file", default=str(PEERS), metavar="PATH", help="the built rivals")
    where.add_argument("--peers", action="store_true", help="run bench/peers/build.py first")
    where.add_argument("--no-page", action="store_true", help="tables and raw rows only")
    where.add_argument("--resume", action="store_true", help="go on with the run in --out")
    where.add_argument("--resume-anyway", action="store_true", help="... though things changed")
    other = parser.add_argument_group("instead of running")
    other.add_argument("--list", action="store_true", help="allocators and workloads")
    other.add_argument("--report-only", metavar="DIR", help="tables and page of a run again")
    other.add_argument("--compare", nargs=2, metavar="DIR", help="do two runs agree within 5%%?")
    return parser


def parse(arguments):
    command = []
    if "--" in arguments:
        place = arguments.index("--")
        arguments, command = arguments[:place], arguments[place + 1 :]
    options = make_parser().parse_args(arguments)
    options.command = command
    if bool(command) != options.program:
        raise WrongUse("a program of your own is named so: --program -- ./prog arguments...")
    options.resume = options.resume or options.resume_anyway
    mode = "program" if options.program else "full" if options.full else "quick"
    options.mode = mode
    if options.rounds is None:
        options.rounds = 5 if options.program else 3
    if options.timeout is None:
        options.timeout = {"quick": 15, "full": 60, "program": 600}[mode]
    own.check_name(options.name)
    if options.out is None:
        tail = {"quick": "", "full": "-full"}.get(mode)
        if tail is None:
            tail = f"-{options.name or Path(command[0]).name}"
        options.out = str(ROOT / f"build/bench{tail}")
    check_numbers(options)
    return options


def check_numbers(options):
    def within(name, value, least, most):
        if value is not None and not (math.isfinite(value) and least <= value <= most):
            raise WrongUse(f"--{name} {value:g}: not a number from {least:g} to {most:g}")

    within("rounds", options.rounds, 1, 1000)
    within("timeout", options.timeout, 0.1, 86400)
    within("scale", options.scale, 0.001, 1000)
    within("seed", options.seed, 1, 2**31)
    if options.threads:
        try:
            options.threads = workloads.thread_counts(options.threads, os.cpu_count())
        except ValueError as error:
            raise WrongUse(f"--threads {options.threads}: numbers from 1 to 1024 or N") from error


def check_thp(wanted):
    """A process can do without huge pages; which others get them is the machine's affair."""
    now = machine.huge_pages()
    if wanted in ("madvise", "always") and wanted != now:
        raise WrongUse(
            f"--thp {wanted}: this machine's setting is {now}, and a program can only choose "
            f"never for itself; as root: echo {wanted} > {THP_FILE}"
        )
    return "never" if wanted == "never" else "default"


# ---- what takes part -----------------------------------------------------------------------------


def build_peers(say):
    say("building the rivals (bench/peers/build.py) ...")
    shown = subprocess.run([sys.executable, str(HERE / "peers" / "build.py")], check=False)
    if shown.returncode != 0:
        say(f"bench/peers/build.py ended with {shown.returncode}: going on with what there is")


def choose_allocators(options, say):
    """(allocators, [(name, why not)]); glibc first, always."""
    known = allocators.LAB_NAMES
    names = [word.strip() for word in (options.allocators or ",".join(known)).split(",")]
    names = [name for name in names if name]
    for name in names:
        if name not in known:
            raise WrongUse(f"unknown allocator '{name}'; there are: {', '.join(known)}")
    names = [name for name in known if name in names or name == BASELINE]
    try:
        extra = [allocators.custom(text) for text in options.allocator]
    except ValueError as error:
        raise WrongUse(f"--allocator {error}") from error
    taken = set(names)
    for each in extra:
        if each.name in taken:
            raise WrongUse(f"--allocator {each.name}: that name is taken")
        taken.add(each.name)
    rivals = set(names) - {BASELINE, "loam"}
    # A program of one's own is run on what is there; the lab gets what it misses.
    if options.peers or (rivals and not options.program and not Path(options.peers_file).exists()):
        build_peers(say)
    found, absent = allocators.for_lab(names, options.loam, options.peers_file)
    good = []
    for each in [*found, *extra]:
        why = allocators.trouble(each)
        if each.name == "loam" and not Path(each.library).exists():
            why = f"{each.library} is not there; make build builds it"
        if why is None:
            good.append(each)
        elif each.name == BASELINE:
            raise WrongUse(f"glibc: {why}")
        else:
            absent.append((each.name, why))
    return good, absent


def choose_tasks(options):
    """(tasks of the lab, [(workload, why not)])."""
    tasks, absent = [], []
    quick = not options.full
    if options.suite in ("micro", "all"):
        folder = Path(options.programs_dir).resolve()  # runs have folders of their own
        more = workloads.micro(folder, quick, options.threads, options.scale, options.seed)
        tasks, absent = tasks + more[0], absent + more[1]
    if options.suite in ("real", "all"):
        more = workloads.real(quick, options.scale)
        tasks, absent = tasks + more[0], absent + more[1]
    if options.workloads:
        tasks, absent = filtered(options.workloads, tasks, absent)
    if not tasks:
        whys = "; ".join(f"{name}: {why}" for name, why in absent[:3])
        raise WrongUse(f"nothing to run{': ' + whys if whys else ''}")
    return tasks, absent


def filtered(text, tasks, absent):
    patterns = [word.strip() for word in text.split(",") if word.strip()]

    def wanted(names, pattern):
        return any(fnmatch.fnmatchcase(name, pattern) for name in names)

    for pattern in patterns:
        names = [name for task in tasks for name in (task.name, task.label)]
        if not wanted([*names, *(name for name, _ in absent)], pattern):
            known = dict.fromkeys(task.name for task in tasks)
            raise WrongUse(f"no workload is called '{pattern}'; there are: {', '.join(known)}")
    return (
        [task for task in tasks if any(wanted((task.name, task.label), p) for p in patterns)],
        [pair for pair in absent if any(wanted((pair[0],), p) for p in patterns)],
    )


# ---- a run ---------------------------------------------------------------------------------------


def import_front():
    """What needs Debian packages; says which are missing."""
    require({"numpy": "python3-numpy", "rich": "python3-rich"}, "scripts/bootstrap --bench")
    from lab import progress, record, stats, tables

    return progress, record, stats, tables


def recorded_options(options):
    names = ("mode", "suite", "rounds", "threads", "scale", "seed", "thp", "timeout")
    return {name: getattr(options, name) for name in names}


def taken_up(options, record, meta, out):
    """The rows of the interrupted run that this one goes on from."""
    old, rows = record.earlier(out)
    if old is None:
        raise WrongUse(f"--resume: {out} holds no run; leave --resume out to start one")
    found = record.differences(old, meta)
    if found and not options.resume_anyway:
        lines = "; ".join(found[:6]) + (f"; and {len(found) - 6} more" if len(found) > 6 else "")
        raise WrongUse(f"--resume: not the same run: {lines} (--resume-anyway goes on)")
    meta["started"] = old["started"]
    meta["resumed"] = [*old.get("resumed", []), record.now()]
    return rows


def announce(console, options, bench, absent, absent_workloads):
    runs = bench.total()
    console.print(
        f"loam bench ({options.mode}): {len(bench.tasks)} workloads on "
        f"{len(bench.allocators)} allocators, {bench.rounds} rounds: {runs} runs"
    )
    for name, why in [*absent, *absent_workloads]:
        console.print(f"left out: {name}: {why}", style="yellow", soft_wrap=True)


def notes_of(meta, troubles):
    what = meta["machine"]
    notes = []
    if meta["load"] > what["cores"] / 2:
        text = f"load {meta['load']} on {what['cores']} cores at the start: other work disturbs"
        notes.append(("busy machine", text))
    notes += [(heading, text) for heading, text in meta.get("remarks", ())]
    notes += [("left out", f"{each['name']}: {each['why']}") for each in meta["absent"]]
    notes += [("left out", f"{each['name']}: {each['why']}") for each in meta["absent_workloads"]]
    changed = " with changes" if meta["dirty"] else ""
    thp = meta["options"]["thp"]
    thp = what["thp"] if thp == "default" else f"{thp} (the machine's: {what['thp']})"
    notes.append((
        None,
        f"{machine.short(what)}, huge pages {thp}; commit {meta['commit']}{changed}; "
        f"{meta['started'][:16]}",
    ))  # fmt: skip
    return notes + [("trouble", text) for text in troubles]


def write_report(console, out):
    """The page and the pictures. Whatever fails there, the figures have been printed."""
    try:
        from lab import report

        report.write(out)
    except ImportError as error:
        console.print(f"no page: {error} (scripts/bootstrap --bench)", style="red", soft_wrap=True)
    except Exception as error:
        console.print(f"no page: {type(error).__name__}: {error}", style="red", soft_wrap=True)


def show(options, console, run, out, tables, troubles=()):
    tables.print_run(console, run, notes_of(run.meta, troubles))
    if not options.no_page:
        write_report(console, out)
    files = sorted(path.name for path in Path(out).iterdir() if path.is_file())
    console.print(f"files: {out}: {', '.join(files)}")
    bad = {name for _, name, _, _ in run.failures()}
    return 1 if bad & {BASELINE, "loam"} else 0


def measure(bench, record_file, console, progress, on_reference):
    """(new rows, whether it was interrupted); each row is on disk before the next run begins.

    on_reference is told of each row of round 0, and ends the run by returning False.
    """
    rows = []
    names = [each.name for each in bench.allocators]
    try:
        bench.set_up()
        with progress.make_progress(console, bench.total(), names) as shown:
            for row in bench.run(shown):
                record_file.rows.add(row)
                rows.append(row)
                if row.round == 0 and not on_reference(row):
                    break
    except KeyboardInterrupt:
        bench.launcher.stop()
        return rows, True
    return rows, False


def run(options, command_line):
    thp = check_thp(options.thp)
    progress, record, stats, tables = import_front()
    console = progress.make_console()
    found, absent = choose_allocators(options, console.print)
    remarks = []
    if options.program:
        kept, said = own.preloads(found)
        remarks += [("preload", text) for text in said]
        tasks, absent_workloads = [own.task(options, kept)], []
        own.foreign_malloc(tasks[0], found[0])
    else:
        tasks, absent_workloads = choose_tasks(options)
    out = make_out(options.out)
    meta = record.described(
        recorded_options(options), command_line, tasks, found, absent, absent_workloads
    )
    rows = taken_up(options, record, meta, out) if options.resume else []
    troubles = []

    def on_trouble(text):
        if text in troubles:
            return
        troubles.append(text)
        console.print(f"trouble: {text}", style="bold red", soft_wrap=True)

    record_file = record.Record(out, options.resume, on_trouble)
    record_file.save(meta)
    failed = []
    stamp = {"commit": meta["commit"], "machine": machine.short(meta["machine"])}
    with tempfile.TemporaryDirectory(prefix="loam-bench-") as work:
        done = [(row.round, row.label, row.allocator) for row in rows]
        bench = Bench(tasks, found, Path(work), options.rounds, options.timeout, thp, done, stamp)
        bench.on_samples = record_file.add_samples
        bench.on_latency = record_file.add_latency

        def on_reference(row):
            if not options.program:
                return True
            if row.status != "ok":
                failed.append(own.failure(row))
                return False
            found = own.look(bench, tasks[0], Path(work), options.timeout)
            remarks.extend(("executables", text) for text in found)
            return True

        announce(console, options, bench, absent, absent_workloads)
        more, interrupted = measure(bench, record_file, console, progress, on_reference)
    rows += more
    record_file.close()
    if interrupted:
        console.print(
            f"interrupted; rows so far: {len(rows)}, in {record_file.rows.path}; --resume goes on, "
            f"--report-only {out} shows what is there",
            soft_wrap=True,
        )
        return 130
    if failed:
        print(f"bench: {failed[0]}", file=sys.stderr)
        return 1
    meta["ended"] = record.now()
    if options.program:
        remarks += own.remarks(options, tasks[0], rows, bench.ignored)
    meta["remarks"] = remarks
    record_file.save(meta)
    latencies = latency.load(out / "latency.csv")
    finished = stats.Run(meta, rows, stats.load_rss(out / "rss.csv"), latencies)
    return show(options, console, finished, out, tables, troubles)


def listing(options):
    progress, _, _, _ = import_front()
    console = progress.make_console()
    found, absent = choose_allocators(options, console.print)
    for each in found:
        version = each.version() or "?"
        kind = "" if each.kind == "fast" else f" ({each.kind})"
        console.print(f"{each.name:<16}{version}{kind}  {each.library}", soft_wrap=True)
    for name, why in absent:
        console.print(f"{name:<16}left out: {why}", style="yellow", soft_wrap=True)
    console.print()
    options.program = False
    tasks, missing = choose_tasks(options)
    names = {}
    for task in tasks:
        names.setdefault((task.suite, task.name), []).append(task)
    for (suite, name), group in names.items():
        counts = ",".join(str(task.threads) for task in group)
        tail = f" at {counts} threads" if counts != "1" else ""
        console.print(f"{suite:<6}{name}{tail}: {group[0].question}", soft_wrap=True)
    for name, why in missing:
        console.print(f"{name}: left out: {why}", style="yellow", soft_wrap=True)
    return 0


def main(arguments):
    INTERRUPTS.install()
    use_any_terminal()
    try:
        options = parse(arguments)
        if options.list:
            return listing(options)
        if options.report_only or options.compare:
            progress, _, stats, tables = import_front()
            console = progress.make_console()
            try:
                if options.report_only:
                    folder = options.report_only
                    return show(options, console, stats.load(folder), folder, tables)
                found = stats.agreement(*(stats.load(each) for each in options.compare))
            except stats.NoRun as error:
                raise WrongUse(str(error)) from error
            if not found:
                raise WrongUse("--compare: the two runs have nothing in common")
            return 0 if tables.print_agreement(console, found) else 1
        return run(options, ["bench/run.py", *arguments])
    except (WrongUse, NoStarter, workloads.BadCases) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # Whoever read the output has gone: no use in going on, none in complaining.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 141
    except OSError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("bench: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
