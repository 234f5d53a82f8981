"""Whole configurations: what is compared, and what a fault does to the run."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from benchmark import devices, goals, page, report
from benchmark import run as program
from benchmark.case import Case, new_input
from benchmark.comparison import Comparison, DEVICE, EXACT
from benchmark.configurations import choose, load
from benchmark.families import BUILDERS
from benchmark.goals import GOALS, measure_all
from benchmark.measure import build, ModeRow, Row, run
from benchmark.modes import capture, DIRECT, EAGER, in_step, MODES, REBIND

QUICK = ("demo-mlp", "demo-decoder-16", "sgd-momentum-200")
simulator_only = pytest.mark.skipif(sys.platform == "darwin", reason="calls are recorded on the simulator")


@pytest.fixture
def device() -> Iterator[devices.Device]:
    found = devices.find("mps")
    yield found
    found.give_back()


def _run(name: str, device: devices.Device, left_out: bool = False) -> Row:
    return run(choose(load(), (name,), quick=False)[0], device, trials=1, left_out=left_out)


@pytest.mark.parametrize("name", QUICK)
def test_replays_equal_eager_and_need_fewer_calls(name: str, device: devices.Device) -> None:
    row = _run(name, device)
    assert list(row.modes) == list(MODES)
    assert row.steps["graph_runs"] > 0
    eager, direct = row.modes[EAGER], row.modes[DIRECT]
    assert direct.equal and not row.wrong
    assert direct.seconds and eager.seconds
    if device.simulated:
        rebind = row.modes[REBIND]
        assert rebind.equal, rebind.reason
        assert eager.calls and direct.calls and rebind.calls
        assert eager.calls["total"] > rebind.calls["total"] > direct.calls["total"]
        assert rebind.calls["graph runs"] == direct.calls["graph runs"] == row.steps["graph_runs"]
    for mode in MODES:
        assert row.modes[mode].seconds or row.modes[mode].reason.startswith("not run: ")


@pytest.mark.parametrize("name", QUICK)
def test_a_replay_that_is_left_out_is_seen(name: str, device: devices.Device) -> None:
    row = _run(name, device, left_out=True)
    assert DIRECT in row.wrong
    assert row.modes[DIRECT].seconds is None


@torch.no_grad()
def _compared(device: devices.Device, factor: float, replayed: float) -> bool:
    x = new_input((64,), device.name)
    factors = torch.full((), factor, device=device.name)
    case = Case(lambda: (x.tensor * factors,), [x])
    case.fill(1)
    replay = capture(case)
    comparison = Comparison(case, case.step, 2)
    factors.fill_(replayed)
    return comparison.verdict(replay.run, replay.outputs, EXACT).equal


def test_other_values_are_seen(device: devices.Device) -> None:
    assert _compared(device, 2.0, 2.0)
    assert not _compared(device, 2.0, 2.0000002)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_small_change_of_state_that_is_left_out_is_seen_with_tolerance(
    optimizer: str, device: devices.Device
) -> None:
    case = BUILDERS["optimizer"](device.name, optimizer=optimizer, parameters=3)
    case.fill(1)
    case.step()
    replay = capture(case)
    comparison = Comparison(case, case.step, 2)
    assert comparison.verdict(replay.run, replay.outputs, DEVICE).equal
    left_out = comparison.verdict(lambda: None, replay.outputs, DEVICE)
    assert not left_out.equal and left_out.difference > 0.3


def test_a_step_in_which_nothing_can_be_seen_is_refused(device: devices.Device) -> None:
    case = Case(lambda: (), [])
    with pytest.raises(ValueError, match="nothing can be compared"):
        Comparison(case, case.step, 2)
    infinite = torch.full((2,), float("inf"), device=device.name)
    with pytest.raises(ValueError, match="no finite numbers"):
        Comparison(Case(lambda: (infinite,)), lambda: (infinite,), 2)


@simulator_only
def test_a_call_that_the_recorder_does_not_know_is_named(
    device: devices.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    from benchmark.bare_loop import BareLoop

    original = BareLoop.run

    def twice(self: BareLoop) -> None:
        original(self)
        original(self)

    monkeypatch.setattr(BareLoop, "run", twice)
    row = _run("demo-mlp", device)
    reason = row.modes[REBIND].reason
    assert reason.startswith("not run: the recorder does not know all calls of the replay: ")
    assert "-[MPSGraphExecutable encodeToCommandBuffer:" in reason


@simulator_only
@pytest.mark.parametrize("name", QUICK)
def test_the_bare_loop_does_what_the_replay_does(name: str, device: devices.Device) -> None:
    from benchmark.bare_loop import BareLoop

    case = build(choose(load(), (name,), quick=False)[0], device)
    with in_step(case):
        case.step()
        replay = capture(case)
        loop = BareLoop(replay, case)
        comparison = Comparison(case, case.step, 2)

        def made(run: Callable[[], None]) -> bool:
            def once() -> None:
                torch.mps.synchronize()
                run()
                loop.wait()

            return comparison.verdict(once, replay.outputs, EXACT).equal

        assert made(loop.run)
        assert made(loop.rebind)
        assert not made(lambda: None)
        assert not loop.missing(replay)


@simulator_only
def test_steps_before_the_first_commit(device: devices.Device) -> None:
    from benchmark.bare_loop import BareLoop

    x = new_input((8,), device.name)
    case = Case(lambda: (x.tensor.exp().neg().abs(),), [x])
    with torch.no_grad():
        assert BareLoop(capture(case), case).steps_before_commit() == 3


def test_report_is_read_again_unless_something_changed(
    device: devices.Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "bench.json"
    good = Row(
        "a", "vision", "", {"kernels": 2}, {EAGER: ModeRow(1e-3, 2e-3), DIRECT: ModeRow(1e-4, 2e-4, {"total": 3}, True)}
    )
    wrong = Row("b", "vision", modes={DIRECT: ModeRow(equal=False)})
    failed = Row("c", "vision", reason="failed: ValueError: x")
    assert report.kept_rows(path, device) == {}
    report.write(path, [good, wrong, failed], device)
    content = json.loads(path.read_text())
    assert content["simulated"] is device.simulated
    assert set(content["configs"][0]) == {"name", "category", "steps", "modes"}
    assert set(content["configs"][0]["modes"][DIRECT]) >= {"seconds", "calls", "equal"}
    assert report.kept_rows(path, device) == {"a": good}
    monkeypatch.setattr(report, "sources_of", lambda _device: "others")
    assert report.kept_rows(path, device) == {}


def test_page_names_regressions_and_what_was_not_run(device: devices.Device, tmp_path: Path) -> None:
    rows = [
        Row(
            "fast", "vision", "", {"kernels": 20}, {EAGER: ModeRow(4e-3, 4e-3), DIRECT: ModeRow(1e-3, 1e-3, equal=True)}
        ),
        Row(
            "slow", "vision", "", {"kernels": 10}, {EAGER: ModeRow(1e-3, 1e-3), DIRECT: ModeRow(2e-3, 2e-3, equal=True)}
        ),
        Row("lost", "training", reason="failed: ValueError: x"),
    ]
    goal = {"figure": "a figure", "value": 2.0, "goal": "≤ 1", "met": False, "reason": "it is cold"}
    unknown = {**goal, "figure": "another", "reason": ""}
    report.write(tmp_path / "bench.json", rows, device, goals=[goal, unknown])
    page.write_page(tmp_path / "docs" / "results" / "bench.md", tmp_path / "bench.json", tmp_path / "none.json")
    text = (tmp_path / "docs" / "results" / "bench.md").read_text()
    assert "`slow`, direct: -100.0 %" in text and "`fast`, direct" not in text
    assert "- failed: ValueError: x: `lost`" in text
    assert "| a figure | 2 | ≤ 1 | **no**: it is cold |" in text
    assert "| another | 2 | ≤ 1 | **no**: the reason was not found |" in text
    assert "| vision | 2 | -12.5 (-100 … +75) |" in text
    assert ("SIMULATED" in text) is device.simulated
    assert (tmp_path / "docs" / "results" / "bench_cost.png").read_bytes().startswith(b"\x89PNG")


def test_a_goal_without_its_configuration_is_not_measured(
    device: devices.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = [goal for goal in GOALS if goal.figure.startswith(("framework calls per pass", "re-bind everything"))]
    monkeypatch.setattr("benchmark.goals.GOALS", calls)
    found = measure_all([], device)
    assert all(goal["met"] is None and goal["reason"] for goal in found)
    if not device.simulated:
        assert not found
        return
    row = Row("demo-decoder-64", "dispatch-heavy", modes={
        EAGER: ModeRow(1e-3, 1e-3, {"total": 900}),
        REBIND: ModeRow(4e-4, 4e-4, {"total": 200}),
        DIRECT: ModeRow(2e-4, 2e-4, {"total": 100}),
        "linked, indirect": ModeRow(reason="not run: not there"),
    })  # fmt: skip
    values = [(goal["value"], goal["met"]) for goal in measure_all([row], device)]
    assert values == [(9, True), (None, None), (2, True), (2, True), (2, True), (2, True)]


def test_a_goal_without_a_value_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(goals, "REPOSITORY", tmp_path)
    (over_base,) = (one for one in GOALS if "÷ base" in one.figure)
    row = page._goals_table([vars(over_base.judge({}, devices.Device()))]).splitlines()[-1]
    assert "| not measured | ≤ 1.01 | takes a second build, of the base without the series (`make simulator" in row


def test_a_missed_goal_says_what_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(goals, "_build_ratio", lambda one, other: 1.005 if one == other else 1.02)
    (over_base,) = (one for one in GOALS if "÷ base" in one.figure)
    row = page._goals_table([vars(over_base.judge({}, devices.Device()))]).splitlines()[-1]
    assert "| 1.02 | ≤ 1.01 | **no**: the base against itself, measured the same way, gives 1.005" in row


def test_the_page_has_the_day_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "sources_of", lambda _device: "")
    run = report.content([], devices.Device()) | {"date": "2026-11-20"}
    text = page.page_text(run, "bench")
    assert "in 0 configurations" in text and "`make bench PAGE=…` wrote it on 2026-11-20." in text
    del run["date"]
    assert "`make bench PAGE=…` wrote it.\n" in page.page_text(run, "bench")


@pytest.mark.parametrize(("options", "status"), [((), 0), (("--no-replay",), 1)])
def test_program(
    options: tuple[str, ...],
    status: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "bench.json"
    words = ["run.py", "--only", "demo-mlp", "--trials", "1", "--report", str(path), *options]
    monkeypatch.setattr(sys, "argv", words)
    assert program.main() == status
    said = capsys.readouterr()
    assert ("Every replay equals eager" in said.out) == (status == 0)
    assert ("a replay differs from eager: demo-mlp" in said.err) == (status == 1)
    assert [one["name"] for one in json.loads(path.read_text())["configs"]] == ["demo-mlp"]


def test_program_refuses_unknown_names_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["run.py", "--only", "nothing"])
    assert program.main() == 2
    assert capsys.readouterr().err == "error: There is no configuration nothing; --list shows all.\n"
