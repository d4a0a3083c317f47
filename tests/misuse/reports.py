#!/usr/bin/env python3
"""reports.py: draws mistakes at random, and compares a checked build's reports with the truth.

    tests/misuse/reports.py --kind debug --library build/debug/libloam.so \\
        --program build/debug/tests/misuse/reported --cases 20000 --jobs 2

A case is {mistake, means, size, alignment, offset, distance, neighbours, order of the frees,
thread, seed}, each a process of its own (reported.cpp). Sizes are log-uniform from 1 byte to 4 MiB,
distances log-uniform from 1 to 4,096 bytes. The program prints each object, with the thread and the
function that allocated it, and which bytes the mistake writes. A report is right if all that it
says is true:

  kind       a word of LOAM_IGNORE in the line is the mistake's
  object     an object that the line blames made the mistake; of several, joined by "or", one of
             them
  bytes      numbers of bytes, of those requested, and of the size class
  thread     of a mistake that is found at once: who makes it
  site       half of the debug build's cases record sites: thread and function that allocated

A stray write (far_overflow, far_underflow) begins at no object's edge, and no allocator can know
where it came from. Its report is right if the bytes are where the line says. A mistake without a
report is missed, which is no failure: the shares are printed, with those that ended by a signal
without a line. --page writes them into docs/misuse.md. A second free of memory that has another
owner by then may be reported as a pointer into that owner's object. A report without a mistake is
wrong.

Exit: 0 every report is right; 1 some are not, each printed with its case; 2 wrong use, or a case
did not run. A case is repeated by --case 'TEXT'.
"""

import argparse
import dataclasses
import os
import random
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE)]
sys.dont_write_bytecode = True

import generate  # noqa: E402
import judge  # noqa: E402

SIZE_MAX = 4 << 20
DISTANCE_MAX = 4096
LOOPS = ("spoil", "random", "zeros")
WRITES = (*LOOPS, "spoil", "random", "memset", "memcpy", "strcpy")
MISTAKES = {
    "overflow": WRITES,
    "underflow": WRITES,
    "far_overflow": ("spoil",),
    "far_underflow": ("spoil",),
    "write_after_free": WRITES,
    "double_free": ("free",),
    "inside": ("free",),
    "wrong_size": ("sized", "delete"),
    "none": ("free",),
}
WORDS = {  # of LOAM_IGNORE
    "overflow": "overflow",
    "underflow": "underflow",
    "far_overflow": "overflow",
    "far_underflow": "underflow",
    "write_after_free": "use-after-free",
    "double_free": "double-free",
    "inside": "misaligned",
    "wrong_size": "wrong-size",
}
# Had a wrong report once; tried before those that are drawn.
KNOWN = (
    "far_underflow spoil 15006 0 0 8 0 freed higher other nothing 244698617",
    "overflow zeros 132 32 5 2225 0 freed shuffled other nothing 133544989",
    "overflow zeros 132 32 5 2225 0 freed shuffled other nothing 133544982",
    "underflow zeros 8 512 344 1700 0 live shuffled other churn 329004468",
    "underflow zeros 1 16 2 983 0 live lower same nothing 1019444574",
    "overflow zeros 4 16 0 185 0 freed higher same churn 192936010",
    "overflow zeros 34 16 0 15 0 unused higher same churn 33620325",
    "overflow zeros 8 16 0 13 0 unused own other churn 661050647",
    "overflow zeros 7830 64 0 395 0 freed shuffled other churn 309496548",
    "underflow zeros 5 0 0 13 0 live shuffled other collect 753122992",
    "overflow zeros 4 0 0 15 0 unused higher same nothing 909475761",
    "overflow random 393 32 0 352 0 freed own other churn 436751302",
    "underflow zeros 2 0 0 20 0 freed never other collect 51388448",
    "underflow zeros 6 0 0 25 0 freed never other churn 850413663",
    "overflow strcpy 1310160 32 20 2950 0 unused shuffled same nothing 482621861",
    "far_overflow spoil 16 0 0 16 0 freed never other collect 225498105",
)
STRAY = ("far_overflow", "far_underflow")
AT_ONCE = ("double_free", "inside", "wrong_size")
START, END = "<!-- reports: begin -->", "<!-- reports: end -->"


@dataclasses.dataclass(frozen=True)
class Drawn:
    mistake: str
    means: str
    size: int
    align: int
    offset: int
    distance: int
    at: int
    neighbours: str
    found: str
    thread: str
    then: str
    seed: int

    @property
    def text(self):
        return " ".join(str(each) for each in dataclasses.astuple(self))


