#!/usr/bin/env python3
"""check_promises.py: holds each promise of the documentation against the test that proves it.

    check_promises.py                one line for each fault; exit 1 if there is any
    check_promises.py --list [FILE]  every promise with its tests, or those of one file
    check_promises.py --missing      every promise that has no test, as lines for docs/promises.txt
    check_promises.py --self-test    proves on made-up text that each fault is found

A promise is one of these words in a sentence that users read: report, stop, never, at most, always,
iff, with their inflections. README.md, docs/guide/*.md, docs/man/loam.7 and the comments of
include/loam are read.

docs/promises.txt maps them. A file's name stands at the start of a line; below it, by four spaces,
excerpts of its sentences, each of which contains the promising word; below each excerpt, by eight
spaces, one of these:

    = TEST       the test that proves it: its name in ctest, after a colon a case in its sources
    ! caller     the sentence says what the program must do, or may; loam promises nothing
    ! elsewhere  the sentence speaks of other software
    ! word       the word promises nothing there: it names a thing, or says what loam cannot do

The faults:
  without   a promise that no excerpt covers
  stale     an excerpt that its file no longer contains, or that contains no promising word
  no test   a named test that tests/ does not have
  form      a line of the map that is none of the above

The excerpt is the key, so that a sentence may be moved and its other half rewritten. The script
cannot tell whether a test proves what it is named for: that remains for those who read the map.
"""

import argparse
import re
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAP = "docs/promises.txt"
READ = ("README.md", "docs/guide/*.md", "docs/man/loam.7", "include/loam/*.h", "include/loam/*.hpp")
# The manual and the guide to the options are made of one table: what proves one proves the other.
SAME = {"docs/man/loam.7": "docs/guide/options.md"}
PROMISE = re.compile(
    r"\b(?:report(?:s|ed|ing)?|stop(?:s|ped|ping)?|never|at most|always|iff)\b", re.I
)
REASONS = ("caller", "elsewhere", "word")
GTEST_FOLDERS = ("unit", "model", "faulty", "libc", "api", "family", "meter", "stress")
GTEST = re.compile(
    r"^\s*(?:TEST|TEST_F|TEST_P|TYPED_TEST|TYPED_TEST_P)\(\s*(\w+)\s*,\s*(\w+)\s*\)", re.M
)


# ---- what is promised ------------------------------------------------------------------------


def plain(text):
    """Words and marks alone: no markup, single spaces."""
    text = re.sub(r"\[([^\]]*)\]\([^)\s]*\)", r"\1", text)  # a link is its text
    text = re.sub(r"\\f[BIR]|\\&", "", text).replace("\\-", "-").replace("\\e", "\\")
    text = re.sub(r"[`*]", "", text)
    return re.sub(r"\s+", " ", text).strip()


def paragraphs_of_markdown(text):
    text = re.sub(r"^```.*?^```[^\n]*$", "", text, flags=re.M | re.S)
    for block in re.split(r"\n\s*\n", text):
        lines = []
        for line in block.split("\n"):
            if line.lstrip().startswith("|"):
                yield from line.strip().strip("|").split(" | ")
            elif re.match(r"\s*(?:[-*] |\d+\. |#)", line):
                yield " ".join(lines)
                lines = [line.lstrip("-# ")]
            else:
                lines.append(line)
        yield " ".join(lines)


def paragraphs_of_manual(text):
    yield from re.split(r"^\.[A-Z]+\b", text, flags=re.M)


def paragraphs_of_header(text):
    for comment in re.findall(r"/\*.*?\*/|//[^\n]*", text, re.S):
        body = re.sub(r"^\s*(?:/\*+|\*/|\*(?=\s|$)|//+)|\*/$", "", comment, flags=re.M)
        yield from re.split(r"\n[ \t]*\n", body)


def sentences(path, text):
    """The sentences of a file that users read, as plain text."""
    if path.endswith(".md"):
        parts = paragraphs_of_markdown(text)
    elif path.endswith(".7"):
        parts = paragraphs_of_manual(text)
    else:
        parts = paragraphs_of_header(text)
    for part in parts:
        for sentence in re.split(r"(?<=[.!?])\s+(?=[A-Z0-9(`\"])", plain(part)):
            if sentence:
                yield sentence


def promises(root):
    """{file: [sentence with a promise]}"""
    found = {}
    for pattern in READ:
        for path in sorted(root.glob(pattern)):
            name = path.relative_to(root).as_posix()
            text = path.read_text(encoding="utf-8")
            kept = [s for s in sentences(name, text) if PROMISE.search(s)]
            if kept:
                found[name] = kept
    return found


