#!/usr/bin/env python3
"""judge_test.py: the judge of mistakes itself, on programs and allocators that only play.

    judge_test.py --programs build/release/tests/misuse

The programs of make-believe name a pointer and then end in every way there is. The allocators are
real libraries, compiled here: one that looks at nothing and one that aborts where a block is freed
twice.
"""

import argparse
import contextlib
import csv
import io
import json
import os
import re
import stat
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True

import expected
import generate
import judge
import survey

PROGRAMS = None  # of the build; --programs

FAMILY = """#!/bin/sh
if [ "$1" = --list ]; then
    for name in NAMES; do printf '%s\\tcounted\\twhat %s does\\n' $name $name; done
    exit
fi
die() { kill -s $1 $$; sleep 9; }
case $1 in
early_*) ;;
*) echo pointer 0x10 thread 1 ;;
esac
case $1 in
survives) echo work; echo survived; exit 42 ;;
shares) echo work; echo survived, and more; exit 43 ;;
prevents) echo prevented; exit 0 ;;
prevents_and_says_42) echo prevented; exit 42 ;;
ends_well_without_a_word) exit 0 ;;
ends_badly) echo work; exit 1 ;;
no_memory) echo not set up; exit 5 ;;
dies_ABRT | dies_SEGV | dies_BUS | dies_TRAP | dies_ILL) die ${1#dies_} ;;
dies_KILL | dies_TERM | dies_FPE) die ${1#dies_} ;;
survives_and_dies) echo survived; die ABRT ;;
early_death) die ABRT ;;
early_end) exit 0 ;;
early_hang) sleep 9 ;;
hangs) sleep 9 ;;
crashes_late) echo work; die SEGV ;;
is_told_late) echo work; echo broken >&2; die SEGV ;;
sometimes) if [ -e "$0.second" ]; then echo survived; exit 42; fi; : >"$0.second"; die ABRT ;;
esac
"""

ALLOCATOR = r"""
#include <stddef.h>
#include <string.h>
#include <stdlib.h>
static char pool[512 << 20] __attribute__((aligned(64)));
static size_t used;
static void *freed[1 << 20];
static int frees;
void *malloc(size_t size) {
    size_t at = __atomic_fetch_add(&used, (size + 31) / 16 * 16, __ATOMIC_RELAXED);
    if (at + size + 32 > sizeof(pool)) return NULL;
    *(size_t *)(pool + at) = size;
    return pool + at + 16;
}
void free(void *p) {
#ifdef STRICT
    for (int i = 0; i < frees && i < 64; i++) if (p != NULL && freed[i] == p) abort();
    freed[frees++ & ((1 << 20) - 1)] = p;
#endif
}
void *calloc(size_t n, size_t size) { return malloc(n * size); }
void *realloc(void *p, size_t size) {
    void *q = malloc(size);
    if (p != NULL && q != NULL) memcpy(q, p, size < ((size_t *)p)[-2] ? size : ((size_t *)p)[-2]);
    return q;
}
"""


