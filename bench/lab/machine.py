"""The machine and the tree that figures come from: what every result is recorded with."""

import os
import platform
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def cpu_model():
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.machine()
    for line in text.splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def huge_pages():
    try:
        text = Path("/sys/kernel/mm/transparent_hugepage/enabled").read_text()
    except OSError:
        return "absent"
    return text.partition("[")[2].partition("]")[0] or "unknown"


def governor():
    try:
        text = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").read_text()
    except OSError:
        return "unknown"
    return text.strip()


def memory_kib():
    with open("/proc/meminfo", encoding="ascii") as file:
        return int(file.readline().split()[1])


def described():
    return {
        "model": cpu_model(),
        "cores": os.cpu_count(),
        "memory_kib": memory_kib(),
        "kernel": platform.release().partition("-")[0],  # what follows is the distributor's
        "libc": " ".join(platform.libc_ver()),
        "thp": huge_pages(),
        "governor": governor(),
    }


def short(what):
    """The machine in one field of a row."""
    return f"{what['model']}, {what['cores']} cores, Linux {what['kernel']}"


def git(*arguments):
    try:
        shown = subprocess.run(
            ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return shown.stdout.strip()


def commit():
    """(the commit or "unknown", whether files that belong to it were changed)."""
    name = git("rev-parse", "--short=12", "HEAD")
    if name is None:
        return "unknown", False
    return name, bool(git("status", "--porcelain", "--untracked-files=no"))
