"""bench/lab/progress.py: what a run shows while it goes on. Needs python3-rich."""

import io
import sys
import unittest

import common
from lab.results import Row

REASON = common.lacks("rich")
if REASON:
    print(f"skipped: {REASON}")
    sys.exit(77)

from rich.console import Console  # noqa: E402

from lab import progress  # noqa: E402


class Progress(unittest.TestCase):
    def test_plain_lines_keep_the_columns_order(self):
        target = Console(file=io.StringIO(), width=80, highlight=False)
        with progress.PlainProgress(target, 6, ["glibc", "loam"]) as shown:
            shown.begin(0, 2, "one", "glibc")
            shown.end(Row(0, "one", "glibc", "ok", user_s=1.5))
            shown.finish_group()
            for name, status in (("loam", "crash"), ("glibc", "ok")):
                shown.begin(1, 2, "one", name)
                shown.end(Row(1, "one", name, status, user_s=1.25))
            shown.finish_group()
        lines = target.file.getvalue().splitlines()
        self.assertRegex(lines[0], r"^reference +glibc +loam +CPU seconds$")
        self.assertRegex(lines[1], r"^  one +1\.50 +0:00 left$")
        self.assertRegex(lines[2], r"^round 1/2 +glibc +loam +CPU seconds$")
        self.assertRegex(lines[3], r"^  one +1\.25 +crash +0:00 left$")

    def test_many_allocators_have_short_names_and_codes(self):
        target = Console(file=io.StringIO(), width=80, highlight=False)
        names = ["glibc", "loam", "mimalloc", "jemalloc", "snmalloc", "mimalloc-secure"]
        with progress.PlainProgress(target, 6, names) as shown:
            for name in names:
                shown.begin(1, 1, "alloc-test-medium/2", name)
                shown.end(Row(1, "x", name, "timeout" if name == "jemalloc" else "ok"))
            shown.finish_group()
        head, line = target.file.getvalue().splitlines()
        self.assertRegex(head, r"glibc +loam +mi3 +je +sn +mis")
        self.assertRegex(line, r"0\.00 +0\.00 +0\.00 +time +0\.00 +0\.00")

    def test_time_left(self):
        clock = progress.Clock(10)
        self.assertIsNone(clock.left())
        clock.started -= 20
        clock.done = 4
        self.assertAlmostEqual(clock.left(), 30, delta=1)
        self.assertEqual(progress.seconds_text(125.9), "2:05")


if __name__ == "__main__":
    common.run_tests(__name__)
