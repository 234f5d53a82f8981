"""`numbers`: writes what the last `make demo` and `make test` showed, and what pages of long runs say, into README.md."""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path
from typing import Any

from fork_tool.common.errors import ForkToolError
from fork_tool.common.files import write_atomically
from fork_tool.common.words import counted
from fork_tool.series.project import Project
from fork_tool.suites import pages
from fork_tool.suites.captured import totals_of_captured
from fork_tool.suites.reports import COLUMNS

_WIDTH = 140
_FROM_PAGES = {"sweep": pages.sweep, "models": pages.models, "mutants": pages.mutants}


def write_numbers(project: Project) -> list[str]:
    """Return what was written; what is missing or no whole run is an error, and nothing is written."""
    page = project.layout.root / "README.md"
    reports = project.layout.reports
    demo = _read(reports / "demo.json", "make demo")
    tests = _read(reports / "summary.json", "make test")
    text = page.read_text("utf-8")
    text = _replaced(text, "demo", _block(_demo(demo)))
    text = _replaced(text, "tests", _block(_tests(tests)))
    text = _replaced(text, "captured", _captured(project, tests))
    write_atomically(page, with_pages(text, project.layout.root / "docs").encode())
    return ["the table of `make demo`", "the outcome of `make test`", "sums of the pages of sweep, models and mutants"]


def with_pages(text: str, docs: Path) -> str:
    """Return README.md's text with what the pages in docs/ say."""
    for name, said in _FROM_PAGES.items():
        text = _replaced(text, name, said(docs))
    return text


def _read(report: Path, command: str) -> dict[str, Any]:
    if not report.is_file():
        raise ForkToolError(f"There is no {report}: run `{command}` first.")
    content: dict[str, Any] = json.loads(report.read_text("utf-8"))
    return content


def _replaced(text: str, name: str, content: str) -> str:
    begin, end = f"<!-- {name}: written by `make numbers` -->", f"<!-- the end of {name} -->"
    place = re.compile(f"({re.escape(begin)}).*?({re.escape(end)})", re.DOTALL)
    if len(place.findall(text)) != 1:
        raise ForkToolError(f"README.md must have {begin} once and, after it, {end}.")
    return place.sub(lambda found: found[1] + content + found[2], text)


def _block(lines: list[str]) -> str:
    # The others are parts of a table's cell.
    return "\n".join(["", "", *lines, "", ""])


def _demo(report: dict[str, Any]) -> list[str]:
    if report.get("small", True) or not all(row["equal"] for row in report["rows"]):
        raise ForkToolError(
            "The last demo was a small one, or not all of its replays were equal to eager: run `make demo`."
        )
    where = "SIMULATED: Metal and MPSGraph are the simulator's" if report["simulated"] else "On the device"
    rows = []
    for row in report["rows"]:
        steps = ", ".join(counted(count, kind.replace("_", " ")) for kind, count in row["steps"].items() if count)
        eager, replay = row["eager"], row["replay"]
        rows.append(
            [
                row["name"],
                steps,
                f"{row['passes']:,}",
                f"{row['largest_difference']:g}",
                f"{row['predictions_differing']} of {row['predictions']:,}",
                f"{eager['seconds'] * 1e3:.2f} → {replay['seconds'] * 1e3:.2f} ms",
                "–" if eager["calls"] is None else f"{eager['calls']:,} → {replay['calls']:,}",
            ]
        )
    # Simulated time must not be taken for what a Mac gains.
    time = "CPU time per pass on the simulator" if report["simulated"] else "CPU time per pass"
    titles = [
        "model",
        "steps of the graph",
        "passes replayed",
        "largest difference, replay − eager",
        "predictions that differ",
        f"{time}, eager → replay",
        "framework calls per pass, eager → replay",
    ]
    table = ["| " + " | ".join(cells) + " |" for cells in (titles, *rows)]
    return [f"{where}.", "", table[0], "|---" * len(titles) + "|", *table[1:]]


def _tests(report: dict[str, Any]) -> list[str]:
    total = report["total"]
    if report["command"] != "test" or not report["complete"] or total["failed"]:
        raise ForkToolError(
            "The last run of tests was of some suites only, did not come to its end, or failed: run `make test`."
        )
    machine = report["machine"]
    where = "a simulator" if machine["runs_on"] == "simulator" else f"the device of a {machine['model']}"
    minutes, seconds = divmod(round(report["seconds"]), 60)
    said = (
        f"`make test` ran {total['passed'] + total['failed']:,} tests on {where}, all of which passed, and skipped {total['skipped']:,}. "
        f"The suites, which run side by side, took {minutes} min {seconds} s on {machine['cores']} cores on {report['date']}, "
        "the environment and the builds before them not counted."
    )
    return textwrap.wrap(said, _WIDTH, break_on_hyphens=False)


def _captured(project: Project, report: dict[str, Any]) -> str:
    name = "upstream sample, captured"
    suite = next((suite for suite in report["suites"] if suite["name"] == name), None)
    totals = totals_of_captured(project)
    operators, changed = totals["operators"], totals["changed inputs"]
    if suite is None or not operators:
        raise ForkToolError(f"The last run of tests was one without the suite {name!r}: run `make test` on Linux.")
    tests = sum(suite[column] for column in COLUMNS)
    return (
        f"{tests} tests, those on the list of remaining failures among them | {operators['equal']:,} operators equal bit for bit, "
        f"{changed['equal']:,} of them again on changed inputs (nearly all others have no real numbers to change), "
        f"{operators['no effect visible']:,} in which nothing can be seen, {operators['refused']:,} refused (nearly all reads by the "
        f"tests), {operators['different'] + changed['different'] or 'no'} differences"
    )
