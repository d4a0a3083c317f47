"""The generated inputs of the real programs (bench/lab/inputs): do they depend on their size alone?

Ratios of two machines or two years are comparable only where the programs had the same input.
Compilers are asked besides whether they take theirs; git, whether its history is there.
"""

import subprocess
import tempfile
import unittest
from pathlib import Path

from common import run_tests
from lab import more_programs, programs
from lab.inputs import make_c, make_cpp, make_history, make_load, make_rust, make_smt

GENERATORS = (make_c, make_cpp, make_load, make_rust, make_smt)


class Inputs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def written(self, generator, count):
        path = self.folder / "input"
        generator.write(path, count)
        return path.read_bytes()

    def test_the_same_twice_and_longer_when_larger(self):
        for generator in GENERATORS:
            with self.subTest(generator=generator.__name__):
                small = self.written(generator, 2)
                self.assertEqual(small, self.written(generator, 2))
                self.assertGreater(len(self.written(generator, 8)), len(small))

    def test_a_history_has_its_commits_and_the_same_names_everywhere(self):
        git = programs.find("git")
        if git is None:
            self.skipTest("git is not installed")
        heads = []
        for name in ("one", "two"):
            make_history.write(git, self.folder / name, 90)
            command = [git, "--git-dir", str(self.folder / name), "log", "--format=%H", "-M"]
            shown = subprocess.run(command, capture_output=True, text=True, check=True)
            heads.append(shown.stdout.split())
        self.assertEqual(len(heads[0]), 90)
        self.assertEqual(heads[0], heads[1])


class Programs(unittest.TestCase):
    """Each of the lab's further programs, on its least input: it ends well and writes something."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def test_it_ends_well(self):
        least = {"node": 100, "git": 50}
        for program in more_programs.MORE:
            with self.subTest(program=program.name):
                if program.missing():
                    self.skipTest(f"no {', '.join(program.missing())} ({program.package})")
                work = self.folder / program.name
                work.mkdir()
                job = program.prepare(least.get(program.name, 1), work)
                shown = subprocess.run(
                    job.command, cwd=work, env=programs.environment(job, None, ()),
                    stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                )  # fmt: skip
                self.assertEqual(shown.returncode, 0, shown.stderr[:500])
                for output in job.outputs:
                    written = shown.stdout if output == "stdout" else (work / output).read_bytes()
                    self.assertTrue(written)


if __name__ == "__main__":
    run_tests(__name__)
