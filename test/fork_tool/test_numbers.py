"""`numbers`: README.md gets the results of a whole demo and a whole run of tests; part of a run is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fork_tool.common.errors import ForkToolError
from fork_tool.suites.numbers import write_numbers
from workshop import Workshop

PAGE = """\
Before.

<!-- demo: written by `make numbers` -->
Old.
<!-- the end of demo -->

Between.

<!-- tests: written by `make numbers` -->
Old, too.
<!-- the end of tests -->
"""


def passes(seconds: float, calls: int) -> dict[str, Any]:
    return {"seconds": seconds, "calls": calls}


DEMO = {
    "simulated": True,
    "small": False,
    "rows": [
        {
            "name": "MLP",
            "steps": {"kernels": 0, "graph_runs": 9, "copies": 1},
            "passes": 1028,
            "largest_difference": 0.0,
            "predictions_differing": 0,
            "predictions": 1733,
            "eager": passes(0.0005, 1176),
            "replay": passes(0.00002, 17),
            "equal": True,
        }
    ],
}
TESTS = {
    "command": "test",
    "complete": True,
    "date": "2026-11-23",
    "machine": {"runs_on": "simulator", "model": "", "cores": 2},
    "total": {"passed": 9000, "failed": 0, "skipped": 17},
    "seconds": 2100.0,
}


def prepare(workshop: Workshop, demo: dict[str, Any] | None, tests: dict[str, Any] | None, page: str = PAGE) -> None:
    (workshop.layout.root / "README.md").write_text(page)
    workshop.layout.reports.mkdir(parents=True, exist_ok=True)
    for name, content in (("demo", demo), ("summary", tests)):
        if content is not None:
            (workshop.layout.reports / f"{name}.json").write_text(json.dumps(content))


def test_both_are_written_and_nothing_else(workshop: Workshop) -> None:
    prepare(workshop, DEMO, TESTS)
    write_numbers(workshop.project)
    text = (workshop.layout.root / "README.md").read_text()
    row = "| MLP | 9 graph runs, 1 copy | 1,028 | 0 | 0 of 1,733 | 0.50 → 0.02 ms | 1,176 → 17 |"
    assert row in text and "SIMULATED" in text
    assert "ran 9,000 tests on a simulator, all of which passed, and skipped 17. The suites took 35 minutes" in text
    assert "Old" not in text
    assert text.startswith("Before.\n") and "\nBetween.\n" in text
    write_numbers(workshop.project)
    assert (workshop.layout.root / "README.md").read_text() == text


@pytest.mark.parametrize(
    ("demo", "tests", "page", "complaint"),
    [
        (None, TESTS, PAGE, "run `make demo`"),
        (DEMO, None, PAGE, "run `make test`"),
        (DEMO | {"small": True}, TESTS, PAGE, "a small one"),
        (DEMO | {"rows": [DEMO["rows"][0] | {"equal": False}]}, TESTS, PAGE, "run `make demo`"),  # type: ignore[index]
        (DEMO, TESTS | {"command": "test --suite 'demo'"}, PAGE, "run `make test`"),
        (DEMO, TESTS | {"complete": False}, PAGE, "run `make test`"),
        (DEMO, TESTS | {"total": TESTS["total"] | {"failed": 1}}, PAGE, "run `make test`"),  # type: ignore[operator]
        (DEMO, TESTS, PAGE.replace("the end of tests", "end"), "README.md must have one line"),
    ],
)
def test_what_is_no_whole_run(
    workshop: Workshop, demo: dict[str, Any] | None, tests: dict[str, Any] | None, page: str, complaint: str
) -> None:
    prepare(workshop, demo, tests, page)
    with pytest.raises(ForkToolError, match=complaint):
        write_numbers(workshop.project)
    assert (workshop.layout.root / "README.md").read_text() == page


def test_the_readme_of_this_repository_has_the_places() -> None:
    from fork_tool.paths import own_layout

    text = (own_layout().root / "README.md").read_text()
    for name in ("demo", "tests"):
        assert (
            text.count(f"<!-- {name}: written by `make numbers` -->") == text.count(f"<!-- the end of {name} -->") == 1
        )
