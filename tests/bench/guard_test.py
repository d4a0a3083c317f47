"""The guard (bench/guard): does a dearer library fail, and does a bad or missing baseline end well?

The dearer library is a real one: loam's own objects, but heap/refill.c compiled without
optimisation. Skipped where the guard itself cannot run (no valgrind) or the build left no
compile_commands.json.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from common import BENCH, run_tests

GUARD = BENCH / "guard"
BUILD = Path(os.environ.get("BENCH_PROGRAMS", "build/release/bench")).parent
BUILD_JSON = BUILD / "bench" / "guard" / "build.json"
COMMANDS = BUILD / "compile_commands.json"
WORKLOAD = "small_pairs"

sys.path.insert(0, str(GUARD))
import callgrind  # noqa: E402
import guard  # noqa: E402

MADE_UP_PROFILE = """\
# callgrind format
version: 1
positions: {positions}
events: Ir

ob=/lib/libone.so
fl=a.c
fn=outer
{0} 10
cob=/lib/libc.so.6
cfn=memcpy
calls=3 1
{1} 300
cfn=inner.part.0
calls=1 1
{1} 7
{1} 2

fn=inner.part.0
{2} 6
fn=inner'2
{2} 1

ob=/lib/libc.so.6
fn=memcpy
{2} 300
fn=0x00000000000010c0
{2} 4
"""


def lacking():
    if shutil.which("valgrind") is None:
        return "valgrind is not installed"
    if not BUILD_JSON.exists():
        return f"{BUILD_JSON} is not there: the build has no guard"
    return None


class Reader(unittest.TestCase):
    def read(self, positions, *places):
        with tempfile.NamedTemporaryFile("w", suffix=".out") as file:
            file.write(MADE_UP_PROFILE.format(*places, positions=positions))
            file.flush()
            return callgrind.Profile(file.name)

    def test_functions_and_calls(self):
        profile = self.read("line", 1, 2, 3)
        self.assertEqual(profile.functions["libone.so", "outer"], 12)
        self.assertEqual(profile.functions["libone.so", "inner"], 7)
        self.assertEqual(profile.functions["libc.so.6", "(no name)"], 4)
        self.assertEqual(profile.cost("libone.so"), 19)
        self.assertEqual(profile.calls_out, {("libc.so.6", "memcpy"): {"libone.so": 300}})
        self.assertEqual(profile.executed, {})

    def test_addresses(self):
        profile = self.read("instr", "0x10", "0x14", "0x20")
        self.assertEqual(profile.executed["libone.so", 0x10], 10)
        self.assertEqual(profile.executed["libone.so", 0x14], 2)
        self.assertEqual(profile.executed["libone.so", 0x20], 7)

    def test_program_that_fails(self):
        if shutil.which("valgrind") is None:
            self.skipTest("valgrind is not installed")
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(callgrind.Failed, "false: exit status 1"):
                callgrind.run([shutil.which("false")], f"{folder}/out")


class Compared(unittest.TestCase):
    def setUp(self):
        why = lacking()
        if why:
            self.skipTest(why)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.baseline = self.folder / "baseline.json"
        self.key = guard.key_of(guard.read_build(BUILD))

    def guard(self, *more, only=WORKLOAD):
        command = [sys.executable, "-B", str(GUARD / "guard.py"), "--build", str(BUILD)]
        command += ["--baseline", str(self.baseline), *(["--only", only] if only else []), *more]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
        self.assertEqual(done.stderr, "", "nothing but the guard's own lines, no traceback")
        return done.returncode, done.stdout

    def update(self):
        status, said = self.guard("--update")
        self.assertEqual(status, 0, said)
        return json.loads(self.baseline.read_text())

    def change(self, content):
        self.baseline.write_text(json.dumps(content))

    def test_update_then_nothing_grew(self):
        self.update()
        first = self.baseline.read_text()
        status, said = self.guard()
        self.assertEqual(status, 0, said)
        self.assertIn("none dearer", said)
        self.update()
        self.assertEqual(self.baseline.read_text(), first, "counts repeat to the instruction")
        self.assertEqual(list(self.folder.iterdir()), [self.baseline])

    def test_update_of_one_keeps_the_others(self):
        content = self.update()
        content[self.key]["workloads"]["other"] = {"library": {"f": 1}, "libc": {}}
        content["riscv64 gcc 99"] = content[self.key]
        self.change(content)
        after = self.update()
        self.assertIn("other", after[self.key]["workloads"])
        self.assertIn("riscv64 gcc 99", after)

    def test_function_that_grew_is_named(self):
        content = self.update()
        functions = content[self.key]["workloads"][WORKLOAD]["library"]
        was = functions["free"]
        functions["free"] = was * 9 // 10
        self.change(content)
        status, said = self.guard()
        self.assertEqual(status, 1, said)
        self.assertIn(f"FAILED: more than 2% dearer: {WORKLOAD}", said)
        self.assertRegex(said, rf"free +{was * 9 // 10:,} +{was:,} +\+{was - was * 9 // 10:,}")
        self.assertNotRegex(said, r"(?m)^    malloc ")

    def test_little_growth_passes(self):
        content = self.update()
        functions = content[self.key]["workloads"][WORKLOAD]["library"]
        functions["free"] -= sum(functions.values()) // 100
        self.change(content)
        self.assertEqual(self.guard()[0], 0)

    def test_libc_memory_functions_count(self):
        status, said = self.guard("--update", only="realloc_growth")
        self.assertEqual(status, 0, said)
        content = json.loads(self.baseline.read_text())
        libc = content[self.key]["workloads"]["realloc_growth"]["libc"]
        most = max(libc, key=libc.get)
        self.assertIn("mem", most)
        libc[most] //= 2
        self.change(content)
        status, said = self.guard(only="realloc_growth")
        self.assertEqual(status, 1, said)
        self.assertIn("in the memory functions", said)
        self.assertIn(most, said)
        content[self.key]["libc"] = "glibc 1.0"
        self.change(content)
        status, said = self.guard(only="realloc_growth")
        self.assertEqual(status, 0, said)
        self.assertIn("libc's part is not compared: glibc", said)

    def test_memory_functions_for_another_processor_are_not_compared(self):
        self.guard("--update", only="realloc_growth")
        content = json.loads(self.baseline.read_text())
        figures = content[self.key]["workloads"]["realloc_growth"]
        figures["libc"] = {f"{name}_neon": 1 for name in figures["libc"]}
        self.change(content)
        status, said = self.guard(only="realloc_growth")
        self.assertEqual(status, 0, said)
        self.assertRegex(said, r"libc's part is not compared: \w+ here, \w+_neon in the baseline")

    def test_a_memory_function_that_is_called_newly_counts(self):
        self.guard("--update", only="realloc_growth")
        content = json.loads(self.baseline.read_text())
        libc = content[self.key]["workloads"]["realloc_growth"]["libc"]
        del libc[max(libc, key=libc.get)]
        self.change(content)
        status, said = self.guard(only="realloc_growth")
        self.assertEqual(status, 1, said)
        self.assertIn("in the memory functions", said)

    def test_cheaper_asks_for_an_update(self):
        content = self.update()
        content[self.key]["workloads"][WORKLOAD]["library"]["free"] *= 2
        self.change(content)
        status, said = self.guard()
        self.assertEqual(status, 0, said)
        self.assertRegex(
            said, rf"cheaper by more than 2%: {WORKLOAD}; keep the gain: .*guard_update"
        )

    def test_slower_library_fails(self):
        if not COMMANDS.exists():
            self.skipTest(f"{COMMANDS} is not there")
        self.update()
        status, said = self.guard("--library", str(self.slower_library()))
        self.assertEqual(status, 1, said)
        self.assertRegex(said, r"(?m)^    lm_block_take +[\d,]+ +[\d,]+ +\+[\d,]+$")

    def slower_library(self):
        parts = ("loam_core.dir", "loam_libc_names.dir", "loam_doors.dir")
        objects, slow = [], None
        for entry in json.loads(COMMANDS.read_text()):
            words = shlex.split(entry["command"])
            target = words[words.index("-o") + 1]
            if not any(part in target for part in parts):
                continue
            if entry["file"].endswith("src/heap/refill.c"):
                slow = self.folder / "refill.o"
                words[words.index("-o") + 1] = str(slow)
                subprocess.run([*words, "-O0"], cwd=entry["directory"], check=True)
            else:
                objects.append(str(Path(entry["directory"]) / target))
            compiler = words[0]
        self.assertIsNotNone(slow, "refill.c is part of loam")
        library = self.folder / "libslow.so"
        command = [compiler, "-shared", "-Wl,-z,now", "-o", str(library), str(slow), *objects]
        subprocess.run(command, check=True)
        return library

    # ---- bad input -------------------------------------------------------------------------------

    def test_no_baseline_is_a_skip(self):
        status, said = self.guard()
        self.assertEqual(status, 77, said)
        self.assertIn(f"SKIPPED: {self.baseline} has no figures for {self.key}", said)

    def test_other_compiler_and_other_flags_are_skips(self):
        content = self.update()
        self.change({"format": 1, "riscv64 gcc 99": content[self.key]})
        self.assertEqual(self.guard()[0], 77)
        content[self.key]["flags"] = "-O3"
        self.change(content)
        status, said = self.guard()
        self.assertEqual(status, 77)
        self.assertIn("-O3", said)

    def test_corrupt_baseline_is_one_line(self):
        good = self.update()
        entry = good[self.key]
        texts = ["", "{", "[]", '{"format": 99}']
        texts.append(json.dumps({"format": 1, self.key: 5}))
        texts.append(json.dumps({"format": 1, self.key: {**entry, "workloads": None}}))
        for part in (
            3, {"library": {}}, {"library": {"f": -1}, "libc": {}}, {"library": {}, "libc": {}},
            {"library": {"f": 1}, "libc": {"getenv": 1}},
        ):  # fmt: skip
            broken = {**entry, "workloads": {WORKLOAD: part}}
            texts.append(json.dumps({"format": 1, self.key: broken}))
        for text in texts:
            with self.subTest(text=text[:60]):
                self.baseline.write_text(text)
                status, said = self.guard()
                self.assertEqual(status, 1)
                self.assertEqual(len(said.splitlines()), 1, said)
                self.assertIn(str(self.baseline), said)

    def test_workload_without_figures_fails(self):
        content = self.update()
        entry = content[self.key]["workloads"]
        entry["gone"] = entry.pop(WORKLOAD)
        self.change(content)
        status, said = self.guard()
        self.assertEqual(status, 1)
        self.assertIn(f"{WORKLOAD} has no figure", said)

    def test_wrong_names(self):
        for more, words in (
            (("--library", "/nowhere.so"), "/nowhere.so: no such library"),
            (("--library", str(GUARD / "calls.c")), "it was not preloaded"),
        ):
            self.update()
            status, said = self.guard(*more)
            self.assertEqual(status, 1)
            self.assertIn(words, said)
        status, said = self.guard(only="nothing")
        self.assertEqual(status, 1)
        self.assertIn("no workload nothing (known: start", said)

    def test_committed_baseline(self):
        baselines = guard.read_baselines(guard.BASELINE)
        names = guard.workloads_of(guard.read_build(BUILD)["programs"])
        for key, entry in baselines.items():
            self.assertEqual(sorted(entry["workloads"]), sorted(names), key)
        text = guard.BASELINE.read_text()
        written = json.dumps(json.loads(text), indent=1, sort_keys=True) + "\n"
        self.assertEqual(text, written, "as --update writes it")


if __name__ == "__main__":
    run_tests(__name__)
