"""The report of a run: a page that needs nothing else, and the pictures of the documentation.

    report.write(directory)         report.html, time.*, rss.*, time_vs_rss.*, fragmentation.* there
    report.write_docs(directory)    keeps the run in bench/results/ and renders docs/benchmarks.md

    python3 bench/lab/report.py [DIRECTORY] [--docs]

Draws what is in rows.csv, run.json and rss.csv, and nothing else: the same files give the same
page. A run that was interrupted, or where much failed, has a report too. Needs python3-jinja2,
python3-matplotlib and python3-numpy.
"""

import argparse
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import jinja2

from lab import plots, report_data, report_docs, report_page, stats

TEMPLATES = Path(__file__).resolve().parent / "templates"


def environment():
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=False,
    )


def page(view):
    """The text of report.html."""
    return environment().get_template("report.html.j2").render(report_page.context(view))


def write(directory):
    """Writes the page and the pictures into the run's directory; returns their paths.

    stats.NoRun, in one line, where there is no run; OSError where it cannot be written.
    """
    directory = Path(directory)
    view = report_data.load(directory)
    target = directory / "report.html"
    target.write_text(page(view), encoding="utf-8")
    return [target, *plots.write(view, directory)]


def write_docs(directory=None):
    """Makes docs/benchmarks.md and its pictures; returns the paths written.

    From this run, which is kept; or without one, again from the run that is kept.
    """
    return report_docs.write(directory and Path(directory), environment())


def main(arguments):
    parser = argparse.ArgumentParser(description="renders the report of a run that is there")
    parser.add_argument("directory", type=Path, nargs="?", help="where rows.csv and run.json are")
    parser.add_argument(
        "--docs", action="store_true",
        help="keep the run and render docs/benchmarks.md; without DIRECTORY, from the kept one",
    )  # fmt: skip
    options = parser.parse_args(arguments)
    if not options.directory and not options.docs:
        parser.error("a DIRECTORY is needed, or --docs")
    try:
        written = write(options.directory) if options.directory else []
        if options.docs:
            written += write_docs(options.directory)
    except (stats.NoRun, OSError, ValueError) as error:
        print(f"report: {error}", file=sys.stderr)
        return 1
    for path in written:
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
