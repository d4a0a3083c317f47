"""bench/lab/results.py: medians, ratios, spreads, means, ties, failures, the CSV."""

import csv
import math
import tempfile
import unittest
from pathlib import Path

import common
from lab.results import RawRows, Results, Row, lowest, rotated


class Figures(unittest.TestCase):
    def setUp(self):
        self.results = common.made_up_results()

    def test_the_baseline_s_own_median_and_spread(self):
        figure = self.results.absolute("one", "cpu_s")
        self.assertAlmostEqual(figure.value, 1.0)
        self.assertAlmostEqual(figure.spread, 0.1)

    def test_ratio_is_taken_round_by_round(self):
        # 2.0/1.0, 2.0/1.1, 2.2/0.9
        figure = self.results.ratio("one", "jemalloc", "cpu_s")
        self.assertAlmostEqual(figure.value, 2.0)
        self.assertAlmostEqual(figure.spread, (2.2 / 0.9 - 2.0 / 1.1) / 2 / 2.0)
        self.assertAlmostEqual(self.results.ratio("two", "jemalloc", "peak_kib").value, 0.5)

    def test_a_machine_that_slows_down_changes_no_ratio(self):
        slowing = common.made_up_results(
            one_glibc=[(1.0, 1), (2.0, 1), (4.0, 1)], one_loam=[(0.5, 1), (1.0, 1), (2.0, 1)]
        )
        figure = slowing.ratio("one", "loam", "cpu_s")
        self.assertAlmostEqual(figure.value, 0.5)
        self.assertAlmostEqual(figure.spread, 0.0)
        self.assertAlmostEqual(slowing.absolute("one", "cpu_s").spread, 0.75)

    def test_mean_is_geometric(self):
        value, count = self.results.mean("loam", "cpu_s")
        self.assertAlmostEqual(value, math.sqrt(0.8 * 0.5))
        self.assertEqual(count, 2)
        self.assertAlmostEqual(self.results.mean("glibc", "cpu_s")[0], 1.0)

    def test_a_program_without_a_row_has_no_figure(self):
        results = Results(["one"], ["glibc", "loam"])
        self.assertIsNone(results.absolute("one", "cpu_s"))
        self.assertIsNone(results.ratio("one", "loam", "cpu_s"))
        self.assertEqual(results.mean("loam", "cpu_s"), (None, 0))
        self.assertEqual(results.best("one", "cpu_s"), set())


class Best(unittest.TestCase):
    def test_within_five_percent_is_a_tie(self):
        self.assertEqual(lowest({"a": 1.0, "b": 1.049, "c": 1.06}), {"a", "b"})

    def test_no_best_where_all_are_alike(self):
        self.assertEqual(lowest({"a": 1.0, "b": 1.01}), set())

    def test_per_program_and_over_all(self):
        results = common.made_up_results()
        self.assertEqual(results.best("one", "cpu_s"), {"loam"})
        self.assertEqual(results.best("two", "cpu_s"), {"loam", "jemalloc"})
        self.assertEqual(results.best_mean("cpu_s"), {"loam"})


class Failures(unittest.TestCase):
    def setUp(self):
        bad = [(0.8, 9000), ("crash", 0.1, 500, "SIGSEGV"), (0.8, 9000)]
        self.results = common.made_up_results(one_loam=bad)

    def test_one_bad_run_makes_the_cell_bad(self):
        self.assertIsNone(self.results.ratio("one", "loam", "cpu_s"))
        self.assertEqual(
            self.results.failures(), [("one", "loam", "crash", "SIGSEGV (1 of 3 runs)")]
        )

    def test_the_mean_says_how_many_it_is_made_of_and_is_no_best(self):
        value, count = self.results.mean("loam", "cpu_s")
        self.assertAlmostEqual(value, 0.5)
        self.assertEqual(count, 1)
        self.assertNotIn("loam", self.results.best_mean("cpu_s"))

    def test_a_failed_baseline_leaves_no_ratios(self):
        results = common.made_up_results(one_glibc=[("exit", 0.1, 500, "exit status 1")])
        self.assertIsNone(results.ratio("one", "loam", "cpu_s"))
        self.assertEqual(results.mean("loam", "cpu_s")[1], 1)

    def test_the_worst_of_several_reasons_is_named(self):
        runs = [("differs", 1, 1, "a"), ("crash", 1, 1, "b"), ("timeout", 1, 1, "c")]
        results = common.made_up_results(one_loam=runs)
        self.assertEqual(results.cell("one", "loam").label, "crash")


class Order(unittest.TestCase):
    def test_rotation(self):
        self.assertEqual(rotated("abc", 0), ["a", "b", "c"])
        self.assertEqual(rotated("abc", 1), ["b", "c", "a"])
        self.assertEqual(rotated("abc", 5), ["c", "a", "b"])

    def test_every_one_comes_first_equally_often(self):
        firsts = [rotated("abcd", turn)[0] for turn in range(8)]
        self.assertEqual({name: firsts.count(name) for name in "abcd"}, dict.fromkeys("abcd", 2))


class Csv(unittest.TestCase):
    def test_rows_are_on_disk_at_once(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "runs.csv"
            raw = RawRows(path)
            raw.add(Row(1, "one", "loam", "crash", 'said "no", twice', user_s=0.25))
            with open(path, newline="", encoding="utf-8") as file:
                rows = list(csv.DictReader(file))
            raw.close()
        self.assertEqual(raw.count, 1)
        self.assertEqual(rows[0]["user_s"], "0.250000")
        self.assertEqual(rows[0]["detail"], 'said "no", twice')


if __name__ == "__main__":
    common.run_tests(__name__)