class Protocol(unittest.TestCase):
    """What each way to end is worth."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.program = Path(folder.name) / "family"
        names = sorted(set(re.findall(r"^([a-z_A-Z0-9 |]+)\)", FAMILY, re.MULTILINE)))
        names = " ".join(" ".join(names).replace("|", " ").split())
        self.program.write_text(FAMILY.replace("NAMES", names))
        self.program.chmod(self.program.stat().st_mode | stat.S_IXUSR)
        self.cases = {case.name: case for case in judge.listed(folder.name)}

    def run_of(self, name):
        return judge.run(self.cases[name], judge.environment(None), timeout=1)

    def result(self, name, runs=2):
        return judge.judge([self.cases[name]], judge.environment(None), runs)[0]

    def test_the_list_is_read(self):
        self.assertEqual(self.cases["shares"].id, "family/shares")
        self.assertEqual(self.cases["shares"].what, "what shares does")
        self.assertTrue(self.cases["shares"].counted)

    def test_what_survives_is_counted_as_survived(self):
        for name in ("survives", "shares", "ends_well_without_a_word", "ends_badly", "no_memory",
                     "prevents_and_says_42",
                     "dies_KILL", "dies_TERM", "dies_FPE", "survives_and_dies"):  # fmt: skip
            with self.subTest(name):
                self.assertEqual(self.run_of(name).outcome, judge.SURVIVED)
                self.assertEqual(self.result(name).verdict, judge.SURVIVED)

    def test_the_five_signals_stop(self):
        for name in ("ABRT", "SEGV", "BUS", "TRAP", "ILL"):
            with self.subTest(name):
                run = self.run_of(f"dies_{name}")
                self.assertEqual((run.outcome, run.ending), (judge.STOPPED, f"SIG{name}"))

    def test_prevented_counts_as_stopped(self):
        self.assertEqual(self.run_of("prevents").outcome, judge.PREVENTED)
        self.assertEqual(self.result("prevents").verdict, judge.STOPPED)

    def test_what_ends_before_its_mistake_is_broken(self):
        for name in ("early_death", "early_end", "early_hang"):
            with self.subTest(name):
                self.assertEqual(self.run_of(name).outcome, judge.BROKEN)
        self.assertEqual(self.result("early_death").verdict, judge.BROKEN)

    def test_a_hang_is_not_stopped(self):
        run = self.run_of("hangs")
        self.assertEqual((run.outcome, run.ending), (judge.SURVIVED, "time-out"))

    def test_some_runs_are_chance_and_do_not_count(self):
        result = self.result("sometimes", 3)
        self.assertEqual(result.verdict, judge.CHANCE)
        self.assertEqual([run.good for run in result.runs], [True, False, False])
        self.assertAlmostEqual(result.share, 1 / 3)

    def test_late_crashes_are_told_apart(self):
        self.assertTrue(self.result("crashes_late").crash)
        for name in ("is_told_late", "dies_SEGV", "survives", "prevents"):
            with self.subTest(name):
                self.assertFalse(self.result(name).crash)


class Allocators(unittest.TestCase):
    """Real cases on an allocator that checks nothing, and on one that checks one thing."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        (cls.folder / "fake.c").write_text(ALLOCATOR)
        for name in ("lax", "strict"):
            subprocess.run(
                ["cc", "-shared", "-fPIC", "-O1", "-fno-builtin", "-w", f"-D{name.upper()}",
                 "-o", cls.folder / f"{name}.so", cls.folder / "fake.c"],
                check=True,
            )  # fmt: skip
        cls.cases = {case.id: case for case in judge.listed(PROGRAMS)}

    def verdict(self, allocator, case):
        env = judge.environment(str(self.folder / f"{allocator}.so"))
        return judge.judge([self.cases[case]], env, 2)[0].verdict

    def test_an_allocator_that_looks_at_nothing(self):
        for case in ("double_free/small", "invalid_free/stack", "overflow/small_by_1",
                     "write_after_free/small_first_word", "reading/after_free_small",
                     "impossible/calloc_product"):  # fmt: skip
            with self.subTest(case):
                self.assertEqual(self.verdict("lax", case), judge.SURVIVED)
        self.assertEqual(self.verdict("lax", "addresses/reuse_small"), judge.STOPPED)

    def test_one_that_aborts_at_a_double_free(self):
        self.assertEqual(self.verdict("strict", "double_free/small"), judge.STOPPED)
        self.assertEqual(self.verdict("strict", "overflow/small_by_1"), judge.SURVIVED)

    def test_every_counted_case_comes_to_its_mistake_and_ends(self):
        env = judge.environment(None)
        for result in judge.judge(self.cases.values(), env, 1):
            with self.subTest(result.case.id):
                self.assertNotEqual(result.verdict, judge.BROKEN)
                self.assertIn(
                    result.endings,
                    (
                        "exit 42",
                        "exit 43",
                        "exit 0",
                        "SIGABRT",
                        "SIGSEGV",
                        "SIGBUS",
                        "time-out",
                        "exit 5",
                    ),
                )


def result(name, *outcomes, **more):
    case = judge.Case("f", name, True, "does so", "/f")
    return judge.Result(case, [judge.Run(each, "SIGABRT", **more) for each in outcomes])


