"""What report.html is filled with: plain lists and texts, made from a View.

The template decides how it looks and in which order it comes; here is what there is to show.
Every cell of the run is in it: a figure, the word for its failure, or a dash for one never run.
"""

from markupsafe import Markup

from lab import latency, report_claims, report_svg, report_words
from lab.report_data import METRICS, SUITES, TITLES
from lab.report_words import amount, capital, figure, interval

STEPS = (0.5, 0.7, 0.85, 0.95)


def marks(view):
    """{name: its class on the page}."""
    return {name: f"a{index}" for index, name in enumerate(view.names)}


def limit(view, metric):
    """Where the bars of a metric are cut: one scale for all of them, set by the bulk of them."""
    found = sorted(
        ratio.value
        for workload in view.workloads
        for name in view.others
        for ratio in [view.ratio(workload, name, metric)]
        if ratio
    )
    most = found[int(0.95 * (len(found) - 1))] if found else 1
    return min(3.0, max(1.25, 1.1 * most))


# ---- one cell -----------------------------------------------------------------------------------


def cell(view, workload, name, metric):
    """A table's cell and a bar's row: text, value to sort by, a longer text, kind."""
    bad = view.bad(workload, name)
    if bad:
        return {"text": bad[0], "value": None, "title": f"{name}: {bad[1]}", "kind": "bad"}
    own = view.absolute(workload, name, metric)
    ratio = view.ratio(workload, name, metric)
    if own is None:
        return {"text": "–", "value": None, "title": f"{name}: not run", "kind": "none"}
    if ratio is None:
        why = f"{name}: {amount(own, metric)}; no {view.base} to compare it with"
        return {"text": amount(own, metric), "value": None, "title": why, "kind": "none"}
    title = f"{name}: {figure(ratio.value)} ({interval(ratio)}), {amount(own, metric)}"
    return {
        "text": figure(ratio.value), "value": ratio.value, "title": title,
        "kind": tint(ratio.value), "low": ratio.low, "high": ratio.high,
    }  # fmt: skip


def tint(value):
    """g1..g4 for lower, b1..b4 for higher than the baseline, '' for a tie."""
    if value <= STEPS[-1]:
        return f"g{sum(value <= step for step in STEPS)}"
    if 1 / value <= STEPS[-1]:
        return f"b{sum(1 / value <= step for step in STEPS)}"
    return ""


def bar(found, name, mark, most, hero):
    """A row of a panel: what cell() found, and the bar's geometry in percent."""
    row = dict(found, name=name, mark=mark, hero=name == hero, rank=10_000)
    value = found["value"]
    if value is not None:
        row["width"] = 100 * min(1, value / most)
        row["cut"] = value > most
        row["low"] = 100 * min(1, found["low"] / most)
        row["high"] = 100 * min(1, found["high"] / most)
        row["whisker"] = found["high"] - found["low"] > 0.012 * most and not row["cut"]
        row["rank"] = round(1000 * value)
    return row


# ---- panels -------------------------------------------------------------------------------------


def panel(view, workload, metric, most):
    classes = marks(view)
    base = view.absolute(workload, view.base, metric)
    bad = view.bad(workload, view.base)
    note = f"{view.base}: {bad[0]}" if bad else f"{view.base} {amount(base, metric)}"
    rows = [
        bar(cell(view, workload, name, metric), name, classes[name], most, view.hero)
        for name in view.others
    ]
    return {"label": workload.label, "question": workload.question, "note": note, "rows": rows}


def wall_differs(view, workload):
    """Whether wall time says anything that CPU time does not: threads, or waiting."""
    wall, cpu = (view.absolute(workload, view.base, metric) for metric in ("wall_s", "cpu_s"))
    return workload.threads > 1 or bool(wall and cpu and wall > 1.1 * cpu)


def charts(view):
    """[{metric, title, limit, groups: [{title, panels}]}] of the bar charts."""
    found = []
    for metric in METRICS:
        groups = []
        most = limit(view, metric)
        for group in view.groups:
            rows = group.workloads
            if metric == "wall_s":
                rows = [workload for workload in rows if wall_differs(view, workload)]
            if rows:
                panels = [panel(view, workload, metric, most) for workload in rows]
                groups.append({"ident": group.ident, "title": group.title, "panels": panels})
        if groups:
            title = capital(TITLES[metric])
            found.append(
                {
                    "metric": metric,
                    "title": title,
                    "one": 100 / most,
                    "limit": most,
                    "groups": groups,
                }
            )
    return found


def overall(view):
    """The geometric means: [{title, rows}] for each scope and metric, the lowest first."""
    classes, found = marks(view), []
    for metric in ("cpu_s", "peak_kib"):
        orders = {scope: report_words.ranking(view, metric, rows) for scope, rows in view.scopes}
        most = 1.02 * max([1.1, *(mean.high for order in orders.values() for _, mean in order)])
        most = min(most, 4.0)
        for scope, order in orders.items():
            rows = []
            for name, mean in order:
                short = "" if mean.count == mean.total else f" of {mean.count}"
                title = (
                    f"{name}: {figure(mean.value)} ({interval(mean)}), "
                    f"{mean.count} of {mean.total} rows"
                )
                own = {
                    "text": figure(mean.value) + short, "value": mean.value, "title": title,
                    "low": mean.low, "high": mean.high, "kind": "",
                }  # fmt: skip
                rows.append(bar(own, name, classes[name], most, view.hero))
            title = f"{capital(TITLES[metric])}, {SUITES.get(scope, 'all rows')}"
            found.append({"title": title, "rows": rows, "one": 100 / most, "metric": metric})
    return found


# ---- tables -------------------------------------------------------------------------------------


