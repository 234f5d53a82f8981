"""Whole configurations: what is compared, and what a fault does to the run."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from benchmark import devices, page, report
from benchmark import run as program
from benchmark.case import Case, new_input
from benchmark.comparison import Comparison, DEVICE, EXACT
from benchmark.configurations import choose, load
from benchmark.families import builder
from benchmark.measure import ModeRow, Row, run
from benchmark.modes import capture, DIRECT, EAGER, MODES
from PIL import Image, ImageColor

QUICK = ("demo-mlp", "demo-decoder-16", "sgd-momentum-200")


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


def test_pages_of_a_report(device: devices.Device, tmp_path: Path) -> None:
    taken = [ModeRow(seconds, seconds, equal=True) for seconds in (4e-3, 1e-3, 3e-3, 2e-3)]
    rows = [
        Row("fast", "vision", "", {"kernels": 20}, dict(zip(MODES, taken))),
        Row("slow", "vision", "", {"kernels": 10}, {EAGER: taken[1], DIRECT: taken[3]}),
        Row("lost", "training", reason="failed: ValueError: x"),
    ]
    goal = {"figure": "a figure", "before": "3", "value": 2.0, "goal": "≤ 1", "met": False, "detail": "of `fill_`"}
    unknown = {**goal, "figure": "another", "value": None, "met": None, "detail": "valgrind is missing"}
    report.write(tmp_path / "bench.json", rows, device, goals=[goal, unknown])
    kept = json.loads((tmp_path / "bench.json").read_text())
    assert report.rows_of(kept["configs"]) == rows and kept["simulated"] is device.simulated
    results = tmp_path / "docs" / "results"
    results.mkdir(parents=True)
    readme = results / "README.md"
    readme.write_text("Text\n<!-- bench.md -->\nold\n<!-- end -->\nMore text\n<!-- end -->\n")
    page.write_pages(results / "bench.md", tmp_path / "bench.json", tmp_path / "none.json")
    text = (results / "bench.md").read_text()
    assert "Slower than eager: `slow` (replay: 200 %)." in text
    assert "- failed: ValueError: x: `lost`" in text
    assert "| a figure | ≤ 1 | 2 (of `fill_`) | **missed** |" in text
    assert "| another | ≤ 1 | not measured: valgrind is missing | – |" in text
    assert "| vision | 2 | 112.5 (25.0 … 200.0) |" in text
    assert ("SIMULATED" in text) is device.simulated
    before, _, rest = readme.read_text().partition("| vision | 2 | 112.5 (25.0 … 200.0) |")
    assert before.startswith("Text\n<!-- bench.md -->\n") and "old" not in before
    assert rest.endswith("<!-- end -->\nMore text\n<!-- end -->\n")
    # Each series has a colour of its own in the picture.
    with Image.open(results / "bench.png") as picture:
        shown = {colour for _, colour in picture.convert("RGB").getcolors(1 << 24) or []}
    assert {ImageColor.getrgb(colour) for colour in page.COLOURS.values()} <= shown
    readme.write_text("No mark\n")
    with pytest.raises(ValueError, match="bench.md"):
        page.write_pages(results / "bench.md", tmp_path / "bench.json", tmp_path / "none.json")


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
