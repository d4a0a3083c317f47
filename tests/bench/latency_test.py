"""bench/lab/latency.py, and its columns in the tables, the page and docs/benchmarks.md.

How many cycles a call really takes is no matter here; what the lab makes of the lines is.
"""

import csv
import io
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import common
import made_run
from lab import latency, programs, workloads
from lab.allocators import Allocator, find_library
from lab.latency import Latency
from lab.measure import Bench

REASON = next(filter(None, map(common.lacks, ("jinja2", "matplotlib", "numpy", "rich"))), None)
if REASON:
    print(f"skipped: {REASON}")
    sys.exit(77)

from rich.console import Console  # noqa: E402

from lab import record, report, report_data, report_docs, stats, tables  # noqa: E402

SAID = """latency malloc calls=2000 p50=31 p99=190 p99.9=720 p99.99=3400 slow=1
latency free calls=1000 p50=20 p99=90 p99.9=300 p99.99=2100 slow=5
latency threads=1 ops=4000 sum=7
"""
HISTOGRAM = """
#include "latency.h"
#include <stdio.h>
static Latencies one, two;
int main(void) {
    for (unsigned at = 0; at + 1 < BUCKETS; at++) { /* the last bucket has no upper bound */
        uint64_t most = latency_most(at);
        if (latency_bucket(most) != at || latency_bucket(most + 1) != at + 1) return 1;
        if (most >= LINEAR && most - latency_most(at - 1) > most / 32 + 1) return 2;
    }
    if (latency_bucket(UINT64_MAX) != BUCKETS - 1) return 3;
    if (latency_quantile(&one, 0.5) != 0) return 4;
    for (uint64_t cycles = 1; cycles <= 1000; cycles++) latency_add(&one, cycles);
    for (int turn = 0; turn < 9; turn++) latency_add(&two, 2000);
    latency_add(&two, 2001);
    latency_merge(&one, &two);
    printf("%ju %ju", (uintmax_t)one.calls, (uintmax_t)one.slow);
    double parts[] = {0.01, 0.05, 0.5, 0.99, 1.0};
    for (int at = 0; at < 5; at++) printf(" %ju", (uintmax_t)latency_quantile(&one, parts[at]));
    uint64_t before = clock_cycles(), overhead = clock_overhead();
    if (overhead == 0 || clock_cycles() - before < overhead) return 5;
    return 0;
}
"""
ROWS = [("micro", "latency-steady", 1, ["latency"], False), ("micro", "cfrac", 1, [], False)]
NAMES = ["glibc", "loam", "jemalloc"]


class InAFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)


class Histogram(InAFolder):
    """latency.h: bounds of the buckets, quantiles, the clock."""

    def test_buckets_and_quantiles(self):
        program = str(self.folder / "program")
        subprocess.run(
            ["cc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror",
             f"-I{common.BENCH}/workloads", "-x", "c", "-", "-o", program],
            input=HISTOGRAM, text=True, check=True,
        )  # fmt: skip
        done = subprocess.run([program], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0)
        calls, slow, *quantiles = (int(word) for word in done.stdout.split())
        self.assertEqual((calls, slow), (1010, 1))
        # Exact up to 63; above, the upper bound of a bucket that is at most 1/32 wide.
        self.assertEqual(quantiles[:2], [11, 51])
        for found, exact in zip(quantiles[2:], (505, 1000, 2001)):
            self.assertTrue(exact <= found <= exact * 33 / 32, (found, exact))


class Lines(InAFolder):
    def test_what_a_workload_prints(self):
        found = latency.parse(SAID)
        self.assertEqual(list(found), ["malloc", "free"])
        self.assertEqual(found["malloc"], Latency(2000, (31, 190, 720, 3400), 0.05))
        self.assertEqual(found["free"].slow, 0.5)

    def test_what_is_no_such_line(self):
        for text in ("", "latency threads=1 ops=4000 sum=7\n", SAID.replace("latency ", "late ")):
            self.assertEqual(latency.parse(text), {})

    def test_no_call_is_no_share(self):
        text = "latency free calls=0 p50=0 p99=0 p99.9=0 p99.99=0 slow=0\n"
        self.assertEqual(latency.parse(text)["free"].slow, 0.0)

    def test_the_file_is_read_as_it_was_written_and_the_last_run_counts(self):
        writer = record.Record(self.folder, False, self.fail)
        row = record_row("loam")
        writer.add_latency(row, {"malloc": Latency(10, (1, 2, 3, 4), 0.25)})
        writer.add_latency(row, latency.parse(SAID))
        writer.close()
        path = self.folder / "latency.csv"
        found = latency.load(path)
        self.assertEqual(
            found["latency-steady", 1, "loam", "malloc"], {1: latency.parse(SAID)["malloc"]}
        )
        path.write_bytes(path.read_bytes()[:-12])  # the last line was cut off
        self.assertNotIn(("latency-steady", 1, "loam", "free"), latency.load(path))
        self.assertEqual(latency.load(self.folder / "nothing.csv"), {})

    def test_medians_are_of_each_figure(self):
        rounds = {
            1: Latency(10, (1, 20, 300, 4000), 0.1),
            2: Latency(12, (3, 10, 200, 9000), 0.3),
            3: Latency(11, (2, 90, 100, 5000), 0.2),
        }
        self.assertEqual(latency.median(rounds), Latency(11, (2, 20, 200, 5000), 0.2))
        self.assertIsNone(latency.median({}))

    def test_within_a_quarter_of_the_lowest_is_the_lowest(self):
        figures = {
            name: {"malloc": Latency(10, (at, 100, 100, 100), 0.0)}
            for name, at in (("a", 100), ("b", 125), ("c", 126))
        }
        figures["d"] = {}
        self.assertEqual(latency.best(figures, "malloc", 0), {"a", "b"})
        self.assertEqual(latency.best(figures, "malloc", 1), set())
        self.assertEqual(latency.best(figures, "free", 0), set())
        self.assertEqual(latency.cells(figures, "d"), [("–", None, False)] * 10)


