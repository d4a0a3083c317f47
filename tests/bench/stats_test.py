"""bench/lab/stats.py and record.py: figures against hand-computed ones, files that are cut off."""

import json
import math
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import common
from lab.results import RawFile, RawRows, Row, read_rows

REASON = common.lacks("numpy")
if REASON:
    print(f"skipped: {REASON}")
    sys.exit(77)

from lab import record, stats  # noqa: E402

# (suite, workload, threads): {allocator: CPU seconds of the rounds, or a status}
PLAIN = {
    ("micro", "a", 2): {"glibc": (1.0, 2.0, 4.0), "x": (0.5, 1.0, 2.0), "y": (2.0, 4.0, 8.0)},
    ("micro", "b", 1): {"glibc": (1.0, 1.0, 1.0), "x": (2.0, 2.1, 1.9), "y": (1.0, 1.0, 1.0)},
    ("real", "c", 1): {"glibc": (1.0, 1.0, 1.0), "x": (1.0, 1.0, 1.0), "y": "crash"},
}


def made_rows(plain=PLAIN):
    for (suite, workload, threads), cells in plain.items():
        for name, figures in cells.items():
            bad = isinstance(figures, str)
            for turn, cpu in enumerate((1.0, 1.0, 1.0) if bad else figures, 1):
                yield Row(
                    turn, workload, name, figures if bad else "ok", "SIGSEGV" if bad else "",
                    suite, threads, user_s=cpu * 0.5, sys_s=cpu * 0.5, wall_s=cpu,
                    minor_faults=100, peak_kib=int(cpu * 1000),
                )  # fmt: skip


def made_meta(plain=PLAIN, names=("glibc", "x", "y")):
    entry = {"sha256": "1", "env": {}, "version": "1", "kind": "fast"}
    return {
        "commit": "c0ffee", "dirty": False, "options": {"mode": "quick", "rounds": 3},
        "machine": {"model": "m", "cores": 2, "kernel": "6", "thp": "never"},
        "allocators": [{"name": name, **entry} for name in names],
        "workloads": [
            {"name": name, "suite": suite, "threads": [threads], "question": "", "tags": [],
             "command": name, "sha256": "2"}
            for suite, name, threads in plain
        ],
    }  # fmt: skip


def made_run(plain=PLAIN, names=("glibc", "x", "y")):
    return stats.Run(made_meta(plain, names), list(made_rows(plain)))


class Figures(unittest.TestCase):
    def setUp(self):
        self.run_ = made_run()
        self.a, self.b, self.c = self.run_.workloads

    def test_labels(self):
        self.assertEqual([each.label for each in self.run_.workloads], ["a/2", "b/1", "c"])
        self.assertEqual(self.run_.suites(), ["micro", "real"])
        self.assertEqual(self.run_.suite("micro"), [self.a, self.b])

    def test_ratio_is_taken_round_by_round(self):
        figure = self.run_.ratio(self.a, "x", "cpu_s")
        self.assertAlmostEqual(figure.value, 0.5)
        self.assertAlmostEqual(figure.spread, 0.0)
        self.assertAlmostEqual(self.run_.ratio(self.b, "x", "cpu_s").spread, 0.2 / 2 / 2.0)

    def test_ratio_to_the_fastest(self):
        self.assertEqual(self.run_.fastest(self.a, "cpu_s"), "x")
        self.assertAlmostEqual(self.run_.ratio(self.a, "y", "cpu_s", "fastest").value, 4.0)
        self.assertAlmostEqual(self.run_.ratio(self.a, "x", "cpu_s", "fastest").value, 1.0)

    def test_geometric_means(self):
        mean = self.run_.geomean("x", "cpu_s")
        self.assertAlmostEqual(mean.value, (0.5 * 2.0 * 1.0) ** (1 / 3))
        self.assertEqual(mean.count, 3)
        micro = self.run_.geomean("y", "wall_s", "micro")
        self.assertAlmostEqual(micro.value, math.sqrt(2.0))
        self.assertEqual(self.run_.geomean("y", "cpu_s").count, 2)
        self.assertIsNone(self.run_.geomean("y", "cpu_s", "real"))
        self.assertAlmostEqual(self.run_.geomean("glibc", "peak_kib").value, 1.0)

    def test_worst(self):
        (workload, figure), *_ = self.run_.worst("x", "cpu_s")
        self.assertEqual((workload, figure.value), (self.b, 2.0))
        self.assertEqual(len(self.run_.worst("x", "cpu_s", 2)), 2)

    def test_a_crash_has_no_figure_and_is_named(self):
        self.assertIsNone(self.run_.ratio(self.c, "y", "cpu_s"))
        self.assertEqual(self.run_.cells["c", 1, "y"].bad, "crash")
        self.assertEqual(self.run_.failures(), [(self.c, "y", "crash", "SIGSEGV (3 of 3 runs)")])

    def test_ties(self):
        self.assertEqual(self.run_.best(self.b, "cpu_s"), {"glibc", "y"})
        self.assertEqual(self.run_.best(self.a, "cpu_s"), {"x"})

    def test_a_workload_that_nobody_ran_has_cells_all_the_same(self):
        run = stats.Run(made_meta(), [])
        self.assertEqual(len(run.cells), 9)
        self.assertIsNone(run.ratio(run.workloads[0], "x", "cpu_s"))
        self.assertIsNone(run.geomean("x", "cpu_s"))
        self.assertEqual(run.worst("x", "cpu_s"), [])


