"""bench/lab/tables.py: eighty columns, stars, failures, means. Needs python3-rich."""

import io
import sys
import unittest

import common

REASON = common.lacks("numpy") or common.lacks("rich")
if REASON:
    print(f"skipped: {REASON}")
    sys.exit(77)

from rich.console import Console  # noqa: E402

from lab import stats, tables  # noqa: E402
from lab.allocators import LAB_NAMES  # noqa: E402
from lab.results import LABELS, Row  # noqa: E402


def made(cells, names):
    """A run of {(workload, threads): {allocator: (CPU seconds, KiB) or a status}}, one round."""
    rows = []
    for (name, threads), figures in cells.items():
        for allocator, figure in figures.items():
            good = isinstance(figure, tuple)
            cpu, kib = figure if good else (1.0, 1000)
            status, why = ("ok", "") if good else (figure, "for a reason " * 9)
            rows.append(
                Row(1, name, allocator, status, why, "micro", threads, user_s=cpu, peak_kib=kib)
            )
    meta = {
        "allocators": [{"name": name, "version": "1.2.3", "kind": "fast"} for name in names],
        "workloads": [
            {"name": name, "suite": "micro", "threads": [threads], "question": "", "tags": []}
            for name, threads in cells
        ],
    }
    return stats.Run(meta, rows)


def printed(run, notes=()):
    console = Console(file=io.StringIO(), width=80, highlight=False)
    tables.print_run(console, run, notes)
    return console.file.getvalue()


class Tables(unittest.TestCase):
    def test_few_allocators_have_their_names(self):
        cells = {("a", 2): {"glibc": (2.0, 2048), "loam": (1.0, 4096), "jemalloc": (1.04, 512)}}
        text = printed(made(cells, ["glibc", "loam", "jemalloc"]))
        self.assertRegex(text, r"glibc +loam +jemalloc")
        self.assertRegex(text, r"a/2 +2\.00s +0\.50\* +0\.52\*")
        self.assertRegex(text, r"a/2 +2\.0M +2\.00 +0\.25\*")
        self.assertIn("loam 1.2.3", text)

    def test_eighty_columns_hold_the_worst_case(self):
        cells = {}
        for place, status in enumerate(LABELS):
            cells["a-workload-of-a-long-name", place] = {
                name: (1000.0 + 90000 * at, 5 << 22) for at, name in enumerate(LAB_NAMES)
            }
            cells["failing", place] = {"glibc": (0.05, 900), "loam": status}
        text = printed(made(cells, LAB_NAMES), [("files", "/a/long/path/" * 12)])
        self.assertLessEqual(max(len(line) for line in text.splitlines()), 80)
        for code in tables.CODES.values():
            self.assertRegex(text, rf"failing/\d +50ms\*? +{code} ")

    def test_more_allocators_than_fit_go_into_a_second_table(self):
        names = ["glibc", *(f"build{number}" for number in range(13))]
        text = printed(made({("a", 1): {name: (1.0, 1000) for name in names}}, names))
        self.assertEqual(text.count("CPU time, user + system"), 2)
        self.assertLessEqual(max(len(line) for line in text.splitlines()), 80)

    def test_a_mean_that_lacks_a_workload_is_marked(self):
        cells = {
            ("a", 1): {"glibc": (1.0, 1000), "loam": (0.5, 1000)},
            ("b", 1): {"glibc": (1.0, 1000), "loam": "crash"},
        }
        text = printed(made(cells, ["glibc", "loam"]))
        self.assertRegex(text, r"geometric mean +n=2 +0\.50'")
        self.assertRegex(text, r"loam +0\.50 \[0\.50-0\.50\] \(1\)")
        self.assertIn("b/1 on loam: crash: for a reason", text)

    def test_a_figure_keeps_to_its_width(self):
        from lab.results import Figure

        for value in (0.0001, 0.0099, 0.00999, 0.0994, 0.0999, 99.99, 123.4, 9999.0):
            self.assertLessEqual(len(tables.own_text(Figure(value, 0), "cpu_s")), 5, value)
        for kib in (900, 101_000, 102_399, 9_000_000):
            self.assertLessEqual(len(tables.own_text(Figure(kib, 0), "peak_kib")), 5, kib)
        for value in (0.001, 9.994, 9.996, 99.4, 99.6, 523.0):
            self.assertLessEqual(len(tables.ratio_text(value)), 4, value)


if __name__ == "__main__":
    common.run_tests(__name__)
