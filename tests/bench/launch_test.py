"""bench/lab/launch.py and starter.c: what it reports of a run, and that it leaves nothing running.

Uses programs that every Debian has: sh, sleep and python3.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import common
from lab.allocators import find_library
from lab.measure import built_starter

PYTHON = "/usr/bin/python3"
HOLD = "import time; block = bytearray({0} << 20); time.sleep({1})"


class Launch(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.work = Path(self.folder.name)

    def spec(self, command, **changes):
        spec = {
            "command": command,
            "env": {"PATH": "/usr/bin:/bin"},
            "cwd": self.folder.name,
            "stdin": None,
            "stdout": str(self.work / "stdout"),
            "stderr": str(self.work / "stderr"),
            "seconds": 10,
            "most_output": 1 << 30,
            "touch_mb": 1,
            "thp": "default",
            "sample_ms": 0,
            "starter": built_starter(),
            "library": find_library("libc.so.6"),
            "process": None,
            "server": None,
        }
        spec.update(changes)
        place = self.work / "spec"
        place.write_text(json.dumps(spec))
        return [PYTHON, "-I", "-S", str(common.LAB / "launch.py"), str(place)]

    def launch(self, command, **changes):
        process = subprocess.Popen(
            self.spec(command, **changes), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        with process:
            text = process.stdout.read()
        return json.loads(text)

    def test_a_good_run(self):
        answer = self.launch(["/bin/sh", "-c", "echo hello; cat; sleep 0.1"])
        self.assertEqual(answer["status"], "ok")
        self.assertEqual(answer["library_seen"], "map")
        self.assertGreaterEqual(answer["wall_s"], 0.1)
        self.assertEqual((self.work / "stdout").read_text(), "hello\n")

    def test_exit_status(self):
        answer = self.launch(["/bin/sh", "-c", "exit 3"])
        self.assertEqual((answer["status"], answer["detail"]), ("exit", "exit status 3"))

    def test_crash(self):
        answer = self.launch(["/bin/sh", "-c", "kill -SEGV $$"])
        self.assertEqual((answer["status"], answer["detail"]), ("crash", "SIGSEGV"))

    def test_signals_without_names_and_those_that_a_shell_reports(self):
        answer = self.launch(["/bin/sh", "-c", "kill -40 $$"])
        self.assertEqual((answer["status"], answer["detail"]), ("crash", "signal 40"))
        answer = self.launch(["/bin/sh", "-c", "exit 139"])
        self.assertEqual(answer["detail"], "exit status 139 (in a shell: ended by SIGSEGV)")
        self.assertEqual(self.launch(["/bin/sh", "-c", "exit 255"])["detail"], "exit status 255")

    def test_a_program_that_writes_without_end_is_ended(self):
        answer = self.launch(["/usr/bin/yes"], most_output=3 << 20)
        self.assertEqual(answer["status"], "output")
        self.assertIn("more than 3 MiB of output (--outputs none keeps none)", answer["detail"])

    def test_timeout_ends_the_whole_group(self):
        answer = self.launch(["/bin/sh", "-c", "sleep 333 & echo $!; wait"], seconds=0.5)
        self.assertEqual(answer["status"], "timeout")
        self.assertLess(answer["wall_s"], 5)
        self.assert_gone(int((self.work / "stdout").read_text()))

    def test_a_program_that_is_not_there(self):
        answer = self.launch(["/nonexistent/program"])
        self.assertEqual(answer["status"], "start")
        self.assertIn("/nonexistent/program", answer["detail"])

    def test_a_library_that_is_not_mapped_is_not_seen(self):
        answer = self.launch([PYTHON, "-c", HOLD.format(1, 0.1)], library="/nonexistent/libx.so")
        self.assertEqual(answer["status"], "ok")
        self.assertFalse(answer["library_seen"])

    def test_the_named_process_of_the_group_is_looked_at(self):
        command = ["/bin/sh", "-c", "sleep 0.3; true"]
        self.assertTrue(self.launch(command, process="sleep")["library_seen"])
        self.assertFalse(self.launch(command, process="cc1")["library_seen"])

    def test_peak_memory_is_the_program_s_own(self):
        small = self.launch([PYTHON, "-S", "-c", HOLD.format(0, 0)], touch_mb=200)
        large = self.launch([PYTHON, "-S", "-c", HOLD.format(100, 0)])
        self.assertLess(small["peak_kib"], 40 << 10)
        self.assertGreater(large["peak_kib"], 100 << 10)
        self.assertLess(large["peak_kib"], 140 << 10)

    def test_a_program_that_does_nothing_shows_its_own_two_megabytes(self):
        answer = self.launch(["/bin/true"], touch_mb=200)
        self.assertEqual(answer["status"], "ok")
        self.assertGreater(answer["peak_kib"], 100)
        self.assertLess(answer["peak_kib"], 2 << 10)

    def test_a_program_of_a_millisecond_is_proved_by_its_library_s_opening(self):
        # A copy: others open the system's own all the time.
        library = str(self.work / "libm.so.6")
        shutil.copy(find_library("libm.so.6"), library)
        found = [
            self.launch(["/bin/true"], env=env, library=library)["library_seen"]
            for env in ({"LD_PRELOAD": library}, {})
            for _ in range(5)
        ]
        self.assertNotIn("", found[:5])
        self.assertEqual(found[5:], [""] * 5)

    def test_an_opened_library_is_no_proof_for_a_program_that_could_be_looked_at(self):
        with tempfile.NamedTemporaryFile(suffix=".so") as file:
            command = ["/bin/sh", "-c", f"cat {file.name}; exec sleep 0.3"]
            answer = self.launch(command, library=file.name)
        self.assertEqual((answer["status"], answer["library_seen"]), ("ok", ""))

    def test_resident_memory_over_time(self):
        answer = self.launch([PYTHON, "-S", "-c", HOLD.format(100, 0.3)], sample_ms=10)
        times = [ms for ms, _ in answer["rss"]]
        self.assertGreater(len(times), 10)
        self.assertEqual(times, sorted(times))
        self.assertGreater(max(kib for _, kib in answer["rss"]), 100 << 10)
        self.assertLessEqual(max(kib for _, kib in answer["rss"]), answer["peak_kib"] + 1024)
        self.assertEqual(self.launch(["/bin/true"])["rss"], [])

    def test_huge_pages_can_be_done_without(self):
        text = (
            "print([line.split()[1] for line in open('/proc/self/status') if 'THP_e' in line][0])"
        )
        for thp, enabled in (("never", "0\n"), ("default", "1\n")):
            (self.work / "stdout").unlink(missing_ok=True)
            self.launch([PYTHON, "-S", "-c", text], thp=thp)
            self.assertEqual((self.work / "stdout").read_text(), enabled)

    def test_the_program_gets_its_environment_and_arguments_as_they_are(self):
        env = {"PATH": "/usr/bin:/bin", "ODD": "a b=c\n'd'", "EMPTY": "", "LC_ALL": "C"}
        code = "import os, sys; print(sorted(os.environ.items()), sys.argv[1:])"
        self.launch([PYTHON, "-I", "-S", "-c", code, "", "x y"], env=env)
        said = (self.work / "stdout").read_text()
        self.assertEqual(said, f"{sorted(env.items())} ['', 'x y']\n")

    def test_time_of_children_is_counted(self):
        burn = "import time\nwhile time.process_time() < 0.3: pass"
        answer = self.launch(["/bin/sh", "-c", f"{PYTHON} -S -c '{burn}'; true"], seconds=100)
        self.assertEqual(answer["status"], "ok")
        self.assertGreaterEqual(answer["user_s"] + answer["sys_s"], 0.29)

    def test_a_server_is_driven_and_ended(self):
        socket = str(self.work / "s")
        server = (
            "import socket, sys\n"
            "listener = socket.socket(socket.AF_UNIX)\n"
            f"listener.bind({socket!r}); listener.listen()\n"
            "while True:\n"
            "    peer = listener.accept()[0]; peer.recv(64); peer.sendall(b'+PONG\\r\\n')\n"
        )
        steps = [{"command": ["/bin/sh", "-c", "echo asked"], "stdout": str(self.work / "step")}]
        answer = self.launch([PYTHON, "-c", server], server={"socket": socket, "steps": steps})
        self.assertEqual((answer["status"], answer["detail"]), ("crash", "SIGTERM"))
        self.assertEqual((self.work / "step").read_text(), "asked\n")
        steps = [{"command": ["/bin/sh", "-c", "exit 9"]}]
        os.unlink(socket)
        answer = self.launch([PYTHON, "-c", server], server={"socket": socket, "steps": steps})
        self.assertEqual((answer["status"], answer["detail"]), ("client", "sh ended with 9"))

    def test_a_client_that_hangs_is_ended_and_waited_for(self):
        steps = [{"command": ["/bin/sh", "-c", "echo $$; exec sleep 333"],
                  "stdout": str(self.work / "step")}]  # fmt: skip
        socket = str(self.work / "s")
        server = (
            "import socket\n"
            "listener = socket.socket(socket.AF_UNIX)\n"
            f"listener.bind({socket!r}); listener.listen()\n"
            "peer = listener.accept()[0]; peer.recv(64); peer.sendall(b'+PONG\\r\\n')\n"
            "listener.accept()\n"
        )
        answer = self.launch(
            [PYTHON, "-c", server], seconds=2, server={"socket": socket, "steps": steps}
        )
        self.assertEqual(answer["status"], "timeout")
        self.assertFalse(Path(f"/proc/{(self.work / 'step').read_text().strip()}").exists())

    def test_nothing_outlives_a_demo_that_went_away(self):
        for end in ("input", "signal"):
            with self.subTest(end=end):
                process = subprocess.Popen(
                    self.spec(["/bin/sh", "-c", "echo $$; exec sleep 333"]),
                    stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                )  # fmt: skip
                pid = self.first_number(self.work / "stdout")
                if end == "input":
                    process.stdin.close()
                else:
                    process.send_signal(signal.SIGTERM)
                process.wait(timeout=10)
                process.stdin.close()
                self.assert_gone(pid)
                (self.work / "stdout").unlink()

    def first_number(self, path):
        for _ in range(500):
            if path.exists() and path.read_text().endswith("\n"):
                return int(path.read_text())
            time.sleep(0.01)
        return self.fail(f"nothing appeared in {path}")

    def assert_gone(self, pid):
        for _ in range(500):
            try:
                state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                return
            if state == "Z":
                return
            time.sleep(0.01)
        self.fail(f"process {pid} is still there")


if __name__ == "__main__":
    if not os.path.exists(PYTHON):
        sys.exit(f"{PYTHON} is missing")
    common.run_tests(__name__)