class Expected(unittest.TestCase):
    def problems(self, results, stopped=(), chance=(), again=()):
        cases = [each.case for each in results]

        def judged(some, runs):
            ids = {case.id for case in some}
            return [
                each
                for each in (again if runs == expected.MANY else results)
                if each.case.id in ids
            ]

        return list(expected.compare(cases, set(stopped), set(chance), judged))

    def test_as_listed(self):
        good, bad = result("a", judge.STOPPED), result("b", judge.SURVIVED)
        self.assertEqual(self.problems([good, bad], ["f/a"]), [])

    def test_a_listed_case_that_survives(self):
        (said,) = self.problems([result("a", judge.STOPPED, judge.SURVIVED)], ["f/a"])
        self.assertIn("f/a is no longer stopped", said)

    def test_a_listed_case_that_only_crashes(self):
        run = judge.Run(judge.STOPPED, "SIGSEGV", "pointer 0x1 thread 1\nwork\n")
        each = judge.Result(judge.Case("f", "a", True, "does so", "/f"), [run])
        (said,) = self.problems([each], ["f/a"])
        self.assertIn("only crashes late", said)
        self.assertEqual(self.problems([each]), [], "nor is it a gain")

    def test_a_new_one_has_to_be_listed(self):
        new = result("a", judge.STOPPED)
        (said,) = self.problems([new], again=[new])
        self.assertIn("f/a is stopped now", said)
        self.assertIn("--accept", said)

    def test_a_new_one_by_chance_has_not(self):
        new = result("a", judge.STOPPED)
        again = [result("a", *[judge.STOPPED] * 39, judge.SURVIVED)]
        self.assertEqual(self.problems([new], again=again), [])
        self.assertEqual(self.problems([new], chance=["f/a"], again=[new]), [])

    def test_broken_and_unknown_cases(self):
        (said,) = self.problems([result("a", judge.BROKEN)], ["f/a"])
        self.assertIn("broken", said)
        (said,) = self.problems([], ["f/gone"])
        self.assertIn("no such case", said)

    def test_what_is_written_is_read(self):
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            path = os.path.join(folder, "kind.txt")
            expected.write(path, "kind", [
                result("a", judge.STOPPED), result("b", judge.SURVIVED),
                result("c", judge.STOPPED, judge.SURVIVED), result("d", judge.PREVENTED),
            ], {"f/a"})  # fmt: skip
            self.assertEqual(expected.read(path), ({"f/d"}, {"f/c"}, {"f/a"}))


