"""What the commands in front of the engine share: bench/run.py, bench/family/run.py, demo/run.py.

It needs no package but Python's own: it is what says that others are missing.
"""

import codecs
import sys
import tempfile
from pathlib import Path


class WrongUse(Exception):
    """Told to the user in one line; exit status 2."""


# For a terminal or a file whose encoding lacks them: as wide as what they stand for.
PLAIN = str.maketrans({"±": "~", "─": "-", "━": "-", "╸": "-", "╺": "-", "…": ".", "×": "x",
                       "–": "-", "—": "-", "’": "'", "“": '"', "”": '"', "│": "|"})  # fmt: skip


def plain_characters(error):
    """An error handler of codecs: what cannot be encoded is written in ASCII."""
    text = error.object[error.start : error.end].translate(PLAIN)
    return "".join(each if each.isascii() else "?" for each in text), error.end


def use_any_terminal():
    """From now on no character ends the program, whatever encoding its output has."""
    codecs.register_error("loam.plain", plain_characters)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="loam.plain")


def make_out(path):
    """The folder for the results, made and found writable."""
    out = Path(path)
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise WrongUse(f"--out {path}: cannot write there: {error.strerror}") from error
    return out


def require(modules, install):
    """Wrong use unless every one of {module: Debian package} is there; "{}" in `install` is
    them."""
    missing = []
    for module, package in modules.items():
        try:
            __import__(module)
        except ImportError:
            missing.append(package)
    if missing:
        raise WrongUse(
            f"{sys.executable} lacks {' and '.join(missing)}; install: "
            f"{install.format(' '.join(missing))} (and run with /usr/bin/python3)"
        )
