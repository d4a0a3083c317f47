"""bench/lab/measure.py, workloads.py and the proof: orders, judgement, refusals, what remains."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import common
from lab import allocators, programs, workloads
from lab.allocators import Allocator, find_library
from lab.measure import Bench, built_starter, digest

CRASHING = os.environ.get("BENCH_CRASHING_MALLOC", "")
STATIC = "int main(void) { return 0; }\n"
OWN_MALLOC = """
#include <stddef.h>
static char memory[1 << 20]; static size_t used;
void *malloc(size_t size) { char *block = memory + used; \
used += (size + 31) & ~(size_t)15; return block; }
void free(void *block) { (void)block; }
void *calloc(size_t count, size_t size) { return malloc(count * size); }
void *realloc(void *block, size_t size) { (void)block; return malloc(size); }
int main(void) { return malloc(10) == 0; }
"""


def compiled(folder, source, *options):
    path = Path(folder) / "program"
    command = ["cc", "-x", "c", "-", "-o", str(path), "-fno-builtin", *options]
    shown = subprocess.run(command, input=source, text=True, capture_output=True, check=False)
    return str(path) if shown.returncode == 0 else None


def task(name="perl", **changes):
    fields = {
        "name": name, "suite": "real", "threads": 1, "question": "", "tags": (),
        "prepare": lambda _folder: lambda _turn: programs.Job(["/bin/true"]),
        "probe": lambda: ["/bin/true"], "command": name,
    }  # fmt: skip
    return workloads.Task(**{**fields, **changes})


class InAFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.glibc = Allocator("glibc", find_library("libc.so.6"), "libc6")

    def bench(self, tasks, found=None, rounds=3, **more):
        return Bench(tasks, found or [self.glibc], self.folder, rounds, 10, **more)


class Judgement(InAFolder):
    """What becomes of a run that ended well but wrote something else."""

    def setUp(self):
        super().setUp()
        self.loam = Allocator("loam", "/x/libloam.so")
        self.job = programs.Job(["perl"])
        self.task = task()
        self.tested = self.bench([self.task], [self.glibc, self.loam])

    def judged(self, allocator, output, **changes):
        if output is not None:
            (self.folder / "stdout").write_text(output)
        answer = {"status": "ok", "detail": "", "library_seen": "map", **changes}
        return self.tested.judge(answer, self.task, allocator, self.job, self.folder)[:2]

    def test_same_output(self):
        self.assertEqual(self.judged(self.glibc, "a"), ("ok", ""))
        self.assertEqual(self.judged(self.loam, "a"), ("ok", ""))

    def test_other_output(self):
        self.judged(self.glibc, "a")
        found = self.judged(self.loam, "b")
        self.assertEqual(found, ("differs", "its output is not that on glibc"))

    def test_a_program_that_never_writes_the_same(self):
        self.judged(self.glibc, "a")
        found = self.judged(self.glibc, "b")
        self.assertEqual(found, ("differs", "it writes something else each time, even on glibc"))

    def test_no_output(self):
        self.assertEqual(self.judged(self.glibc, None)[0], "differs")

    def test_nothing_to_compare_with(self):
        self.assertEqual(self.judged(self.loam, "a")[0], "differs")

    def test_what_is_not_compared_may_differ(self):
        self.task = task(compared=False)
        self.judged(self.glibc, "a")
        self.assertEqual(self.judged(self.loam, "b"), ("ok", ""))

    def test_the_library_was_not_there(self):
        found = self.judged(self.loam, "a", library_seen="")
        self.assertEqual(found, ("refused", "/x/libloam.so was not in its memory map"))

    def test_a_crash_with_its_last_words(self):
        (self.folder / "stderr").write_text("first\nloam: double free of 0x10\n")
        found = self.judged(self.loam, "a", status="crash", detail="SIGABRT")
        self.assertEqual(found, ("crash", "SIGABRT: loam: double free of 0x10"))

    def test_an_exit_status_is_output_where_any_may_be(self):
        self.assertEqual(self.judged(self.glibc, "a", status="exit", exit_status=3)[0], "exit")
        self.task = task(any_exit=True)
        self.assertEqual(self.judged(self.glibc, "a", status="exit", exit_status=3)[0], "ok")
        self.assertEqual(self.judged(self.loam, "a", status="exit", exit_status=3)[0], "ok")
        self.assertEqual(self.judged(self.loam, "a", exit_status=0)[0], "differs")

    def test_a_file_of_an_earlier_run_is_no_output(self):
        (self.folder / "old").write_text("a")
        self.assertIsNotNone(digest(self.folder, ("old",)))
        self.assertIsNone(digest(self.folder, ("old",), since=time.time() + 5))


class Order(InAFolder):
    def names(self, bench):
        return [
            (turn, each.label, "".join(a.name[0] for a in order))
            for turn, each, order in bench.turns()
        ]

    def setUp(self):
        super().setUp()
        self.found = [self.glibc, Allocator("a", "/a"), Allocator("b", "/b")]
        self.tasks = [task("one"), task("two", suite="micro", threads=8)]

    def test_rotation_and_reference(self):
        self.assertEqual(
            self.names(self.bench(self.tasks, self.found, rounds=2)),
            [
                (0, "one", "g"), (0, "two/8", "g"),
                (1, "one", "gab"), (1, "two/8", "abg"),
                (2, "one", "abg"), (2, "two/8", "bga"),
            ],
        )  # fmt: skip

    def test_what_is_done_is_not_done_again(self):
        done = [(1, "one", name) for name in ("glibc", "a", "b")] + [(2, "one", "a")]
        done += [(turn, "two/8", name) for turn in (1, 2) for name in ("glibc", "a", "b")]
        bench = self.bench(self.tasks, self.found, rounds=2, done=done)
        self.assertEqual(self.names(bench), [(0, "one", "g"), (2, "one", "bg")])
        self.assertEqual(bench.total(), 3)

    def test_nothing_is_left(self):
        done = [(1, "one", name) for name in ("glibc", "a", "b")]
        self.assertEqual(self.bench([task("one")], self.found, 1, done=done).total(), 0)


class Touching(InAFolder):
    def test_as_much_as_was_seen_and_some_more(self):
        bench = self.bench([task()])
        self.assertEqual(bench.touch_mb("perl"), 64)
        bench.peaks["perl"] = 100 << 10
        self.assertEqual(bench.touch_mb("perl"), 120)
        bench.peaks["perl"] = 1 << 40
        self.assertLess(bench.touch_mb("perl"), 1 << 30)

    def test_the_peak_is_learnt_from_each_run(self):
        job = programs.Job([sys.executable, "-S", "-c", "x = bytearray(90 << 20)"], outputs=())
        bench = self.bench([task(prepare=lambda _: lambda _: job, probe=lambda: job.command)])
        bench.set_up()
        row = bench.measure(1, bench.tasks[0], self.glibc)
        self.assertEqual((row.status, row.detail), ("ok", ""))
        self.assertGreater(bench.touch_mb("perl"), 100)


class Failing(InAFolder):
    def rows(self, command, found=None, seconds=20, **changes):
        job = programs.Job(command, outputs=())
        bench = self.bench(
            [task(prepare=lambda _: lambda _: job, probe=lambda: command, **changes)], found
        )
        bench.launcher.timeout = seconds
        bench.set_up()
        return [
            bench.measure(turn, bench.tasks[0], each)
            for turn in (1, 2)
            for each in bench.allocators
        ]

    def test_a_timeout_is_not_tried_again(self):
        started = time.monotonic()
        rows = self.rows(["/bin/sleep", "33"], seconds=0.5)
        self.assertEqual([row.status for row in rows], ["timeout", "timeout"])
        self.assertEqual(rows[1].detail, "not tried again")
        self.assertLess(time.monotonic() - started, 15)

    def test_a_workload_that_fails(self):
        rows = self.rows(["/bin/sh", "-c", "echo no memory >&2; exit 1"])
        self.assertEqual((rows[0].status, rows[0].detail), ("exit", "exit status 1: no memory"))

    def test_a_task_that_cannot_be_prepared_is_refused_and_the_others_run(self):
        def prepare(_folder):
            raise OSError(28, "No space left on device")

        bench = self.bench([task("full", prepare=prepare), task("good", compared=False)])
        bench.set_up()
        rows = [bench.measure(1, each, self.glibc) for each in bench.tasks]
        self.assertEqual([row.status for row in rows], ["refused", "ok"])
        self.assertIn("cannot be prepared: [Errno 28] No space left", rows[0].detail)

    def test_a_run_that_finds_no_room_is_a_failed_run(self):
        bench = self.bench([task()])
        bench.set_up()
        bench.work = Path("/dev/full")
        row = bench.measure(1, bench.tasks[0], self.glibc)
        self.assertEqual(row.status, "start")
        self.assertIn("/dev/full", row.detail)

    def test_an_allocator_that_crashes(self):
        if not CRASHING:
            self.skipTest("BENCH_CRASHING_MALLOC does not name the library (run by ctest)")
        code = "x = [bytes(1000) for i in range(30000)]"
        found = [self.glibc, Allocator("crashing", str(Path(CRASHING).resolve()))]
        rows = self.rows([sys.executable, "-S", "-c", code], found)
        self.assertEqual([row.status for row in rows], ["ok", "crash"] * 2)
        self.assertIn("SIGABRT", rows[1].detail)
        self.assertIn("LD_PRELOAD=", rows[1].command)


class Proof(InAFolder):
    def test_a_static_program_is_refused(self):
        program = compiled(self.folder, STATIC, "-static")
        if program is None:
            self.skipTest("there is no static libc to link")
        self.assertIn("linked statically", allocators.unfit([program]))
        self.assertIn("linked statically", allocators.preload_for([program], self.glibc)[1])

    def test_a_setuid_program_is_refused(self):
        program = self.folder / "program"
        shutil.copy("/bin/true", program)
        self.assertIsNone(allocators.unfit([str(program)]))
        program.chmod(0o4755)
        self.assertIn("setuid", allocators.unfit([str(program)]))

    def test_a_program_with_an_allocator_of_its_own_is_refused(self):
        program = compiled(self.folder, OWN_MALLOC, "-rdynamic")
        why = allocators.preload_for([program], self.glibc)[1]
        self.assertEqual(why, f"its malloc is that of {os.path.realpath(program)}")

    def test_a_script_is_asked_for_its_interpreter(self):
        script = self.folder / "script"
        for line in ("#!/bin/sh", "#!/usr/bin/env sh", "#! /usr/bin/env -S A=b sh -e"):
            script.write_text(f"{line}\ntouch {self.folder}/ran\n")
            found = allocators.executable_of([str(script)])
            self.assertEqual(found, os.path.realpath(shutil.which("sh")), line)
        self.assertEqual(allocators.preload_for([str(script)], self.glibc), (None, None))
        self.assertFalse((self.folder / "ran").exists(), "the proof has started the program")

    def test_libraries_that_are_no_malloc(self):
        text = self.folder / "text.so"
        text.write_text("no library")
        cases = {
            str(text): "cannot be preloaded: file too short",
            find_library("libm.so.6"): "does not replace malloc",
            "/nonexistent/libx.so": "there is no such file",
        }
        for path, why in cases.items():
            self.assertIn(why, allocators.trouble(Allocator("x", path)))

    def test_allocators_of_the_command_line(self):
        libc = self.glibc.library
        found = allocators.custom(f"mine={libc},A=1,B=x=y")
        self.assertEqual((found.name, found.library), ("mine", libc))
        self.assertEqual(found.env, (("A", "1"), ("B", "x=y")))
        for text in ("mine", "=x.so", "mine=", "mine=x.so,A", "mine=x.so,=1"):
            with self.assertRaisesRegex(ValueError, "not of the form"):
                allocators.custom(text)

    def test_peers_that_are_listed_and_gone(self):
        (self.folder / "peers.json").write_text(
            '{"peers": [{"name": "jemalloc", "version": "5", "origin": "o", "flags": "f",'
            ' "library": "gone.so", "kind": "fast"}, {"name": "snmalloc", "version": "0.7",'
            f' "origin": "o", "flags": "f", "library": "{self.glibc.library}", "kind": "fast"}}],'
            ' "absent": [{"name": "scudo", "why": "no package"}]}'
        )
        names = ("glibc", "jemalloc", "snmalloc", "scudo", "rpmalloc")
        found, absent = allocators.for_lab(names, "", self.folder / "peers.json")
        self.assertEqual([each.name for each in found], ["glibc", "snmalloc"])
        self.assertEqual(found[1].version(), "0.7")
        self.assertEqual(
            dict(absent),
            {
                "jemalloc": f"{self.folder / 'gone.so'} has gone; run bench/peers/build.py",
                "scudo": "no package",
                "rpmalloc": "not built: run bench/peers/build.py",
            },
        )


class Cases(InAFolder):
    def micro(self, text, **changes):
        (self.folder / "cases.toml").write_text(text)
        (self.folder / "here").touch(mode=0o755)
        options = {"quick": False, "path": self.folder / "cases.toml", **changes}
        return workloads.micro(self.folder, **options)

    CASE = (
        '[[case]]\nname = "x-y"\nprogram = "{0}"\nargs = ["--min", 8]\nthreads = {1}\n'
        'question = "q?"\ntags = ["t"]\nquick = {2}\nscale = 0.5\nquick_threads = [2]\n'
    )

    def test_thread_counts(self):
        case = self.CASE.format("here", "[1, 2, 8]", "true")
        self.assertEqual([t.label for t in self.micro(case)[0]], ["x-y/1", "x-y/2", "x-y/8"])
        self.assertEqual([t.label for t in self.micro(case, quick=True)[0]], ["x-y/2"])
        self.assertEqual([t.threads for t in self.micro(case, threads=[4])[0]], [4])
        single = self.CASE.format("here", "[1]", "true")
        self.assertEqual([t.threads for t in self.micro(single, threads=[4])[0]], [1])
        pairs = self.CASE.format("here", "[2, 8]", "true")
        self.assertEqual([t.threads for t in self.micro(pairs, threads=[1, 4])[0]], [4])
        self.assertEqual(
            self.micro(pairs, threads=[1]), ([], [("x-y", "it takes 2 threads or more")])
        )
        self.assertEqual(workloads.thread_counts("1,N,6", 6), [1, 6])

    def test_the_seed_is_the_round_s_number(self):
        found = self.micro(self.CASE.format("here", "[2]", "true"))[0][0]
        command = [str(self.folder / "here"), "--threads", "2", "--scale", "0.5", "--seed", "3",
                   "--min", "8"]  # fmt: skip
        self.assertEqual(found.prepare(None)(3).command, command)
        found = self.micro(self.CASE.format("here", "[2]", "true"), seed=7, scale=2)[0][0]
        self.assertEqual(found.prepare(None)(3).command[4:7], ["1", "--seed", "7"])

    def test_what_is_not_built_is_named(self):
        tasks, absent = self.micro(self.CASE.format("gone", "[1]", "true"))
        self.assertEqual((tasks, absent), ([], [("x-y", f"{self.folder / 'gone'} is not built")]))

    def test_cases_that_say_too_little_are_one_line(self):
        with self.assertRaisesRegex(workloads.BadCases, "case x has no program"):
            self.micro('[[case]]\nname = "x"\n')
        with self.assertRaisesRegex(workloads.BadCases, "cases.toml"):
            self.micro("[[case")

    def test_those_of_the_lab(self):
        cases = workloads.read_cases()
        self.assertGreater(len(cases), 20)
        self.assertEqual(len({case["name"] for case in cases}), len(cases))

    def test_programs_of_a_quick_run_exist(self):
        names = {program.name for program in programs.PROGRAMS}
        self.assertLessEqual(set(workloads.QUICK_PROGRAMS), names)


class Starter(unittest.TestCase):
    def test_it_is_built_once_and_again_when_its_source_changes(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "below" / "starter"
            built_starter(path)
            first = path.stat().st_mtime_ns
            built_starter(path)
            self.assertEqual(path.stat().st_mtime_ns, first)
            os.utime(path, (1, 1))
            built_starter(path)
            self.assertGreater(path.stat().st_mtime, 1)


if __name__ == "__main__":
    common.run_tests(__name__)
