"""Whole configurations: what is compared, and what a fault does to the run."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from benchmark import devices, goals, page, report
from benchmark import run as program
from benchmark.case import Case, new_input, NotRun
from benchmark.comparison import Comparison, DEVICE, EXACT
from benchmark.configurations import choose, load
from benchmark.families import builder
from benchmark.goals import GOALS
from benchmark.measure import build, ModeRow, Row, run
from benchmark.modes import capture, DIRECT, EAGER, in_step, MODES

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
        assert eager.calls and direct.calls and eager.calls["total"] > direct.calls["total"]
        assert direct.calls["graph runs"] == row.steps["graph_runs"]
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
    case = builder("training.optimizer")(device.name, optimizer=optimizer, parameters=3)
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
@pytest.mark.parametrize("name", QUICK)
def test_the_bare_loop_does_what_the_replay_does(
    name: str, device: devices.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    from benchmark.bare_loop import BareLoop

    case = build(choose(load(), (name,), quick=False)[0], device)
    with in_step(case):
        case.step()
        replay = capture(case)
        loop = BareLoop(replay)
        comparison = Comparison(case, case.step, 2)

        def made(run: Callable[[], None]) -> bool:
            def once() -> None:
                torch.mps.synchronize()
                run()
                loop.wait()

            return comparison.verdict(once, replay.outputs, EXACT).equal

        assert made(loop.run)
        assert not made(lambda: None)
        assert loop.steps_before_commit() <= sum(replay.steps.values())
        monkeypatch.setattr(BareLoop, "run", lambda _self: None)
        with pytest.raises(NotRun, match=r"does not know all calls of the replay: .*-\[MPSGraphExecutable encodeTo"):
            BareLoop(replay)


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
    kept = json.loads((tmp_path / "bench.json").read_text())
    assert report.rows_of(kept["configs"]) == rows and kept["simulated"] is device.simulated
    text = (tmp_path / "docs" / "results" / "bench.md").read_text()
    assert "`slow`, direct: -100.0 %" in text and "`fast`, direct" not in text
    assert "- failed: ValueError: x: `lost`" in text
    assert "| a figure | 2 | ≤ 1 | **no**: it is cold |" in text
    assert "| another | 2 | ≤ 1 | **no**: the reason was not found |" in text
    assert "| vision | 2 | -12.5 (-100 … +75) |" in text
    assert ("SIMULATED" in text) is device.simulated
    assert (tmp_path / "docs" / "results" / "bench_cost.png").read_bytes().startswith(b"\x89PNG")


def test_goals_are_met_missed_or_not_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(goals, "REPOSITORY", tmp_path)
    calls, over_base = (next(goal for goal in GOALS if part in goal.figure) for part in ("eager ÷ direct", "÷ base"))
    row = Row("demo-decoder-64", "dispatch-heavy")
    for mode, count in ((EAGER, 900), (DIRECT, 100)):
        row.modes[mode] = ModeRow(1e-3, 1e-3, {"total": count})
    found = [calls.judge(rows, devices.Device()) for rows in ({row.name: row}, {})]
    assert [(goal["value"], goal["met"]) for goal in found] == [(9, True), (None, None)]
    assert found[1]["reason"] == "demo-decoder-64 was not run"
    row.modes[DIRECT].calls = {"total": 450}
    assert calls.judge({row.name: row}, devices.Device())["met"] is False
    assert "takes a second build" in over_base.judge({}, devices.Device())["reason"]


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