class Measuring(InAFolder):
    def measured(self, text, turn=1):
        """(status and detail of a run that prints this, what on_latency was told)."""
        glibc = Allocator("glibc", find_library("libc.so.6"), "libc6")
        job = programs.Job(["/usr/bin/printf", "%s", text])
        task = workloads.Task(
            "latency-steady", "micro", 1, "", (), lambda _: lambda _: job, lambda: job.command,
            "printf", latency=True, compared=False,
        )  # fmt: skip
        bench, told = Bench([task], [glibc], self.folder, 1, 10), []
        bench.on_latency = lambda row, found: told.append((row.label, row.round, found))
        bench.set_up()
        row = bench.measure(turn, task, glibc)
        return (row.status, row.detail), told

    def test_latencies_of_a_run_are_kept(self):
        state, told = self.measured(SAID)
        self.assertEqual(state, ("ok", ""))
        self.assertEqual(told, [("latency-steady/1", 1, latency.parse(SAID))])

    def test_the_reference_round_does_not_count(self):
        self.assertEqual(self.measured(SAID, turn=0), (("ok", ""), []))

    def test_a_workload_that_prints_none_is_a_failure(self):
        state, told = self.measured("latency threads=1 ops=4000 sum=7\n")
        self.assertEqual((state, told), (("differs", "it printed no latencies"), []))

    def test_the_mixes_are_workloads_of_the_lab(self):
        cases = [case for case in workloads.read_cases() if case.get("latency")]
        self.assertEqual(
            [case["name"] for case in cases],
            ["latency-steady", "latency-server", "latency-growing"],
        )
        self.assertTrue(all(case["quick"] for case in cases))


def record_row(name):
    from lab.results import Row

    return Row(1, "latency-steady", name, "ok", suite="micro", threads=1)


class Shown(InAFolder):
    """Columns for malloc and for free; a line an allocator, a table a workload."""

    def made(self, change=None):
        made_run.make(self.folder, ROWS, NAMES, rounds=3, change=change)
        with open(self.folder / "latency.csv", "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(latency.COLUMNS)
            for turn in (1, 2, 3):
                for at, name in enumerate(NAMES, 1):
                    place = (turn, "latency-steady", 1, name)
                    figures = (20 + at, 101 * at, 1010 * at, 110000 * at, f"{0.0123 * at:.6f}")
                    writer.writerow((*place, "malloc", 9000 + turn, *figures))
                    writer.writerow((*place, "free", 9000, 7, 77, 777, 7777, "0.004200"))
        return self.folder

    def test_the_terminal(self):
        console = Console(file=io.StringIO(), width=80, highlight=False)
        tables.print_run(console, stats.load(self.made()), [])
        text = console.file.getvalue()
        self.assertRegex(text, r"latency-steady/1 +malloc +free\n")
        self.assertRegex(
            text, r"\n +p50 +p99 +p99\.9 +p99\.99 +slow +p50 +p99 +p99\.9 +p99\.99 +slow"
        )
        self.assertRegex(text, r"loam +22 +202 +2020 +220k +0\.025% +7 +77 +777 +7777 +0\.004%")
        self.assertRegex(text, r"glibc +21 +101\* +1010\* +110k\* +0\.012%\* +7 ")
        self.assertLessEqual(max(len(line) for line in text.splitlines()), 80)

    def test_a_run_without_latencies_has_no_such_table(self):
        made_run.make(self.folder, ROWS, NAMES, rounds=1)
        console = Console(file=io.StringIO(), width=80, highlight=False)
        tables.print_run(console, stats.load(self.folder), [])
        self.assertNotIn("single calls", console.file.getvalue())
        self.assertNotIn("Single calls", report.page(report_data.load(self.folder)))

    def test_an_allocator_that_failed_has_no_line(self):
        def change(row):
            if row["workload"] == "latency-steady" and row["allocator"] == "loam":
                row["status"] = "crash"
            return row

        run = stats.load(self.made(change))
        self.assertEqual([list(each) for _, each in latency.tables(run)], [["glibc", "jemalloc"]])

    def test_the_page(self):
        text = report.page(report_data.load(self.made()))
        section = text[text.index('<section id="latency">') :]
        section = section[: section.index("</section>")]
        self.assertIn('<a href="#latency">', text)
        for heading in latency.headings():
            self.assertIn(f">{heading}</th>", section)
        self.assertEqual(section.count("<tr class="), len(NAMES))
        self.assertIn('data-v="2020">2020</td>', section)
        self.assertRegex(section, r'class="n best"[^>]*>1010</td>')

    def test_the_documentation_and_the_kept_run(self):
        kept = self.folder / "kept"
        report_data.pack(self.made(), kept, Path("/nowhere"))
        self.assertTrue((kept / "latency.csv.xz").exists())
        text = report_docs.parts(kept, report.environment())["results"]
        self.assertIn("### Single calls", text)
        lines = [line for line in text.splitlines() if line.startswith("| **loam** | 22 | 202 |")]
        self.assertEqual(len(lines), 1, text)
        heading = next(line for line in text.splitlines() if "| malloc p50 |" in line)
        self.assertEqual(lines[0].count("|"), heading.count("|"))


if __name__ == "__main__":
    common.run_tests(__name__)