def tables(view):
    """[{metric, title, rows: [{label, group, base, cells}]}]: everything, as figures."""
    classes = marks(view)
    found = []
    for metric in METRICS:
        rows = []
        for group in view.groups:
            for workload in group.workloads:
                best = view.run.best(workload, metric)
                cells = [
                    dict(cell(view, workload, name, metric), mark=classes[name], best=name in best)
                    for name in view.others
                ]
                base = view.absolute(workload, view.base, metric)
                bad = view.bad(workload, view.base)
                text = bad[0] if bad else amount(base, metric)
                rows.append(
                    {
                        "label": workload.label, "group": group.title, "cells": cells,
                        "base": text, "base_value": base, "question": workload.question,
                    }  # fmt: skip
                )
        found.append({"metric": metric, "title": capital(TITLES[metric]), "rows": rows})
    return found


def latencies(view):
    """[{label, question, rows: [{name, mark, cells}]}]: how long single calls took."""
    classes = marks(view)
    return [
        {
            "label": workload.label,
            "question": workload.question,
            "rows": [
                {"name": name, "mark": classes[name], "cells": latency.cells(figures, name)}
                for name in view.names
                if name in figures
            ],
        }
        for workload, figures in latency.tables(view.run, view.workloads)
    ]


def rivals(view):
    """loam against each other allocator: [{name, cells: [{mean, interval, counts}]}]."""
    classes = marks(view)
    found = []
    for name, metrics in report_words.rivals(view):
        cells = [
            each and {
                "value": each.mean.value, "text": figure(each.mean.value),
                "kind": tint(each.mean.value), "interval": interval(each.mean),
                "counts": (each.ahead, each.tie, each.behind),
            }
            for each in metrics.values()
        ]  # fmt: skip
        hardened = name in view.hardened
        found.append({"name": name, "mark": classes[name], "cells": cells, "hardened": hardened})
    return found


def balance(view):
    """Where loam is ahead of the best rival of a row and where behind: for each metric."""
    found = []
    for metric in report_words.ASKED:
        rows = report_words.row_by_row(view, metric)
        lists = {
            verdict: [(figure(ratio), workload.label, rival) for ratio, workload, rival in each]
            for verdict, each in rows.items()
        }
        found.append({"title": capital(TITLES[metric]), **lists})
    return found


def worst(view):
    classes, found = marks(view), []
    for name, metrics, failed in report_words.worst_cases(view):
        cells = [
            each
            and {
                "text": f"{figure(each.factor)}×",
                "where": each.workload.label,
                "best": each.best,
            }
            for each in metrics.values()
        ]
        found.append({"name": name, "mark": classes[name], "cells": cells, "failed": failed})
    return found


def meta_lines(view):
    """[(what, text)] of how the run was made."""
    options = view.meta.get("options")
    if isinstance(options, dict):
        options = ", ".join(
            f"{key} {value}" for key, value in options.items() if value not in (None, False, [], "")
        )
    rows = [
        ("Machine", report_words.machine(view)),
        ("Commit", report_words.commit(view)),
        ("Command", view.command_line),
        ("Options", options and str(options)),
        ("Begun, ended", f"{stamp(view, 'started')}, {stamp(view, 'ended') or 'not yet'}"),
        ("Load at the start", str(view.meta.get("load", ""))),
        ("Rounds", f"{view.rounds}, interleaved; and one before them that does not count"),
    ]
    return [(what, text) for what, text in rows if text]


def title(view):
    """What the page is about: the user's program, or loam, or allocators."""
    names = list(dict.fromkeys(workload.name for workload in view.workloads))
    if names and all(workload.suite == "user" for workload in view.workloads):
        return f"{', '.join(names)} on {len(view.names)} allocators"
    return f"{view.hero} and its rivals" if view.hero else "Allocators compared"


def stamp(view, key):
    return str(view.meta.get(key) or "")[:16].replace("T", " ")


def context(view):
    """Everything the template asks for."""
    classes = marks(view)
    scatters, size = [], report_svg.WIDE
    for scope, rows in view.scopes:
        svg = Markup(report_svg.scatter(view, rows, classes, size))
        scatters.append({"title": SUITES.get(scope, "all rows"), "svg": svg})
        size = report_svg.HALF
    curves = []
    for workload, lines in view.curves().items():
        svg = Markup(report_svg.curves(view, lines, classes))
        curves.append({"label": workload.label, "question": workload.question, "svg": svg})
    claims = report_claims.claims(view)
    told = [claim for claim in claims if claim.verdict != report_claims.UNKNOWN]
    return {
        "view": view, "marks": classes, "base": view.base, "hero": view.hero,
        "palette": [(classes[name], view.colours[name]) for name in view.names],
        "meta": meta_lines(view), "when": report_words.when(view),
        "headline": report_words.headline(view), "overall": overall(view),
        "scatters": [each for each in scatters if each["svg"]], "curves": curves,
        "rivals": rivals(view) if view.hero else [], "balance": balance(view) if view.hero else [],
        "charts": charts(view), "tables": tables(view), "latencies": latencies(view),
        "latency_columns": latency.headings(), "worst": worst(view),
        "failures": [(w.label, name, word, detail) for w, name, word, detail in view.failures()],
        "claims": claims if told else [], "title": title(view),
        "absent": view.meta.get("absent", []),
        "remarks": view.meta.get("remarks", []),
        "questions": view.meta["workloads"],
        "absent_rows": view.meta.get("absent_workloads", []),
        "allocators": [view.allocators[name] for name in view.names],
        "suites": SUITES, "title_of": lambda scope: SUITES.get(scope, "all rows"),
    }  # fmt: skip