class Intervals(unittest.TestCase):
    def test_no_spread_no_interval(self):
        low, high = stats.interval([[0.5, 0.5, 0.5], [0.5, 0.5, 0.5]])
        self.assertAlmostEqual(low, 0.5)
        self.assertAlmostEqual(high, 0.5)

    def test_over_rounds_of_one_workload(self):
        # Medians of three draws from {1, 2, 4}: 1 with 7/27, 4 with 7/27.
        low, high = stats.interval([[1.0, 2.0, 4.0]], over="rounds")
        self.assertAlmostEqual(low, 1.0)
        self.assertAlmostEqual(high, 4.0)

    def test_over_workloads_is_wider_than_over_rounds(self):
        samples = [[0.5, 0.5], [2.0, 2.0], [1.0, 1.0]]
        rounds, both = stats.interval(samples, "rounds"), stats.interval(samples, "both")
        self.assertAlmostEqual(rounds[0], rounds[1])
        # All three draws the same: 1 in 27, more than 2.5%.
        self.assertAlmostEqual(both[0], 0.5)
        self.assertAlmostEqual(both[1], 2.0)

    def test_the_same_rows_give_the_same_interval(self):
        samples = [[0.5, 0.7, 0.6], [2.0, 1.9, 2.2]]
        self.assertEqual(stats.interval(samples), stats.interval(samples))
        low, high = stats.interval(samples)
        self.assertLess(low, high)


class Agreeing(unittest.TestCase):
    def test_two_runs(self):
        slower = {**PLAIN, ("micro", "b", 1): {**PLAIN["micro", "b", 1], "x": (2.4, 2.4, 2.4)}}
        found = {(e.allocator, e.metric): e for e in stats.agreement(made_run(), made_run(slower))}
        self.assertAlmostEqual(found["x", "cpu_s"].difference, 1.2 ** (1 / 3) - 1)
        self.assertFalse(found["x", "cpu_s"].holds)
        self.assertTrue(found["y", "cpu_s"].holds)
        self.assertEqual(found["y", "cpu_s"].count, 2)

    def test_only_what_both_have_counts(self):
        less = {key: value for key, value in PLAIN.items() if key[1] == "a"}
        found = stats.agreement(made_run(), made_run(less))
        self.assertEqual({each.count for each in found}, {1})
        self.assertTrue(all(each.holds for each in found))


