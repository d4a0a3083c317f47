#!/usr/bin/env python3
"""limited_python.py: CPython under RLIMIT_AS or RLIMIT_DATA goes on after a MemoryError.

    limited_python.py LIBRARY SEED      LIBRARY is libloam.so, which is preloaded

For each limit, interpreters fill it with bytes objects of one to three drawn sizes until
MemoryError, and drop all. Then each must be able to start a thread, to open files, to make other
objects, one of half of what it had, and to map half of that. Half of them have PYTHONMALLOC=malloc,
so that small objects are the library's as well.
"""

import os
import random
import resource
import subprocess
import sys

LIMITS = {"address": resource.RLIMIT_AS, "data": resource.RLIMIT_DATA}
ROUNDS = 3  # interpreters of each limit
MIB = 1 << 20

PROGRAM = """
import mmap, sys, threading, time
sizes = [int(size) for size in sys.argv[1].split(",")]
order = sys.argv[2]
threading.stack_size(4 << 20)
threading.Thread(target=int).start()
table, total = [None] * (1 << 20), 0
try:
    for i in range(len(table)):
        table[i] = b"x" * sizes[i % len(sizes)]
        total += sizes[i % len(sizes)]
except MemoryError:
    pass
else:
    sys.exit("the limit was not reached")
for j in range(i) if order == "first" else range(i - 1, -1, -1):
    table[j] = None
threading.stack_size(8 << 20)
def within(seconds, what, call):
    end = time.monotonic() + seconds
    while True:
        try:
            return call()
        except (MemoryError, OSError, RuntimeError) as error:
            if time.monotonic() > end:
                sys.exit(f"{what} after {total >> 20} MiB of {sizes} were dropped: {error!r}")
        time.sleep(.005)
def thread():
    one = threading.Thread(target=int)
    one.start()
    one.join()
within(.2, "thread", thread)
for other in (50, 700, 9000, 100000, 5000000):
    within(0, f"50 objects of {min(other, total // 100)} bytes",
           lambda: [b"y" * min(other, total // 100) for i in range(50)])
within(0, "stream", lambda: open("/dev/zero", "rb").read(10))
within(0, "object of half", lambda: len(bytearray(total // 2)))
within(30, "map of half", lambda: mmap.mmap(
    -1, total // 2, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close())
print("done")
"""


def set_limit(name, most):
    resource.setrlimit(LIMITS[name], (most, most))


def run(library, limit, draw):
    sizes = [str(int(2 ** draw.uniform(9, 21))) for _ in range(draw.randint(1, 3))]
    words = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("LOAM_", "PYTHON"))
    }
    words["LD_PRELOAD"] = library
    if draw.random() < 0.5:
        words["PYTHONMALLOC"] = "malloc"
    most = draw.randint(90, 200) * MIB
    order = draw.choice(["first", "last"])
    done = subprocess.run(
        [sys.executable, "-S", "-c", PROGRAM, ",".join(sizes), order],
        env=words,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: set_limit(limit, most),
    )
    if done.returncode == 0 and done.stdout == "done\n" and done.stderr == "":
        return True
    said = done.stdout + done.stderr
    print(f"{limit} of {most // MIB} MiB, sizes {sizes}, {order}: status {done.returncode}: {said}")
    return False


def main(library, seed):
    right = True
    for limit in LIMITS:
        for number in range(ROUNDS):
            # On a busy machine a thread may have to wait once for what is just being given back.
            name = f"{seed} {limit} {number}"
            right = any(run(library, limit, random.Random(name)) for _ in range(3)) and right
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
