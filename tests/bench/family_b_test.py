"""The tables of seeds 001 and 002: renditions keep their rules, cells run, figures add up.

Quick: every cell at a tiny --n. What a rendition does is checked by family_b_rules.cpp,
which this builds with the sanitizers.
"""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import common

FAMILY = common.BENCH / "family"
BUILT = os.environ.get("BENCH_PROGRAMS", common.ROOT / "build/release/bench")
PROGRAMS = Path(BUILT) / "family"
TABLES = ("blocks", "fifo", "stack", "average", "pages", "align")
FEW = {"blocks": 200, "fifo": 20000, "stack": 3000, "average": 100000, "pages": 20, "align": 20000}
NOT_INSTALLED = 77
MIB = 1 << 20


def run(table, *arguments, **environment):
    # loam, preloaded, has a word to say about options in its name that it does not know.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("LOAM_")}
    return subprocess.run(
        [PROGRAMS / table, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env={**inherited, **environment},
    )


def listed(table):
    return json.loads(run(table, "--list").stdout)


def phases(done):
    return [json.loads(line) for line in done.stdout.splitlines()]


def only_phase(table, row, column, *arguments, **environment):
    done = run(table, row, column, *arguments, **environment)
    if done.returncode != 0:
        raise AssertionError(f"{table} {row} {column}: {done.stderr}")
    (phase,) = phases(done)
    return phase


class Rules(unittest.TestCase):
    """family_b_rules.cpp, under AddressSanitizer and UBSan where the compiler has them."""

    def test_renditions_keep_their_rules(self):
        c, cpp = shutil.which("cc"), shutil.which("c++")
        self.assertTrue(c and cpp, "a compiler is needed")
        # xallocator's blocks of 396 bytes are not aligned; that is its rule too.
        sanitizers = ["-fsanitize=address,undefined", "-fno-sanitize=alignment"]
        with tempfile.TemporaryDirectory() as folder:
            common_flags = ["-g", "-O1", "-Wall", "-Wextra", "-Werror", *sanitizers, f"-I{FAMILY}"]
            objects = []
            for name in ("intersec_fifo.c", "intersec_stack.c"):
                objects.append(f"{folder}/{name}.o")
                subprocess.run(
                    [c, "-std=gnu11", *common_flags, "-c", FAMILY / name, "-o", objects[-1]],
                    check=True,
                )
            program = f"{folder}/rules"
            rules = Path(__file__).with_name("family_b_rules.cpp")
            sources = [rules, FAMILY / "xallocator_rules.cpp", *objects]
            subprocess.run(
                [cpp, "-std=gnu++17", *common_flags, *sources, "-o", program],
                check=True,
            )
            done = subprocess.run([program], capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class Cells(unittest.TestCase):
    def test_every_cell_runs(self):
        ran = 0
        for table in TABLES:
            listing = listed(table)
            names = {column["name"] for column in listing["columns"]}
            for row in listing["rows"]:
                self.assertIn(row["kind"], ("rival", "rendition", "loam", "limit"))
                for column in row["columns"]:
                    self.assertIn(column, names)
                    few = 1 if column.startswith("worst") else FEW[table]
                    done = run(table, row["name"], column, "--n", str(few))
                    cell = f"{table} {row['name']} {column}"
                    if done.returncode == NOT_INSTALLED:
                        self.assertIn("not installed", done.stderr, cell)
                        continue
                    self.assertEqual(done.returncode, 0, f"{cell}: {done.stderr}")
                    self.assertEqual(done.stderr, "", cell)
                    for phase in phases(done):
                        self.assertGreater(phase["ops"], 0, cell)
                        self.assertGreater(phase["seconds"], 0, cell)
                        self.assertGreaterEqual(phase["faults"], 0, cell)
                    ran += 1
        self.assertGreater(ran, 100)

    def test_alignment_takes_what_it_must(self):
        def bytes_of(row, column):
            return only_phase("align", row, column, "--n", "100000")["bytes"]

        self.assertEqual(bytes_of("full", "int"), 4)
        self.assertEqual(bytes_of("uniform", "int"), 16)
        self.assertEqual(bytes_of("loam", "int"), 4)
        for column in ("function", "at-8", "at-64", "at-mixed"):
            bare = bytes_of("limit", column)
            self.assertAlmostEqual(bare, 256.5, delta=5)
            self.assertEqual(bytes_of("log", column), bytes_of("full", column))
            self.assertEqual(bytes_of("log-both", column), bytes_of("full-both", column))
            self.assertGreater(bytes_of("full", column), bare)
            self.assertGreaterEqual(bytes_of("full-both", column), bytes_of("full", column))

    def test_rows_that_have_realloc_grow(self):
        for table in ("fifo", "stack"):
            rows = {row["name"]: row["columns"] for row in listed(table)["rows"]}
            for row, columns in rows.items():
                self.assertIn("grow-copy", columns, row)
            for row in ("loam", "intersec-old", "intersec-new", "malloc"):
                self.assertIn("grow", rows[row])

    def test_gain_of_realloc_is_shown(self):
        with tempfile.TemporaryDirectory() as folder:
            command = [
                sys.executable,
                "-B",
                FAMILY / "run.py",
                "--programs",
                PROGRAMS,
                "--out",
                folder,
            ]
            chosen = ["--table", "stack", "--rows", "loam,obstack", "--columns", "grow*"]
            done = subprocess.run([*command, *chosen, "--n", "100000", "--rounds", "2"],
                                  capture_output=True, text=True, timeout=120)  # fmt: skip
            self.assertEqual(done.returncode, 0, done.stderr)
            lines = done.stdout.splitlines()
            self.assertTrue(any(re.match(r"stack +grow +grow-copy +gain$", line) for line in lines))
            self.assertTrue(any(re.match(r"loam .*\d\.\d\dx$", line) for line in lines))
            self.assertTrue(any(re.match(r"obstack .* -$", line) for line in lines))

    def test_huge_pages_are_allowed_when_asked(self):
        for huge in ("never", "madvise"):
            done = run("blocks", "malloc", "benchmark", "--n", "100", "--huge", huge)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_three_runs_in_one_process(self):
        done = run("blocks", "xallocator", "benchmark", "--n", "5000")
        runs = phases(done)
        self.assertEqual([one["phase"] for one in runs], ["run 1", "run 2", "run 3"])
        self.assertGreater(runs[0]["faults"], 1000)
        self.assertLess(runs[1]["faults"], 100)  # everything is recycled

    def test_static_pools_end(self):
        done = run("blocks", "xallocator-pools", "benchmark", "--n", "20000")
        self.assertEqual(done.returncode, 1)
        self.assertIn("static pools end", done.stderr)


class Peers(unittest.TestCase):
    def test_a_peer_that_is_not_there(self):
        with tempfile.TemporaryDirectory() as folder:
            done = run("blocks", "mimalloc", "pair", "--n", "10", FAMILY_PEERS=folder)
            self.assertEqual(done.returncode, NOT_INSTALLED)
            self.assertIn("mimalloc is not installed", done.stderr)

    def test_a_library_without_a_malloc_is_found_out(self):
        with tempfile.TemporaryDirectory() as folder:
            library = f"{folder}/empty.so"
            subprocess.run(
                ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", library],
                input="int nothing_of_use;", text=True, check=True,
            )  # fmt: skip
            peers = {"peers": [{"name": "other", "library": "x.so"},
                               {"name": "jemalloc", "library": "empty.so"}],
                     "absent": []}  # fmt: skip
            Path(folder, "peers.json").write_text(json.dumps(peers))
            done = run("blocks", "jemalloc", "pair", "--n", "10", FAMILY_PEERS=folder)
            self.assertEqual(done.returncode, 1)
            self.assertIn("malloc comes from", done.stderr)

    def test_loam_is_the_one_of_this_build(self):
        done = run("blocks", "loam", "pair", "--n", "1000")
        self.assertEqual(done.returncode, 0, done.stderr)


class Seeds(unittest.TestCase):
    """Figures that are no times: they come out the same on every machine."""

    def test_worst_case_total(self):
        old = only_phase("stack", "intersec-old", "worst-memory")
        new = only_phase("stack", "intersec-new", "worst-memory")
        # The seed: 35 and 7.5 MiB where its figure ends.
        self.assertAlmostEqual(old["held_in_all"] / MIB, 41.5, delta=2)
        self.assertAlmostEqual(new["held_in_all"] / MIB, 8.8, delta=1)
        self.assertLessEqual(new["held_most"], old["held_most"] * 1.2)

    def test_worst_case_record(self):
        with tempfile.TemporaryDirectory() as folder:
            record = f"{folder}/record.csv"
            phase = only_phase("stack", "intersec-new", "worst-memory", FAMILY_RECORD=record)
            with open(record, newline="") as file:
                rows = list(csv.DictReader(file))
        self.assertEqual(len(rows), phase["entries"])
        self.assertEqual(int(rows[-1]["held_in_all"]), phase["held_in_all"])
        self.assertEqual(max(int(row["held"]) for row in rows), phase["held_most"])
        for row in rows:
            self.assertLessEqual(int(row["used"]), int(row["held"]))

    def test_fifo_record(self):
        for row in ("intersec-old", "intersec-old-calloc", "intersec-new"):
            with tempfile.TemporaryDirectory() as folder:
                record = f"{folder}/record.csv"
                phase = only_phase(
                    "fifo", row, "cyclic-memory", "--n", "30000", FAMILY_RECORD=record
                )
                with open(record, newline="") as file:
                    rows = list(csv.DictReader(file))
            self.assertEqual(len(rows), phase["entries"])
            # The last slots' blocks are free again.
            self.assertLess(int(rows[-1]["used"]), phase["held_most"] / 10)
            self.assertLess(int(rows[-1]["held"]), phase["held_most"] / 10)

    def test_an_unwritable_record_is_one_clear_line(self):
        done = run("stack", "intersec-new", "worst-memory", FAMILY_RECORD="/no/such/folder/x")
        self.assertEqual(done.returncode, 1)
        self.assertIn("/no/such/folder/x cannot be written", done.stderr)

    def test_means(self):
        old = only_phase("average", "intersec-old", "figure")
        new = only_phase("average", "intersec-new", "figure")
        exponential = only_phase("average", "exponential", "figure")
        self.assertLess(abs(old["peak_oversize"]), 1000)  # above the truncation: left out
        # The seed: a peak p makes blocks p/550 larger; 2 MB for 1 GiB.
        self.assertAlmostEqual(new["peak_oversize"], (1 << 30) / 550, delta=0.03 * (1 << 30) / 550)
        # And some 25% smoother than the exponential mean, by the deviation after a new value.
        smoother = new["peak_oversize"] / exponential["peak_oversize"]
        self.assertAlmostEqual(smoother, 0.77, delta=0.03)


@unittest.skipIf(common.lacks("matplotlib"), common.lacks("matplotlib") or "")
class Figures(unittest.TestCase):
    def draw(self, *arguments):
        return subprocess.run(
            [sys.executable, "-B", FAMILY / "seed_figures.py", *arguments],
            capture_output=True,
            text=True,
            timeout=100,
        )

    def assert_drawn(self, done, names):
        self.assertEqual(done.returncode, 0, done.stderr)
        pictures = [Path(line) for line in done.stdout.splitlines()]
        self.assertEqual({picture.stem for picture in pictures}, names)
        for picture in pictures:
            self.assertGreater(picture.stat().st_size, 5000, picture)

    def test_figures_of_single_runs(self):
        names = {"worst_case", "fifo_memory", "average"}
        with tempfile.TemporaryDirectory() as folder:
            done = self.draw(*names, "--programs", PROGRAMS, "--out", folder)
            self.assert_drawn(done, names)
            self.assertTrue(Path(folder, "stack-worst-memory-intersec-old.csv").exists())

    def test_figures_of_a_measured_run(self):
        head = "program,row,column,huge,phase,seconds,ns_an_op"
        lines = [f"pages,{row},{size},never,use,1,{ns}"
                 for row in ("mmap", "calloc-touch", "fifo-mmap", "fifo-calloc")
                 for size, ns in (("4KiB", 50), ("1MiB", 9000))]  # fmt: skip
        lines += [f"blocks,{row},benchmark,never,run {run},{0.03 / run},1"
                  for row in ("malloc", "loam") for run in (1, 2, 3)]  # fmt: skip
        lines += ["blocks,half,benchmark,never,run 1,0.02,1"]
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "figures.csv").write_text("\n".join([head, *lines]) + "\n")
            done = self.draw("pages", "runs", "--measured", folder, "--out", folder)
            self.assert_drawn(done, {"pages", "runs"})
            table = Path(folder, "runs.txt").read_text().splitlines()
        self.assertEqual(len(table), 7)  # a row that lacks a run is not in it
        self.assertEqual(table[1].split(), ["malloc", "1", "30.00"])

    def test_what_is_missing_leaves_its_figure_out(self):
        with tempfile.TemporaryDirectory() as folder:
            places = ("--programs", folder, "--measured", folder, "--out", folder)
            done = self.draw("average", "pages", "runs", *places)
            self.assertEqual(done.returncode, 1)
            for name in ("average", "pages", "runs"):
                self.assertIn(f"left out {name}", done.stderr)
            self.assertEqual(done.stdout, "")

    def test_an_unknown_figure_is_wrong_use(self):
        self.assertEqual(self.draw("nonsense").returncode, 2)


if __name__ == "__main__":
    missing = [table for table in TABLES if not (PROGRAMS / table).exists()]
    if missing:
        print(
            f"no {', '.join(missing)} in {PROGRAMS}: the target bench of preset release builds it"
        )
        sys.exit(77)
    common.run_tests(__name__)
