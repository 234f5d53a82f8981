"""`numbers`: writes what the last `make demo` and `make test` showed into README.md."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from fork_tool.common.errors import ForkToolError
from fork_tool.common.files import write_atomically
from fork_tool.common.words import counted
from fork_tool.series.project import Project

_COLUMNS = (
    "model",
    "steps of the graph",
    "passes replayed",
    "largest difference, replay − eager",
    "predictions that differ",
    "CPU time per pass, eager → replay",
    "framework calls per pass, eager → replay",
)


def write_numbers(project: Project) -> list[str]:
    """Return what was written; what is missing or no whole run is an error, and nothing is written."""
    page = project.layout.root / "README.md"
    reports = project.layout.reports
    demo = _read(reports / "demo.json", "make demo")
    tests = _read(reports / "summary.json", "make test")
    text = page.read_text("utf-8")
    text = _replaced(text, "demo", _demo(demo))
    text = _replaced(text, "tests", _tests(tests))
    write_atomically(page, text.encode())
    return ["the table of `make demo`", "the outcome of `make test`"]


def _read(report: Path, command: str) -> dict[str, Any]:
    if not report.is_file():
        raise ForkToolError(f"There is no {report}: run `{command}` first.")
    content: dict[str, Any] = json.loads(report.read_text("utf-8"))
    return content


def _replaced(text: str, name: str, lines: list[str]) -> str:
    begin, end = f"<!-- {name}: written by `make numbers` -->\n", f"<!-- the end of {name} -->"
    block = re.compile(f"({re.escape(begin)}).*?({re.escape(end)})", re.DOTALL)
    if len(block.findall(text)) != 1:
        raise ForkToolError(f"README.md must have one line {begin.strip()} and, after it, one line {end}.")
    return block.sub(lambda found: found[1] + "\n" + "\n".join(lines) + "\n\n" + found[2], text)


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
    table = ["| " + " | ".join(cells) + " |" for cells in ([*_COLUMNS], *rows)]
    return [f"{where}.", "", table[0], "|---" * len(_COLUMNS) + "|", *table[1:]]


def _tests(report: dict[str, Any]) -> list[str]:
    total = report["total"]
    if report["command"] != "test" or not report["complete"] or total["failed"]:
        raise ForkToolError(
            "The last run of tests was of some suites only, did not come to its end, or failed: run `make test`."
        )
    machine = report["machine"]
    where = "a simulator" if machine["runs_on"] == "simulator" else f"the device of a {machine['model']}"
    return [
        f"`make test` ran {total['passed'] + total['failed']:,} tests on {where}, all of which passed, and skipped "
        f"{total['skipped']}. The suites took {report['seconds'] / 60:.0f} minutes on {machine['cores']} cores on {report['date']}, "
        "the environment and the simulator not counted.",
    ]
