"""Parts of CPython's own test suite on loam: list, dict, threads, subprocess, multiprocessing.

The interpreter is Debian's, or any that ships its tests. Objects up to 512 bytes normally come from
Python's own allocator; PYTHONMALLOC=malloc sends them to malloc, one by one. The known truth is the
suite's own result. Where cases fail, as some do in containers, the suite runs again without the
preload: loam answers for every case that fails only with it.
"""

import os
import re
import sys

import preload

# part: (tests, patterns of the cases to run, PYTHONMALLOC, at least this many cases)
PARTS = {
    "objects": (
        [
            "test_list",
            "test_dict",
            "test_set",
            "test_bytes",
            "test_unicode",
            "test_deque",
            "test_gc",
            "test_weakref",
            "test_array",
            "test_memoryview",
        ],
        [],
        "malloc",
        900,
    ),
    "threading": (["test_threading", "test_thread", "test_queue"], [], "malloc", 150),
    "subprocess": (["test_subprocess"], [], "", 250),
    "fork": (["test_multiprocessing_fork"], ["WithProcesses*"], "", 100),
    "fork_managers": (
        ["test_multiprocessing_fork"],
        ["WithManager*", "TestResourceTracker"],
        "malloc",
        60,
    ),
}

COPY_MAPS = """
import os, sys, threading
with open("/proc/self/maps") as maps, open(os.environ["MAPS_COPY"], "w") as copy:
    copy.write(maps.read())
print(sys.version_info[:2])
"""


def interpreter(bench, tests):
    """A Python with its own tests. Debian ships them apart from the interpreter."""
    imports = "; ".join(f"import test.{name}" for name in tests)
    for path in filter(os.path.exists, ("/usr/bin/python3", bench.need("python3"), sys.executable)):
        if bench.run([path, "-c", imports], preload=False, status=None).status == 0:
            return path
    raise preload.Skipped("no python3 with its own tests (Debian: libpython3-testsuite)")


def suite(bench, python, tests, patterns, malloc, preloaded):
    """The suite's exit status and what it printed, the cases' names among it."""
    argv = [python, "-m", "test", "-v", *tests]
    for pattern in patterns:
        argv += ["-m", pattern]
    result = bench.run(
        ["sh", "-c", 'exec "$@" 2>&1', "sh", *argv],
        preload=preloaded,
        status=None,
        env={"PYTHONMALLOC": malloc} if malloc else None,
        cwd=bench.path("cwd"),
    )
    bench.no_complaint(result.out, "the suite")
    preload.settled(20)  # some cases leave a sleeping child behind, which ends by itself
    return result


def failures(result):
    """Names of the cases that failed; empty too where the suite ended before it could tell."""
    return set(
        re.findall(r"^(?:FAIL|ERROR): (.*)$", result.out.decode("utf-8", "replace"), re.MULTILINE)
    )


def test(bench):
    tests, patterns, malloc, least = PARTS[sys.argv[1]]
    python = interpreter(bench, tests)
    bench.subfolder("cwd")
    bench.twice([python, "-c", COPY_MAPS], "the interpreter")
    bench.answers(
        [python, "-c", "x = [bytes(1000) for _ in range(1000)]"], [os.path.basename(python)]
    )

    loam = suite(bench, python, tests, patterns, malloc, True)
    note = ""
    if loam.status != 0:
        plain = suite(bench, python, tests, patterns, malloc, False)
        blamed = failures(loam) - failures(plain)
        preload.expect(
            failures(loam) and not blamed,
            f"with the preload these fail: {sorted(blamed)}; the end:\n"
            f"{preload.tail(loam.out, 60)}",
        )
        note = f"; failing without the preload as well: {sorted(failures(loam))}"
    ran = sum(map(int, re.findall(rb"^Ran (\d+) tests? in", loam.out, re.MULTILINE)))
    preload.expect(ran >= least, f"{ran} cases ran, not at least {least}")
    return f"passed: {ran} cases of {' '.join(tests)}{note}"


if len(sys.argv) != 2 or sys.argv[1] not in PARTS:
    sys.exit(f"which part? {' '.join(PARTS)}")
preload.main(test)
