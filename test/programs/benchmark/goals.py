"""The goals: figures measured on the simulator, each with a bound."""

import os
import statistics
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

import mps_simulator
from benchmark import callgrind, counted, simulated_times
from benchmark import configurations as configurations_module
from benchmark.case import Case, NotRun, Replay
from benchmark.devices import Device, find
from benchmark.measure import build, ModeRow, Row, timed
from benchmark.modes import AHEAD, capture, DIRECT, EAGER, in_step
from benchmark.protocol import trial
from benchmark.report import shown, verdict

REPOSITORY = Path(__file__).parents[3]
Rows = dict[str, Row]


class Value(NamedTuple):
    """A number, and what to say beside it."""

    number: float
    detail: str = ""


Measure = Callable[[Rows, Device], Value]


@dataclass(frozen=True)
class Goal:
    """A figure, its value on 2026-11-27 (before the core was rewritten), its bound, and the function that measures it."""

    sign: str
    bound: float
    before: str
    figure: str
    measure: Measure

    def judge(self, rows: Rows, device: Device) -> dict[str, Any]:
        """Measure the figure. If that fails, `met` is None and `detail` gives the reason."""
        goal = {"figure": self.figure, "before": self.before, "goal": f"{self.sign} {self.bound:,g}"}
        try:
            value = self.measure(rows, device)
        except Exception as problem:  # must not end a run of an hour
            if not isinstance(problem, NotRun):
                traceback.print_exc()
            reason = str(problem).strip().split("\n")[0] or type(problem).__name__
            return goal | {"value": None, "met": None, "detail": reason}
        met = value.number >= self.bound if self.sign == "≥" else value.number <= self.bound
        return goal | {"value": value.number, "met": met, "detail": value.detail}


at_least, at_most = partial(Goal, "≥"), partial(Goal, "≤")


def _words(file: str, *name: str) -> list[str]:
    """The command of a program beside this file; `_PATH` belongs to it."""
    return [sys.executable, "-m", "mps_simulator", str(Path(__file__).with_name(file)), *name]


_PATH = {"PYTHONPATH": os.pathsep.join([str(REPOSITORY / "test/programs"), os.environ.get("PYTHONPATH", "")])}


def _program(
    *name: str, simulator: str = "simulator", function: str = "", **environment: str
) -> dict[str, callgrind.Counts]:
    """The counts of a program of counted.py."""
    build = {"MPS_SIMULATOR_BUILD": str(REPOSITORY / "build" / simulator)}
    return callgrind.run(_words("counted.py", *name), _PATH | build | environment, function)


def _alone(measure: Callable[[Device], float], **environment: str) -> Measure:
    """Measure in a process of its own: after a hundred models memory is scattered, which makes each call slower."""

    def value(_rows: Rows, _device: Device) -> Value:
        words = _words("goals.py", measure.__name__)
        done = subprocess.run(
            words, env=os.environ | _PATH | environment, check=True, stdout=subprocess.PIPE, text=True
        )
        return Value(float(done.stdout.split()[-1]))

    return value


@cache
def _over_base(event: str) -> dict[str, float]:
    """Counts of each eager operator with the series ÷ without."""
    with_series, base = _operators()
    return {name: with_series[name][event] / base[name][event] for name in base}


@cache
def _operators() -> tuple[dict[str, callgrind.Counts], dict[str, callgrind.Counts]]:
    subprocess.run([str(REPOSITORY / "scripts/mpsfork"), "simulator", "--base-only"], check=True)
    return _least_of_operators("simulator"), _least_of_operators("simulator-base")


def _least_of_operators(simulator: str) -> dict[str, callgrind.Counts]:
    """The least of five processes. In each memory lies elsewhere, which changes some counts by a percent."""
    first, *others = (_program("operators", simulator=simulator, PYTHONHASHSEED=seed) for seed in "01234")
    return {
        name: {event: min(count, *(run[name].get(event, 0) for run in others)) for event, count in counts.items()}
        for name, counts in first.items()
    }


def _mean_over_base(event: str) -> Measure:
    return lambda _rows, _device: Value(statistics.geometric_mean(_over_base(event).values()))


def _worst_over_base(event: str) -> Measure:
    return lambda _rows, _device: Value(*max((ratio, name) for name, ratio in _over_base(event).items()))


def _capture_over_eager(model: str) -> Measure:
    def value(_rows: Rows, _device: Device) -> Value:
        counts = _program("captures", model)
        return Value(counts["capture"]["Ir"] / counts["eager"]["Ir"])

    return value


