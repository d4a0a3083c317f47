"""docs/benchmarks.md: its generated parts, so that the page never says what was not measured.

The page is written by hand but for the lines between `<!-- NAME: begin -->` and the mark of its
end: `results`, from a run that is kept in bench/results/, and `workloads`, from cases.toml and the
list of real programs. The pictures go to docs/img/bench_*.svg. A test renders all of it again from
bench/results/ and compares: a figure changed by hand, or a workload not listed, fails.

    report.write_docs(directory)    from a run that was just made, which it keeps
    report.write_docs()             again from the one that is kept
"""

import re
import shutil
import tempfile
import textwrap
from pathlib import Path

from lab import (
    latency, more_programs, plots, programs, report_claims, report_data, report_words, workloads,
)  # fmt: skip
from lab.report_words import figure, interval

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "bench" / "results"
PAGE = ROOT / "docs" / "benchmarks.md"
IMAGES = ROOT / "docs" / "img"
PICTURES = ("time_vs_rss", "time", "rss", "fragmentation")


def write(directory, environment, root=ROOT):
    """Keeps the run, if one is given; renders the page's parts and pictures; the paths written."""
    kept = root / RESULTS.relative_to(ROOT)
    page = root / PAGE.relative_to(ROOT)
    if directory:
        report_data.load(directory)
        report_data.pack(directory, kept, root)
    text = page.read_text(encoding="utf-8")
    for name, part in parts(kept, environment).items():
        text = replaced(text, name, part)
    page.write_text(text, encoding="utf-8")
    return [page, *drawn(kept, root / IMAGES.relative_to(ROOT))]


def parts(kept, environment):
    """{name of a part: its text}, as it is to stand between the marks."""
    found = {"workloads": render(environment, "workloads.md.j2", asked())}
    if (kept / "run.json").exists():
        view = report_data.load(kept)
        found["results"] = render(environment, "results.md.j2", context(view))
    return found


def drawn(kept, images):
    """The kept run's pictures, drawn into docs/img; one that it has no data for goes."""
    if not (kept / "run.json").exists():
        return []
    images.mkdir(parents=True, exist_ok=True)
    written = []
    with tempfile.TemporaryDirectory() as scratch:
        plots.write(report_data.load(kept), Path(scratch))
        for name in PICTURES:
            source, target = Path(scratch) / f"{name}.svg", images / f"bench_{name}.svg"
            target.unlink(missing_ok=True)
            if source.exists():
                shutil.copyfile(source, target)
                written.append(target)
    return written


def replaced(text, name, part):
    """The page with the lines between a part's marks replaced. ValueError where there are none."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(end) < text.index(begin):
        raise ValueError(f"{PAGE.name}: not one part marked {begin} ... {end}")
    before, after = text[: text.index(begin)], text[text.index(end) :]
    return f"{before}{begin}\n\n{part.strip()}\n\n{after}"


def between(text, name):
    """What stands between a part's marks."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    return text[text.index(begin) + len(begin) : text.index(end)].strip()


def render(environment, template, values):
    """Rendered as Markdown: nothing is escaped but what would break a table."""
    plain = environment.overlay(autoescape=False, trim_blocks=True, lstrip_blocks=True)
    plain.filters["cell"] = lambda text: str(text).replace("|", "\\|").replace("\n", " ")
    text = plain.get_template(template).render(values)
    return filled(re.sub(r"\n{3,}", "\n\n", text))


def filled(text, columns=100):
    """Paragraphs and items of lists filled; tables, headings, pictures and tags stay as is."""
    out, paragraph = [], []
    for line in [*text.split("\n"), ""]:
        is_item = line.startswith("- ")
        if line and not is_item and not line.startswith(("|", "#", "!", "<")):
            paragraph.append(line)
            continue
        for words, later in ((" ".join(paragraph), ""), (line if is_item else "", "  ")):
            out += textwrap.wrap(
                words,
                columns,
                subsequent_indent=later,
                break_long_words=False,
                break_on_hyphens=False,
            )
        paragraph = []
        if not is_item:
            out.append(line)
    return "\n".join(out[:-1])


# ---- what the templates show --------------------------------------------------------------------


def asked():
    return {"cases": workloads.read_cases(), "programs": (*programs.PROGRAMS, *more_programs.MORE)}


def means(view):
    """[(name, [text])]: each allocator's geometric means, CPU time and peak RSS of each scope."""
    order = [name for name, _ in report_words.ranking(view, "cpu_s", view.workloads)]
    return [
        (
            name,
            [
                mean_text(view.mean(name, metric, rows))
                for metric in report_words.ASKED
                for _, rows in view.scopes
            ],
        )
        for name in [*order, *(name for name in view.names if name not in order)]
    ]


def mean_text(mean):
    if mean is None:
        return "–"
    short = "" if mean.count == mean.total else f", {mean.count} of {mean.total} rows"
    return f"{figure(mean.value)} ({interval(mean)}{short})"


def against_text(each):
    if each is None:
        return ["–", "–"]
    return [
        f"{figure(each.mean.value)} ({interval(each.mean)})",
        f"{each.ahead} / {each.tie} / {each.behind}",
    ]


def figures(view, metric):
    """[(row, baseline's own figure, [text of each other allocator])]."""
    found = []
    for workload in view.workloads:
        bad = view.bad(workload, view.base)
        own = view.absolute(workload, view.base, metric)
        cells = [cell_text(view, workload, name, metric) for name in view.others]
        found.append((workload.label, bad[0] if bad else report_words.amount(own, metric), cells))
    return found


def cell_text(view, workload, name, metric):
    bad = view.bad(workload, name)
    if bad:
        return f"✗ {bad[0]}"
    ratio = view.ratio(workload, name, metric)
    text = figure(ratio.value) if ratio else "–"
    return f"**{text}**" if name in view.run.best(workload, metric) else text


def latencies(view):
    """[(row, [(allocator, [text of each column])])]; bold is within 1.25 times the lowest."""
    return [
        (
            workload.label,
            [
                (
                    name,
                    [
                        f"**{text}**" if lowest else text
                        for text, _, lowest in latency.cells(figures, name)
                    ],
                )
                for name in view.names
                if name in figures
            ],
        )
        for workload, figures in latency.tables(view.run, view.workloads)
    ]


def context(view):
    titles = {"cpu_s": "CPU time", "peak_kib": "Peak RSS"}
    losses = {titles[m]: report_words.row_by_row(view, m) for m in report_words.ASKED}
    return {
        "view": view, "base": view.base, "hero": view.hero,
        "how": report_words.capital(report_words.how(view)), "command": view.command_line,
        "headline": report_words.headline(view) if view.hero else [],
        "scopes": [report_data.SUITES.get(scope, "all rows") for scope, _ in view.scopes],
        "means": means(view), "balance": losses if view.hero else {}, "figure": figure,
        "rivals": [
            (name, [text for each in found.values() for text in against_text(each)])
            for name, found in (report_words.rivals(view) if view.hero else [])
        ],
        "worst": report_words.worst_cases(view), "failures": view.failures(),
        "claims": report_claims.claims(view), "absent": view.meta.get("absent", []),
        "absent_rows": view.meta.get("absent_workloads", []),
        "allocators": [view.allocators[name] for name in view.names],
        "tables": [(titles[metric], figures(view, metric)) for metric in report_words.ASKED],
        "sampled": bool(view.curves()), "latencies": latencies(view),
        "latency_columns": latency.headings(),
    }  # fmt: skip
