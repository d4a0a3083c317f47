"""callgrind.py: runs a program under callgrind, and reads the files that callgrind writes.

Everything here that counts instructions reads them through this: the guard (bench/guard), the bars
of the local path (tests/counts), the layout sketches (bench/sketches). A file read is a Profile:
what each instruction or each function executed itself, and what calls cost that left one object for
another.

It asks callgrind for plain names and absolute positions (OPTIONS) and reads nothing else. It knows
no time and no caches. Where a function ends in a jump to another, callgrind sees a call: self costs
are exact, the costs of calls are exact only for callees that return.
"""

import os
import re
import shutil
import subprocess

OPTIONS = ["-q", "--tool=callgrind", "--compress-strings=no", "--compress-pos=no"]

# gcc's names for pieces of one function, and callgrind's for its recursion.
PIECE = re.compile(r"(\.(part|constprop|isra|cold|lto_priv)(\.\d+)?|'\d+)+$")


class Failed(Exception):
    """The program could not be counted; the text says why, in one line."""


class Profile:
    """One callgrind file. Objects are base names: libloam.so.0.1.0, libc.so.6.

    executed    {(object, address): instructions}; addresses only where callgrind dumped them
    functions   {(object, function): instructions}, of the function itself
    calls_out   {(object, function called): {object of the caller: instructions}}, calls included,
                where the two objects differ
    """

    def __init__(self, path):
        self.executed = {}
        self.functions = {}
        self.calls_out = {}
        with open(path, encoding="utf-8", errors="replace") as file:
            self._read(file)

    def _read(self, file):
        addresses = False
        here = function = callee_object = callee = None
        calling = False
        for line in file:
            first = line[0]
            if first.isdigit():
                position, _, rest = line.partition(" ")
                cost = int(rest.split()[-1]) if rest.strip() else 0
                if calling:  # the line after calls= repeats the callee's cost
                    calling = False
                    target = callee_object or here
                    if target != here:
                        callers = self.calls_out.setdefault((target, callee), {})
                        callers[here] = callers.get(here, 0) + cost
                    callee_object = None
                    continue
                key = (here, function)
                self.functions[key] = self.functions.get(key, 0) + cost
                if addresses:
                    key = (here, int(position, 16))
                    self.executed[key] = self.executed.get(key, 0) + cost
            elif line.startswith("fn="):
                function = plain(line[3:])
            elif line.startswith("cfn="):
                callee = plain(line[4:])
            elif line.startswith("calls="):
                calling = True
            elif line.startswith("ob="):
                here = os.path.basename(line[3:].strip())
            elif line.startswith("cob="):
                callee_object = os.path.basename(line[4:].strip())
            elif line.startswith("positions:"):
                addresses = line.split()[1] == "instr"

    def cost(self, name):
        """Instructions executed in the object of that name."""
        return sum(cost for (where, _), cost in self.functions.items() if where == name)


def plain(name):
    """The function's name as its source has it; code without a symbol has none."""
    name = PIECE.sub("", name.strip())
    return "(no name)" if name.startswith("0x") else name


def run(command, out, options=(), env=None, seconds=300):
    """Runs a command under callgrind, which writes to `out` (and out.1 ...); returns its stdout."""
    full = [shutil.which("valgrind"), *OPTIONS, f"--callgrind-out-file={out}", *options, *command]
    try:
        done = subprocess.run(
            full, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=seconds, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise Failed(f"{' '.join(command)}: no end after {seconds} s") from None
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip() or "said nothing").splitlines()[-1]
        raise Failed(f"{' '.join(command)}: exit status {done.returncode}: {said}")
    return done.stdout