# ---- the map ---------------------------------------------------------------------------------


class Entry:
    def __init__(self, file, excerpt, line):
        self.file, self.excerpt, self.line = file, excerpt, line
        self.tests, self.reason, self.used = [], None, False


def read_map(text, faults):
    entries, file, entry = [], None, None
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip() or line.startswith("#"):
            continue
        word = line.strip()
        if not line.startswith(" "):
            file, entry = word, None
        elif line.startswith(" " * 8) and entry:
            mark, _, rest = word.partition(" ")
            if mark == "=" and rest:
                entry.tests.append(rest)
            elif mark == "!" and rest in REASONS:
                entry.reason = rest
            else:
                marks = f"= TEST nor ! {' or '.join(REASONS)}"
                faults.append(f"{MAP}:{number}: form: {word!r} is neither {marks}")
        elif line.startswith(" " * 4) and file:
            entry = Entry(file, plain(word), number)
            entries.append(entry)
        else:
            faults.append(f"{MAP}:{number}: form: {word!r} stands below no file")
    for entry in entries:
        if bool(entry.tests) == bool(entry.reason):
            what = "has neither tests nor a reason, or both"
            faults.append(f"{MAP}:{entry.line}: form: {entry.excerpt!r} {what}")
    return entries


def covered(sentence, entries):
    """For each promise in the sentence the entries that hold, an empty list if none covers it."""
    spans = []
    for entry in entries:
        start = sentence.find(entry.excerpt)
        while start >= 0:
            entry.used = True
            spans.append((start, start + len(entry.excerpt), entry))
            start = sentence.find(entry.excerpt, start + 1)
    for match in PROMISE.finditer(sentence):
        start, end = match.span()
        yield match, [e for first, last, e in spans if first <= start and end <= last]


# ---- the tests -------------------------------------------------------------------------------


class Tests:
    def __init__(self, root):
        self.folder = root / "tests"
        self.gtests = defaultdict(set)
        for folder in GTEST_FOLDERS:
            for path in (self.folder / folder).glob("*_test.cc"):
                for suite, case in GTEST.findall(path.read_text(encoding="utf-8")):
                    self.gtests[folder].add(f"{suite}.{case}")
        self.texts = {}

    def text(self, folder):
        """All of a folder's sources, and what makes tests of them."""
        if folder not in self.texts:
            endings = (".txt", ".c", ".cc", ".cpp", ".h", ".hpp", ".py", ".sh", ".pml", ".cmake")
            paths = [p for p in (self.folder / folder).rglob("*") if p.suffix in endings]
            self.texts[folder] = "\n".join(p.read_text(encoding="utf-8") for p in sorted(paths))
        return self.texts[folder]

    def words(self, folder):
        """Words of tests' names: what declares them, and programs that are tests by being there."""
        files = [self.folder / folder / "CMakeLists.txt", self.folder / "CMakeLists.txt"]
        text = "\n".join(f.read_text(encoding="utf-8") for f in files if f.exists())
        stems = {re.sub(r"_test$", "", p.stem) for p in (self.folder / folder).rglob("*.c")}
        return set(re.findall(r"\w+", text)) | stems

    def has(self, test):
        name, _, case = test.partition(":")
        folder, _, rest = name.partition(".")
        if not rest:
            return False
        if rest in self.gtests.get(folder, ()):
            return True
        if folder != "house" and not (self.folder / folder).is_dir():
            return False
        if not set(rest.split(".")) <= self.words(folder):
            return False
        return not case or case in self.text(folder)


# ---- the check -------------------------------------------------------------------------------


def examine(root, map_text):
    """(faults, [(file, sentence, match, entries)])"""
    faults, rows = [], []
    entries = read_map(map_text, faults)
    by_file = defaultdict(list)
    for entry in entries:
        by_file[entry.file].append(entry)
        if not PROMISE.search(entry.excerpt):
            what = f"{entry.excerpt!r} contains no promising word"
            faults.append(f"{MAP}:{entry.line}: stale: {what}")
    for file, kept in promises(root).items():
        mine = by_file[file] + by_file[SAME.get(file, "")]
        for sentence in kept:
            for match, holding in covered(sentence, mine):
                rows.append((file, sentence, match, holding))
                if not holding:
                    faults.append(f"{file}: without a test: {around(sentence, match)}")
    tests = Tests(root)
    for entry in entries:
        if not entry.used:
            faults.append(f"{MAP}:{entry.line}: stale: {entry.file} has no {entry.excerpt!r}")
        for test in entry.tests:
            if not tests.has(test):
                faults.append(f"{MAP}:{entry.line}: no test: {test}")
    return faults, rows


