"""What the literature says about these allocators, and whether this run shows it.

A run that does not show what everybody else found is either wrong or interesting, so each claim
is computed, with its figures, and one that does not hold has a place for the explanation: the
table [claims] of notes.toml in the run's directory (bench/results/ for the one that is kept). The
claims are about rivals; loam has no part in them.
"""

import tomllib
from dataclasses import dataclass

from lab.report_data import TITLES
from lab.report_words import figure, interval, listed, rows_text
from lab.results import TIE

HOLDS, PARTLY, FAILS, UNKNOWN = "holds", "holds in part", "does not hold", "cannot be told"


@dataclass(frozen=True)
class Claim:
    ident: str
    sentence: str
    source: str
    verdict: str
    figures: tuple
    explanation: str = ""


def remote_frees(run):
    """snmalloc and mimalloc against tcmalloc and jemalloc where threads free others' objects."""
    rows = [w for w in run.workloads if "remote" in w.tags and w.threads > 1]
    pairs = [(f, b) for f in ("snmalloc", "mimalloc") for b in ("tcmalloc", "jemalloc")]
    return pairwise(run, pairs, rows, ("cpu_s", "wall_s"))


def hardened_behind(run):
    """Each hardened allocator against each fast one, on the synthetic workloads."""
    rows = [w for w in run.workloads if w.suite == "micro"]
    fast = [n for n in run.others if n not in run.hardened and n != run.hero]
    hard = [n for n in run.others if n in run.hardened and n != f"{run.hero}-secure"]
    pairs = [(rival, name) for name in hard for rival in fast]
    return pairwise(run, pairs, rows, ("cpu_s",))


def glibc_behind(run):
    """In how many rows most of the fast allocators are ahead of glibc."""
    fast = [n for n in run.others if n not in run.hardened and n != run.hero]
    rows = [w for w in run.workloads if run.absolute(w, "glibc", "cpu_s")]
    behind, ahead = [], []
    for workload in rows:
        verdicts = [run.verdict(workload, name, "glibc", "cpu_s") for name in fast]
        if 2 * verdicts.count("ahead") > len(fast):
            behind.append(workload)
        elif 2 * verdicts.count("behind") > len(fast):
            ahead.append(workload)
    if not rows or not fast:
        return UNKNOWN, ()
    even = len(rows) - len(behind) - len(ahead)
    text = (
        f"in {len(behind)} of {rows_text(len(rows))} most of {listed(fast)} are more than 5% "
        f"ahead of glibc, in {len(ahead)} behind it, in {even} neither"
    )
    share = len(behind) / len(rows)
    return HOLDS if share > 0.5 else PARTLY if len(behind) > len(ahead) else FAILS, (text,)


def false_sharing(run):
    """tcmalloc may hand lines of one cache line to two threads; mimalloc does not."""
    rows = [w for w in run.workloads if w.name.startswith("cache-") and w.threads > 1]
    pairs = [(rival, "tcmalloc") for rival in ("mimalloc", "rpmalloc", "tbbmalloc")]
    return pairwise(run, pairs, rows, ("wall_s",))


def migration_costs_tcmalloc(run):
    """tcmalloc against mimalloc: with objects that change threads (sh8), and without (sh6)."""
    found = {}
    for name in ("sh6", "sh8"):
        rows = [w for w in run.workloads if w.name.startswith(name)]
        found[name] = run.mean("tcmalloc", "cpu_s", rows, "mimalloc")
    if not all(found.values()):
        return UNKNOWN, ()
    values = {name: mean.value for name, mean in found.items()}
    text = listed(f"{name}: {figure(value)}" for name, value in values.items())
    more = values["sh8"] / values["sh6"]
    holds = HOLDS if more > 1 + TIE else FAILS
    return holds, (f"CPU time of tcmalloc relative to mimalloc, {text}",)


def pairwise(run, pairs, rows, metrics):
    """Every pair's first is to be lower than its second: (verdict, figures).

    One sentence for each second and metric, that all its firsts stand in.
    """
    sentences, good, total = {}, 0, 0
    for metric in metrics:
        for front, back in pairs:
            mean = run.mean(back, metric, rows, front)
            if not mean:
                continue
            total += 1
            good += mean.value > 1 + TIE
            text = f"{figure(mean.value)} ({interval(mean)}) times {front}'s"
            sentences.setdefault((back, metric), []).append((text, mean.count))
    figures = tuple(
        f"{back}'s {TITLES[metric]} is {over_rows(texts)}"
        for (back, metric), texts in sentences.items()
    )
    if not figures:
        return UNKNOWN, ()
    return HOLDS if good == total else PARTLY if good else FAILS, figures


def over_rows(texts):
    """The texts listed, with how many rows each is over: once, if that is the same for all."""
    counts = {count for _, count in texts}
    if len(counts) == 1:
        return f"{listed(text for text, _ in texts)}, over {rows_text(counts.pop())}"
    return listed(f"{text} over {rows_text(count)}" for text, count in texts)


CLAIMS = (
    (
        "remote-frees",
        "snmalloc and mimalloc are far ahead of tcmalloc and jemalloc where threads free each "
        "other's objects",
        "the papers of snmalloc (ISMM 2019) and mimalloc (APLAS 2019)",
        remote_frees,
    ),
    (
        "hardened",
        "hardened allocators are behind the fast ones",
        "mimalloc's documentation (about 10% for its secure build), scudo's",
        hardened_behind,
    ),
    (
        "glibc",
        "glibc is behind most of the others in most workloads",
        "the published results of mimalloc, snmalloc and rpmalloc",
        glibc_behind,
    ),
    (
        "false-sharing",
        "tcmalloc lets threads share cache lines where mimalloc, rpmalloc and tbbmalloc do not",
        "Crundal 2016 on tcmalloc; Kukanov and Voss 2007 on tbbmalloc",
        false_sharing,
    ),
    (
        "migration",
        "tcmalloc does well in sh6 and loses ground in sh8, where objects change threads",
        "mimalloc's published results of 2020",
        migration_costs_tcmalloc,
    ),
)


def notes(run):
    """{claim: explanation}: the run's own, since what explains one run explains no other."""
    path = run.directory / "notes.toml"
    if not path.exists():
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8")).get("claims", {})
    except tomllib.TOMLDecodeError as error:
        damage = f"{path.name} is damaged: {error}"
        return dict.fromkeys((each[0] for each in CLAIMS), damage)


def claims(run):
    """Every Claim, computed from this run."""
    explanations = notes(run)
    found = []
    for ident, sentence, source, compute in CLAIMS:
        verdict, figures = compute(run)
        explanation = explanations.get(ident, "")
        found.append(Claim(ident, sentence, source, verdict, figures, explanation))
    return found
