"""What the pages of long runs say in sum, as README.md has it."""

from __future__ import annotations

import re
from pathlib import Path

from fork_tool.common.errors import ForkToolError


def sweep(docs: Path) -> str:
    """From the page of `make sweep`."""
    page = _Page(docs / "sweep.md", "make sweep")
    cases = {cells[0]: page.number(cells[1]) for cells in page.table("outcome", "cases", "operators")}
    refused = {
        cells[1]: cells[2] for cells in page.table("outcome", "reason", "cases", "operators") if cells[0] == "refused"
    }
    ran = sum(count for outcome, count in cases.items() if not outcome.startswith(("eager_", "simulator_")))
    nothing_shown = cases["unchanged_inputs"] + cases["no_effect_visible"]
    return (
        f"of {ran:,} cases that eager runs {cases['equal']:,} equal bit for bit, {cases['equal_up_to_rounding']:,} up to eager's own "
        f"rounding, {cases['refused']:,} raise during the capture (host read {refused['host read']}, CPU fallback "
        f"{refused['CPU fallback']}), {nothing_shown:,} that prove nothing (inputs that can't be changed, results that need no replay), "
        f"{cases['wrong']:,} wrong"
    )


def models(docs: Path) -> str:
    """From the page of `make models`."""
    page = _Page(docs / "models.md", "make models")
    titles = ("equal", "as traced", "not repeatable", "refused", "fails", "differs")
    rows = {cells[0]: dict(zip(titles, map(page.number, cells[1:]))) for cells in page.table("", *titles)}
    plain, compiled = rows["as it is"], rows["compiled"]
    trained = [cells[1].strip("*").split("**")[0].split(":")[0] for cells in page.table("model", "compiled: pieces")]
    architectures = page.found(r"(\d+) architectures")
    wrong = [f"{row[bad]:,} {way} {bad}" for way, row in rows.items() for bad in ("fails", "differs") if row[bad]]
    return (
        f"of {sum(compiled.values()):,} runs that eager makes ({architectures} architectures, float32 and float16) "
        f"{compiled['equal']:,} compiled ones equal bit for bit and {compiled['as traced']:,} equal to what AOTAutograd traces, which "
        f"rounds otherwise; {compiled['refused'] or 'none'} refused. As they are {plain['equal']:,} equal, {plain['refused']:,} raise "
        f"during the capture (most read their mask). Of {len(trained)} trained for five steps {trained.count('equal')} equal, "
        f"{trained.count('as traced')} as traced, {trained.count('not repeatable')} whose trace does not repeat itself"
        + "".join(f"; {one}" for one in wrong)
    )


def mutants(docs: Path) -> str:
    """From the page of `make mutants`."""
    page = _Page(docs / "mutants.md", "make mutants")
    return page.found(r"(?m)^(\d+ mutants: \d+ caught, \d+ survived)")


class _Page:
    def __init__(self, path: Path, command: str) -> None:
        self._name, self._command = path.name, command
        if not path.is_file():
            raise self._wrong("is missing")
        self._text = path.read_text("utf-8")

    def table(self, *titles: str) -> list[list[str]]:
        """Return the rows' cells of the table that has these titles."""
        lines = iter(self._text.splitlines())
        for line in lines:
            if _cells(line) == list(titles):
                next(lines)
                rows = []
                for row in lines:
                    if not row.startswith("|"):
                        break
                    rows.append(_cells(row))
                return rows
        raise self._wrong(f"has no table with the columns {', '.join(map(repr, titles))}")

    def found(self, pattern: str) -> str:
        if (found := re.search(pattern, self._text)) is None:
            raise self._wrong(f"has nothing like {pattern!r}")
        return found[1]

    def number(self, text: str) -> int:
        try:
            return int(text.replace(",", ""))
        except ValueError:
            raise self._wrong(f"has {text!r} where a number should be") from None

    def _wrong(self, what: str) -> ForkToolError:
        return ForkToolError(f"docs/{self._name} {what}: write it again with `{self._command} PAGE=docs/{self._name}`.")


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else []
