#!/usr/bin/env python3
"""rates.py: how many misuses the checked allocators of the family report (matrix_test.cc).

    cmake --preset release -DLOAM_TEST_FOLDERS=contract
    cmake --build --preset release --target contract_matrix_test
    tests/contract/rates.py build/release/tests/contract_matrix_test --page docs/misuse.md

Runs the matrix and prints a table with a row for each allocator, over all sources of its memory.
--page writes the table as a section of that page, too. The intervals are Wilson's, 95%: the misuses
are not drawn at random, but their sizes, distances and times stand for others. A write of one byte
that happens to write what stood there before cannot be seen; the matrix has none.

Exit: 0 at least 95% of each allocator's misuses are reported; 1 fewer are; 2 the matrix did not
run.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "misuse"))
from generate import wilson  # noqa: E402
from survey import FAMILY, replace_family  # noqa: E402

LINE = re.compile(
    r"\[  MATRIX  \] (\w+)_[a-z]+_check: (\d+) of (\d+) misuses reported, (\d+) of them in time"
)
BAR = 0.95

TEXT = """\
A generated set of mistakes: {mistake x allocator x size x distance x time}. The mistakes are
overflow, underflow, write after free, write after reset, double free, free of an inner address,
free after reset, free with a wrong size and realloc after free. A write is one byte. Sizes are from
1 to 4,000 bytes where an allocator takes any size. Distances are up to 16 bytes. A mistake counts
as reported if a line about it comes by the time that its row names (the object's free, `check`,
eight more allocations, `reset`), or at the latest when the allocator ends. "In time" leaves out
reports at the allocator's end: regions, stacks, rings and FIFOs do not reuse memory at the next
allocation, and pop and release do not check free memory.

Each percentage has its 95% interval (Wilson). A static pool has the rate below if its memory has
room for guards, 16 bytes a block, as `loam_blocks_pool_bytes` counts with `LOAM_CHECK`. In less
memory, an object's guard is what it leaves of its block. An object that fills its block has no
guard, so its overflows are not found. The set has no such object.

```sh
tests/contract/rates.py build/release/tests/contract_matrix_test --page docs/misuse.md
```
"""


def cell(good, of):
    low, high = wilson(good, of)
    return f"{100 * good / of:.1f}% ({100 * low:.1f}–{100 * high:.1f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("matrix", type=Path, help="the program contract_matrix_test")
    parser.add_argument(
        "--page", type=Path, metavar="FILE", help="write the table as a section of that page, too"
    )
    options = parser.parse_args()
    done = subprocess.run(
        [options.matrix, "--gtest_filter=*IsReported*"],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    counts = {}
    for name, reported, made, in_time in LINE.findall(done.stdout):
        row = counts.setdefault(name, [0, 0, 0])
        for i, count in enumerate((made, reported, in_time)):
            row[i] += int(count)
    if not counts or done.returncode not in (0, 1):
        print(f"rates.py: {options.matrix} did not run ({done.returncode})", file=sys.stderr)
        return 2
    every = [sum(row[i] for row in counts.values()) for i in range(3)]
    lines = ["| allocator | misuses | reported | in time |", "|---|---|---|---|"]
    for name, (made, reported, in_time) in [*counts.items(), ("**all**", every)]:
        lines.append(f"| {name} | {made:,} | {cell(reported, made)} | {cell(in_time, made)} |")
    print("\n".join(lines))
    if options.page:
        replace_family(options.page, f"{FAMILY}\n\n{TEXT}\n" + "\n".join(lines) + "\n")
    return 0 if all(row[1] >= BAR * row[0] for row in counts.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
