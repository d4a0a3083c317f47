"""git on loam: import, clone, gc --aggressive, fsck, history, merges.

A history of some hundred commits is imported from a generated stream, so that every object has the
same name each time; with and without the preload the same commands must then print the same. Packs
are made by several threads and may differ; the objects in them may not.
"""

import preload

COMMITS = 400
FILES = 60

# Each command's output is compared; {r} is the repository, {c} its clone.
COMMANDS = (
    ["git", "-C", "{r}", "fsck", "--full", "--strict"],
    ["git", "clone", "-q", "--no-local", "--bare", "{r}", "{c}.bare"],
    ["git", "clone", "-q", "file://{r}", "{c}"],
    ["git", "-C", "{c}", "gc", "--aggressive", "--prune=now", "--quiet"],
    [
        "git",
        "-C",
        "{r}",
        "repack",
        "-a",
        "-d",
        "-f",
        "-q",
        "--depth=40",
        "--window=60",
        "--threads=4",
    ],
    [
        "git",
        "-C",
        "{r}",
        "commit-graph",
        "write",
        "--reachable",
        "--changed-paths",
        "--no-progress",
    ],
    ["git", "-C", "{c}", "fsck", "--full", "--strict"],
    ["git", "-C", "{r}", "cat-file", "--batch-all-objects", "--batch-check"],
    ["git", "-C", "{c}", "log", "-p", "--stat", "-M", "-C", "--format=fuller"],
    ["git", "-C", "{c}", "log", "--graph", "--oneline", "--all", "--topo-order", "--", "dir1"],
    ["git", "-C", "{c}", "blame", "-w", "-M", "-C", "HEAD", "--", "dir1/file1.txt"],
    ["git", "-C", "{c}", "grep", "-n", "-E", "--threads=4", "word(7|77) ", "HEAD~50"],
    ["git", "-C", "{c}", "merge", "-q", "-m", "merged", "origin/side"],
    ["git", "-C", "{c}", "rebase", "-q", "HEAD^2~5"],
    ["git", "-C", "{c}", "ls-tree", "-r", "HEAD"],
    ["git", "-C", "{c}", "archive", "--format=tar", "HEAD"],
    ["git", "clone", "-q", "--depth=3", "--no-single-branch", "file://{r}", "{c}.shallow"],
    ["git", "-C", "{c}", "worktree", "add", "-q", "../{name}.tree", "HEAD~3"],
    ["git", "-C", "{c}", "status", "--porcelain"],
    ["git", "-C", "{c}", "rev-parse", "HEAD", "HEAD~10", "origin/side"],
)

FIXED = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_PAGER": "cat",
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_AUTHOR_DATE": "1700000000 +0000",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.org",
    "GIT_COMMITTER_DATE": "1700000000 +0000",
}


def history():
    """A stream for git fast-import: two branches, text that is edited, files that are renamed."""
    out, seed, text = [], 1, {}

    def number(below):
        nonlocal seed
        seed = seed * 48271 % 2147483647
        return seed % below

    def data(content):
        body = content.encode()
        out.append(b"data %d\n%s\n" % (len(body), body))

    for commit in range(1, COMMITS + 1):
        side = commit > COMMITS * 3 // 4 and commit % 3 == 0
        branch = b"refs/heads/side" if side else b"refs/heads/main"
        out.append(b"commit %s\nmark :%d\n" % (branch, commit))
        out.append(b"committer C <c@example.org> %d +0000\n" % (1600000000 + commit * 60))
        data(f"commit {commit}\n\n" + "reason " * number(50))
        if side and commit - 3 <= COMMITS * 3 // 4:
            out.append(b"from :%d\n" % (COMMITS * 3 // 4))
        for _ in range(1 + number(4)):
            # The side branch has files of its own, so that merging it back needs nobody's decision.
            name = (
                f"side/file{number(9)}.txt" if side else f"dir{number(4)}/file{number(FILES)}.txt"
            )
            lines = text.setdefault(
                name, [f"line {i} of {name}\n" for i in range(20 + number(200))]
            )
            for _ in range(1 + number(8)):
                lines.insert(
                    number(len(lines)), f"word{number(100)} word{number(100)} in commit {commit}\n"
                )
            out.append(b"M 100644 inline %s\n" % name.encode())
            data("".join(lines))
        if commit % 50 == 0:
            out.append(b"M 100644 inline big%d.bin\n" % (commit // 50))
            data("".join(chr(32 + number(90)) for _ in range(60000)))
    out.append(b"done\n")
    return b"".join(out)


def work(bench, stream, preloaded):
    """All commands in a fresh folder whose name has no influence. Returns {command: output}."""
    folder = bench.subfolder("work")
    places = {"r": folder / "origin", "c": folder / "clone", "name": "second"}

    def git(argv, stdin=b""):
        return bench.run(
            [word.format(**places) for word in argv],
            preload=preloaded,
            env=FIXED,
            stdin=stdin,
            cwd=folder,
        ).out

    git(["git", "init", "-q", "-b", "main", "{r}"])
    for setting in ("pack.threads=4", "core.fsync=none", "uploadpack.allowFilter=true"):
        git(["git", "-C", "{r}", "config", *setting.split("=")])
    git(["git", "-C", "{r}", "fast-import", "--quiet", "--done"], stream)
    return {" ".join(argv): git(argv) for argv in COMMANDS}


def test(bench):
    git = bench.need("git")
    stream = history()
    plain = work(bench, stream, False)
    bench.path("work").rename(bench.path("plain"))
    loam = work(bench, stream, True)
    for command in plain:
        bench.same(plain[command], loam[command], command)
    preload.expect(
        len(loam[" ".join(COMMANDS[8])]) > 500_000, "the history is smaller than intended"
    )

    # What was written under loam, read without it.
    clone = bench.path("work") / "clone"
    bench.run([git, "-C", clone, "fsck", "--full", "--strict"], preload=False, env=FIXED)
    bench.answers([git, "-C", clone, "gc", "--quiet"], ["git"], env=FIXED)


preload.main(test)
