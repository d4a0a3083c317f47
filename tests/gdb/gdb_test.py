#!/usr/bin/env python3
"""gdb_test.py --script loam.py PROGRAM: what gdb shows of program.c's heap, live or in a core file.

Exit status 77, with a reason, where there is no gdb or it may run nothing.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

COMMANDS = [
    "loam heap",
    "loam blocks",
    "loam page in_use",
    "loam page (char*)in_use+5",
    "loam page freed",
    "loam page freed_elsewhere",
    "loam page never_used",
    "loam page large",
    "loam page (char*)large+70000",
    "loam page theirs",
    "loam page many[80]",
    "loam page &on_stack",
    "loam page lm_arena.base + 65536*lm_arena.slices",
    "loam page in_range",
    "loam page large_in_range",
    "loam page free_in_range",
    "loam page at_offset",
    "loam page (char*)at_offset+5",
    "loam page offset_freed",
    "loam page large_at_offset",
    "loam page (char*)large_at_offset+90000",
    "loam page large_freed",
    "loam page sampled",
    "loam page (char*)sampled+5",
    "loam page sampled_freed",
    "loam page (char*)lm_sampled.base+100",
    "loam page (char*)lm_sampled.base+65536*7+5",
    "loam page",
    "loam page nosuch",
    'loam page "text"',
    "loam heap all",
    "loam blocks all",
    "print *(lm_block_t *)many[3]",
    "print *(lm_block_t *)in_use",
    "print *(lm_block_t *)freed",
    "loam page of_heap",
    "loam page large_of_heap",
    "print *(struct loam_heap *)heap",
    "print lm_arena",
    "print *lm_heap_self",
    "print *lm_arena.map[((unsigned long)in_use - lm_arena.base) >> 16]",
    "print *lm_arena.map[((unsigned long)large - lm_arena.base) >> 16]",
]
PROGRAM = SCRIPT = None
DEBUG = "--debug" in sys.argv
SECURE = "--secure" in sys.argv
# Of the large object of 300000 B, and of all together: the secure build, which looks behind them,
# is exact.
USABLE, USABLE_KIB = (300000, 585) if SECURE else (303104, 596)


def gdb(*arguments):
    command = ["gdb", "-nx", "-batch", "-iex", "set debuginfod enabled off"]
    for argument in arguments:
        command += ["-ex", argument] if not isinstance(argument, Path) else [str(argument)]
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    ).stdout


def answers(text):
    """What each command has said: they are told apart by an echo before each."""
    parts = text.split("\n::: ")[1:]
    return {part.splitlines()[0]: "\n".join(part.splitlines()[1:]) for part in parts}


def asked():
    steps = [f"source {SCRIPT}"]
    for command in COMMANDS:
        steps += [f"echo \\n::: {command}\\n", command]
    return [*steps, "echo \\n::: end\\n"]


class Gdb(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        core = Path(folder.name) / "core"
        # gdb leaves out of its core files what follows a guard in the same map.
        said = gdb(
            "set environment LOAM_PAGE_GUARDS 0",
            "break stop_here",
            "run",
            *asked(),
            f"generate-core-file {core}",
            "kill",
            PROGRAM,
        )
        cls.live, cls.said = answers(said), said
        cls.dead = answers(gdb(*asked(), PROGRAM, core))

    def expect(self, command, pattern):
        self.assertRegex(self.live.get(command, self.said), pattern)

    def test_the_core_file_says_the_same(self):
        self.assertEqual(set(self.live), {*COMMANDS, "end"}, self.said)
        for command in COMMANDS:
            answer = self.live[command], self.dead[command]
            # Threads have other numbers in a core file.
            live, dead = (re.sub(r"thread \d+|^\$\d+", "", text, flags=re.M) for text in answer)
            self.assertEqual(live, dead)

    def test_a_block_in_use_from_its_start_and_from_inside(self):
        self.expect(
            "loam page in_use",
            r"^0x\w+: in use, byte 0 of block \d+ of \d+ at 0x\w+(, \d+ B requested)?\n"
            r"  size class (112|128) B, page 0x\w+ of 64 KiB, owned by thread 1 \(heap 0x\w+\)",
        )
        self.expect("loam page (char*)in_use+5", r": in use, byte 5 of block")
        self.expect("loam page many[80]", r": in use, byte 0 of block \d+")

    def test_a_free_block(self):
        self.expect(
            "loam page freed",
            r": free, waits in thread 1, byte 0" if SECURE else r": free, byte 0 of block \d+",
        )
        self.expect("loam page never_used", r": never used, byte 0 of block 8 of 9 ")

    def test_a_block_that_another_thread_has_freed(self):
        self.expect(
            "loam page freed_elsewhere",
            r": (freed by another thread|free, held by thread 2), byte 0 of",
        )

    def test_whose_page_it_is(self):
        self.expect("loam page theirs", r": in use, byte 0 .*\n.*owned by thread 2 ")

    def test_a_large_object(self):
        self.expect("loam page large", rf": in use, byte 0 of a large object of {USABLE} B at 0x")
        self.expect(
            "loam page (char*)large+70000",
            rf": in use, byte 70000 of a large object of {USABLE} B at 0x",
        )

    def test_what_is_not_loams(self):
        self.expect("loam page &on_stack", r"^0x\w+: not loam's")
        self.expect("loam page lm_arena.base + 65536*lm_arena.slices", r"^0x\w+: not loam's")

    def test_the_heaps(self):
        self.expect(
            "loam heap",
            r"^arena 0x\w+: \d+ KiB, .*large 576 KiB.*\n(range .*\n)?(heap .*\n"
            r")*heap 0x\w+: thread 1, 3 pages",
        )
        self.expect("loam heap", r"heap 0x\w+: thread 2, 1 pages")

    def test_the_blocks(self):
        self.expect("loam blocks", r"\n +512 +1 +40 +128\b|\n +(520|576|528) +1 +40 +\d+")
        self.expect("loam blocks", r"\n +20480 +1 +1 +9\b")
        self.expect("loam blocks", r"\n +3072 +1 +1 +21\b")
        self.expect("loam blocks", r"\n +1(12|28) +1 +1 +\d+\b")
        self.expect("loam blocks", rf"large objects: 4, {USABLE_KIB} KiB")

    def test_a_first_class_heap(self):
        self.expect("loam heap", r"heap 0x\w+: branch of loam_heap 0x\w+, thread 1, 1 pages")
        self.expect(
            "loam page of_heap",
            r": in use, byte 0 .*\n.*owned by branch of loam_heap 0x\w+, thread 1 \(heap",
        )
        self.expect(
            "loam page large_of_heap",
            r": in use, byte 0 of a large object of \d+ B at 0x\w+.*, of loam_heap 0x",
        )
        self.expect(COMMANDS[-5], r"= first-class heap of 192 KiB")

    def test_a_range_of_the_users_memory(self):
        self.expect(
            "loam heap", r"\nrange 0x\w+: 512 KiB, large 128 KiB, page 64 KiB, spare 320 KiB\n"
        )
        self.expect(
            "loam page in_range",
            r": in use, byte 0 of block \d+ .*\n  size class 2(08|24) B, page 0x\w+ of 64 KiB, "
            r"owned by branch of loam_heap 0x\w+, thread 1 \(heap",
        )
        self.expect(
            "loam page large_in_range",
            r": in use, byte 0 of a large object of \d+ B at 0x\w+.*, of loam_heap 0x",
        )
        self.expect("loam page free_in_range", r": free, spare, a span of 320 KiB at 0x")
        self.expect("loam blocks", r"\n +2(08|24) +1 +1 +\d+\b")

    def test_objects_at_an_offset(self):
        of = r"the object at 0x\w+ in block \d+ of \d+ at 0x\w+"
        self.expect(
            "loam page at_offset",
            rf": in use, byte 0 of {of}(, 700 B requested)?\n"
            r".*, owned by no thread: it is for objects at an offset",
        )
        self.expect("loam page (char*)at_offset+5", rf": in use, byte 5 of {of}")
        self.expect("loam page offset_freed", rf": free, byte 0 of {of}")
        requested = ", 100000 B requested" if DEBUG else "$"
        self.expect(
            "loam page large_at_offset",
            rf": in use, byte 0 of a large object of \d+ B at (0x\w+){requested}",
        )
        self.expect(
            "loam page (char*)large_at_offset+90000",
            rf": in use, byte 90000 of a large object of \d+ B at 0x\w+{requested}",
        )

    def test_a_large_object_that_waits(self):
        waits = (
            r": free, waits before its memory is used again, byte 0 of a large object of "
            rf"{90112 if DEBUG else 90000} B at 0x"
        )
        self.expect(
            "loam page large_freed", waits if DEBUG or SECURE else r": free, dirty, a span of "
        )
        if DEBUG or SECURE:
            self.expect("loam heap", r"^arena 0x.*, waiting \d+ KiB\n")

    def test_sampled_objects(self):
        who = (
            r"by thread \d+ \(LWP \d+\):\n(    #.*\n)*    #\d+ 0x\w+ in main at \S*program.c:\d+\n"
        )
        self.expect(
            "loam page sampled",
            r": in use, byte 0 of a sampled object of 800 B at 0x\w+, slot 0 of 4\n"
            rf"  allocated {who}",
        )
        self.expect(
            "loam page (char*)sampled+5",
            r": in use, byte 5 of a sampled object of 800 B at 0x\w+, slot 0 of 4\n",
        )
        self.expect(
            "loam page sampled_freed",
            rf": free, byte 0 of a sampled object of 801 B at 0x\w+, slot 1 of 4\n"
            rf"  allocated {who}(    #.*\n)*  freed {who}",
        )
        self.expect(
            "loam page (char*)lm_sampled.base+100",
            r": a guard, \d+ B before a sampled object of 800 B",
        )
        self.expect(
            "loam page (char*)lm_sampled.base+65536*7+5",
            r": never used, slot 3 of 4 of sampled objects",
        )
        self.expect("loam blocks", r"\nsampled objects: 1, 800 B")

    def test_what_is_wrong_is_a_line(self):
        for command in (
            "loam page",
            "loam page nosuch",
            'loam page "text"',
            "loam heap all",
            "loam blocks all",
        ):
            self.expect(command, r"^loam: [^\n]*$")
        self.expect("loam page nosuch", r"^loam: nosuch is no address: No symbol")

    def test_the_link_of_a_free_block(self):
        self.expect(
            "print *(lm_block_t *)many[3]",
            (
                r"= block, (free(, held by thread \d+)?|freed by another thread)(, next 0x\w+|, "
                r"waits.*: it has no link)$"
                if not SECURE
                else r"= block, free"
            ),
        )
        self.expect("print *(lm_block_t *)in_use", r"= block, in use: it has no link$")
        self.expect(
            "print *(lm_block_t *)freed",
            (
                r"= block, free, waits in thread 1: it has no link$"
                if SECURE
                else r"= block, free, next 0x\w+$"
            ),
        )

    @unittest.skipUnless(DEBUG, "only the debug build keeps what was requested")
    def test_what_was_requested(self):
        self.expect("loam page in_use", r"block \d+ of \d+ at 0x\w+, 100 B requested\n")
        self.expect("loam page freed", r"at 0x\w+, 100 B requested before it was freed\n")
        self.expect("loam page large", r"at 0x\w+, 300000 B requested")

    def test_the_printers(self):
        self.expect(COMMANDS[-4], r"= arena of \d+ slices at 0x")
        self.expect(COMMANDS[-3], r"= heap, in use, 3 pages, token 0x")
        self.expect(COMMANDS[-2], r"= page of \d+ blocks of 1(12|28) B, \d+ made")
        self.expect(COMMANDS[-1], rf"= large span of \d+ slices, {USABLE} B usable")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--script", required=True)
    parser.add_argument("--debug", action="store_true", help="it is the debug build")
    parser.add_argument("--secure", action="store_true", help="it is the secure build")
    parser.add_argument("program", type=Path)
    known, rest = parser.parse_known_args()
    PROGRAM, SCRIPT = known.program, known.script
    if not PROGRAM.exists():
        sys.exit(f"gdb_test: there is no {PROGRAM}")
    if shutil.which("gdb") is None:
        print("SKIPPED: gdb is not installed")
        sys.exit(77)
    tried = gdb(
        "python print('python', 1 + 1)", "break stop_here", "run", "print 40 + 2", "kill", PROGRAM
    )
    if "python 2" not in tried or "= 42" not in tried or "Breakpoint 1, " not in tried:
        print(f"SKIPPED: gdb cannot run a program here, or knows no Python: {tried.strip()[-200:]}")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *rest])
