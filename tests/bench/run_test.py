"""bench/run.py as one types it: wrong use, whole small runs, failures, Ctrl-C and --resume.

Runs one small workload of the lab and /bin/sh on glibc, on loam where it is built, and
on an allocator that aborts (BENCH_CRASHING_MALLOC, built beside this test).
"""

import csv
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import common
from lab.allocators import find_library

PYTHON = "/usr/bin/python3"
REASON = common.lacks("numpy") or common.lacks("rich")
CRASHING = os.environ.get("BENCH_CRASHING_MALLOC", "")
PROGRAMS = os.environ.get("BENCH_PROGRAMS", str(common.ROOT / "build/release/bench"))
LOAM = os.environ.get("BENCH_LIBRARY", str(common.ROOT / "build/release/libloam.so"))
SMALL = ("--workloads", "glibc-simple", "--scale", "0.01")

if REASON:
    print(f"skipped: {REASON}")
    sys.exit(77)


def command(*arguments):
    place = arguments.index("--") if "--" in arguments else len(arguments)
    fixed = ["--programs-dir", PROGRAMS, "--peers-file", "/nonexistent/peers.json", "--loam", LOAM]
    more = [] if "--allocators" in arguments else ["--allocators", "glibc"]
    head = [PYTHON, "-B", str(common.BENCH / "run.py"), *fixed, *more]
    return [*head, *arguments[:place], *arguments[place:]]


def run(*arguments, **more):
    return subprocess.run(
        command(*arguments), capture_output=True, text=True, timeout=100, check=False, **more
    )


class WrongUse(unittest.TestCase):
    def refused(self, *arguments):
        shown = run(*arguments)
        self.assertEqual(shown.returncode, 2, shown.stdout + shown.stderr)
        self.assertNotIn("Traceback", shown.stderr)
        self.assertEqual(shown.stderr.count("\n"), 1, shown.stderr)
        return shown.stderr

    def test_names(self):
        line = self.refused("--allocators", "hoard")
        self.assertTrue(line.startswith("bench: unknown allocator 'hoard'; there are: glibc, loam"))
        self.assertIn("no workload is called 'emacs'", self.refused("--workloads", "emacs"))
        self.assertIn("that name is taken", self.refused("--allocator", "glibc=/x.so"))
        self.assertIn("not of the form NAME=PATH", self.refused("--allocator", "x"))

    def test_numbers(self):
        self.assertIn("not a number from 1 to 1000", self.refused("--rounds", "-1"))
        self.assertIn("--timeout nan: not a number", self.refused("--timeout", "nan"))
        self.assertIn("--scale 0: not a number", self.refused("--scale", "0"))
        self.assertIn("numbers from 1 to 1024 or N", self.refused("--threads", "2,x"))
        self.assertIn("numbers from 1 to 1024 or N", self.refused("--threads", "0"))

    def test_huge_pages_that_a_program_cannot_choose(self):
        from lab import machine

        other = "always" if machine.huge_pages() != "always" else "madvise"
        line = self.refused("--thp", other)
        self.assertIn(f"as root: echo {other} >", line)

    def test_workloads_that_are_not_built(self):
        line = self.refused("--suite", "micro", "--programs-dir", "/nonexistent")
        self.assertIn("nothing to run: cfrac: /nonexistent/cfrac is not built", line)

    def test_programs(self):
        self.assertIn("--program -- ./prog", self.refused("--program"))
        self.assertIn("--program -- ./prog", self.refused("--", "/bin/true"))
        line = self.refused("--program", "--", "/nonexistent/x")
        self.assertEqual(line, "bench: /nonexistent/x: there is no such program\n")
        line = self.refused("--program", "--stdin", "/nonexistent", "--", "/bin/cat")
        self.assertEqual(line, "bench: --stdin /nonexistent: cannot be read\n")

    def test_folders(self):
        with tempfile.NamedTemporaryFile() as file:
            line = self.refused("--out", file.name, *SMALL)
        self.assertIn("cannot write there", line)
        with tempfile.TemporaryDirectory() as folder:
            self.assertIn("holds no run", self.refused("--out", folder, "--resume", *SMALL))
            self.assertIn("no run of the lab is there", self.refused("--report-only", folder))
            self.assertIn("no run of the lab", self.refused("--compare", folder, folder))


class InAFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.out = self.folder / "out"

    def run_out(self, *arguments, **more):
        return run("--no-page", "--out", str(self.out), *arguments, **more)

    def rows(self):
        with open(self.out / "rows.csv", newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def meta(self):
        return json.loads((self.out / "run.json").read_text())


class FheapRuns(InAFolder):
    def test_a_workload_on_glibc_and_what_is_recorded(self):
        shown = self.run_out(*SMALL, "--rounds", "2")
        self.assertEqual(shown.returncode, 0, shown.stdout + shown.stderr)
        rows = self.rows()
        self.assertEqual([row["round"] for row in rows], ["0", "1", "2"])
        self.assertEqual({row["status"] for row in rows}, {"ok"})
        self.assertIn("--seed 2", rows[2]["command"])
        self.assertGreater(float(rows[1]["wall_s"]), 0)
        self.assertLess(int(rows[1]["peak_kib"]), 10 << 10)
        meta = self.meta()
        self.assertEqual([each["name"] for each in meta["workloads"]], ["glibc-simple"])
        self.assertEqual(meta["options"]["scale"], 0.01)
        self.assertIsNotNone(meta["ended"])
        self.assertEqual(len(meta["allocators"][0]["sha256"]), 64)
        self.assertIn("glibc-simple/1", shown.stdout)
        self.assertLessEqual(max(len(line) for line in shown.stdout.splitlines()
                                 if not line.startswith(("files", "left out"))), 80)  # fmt: skip

    def test_programs_are_found_from_where_one_stands(self):
        places = {"--programs-dir": PROGRAMS, "--loam": LOAM}
        near = [
            word for name in places for word in (name, os.path.relpath(places[name], self.folder))
        ]
        names = ("--allocators", "glibc,loam") if os.path.exists(LOAM) else ()
        shown = self.run_out(*SMALL, "--rounds", "1", *names, *near, cwd=self.folder)
        self.assertEqual(shown.returncode, 0, shown.stdout + shown.stderr)
        self.assertEqual({row["status"] for row in self.rows()}, {"ok"})

    def test_bad_allocators_are_named_and_the_rest_runs(self):
        if not CRASHING:
            self.skipTest("BENCH_CRASHING_MALLOC does not name the library (run by ctest)")
        shown = self.run_out(
            *SMALL, "--rounds", "1", "--allocator", f"crashing={CRASHING}", "--allocator",
            f"maths={find_library('libm.so.6')}", "--allocator", "gone=/nonexistent/x.so",
        )  # fmt: skip
        self.assertEqual(shown.returncode, 0, shown.stdout + shown.stderr)
        self.assertIn("left out: maths: ", shown.stdout)
        self.assertIn("left out: gone: /nonexistent/x.so: there is no such file", shown.stdout)
        self.assertIn("glibc-simple/1 on crashing: crash: SIGABRT", shown.stdout)
        self.assertRegex(shown.stdout, r"glibc-simple/1 .* crsh")
        self.assertEqual([each["name"] for each in self.meta()["absent"]], ["maths", "gone"])
        statuses = {row["allocator"]: row["status"] for row in self.rows()}
        self.assertEqual(statuses, {"glibc": "ok", "crashing": "crash"})

    def test_a_workload_that_fails_on_glibc_is_drawn_and_told(self):
        shown = self.run_out("--workloads", "cfrac,glibc-simple", "--rounds", "1", "--timeout",
                             "0.1", "--scale", "50")  # fmt: skip
        self.assertEqual(shown.returncode, 1, shown.stdout + shown.stderr)
        self.assertIn("glibc-simple/1 on glibc: timeout: not tried again", shown.stdout)
        self.assertRegex(shown.stdout, r"glibc-simple/1 +time")

    def test_loam_with_an_option_beside_loam(self):
        if not Path(LOAM).exists():
            self.skipTest(f"{LOAM} is not built")
        shown = self.run_out(
            *SMALL, "--rounds", "1", "--allocators", "loam",
            "--allocator", f"loam-x={LOAM},LOAM_PURGE_DELAY=0",
        )  # fmt: skip
        self.assertEqual(shown.returncode, 0, shown.stdout + shown.stderr)
        commands = {row["allocator"]: row["command"] for row in self.rows()}
        self.assertIn("LOAM_PURGE_DELAY=0 LD_PRELOAD=", commands["loam-x"])
        self.assertNotIn("LOAM_PURGE_DELAY", commands["loam"])

    def test_a_run_agrees_with_itself_and_is_shown_again(self):
        if not CRASHING:
            self.skipTest("BENCH_CRASHING_MALLOC does not name the library (run by ctest)")
        self.run_out("--program", "--rounds", "2", "--allocator", f"other={CRASHING}", "--",
                     "/bin/true")  # fmt: skip
        shown = run("--compare", str(self.out), str(self.out))
        self.assertEqual(shown.returncode, 0, shown.stdout + shown.stderr)
        self.assertIn("all geometric means agree within 5%", shown.stdout)
        (self.out / "report.html").unlink(missing_ok=True)
        shown = run("--report-only", str(self.out))
        self.assertEqual(shown.returncode, 0, shown.stdout + shown.stderr)
        self.assertRegex(shown.stdout, r"true +[\d.]+ms\*?")

    def test_listing(self):
        shown = run("--list", "--suite", "micro", "--allocators", "glibc")
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertRegex(shown.stdout, r"glibc +2\.\d+")
        self.assertRegex(shown.stdout, r"micro glibc-simple: .*\?")

    def test_a_full_disk_costs_lines_not_the_run(self):
        def small_files():
            resource.setrlimit(resource.RLIMIT_FSIZE, (900, 900))

        shown = run("--out", str(self.out), *SMALL, "--rounds", "3", preexec_fn=small_files)
        self.assertEqual(shown.returncode, 0, shown.stdout + shown.stderr)
        self.assertNotIn("Traceback", shown.stderr)
        self.assertIn("trouble: ", shown.stdout)
        self.assertIn("run.json: File too large: not written", shown.stdout)
        self.assertIn("rows.csv: File too large: later rows are in memory only", shown.stdout)
        self.assertIn("no page: ", shown.stdout)
        self.assertRegex(shown.stdout, r"glibc-simple/1 +[\d.]+m?s")
        self.assertLess(len(self.rows()), 4)


class OwnPrograms(InAFolder):
    def program(self, text, *arguments):
        return self.run_out("--program", *arguments, "--", "/bin/sh", "-c", text)

    def test_output_and_status_are_compared(self):
        shown = self.program(
            "echo hello; exit 3", "--rounds", "2", "--name", "greeting", "--ignore-failure"
        )
        self.assertEqual(shown.returncode, 0, shown.stdout + shown.stderr)
        self.assertRegex(shown.stdout, r"greeting +[\d.]+ms")
        self.assertEqual({row["status"] for row in self.rows()}, {"ok"})
        self.assertEqual({row["suite"] for row in self.rows()}, {"user"})

    def test_a_difference_is_found(self):
        text = 'case "$LD_PRELOAD" in *crash*) echo other;; *) echo same;; esac'
        if not CRASHING:
            self.skipTest("BENCH_CRASHING_MALLOC does not name the library (run by ctest)")
        shown = self.program(text, "--rounds", "1", "--allocator", f"other={CRASHING}")
        self.assertIn("sh on other: differs: its output is not that on glibc", shown.stdout)
        self.assertEqual(shown.returncode, 0)

    def test_output_that_never_is_the_same(self):
        shown = self.program("echo $$", "--rounds", "1")
        self.assertEqual(shown.returncode, 1)
        self.assertIn("--outputs none compares nothing", " ".join(shown.stdout.split()))
        shown = self.program("echo $$", "--rounds", "1", "--outputs", "none")
        self.assertEqual(shown.returncode, 0, shown.stdout)

    def test_files_and_input_are_those_of_the_caller_s_folder(self):
        (self.folder / "in").write_text("some text\n")
        arguments = ("--program", "--rounds", "1", "--stdin", "in", "--outputs", "copy", "--out",
                     str(self.out), "--", "/bin/sh", "-c", "cat > copy")  # fmt: skip
        shown = run(*arguments, cwd=self.folder)
        self.assertEqual(shown.returncode, 0, shown.stdout + shown.stderr)
        self.assertEqual((self.folder / "copy").read_text(), "some text\n")
        self.assertEqual({row["status"] for row in self.rows()}, {"ok"})

    def test_a_static_program(self):
        program = self.folder / "static"
        built = subprocess.run(
            ["cc", "-static", "-x", "c", "-", "-o", str(program)],
            input="int main(void){return 0;}",
            text=True, capture_output=True, check=False,
        )  # fmt: skip
        if built.returncode != 0:
            self.skipTest("there is no static libc to link")
        shown = self.run_out("--program", "--", str(program))
        self.assertEqual(shown.returncode, 2)
        self.assertIn("is linked statically: nothing can be preloaded", shown.stderr)
        self.assertFalse(self.out.exists())


class Interrupted(InAFolder):
    def interrupted(self):
        process = subprocess.Popen(
            command("--no-page", "--out", str(self.out), *SMALL, "--rounds", "100"),
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        for _ in range(3000):
            if (self.out / "rows.csv").exists() and len(self.rows()) > 2:
                break
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        text = process.communicate(timeout=10)[0]
        self.assertEqual(process.returncode, 130)
        self.assertIn("interrupted; rows so far:", text)

    def test_what_is_there_is_kept_and_gone_on_from(self):
        self.interrupted()
        before = self.rows()
        last = max(int(row["round"]) for row in before)
        shown = self.run_out(*SMALL, "--rounds", str(last + 2), "--resume")
        self.assertEqual(shown.returncode, 0, shown.stdout + shown.stderr)
        after = self.rows()
        self.assertEqual(after[: len(before)], before)
        measured = [int(row["round"]) for row in after if row["round"] != "0"]
        self.assertEqual(measured, list(range(1, last + 3)))
        self.assertEqual(len(self.meta()["resumed"]), 1)

    def test_another_run_is_refused_and_named(self):
        self.interrupted()
        before = self.rows()
        arguments = ("--workloads", "glibc-simple", "--scale", "0.02", "--rounds", "100")
        shown = self.run_out(*arguments, "--resume")
        self.assertEqual(shown.returncode, 2)
        self.assertIn("--resume: not the same run: option scale: was 0.01, is 0.02", shown.stderr)
        self.assertEqual(self.rows(), before)
        rounds = str(max(int(row["round"]) for row in before))
        shown = self.run_out(*arguments[:4], "--rounds", rounds, "--resume-anyway")
        self.assertEqual(shown.returncode, 0, shown.stdout + shown.stderr)


if __name__ == "__main__":
    common.run_tests(__name__)
