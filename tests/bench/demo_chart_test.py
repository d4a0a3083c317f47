"""demo/chart.py: both files are written and show what they should. Needs python3-matplotlib.

Looks at the drawing's text and shapes; whether it is pleasant to read needs eyes.
"""

import tempfile
import unittest
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import common

common.use_demo()

REASON = common.lacks("matplotlib") or common.lacks("rich")


def luminance(colour):
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


@unittest.skipIf(REASON, REASON)
class Chart(unittest.TestCase):
    def draw(self, results):
        import chart

        with tempfile.TemporaryDirectory() as folder:
            paths = [Path(folder) / "demo.svg", Path(folder) / "demo.png"]
            chart.draw(results, "how it was made", paths)
            return paths[0].read_text(encoding="utf-8"), paths[1].read_bytes()

    def words(self, svg):
        root = ElementTree.fromstring(svg)
        return [text for node in root.iter() for text in [(node.text or "").strip()] if text]

    def test_both_files(self):
        svg, png = self.draw(common.made_up_results())
        self.assertTrue(png.startswith(b"\x89PNG\r\n\x1a\n"))
        width, height = (int.from_bytes(png[at : at + 4], "big") for at in (16, 20))
        self.assertGreater(width, 1000)
        self.assertGreater(height, 700)
        words = self.words(svg)
        for word in ("one", "two", "loam", "jemalloc", "how it was made", "1.00 s", "195 MB"):
            self.assertIn(word, words)

    def test_loam_carries_its_figures(self):
        words = self.words(self.draw(common.made_up_results())[0])
        for word in ("0.80", "0.50", "0.63", "0.90"):
            self.assertIn(word, words)

    def test_a_failure_is_drawn(self):
        good = self.draw(common.made_up_results())[0]
        bad = [("timeout", 30.0, 100, "no end after 30 s")] * 3
        svg = self.draw(common.made_up_results(one_loam=bad))[0]
        self.assertNotIn("timeout", self.words(good))
        self.assertEqual(self.words(svg).count("timeout"), 2)
        self.assertIn("0.50 (1 of 2)", self.words(svg))

    def test_a_failed_baseline_is_drawn(self):
        bad = [("exit", 0.1, 100, "exit status 1")] * 3
        svg = self.draw(common.made_up_results(one_glibc=bad))[0]
        self.assertEqual(self.words(svg).count("no baseline"), 4)

    def test_a_bar_beyond_the_limit_is_cut_and_says_its_value(self):
        far = [(8.0, 20000)] * 3
        self.assertIn("8.00", self.words(self.draw(common.made_up_results(one_jemalloc=far))[0]))

    def test_the_same_results_give_the_same_picture(self):
        self.assertEqual(
            self.draw(common.made_up_results())[0], self.draw(common.made_up_results())[0]
        )

    def test_colours_differ_in_grey_too(self):
        import chart
        from lab.allocators import NAMES

        self.assertEqual(set(chart.COLOURS), set(NAMES) - {"glibc"})
        greys = sorted(luminance(colour) for colour in chart.COLOURS.values())
        steps = [after - before for before, after in zip(greys, greys[1:])]
        self.assertGreater(min(steps), 0.08)


if __name__ == "__main__":
    common.run_tests(__name__)
