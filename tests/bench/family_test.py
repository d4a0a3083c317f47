"""The special-purpose matrix: tables 000 and 003, and the runner of all tables.

Quick: every cell at a tiny --n. What the renditions of TfwPool and of Kenwright's pool do is
checked by family_rules.c, which this builds with the sanitizers.
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
NOT_INSTALLED = 77
BULK = ["create", "use", "destroy", "create-warm", "warm", "destroy-warm"]


def run(table, *arguments):
    return subprocess.run(
        [PROGRAMS / table, *arguments], capture_output=True, text=True, timeout=60
    )


def listed(table):
    return json.loads(run(table, "--list").stdout)


def phases(done):
    return [json.loads(line) for line in done.stdout.splitlines()]


def runner(*arguments):
    return subprocess.run(
        [sys.executable, "-B", FAMILY / "run.py", "--programs", PROGRAMS, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
    )


class Rules(unittest.TestCase):
    def test_renditions_keep_their_rules(self):
        compiler = shutil.which("cc")
        self.assertTrue(compiler, "a compiler is needed")
        flags = ["-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{FAMILY}"]
        with tempfile.TemporaryDirectory() as folder:
            program = f"{folder}/rules"
            rules = Path(__file__).with_name("family_rules.c")
            sanitizers = "-fsanitize=address,undefined"
            subprocess.run([compiler, *flags, sanitizers, rules, "-o", program], check=True)
            done = subprocess.run([program], capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 0, done.stderr)


class Cells(unittest.TestCase):
    def every_cell(self, table, n):
        listing = listed(table)
        self.assertEqual(len({row["name"] for row in listing["rows"]}), len(listing["rows"]))
        ran = 0
        for row in listing["rows"]:
            for column in row["columns"]:
                done = run(table, row["name"], column, "--n", str(n))
                cell = f"{table} {row['name']} {column}"
                if done.returncode == NOT_INSTALLED:
                    self.assertRegex(done.stderr, "needs |comes with ", cell)
                    continue
                self.assertEqual(done.returncode, 0, f"{cell}: {done.stderr}")
                self.assertEqual(done.stderr, "", cell)
                ran += 1
                yield row["name"], column, phases(done)
        self.assertGreater(ran, 30)

    def test_regions(self):
        for row, column, got in self.every_cell("region", 5000):
            names = [phase["phase"] for phase in got]
            if column in ("create-destroy", "page-16", "page-4096"):
                self.assertEqual(names, ["use"])
            else:
                self.assertEqual(names, BULK[:3] if row in ("malloc", "limit") else BULK)
            use = next(phase for phase in got if phase["phase"] == "use")
            self.assertEqual(use["ops"], 500 if column.startswith("big") else 5000)
            self.assertTrue(all(phase["seconds"] >= 0 for phase in got))

    def test_pools(self):
        for row, column, got in self.every_cell("pool", 100):
            names = [phase["phase"] for phase in got]
            first = ["use"] if column.endswith("pair") else ["allocate", "free"]
            self.assertEqual(names, ["create", *first, "warm", "destroy"], (row, column))
            self.assertTrue(all(p["ops"] == 100 for p in got if p["phase"] in first))

    def test_both_kinds_of_pages(self):
        for pages in ("never", "madvise"):
            done = run("region", "tfw-rules", "small", "--n", "1000", "--huge", pages)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual([phase["phase"] for phase in phases(done)], BULK)

    def test_a_page_cache_makes_the_second_use_cheap(self):
        done = run("region", "tfw-rules", "create-destroy", "--n", "100000")
        self.assertLess(phases(done)[0]["faults"], 200)  # 1000 regions, one or six pages each

    def test_crates_are_the_versions_shown(self):
        pinned = (FAMILY / "rust/Cargo.toml").read_text()
        rows = {row["name"]: row["version"] for row in listed("region")["rows"]}
        for crate in ("bumpalo", "typed-arena"):
            self.assertIn(f'{crate} = "={rows[crate]}"', pinned)


class WrongUse(unittest.TestCase):
    def refused(self, said, *arguments):
        done = run("pool", *arguments)
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stdout, "")
        self.assertEqual(len(done.stderr.splitlines()), 1)
        self.assertIn(said, done.stderr)

    def test_each_is_one_clear_line(self):
        self.refused('no row "nonesuch"', "nonesuch", "16-lifo")
        self.refused('no column "17-lifo"', "malloc", "17-lifo")
        self.refused("from 1 to", "malloc", "16-lifo", "--n", "0")
        self.refused("from 1 to", "malloc", "16-lifo", "--n", "many")
        self.refused("never or madvise", "malloc", "16-lifo", "--huge", "sometimes")
        self.refused("usage", "malloc")

    def test_a_pool_beyond_its_numbers(self):
        done = run("pool", "kenwright-rules", "4096-pair", "--n", str(1 << 20))
        self.assertEqual(done.returncode, 1)
        self.assertIn("no pool of 4096 bytes", done.stderr)


@unittest.skipIf(common.lacks("numpy"), common.lacks("numpy"))
@unittest.skipIf(common.lacks("matplotlib"), common.lacks("matplotlib"))
@unittest.skipIf(common.lacks("rich"), common.lacks("rich"))
class Runner(unittest.TestCase):
    def test_tables_pictures_and_rows(self):
        with tempfile.TemporaryDirectory() as folder:
            done = runner(
                "--table", "000,pool", "--rows", "tfw-rules,malloc,kenwright-*", "--columns",
                "small,create-destroy,16-random,16-fifo", "--n", "2000", "--rounds", "3", "--out",
                folder,
            )  # fmt: skip
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout, r"tfw-rules \(Small\): +\d+ms")
            self.assertRegex(done.stdout, r"kenwright-rules +\d")
            with open(Path(folder) / "figures.csv", newline="") as file:
                figures = list(csv.DictReader(file))
            for line in figures:
                self.assertLessEqual(float(line["low"]), float(line["seconds"]))
                self.assertLessEqual(float(line["seconds"]), float(line["high"]))
                self.assertEqual(line["rounds"], "3")
                if line["row"] in ("tfw-rules", "kenwright-rules") and line["huge"] == "never":
                    self.assertEqual(float(line["ratio"]), 1)
            with open(Path(folder) / "cells.csv", newline="") as file:
                rows = list(csv.DictReader(file))
            order = [
                [r["row"] for r in rows if r["round"] == number and r["column"] == "create-destroy"
                 and r["huge"] == "never"]
                for number in "01"
            ]  # fmt: skip
            self.assertEqual(order, [["tfw-rules", "malloc"], ["malloc", "tfw-rules"]])
            for name in ("region.svg", "region.png", "pool-cold.svg", "pool-warm.png"):
                self.assertGreater((Path(folder) / name).stat().st_size, 5000, name)
            meta = json.loads((Path(folder) / "run.json").read_text())
            self.assertIn("model", meta["machine"])

    def test_a_failure_is_shown_and_the_rest_survives(self):
        with tempfile.TemporaryDirectory() as folder:
            made = Path(folder) / "made"
            made.write_text(
                "#!/bin/sh\n"
                'case "$1 $2" in\n'
                "--list*) echo '"
                + json.dumps(
                    {
                        "table": "999",
                        "title": "made up",
                        "columns": [{"name": "a", "what": "a", "n": 10}],
                        "rows": [
                            {"name": name, "version": "1", "what": "w", "kind": kind,
                             "columns": ["a"]}
                            for name, kind in (
                                ("good", "rendition"), ("gone", "rival"), ("dead", "rival"),
                                ("slow", "rival"), ("odd", "rival"),
                            )
                        ],
                        "absent": [{"name": "far", "package": "libfar-dev"}],
                    }
                )  # fmt: skip
                + "';;\n"
                'good*) echo \'{"phase":"use","ops":10,"seconds":0.5,"cpu_s":0.5,"faults":1}\';;\n'
                "gone*) echo 'it needs libgone' >&2; exit 77;;\n"
                "dead*) kill -SEGV $$;;\n"
                "slow*) sleep 60;;\n"
                "odd*) echo nothing;;\n"
                "esac\n"
            )
            made.chmod(0o755)
            done = subprocess.run(
                [sys.executable, "-B", FAMILY / "run.py", "--programs", folder, "--rounds", "2",
                 "--timeout", "1", "--out", f"{folder}/out"],
                capture_output=True, text=True, timeout=60,
            )  # fmt: skip
            self.assertEqual(done.returncode, 1, done.stderr)
            for shown in (
                "without far: package libfar-dev", "without gone: absent: it needs libgone",
                "crash: SIGSEGV", "timeout: over 1 s", "failed: not the output of a cell",
            ):  # fmt: skip
                self.assertIn(shown, done.stdout)
            self.assertRegex(done.stdout, r"good +5e\+07|good +50,000,000")

    def test_wrong_use_is_one_line(self):
        for said, *arguments in (
            ('no row "nonesuch"', "--rows", "nonesuch"),
            ('no column "nonesuch"', "--columns", "nonesuch"),
            ('no table "007"', "--table", "007"),
            ("no kind of pages", "--huge", "sometimes"),
        ):
            done = runner(*arguments)
            self.assertEqual(done.returncode, 2, said)
            self.assertIn(
                said.replace("no kind of pages", 'no kind of pages "sometimes"'), done.stderr
            )
            self.assertEqual(len(done.stderr.splitlines()), 1)
        done = runner("--programs", "/nonesuch")
        self.assertEqual(done.returncode, 2)
        self.assertIn("no tables there", done.stderr)


class Calls(unittest.TestCase):
    def test_growth_as_the_seed_saw_it(self):
        if not shutil.which("strace"):
            self.skipTest("strace is not installed")
        rows = {row["name"] for row in listed("region")["rows"]}
        if "boost-pool" not in rows:
            self.skipTest("libboost-dev was not installed when the tables were built")
        done = runner("--table", "region", "--rows", "boost-pool", "--columns", "small", "--huge",
                      "never", "--n", "2000000", "--strace")  # fmt: skip
        if "ptrace" in done.stderr.lower() or "PTRACE" in done.stderr:
            self.skipTest(f"strace may not trace here: {done.stderr.strip()}")
        self.assertEqual(done.returncode, 0, done.stderr)
        sizes = [int(size) for size in re.search(r"mapped: ([\d ]+)", done.stdout)[1].split()]
        self.assertEqual(sizes[:3], [200704, 397312, 790528])  # the very ones the seed quotes
        self.assertTrue(all(1.9 < b / a < 2.1 for a, b in zip(sizes, sizes[1:])))


if __name__ == "__main__":
    common.run_tests(__name__)
