"""What a run leaves and what it goes on from: run.json, rows.csv, rss.csv, latency.csv.

run.json says on what the rows were measured: machine, commit, allocators with
checksums, workloads with their commands. A run that is taken up again must be
the same in all of that; differences() names what is not.
"""

import datetime
import hashlib
import json
import os
from pathlib import Path

from lab import latency, machine
from lab.results import RawFile, RawRows, read_rows

RSS_COLUMNS = ("round", "workload", "threads", "allocator", "ms", "rss_kib")
# Options in which two halves of a run may differ.
FREE = ("rounds", "timeout")


def now():
    return datetime.datetime.now().astimezone().isoformat(timespec="seconds")


def sha256(path):
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def described_allocator(each):
    return {
        "name": each.name,
        "version": each.version() or "unknown",
        "origin": each.origin or (f"Debian package {each.package}" if each.package else ""),
        "flags": each.flags,
        "library": each.library,
        "sha256": sha256(each.library),
        "kind": each.kind,
        "env": dict(each.env),
    }


def described_workloads(tasks):
    """One entry a name: the thread counts of its tasks together."""
    found = {}
    for task in tasks:
        entry = found.setdefault(
            (task.suite, task.name),
            {
                "name": task.name,
                "suite": task.suite,
                "question": task.question,
                "threads": [],
                "tags": list(task.tags),
                "command": task.command,
                "sha256": sha256(task.probe()[0]),
            },
        )
        entry["threads"].append(task.threads)
    return list(found.values())


def described(options, command_line, tasks, found, absent, absent_workloads):
    """The content of run.json."""
    commit, dirty = machine.commit()
    return {
        "started": now(),
        "ended": None,
        "machine": machine.described(),
        "load": round(os.getloadavg()[0], 2),
        "commit": commit,
        "dirty": dirty,
        "command_line": command_line,
        "options": options,
        "allocators": [described_allocator(each) for each in found],
        "absent": [{"name": name, "why": why} for name, why in absent],
        "absent_workloads": [{"name": name, "why": why} for name, why in absent_workloads],
        "workloads": described_workloads(tasks),
    }


def essence(meta):
    """What must be the same for rows to belong together: {what: value}."""
    found = {"commit": meta["commit"], "changed files": meta["dirty"]}
    for name in ("model", "cores", "kernel", "thp"):
        found[name] = meta["machine"][name]
    for name, value in meta["options"].items():
        if name not in FREE:
            found[f"option {name}"] = value
    for each in meta["allocators"]:
        found[f"allocator {each['name']}"] = (each["sha256"], sorted(each["env"].items()))
    for each in meta["workloads"]:
        found[f"workload {each['name']}"] = (each["sha256"], each["command"], each["threads"])
    return found


def differences(old, new):
    """["what: was this, is that", ...] between two contents of run.json."""
    one, two = essence(old), essence(new)
    found = []
    for name in sorted({**one, **two}):
        before, after = one.get(name), two.get(name)
        if before == after:
            continue
        if before is None or after is None:
            found.append(f"{name} {'is new' if before is None else 'is gone'}")
        elif isinstance(before, tuple):
            found.append(f"{name} is another build or has other arguments")
        else:
            found.append(f"{name}: was {before}, is {after}")
    return found


class Record:
    """The files of a run in the making. Trouble with the disk is told once a file, and kept."""

    def __init__(self, out, again, on_trouble):
        self.out = Path(out)
        self.on_trouble = on_trouble
        self.rows = RawRows(self.out / "rows.csv", again, on_trouble)
        self.rss = RawFile(self.out / "rss.csv", RSS_COLUMNS, again, on_trouble)
        self.latency = RawFile(self.out / "latency.csv", latency.COLUMNS, again, on_trouble)

    def save(self, meta):
        """Writes run.json whole or leaves the one that was there."""
        fresh = self.out / "run.json.new"
        try:
            fresh.write_text(json.dumps(meta, indent=1) + "\n", encoding="utf-8")
            os.replace(fresh, self.out / "run.json")
        except OSError as error:
            fresh.unlink(missing_ok=True)
            self.on_trouble(f"{self.out / 'run.json'}: {error.strerror}: not written")

    def add_samples(self, row, samples):
        for ms, kib in samples:
            values = (row.round, row.workload, row.threads, row.allocator, ms, kib)
            self.rss.add(dict(zip(RSS_COLUMNS, values)))

    def add_latency(self, row, found):
        for values in latency.rows(row, found):
            self.latency.add(values)

    def close(self):
        self.rows.close()
        self.rss.close()
        self.latency.close()


def earlier(out):
    """(run.json, rows) of an interrupted run in this folder, or (None, []).

    A row that is there twice counts once, the last.
    """
    try:
        meta = json.loads((Path(out) / "run.json").read_text(encoding="utf-8"))
        rows = read_rows(Path(out) / "rows.csv")
    except (OSError, ValueError):
        return None, []
    last = {(row.round, row.label, row.allocator): row for row in rows}
    return meta, list(last.values())