def _instructions_per_storage(_rows: Rows, _device: Device) -> Value:
    counts = _program("checks", function="at::mps::MPSCommandGraphInputs::check*")
    one, many = (counts[kind]["Ir"] for kind in ("one storage", "storages"))
    assert one > counted.WATCHED, "the check has another name"
    return Value((many - one) / counted.WATCHED)


def _seconds(replay: Replay, device: Device, calls: int = 200) -> float:
    """Median CPU time of a replay, each on an idle device."""
    replay.run()  # the first one begins to encode ahead
    one = timed(Case(lambda: ()), device, replay.run, replay.wait_until_ready)
    return statistics.median(trial(one, 1, device.synchronize).cpu for _ in range(calls))


def _ns_per_tensor(device: Device) -> float:
    with torch.no_grad(), device.measuring():
        many, one = (_seconds(counted.watching(kind), device) for kind in ("one storage", "one tensor"))
    return (many - one) / counted.WATCHED * 1e9


@contextmanager
def _captured(name: str, device: Device, ahead: bool = False) -> Iterator[Replay]:
    case = build(next(one for one in configurations_module.load() if one.name == name), device)
    if case.start:
        case.start()
    case.fill(1)
    with in_step(case), device.pool():
        for _ in range(2):
            case.step()
        replay = capture(case, ahead)
        with device.measuring():
            yield replay


def _deep_ahead(device: Device) -> float:
    with _captured("demo-decoder-128", device, ahead=True) as replay:
        return _seconds(replay, device) * 1e6


@torch.no_grad()
def _compiled(_device: Device) -> float:
    return simulated_times.calls_of_layers(100)["compiled"]


def _step(_device: Device) -> float:
    return simulated_times.step()


def _mode(rows: Rows, name: str, mode: str) -> ModeRow:
    if name not in rows:
        raise NotRun(f"{name} was not run")
    found = rows[name].modes.get(mode, ModeRow(reason=rows[name].reason))
    if found.calls is None or found.seconds is None:
        raise NotRun(f"{name}, {mode}: {found.reason}")
    return found


def _ratio(one: tuple[str, str], other: tuple[str, str]) -> Measure:
    """CPU time of a mode of a configuration ÷ that of another."""
    return lambda rows, _device: Value((_mode(rows, *one).seconds or 0) / (_mode(rows, *other).seconds or 0))


def _of_all(rows: Rows, measure: Callable[[str], float]) -> dict[str, float]:
    values = {name: measure(name) for name, row in rows.items() if not row.reason}
    if not values:
        raise NotRun("no configuration was run")
    return values


def _longest_ahead(rows: Rows, _device: Device) -> Value:
    seconds = _of_all(rows, lambda name: _mode(rows, name, AHEAD).seconds or 0)
    longest, name = max((value, name) for name, value in seconds.items())
    return Value(longest * 1e6, f"{name}, of {len(seconds)}")


def _encoder_calls(rows: Rows, _device: Device) -> Value:
    def over_eager(name: str) -> float:
        direct, eager = ((_mode(rows, name, mode).calls or {})["encoder calls"] for mode in (DIRECT, EAGER))
        return direct / eager

    ratios = _of_all(rows, over_eager)
    worst, name = max((value, name) for name, value in ratios.items())
    return Value(worst, f"{name}; {sum(value > 1 for value in ratios.values())} of {len(ratios)} above 1")


def _count(call: str, run: Callable[[], object]) -> int:
    """How often a run on an idle simulator makes a call."""
    torch.mps.synchronize()
    mps_simulator.reset_counters()
    run()
    return mps_simulator.counters().get(call, 0)


@torch.no_grad()
def _use_resource(_rows: Rows, device: Device) -> Value:
    x = torch.zeros(64, device="mps")
    indices = [torch.arange(8, device="mps") for _ in range(1_600)]
    with device.measuring():
        replay = capture(Case(lambda: tuple(x[index] for index in indices)[-1:]))
        return Value(_count("-[MTLComputeCommandEncoder useResource:usage:]", replay.run))


@torch.no_grad()
def _command_buffers(_rows: Rows, device: Device) -> Value:
    """Commits for each replay of a loop: a small eager update, the replay, a small eager use."""
    x, total = torch.zeros(64, device="mps"), torch.zeros(64, device="mps")
    with device.measuring():
        replay = capture(Case(lambda: ((x * 2 + 1).relu(),)))

        def loop() -> None:
            for i in range(50):
                x.fill_(i)
                replay.run()
                total.add_(replay.outputs[0])

        return Value(_count("-[MTLCommandBuffer commit]", loop) / 50)


