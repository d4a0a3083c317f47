"""bench/family/meter_figures.py: pictures from the rows of a metered program."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import common

FAMILY = Path(__file__).resolve().parents[2] / "bench/family"
sys.path.insert(0, str(FAMILY))
import meter_figures  # noqa: E402

HEADER = (
    "entry,ns,allocator,name,meter,operation,function,slow,call_ns,used,held,held_in_all,"
    "requested,requests,allocs,frees,reallocs,slow_calls,alloc_ns,free_ns,realloc_ns"
)


def row(entry, allocator, name, meter, operation, used, held, requested=0, slow_calls=0):
    return (
        f"{entry},{entry * 10},{allocator},{name},{meter},{operation},alloc,0,20,"
        f"{used},{held},{held},{requested},1,{operation},0,0,{slow_calls},1,0,0"
    )


class WithFiles(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def file(self, *lines, end="\n"):
        path = self.folder / "rows.csv"
        path.write_text("\n".join([HEADER, *lines]) + end, encoding="utf-8")
        return path


class Reading(WithFiles):
    def test_each_meter_has_its_curve(self):
        path = self.file(
            row(1, "heap", "", 0, 300, 5, 100),
            row(2, "region", "a", 1, 300, 7, 50, requested=70, slow_calls=2),
            row(3, "region", "a", 1, 600, 9, 40),
            "# histogram,region,a,1,alloc,8:100,16:20",
        )
        curves = meter_figures.read(path)
        self.assertEqual(list(curves), [("heap", "", 0), ("region", "a", 1)])
        region = curves["region", "a", 1]
        self.assertEqual(region.points[0], [300, 50, 7, 70, 2, 50, 7])
        self.assertEqual(len(region.points), 2)
        self.assertEqual(region.held_most, 50)
        self.assertEqual(region.histograms, {"alloc": {8: 100, 16: 20}})

    def test_long_files_are_thinned_and_keep_their_peaks(self):
        lines = [row(i, "pool", "", 1, i * 300, 1000 if i == 77777 else i % 10, 2000 if i == 55555
                     else 20)
                 for i in range(1, 100001)]  # fmt: skip
        curve = meter_figures.read(self.file(*lines))["pool", "", 1]
        self.assertLess(len(curve.points), 2 * meter_figures.POINTS)
        self.assertGreaterEqual(len(curve.points), meter_figures.POINTS)
        operations, held, used, _, _, held_least, used_least = curve.columns()
        self.assertLessEqual(len(operations), meter_figures.SHOWN)
        self.assertEqual((max(held), max(used)), (2000, 1000))
        self.assertEqual((min(held_least), min(used_least)), (20, 0))
        self.assertEqual(operations, sorted(operations))
        # In their places.
        self.assertAlmostEqual(operations[used.index(1000)] / 300, 77777, delta=300)

    def test_the_half_line_of_a_program_that_was_killed(self):
        path = self.file(row(1, "heap", "", 0, 300, 5, 100), "2,20,heap,,0,6", end="")
        self.assertEqual(len(meter_figures.read(path)["heap", "", 0].points), 1)

    def test_what_is_no_row(self):
        path = self.file(
            row(1, "heap", "", 0, 300, 5, 100), "nonsense", row(2, "heap", "", 0, 600, 5, 100)
        )
        with self.assertRaisesRegex(meter_figures.Bad, "rows.csv:3: not a row: nonsense"):
            meter_figures.read(path)

    def test_what_is_no_file_of_rows(self):
        path = self.folder / "x"
        path.write_text("a,b\n1,2\n")
        with self.assertRaisesRegex(meter_figures.Bad, "not a file of the meter's rows"):
            meter_figures.read(path)
        with self.assertRaisesRegex(meter_figures.Bad, "no rows"):
            meter_figures.read(self.file())

    def test_units(self):
        self.assertEqual(meter_figures.scale(3 << 20, meter_figures.BYTES), ("MiB", 1 << 20))
        self.assertEqual(meter_figures.scale(1 << 20, meter_figures.BYTES), ("KiB", 1024))
        self.assertEqual(meter_figures.scale(0, meter_figures.BYTES), ("bytes", 1))
        self.assertEqual(meter_figures.words_of(8), "8 ns")
        self.assertEqual(meter_figures.words_of(4096), "4.1 µs")


@unittest.skipIf(common.lacks("matplotlib"), common.lacks("matplotlib") or "")
class Drawing(WithFiles):
    def draw(self, *arguments):
        command = [sys.executable, "-B", FAMILY / "meter_figures.py", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=100)

    def test_both_pictures(self):
        lines = [
            row(i, "region", f"r{i % 3}", i % 3 + 1, i * 300, i % 100, 1000) for i in range(1, 3000)
        ]
        lines += ["# histogram,region,r1,2,alloc,8:1000,4096:3", "# histogram,region,r1,2,free,8:7"]
        path = self.file(*lines)
        done = self.draw(path, "--most", "2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("left out 1 that held less: region r", done.stderr)
        pictures = [Path(line) for line in done.stdout.splitlines()]
        self.assertEqual(
            {picture.name for picture in pictures},
            {f"rows-{name}.{suffix}" for name in ("memory", "cost") for suffix in ("png", "svg")},
        )
        for picture in pictures:
            self.assertGreater(picture.stat().st_size, 5000, picture)

    def test_one_row_alone(self):
        done = self.draw(self.file(row(1, "heap", "", 0, 1, 0, 0)), "--out", self.folder / "new")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue((self.folder / "new/rows-memory.png").exists())
        self.assertFalse((self.folder / "new/rows-cost.png").exists(), "there are no times")

    def test_what_cannot_be_drawn_is_one_line(self):
        path = self.file(row(1, "heap", "", 0, 300, 5, 100))
        for arguments, words in (
            ((path, "--only", "regoin"), "meter_figures: nothing of regoin; there are heap"),
            ((self.folder / "none.csv",), "meter_figures: [Errno 2]"),
        ):
            done = self.draw(*arguments)
            self.assertEqual(done.returncode, 1)
            self.assertIn(words, done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 1)


if __name__ == "__main__":
    common.run_tests(__name__)
