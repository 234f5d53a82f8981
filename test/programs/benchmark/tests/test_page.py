"""What the page says of a run and of its goals: the day, and why a goal has no value or is missed."""

from __future__ import annotations

import pytest
from benchmark import goals, report
from benchmark.devices import Device
from benchmark.goals import GOALS
from benchmark.page import _goals_table, page_text
from benchmark.report import content


def test_a_goal_without_a_value_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setattr(goals, "REPOSITORY", tmp_path)
    (over_base,) = (one for one in GOALS if "÷ base" in one.figure)
    row = _goals_table([vars(over_base.judge({}, Device()))]).splitlines()[-1]
    assert "| not measured | ≤ 1.01 | takes a second build, of the base without the series (`make simulator" in row


def test_a_missed_goal_says_what_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(goals, "_build_ratio", lambda one, other: 1.005 if one == other else 1.02)
    (over_base,) = (one for one in GOALS if "÷ base" in one.figure)
    row = _goals_table([vars(over_base.judge({}, Device()))]).splitlines()[-1]
    assert "| 1.02 | ≤ 1.01 | **no**: the base against itself, measured the same way, gives 1.005" in row


def test_the_page_has_the_day_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "sources_of", lambda _device: "")
    run = content([], Device()) | {"date": "2026-11-20"}
    text = page_text(run, "bench")
    assert "in 0 configurations" in text and "`make bench PAGE=…` wrote it on 2026-11-20." in text
    del run["date"]
    assert "`make bench PAGE=…` wrote it.\n" in page_text(run, "bench")
