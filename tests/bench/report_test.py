"""bench/lab/report*.py, plots*.py: the page, the pictures and docs/benchmarks.md of made-up runs.

The runs are made_run.py's: what is measured in them is known. Whether a picture is pleasant to
read needs eyes; whether it shows everything, and survives strange results, is tested here.
Needs python3-jinja2, -matplotlib and -numpy; what opens a browser needs chromium.
"""

import contextlib
import functools
import io
import re
import shutil
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path

import common
import made_run

REASON = next(filter(None, map(common.lacks, ("jinja2", "matplotlib", "numpy"))), None)
VOID = {"meta", "input", "br", "link", "img", "hr", "rect", "path", "circle", "line", "polyline"}
SMALL = [
    ("micro", "cfrac", 1, ["small"], False),
    ("micro", "larson", 1, ["threads", "remote"], False),
    ("micro", "larson", 2, ["threads", "remote"], False),
    ("micro", "fragmentation", 1, ["rss"], True),
    ("real", "sqlite3", 1, [], False),
]
FOUR = ["glibc", "loam", "jemalloc", "scudo"]


class Page(HTMLParser):
    """The page taken apart: its text, attributes, table cells; raises on tags out of order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.words, self.attributes, self.cells = [], [], [], []
        self.classes = {}
        self.feed(text)
        self.close()
        if self.open:
            raise AssertionError(f"never closed: {self.open}")

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.attributes += [(tag, name, value or "") for name, value in attributes]
        for name in (found.get("class") or "").split():
            self.classes[name] = self.classes.get(name, 0) + 1
        if tag == "td":
            self.cells.append([found, ""])
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if not self.open or self.open[-1] != tag:
            raise AssertionError(f"</{tag}> within {self.open[-3:]}")
        self.open.pop()

    def handle_data(self, data):
        if self.open and self.open[-1] in ("style", "script"):
            return
        self.words.append(data)
        if self.cells and "td" in self.open:
            self.cells[-1][1] += data

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())

    def heat(self):
        """[(title, text)] of the cells of the full tables."""
        return [(cell["title"], text.strip()) for cell, text in self.cells if "title" in cell]


class Made(unittest.TestCase):
    """Makes runs in a folder of its own."""

    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def make(self, name="run", **how):
        how = {"workloads": SMALL, "allocators": FOUR, "rounds": 3, **how}
        return made_run.make(self.folder / name, **how)

    def view(self, **how):
        from lab import report_data

        return report_data.load(self.make(**how))

    def page(self, **how):
        from lab import report

        self.html = report.page(self.view(**how))
        return Page(self.html)


def set_time(seconds):
    """A change of rows: {(workload, threads, allocator): CPU seconds in every round}."""

    def change(row):
        value = seconds.get((row["workload"], row["threads"], row["allocator"]))
        if value is not None:
            row["user_s"], row["sys_s"] = f"{value:.4f}", "0.0000"
        return row

    return change


def fail(*places, status="crash", detail="signal 11"):
    """A change of rows: these (workload, threads, allocator) fail; None stands for any."""

    def change(row):
        here = (row["workload"], row["threads"], row["allocator"])
        for place in places:
            if all(want in (None, have) for want, have in zip(place, here)):
                row["status"], row["detail"] = status, detail
        return row

    return change


# ---- the page -----------------------------------------------------------------------------------


@unittest.skipIf(REASON, REASON)
class Everything(Made):
    def test_every_cell_is_a_figure_with_its_interval(self):
        page = self.page()
        cells = page.heat()
        self.assertEqual(len(cells), 3 * len(SMALL) * (len(FOUR) - 1))
        for title, text in cells:
            self.assertRegex(text, r"^\d+\.\d\d$")
            self.assertRegex(title, r"^(loam|jemalloc|scudo): \d\.\d\d \(\d\.\d\d–\d\.\d\d\), ")

    def test_the_figures_are_those_of_the_rows(self):
        times = {("cfrac", 1, "glibc"): 1.0, ("cfrac", 1, "loam"): 0.5, ("cfrac", 1, "scudo"): 1.37}
        page = self.page(change=set_time(times))
        found = [text for title, text in page.heat()[:3]]
        self.assertEqual([found[0], found[2]], ["0.50", "1.37"])

    def test_every_row_and_allocator_is_named_and_asked_about(self):
        page = self.page()
        for word in ("cfrac/1", "larson/1", "larson/2", "fragmentation/1", "sqlite3", *FOUR):
            self.assertIn(word, page.text)
        self.assertIn("What does cfrac ask of <malloc> & free?", page.text)
        self.assertIn("hoard (in no package registry)", page.text)
        self.assertIn("bench/run.py --full --rounds 5", page.text)
        self.assertIn("ab" * 6, page.text)

    def test_nothing_is_fetched(self):
        page = self.page()
        for _, name, value in page.attributes:
            if name in ("src", "href", "action", "data", "poster", "srcset"):
                self.assertTrue(value.startswith("#"), value)
        self.assertNotRegex(self.html, r"url\(|@import|<link|<iframe|<object")

    def test_every_link_leads_somewhere(self):
        page = self.page()
        idents = {value for _, name, value in page.attributes if name == "id"}
        links = {value[1:] for _, name, value in page.attributes if name == "href"}
        self.assertGreater(len(links), 8)
        self.assertEqual(links - idents, set())

    def test_xmllint_agrees(self):
        if not shutil.which("xmllint"):
            self.skipTest("no xmllint (package libxml2-utils)")
        self.page()
        done = subprocess.run(
            ["xmllint", "--html", "--noout", "-"], input=self.html, capture_output=True, text=True
        )
        # It knows HTML 4: newer elements and SVG are "invalid tags" to it, and nothing else may be.
        lines = [line for line in done.stderr.splitlines() if "error :" in line]
        self.assertEqual([line for line in lines if not re.search(r"Tag \w+ invalid$", line)], [])

    def test_the_same_run_gives_the_same_page(self):
        from lab import report, report_data

        folder = self.make()
        pages = [report.page(report_data.load(folder)) for _ in range(2)]
        self.assertEqual(*pages)

    def test_a_name_cannot_write_html(self):
        self.page(allocators=["glibc", "loam", "<b>mine</b>&co"])
        self.assertNotIn("<b>mine", self.html)
        self.assertIn("&lt;b&gt;mine&lt;/b&gt;&amp;co", self.html)


@unittest.skipIf(REASON, REASON)
class Strange(Made):
    """Runs as they come where much goes wrong."""

    def test_a_failure_is_marked_wherever_there_would_be_a_figure(self):
        page = self.page(change=fail(("larson", 2, "jemalloc"), status="timeout", detail="no end"))
        marked = [text for title, text in page.heat() if "no end" in title]
        self.assertEqual(marked, ["✗ timeout"] * 3)
        self.assertIn("larson/2 on jemalloc : timeout , no end (3 of 3 runs)", page.text)
        self.assertIn("of 4", page.text)
        self.assertEqual(len(page.heat()), 3 * len(SMALL) * 3)

    def test_one_bad_run_takes_the_cell(self):
        def change(row):
            if (row["workload"], row["allocator"], row["round"]) == ("cfrac", "loam", 2):
                row["status"], row["detail"] = "exit", "exit status 1"
            return row

        page = self.page(change=change)
        self.assertIn("exit status 1 (1 of 3 runs)", page.text)
        self.assertEqual(page.heat()[0][1], "✗ failed")

    def test_a_ratio_of_two_hundred_is_cut_and_written(self):
        times = {("cfrac", 1, "glibc"): 0.01, ("cfrac", 1, "scudo"): 2.0}
        page = self.page(change=set_time(times))
        self.assertIn("200", [text for _, text in page.heat()])
        self.assertGreaterEqual(page.classes["cut"], 1)
        widths = [
            float(value) for tag, name, value in page.attributes if (tag, name) == ("rect", "width")
        ]
        self.assertLessEqual(max(widths), 100.0)

    def test_a_cell_that_never_ran_is_a_dash(self):
        def change(row):
            return None if (row["workload"], row["allocator"]) == ("sqlite3", "loam") else row

        cells = self.page(change=change).heat()
        dashes = [text for title, text in cells if title == "loam: not run"]
        self.assertEqual(dashes, ["–"] * 3)

    def test_a_baseline_that_failed_leaves_absolute_figures(self):
        page = self.page(change=fail(("cfrac", 1, "glibc")))
        row = page.heat()[:3]
        for title, text in row:
            self.assertIn("no glibc to compare it with", title)
            self.assertRegex(text, r"^\d\.\d+ s$")
        self.assertIn("glibc: crash", page.text)

    def test_everything_failed(self):
        page = self.page(change=fail((None, None, None)))
        self.assertEqual({text for _, text in page.heat()}, {"✗ crash"})
        self.assertIn("no CPU time of loam can be compared", page.text)

    def test_one_allocator_alone(self):
        for name in ("glibc", "loam"):
            with self.subTest(name):
                page = self.page(name=name, allocators=[name])
                self.assertEqual(page.heat(), [])
                self.assertIn("cfrac/1", page.text)

    def test_without_glibc_ratios_are_to_the_first(self):
        page = self.page(allocators=["jemalloc", "loam"])
        self.assertIn("Ratios are to jemalloc", page.text)
        self.assertRegex(page.heat()[0][1], r"^\d\.\d\d$")

    def test_without_loam_nobody_wins_or_loses(self):
        page = self.page(allocators=["glibc", "jemalloc"])
        self.assertNotIn("Loses", page.text)
        self.assertIn("Worst cases", page.text)

    def test_one_round_has_no_width(self):
        page = self.page(rounds=1)
        self.assertIn("1 interleaved round", page.text)
        title = page.heat()[0][0]
        value, low, high = re.search(r"(\d\.\d+) \((\d\.\d+)–(\d\.\d+)\)", title).groups()
        self.assertEqual({value, low, high}, {value})

    def test_a_program_of_ones_own(self):
        page = self.page(workloads=[("user", "train", 1, ["user"], True)])
        self.assertIn("train on 4 allocators", page.text)
        self.assertEqual(len(page.heat()), 3 * 3)

    def test_only_the_reference_round(self):
        page = self.page(rounds=0)
        self.assertIn("no row was measured", page.text)

    def test_half_a_line_at_the_end(self):
        from lab import report, report_data

        folder = self.make()
        with open(folder / "rows.csv", "a", encoding="utf-8") as file:
            file.write("2026-11-21T12:00:00Z,3,micro,cfr")
        self.assertEqual(len(Page(report.page(report_data.load(folder))).heat()), 3 * 5 * 3)


# ---- what is said -------------------------------------------------------------------------------


@unittest.skipIf(REASON, REASON)
class Words(Made):
    def verdict(self, loam, noise=0.0):
        times = {("cfrac", 1, "glibc"): 1.0, ("cfrac", 1, "loam"): loam}
        view = self.view(change=set_time(times))
        return view.verdict(view.workloads[0], "loam", "glibc", "cpu_s")

    def test_under_five_percent_is_a_tie(self):
        for loam, wanted in ((0.96, "tie"), (1.04, "tie"), (0.94, "ahead"), (1.06, "behind")):
            self.assertEqual(self.verdict(loam), wanted, loam)

    def test_a_difference_that_the_rounds_do_not_bear_out_is_a_tie(self):
        def change(row):
            if (row["workload"], row["allocator"]) == ("cfrac", "loam"):
                row["user_s"], row["sys_s"] = (0.7, 0.8, 0.9, 1.3, 1.4, 0.85)[row["round"]], 0
            if (row["workload"], row["allocator"]) == ("cfrac", "glibc"):
                row["user_s"], row["sys_s"] = 1.0, 0
            return row

        view = self.view(rounds=5, change=change)
        found = view.ratio(view.workloads[0], "loam", "cpu_s")
        self.assertAlmostEqual(found.value, 0.9)
        self.assertGreater(found.high, 1)
        self.assertEqual(view.verdict(view.workloads[0], "loam", "glibc", "cpu_s"), "tie")

    def times(self, **seconds):
        """The same seconds in every row: {allocator: CPU seconds}."""
        return set_time(
            {
                (name, threads, each): value
                for _, name, threads, _, _ in SMALL
                for each, value in seconds.items()
            }
        )

    def test_the_headline_says_who_is_ahead(self):
        from lab import report_words

        view = self.view(change=self.times(glibc=1.0, loam=0.8, jemalloc=0.5, scudo=2.0))
        (scope, (time, _)), *_ = report_words.headline(view)
        self.assertEqual(scope, "all")
        self.assertIn("0.80 of glibc's (0.80–0.80), the second lowest of 4", time)
        self.assertIn("Lower: jemalloc (0.50)", time)
        self.assertIn("0 won, 0 tied, 5 lost", time)

    def test_wins_losses_and_worst_cases_are_the_extremes(self):
        from lab import report_words

        times = {("cfrac", 1, "loam"): 3.0, ("larson", 2, "loam"): 0.1}
        base = self.times(glibc=1.0, loam=1.0, jemalloc=1.0, scudo=1.0)
        view = self.view(change=lambda row: set_time(times)(base(row)))
        rows = report_words.row_by_row(view, "cpu_s")
        self.assertEqual([(r, w.label) for r, w, _ in rows["behind"]], [(3.0, "cfrac/1")])
        self.assertEqual([w.label for _, w, _ in rows["ahead"]], ["larson/2"])
        self.assertEqual(len(rows["tie"]), 3)
        worst = report_words.worst(view, "loam", "cpu_s")
        self.assertEqual((worst.workload.label, worst.factor), ("cfrac/1", 3.0))
        worst = report_words.worst(view, "jemalloc", "cpu_s")
        self.assertEqual((worst.workload.label, worst.best), ("larson/2", "loam"))
        self.assertAlmostEqual(worst.factor, 10.0)

    def test_hardened_rivals_do_not_count_row_by_row(self):
        from lab import report_words

        view = self.view(change=self.times(glibc=1.0, loam=0.8, jemalloc=1.0, scudo=0.1))
        self.assertEqual(len(report_words.row_by_row(view, "cpu_s")["ahead"]), 5)


@unittest.skipIf(REASON, REASON)
class Claims(Made):
    RIVALS = ["glibc", "mimalloc", "snmalloc", "jemalloc", "tcmalloc", "scudo"]

    def claim(self, ident, **seconds):
        from lab import report_claims

        times = {
            (name, threads, each): value
            for _, name, threads, _, _ in SMALL
            for each, value in seconds.items()
        }
        view = self.view(allocators=self.RIVALS, change=set_time(times))
        for row in view.run.rows:
            row.wall_s = row.cpu_s
        return next(each for each in report_claims.claims(view) if each.ident == ident)

    def test_one_that_holds_has_its_figures(self):
        found = self.claim("remote-frees", mimalloc=1, snmalloc=1, jemalloc=2, tcmalloc=4)
        self.assertEqual(found.verdict, "holds")
        self.assertIn(
            "jemalloc's CPU time is 2.00 (2.00–2.00) times snmalloc's and 2.00", found.figures[1]
        )

    def test_one_that_does_not(self):
        found = self.claim("remote-frees", mimalloc=4, snmalloc=4, jemalloc=2, tcmalloc=2)
        self.assertEqual(found.verdict, "does not hold")
        found = self.claim("remote-frees", mimalloc=1, snmalloc=4, jemalloc=2, tcmalloc=2)
        self.assertEqual(found.verdict, "holds in part")
        found = self.claim("hardened", scudo=0.1)
        self.assertEqual(found.verdict, "does not hold")

    def test_glibc(self):
        rivals = {name: 0.5 for name in ("mimalloc", "snmalloc", "jemalloc", "tcmalloc")}
        self.assertEqual(self.claim("glibc", glibc=1, **rivals).verdict, "holds")
        self.assertEqual(self.claim("glibc", glibc=0.2, **rivals).verdict, "does not hold")

    def test_one_that_this_run_cannot_tell(self):
        found = self.claim("migration")
        self.assertEqual((found.verdict, found.figures), ("cannot be told", ()))

    def test_an_explanation_is_shown_where_it_is_needed(self):
        from lab import report, report_data

        folder = self.make(
            allocators=self.RIVALS,
            change=set_time({("larson", 2, name): 9 for name in ("snmalloc", "mimalloc")}),
        )
        self.assertIn("not explained yet", Page(report.page(report_data.load(folder))).text)
        (folder / "notes.toml").write_text('[claims]\nremote-frees = "Only one core was there."\n')
        self.assertIn("Only one core was there.", Page(report.page(report_data.load(folder))).text)
        (folder / "notes.toml").write_text("[claims\n")
        self.assertIn("notes.toml is damaged", Page(report.page(report_data.load(folder))).text)


# ---- the pictures -------------------------------------------------------------------------------


def words_of(path):
    root = ElementTree.fromstring(path.read_text(encoding="utf-8"))
    return [text for node in root.iter() for text in [(node.text or "").strip()] if text]


@unittest.skipIf(REASON, REASON)
class Pictures(Made):
    @classmethod
    def setUpClass(cls):
        from lab import plots, report_data

        folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        cls.drawn = made_run.make(Path(folder) / "run", SMALL, FOUR, rounds=3)
        cls.written = plots.write(report_data.load(cls.drawn), cls.drawn)

    def draw(self, **how):
        from lab import plots

        view = self.view(**how)
        plots.write(view, view.directory)
        return view.directory

    def test_all_of_them_in_both_formats(self):
        folder = self.drawn
        self.assertEqual(len(self.written), 8)
        for path in self.written:
            if path.suffix == ".png":
                content = path.read_bytes()
                self.assertTrue(content.startswith(b"\x89PNG\r\n\x1a\n"))
                self.assertGreater(int.from_bytes(content[16:20], "big"), 1200)
            else:
                self.assertIn("prefers-color-scheme:dark", path.read_text())
        time = words_of(folder / "time.svg")
        for word in ("cfrac", "larson", "fragmentation", "sqlite3", "CPU time relative to glibc"):
            self.assertIn(word, time)
        self.assertEqual(time.count("larson"), 2)

    def test_points_and_curves_are_named(self):
        folder = self.drawn
        for name in ("time_vs_rss.svg", "fragmentation.svg"):
            found = words_of(folder / name)
            for allocator in FOUR:
                self.assertEqual(found.count(allocator), 1, (name, allocator))

    def test_the_legend_has_the_means_in_order(self):
        folder = self.drawn
        found = [re.match(r"(\w+)  (\d\.\d\d)$", word) for word in words_of(folder / "time.svg")]
        legend = [(match[1], float(match[2])) for match in found if match]
        self.assertEqual({name for name, _ in legend}, set(FOUR))
        self.assertEqual([v for _, v in legend], sorted(v for _, v in legend))

    def test_failures_and_bars_beyond_the_scale(self):
        def change(row):
            row = fail(("larson", 2, "jemalloc"), status="timeout")(row)
            return set_time({("cfrac", 1, "glibc"): 0.01, ("cfrac", 1, "scudo"): 2.0})(row)

        found = words_of(self.draw(change=change) / "time.svg")
        self.assertIn("✗ timeout", found)
        self.assertIn("200", found)

    def test_strange_runs_have_pictures_or_none(self):
        strange = {
            "alone": {"allocators": ["loam"]},
            "failed": {"change": fail((None, None, None))},
            "baseline": {"change": fail((None, None, "glibc"))},
            "empty": {"rounds": 0},
            "one": {"rounds": 1, "workloads": SMALL[:1]},
        }
        drawn = {
            name: len(list(self.draw(name=name, **how).glob("*.svg")))
            for name, how in strange.items()
        }
        self.assertEqual(drawn, {"alone": 2, "failed": 2, "baseline": 3, "empty": 0, "one": 3})

    def test_a_picture_without_data_does_not_stay(self):
        from lab import plots, report_data

        folder = self.draw()
        self.make(workloads=SMALL[:1])
        plots.write(report_data.load(folder), folder)
        self.assertFalse((folder / "fragmentation.svg").exists())
        self.assertTrue((folder / "time.svg").exists())

    def test_the_same_run_gives_the_same_picture(self):
        one, other = self.drawn, self.draw()
        for name in ("time.svg", "time_vs_rss.svg"):
            self.assertEqual((one / name).read_text(), (other / name).read_text())


@unittest.skipIf(REASON, REASON)
class Colours(unittest.TestCase):
    def test_each_its_own_whoever_else_is_there(self):
        from lab.plots_colours import KNOWN, colours

        all_of_them = colours(list(KNOWN) + ["mine", "yours"])
        self.assertEqual(len(set(all_of_them.values())), len(KNOWN) + 2)
        self.assertEqual(colours(["scudo", "loam"])["loam"], all_of_them["loam"])

    def test_loam_comes_first_and_the_hardened_before_the_baseline(self):
        from lab.plots_colours import ordered

        found = ordered(["scudo", "zalloc", "glibc", "snmalloc", "loam"], "glibc", {"scudo"})
        self.assertEqual(found, ["loam", "snmalloc", "zalloc", "scudo", "glibc"])


@unittest.skipIf(REASON, REASON)
class Places(unittest.TestCase):
    def test_spread_keeps_order_distance_and_bounds(self):
        from lab.plots_place import spread

        for wanted in ([5, 5, 5, 5], [0, 1, 99, 100], [50], [], [80, 20, 21, 22, 79], [100] * 9):
            found = spread(wanted, 10, 0, 100)
            ordered = [found[i] for i in sorted(range(len(wanted)), key=lambda i: wanted[i])]
            steps = [after - before for before, after in zip(ordered, ordered[1:])]
            self.assertTrue(all(step >= 10 - 1e-9 for step in steps), (wanted, found))
            self.assertTrue(all(-1e-9 <= each <= 100 + 1e-9 for each in found), (wanted, found))
        self.assertEqual(spread([10, 50, 90], 10, 0, 100), [10, 50, 90])

    def test_labels_of_a_crowd_do_not_overlap(self):
        from lab.plots_place import around, overlap

        points = [(100 + 7 * i % 23, 100 + 11 * i % 29) for i in range(10)]
        labels = around(points, [(60, 12)] * 10, (0, 0, 400, 300))
        left = {"start": 0, "middle": 30, "end": 60}
        found = [
            (at.x - left[at.anchor], at.y - 6, at.x - left[at.anchor] + 60, at.y + 6)
            for at in labels
        ]
        for index, box in enumerate(found):
            self.assertTrue(0 <= box[0] and box[2] <= 400 and 0 <= box[1] and box[3] <= 300)
            for other in found[:index]:
                self.assertLess(overlap(box, other), 60 * 12 * 0.1)

    def test_ticks_are_within_and_few(self):
        from lab.plots_place import ticks

        for low, high in ((0.9, 1.4), (0.2, 3), (0.5, 200), (0.99, 1.01), (0.01, 0.02)):
            found = ticks(low, high, most=8)
            self.assertTrue(1 <= len(found) <= 16, (low, high, found))


# ---- docs/benchmarks.md -------------------------------------------------------------------------


@unittest.skipIf(REASON, REASON)
class Docs(Made):
    def root(self):
        root = self.folder / "root"
        (root / "docs").mkdir(parents=True)
        (root / "bench").mkdir()
        shutil.copyfile(common.ROOT / "docs" / "benchmarks.md", root / "docs" / "benchmarks.md")
        return root

    def test_a_run_is_kept_and_rendered(self):
        from lab import report, report_docs

        root = self.root()
        folder = self.make(change=fail(("cfrac", 1, "scudo"), detail=f"{root}/bench/cfrac: no"))
        report_docs.write(folder, report.environment(), root)
        text = (root / "docs" / "benchmarks.md").read_text()
        results = report_docs.between(text, "results")
        for word in ("cfrac/1 on scudo: crash: bench/cfrac: no", "**loam**", "| larson/2 |"):
            self.assertIn(word, results)
        for name in re.findall(r"\]\((img/\S+)\)", text):
            self.assertTrue((root / "docs" / name).exists(), name)
        self.assertIn("## What it cannot tell", text)
        again = report_docs.parts(root / "bench" / "results", report.environment())
        self.assertEqual(again["results"].strip(), results)
        for path in (root / "bench" / "results").iterdir():
            self.assertLess(path.stat().st_size, 300_000)

    def test_tables_are_tables(self):
        from lab import report, report_docs

        root = self.root()
        report_docs.write(self.make(), report.environment(), root)
        lines = (root / "docs" / "benchmarks.md").read_text().splitlines()
        heads = [at for at, line in enumerate(lines) if re.fullmatch(r"\|(-+\|)+", line)]
        self.assertGreaterEqual(len(heads), 8)
        for at in heads:
            columns = lines[at].count("|")
            end = next(i for i in range(at, len(lines)) if not lines[i].startswith("|"))
            self.assertGreater(end, at + 1, lines[at - 1])
            for line in lines[at - 1 : end]:
                self.assertEqual(len(re.findall(r"(?<!\\)\|", line)), columns, line)

    def test_a_page_without_marks_is_left_alone(self):
        from lab import report_docs

        text = "a\n<!-- results: begin -->\nold\n<!-- results: end -->\nb\n"
        self.assertEqual(
            report_docs.replaced(text, "results", "new"),
            "a\n<!-- results: begin -->\n\nnew\n\n<!-- results: end -->\nb\n",
        )
        for broken in ("none", text + text, "<!-- results: end --><!-- results: begin -->"):
            with self.assertRaisesRegex(ValueError, "not one part marked"):
                report_docs.replaced(broken, "results", "new")

    def test_the_page_says_what_was_measured(self):
        """docs/benchmarks.md against bench/results/ and cases.toml; report.py --docs mends it."""
        from lab import report, report_docs

        text = report_docs.PAGE.read_text(encoding="utf-8")
        found = report_docs.parts(report_docs.RESULTS, report.environment())
        for name, part in found.items():
            self.assertEqual(report_docs.between(text, name), part.strip(), name)
        if "results" not in found:
            self.assertEqual(report_docs.between(text, "results"), "No run has been kept yet.")


# ---- from outside -------------------------------------------------------------------------------


@unittest.skipIf(REASON, REASON)
class Command(Made):
    def run_it(self, *arguments):
        from lab import report

        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = report.main([str(each) for each in arguments])
        return status, out.getvalue(), err.getvalue()

    def test_it_names_what_it_wrote(self):
        status, out, _ = self.run_it(self.make())
        self.assertEqual(status, 0)
        for path in out.split():
            self.assertTrue(Path(path).stat().st_size > 1000, path)
        self.assertEqual(len(out.split()), 9)

    def test_no_run_there_is_one_line(self):
        (self.folder / "rows.csv").write_text("x\n")
        for folder in (self.folder / "nowhere", self.folder):
            status, _, err = self.run_it(folder)
            self.assertEqual((status, err.count("\n")), (1, 1))
            self.assertTrue(err.startswith("report: "), err)


@functools.cache
def browser():
    return shutil.which("chromium") or shutil.which("chromium-browser")


@unittest.skipIf(REASON, REASON)
class Browser(Made):
    """What only a browser can tell. The script that asks is put into a copy of the page."""

    ASK = """<script>
    const wide = [...document.body.querySelectorAll("*")].filter((each) =>
      each.getBoundingClientRect().right > innerWidth + 1 && !each.closest(".scroll, svg"));
    const letters = document.querySelectorAll("svg text, td, th, p, .bar span");
    const small = [...letters].filter((each) => {
      const box = each.closest("svg"), drawn = box?.getBoundingClientRect().width;
      const scale = drawn ? drawn / box.viewBox.baseVal.width : 1;
      const size = parseFloat(getComputedStyle(each).fontSize) * scale;
      return each.getClientRects().length && size < 10.5;
    });
    document.querySelector("#tables thead th.n")?.click();
    const table = document.querySelector("#tables table");
    const values = table.querySelectorAll("td:nth-child(2)");
    const sorted = [...values].map((each) => parseFloat(each.dataset.v));
    document.body.innerHTML = "<pre id=answer>" + JSON.stringify({
      width: innerWidth, page: document.documentElement.scrollWidth,
      wide: wide.slice(0, 5).map((each) => each.outerHTML.slice(0, 120)),
      small: small.length, sorted }) + "</pre>";
    </script></body>"""

    def ask(self, width):
        import json

        from lab import report

        if not browser():
            self.skipTest("no chromium")
        text = report.page(self.view(change=made_run.with_failures))
        path = self.folder / "asked.html"
        path.write_text(text.replace("</body>", self.ASK), encoding="utf-8")
        command = [
            browser(), "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
            f"--user-data-dir={self.folder}/profile", f"--window-size={width},900", "--dump-dom",
            path.as_uri(),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=True)
        answer = re.search(r'<pre id="answer">(.*?)</pre>', done.stdout, re.DOTALL)[1]
        return json.loads(answer.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))

    def test_the_page_fits_a_desk_and_a_telephone_and_a_click_on_a_heading_sorts(self):
        for width in (1280, 390):
            with self.subTest(width):
                found = self.ask(width)
                self.assertEqual(len(found["sorted"]), len(SMALL))
                self.assertEqual(found["sorted"], sorted(found["sorted"]))
                self.assertLessEqual(found["page"], found["width"], found["wide"])
                self.assertEqual(found["wide"], [])
                self.assertEqual(found["small"], 0)


if __name__ == "__main__":
    common.run_tests(__name__)