def around(sentence, match, most=150):
    if len(sentence) <= most:
        return sentence
    start = max(0, min(match.start() - most // 2, len(sentence) - most))
    return "..." + sentence[start : start + most] + "..."


def self_test():
    import tempfile

    with tempfile.TemporaryDirectory(prefix="loam-promises-") as folder:
        root = Path(folder)
        for name in ("include/loam", "docs/guide", "docs/man", "tests/unit", "tests/works"):
            (root / name).mkdir(parents=True)
        files = {
            "README.md": "# It\n\nloam **never** does\nthat. It may.\n\n| a | at most 5 |\n",
            "include/loam/a.h": "/* a.h: x.\n *\n * Returns NULL iff so. */\nint never;\n",
            "docs/man/loam.7": ".SH A\n\\fBIt\\fR always\nends.\n",
            "docs/guide/options.md": "It always ends.\n",
            "tests/unit/a_test.cc": "TEST(A, B) {\n}\n",
            "tests/CMakeLists.txt": "add_test(NAME house.layers\n",
            "tests/works/CMakeLists.txt": "works_test(never never)\n",
            "tests/works/never.c": "static void a_case(void)\n",
        }
        for name, text in files.items():
            (root / name).write_text(text, encoding="utf-8")
        good = (
            "README.md\n    loam never does that\n        = unit.A.B\n"
            "    at most 5\n        ! caller\n"
            "include/loam/a.h\n    NULL iff so\n        = works.never:a_case\n"
            "docs/guide/options.md\n    It always ends\n        = house.layers\n"
        )
        unmapped = good.replace("    at most 5\n        ! caller\n", "")
        idle = good + "README.md\n    It may\n        = unit.A.B\n"
        cases = (
            ("", good, []),
            ("an unmapped promise", unmapped, ["without a test: at most 5"]),
            ("other words of its sentence", good.replace("never does that", "never does"), []),
            ("a changed sentence", good.replace("iff so", "iff not"), ["without", "stale"]),
            ("no promising word", idle, ["stale", "stale"]),
            ("no such gtest", good.replace("A.B", "A.C"), ["no test: unit.A.C"]),
            ("no such program", good.replace("never:a_case", "ever"), ["no test: works.ever"]),
            ("no such case", good.replace(":a_", ":b_"), ["no test: works.never:b_case"]),
            ("no such folder", good.replace("works.never:a_case", "walks.a"), ["no test: walks.a"]),
            ("no such check", good.replace("house.layers", "house.roof"), ["no test: house.roof"]),
            ("no such reason", good.replace("! caller", "! because"), ["form", "form"]),
            ("neither test nor reason", good.replace("        ! caller\n", ""), ["form"]),
        )
        for what, text, wanted in cases:
            faults, _ = examine(root, text)
            matched = all(any(w in f for f in faults) for w in wanted)
            if not matched or len(faults) != len(wanted):
                print(f"check_promises: self-test: {what}: wanted {wanted}, found {faults}")
                return 1
    print("check_promises: the self-test passes")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", nargs="?", const="", metavar="FILE")
    parser.add_argument("--missing", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    args = parser.parse_args()
    if args.self_test:
        return self_test()
    map_path = ROOT / MAP
    faults, rows = examine(ROOT, map_path.read_text(encoding="utf-8") if map_path.exists() else "")
    if args.list is not None:
        for file, sentence, match, holding in rows:
            if args.list in ("", file):
                proofs = [t for e in holding for t in e.tests or [f"({e.reason})"]]
                proof = ", ".join(dict.fromkeys(proofs))
                print(f"{file}: {around(sentence, match)}\n    {proof or 'WITHOUT'}")
        return 0
    if args.missing:
        last = None
        for file, sentence, match, holding in rows:
            if not holding:
                if file != last:
                    print(file)
                print(f"    {around(sentence, match, 400)}")
                last = file
        return 0
    for fault in faults:
        print(f"check_promises: {fault}")
    mapped = sum(bool(holding) for *_, holding in rows)
    tested = sum(any(e.tests for e in holding) for *_, holding in rows)
    print(
        f"check_promises: {len(rows)} promises, {tested} with a test, {mapped - tested} that loam "
        f"does not make, {len(rows) - mapped} without"
    )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
