"""Makes the repository that git packs and shows in the lab.

write(git, path, count) makes a bare repository with a history of `count` commits on some forty
files of a thousand lines or fewer: lines change, move and grow; now and then a file is renamed.
Names, dates and texts are fixed, so every object has the same hash everywhere. It needs git itself
(`git fast-import`).
"""

import subprocess

FILES = 40
START = 1_500_000_000


class Numbers:
    def __init__(self, seed):
        self.state = seed

    def below(self, bound):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.state >> 33) % bound


def line(numbers):
    words = [f"word{numbers.below(500)}" for _ in range(3 + numbers.below(8))]
    return " ".join(words) + f" = {numbers.below(100000)};"


def edit(lines, numbers):
    """A few lines changed, one block moved, some added."""
    for _ in range(3):
        lines[numbers.below(len(lines))] = line(numbers)
    at, to = numbers.below(len(lines)), numbers.below(len(lines))
    block = lines[at : at + 5]
    del lines[at : at + 5]
    lines[to:to] = block
    if len(lines) < 1000:
        lines.extend(line(numbers) for _ in range(4))


def commit(number, name, lines, renamed):
    text = "\n".join(lines) + "\n"
    message = f"change {number}\n"
    out = [
        "commit refs/heads/main",
        f"committer A Writer <writer@example.org> {START + 600 * number} +0000",
        f"data {len(message)}",
        message,
    ]
    if renamed:
        out.append(f"R {renamed} {name}")
    out += [f"M 100644 inline {name}", f"data {len(text)}", text]
    return "\n".join(out) + "\n"


def stream(count):
    numbers = Numbers(11)
    names = [f"part{number % 5}/file{number}.txt" for number in range(FILES)]
    texts = [[line(numbers) for _ in range(60 + numbers.below(300))] for _ in range(FILES)]
    for number in range(count):
        at = number if number < FILES else numbers.below(FILES)
        renamed = None
        if number >= FILES:
            edit(texts[at], numbers)
            if number % 29 == 0:
                renamed, names[at] = names[at], f"part{number % 5}/file{at}_{number}.txt"
        yield commit(number, names[at], texts[at], renamed)


def write(git, path, count):
    env = {
        "PATH": "/usr/bin:/bin",
        "HOME": "/nonexistent",
        "GIT_CONFIG_NOSYSTEM": "1",
        "LC_ALL": "C",
    }

    def run(*arguments, **more):
        subprocess.run([git, *arguments], env=env, check=True, capture_output=True, **more)

    run("init", "-q", "--bare", str(path))
    run("-C", str(path), "symbolic-ref", "HEAD", "refs/heads/main")
    run("-C", str(path), "fast-import", "--quiet", input="".join(stream(count)).encode())
