"""bench/run.py --program on the commands that users have: failures and their exit statuses.

Most cases are generated: exit statuses, signals, and wrappers around programs of which it is known
whether a preload reaches them (watcher.c must say so of each). Every case ends in a sentence.
"""

import csv
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import common
from lab import front, own, programs, watch
from lab.allocators import Allocator, find_library, real
from lab.measure import built

PYTHON = "/usr/bin/python3"
REASON = common.lacks("numpy") or common.lacks("rich")
LOAM = os.environ.get("BENCH_LIBRARY", str(common.ROOT / "build/release/libloam.so"))
SEED = int(os.environ.get("BENCH_SEED", "36"))

if REASON or not os.path.exists(LOAM):
    print(f"skipped: {REASON or f'{LOAM} is not built'}")
    sys.exit(77)


def command(*arguments, allocators="glibc"):
    fixed = ["--peers-file", "/nonexistent/peers.json", "--loam", LOAM, "--allocators", allocators]
    return [
        PYTHON,
        "-B",
        str(common.BENCH / "run.py"),
        *fixed,
        "--no-page",
        "--program",
        *arguments,
    ]


class InAFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.out = self.folder / "out"

    def run_out(self, *words, options=(), allocators="glibc", status=None, **more):
        more = {"stdin": subprocess.DEVNULL, **more}
        done = subprocess.run(
            command("--rounds", "1", "--out", str(self.out), *options, "--", *words,
                    allocators=allocators),
            capture_output=True, timeout=100, check=False, **more,
        )  # fmt: skip
        shown = done.stdout.decode(errors="replace") + done.stderr.decode(errors="replace")
        self.assertNotIn("Traceback", shown)
        if status is not None:
            self.assertEqual(done.returncode, status, shown)
        return shown

    def rows(self):
        with open(self.out / "rows.csv", newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def compiled(self, name, text, *options):
        path = self.folder / name
        done = subprocess.run(
            ["cc", *options, "-x", "c", "-", "-o", str(path)], input=text, text=True,
            capture_output=True, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            self.skipTest(f"cc {' '.join(options)}: {done.stderr[:100]}")
        return str(path)


class Failures(InAFolder):
    def test_exit_statuses(self):
        numbers = random.Random(SEED)
        for code in (1, numbers.randrange(2, 126), numbers.randrange(129, 256)):
            with self.subTest(code=code):
                shown = self.run_out("sh", "-c", f"echo the reason >&2; exit {code}", status=1)
                self.assertIn(f"sh on glibc: exit status {code}", shown)
                self.assertIn("the reason. Nothing was measured; --ignore-failure", shown)
                self.assertEqual([row["status"] for row in self.rows()], ["exit"])

    def test_a_mistyped_command(self):
        shown = self.run_out("sh", "-c", "nosuchcommand_x", status=1)
        self.assertIn("exit status 127: ", shown)
        self.assertIn("nosuchcommand_x: not found", shown)

    def test_signals(self):
        for number in random.Random(SEED).sample(
            [signal.SIGSEGV, signal.SIGABRT, signal.SIGKILL, signal.SIGTERM, signal.SIGFPE], 1
        ):
            with self.subTest(signal=number.name):
                shown = self.run_out("sh", "-c", f"kill -{int(number)} $$", status=1)
                self.assertIn(f"sh on glibc: crash: {number.name}. Nothing was measured", shown)
        shown = self.run_out("sh", "-c", "sh -c 'kill -SEGV $$'; exit $?", status=1)
        self.assertIn("exit status 139 (in a shell: ended by SIGSEGV)", shown)

    def test_a_failure_that_is_measured_all_the_same(self):
        shown = self.run_out("sh", "-c", "exit 3", options=["--ignore-failure"], status=0)
        self.assertIn("failure: measured all the same: exit status 3", shown)
        self.assertRegex(shown, r"sh +[\d.]+ms")

    def test_a_failure_on_loam_alone(self):
        text = 'case "$LD_PRELOAD" in *libloam*) exit 9;; esac'
        shown = self.run_out("sh", "-c", text, allocators="loam", status=1)
        self.assertIn("sh on loam: failed: exit status 9", shown)

    def test_no_end(self):
        shown = self.run_out("sleep", "100", options=["--timeout", "0.3"], status=1)
        self.assertIn("timeout: no end after 0.3 s. Nothing was measured", shown)

    def test_words_that_are_no_program(self):
        (self.folder / "plain").write_text("x")
        (self.folder / "empty").touch(0o755)
        (self.folder / "lost").write_text("#!/no/such\n")
        (self.folder / "lost").chmod(0o755)
        for word, sentence in (
            ("ls -l", "ls -l: there is no such program; a line for a shell is given as: -- sh -c"),
            ("./plain", "./plain: it is not executable (chmod +x)"),
            (str(self.folder), "that is a folder, not a program"),
            ("./lost", "there is no /no/such, which is to run it"),
            ("./empty", "is neither a 64-bit program nor a script with #!"),
        ):
            with self.subTest(word=word):
                self.assertIn(sentence, self.run_out(word, cwd=self.folder, status=2))
        shown = self.run_out("true", options=["--name", "../x"], status=2)
        self.assertIn("the name of a file is wanted", shown)
        for name in ("a/b", "..", " .", "a\nb", "\x1b[m"):
            self.assertRaises(front.WrongUse, own.check_name, name)
        self.assertIn("--rounds 0: not a number", self.run_out("true", options=["--rounds", "0"]))

    def test_a_folder_that_cannot_be_written(self):
        self.out = Path("/proc/no/such")
        self.assertIn("cannot write there", self.run_out("true", status=2))

    def test_ctrl_c(self):
        process = subprocess.Popen(
            command("--out", str(self.out), "--", "sleep", "50"), stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        while not (self.out / "rows.csv").exists() and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        shown = process.communicate(timeout=20)[0]
        self.assertEqual(process.returncode, 130, shown)
        self.assertNotIn("Traceback", shown)


class Streams(InAFolder):
    def test_terminals_that_know_few_characters(self):
        for encoding in ("ascii", "latin-1"):
            with self.subTest(encoding=encoding):
                env = {**os.environ, "PYTHONIOENCODING": encoding, "LC_ALL": "C"}
                shown = self.run_out("echo", b"\xff", allocators="loam", status=0, env=env)
                self.assertIn("half the range of the rounds' ratios", shown)
                self.assertIn("files: ", shown)
                self.assertIn("short: a run takes", shown)
                self.assertIn("one round: nothing says how far figures vary", shown)

    def test_every_character_can_be_written_in_ascii(self):
        front.use_any_terminal()
        numbers = random.Random(SEED)
        text = "".join(map(chr, numbers.sample(range(0x10FFFF), 2000))) + "±─…\udcff"
        self.assertTrue(text.encode("ascii", "loam.plain").isascii())
        self.assertEqual(len(text.encode("ascii", "loam.plain")), len(text))

    def test_names_with_brackets(self):
        self.out = self.folder / "[out]"
        shown = self.run_out("true", options=["--name", "[b]"], status=0)
        self.assertIn("[b]", shown)

    def test_standard_input(self):
        (self.folder / "in").write_text("b\na\n")
        with open(self.folder / "in", "rb") as file:
            shown = self.run_out("sh", "-c", "sort > sorted", stdin=file, cwd=self.folder, status=0)
        self.assertIn(f"standard input: {self.folder / 'in'}", shown)
        self.assertEqual((self.folder / "sorted").read_text(), "a\nb\n")

    def test_output_that_is_not_compared_is_not_kept(self):
        text = "test /proc/self/fd/1 -ef /dev/null"
        self.run_out("sh", "-c", text, options=["--outputs", "none"], status=0)

    def test_the_caller_s_environment_is_the_program_s(self):
        env = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        env["LONG"] = "x" * 120_000
        env["MORE"] = "y" * 120_000
        text = 'test -z "$TZ$LC_ALL" && test ${#LONG} = 120000 && test ${#MORE} = 120000'
        self.run_out("sh", "-c", text, status=0, env=env)


class Preloads(InAFolder):
    def setUp(self):
        super().setUp()
        text = "int puts(const char *s);\n__attribute__((constructor)) static void f(void)"
        self.mark = self.compiled("mark.so", text + '{ puts("mark"); }', "-shared", "-fPIC")
        text = "#include <stddef.h>\nstatic char m[1 << 30]; static size_t n;\n"
        text += "void *malloc(size_t s) { size_t at = n; n += (s + 31) & -16; return m + at; }\n"
        text += "void free(void *p) { (void)p; }\n"
        text += "void *calloc(size_t a, size_t b) { return malloc(a * b); }\n"
        text += "void *realloc(void *p, size_t s) { char *q = malloc(s), *o = p;\n"
        text += "    for (size_t i = 0; o && i < s && o + i < m + n; i++) q[i] = o[i];\n"
        text += "    return q; }\n"
        self.malloc = self.compiled("own.so", text, "-shared", "-fPIC", "-fno-builtin")

    def test_the_caller_s_libraries_stay_in_every_run(self):
        maths = find_library("libm.so.6")
        for words in (f"{self.mark} {maths}", f"{maths}:{self.mark}", f" {LOAM}  {self.mark}"):
            with self.subTest(preload=words):
                env = {**os.environ, "LD_PRELOAD": words}
                text = "grep -q mark.so /proc/self/maps && echo $LD_PRELOAD > ran"
                shown = self.run_out("sh", "-c", text, allocators="loam", env=env, status=0,
                                     options=["--outputs", "none"], cwd=self.folder)  # fmt: skip
                ran = (self.folder / "ran").read_text().strip().split(":")
                kept = [word for word in words.replace(":", " ").split() if word != LOAM]
                self.assertEqual([word for word in ran if "loam" not in word], kept)
                commands = {row["allocator"]: row["command"] for row in self.rows()}
                self.assertIn(f"LD_PRELOAD={real(LOAM)}:{':'.join(kept)} ", commands["loam"])
                self.assertIn(f"LD_PRELOAD={':'.join(kept)} ", commands["glibc"])
                left_out = f"{LOAM} is left out: it is an allocator that takes part"
                self.assertEqual(LOAM in words, left_out in shown)

    def test_a_malloc_of_the_caller_s_comes_behind(self):
        env = {**os.environ, "LD_PRELOAD": self.malloc}
        shown = self.run_out("/bin/true", allocators="loam", env=env)
        self.assertIn("own.so has a malloc of its own: every allocator stands before it", shown)
        self.assertEqual({row["status"] for row in self.rows()}, {"ok"}, shown)


class Executables(InAFolder):
    def setUp(self):
        super().setUp()
        text = "int main(int n, char **v) { (void)v; "
        text += "for (volatile int i = n < 2; i < 200000000 && n > 1; i++) {} return 0; }"
        self.static = self.compiled("static", text, "-static")
        self.dynamic = self.compiled("dynamic", text)
        text = "#include <stdlib.h>\nvoid *malloc(size_t s) { (void)s; return 0; }\n"
        text += "void free(void *p) { (void)p; }\nvoid *(*volatile m)(size_t) = malloc;\n"
        text += "int main(void) { free(m(9)); return 0; }"
        self.foreign = self.compiled("foreign", text, "-fno-builtin", "-rdynamic")
        self.loam = Allocator("loam", real(LOAM))

    def images(self, words):
        words = [shutil.which(words[0]), *words[1:]]
        job = programs.Job(words, env=dict(os.environ), cwd=str(self.folder), own_env=True)
        job.env.pop("LD_PRELOAD", None)
        folder = self.folder / "watched"
        return watch.watched(job, self.loam, self.loam.library, folder, 30, built("watcher"))

    def wrapped(self, way, program):
        """(words, whether LD_PRELOAD reaches the program)."""
        threads = "import threading as t, subprocess as s\n"
        threads += f"a = [t.Thread(target=s.run, args=([{program!r}],)) for _ in range(3)]\n"
        threads += "[b.start() for b in a]; [b.join() for b in a]"
        cleared = f"import os; del os.environ['LD_PRELOAD']; os.execv({program!r}, ['x'])"
        spawned = f"import os; os.waitpid(os.posix_spawn({program!r}, ['x'], os.environ), 0)"
        script = self.folder / "script"
        script.write_text(f"#!/bin/sh\n{program}\nexit 0\n")
        script.chmod(0o755)
        return {
            "shell": (["sh", "-c", f"{program}; :"], True),
            "exec": (["sh", "-c", f"exec {program}"], True),
            "pipe": (["sh", "-c", f"true | {program} | cat"], True),
            "background": (["sh", "-c", f"{program} & wait"], True),
            "subshell": (["sh", "-c", f"( ( {program} ) )"], True),
            "env": (["env", "A=b", program], True),
            "env -i": (["env", "-i", program], False),
            "env -u": (["sh", "-c", f"env -u LD_PRELOAD {program}"], False),
            "unset": (["sh", "-c", f"unset LD_PRELOAD; {program}"], False),
            "emptied": (["sh", "-c", f"LD_PRELOAD= exec {program}"], False),
            "others": (["sh", "-c", f"LD_PRELOAD=libm.so.6 {program}"], False),
            "script": ([str(script)], True),
            "threads": ([PYTHON, "-c", threads], True),
            "cleared": ([PYTHON, "-c", cleared], False),
            "spawned": ([PYTHON, "-c", spawned], True),
            "nice": (["nice", "-n", "1", "timeout", "20", program], True),
            "xargs": (["sh", "-c", f"echo 1 2 | xargs -n 1 -P 2 {program}"], True),
        }[way]

    WAYS = (
        "shell", "exec", "pipe", "background", "subshell", "env", "env -i", "env -u", "unset",
        "emptied", "others", "script", "threads", "cleared", "spawned", "nice", "xargs",
    )  # fmt: skip

    def test_each_wrapper_around_each_kind_of_program(self):
        whys = {self.static: "linked statically", self.foreign: "its malloc is that of foreign"}
        for way in self.WAYS:
            for program in (self.static, self.dynamic, self.foreign):
                with self.subTest(way=way, program=program):
                    words, reached = self.wrapped(way, program)
                    found = [each for each in self.images(words) if each.path == program]
                    self.assertEqual(len(found), 1, found)
                    why = None if reached else "started without LD_PRELOAD in its environment"
                    if reached or program == self.static:
                        why = whys.get(program)
                    self.assertEqual(found[0].why, why)
                    self.assertEqual(found[0].count, {"threads": 3, "xargs": 2}.get(way, 1))

    def test_signals_and_ends_are_the_program_s(self):
        for text in ("kill -SEGV $$", "exit 3", "kill -STOP $$", "sleep 100 & exit 0"):
            with self.subTest(text=text):
                if "STOP" in text:
                    text = "(sleep 0.1; kill -CONT $$) & kill -STOP $$; wait"
                paths = [image.path for image in self.images(["sh", "-c", text])]
                self.assertIn(real(shutil.which("sh")), paths)

    def test_what_is_reported(self):
        shown = self.run_out("sh", "-c", f"{self.static} x", allocators="loam", status=1)
        self.assertIn("loam was not in every executable that ran. Without it: ", shown)
        self.assertIn(f"{self.static} (linked statically; 1 process, ", shown)
        self.assertRegex(shown, r"sh on loam: not used: \d+% of the CPU time was in programs")
        self.assertNotRegex(shown, r"sh +[\d.]+m?s\*? +\d\.\d\d")
        shown = self.run_out("sh", "-c", f"{self.static} x; {self.dynamic} x", allocators="loam")
        self.assertIn(f"{self.static} (linked statically; 1 process, ", shown)
        self.assertRegex(shown, r"sh +[\d.]+m?s\*? +\d\.\d\d")
        kept = json.loads((self.out / "run.json").read_text())["remarks"]
        self.assertTrue(any(self.static in text for _, text in kept), kept)
        shown = self.run_out("sh", "-c", self.dynamic, allocators="loam", status=0)
        self.assertNotIn("executables:", shown)

    def test_what_is_not_allowed_is_said(self):
        job = programs.Job(["/bin/true"], env={}, own_env=True)
        folder = self.folder / "watched"
        with self.assertRaisesRegex(watch.CannotWatch, "the watcher said nothing"):
            watch.watched(job, self.loam, self.loam.library, folder, 9, "/bin/true")
        job.command = ["/bin/sleep", "100"]
        with self.assertRaisesRegex(watch.CannotWatch, "did not end within 0.2 s"):
            watch.watched(job, self.loam, self.loam.library, folder, 0.2, built("watcher"))

    def test_facts_and_reasons(self):
        self.assertIsNone(watch.reason(1, 0, 1, 1))
        self.assertIsNone(watch.reason(1, 0, 1, 2))
        for facts, word in (
            ((1, 0, 0, 0), "statically"), ((1, 0, 2, 0), "64-bit"), ((1, 1, 1, 0), "set-user-ID"),
            ((0, 0, 1, 0), "without LD_PRELOAD"), ((1, 0, 1, 0), "did not load"),
        ):  # fmt: skip
            self.assertIn(word, watch.reason(*facts))
        elsewhere = [watch.Image("/usr/bin/docker", None, 1, 10)]
        self.assertIn("/usr/bin/docker asks", watch.sentences(elsewhere, "loam")[0])
        self.assertEqual(watch.sentences([watch.Image("/bin/sh", None)], "loam"), [])

    def test_remarks_of_a_run_that_says_enough(self):
        class Options:
            rounds, ignore_failure = 5, False

        class Row:
            allocator, status, cpu_s = "glibc", "ok", 1.0

        class Own:
            stdin = None

        self.assertEqual(own.remarks(Options, Own, [Row], set()), [])


if __name__ == "__main__":
    common.run_tests(__name__)
