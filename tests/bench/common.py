"""What the tests of the lab and of the demo share: the way to their modules, and the exit status.

Status 77 means that nothing could be tested here; every skip prints its reason.
"""

import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BENCH = ROOT / "bench"
LAB = BENCH / "lab"
DEMO = ROOT / "demo"
sys.path.insert(0, str(BENCH))


def use_demo():
    """`import run` is the demo's from now on, and chart and show are found."""
    sys.path.insert(0, str(DEMO))


def lacks(module):
    """Why tests that need a Debian package cannot run here, or None."""
    try:
        __import__(module)
    except ImportError:
        return f"{sys.executable} has no {module} (package python3-{module})"
    return None


def run_tests(name):
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules[name])
    outcome = unittest.TextTestRunner(verbosity=2).run(suite)
    if not outcome.wasSuccessful():
        sys.exit(1)
    if outcome.testsRun == 0:
        sys.exit("no test was found")
    sys.exit(77 if len(outcome.skipped) == outcome.testsRun else 0)


def made_up_results(**changes):
    """Two programs on three allocators, three rounds; changes by 'program_allocator'.

    A change is a list of (status, cpu_s, peak_kib, detail) or of (cpu_s, peak_kib).
    """
    from lab.results import Results, Row

    plain = {
        "one_glibc": [(1.0, 10000), (1.1, 10000), (0.9, 10000)],
        "one_loam": [(0.8, 9000), (0.8, 9000), (0.8, 9000)],
        "one_jemalloc": [(2.0, 20000), (2.0, 20000), (2.2, 20000)],
        "two_glibc": [(4.0, 200000), (4.0, 200000), (4.0, 200000)],
        "two_loam": [(2.0, 180000), (2.0, 180000), (2.0, 180000)],
        "two_jemalloc": [(2.0, 100000), (2.0, 100000), (2.0, 100000)],
    }
    plain.update(changes)
    rows = []
    for key, runs in plain.items():
        program, allocator = key.split("_")
        for turn, run in enumerate(runs, 1):
            status, cpu, peak, detail = run if len(run) == 4 else ("ok", *run, "")
            user, system = cpu * 0.75, cpu * 0.25
            rows.append(
                Row(
                    turn, program, allocator, status, detail, user_s=user, sys_s=system,
                    wall_s=cpu, minor_faults=1, peak_kib=peak,
                )  # fmt: skip
            )
    return Results(["one", "two"], ["glibc", "loam", "jemalloc"], rows)