class Survey(unittest.TestCase):
    def survey(self, *arguments):
        said, wrong = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(wrong):
            status = survey.main(["--programs", str(PROGRAMS), *arguments])
        return status, said.getvalue(), wrong.getvalue()

    def test_a_run_leaves_its_files(self):
        with tempfile.TemporaryDirectory() as folder:
            status, said, wrong = self.survey(
                "--allocators", "glibc", "--cases", "impossible/*", "--runs", "1", "--out", folder
            )
            self.assertEqual((status, wrong), (0, ""), said)
            self.assertIn("glibc              5 of 5", said)
            rows = list(csv.DictReader((Path(folder) / "survey.csv").read_text().splitlines()))
            self.assertEqual(len(rows), 5)
            self.assertEqual({row["verdict"] for row in rows}, {judge.STOPPED})
            content = json.loads((Path(folder) / "survey.json").read_text())
            self.assertEqual(content["allocators"][0]["stopped"], 5)
            self.assertEqual(len(content["cases"]), 5)
            text = (Path(folder) / "survey.md").read_text()
            self.assertIn("| **all** | 5 | **5** |", text)

    def test_the_table_keeps_within_the_terminal(self):
        column = [result("a", judge.STOPPED), result("b", judge.SURVIVED)]
        columns = {name: column for name in survey.NAMES}
        for width in (60, 80, 200):
            lines = survey.printed([each.case for each in column], columns, width)
            self.assertLessEqual(max(map(len, lines)), width)
            text = " ".join(lines)
            for name in survey.NAMES:
                for word in survey.heading(name):
                    self.assertIn(word, text)

    def test_wrong_use_is_one_line(self):
        for arguments, why in (
            (["--allocators", "hoard"], "unknown allocator hoard"),
            (["--cases", "nothing/*"], "there is no such case"),
            (["--cases", "no_mistake/none"], "there is no such case"),  # not a counted one
            (["--programs", "/nowhere"], "/nowhere is not there"),
            (["--runs", "0"], "at least 1"),
            (["--allocator", "mine"], "not of the form"),
            (["--allocator", "mine=/nowhere.so", "--allocators", "glibc"], "no such file"),
        ):
            with self.subTest(arguments):
                status, _, wrong = self.survey(*arguments)
                self.assertEqual(status, 2)
                self.assertIn(why, wrong)
                self.assertEqual(wrong.count("\n"), 1)

    def test_what_is_not_built_is_left_out(self):
        with tempfile.TemporaryDirectory() as folder:
            status, said, _ = self.survey(
                "--allocators", "loam-secure,scudo,glibc", "--builds", folder, "--cases",
                "impossible/*", "--peers", f"{folder}/none.json", "--runs", "1", "--out", folder,
            )  # fmt: skip
            self.assertEqual(status, 0)
            self.assertIn("left out: loam-secure: ", said)
            self.assertIn("left out: scudo: not built", said)

    def test_the_page_is_of_these_cases(self):
        page = (survey.ROOT / "docs/misuse.md").read_text()
        told = re.findall(r"^\| ([a-z_0-9]+) \| (.*?) \| [●○◐×]", page, re.MULTILINE)
        cases = [(case.name, case.what) for case in judge.listed(PROGRAMS) if case.counted]
        self.assertEqual(told, cases, "docs/misuse.md: survey.py --page docs/misuse.md writes it")


class DrawnMistakes(unittest.TestCase):
    def test_intervals_are_wilsons(self):
        known = ((0, 0.0, 0.0876), (20, 0.3520, 0.6480), (40, 0.9124, 1.0))
        for good, low, high in known:
            ends = generate.wilson(good, 40)
            self.assertAlmostEqual(ends[0], low, 4)
            self.assertAlmostEqual(ends[1], high, 4)

    def test_a_floor_is_broken_only_by_a_whole_interval(self):
        shares = {"overflow": (17, 40), "underflow": (40, 40)}
        floors = {"overflow": 0.60, "underflow": 0.95}
        self.assertEqual(len(list(generate.broken_floors(shares, floors))), 1)
        shares["overflow"] = (18, 40)
        self.assertEqual(list(generate.broken_floors(shares, floors)), [])
        shares["underflow"] = (0, 40)
        self.assertEqual(len(list(generate.broken_floors(shares, floors))), 1)

    def test_a_seed_draws_its_cases_again(self):
        cases = generate.drawn(7, 30)
        self.assertEqual(cases, generate.drawn(7, 30))
        self.assertNotEqual(cases, generate.drawn(8, 30))
        self.assertLessEqual(set(generate.FLOORS), {each.mistake for each in cases})

    def test_a_build_without_checks_breaks_floors(self):
        program = str(PROGRAMS / "generated")
        with contextlib.redirect_stdout(io.StringIO()) as said:
            arguments = ["glibc", "--floors", "--cases", "40", "--seed", "1", "--program", program]
            status = generate.main(arguments)
        self.assertEqual(status, 1, said.getvalue())
        self.assertIn("below its floor: wrong_size", said.getvalue())

    def test_its_section_outlives_a_survey(self):
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder) / "page.md"
            page.write_text("# Page\n")
            survey.replace_drawn(page, f"{survey.DRAWN}\n\nold")
            survey.replace_drawn(page, f"{survey.DRAWN}\n\nnew")
            self.assertEqual(survey.parted(page), ("# Page\n\n", f"{survey.DRAWN}\n\nnew\n"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", required=True, type=Path)
    options, rest = parser.parse_known_args()
    PROGRAMS = options.programs
    unittest.main(argv=[sys.argv[0], *rest])
