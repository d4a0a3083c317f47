#!/usr/bin/env python3
"""check_bootstrap.py: what scripts/bootstrap does where it cannot install.

    check_bootstrap.py scripts/bootstrap

Runs a copy of the script that looks for a header in a folder which does not exist, so that an
optional package is missing, and finds make under another name, so that a needed one is. Commands
that are not to be there are left out of a PATH of its own; apt-get and sudo are played, so that
nothing is ever installed.

  machine        only optional is missing      a needed one, too
  no apt-get     0, going on without it        1, names it
  neither root nor sudo        0               1
  sudo refuses                 0               1
  no network                   0               1
  all is well                  0, both installed

It cannot see what a real apt-get does. Exit: 0 all held, 1 one line for each that did not.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

HEADER = "/usr/include/sys/sdt.h /usr/include/*/sys/sdt.h"
OPTIONAL, NEEDED = "systemtap-sdt-dev", "make"
LEFT_OUT = {"apt-get", "apt-cache", "sudo", "id"}

APT_WORKS = 'echo "played: apt-get $*" >>"$PLAYED"\n'
APT_OFFLINE = (
    'case " $* " in *" install "*) echo "E: Could not resolve host" >&2; exit 100 ;; '
    "*) exit 100 ;; esac\n"
)
APT_CACHE = 'echo "  Candidate: 1.0"\n'
SUDO_REFUSES = 'echo "sudo: you are not in the sudoers file" >&2; exit 1\n'
ROOT, USER = "echo 0\n", "echo 1000\n"

# machine: (commands that are played, status where only the optional one is missing, where the
# needed one is)
MACHINES = {
    "no apt-get": ({"id": ROOT}, 0, 1),
    "neither root nor sudo": ({"id": USER, "apt-get": APT_WORKS, "apt-cache": APT_CACHE}, 0, 1),
    "sudo refuses": ({"id": USER, "sudo": SUDO_REFUSES, "apt-get": APT_WORKS,
                      "apt-cache": APT_CACHE}, 0, 1),
    "no network": ({"id": ROOT, "apt-get": APT_OFFLINE, "apt-cache": APT_CACHE}, 0, 1),
    "nothing offered": ({"id": ROOT, "apt-get": APT_OFFLINE, "apt-cache": ":\n"}, 0, 1),
    "all is well": ({"id": ROOT, "apt-get": APT_WORKS, "apt-cache": APT_CACHE}, 0, 0),
}  # fmt: skip


def commands(folder, played):
    """A folder for PATH: all commands of this machine but those left out, and the played ones."""
    folder.mkdir()
    for path in ("/usr/local/bin", "/usr/bin", "/bin"):
        for command in Path(path).iterdir() if Path(path).is_dir() else ():
            link = folder / command.name
            if command.name not in LEFT_OUT and not link.is_symlink():
                link.symlink_to(command)
    for name in ("g++", "cmake", "ninja", "valgrind"):  # as if they were there
        if not (folder / name).exists():
            played = {**played, name: ":\n"}
    for name, text in played.items():
        (folder / name).write_text("#!/bin/sh\n" + text, encoding="utf-8")
        (folder / name).chmod(0o755)
    return folder


def wrong(script, folder, machine, needed):
    """What is wrong with one row, or an empty text."""
    played, *statuses = MACHINES[machine]
    text = script.read_text(encoding="utf-8")
    changes = [
        (HEADER, "/nonexistent/sdt.h"),
        ("/usr/src/googletest/googletest/src/gtest-all.cc", "/bin/sh"),
    ]
    if needed:
        changes.append(("has_command make\n", "has_command no-such-make\n"))
    for old, new in changes:
        if old not in text:
            return f"the script has no {old}: this test has to follow it"
        text = text.replace(old, new)
    folder.mkdir()
    copy = folder / "bootstrap"
    copy.write_text(text, encoding="utf-8")
    log = folder / "log"
    log.touch()
    env = {**os.environ, "PATH": str(commands(folder / "bin", played)), "PLAYED": str(log)}
    result = subprocess.run(["/bin/bash", str(copy)], env=env, text=True, check=False,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, timeout=120)  # fmt: skip
    said = result.stdout
    if result.returncode != statuses[needed]:
        return f"exit status {result.returncode}, not {statuses[needed]}: {said}"
    last = "".join(line for line in said.splitlines(keepends=True) if "is missing" not in line)
    name = NEEDED if needed else OPTIONAL
    if name not in last:
        return f"does not say what becomes of {name}: {said}"
    if machine == "all is well":
        installed = [
            line.split()[-1]
            for line in log.read_text(encoding="utf-8").splitlines()
            if " install " in line
        ]
        if installed != ([NEEDED] if needed else []) + [OPTIONAL]:
            return f"installed {installed}"
    elif not needed and "without" not in last:
        return f"does not say that it goes on without: {said}"
    return ""


def main():
    script = Path(sys.argv[1])
    failed = 0
    with tempfile.TemporaryDirectory(prefix="loam-bootstrap-") as folder:
        for number, machine in enumerate(MACHINES):
            for needed in (False, True):
                what = wrong(script, Path(folder) / f"{number}{needed:d}", machine, needed)
                if what:
                    failed += 1
                    print(f"{machine}, {'needed' if needed else 'optional'}: {what}")
    print(f"check_bootstrap: {2 * len(MACHINES)} machines, {failed} wrong")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
