"""Which executables of a command had an allocator in them: one run that is watched, not measured.

The proof of allocators.py is of the process that is started. A command may start others: a
static program behind `sh -c`, `env -i`, a set-user-ID program. watcher.c follows them all by
ptrace; here is what that means, in words.

It cannot see programs that a daemon starts on request (ELSEWHERE), and none where ptrace is
forbidden: CannotWatch says so.
"""

import os
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

from lab import allocators, programs

# Of the processor time: where less is the allocator's, there is no figure of it.
LEAST_SHARE = 0.05
# Executables that are asked which malloc they bind, and that are named.
MOST_ASKED, MOST_NAMED = 40, 6
# They hand a command to another process, which is not their child.
ELSEWHERE = (
    "at", "batch", "crictl", "ctr", "docker", "flatpak", "incus", "kubectl", "lxc", "machinectl",
    "nerdctl", "podman", "snap", "ssh", "systemd-run",
)  # fmt: skip


class CannotWatch(Exception):
    """Why it is not known what ran; in one line."""


@dataclass
class Image:
    """An executable; `why` is None if the allocator was in it. Of `count` processes."""

    path: str
    why: str
    count: int = 1
    nanoseconds: int = 0


def reason(preloaded, secure, dynamic, mapped):
    """Why the library was not in an image, or None; from watcher.c's four facts."""
    if dynamic == 0:
        return "linked statically"
    if dynamic == 2:
        return "no 64-bit program"
    if secure:
        return "set-user-ID, set-group-ID or with capabilities: LD_PRELOAD is ignored"
    if not preloaded:
        return "started without LD_PRELOAD in its environment"
    return "its dynamic linker did not load the library" if mapped == 0 else None


def images_of(lines):
    """[Image], those of one path and one reason together; most processor time first."""
    found = {}
    for line in lines:
        _, _, *facts, nanoseconds, path = line.rstrip("\n").split(" ", 7)
        why = reason(*(int(fact) for fact in facts))
        image = found.setdefault((path, why), Image(path, why, 0))
        image.count += 1
        image.nanoseconds += int(nanoseconds)
    return sorted(found.values(), key=lambda image: -image.nanoseconds)


def ask_bindings(images, library, env):
    """Finds the executables whose malloc is another's although the library is there."""
    for image in [image for image in images if image.why is None][:MOST_ASKED]:
        try:
            targets = allocators.bound_to([image.path], library, env)
        except (OSError, ValueError, subprocess.SubprocessError):
            continue
        others = targets - {library}
        if others:
            names = ", ".join(sorted(Path(each).name for each in others))
            image.why = f"its malloc is that of {names}"


def watched(job, allocator, preload, folder, timeout, watcher):
    """[Image] of a run of the job with the allocator; raises CannotWatch."""
    programs.clear_folder(folder)
    env = programs.environment(job, preload, allocator.env)
    words = [f"{name}={value}" for name, value in env.items()]
    reader, writer = os.pipe()
    command = [watcher, str(writer), allocator.library, str(len(words)), *words, *job.command]
    with (
        open(job.stdin or os.devnull, "rb") as stdin,
        open(folder / "stdout" if "stdout" in job.outputs else os.devnull, "wb") as stdout,
    ):
        process = subprocess.Popen(
            command, stdin=stdin, stdout=stdout, stderr=subprocess.DEVNULL, pass_fds=(writer,),
            cwd=job.cwd or folder, start_new_session=True,
        )  # fmt: skip
    os.close(writer)
    try:
        process.wait(timeout)
    except subprocess.TimeoutExpired:
        raise CannotWatch(f"it did not end within {timeout:g} s under ptrace") from None
    finally:
        end(process)
        with open(reader, encoding="utf-8", errors="surrogateescape") as file:
            lines = [line for line in file.read().split("\n") if line]
    if not lines or not lines[-1].startswith("ended "):
        said = lines[-1].removeprefix("failed ") if lines else "the watcher said nothing"
        raise CannotWatch(said)
    images = images_of(lines[:-1])
    ask_bindings(images, allocator.library, env)
    return images


def end(process):
    """Ends the watcher if it runs; what it watches dies with it."""
    if process.poll() is None:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()


def share(images):
    """The part of the processor time that was spent with the allocator, or None."""
    total = sum(image.nanoseconds for image in images)
    inside = sum(image.nanoseconds for image in images if image.why is None)
    return inside / total if total else None


def described(image, total):
    times = f"{image.count} process{'es' if image.count > 1 else ''}"
    part = f", {100 * image.nanoseconds / total:.0f}% of the CPU time" if total else ""
    return f"{image.path} ({image.why}; {times}{part})"


def sentences(images, name):
    """What is to be said of a command's executables: [text]; none if all had the allocator."""
    total = sum(image.nanoseconds for image in images)
    without = [image for image in images if image.why]
    said = []
    if without:
        named = "; ".join(described(image, total) for image in without[:MOST_NAMED])
        more = f"; and {len(without) - MOST_NAMED} more" if len(without) > MOST_NAMED else ""
        part = "in no executable" if len(without) == len(images) else "not in every executable"
        said.append(f"{name} was {part} that ran. Without it: {named}{more}")
    for path in sorted({image.path for image in images if Path(image.path).name in ELSEWHERE}):
        said.append(f"what {path} asks another process to start was not seen and is not measured")
    return said


def refusal(images, name):
    """Why there is to be no figure of the allocator, or None."""
    part = share(images)
    if part is None or part >= LEAST_SHARE:
        return None
    first = next(image for image in images if image.why)
    return (
        f"{100 * (1 - part):.0f}% of the CPU time was in programs without {name}, "
        f"most of it in {first.path}: {first.why}"
    )
