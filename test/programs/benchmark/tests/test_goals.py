"""How instructions are counted, and how goals are judged."""

import sys
from pathlib import Path
from typing import Any

import pytest
from benchmark import callgrind
from benchmark.devices import Device
from benchmark.measure import ModeRow, Row
from benchmark.modes import AHEAD, DIRECT, EAGER

if sys.platform == "darwin":
    pytest.skip("goals are measured on the simulator", allow_module_level=True)

from benchmark import goals  # noqa: E402

_PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
from benchmark.callgrind import counted, start
sum(range(100_000))
start()
for name, count in (("few", 5_000), ("few", 1_000), ("many", 11_000)):
    with counted(name):
        for _ in range(count):
            pass
"""


def _judged(part: str, rows: dict[str, Row]) -> dict[str, Any]:
    return next(goal for goal in goals.GOALS if part in goal.figure).judge(rows, Device())


def test_instructions_of_a_programs_parts_are_counted(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(_PROGRAM)
    counts = callgrind.run([sys.executable, str(program), str(Path(callgrind.__file__).parents[1])])
    assert set(counts) == {"few", "many"}
    assert 10 < (counts["many"]["Ir"] - counts["few"]["Ir"]) / 10_000 < 1_000
    assert counts["few"]["I1mr"] > 0


def test_a_program_that_fails_under_callgrind_is_named() -> None:
    with pytest.raises(RuntimeError, match="failed under callgrind: lost"):
        callgrind.run([sys.executable, "-c", "raise SystemExit('lost')"])


def test_without_valgrind_a_goal_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    goal = _judged("24 blocks", {})
    assert (goal["value"], goal["met"], goal["detail"]) == (None, None, "valgrind is missing: run `make setup`")


def _row(name: str, encoder_calls: int, ahead: float) -> Row:
    row = Row(name, "dispatch-heavy")
    for mode, calls, seconds in ((EAGER, 100, 1e-3), (DIRECT, encoder_calls, 1e-4), (AHEAD, 4, ahead)):
        row.modes[mode] = ModeRow(seconds, seconds, {"encoder calls": calls, "total": calls})
    return row


def test_goals_of_rows_are_met_missed_or_not_measured() -> None:
    rows = {row.name: row for row in (_row("demo-mlp", 90, 1e-5), _row("demo-vit", 120, 1e-4))}
    met, missed = _judged("demo-mlp", rows), _judged("demo-vit", rows)
    assert (round(met["value"]), met["met"]) == (100, True)
    assert (round(missed["value"]), missed["met"]) == (10, False)
    assert _judged("demo-convnet", rows)["detail"] == "demo-convnet was not run"
    calls = _judged("encoder calls", rows)
    assert (calls["value"], calls["met"], calls["detail"]) == (1.2, False, "demo-vit; 1 of 2 above 1")
    longest = _judged("longest", rows)
    assert (round(longest["value"]), longest["detail"]) == (100, "demo-vit, of 2")


def test_sizes_are_those_of_the_series() -> None:
    core, series = _judged("core, lines", {}), _judged("series, lines", {})
    assert 0 < core["value"] < series["value"]
    assert 0 < _judged("core, C++ files", {})["value"] < 100