@cache
def _sizes() -> dict[str, int]:
    sys.path.append(str(REPOSITORY / "scripts"))
    from fork_tool.paths import own_layout
    from fork_tool.series.overlay import TESTS
    from fork_tool.series.patches import read_patch
    from fork_tool.series.project import Project
    from fork_tool.series.verify import verify_series

    project = Project(own_layout())
    lines = {verdict.name: verdict.lines for verdict in verify_series(project).verdicts}
    core = project.series().part("core")
    files = [path for name in core for path in read_patch(project.layout.patches, name).overlay]
    sources = [path for path in files if path.endswith((".h", ".mm", ".cpp")) and not path.startswith(TESTS)]
    return {
        "core": sum(lines[name] for name in core),
        "patches": len(core),
        "files": len(sources),
        "series": sum(lines.values()),
    }


def _size(what: str) -> Measure:
    return lambda _rows, _device: Value(_sizes()[what])


_OPERATORS = "eager, series ÷ base, 23 operators"
_CAPTURE = "capture ÷ eager pass, instructions"
_CALL = "compiled call, 100 layers, caller's CPU, µs"
_CUDA = "caller's CPU, eager ÷ replay ahead (CUDA Graphs: the goal)"

GOALS = (
    at_most(1.001, "1.0115", f"{_OPERATORS}: instructions, geometric mean", _mean_over_base("Ir")),
    at_most(1.01, "1.053", f"{_OPERATORS}: instructions, worst", _worst_over_base("Ir")),
    at_most(1.01, "1.04–1.11", f"{_OPERATORS}: simulated L1 instruction-cache misses, mean", _mean_over_base("I1mr")),
    at_most(1.3, "1.79", f"{_CAPTURE}: 24 blocks of 4 layers", _capture_over_eager("24 blocks")),
    at_most(1.4, "1.96", f"{_CAPTURE}: demo-decoder-16", _capture_over_eager("demo-decoder-16")),
    at_most(1.5, "2.5–3.5", "replay of one step, wall, µs, least", _alone(_step)),
    at_most(12, "82–286", "replay of demo-decoder-128 ahead, caller's CPU, µs, median", _alone(_deep_ahead)),
    at_most(100, "134", f"{_CALL}, direct", _alone(_compiled, PYTORCH_MPS_GRAPH_ENCODE_AHEAD="0")),
    at_most(75, "–", f"{_CALL}, ahead", _alone(_compiled, PYTORCH_MPS_GRAPH_ENCODE_AHEAD="1")),
    at_most(1, "up to 1,600", "encoder calls, direct replay ÷ eager, worst configuration", _encoder_calls),
    at_most(1_600, "2,560,000", "`useResource:` calls of a replay of 1,600 × `x[idx]`", _use_resource),
    at_most(1, "2.18", "command buffers for each replay between two eager operators", _command_buffers),
    at_most(10, "60", "check of a watched tensor, ns", _alone(_ns_per_tensor)),
    at_most(1, "as a tensor", "check of a watched storage, instructions", _instructions_per_storage),
    at_most(
        1.3,
        "5.0",
        "caller's CPU, ahead, 128 ÷ 16 layers",
        _ratio(("demo-decoder-128", AHEAD), ("demo-decoder-16", AHEAD)),
    ),
    at_most(50, "252", "caller's CPU, ahead, longest of all configurations, µs", _longest_ahead),
    *(
        at_least(bound, before, f"{_CUDA}: {name}", _ratio((name, EAGER), (name, AHEAD)))
        for name, before, bound in (
            ("demo-mlp", "19", 17),
            ("demo-convnet", "73", 79),
            ("demo-vit", "136", 146),
            ("demo-decoder-64", "504", 743),
        )
    ),
    at_most(3_000, "5,062", "core, lines without tests", _size("core")),
    at_most(10, "15", "core, patches", _size("patches")),
    at_most(14, "39", "core, C++ files", _size("files")),
    at_most(10_500, "14,400", "series, lines without tests", _size("series")),
)


def measure_all(rows: Sequence[Row], device: Device) -> list[dict[str, Any]]:
    """Measure and print every goal; on a device other than the simulator none is measured."""
    if not device.simulated:
        return []
    by_name = {row.name: row for row in rows}
    results = []
    for wanted in GOALS:
        results.append(goal := wanted.judge(by_name, device))
        device.give_back()
        print(
            f"{wanted.figure}: {shown(goal)} (before {goal['before']}, goal {goal['goal']}, {verdict(goal)})",
            flush=True,
        )
    return results


if __name__ == "__main__":
    print(globals()[sys.argv[1]](find("mps")))
