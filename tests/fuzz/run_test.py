#!/usr/bin/env python3
"""run_test.py PROGRAM: run.py over a harness with a planted fault: it finds, reports and keeps it.

A harness that hangs, and one that finds nothing, are made here.
"""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PLANTED = None  # the program, from the command line
RUN = Path(__file__).with_name("run.py")


class Run(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.found = Path(self.folder.name) / "found"
        self.corpus = Path(self.folder.name) / "corpus"
        self.corpus.mkdir()

    def run_it(self, program, **environment):
        command = [
            sys.executable,
            RUN,
            "--seconds",
            "60",
            "--corpus",
            self.corpus,
            "--found",
            self.found,
            program,
        ]
        return subprocess.run(
            command,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )

    def script(self, text):
        file = Path(self.folder.name) / "fuzz_script"
        file.write_text("#!/bin/sh\n" + text, encoding="utf-8")
        file.chmod(0o755)
        return file

    def test_a_fault_is_found_told_and_kept(self):
        (self.corpus / "near").write_bytes(b"lo")
        result = self.run_it(PLANTED)
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertIn("fuzz: planted", result.stdout)
        self.assertRegex(
            result.stdout, r"in LLVMFuzzerTestOneInput /.*/fuzz\.h:\d+", "the stack has places"
        )
        self.assertIn("run: FAILED: fuzz_planted found something", result.stdout)
        kept = list(self.found.iterdir())
        self.assertEqual(len(kept), 1)
        self.assertTrue(kept[0].read_bytes().startswith(b"lm"))
        self.assertIn(f"run: the input is kept: {kept[0]}", result.stdout)
        self.assertEqual(
            [file.name for file in self.corpus.iterdir()], ["near"], "the corpus stays as it is"
        )

    def test_nothing_found_is_success_and_the_time_is_the_environments(self):
        result = self.run_it(
            self.script('echo "$@" | tr " " "\\n" | sed -n "s/^-max_total_time=/stat:: /p"'),
            LOAM_FUZZ_SECONDS="7",
        )
        self.assertEqual(result.returncode, 0, result.stdout)
        self.assertIn("stat:: 7\n", result.stdout)
        self.assertIn("7 s: nothing found", result.stdout)

    def test_a_harness_that_fails_without_an_input_fails(self):
        result = self.run_it(self.script("echo no such library; exit 127"))
        self.assertEqual(result.returncode, 1)
        self.assertIn("no such library", result.stdout)
        self.assertIn("exit status 127", result.stdout)

    def test_old_findings_are_not_new_ones(self):
        self.found.mkdir()
        (self.found / "crash-old").write_bytes(b"old")
        self.assertEqual(self.run_it(self.script("exit 0")).returncode, 0)


if __name__ == "__main__":
    PLANTED = sys.argv.pop(1)
    unittest.main()
