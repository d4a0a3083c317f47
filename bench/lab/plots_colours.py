"""One colour for each allocator, the same in every picture and on every page.

loam's is the one strong warm colour; glibc, what the others are compared with, is ink. Related
allocators share a hue (the three mimallocs), hardened ones are hatched or pale. Nobody tells
eleven hues apart by eye alone, and some readers see fewer: so every picture also has a fixed
order of bars, and names where there is room for them. A colour is never all that says who it is.

Each has a tone for light and one for dark paper.
"""

from dataclasses import dataclass

HERO = "loam"


@dataclass(frozen=True)
class Colour:
    light: str
    dark: str


KNOWN = {
    "loam": Colour("#d94801", "#ff8534"),
    "mimalloc": Colour("#08519c", "#6ba6e8"),
    "mimalloc2": Colour("#4a94d0", "#3d78b4"),
    "snmalloc": Colour("#00795c", "#35c79d"),
    "rpmalloc": Colour("#6a3d9a", "#b08be0"),
    "jemalloc": Colour("#b8860b", "#e3b945"),
    "tcmalloc": Colour("#b03a73", "#ee86b7"),
    "tbbmalloc": Colour("#7a5230", "#bd9068"),
    "scudo": Colour("#7d8590", "#8b949e"),
    "mimalloc-secure": Colour("#9db7d3", "#54718f"),
    "loam-secure": Colour("#f4a574", "#a8582a"),
    "glibc": Colour("#24292f", "#e6edf3"),
}

# For an allocator that a user brought along.
SPARE = (
    Colour("#1b9e9e", "#4fd0d0"),
    Colour("#8a9a2b", "#c0d05a"),
    Colour("#c26a8a", "#dfa0b8"),
    Colour("#5a5fc0", "#9a9ff0"),
)

# What a picture is drawn on and with; the first is the light tone that plots.py draws with.
PAPER = Colour("#ffffff", "#0d1117")
INK = Colour("#1f2328", "#e6edf3")
FAINT = Colour("#59636e", "#9aa4af")
GRID = Colour("#dfe3e8", "#2b323b")
FAILURE = Colour("#a40e26", "#ff7b72")


def legible(colour):
    """A colour for letters: the same hue, nearer to ink."""
    return Colour(mixed(colour.light, INK.light), mixed(colour.dark, INK.dark))


def mixed(one, other, share=0.3):
    parts = [(int(one[at : at + 2], 16), int(other[at : at + 2], 16)) for at in (1, 3, 5)]
    return "#" + "".join(f"{round(a + share * (b - a)):02x}" for a, b in parts)


def colours(names):
    """{name: Colour} for these names, each the same whoever else is there, as far as known."""
    spare = (name for name in names if name not in KNOWN)
    lent = {name: SPARE[index % len(SPARE)] for index, name in enumerate(spare)}
    return {name: KNOWN.get(name) or lent[name] for name in names}


def ordered(names, baseline, hardened):
    """The order of bars everywhere: loam, the fast ones, the hardened ones, the baseline."""
    known = list(KNOWN)
    rank = {name: index for index, name in enumerate(known)}

    def place(name):
        group = 3 if name == baseline else 0 if name == HERO else 2 if name in hardened else 1
        return group, rank.get(name, len(known)), name

    return sorted(names, key=place)
