"""bench/workloads: every case of cases.toml runs, says what it should, and fails as it should.

The programs are built by the target `bench`. What they take to run on which allocator is the
runner's affair, not looked at here.
"""

import os
import re
import resource
import subprocess
import sys
import tomllib
import unittest
from pathlib import Path

import common

SOURCES = common.BENCH / "workloads"
PROGRAMS = Path(os.environ.get("BENCH_PROGRAMS", common.ROOT / "build/release/bench"))
CASES = tomllib.loads((SOURCES / "cases.toml").read_text(encoding="utf-8"))["case"]
for each in CASES:  # seconds of sleep are no matter here, nor are lines on stderr
    if each["program"] == "fragmentation":
        each["args"] = ["--phases", "no", "--idle", "10"]
    if each["program"] == "burst":
        each["args"] += ["--pause", "10"]
LATENCY = re.compile(r"(?m)^latency (malloc|free) calls=\d+( p[0-9.]+=\d+){4} slow=\d+\n")
LINE = re.compile(r"([a-z0-9-]+) threads=(\d+) ops=(\d+) sum=(\d+)\n")
KEYS = {
    "name": str,
    "program": str,
    "args": list,
    "threads": list,
    "quick": bool,
    "scale": float,
    "sample_rss": bool,
    "tags": list,
    "question": str,
}
SMALL = 0.02
NOTHING_DRAWN = ("startup", "cache_share")  # a seed is no matter there
COARSE = ("burst", "many_threads")  # a few rounds of work at full size
# Those that need more than LIMIT at their full size. The others live in a few megabytes.
LIMIT = 24 << 20
HUNGRY = (
    "alloc-test-medium",
    "alloc-test-live",
    "many-small-random",
    "many-large-lifo",
    "realloc-vectors",
    "realloc-one",
    "calloc-large",
    "large-churn",
    "fragmentation",
    "cache-drift",
    "latency-steady",
)

OVERLAPPING = os.environ.get("BENCH_OVERLAPPING_MALLOC")
# Those that compare what they read with what they wrote. In the others, wrong memory is a crash or
# an endless computation: they work with what lies in their blocks.
CHECKING = (
    "alloc_test",
    "calloc_large",
    "fragmentation",
    "glibc_simple",
    "glibc_thread",
    "large_churn",
    "latency",
    "many_objects",
    "realloc_growth",
    "shbench",
)

if not PROGRAMS.is_dir():
    print(f"skipped: {PROGRAMS} is missing: cmake --build --preset release --target bench")
    sys.exit(77)


def start(case, *more, limit=None, preload=None):
    """Runs a case's program; the address space can be limited to some bytes."""

    def limited():
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    return subprocess.run(
        [PROGRAMS / case["program"], *case["args"], *map(str, more)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "LD_PRELOAD": preload} if preload else None,
        preexec_fn=limited if limit else None,
    )


def takes_threads(case):
    return any(max(each["threads"]) > 1 for each in CASES if each["program"] == case["program"])


class Cases(unittest.TestCase):
    def test_every_case_is_complete(self):
        for case in CASES:
            with self.subTest(case.get("name")):
                for key, kind in KEYS.items():
                    self.assertIs(type(case.get(key)), kind, key)
                self.assertLessEqual(set(case) - set(KEYS), {"quick_threads", "latency"})
                self.assertRegex(case["name"], r"^[a-z0-9-]+$")
                self.assertTrue(case["question"])
                self.assertLessEqual(set(case.get("quick_threads", [])), set(case["threads"]))

    def test_names_are_different(self):
        names = [case["name"] for case in CASES]
        self.assertEqual(len(names), len(set(names)))

    def test_every_program_is_run_and_every_run_has_a_program(self):
        sources = [*SOURCES.glob("*.c"), *SOURCES.glob("*.cpp")]
        programs = {path.stem for path in sources} - {"workload"}
        self.assertEqual({case["program"] for case in CASES}, programs)


