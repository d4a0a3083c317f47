"""bench/peers/: what is refused, what is told of it, and what is written down of the rest.

Uses no network: sources come from a server of its own, libraries from the compiler here. The
build of all rivals is a test of its own (bench.peers_all, of `.ci/run apps`).
"""

import functools
import hashlib
import http.server
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import tomllib
import unittest
import unittest.mock
from pathlib import Path

import common

PEERS = common.BENCH / "peers"
PYTHON = "/usr/bin/python3"
ENTRY = {"name", "version", "origin", "flags", "library", "kind", "sha256", "note"}

sys.path.insert(0, str(PEERS))
import recipes
import sources


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.out = self.folder / "out"
        self.env = os.environ | {"CARGO_HOME": str(self.folder / "cargo")}

    def build(self, *options, **env):
        return subprocess.run(
            [PYTHON, "-B", PEERS / "build.py", "--out", self.out, *options],
            env=self.env | env, capture_output=True, text=True, timeout=100, check=False,
        )  # fmt: skip

    def listed(self):
        return json.loads((self.out / "peers.json").read_text())

    def library(self, code, name="made.so"):
        source, made = self.folder / "made.c", self.folder / name
        source.write_text(code)
        command = ["cc", "-shared", "-fPIC", "-fno-builtin", source, "-o", made]
        subprocess.run(command, check=True)
        return made


class Wrong(Case):
    def test_an_unknown_name_is_a_wrong_use(self):
        done = self.build("--only", "tcmalloc,hoard")
        self.assertEqual(done.returncode, 2)
        self.assertIn("no such rival: hoard (known: mimalloc, ", done.stderr)
        self.assertFalse(self.out.exists())

    def test_a_corrupt_source_is_an_absent_rival(self):
        crate = sources.locked(PEERS)["rpmalloc-sys"]
        for place in (self.out / "crates", self.folder / "cargo/registry/cache/index"):
            place.mkdir(parents=True)
            (place / crate.file_name).write_bytes(b"not what was locked")
        done = self.build("--only", "rpmalloc", "--offline")
        self.assertEqual(done.returncode, 1, "nothing could be built")
        (absent,) = self.listed()["absent"]
        self.assertEqual(absent["name"], "rpmalloc")
        self.assertIn("wrong checksum", absent["why"])
        self.assertIn("not in cargo's cache", absent["why"])
        self.assertEqual(done.stderr, f"build.py: rpmalloc is absent: {absent['why']}\n")

    def test_no_compiler_is_an_absent_rival(self):
        done = self.build("--only", "rpmalloc", "--offline", CC="/nowhere/cc")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no compiler: /nowhere/cc", self.listed()["absent"][0]["why"])

    def test_a_folder_that_cannot_be_written_is_one_line(self):
        self.out.write_text("a file")
        done = self.build("--only", "tcmalloc")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"\Abuild\.py: .*out.*\n\Z")


