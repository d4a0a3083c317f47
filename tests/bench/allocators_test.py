"""bench/lab/allocators.py: what is installed, and which malloc a program really uses."""

import tempfile
import unittest
from pathlib import Path

import common  # first: it shows the way to the demo's modules

from lab import allocators, programs
from lab.allocators import Allocator, find_all, find_library, follow, preload_for

LIBC = "/lib/libc.so.6"
OTHER = "/lib/libother.so"
EXE = "/usr/bin/program"


class Found(unittest.TestCase):
    def test_missing_ones_are_named_with_their_package(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "libc.so.6").touch()
            (Path(folder) / "libmimalloc.so.2").touch()
            found, absent = find_all(allocators.NAMES, "/x/libloam.so", [folder])
        self.assertEqual([each.name for each in found], ["glibc", "loam", "mimalloc"])
        self.assertEqual(
            absent,
            [
                ("jemalloc", "libjemalloc2"),
                ("tcmalloc", "libtcmalloc-minimal4 or libtcmalloc-minimal4t64"),
            ],
        )

    def test_links_are_followed_as_the_memory_map_shows_them(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "libjemalloc.so.2.0").touch()
            (Path(folder) / "libjemalloc.so.2").symlink_to("libjemalloc.so.2.0")
            self.assertTrue(find_library("libjemalloc.so.2", [folder]).endswith(".so.2.0"))


class Follow(unittest.TestCase):
    def test_plain(self):
        self.assertEqual(follow({(EXE, LIBC), (OTHER, LIBC)}, EXE), {LIBC})

    def test_the_program_s_own_jump_to_malloc_is_followed(self):
        self.assertEqual(follow({(EXE, LIBC), (OTHER, EXE)}, EXE), {LIBC})

    def test_a_malloc_inside_the_program_is_reported(self):
        self.assertEqual(follow({(EXE, EXE), (OTHER, EXE)}, EXE), {EXE})

    def test_two_mallocs_are_both_reported(self):
        self.assertEqual(follow({(EXE, OTHER), (OTHER, LIBC)}, EXE), {OTHER, LIBC})


class Proof(unittest.TestCase):
    def setUp(self):
        self.glibc = Allocator("glibc", find_library("libc.so.6"), "libc6")

    def test_glibc_is_in_use_without_a_preload(self):
        self.assertEqual(preload_for(["/bin/true"], self.glibc), (None, None))

    def test_a_library_without_malloc_is_refused(self):
        maths = Allocator("loam", find_library("libm.so.6"), None)
        preload, why = preload_for(["/bin/true"], maths)
        self.assertIsNone(preload)
        self.assertIn("libc.so.6", why)

    def test_a_file_that_is_no_library_is_refused(self):
        with tempfile.NamedTemporaryFile(suffix=".so") as file:
            file.write(b"not a library")
            file.flush()
            why = preload_for(["/bin/true"], Allocator("loam", file.name, None))[1]
        self.assertIn("its malloc is that of", why)

    def test_a_program_that_cannot_be_started_is_refused(self):
        why = preload_for(["/nonexistent/program"], self.glibc)[1]
        self.assertIn("No such file", why)

    def test_the_installed_rivals_take_over(self):
        found, absent = find_all(("jemalloc", "tcmalloc", "mimalloc"), "")
        if not found:
            self.skipTest(f"none is installed of {', '.join(name for name, _ in absent)}")
        for allocator in found:
            with self.subTest(allocator=allocator.name):
                self.assertEqual(
                    preload_for(["/bin/true"], allocator), (allocator.library, None)
                )

    def test_a_library_of_no_version_has_none(self):
        self.assertIsNone(allocators.loam_version(find_library("libm.so.6")))
        self.assertIsNone(allocators.package_version("no-such-package|nor-this-one"))


class Inputs(unittest.TestCase):
    def test_the_same_size_gives_the_same_input(self):
        from lab.inputs import make_c, make_load

        for write in (make_c.write, make_load.write):
            with tempfile.TemporaryDirectory() as folder:
                paths = [Path(folder) / name for name in ("a", "b", "c")]
                for path, size in zip(paths, (20, 20, 21)):
                    write(path, size)
                texts = [path.read_text() for path in paths]
            self.assertEqual(texts[0], texts[1])
            self.assertTrue(texts[2].startswith(texts[0]))
            self.assertGreater(len(texts[2]), len(texts[0]))

    def test_the_environment_is_fixed(self):
        job = programs.Job(["x"], env={"PYTHONHASHSEED": "0"})
        env = programs.environment(job, "/x/lib.so")
        self.assertEqual(env["LD_PRELOAD"], "/x/lib.so")
        self.assertEqual(env["PYTHONHASHSEED"], "0")
        self.assertNotIn("LD_PRELOAD", programs.environment(job, None))
        fixed = {"PATH", "HOME", "LC_ALL", "TZ"}
        self.assertEqual(set(env), fixed | {"PYTHONHASHSEED", "LD_PRELOAD"})


if __name__ == "__main__":
    common.run_tests(__name__)
