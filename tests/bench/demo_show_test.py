"""demo/show.py: the tables at 80 columns. Needs python3-rich."""

import io
import unittest

import common
from lab.results import Row

common.use_demo()

REASON = common.lacks("rich")
NAMES = ["glibc", "loam", "jemalloc", "tcmalloc", "mimalloc"]


def console():
    from rich.console import Console

    return Console(file=io.StringIO(), width=80, highlight=False)


def printed(results, notes=()):
    import show

    target = console()
    show.print_results(target, results, notes)
    return target.file.getvalue()


def line_of(text, start):
    return next(line for line in text.splitlines() if line.startswith(start))


def crowded():
    """Five allocators, long names, wide figures and every kind of failure."""
    from lab.results import LABELS, Results

    programs = ["ghostscript", *(f"program{index}" for index in range(len(LABELS)))]
    rows = []
    for program in programs:
        for place, name in enumerate(NAMES):
            for turn, cpu in enumerate((10.0, 2.0 + place * 30, 199.0)):
                row = Row(turn + 1, program, name, "ok", user_s=cpu, wall_s=cpu)
                row.minor_faults, row.peak_kib = 1, 9_000_000 + turn
                rows.append(row)
    for program, status in zip(programs[1:], LABELS):
        for row in rows:
            if (row.workload, row.allocator) == (program, "loam"):
                row.status, row.detail = status, "for a reason " * 12
    return Results(programs, NAMES, rows)


@unittest.skipIf(REASON, REASON)
class Tables(unittest.TestCase):
    def test_ratios_spreads_and_stars(self):
        text = printed(common.made_up_results())
        line = line_of(text, "one")
        self.assertRegex(line, r"^one +1\.00 s  ±10% +0\.80\* ±10% +2\.00 +±16%")
        self.assertRegex(line_of(text, "geom. mean"), r"1\.00 +0\.63\* +1\.00")

    def test_memory_is_in_megabytes(self):
        text = printed(common.made_up_results())
        memory = text[text.index("Peak memory") :]
        self.assertRegex(line_of(memory, "one"), r"^one +9\.8 MB +0\.90\* +2\.00")
        self.assertRegex(line_of(memory, "two"), r"^two +195 MB +0\.90 +0\.50\*")

    def test_a_failure_stands_in_its_cell_and_below(self):
        bad = [("crash", 0.1, 100, "SIGSEGV")] * 3
        text = printed(common.made_up_results(one_loam=bad))
        self.assertRegex(line_of(text, "one"), r"1\.00 s\* ±10% +crash +2\.00")
        self.assertIn("one on loam: crash: SIGSEGV (3 of 3 runs)", text)
        self.assertRegex(line_of(text, "geom. mean"), r"0\.50 +of 1")

    def test_eighty_columns_hold_the_worst_case(self):
        text = printed(crowded(), [("files", "/a/long/path/" * 12), (None, "words " * 40)])
        self.assertLessEqual(max(len(line) for line in text.splitlines()), 80)
        self.assertNotIn("…", text)
        self.assertIn("1.00  >99%", text)
        for label in ("crash", "timeout", "failed", "differs", "not used"):
            self.assertIn(label, text)

    def test_the_notes_are_printed(self):
        text = printed(common.made_up_results(), [("not installed", "jemalloc (package x)")])
        self.assertIn("not installed: jemalloc (package x)", text)


if __name__ == "__main__":
    common.run_tests(__name__)