def draw(rng, mistake):
    means = rng.choice(MISTAKES[mistake])
    least = 2 if mistake in ("inside", "write_after_free") else 1
    size = generate.log_uniform(rng, least, SIZE_MAX)
    if rng.random() < 0.25:  # as classes end
        size = max(least, size // 16 * 16 - rng.choice((0, 8, 16)))
    distance = generate.log_uniform(rng, 1, DISTANCE_MAX)
    align = offset = at = 0
    if rng.random() < 0.4 and means != "delete":
        align = 1 << rng.randrange(4, 18)
        if rng.random() < 0.5:
            offset = rng.randrange(1, align)
    if mistake == "inside":
        at = generate.log_uniform(rng, 1, size - 1)
    elif mistake == "write_after_free":
        at = rng.choice((0, rng.randrange(size - 1)))
        distance = min(distance, size - at)
    elif mistake == "wrong_size":
        at = rng.choice((size + distance, max(1, size - distance)))
        at += at == size
    if means == "strcpy":
        distance = max(distance, 2)
    return Drawn(
        mistake,
        means,
        size,
        align,
        offset,
        distance,
        at,
        rng.choice(("live", "freed", "unused")),
        rng.choice(("own", "own", "lower", "higher", "shuffled", "never")),
        rng.choice(("same", "other")),
        rng.choice(("nothing", "nothing", "churn", "collect")),
        rng.randrange(1 << 30),
    )


def drawn_of(text):
    kinds = [field.type for field in dataclasses.fields(Drawn)]
    return Drawn(*(int(w) if k in (int, "int") else w for w, k in zip(text.split(), kinds)))


# ---- the truth -----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Truth:
    objects: dict  # address: (size, thread, function)
    freed: set  # of these, whose place another object may have by now
    object: int
    start: int
    end: int
    thread: int


def truth_of(stdout):
    objects, freed, said = {}, set(), None
    for line in stdout.splitlines():
        words = line.split()
        if words[:1] == ["object"]:
            objects[int(words[1], 16)] = (int(words[2]), int(words[3]), words[4])
        elif words[:1] == ["freed"]:
            freed.add(int(words[1], 16))
        elif words[:1] == ["truth"]:
            said = [int(word, 16) for word in words[1:4]] + [int(words[4])]
    return Truth(objects, freed, *said) if said else None


# ---- what a line claims --------------------------------------------------------------------------

P = r"(0x[0-9a-f]+)"
BLAME = [
    ("overflow", False, re.compile(rf"overflow of {P}")),
    ("underflow", False, re.compile(rf"underflow of {P}")),
    ("overflow", True, re.compile(rf"overflow of an object before {P}")),
    ("overflow", True, re.compile(rf"overflow of {P}, or of an object before it")),
    ("underflow", True, re.compile(rf"underflow of an object (?:at or )?behind {P}")),
    ("underflow", True, re.compile(rf"underflow of {P}, or of an object behind it")),
    ("write_after_free", False, re.compile(rf"write after free of {P}")),
    ("write_after_free", False, re.compile(rf"write after free or overflow of {P}")),
    ("write_after_free", False, re.compile(rf"free list damaged at {P}: written after free")),
    ("write_after_free", False, re.compile(rf"{P} was written after its free")),
    ("double_free", False, re.compile(rf"double free of {P}")),
    ("wrong_size", False, re.compile(rf"free of {P} with a size of")),
]
UNKNOWN = re.compile(r"or a stray write|zeros were written")
INSIDE = re.compile(
    rf"misaligned pointer (?:passed to free: )?{P} (?:passed to free )?\(.*?(?:block at {P}|large "
    rf"object of (\d+) B at {P}|,)"
)
COPY = re.compile(rf"loam: (\w+) of (\d+) B (?:to|from) {P}, which (?:has (\d+) left|(was freed))")
PAST = re.compile(r": (\d+) byte\(s\) past (\d+) requested")
AT_BYTE = re.compile(r"overwritten at byte (\d+) of (\d+)")
WRITTEN = re.compile(r"(\d+) byte\(s\) from byte (\d+) on")
TOLD = re.compile(r"with a size of (\d+) B, (\d+) requested")
CLASS = re.compile(r"size class (\d+) B(?:, (\d+) requested)?")
THREAD = re.compile(r"thread (\d+)\)")
WAY_OUT = re.compile(r"; LOAM_IGNORE=([a-z+-]+) goes on$")
SITE = re.compile(
    rf"^loam:   {P} was allocated by thread (\d+)\n((?:loam:     #\d+ .*\n)*)", re.MULTILINE
)
MAKER = re.compile(r"#\d+ (maker_\w+|churn_objects)\+")


def claims_of(line):
    """[(kind, whether any object before or behind is meant, address)]"""
    found = []
    for kind, beyond, pattern in BLAME:
        found += [(kind, beyond, int(match, 16)) for match in pattern.findall(line)]
    return found


def blames_right(drawn, truth, claims):
    for kind, beyond, address in claims:
        if kind != drawn.mistake:
            continue
        if address == truth.object:
            return True
        if beyond and (truth.object < address if kind == "overflow" else truth.object > address):
            return True
    return False


def in_object(truth, address):
    """Bytes of the object in use around an address that follow it; None: it is in no object."""
    for start, (size, _, _) in truth.objects.items():
        if start <= address < start + size:
            return start + size - address
    return None


def wrong_stray(drawn, truth, line, claims):
    """A stray write: the byte is where the line says."""
    if UNKNOWN.search(line):
        return None
    if blames_right(dataclasses.replace(drawn, mistake=drawn.mistake[4:]), truth, claims):
        return None
    for kind, beyond, address in claims:
        size = truth.objects.get(address, (0,))[0]
        behind = truth.start - address
        block = int(match[1]) if (match := CLASS.search(line)) else size
        if kind == "underflow" and (beyond or -DISTANCE_MAX <= behind < 0):
            return None
        if kind == "overflow" and (beyond or size <= behind < block):
            return None
        if kind == "write_after_free" and abs(behind) < block:
            return None
    return "the byte is elsewhere"


def wrong_copy(drawn, truth, match):
    address, left = int(match[3], 16), match[4]
    if drawn.mistake not in ("overflow", "underflow", "write_after_free"):
        return "a copy that is none"
    if address != truth.start or match[1] != drawn.means:
        return "another copy"
    if int(match[2]) != truth.end - truth.start:
        return "another number of bytes"
    if left is None:
        return None if drawn.mistake != "overflow" else "no freed object"
    if drawn.mistake == "overflow":
        room = truth.object + drawn.size - truth.start
    elif drawn.mistake == "underflow":
        room = in_object(truth, address) or 0
    else:
        room = 0
    return None if int(left) == room else f"{room} are left"


def wrong_numbers(drawn, truth, line):
    size = drawn.size
    length = truth.end - truth.start
    if match := PAST.search(line):
        past = int(match[1])
        if int(match[2]) != size:
            return "another size"
        if drawn.mistake == "overflow" and not 1 <= past <= drawn.distance:
            return "more bytes than were written"
        if drawn.mistake == "overflow" and drawn.means == "spoil" and past != drawn.distance:
            return "another number of bytes"
    if match := AT_BYTE.search(line):
        if int(match[2]) != size or int(match[1]) < size:
            return "another size"
    if drawn.mistake == "write_after_free" and (match := WRITTEN.search(line)):
        count, first = int(match[1]), int(match[2])
        if first < drawn.at or first + count > drawn.at + length:
            return "other bytes"
    if match := TOLD.search(line):
        if (int(match[1]), int(match[2])) != (drawn.at, size):
            return "other sizes"
    if match := CLASS.search(line):
        if match[2] and int(match[2]) != size:
            return "another size was requested"
        if int(match[1]) < size and drawn.mistake != "none":
            return "a smaller size class"
    return None


def wrong_sites(truth, stderr):
    for address, thread, frames in SITE.findall(stderr):
        known = truth.objects.get(int(address, 16))
        if known is None:
            continue  # of those that come and go: near a stray write
        named = MAKER.search(frames)  # the worker knows no names
        if named and named[1] == "churn_objects" and int(address, 16) in truth.freed:
            continue  # as above
        if int(thread) != known[1] or (named and named[1] != known[2]):
            return f"{address} was allocated by {known[2]}, thread {known[1]}"
    return None


def wrong_report(drawn, truth, stderr):
    """What is wrong with a report; None: nothing."""
    line = stderr.splitlines()[0]
    if not line.startswith("loam: "):
        return "no line of loam's"
    if drawn.mistake == "none":
        return "there is no mistake"
    way_out = WAY_OUT.search(line)
    if way_out is None:
        return "no way out"
    kinds = way_out[1].split("+")
    if match := COPY.search(line):
        return wrong_copy(drawn, truth, match)
    claims = claims_of(line)
    if drawn.mistake in STRAY:
        return wrong_stray(drawn, truth, line, claims) or wrong_sites(truth, stderr)
    if drawn.mistake == "double_free" and kinds == ["misaligned"]:
        match = INSIDE.search(line)
        block = match and (match[2] or match[4])
        reused = block is None or int(block, 16) not in truth.objects
        return None if match and int(match[1], 16) == truth.start and reused else "no new owner"
    if WORDS[drawn.mistake] not in kinds:
        return f"the kind is {WORDS[drawn.mistake]}"
    if drawn.mistake == "inside":
        match = INSIDE.search(line)
        if match is None or int(match[1], 16) != truth.start:
            return "another pointer"
        block = match[2] or match[4]
        if block and int(block, 16) != truth.object:
            return "another object"
    elif not UNKNOWN.search(line) and not blames_right(drawn, truth, claims):
        return "another object or kind is blamed"
    if drawn.mistake in AT_ONCE and (match := THREAD.search(line)):
        if int(match[1]) != truth.thread:
            return "another thread"
    return wrong_numbers(drawn, truth, line) or wrong_sites(truth, stderr)


# ---- the run -------------------------------------------------------------------------------------


def outcome(drawn, run):
    """(right, wrong, missed, silent or broken; why)"""
    truth = truth_of(run.stdout)
    if truth is None or run.ending == "time-out":
        return "broken", f"{run.ending} {run.stdout[-60:]!r} {run.stderr[:200]!r}"
    if run.stderr.strip():
        why = wrong_report(drawn, truth, run.stderr)
        return ("wrong", why) if why else ("right", "")
    if run.ending.startswith("exit"):
        return ("right" if drawn.mistake == "none" else "missed"), ""
    if drawn.mistake == "none":
        return "wrong", f"{run.ending} without a mistake"
    return "silent", ""


def run_all(cases, options):
    case = judge.Case("reported", "mistake", False, "", str(options.program))

    def one(drawn):
        settings = {"REPORTED": drawn.text, "LOAM_SHOW_LEAKS": "0"}
        if options.kind == "debug" and drawn.seed % 2:
            settings["LOAM_RECORD_SITES"] = "4"
        return judge.run(case, judge.environment(str(options.library), settings.items()))

    with ThreadPoolExecutor(options.jobs) as pool:
        return list(pool.map(one, cases))


def table(kind, counts):
    rows = [
        f"| {kind} | cases | right | wrong | no line, ended by a signal | missed |",
        "|---|---|---|---|---|---|",
    ]
    for mistake in MISTAKES:
        if mistake == "none" or mistake not in counts:
            continue
        of = counts[mistake]
        total = sum(of.values())
        cells = [of.get(each, 0) for each in ("right", "wrong", "silent", "missed")]
        shares = " | ".join(f"{100 * cell / total:.1f}%" for cell in cells)
        rows.append(f"| {mistake.replace('_', ' ')} | {total} | {shares} |")
    return "\n".join(rows)


def parse(arguments):
    parser = argparse.ArgumentParser(prog="reports.py", description=__doc__.splitlines()[0])
    parser.add_argument("--kind", required=True, choices=("debug", "secure"))
    parser.add_argument("--library", required=True, type=Path, help="the libloam.so of that build")
    parser.add_argument("--program", required=True, type=Path, help="tests/misuse/reported, built")
    parser.add_argument("--cases", type=int, default=1000, metavar="N", help="in all (1000)")
    parser.add_argument("--seed", type=int, help="default: a random one, which is printed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N")
    parser.add_argument("--case", metavar="TEXT", help="this case alone, and what it says")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the table into that page")
    return parser.parse_args(arguments)


def write_page(page, kind, text):
    old = page.read_text(encoding="utf-8")
    begin, end = START.replace("reports", f"reports, {kind}"), END
    if begin not in old:
        raise SystemExit(f"reports.py: {page} has no line {begin}")
    head, rest = old.split(begin, 1)
    page.write_text(f"{head}{begin}\n\n{text}\n\n{end}{rest.split(end, 1)[1]}", encoding="utf-8")


def main(arguments):
    options = parse(arguments)
    for file in (options.library, options.program):
        if not file.is_file():
            print(f"reports.py: {file} is not there", file=sys.stderr)
            return 2
    if options.case:
        cases = [drawn_of(options.case)]
    else:
        seed = (
            options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
        )
        print(f"seed {seed}, {options.cases} cases", flush=True)
        rng = random.Random(seed)
        order = list(MISTAKES)
        cases = [drawn_of(text) for text in KNOWN]
        cases += [draw(rng, order[i % len(order)]) for i in range(options.cases)]
    counts, status = {}, 0
    sites = 0
    for drawn, run in zip(cases, run_all(cases, options), strict=True):
        what, why = outcome(drawn, run)
        sites += len(MAKER.findall(run.stderr))
        of = counts.setdefault(drawn.mistake, {})
        of[what] = of.get(what, 0) + 1
        if options.case:
            print(run.stdout, run.stderr, run.ending, what, why, sep="\n")
        if what in ("wrong", "broken"):
            print(f"{what}: {why}: {drawn.text}\n    {run.stderr.strip()[:600]}")
            status = max(status, 2 if what == "broken" else 1)
    print(table(options.kind, counts))
    print(f"\n{sites} call sites were compared")
    if options.page:
        write_page(options.page, options.kind, table(options.kind, counts))
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