class Proof(Case):
    @classmethod
    def setUpClass(cls):
        shared = tempfile.TemporaryDirectory()  # the smoke program is compiled once
        cls.addClassCleanup(shared.cleanup)
        cls.shared = Path(shared.name)

    def setUp(self):
        super().setUp()
        self.out = self.shared

    def refused(self, library):
        done = self.build("--prove", library)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertTrue(done.stderr.startswith(f"build.py: {library} is refused: "), done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        return done.stderr

    def test_a_library_without_malloc_is_refused(self):
        reason = self.refused(self.library("int nothing;"))
        self.assertRegex(reason, r"(malloc|calloc|realloc|free) of \S+ stays with \S*libc\.so\.6")

    def test_a_library_without_operator_new_is_refused(self):
        libc = Path(subprocess.run(
            ["cc", "-print-file-name=libc.so.6"], capture_output=True, text=True, check=True
        ).stdout.strip()).resolve()  # fmt: skip
        self.assertRegex(
            self.refused(libc), r"operator (new|delete) of \S+ stays with \S*libstdc\+\+"
        )

    def test_a_file_that_is_no_library_is_refused(self):
        text = self.folder / "text.so"
        text.write_text("text\n")
        self.assertIn("does not preload", self.refused(text))
        self.assertIn("there is no such file", self.refused(self.folder / "none.so"))

    def test_an_allocator_that_crashes_is_refused(self):
        functions = "malloc calloc realloc free posix_memalign aligned_alloc malloc_usable_size"
        code = "".join(
            f"void *{name}(void) {{ __builtin_trap(); }}\n"
            for name in (*functions.split(), "_Znwm", "_ZdlPv")
        )
        self.assertIn("the smoke program is killed by SIGILL", self.refused(self.library(code)))

    def test_an_allocator_is_proved(self):
        programs = os.environ.get("BENCH_PROGRAMS")
        if not programs:
            self.skipTest("BENCH_PROGRAMS is not set: ctest sets it")
        done = self.build("--prove", Path(programs).parent / "libloam.so")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("serves malloc, free and operator new", done.stdout)


class Written(Case):
    def test_the_list_has_its_format(self):
        done = self.build("--only", "tcmalloc,rpmalloc", "--offline")
        listed = self.listed()
        self.assertEqual(done.returncode, 0 if listed["peers"] else 1)
        self.assertEqual(set(listed), {"peers", "absent"})
        for entry in listed["peers"]:
            self.assertEqual(set(entry), ENTRY)
            self.assertIn(entry["kind"], ("fast", "hardened"))
            self.assertTrue(all(isinstance(text, str) for text in entry.values()))
            self.assertRegex(entry["version"], r"\A\d+(\.\d+)+")
            library = self.out / entry["library"]
            self.assertEqual(sources.sha256(library), entry["sha256"])
        for entry in listed["absent"]:
            self.assertEqual(set(entry), {"name", "why"})
        names = {entry["name"] for part in listed.values() for entry in part}
        self.assertEqual(names, {"tcmalloc", "rpmalloc"})

    def test_only_leaves_the_others_as_they_were(self):
        self.out.mkdir()
        entries = []
        for name in ("mimalloc", "mimalloc2"):
            (self.out / f"{name}.so").write_text(name)
            entries.append(dict.fromkeys(ENTRY, "") | {
                "name": name, "library": f"{name}.so",
                "sha256": hashlib.sha256(name.encode()).hexdigest(),
            })  # fmt: skip
        (self.out / "mimalloc2.so").write_text("has changed since")
        (self.out / "peers.json").write_text(json.dumps({"peers": entries, "absent": []}))
        done = self.build("--only", "rpmalloc", "--offline", CC="/nowhere/cc")
        self.assertEqual(done.returncode, 0, "one is there")
        self.assertEqual([entry["name"] for entry in self.listed()["peers"]], ["mimalloc"])

    def test_list_names_all_and_builds_none(self):
        done = self.build("--list")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(
            [line.split()[0] for line in done.stdout.splitlines()], list(recipes.NAMES)
        )
        self.assertFalse(self.out.exists())


class Sources(Case):
    """Crates from a server of the test's own instead of static.crates.io, with no cargo about."""

    def setUp(self):
        super().setUp()
        self.served = self.folder / "served"
        handler = functools.partial(Quiet, directory=str(self.served))
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.tools = self.folder / "tools"
        self.tools.mkdir()
        self.change(os.environ, PATH=str(self.tools), CARGO_HOME=self.env["CARGO_HOME"])
        self.change(sources.__dict__, DOWNLOADS=f"http://127.0.0.1:{server.server_port}")
        self.crate = sources.Crate("some-sys", "1.0+2", hashlib.sha256(b"good").hexdigest())

    def change(self, where, **values):
        patch = unittest.mock.patch.dict(where, values)
        patch.start()
        self.addCleanup(patch.stop)

    def serve(self, content):
        file = self.served / "some-sys" / "some-sys-1.0+2.crate"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)

    def obtain(self, offline=False):
        return sources.obtain(self.crate, PEERS, self.folder / "crates", offline)

    def test_a_download_is_kept(self):
        self.serve(b"good")
        self.assertEqual(self.obtain().read_bytes(), b"good")
        shutil.rmtree(self.served)
        self.assertEqual(self.obtain(offline=True).read_bytes(), b"good")

    def test_a_corrupt_download_is_not_kept(self):
        self.serve(b"bad")
        with self.assertRaisesRegex(sources.Unavailable, "a file with the wrong checksum"):
            self.obtain()
        self.assertEqual(list((self.folder / "crates").iterdir()), [])

    def test_no_download_says_from_where(self):
        with self.assertRaisesRegex(sources.Unavailable, "no cargo; http://127.*404"):
            self.obtain()

    def test_an_old_cargo_is_left_alone(self):
        cargo = self.tools / "cargo"
        cargo.write_text("#!/bin/sh\n[ $1 = --version ] && echo cargo 1.65.0\n")
        cargo.chmod(0o755)
        self.serve(b"bad")
        with self.assertRaisesRegex(sources.Unavailable, r"cargo 1\.65 would clone"):
            self.obtain()

    def test_what_does_not_unpack_says_so(self):
        self.change(os.environ, PATH="/usr/bin:/bin")
        self.serve(b"good")
        with self.assertRaisesRegex(sources.Unavailable, "does not unpack"):
            sources.unpack(self.obtain(), self.folder / "unpacked")

    def test_every_crate_is_locked_as_pinned(self):
        wanted = tomllib.loads((PEERS / "Cargo.toml").read_text())["dependencies"]
        locked = sources.locked(PEERS)
        for peer in recipes.PEERS:
            if isinstance(peer, recipes.Bundled):
                pin = wanted[peer.crate]
                pin = pin["version"] if isinstance(pin, dict) else pin
                self.assertEqual("=" + locked[peer.crate].version.partition("+")[0], pin)
                self.assertRegex(locked[peer.crate].checksum, r"\A[0-9a-f]{64}\Z")


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


if __name__ == "__main__":
    common.run_tests(__name__)