class Files(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def written(self):
        raw = RawRows(self.folder / "rows.csv")
        for row in made_rows():
            raw.add(row)
        raw.close()
        (self.folder / "run.json").write_text(json.dumps(made_meta()))

    def test_a_run_is_read_as_it_was_written(self):
        self.written()
        run = stats.load(self.folder)
        self.assertEqual(run.rows, list(made_rows()))
        self.assertAlmostEqual(run.geomean("x", "cpu_s").value, 1.0)

    def test_a_row_that_was_cut_off_is_left_out_and_gone_on_from(self):
        self.written()
        path = self.folder / "rows.csv"
        path.write_bytes(path.read_bytes()[:-30])
        self.assertEqual(len(read_rows(path)), len(list(made_rows())) - 1)
        raw = RawRows(path, again=True)
        raw.add(list(made_rows())[-1])
        raw.close()
        self.assertEqual(read_rows(path), list(made_rows()))

    def test_a_row_that_is_there_twice_counts_once(self):
        self.written()
        raw = RawRows(self.folder / "rows.csv", again=True)
        row = list(made_rows())[0]
        row.user_s = 7.0
        raw.add(row)
        raw.close()
        rows = record.earlier(self.folder)[1]
        self.assertEqual(len(rows), len(list(made_rows())))
        self.assertEqual(rows[0].user_s, 7.0)

    def test_samples_of_a_run_made_again_replace_the_first_ones(self):
        raw = RawFile(self.folder / "rss.csv", record.RSS_COLUMNS)
        for ms, kib in ((1.0, 5), (11.0, 6), (1.5, 7), (11.5, 8)):
            raw.add(dict(zip(record.RSS_COLUMNS, (1, "a", 2, "x", ms, kib))))
        raw.close()
        found = stats.load_rss(self.folder / "rss.csv")
        self.assertEqual(found, {("a", 2, "x"): {1: [(1.5, 7), (11.5, 8)]}})

    def test_no_run_is_one_line(self):
        with self.assertRaisesRegex(stats.NoRun, "no run of the lab is there"):
            stats.load(self.folder)
        (self.folder / "run.json").write_text("[]")
        (self.folder / "rows.csv").write_text("")
        with self.assertRaisesRegex(stats.NoRun, "not the files of a run"):
            stats.load(self.folder)

    def test_a_full_disk_costs_rows_and_one_line(self):
        lines = []
        raw = RawRows(Path("/dev/full"), on_trouble=lines.append)
        for row in made_rows():
            raw.add(row)
        raw.close()
        self.assertEqual(
            lines, ["/dev/full: No space left on device: later rows are in memory only"]
        )
        self.assertEqual((raw.count, raw.lost), (0, len(list(made_rows())) + 1))

    def test_a_disk_that_fills_up_keeps_whole_rows(self):
        code = (
            "import resource, signal, sys\n"
            f"sys.path[:0] = [{str(common.BENCH)!r}, {str(Path(__file__).parent)!r}]\n"
            "from pathlib import Path\n"
            "from stats_test import made_rows\n"
            "from lab.results import RawRows\n"
            "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (600, 600))\n"
            "raw = RawRows(Path(sys.argv[1]), on_trouble=lambda text: print(text))\n"
            "for row in made_rows(): raw.add(row)\n"
            "raw.close()\n"
        )
        path = self.folder / "rows.csv"
        shown = subprocess.run(
            [sys.executable, "-B", "-c", code, str(path)], capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        self.assertEqual((shown.returncode, shown.stderr), (0, ""))
        self.assertEqual(shown.stdout.count("\n"), 1)
        self.assertIn("File too large: later rows are in memory only", shown.stdout)
        kept = read_rows(path)
        self.assertGreater(len(kept), 1)
        self.assertEqual(kept, list(made_rows())[: len(kept)])


class Resuming(unittest.TestCase):
    def test_the_same_run(self):
        one, two = made_meta(), made_meta()
        two["options"]["rounds"] = 9
        self.assertEqual(record.differences(one, two), [])

    def test_what_differs_is_named(self):
        two = made_meta(names=("glibc", "x", "z"))
        two["commit"] = "decade"
        two["allocators"][1]["sha256"] = "other"
        two["workloads"][0]["command"] = "a --scale 2"
        self.assertEqual(
            record.differences(made_meta(), two),
            [
                "allocator x is another build or has other arguments",
                "allocator y is gone",
                "allocator z is new",
                "commit: was c0ffee, is decade",
                "workload a is another build or has other arguments",
            ],
        )


if __name__ == "__main__":
    common.run_tests(__name__)