class Runs(unittest.TestCase):
    small = {}  # what a case said when it was run at its smallest

    def run_small(self, case):
        if case["name"] not in self.small:
            self.small[case["name"]] = self.run_well(case)
        return self.small[case["name"]]

    def run_well(self, case, *more, scale=SMALL):
        done = start(case, "--scale", scale, *more)
        self.assertEqual(done.returncode, 0, done.stderr)
        said = done.stdout
        if case.get("latency"):
            calls = [match[1] for match in LATENCY.finditer(said)]
            self.assertEqual(calls, ["malloc", "free"], said)
            said = LATENCY.sub("", said)
        match = LINE.fullmatch(said)
        self.assertIsNotNone(match, done.stdout)
        self.assertEqual(done.stderr, "")
        return int(match[2]), int(match[3]), int(match[4])

    def test_one_thread_and_the_same_again(self):
        for case in CASES:
            with self.subTest(case["name"]):
                threads, ops, _ = self.run_small(case)
                self.assertEqual(threads, 1)
                self.assertGreater(ops, 0)
                self.assertEqual(self.run_well(case), self.run_small(case))

    def test_another_seed_is_another_run(self):
        for case in CASES:
            if case["program"] in NOTHING_DRAWN:
                continue
            with self.subTest(case["name"]):
                self.assertNotEqual(self.run_well(case, "--seed", 2), self.run_small(case))

    def test_three_threads_do_the_work_of_one(self):
        for case in CASES:
            if not takes_threads(case):
                continue
            with self.subTest(case["name"]):
                threads, ops, _ = self.run_well(case, "--threads", 3)
                self.assertEqual(threads, 3)
                self.assertAlmostEqual(ops / self.run_small(case)[1], 1, delta=0.1)

    def test_more_scale_is_more_work(self):
        for case in {case["program"]: case for case in CASES}.values():
            with self.subTest(case["name"]):
                scale = 0.5 if case["program"] in COARSE else 10 * SMALL
                more = self.run_well(case, scale=scale)
                self.assertGreater(more[1], self.run_small(case)[1])


class Failures(unittest.TestCase):
    def fails(self, done, status):
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertRegex(done.stderr, r"^[a-z0-9-]+: \S")

    def test_wrong_use(self):
        wrong = (
            ["--nonsense"],
            ["--nonsense", "1"],
            ["1"],
            ["--seed"],
            ["--seed", "-1"],
            ["--seed", "1x"],
            ["--threads", "0"],
            ["--threads", "1000000"],
            ["--scale", "0"],
            ["--scale", "nan"],
            ["--scale", "1e9"],
            ["--scale", ""],
        )
        for case in {case["program"]: case for case in CASES}.values():
            for more in (*wrong, *([] if takes_threads(case) else [["--threads", "2"]])):
                with self.subTest(case["name"], more=more):
                    self.fails(start(case, *more), 2)

    def test_wrong_values_of_own_options(self):
        programs = {case["program"]: {**case, "args": []} for case in CASES}
        for program, more in (
            ("many_objects", ["--order", "lif"]),
            ("many_objects", ["--order", "lifo|fifo"]),
            ("many_objects", ["--sizes", ""]),
            ("alloc_test", ["--min", "9", "--max", "8"]),
            ("alloc_test", ["--live", "0"]),
        ):
            with self.subTest(program, more=more):
                self.fails(start(programs[program], *more), 2)

    def test_help(self):
        for case in CASES:
            with self.subTest(case["name"]):
                done = start({**case, "args": []}, "--help")
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertIn("--scale", done.stdout)

    def test_memory_that_runs_out_is_one_line(self):
        for case in CASES:
            if case["name"] not in HUNGRY:
                continue
            with self.subTest(case["name"]):
                done = start(case, limit=LIMIT)
                self.fails(done, 1)
                self.assertRegex(done.stderr, "failed|cannot map a table")

    def test_phases_go_to_stderr(self):
        case = next(case for case in CASES if case["program"] == "fragmentation")
        done = start(case, "--phases", "yes", "--scale", SMALL)
        self.assertRegex(done.stdout, LINE)
        self.assertRegex(done.stderr, r"(?m)^fragmentation: at \d+ ms: punched, live \d+ KiB")

    @unittest.skipUnless(OVERLAPPING, "BENCH_OVERLAPPING_MALLOC is not set: ctest sets it")
    def test_an_allocator_that_gives_memory_twice_is_noticed(self):
        for case in CASES:
            # realloc-one copies: with an allocator that frees nothing, that is gigabytes.
            if case["program"] not in CHECKING or case["name"] == "realloc-one":
                continue
            with self.subTest(case["name"]):
                done = start(case, "--scale", SMALL, preload=OVERLAPPING)
                self.fails(done, 1)
                self.assertIn(" reads ", done.stderr)

    def test_threads_that_cannot_start_are_one_line(self):
        case = next(case for case in CASES if case["name"] == "glibc-thread")
        done = start(case, "--threads", 100, limit=LIMIT)
        self.fails(done, 1)
        self.assertIn("cannot start", done.stderr)

    def test_a_result_that_cannot_be_written(self):
        case = next(case for case in CASES if case["name"] == "alloc-test")
        with open("/dev/full", "wb") as full:
            done = subprocess.run(
                [PROGRAMS / case["program"], "--scale", "0.001"],
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
            )
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot write", done.stderr)


if __name__ == "__main__":
    common.run_tests(__name__)
