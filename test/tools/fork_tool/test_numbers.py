"""`numbers`: README.md gets the results of a whole demo and a whole run of tests; part of a run is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fork_tool.common.errors import ForkToolError
from fork_tool.paths import own_layout
from fork_tool.suites.numbers import with_pages, write_numbers
from workshop import Workshop

PAGE = """\
Before.

| the sweep | <!-- sweep: written by `make numbers` -->Old.<!-- the end of sweep --> |
| the sample | <!-- captured: written by `make numbers` -->9 tests | Old.<!-- the end of captured --> |
| models | <!-- models: written by `make numbers` -->Old.<!-- the end of models --> |
| mutants | <!-- mutants: written by `make numbers` -->Old.<!-- the end of mutants -->, three runs |

<!-- demo: written by `make numbers` -->
Old.
<!-- the end of demo -->

Between.

<!-- tests: written by `make numbers` -->
Old, too.
<!-- the end of tests -->
"""

SWEEP = """\
| outcome | cases | operators |
|---|---|---|
| equal | 1,000 | 3 |
| equal_up_to_rounding | 2 | 1 |
| unchanged_inputs | 30 | 1 |
| no_effect_visible | 400 | 1 |
| refused | 5 | 1 |
| wrong | 6 | 1 |
| crash | 7 | 1 |
| eager_lacks | 8 | 1 |
| simulator_refused | 9 | 1 |

| outcome | reason | cases | operators |
|---|---|---|---|
| equal | host read | 1 | 1 |
| refused | CPU fallback | 2 | 1 |
| refused | host read | 3 | 1 |
"""
MODELS = """\
7 architectures, 14 runs; eager does not run 2 of them.

| | equal | as traced | not repeatable | refused | fails | differs |
| --- | --: | --: | --: | --: | --: | --: |
| as it is | 5 | 0 | 0 | 7 | 0 | 0 |
| compiled | 8 | 3 | 0 | 0 | 0 | 1 |

| model | compiled: pieces |
| --- | --- |
| gpt2 | equal: 2 |
| llama | as traced: 2 |
| swin | **not repeatable** the trace differs from itself |
| t5 | **differs** by 1 |
"""
MUTANTS = "# Mutants\n\n12 mutants: 11 caught, 1 survived.\n"


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
    "suites": [
        {
            "name": "upstream sample, captured",
            "passed": 100,
            "failed": 0,
            "skipped": 20,
            "expected_failures": 3,
            "known_failures": 4,
            "not_run": 1,
        }
    ],
    "seconds": 2099.3,
}


# What each of two processes counted.
CAPTURED = {
    "operators": {"equal": 600, "nothing to replay": 9, "refused": 70, "no effect visible": 8, "different": 1},
    "changed inputs": {"equal": 500},
    "refusals": {"the host read device data": 70},
}


def prepare(workshop: Workshop, demo: dict[str, Any] | None, tests: dict[str, Any] | None, page: str = PAGE) -> None:
    (workshop.layout.root / "README.md").write_text(page)
    docs = workshop.layout.root / "docs"
    docs.mkdir(exist_ok=True)
    for name, text in (("sweep", SWEEP), ("models", MODELS), ("mutants", MUTANTS)):
        (docs / f"{name}.md").write_text(text)
    counts = workshop.layout.reports / "capture_mode"
    counts.mkdir(parents=True, exist_ok=True)
    for part in ("1", "2"):
        (counts / f"{part}.json").write_text(json.dumps(CAPTURED))
    for name, content in (("demo", demo), ("summary", tests)):
        if content is not None:
            (workshop.layout.reports / f"{name}.json").write_text(json.dumps(content))


def test_both_are_written_and_nothing_else(workshop: Workshop) -> None:
    prepare(workshop, DEMO, TESTS)
    write_numbers(workshop.project)
    text = (workshop.layout.root / "README.md").read_text()
    row = "| MLP | 9 graph runs, 1 copy | 1,028 | 0 | 0 of 1,733 | 0.50 → 0.02 ms | 1,176 → 17 |"
    assert row in text and "SIMULATED" in text
    lines = text[text.index("`make test` ran") :].splitlines()
    assert "ran 9,000 tests on a simulator, all of which passed, and skipped 17. The suites, which run" in lines[0]
    assert "took 34 min 59 s on 2 cores" in f"{lines[0]} {lines[1]}" and max(map(len, lines)) <= 140
    assert "| CPU time per pass on the simulator, eager → replay |" in text
    said = (
        "of 1,450 cases that eager runs 1,000 equal bit for bit, 2 up to eager's own rounding, 5 raise during the capture "
        "(host read 3, CPU fallback 2), 430 that prove nothing (inputs that can't be changed, results that need no replay), 6 wrong",
        "128 tests, those on the list of remaining failures among them | 1,200 operators equal bit for bit, 1,000 of them again",
        "16 in which nothing can be seen, 140 refused (nearly all reads by the tests), 2 differences",
        "of 12 runs that eager makes (7 architectures, float32 and float16) 8 compiled ones equal bit for bit and 3 equal to what",
        "none refused. As they are 5 equal, 7 raise during the capture",
        "Of 4 trained for five steps 1 equal, 1 as traced, 1 whose trace does not repeat itself; 1 compiled differs",
        "12 mutants: 11 caught, 1 survived<!-- the end of mutants -->, three runs",
    )
    for one in said:
        assert one in text
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
        (DEMO, TESTS, PAGE.replace("the end of tests", "end"), "README.md must have .* once"),
    ],
)
def test_what_is_no_whole_run(
    workshop: Workshop, demo: dict[str, Any] | None, tests: dict[str, Any] | None, page: str, complaint: str
) -> None:
    prepare(workshop, demo, tests, page)
    with pytest.raises(ForkToolError, match=complaint):
        write_numbers(workshop.project)
    assert (workshop.layout.root / "README.md").read_text() == page


@pytest.mark.parametrize(
    ("page", "without"),
    [
        ("sweep", "| outcome | cases | operators |"),
        ("sweep", "1,000"),
        ("models", "7 architectures"),
        ("mutants", "12 mutants"),
    ],
)
def test_page_that_lacks_something_is_named(workshop: Workshop, page: str, without: str) -> None:
    prepare(workshop, DEMO, TESTS)
    path = workshop.layout.root / "docs" / f"{page}.md"
    path.write_text(path.read_text().replace(without, "?"))
    with pytest.raises(ForkToolError, match=f"docs/{page}.md has .*make {page} PAGE=docs/{page}.md"):
        write_numbers(workshop.project)
    assert (workshop.layout.root / "README.md").read_text() == PAGE


def test_the_readme_of_this_repository_says_what_its_pages_say() -> None:
    root = own_layout().root
    text = (root / "README.md").read_text()
    assert with_pages(text, root / "docs") == text


@pytest.mark.parametrize("name", ["demo", "tests", "captured"])
def test_the_readme_of_this_repository_has_the_places(name: str) -> None:
    text = (own_layout().root / "README.md").read_text()
    assert text.count(f"<!-- {name}: written by `make numbers` -->") == text.count(f"<!-- the end of {name} -->") == 1
