"""demo/run.py: wrong use, a whole small run, an allocator that crashes, Ctrl-C.

The runs use perl, which every Debian has, on glibc, and in loam's place an
allocator that aborts (BENCH_CRASHING_MALLOC, built beside this test).
"""

import csv
import os
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

import common

common.use_demo()

PYTHON = "/usr/bin/python3"
REASON = common.lacks("matplotlib") or common.lacks("rich")
CRASHING = os.environ.get("BENCH_CRASHING_MALLOC", "")


def command(*arguments):
    return [PYTHON, "-B", str(common.DEMO / "run.py"), *arguments]


def run(*arguments):
    return subprocess.run(
        command(*arguments), capture_output=True, text=True, timeout=100, check=False
    )


def processes_below(folder):
    """Process ids whose working folder is inside the folder."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            if entry.isdigit() and os.readlink(f"/proc/{entry}/cwd").startswith(folder):
                found.append(int(entry))
        except OSError:
            continue
    return found


class WrongUse(unittest.TestCase):
    def refused(self, *arguments):
        shown = run(*arguments)
        self.assertEqual(shown.returncode, 2, shown.stdout + shown.stderr)
        self.assertEqual(shown.stdout, "")
        self.assertNotIn("Traceback", shown.stderr)
        return shown.stderr

    def test_unknown_program(self):
        line = self.refused("--programs", "perl,emacs")
        self.assertEqual(
            line,
            "demo: unknown program 'emacs'; there are: "
            "sqlite3, python3, perl, gcc, redis, lua, ghostscript\n",
        )

    def test_unknown_allocator(self):
        line = self.refused("--allocators", "hoard")
        self.assertTrue(line.startswith("demo: unknown allocator 'hoard'; there are: glibc, loam"))

    def test_no_program(self):
        self.assertTrue(self.refused("--programs", ",").startswith("demo: no program named"))

    def test_rounds(self):
        self.assertEqual(
            self.refused("--rounds", "0"), "demo: --rounds 0: not a number from 1 to 100\n"
        )
        self.assertIn("invalid int value: 'many'", self.refused("--rounds", "many"))

    def test_timeout(self):
        self.assertIn("not a number from 1 to 3600", self.refused("--timeout", "-1"))
        self.assertIn("not a number from 1 to 3600", self.refused("--timeout", "nan"))

    def test_loam_is_not_built(self):
        line = self.refused("--loam", "/nonexistent/libloam.so")
        self.assertTrue(line.startswith("demo: /nonexistent/libloam.so is not there; build it:"))

    def test_out_is_a_file(self):
        if REASON:
            self.skipTest(REASON)
        with tempfile.NamedTemporaryFile() as file:
            line = self.refused("--out", file.name, "--allocators", "glibc")
        self.assertTrue(line.startswith(f"demo: --out {file.name}: cannot write there:"))

    def test_a_python_without_the_packages(self):
        shown = subprocess.run(
            [PYTHON, "-S", *command("--allocators", "glibc")[1:]],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        self.assertEqual(shown.returncode, 2)
        self.assertIn("apt-get install python3-matplotlib python3-rich", shown.stderr)


@unittest.skipIf(REASON, REASON)
class FheapRuns(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = Path(folder.name) / "out"

    def rows(self):
        with open(self.out / "runs.csv", newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def test_glibc_alone(self):
        shown = run(
            "--quick", "--rounds", "2", "--programs", "perl,python3", "--allocators", "glibc",
            "--out", str(self.out),
        )  # fmt: skip
        self.assertEqual(shown.returncode, 0, shown.stdout + shown.stderr)
        self.assertEqual(
            sorted(path.name for path in self.out.iterdir()),
            ["demo.png", "demo.svg", "inputs-used", "runs.csv"],
        )
        rows = self.rows()
        self.assertEqual(len(rows), 2 + 2 * 2)
        self.assertEqual({row["status"] for row in rows}, {"ok"})
        for program in ("perl", "python3"):
            self.assertEqual(
                len({row["output_sha256"] for row in rows if row["workload"] == program}), 1
            )
        self.assertIn("geom. mean", shown.stdout)
        self.assertIn(str(self.out / "demo.svg"), shown.stdout.replace("\n", ""))

    def test_an_allocator_that_crashes_ends_nothing(self):
        if not CRASHING:
            self.skipTest("BENCH_CRASHING_MALLOC does not name the library (run by ctest)")
        shown = run(
            "--quick", "--rounds", "2", "--programs", "perl", "--allocators", "loam",
            "--loam", CRASHING, "--out", str(self.out),
        )  # fmt: skip
        self.assertEqual(shown.returncode, 1, shown.stdout + shown.stderr)
        self.assertIn("perl on loam: crash: SIGABRT (2 of 2 runs)", shown.stdout)
        self.assertIn("loam of unknown version", shown.stdout)
        statuses = [(row["allocator"], row["status"]) for row in self.rows()]
        self.assertEqual(statuses.count(("loam", "crash")), 2)
        self.assertEqual(statuses.count(("glibc", "ok")), 3)
        again = subprocess.run(
            [str(self.out / "again.sh")], capture_output=True, timeout=60, check=False
        )
        self.assertEqual(again.returncode, 128 + signal.SIGABRT)
        self.assertIn(">crash<", (self.out / "demo.svg").read_text(encoding="utf-8"))

    def test_a_preload_that_is_no_malloc_is_refused(self):
        from lab.allocators import find_library

        shown = run(
            "--quick", "--programs", "perl", "--allocators", "loam", "--loam",
            find_library("libm.so.6"), "--out", str(self.out),
        )  # fmt: skip
        self.assertEqual(shown.returncode, 1)
        self.assertIn("perl on loam: not used: its malloc is that of", shown.stdout)

    def test_interrupt_ends_all_and_keeps_the_rows(self):
        process = subprocess.Popen(
            command(
                "--programs", "perl", "--allocators", "glibc", "--rounds", "50",
                "--out", str(self.out),
            ),
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        for _ in range(3000):
            if (self.out / "runs.csv").exists() and len(self.rows()) > 1:
                break
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        text = process.communicate(timeout=10)[0]
        self.assertEqual(process.returncode, 130)
        self.assertIn("interrupted; rows so far:", text)
        self.assertGreater(len(self.rows()), 1)
        self.assertEqual(processes_below(str(self.out.parent)), [])


class Interrupting(unittest.TestCase):
    def test_a_signal_waits_until_a_process_has_been_started(self):
        from lab.measure import Interrupts

        interrupts = Interrupts()
        reached = False
        with self.assertRaises(KeyboardInterrupt), interrupts:
            interrupts.arrive(signal.SIGINT, None)
            reached = True
        self.assertTrue(reached)
        with interrupts:
            pass
        with self.assertRaises(KeyboardInterrupt):
            interrupts.arrive(signal.SIGTERM, None)


class Notes(unittest.TestCase):
    def test_a_busy_machine_is_mentioned(self):
        import run as demo_run

        self.assertEqual(demo_run.busy_note(0.9, 2), [])
        self.assertEqual(
            demo_run.busy_note(9.48, 2),
            [
                (
                    "busy machine",
                    "load 9.5 on 2 cores at the start: other work disturbs these figures",
                )
            ],
        )

    def test_what_is_missing_is_named(self):
        import run as demo_run

        self.assertEqual(
            demo_run.absent_notes([("jemalloc", "libjemalloc2")], []),
            [("not installed", "jemalloc (package libjemalloc2)")],
        )


if __name__ == "__main__":
    common.run_tests(__name__)
