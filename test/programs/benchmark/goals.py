"""The goals of replay: each a figure that is measured on the simulator, and what it should be."""

import gc
import json
import os
import statistics
import subprocess
import sys
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmark import configurations as configurations_module
from benchmark.case import Case, NotRun, Replay
from benchmark.devices import Device
from benchmark.measure import build, ModeRow, Row, timed
from benchmark.modes import AHEAD, DIRECT, EAGER, in_step, INDIRECT, LINKED
from benchmark.modes import capture as capture_step
from benchmark.protocol import ratio

REPOSITORY = Path(__file__).parents[3]
# Annotations of the wheel know nothing of what the series adds.
mps: Any = torch.mps


Rows = dict[str, Row]
Measure = Callable[[Rows, Device], float]


@dataclass(frozen=True)
class Goal:
    """A figure, the bound it must keep, what measures it, and what profiling has found where the bound is missed."""

    sign: str
    bound: float
    figure: str
    measure: Measure
    found: str = ""

    def judge(self, rows: Rows, device: Device) -> dict[str, Any]:
        """Measure it. `met` is None where that is not possible, and `reason` says why; of a missed one, what was found."""
        goal: dict[str, Any] = {
            "figure": self.figure,
            "value": None,
            "goal": f"{self.sign} {self.bound:g}",
            "met": None,
        }
        try:
            value = self.measure(rows, device)
        except NotRun as reason:
            return goal | {"reason": str(reason)}
        met = value >= self.bound if self.sign == "≥" else value <= self.bound
        return goal | {"value": value, "met": met, "reason": "" if met else self.found}


at_least, at_most = partial(Goal, "≥"), partial(Goal, "≤")


def _mode(rows: Rows, name: str, mode: str) -> ModeRow:
    if name not in rows:
        raise NotRun(f"{name} was not run")
    if rows[name].reason:
        raise NotRun(f"{name}: {rows[name].reason}")
    found = rows[name].modes[mode]
    if found.calls is None or found.seconds is None:
        raise NotRun(f"{name}, {mode}: {found.reason}")
    return found


def _calls(rows: Rows, name: str, mode: str, *kinds: str) -> int:
    calls = _mode(rows, name, mode).calls or {}
    return sum(calls.get(kind, 0) for kind in kinds or ("total",))


def _case(name: str, device: Device) -> Case:
    configuration = next(one for one in configurations_module.load() if one.name == name)
    case = build(configuration, device)
    if case.start:
        case.start()
    case.fill(1)
    return case


@contextmanager
def _captured(name: str, device: Device, ahead: bool = False) -> Iterator[tuple[Case, Replay]]:
    case = _case(name, device)
    with in_step(case), device.pool():
        for _ in range(2):
            case.step()
        replay = capture_step(case, ahead)
        with device.measuring():
            yield case, replay
    del case, replay
    device.give_back()


def _ratio(
    one: Callable[[], object],
    other: Callable[[], object],
    device: Device,
    wait: Callable[[], None] = lambda: None,
    rounds: int = 20,
) -> float:
    def synchronize() -> None:
        device.synchronize()
        wait()

    case = Case(lambda: ())
    return ratio(timed(case, device, one), timed(case, device, other), synchronize, rounds)


def _over_bare_loop(name: str) -> Measure:
    def value(_rows: Rows, device: Device) -> float:
        from benchmark.bare_loop import BareLoop

        with _captured(name, device) as (_, replay):
            loop = BareLoop(replay)
            return _ratio(replay.run, loop.run, device, loop.wait, rounds=100)

    return value


def _fewer_calls(name: str, fewer: str, more: str = EAGER, *kinds: str) -> Measure:
    return lambda rows, _device: _calls(rows, name, more, *kinds) / max(1, _calls(rows, name, fewer, *kinds))


def _times_eager(name: str) -> Measure:
    def value(rows: Rows, _device: Device) -> float:
        eager, ahead = (_mode(rows, name, mode).seconds or 0 for mode in (EAGER, AHEAD))
        return eager / ahead

    return value


def _longest_ahead(rows: Rows, _device: Device) -> float:
    """Of all configurations, in µs."""
    found = [row.modes[AHEAD].seconds for row in rows.values() if AHEAD in row.modes]
    if not any(found):
        raise NotRun("no configuration was run ahead")
    return max(seconds for seconds in found if seconds) * 1e6


def _deeper_ahead(rows: Rows, _device: Device) -> float:
    deep, shallow = (_mode(rows, f"demo-decoder-{layers}", AHEAD).seconds or 0 for layers in (128, 16))
    return deep / shallow


def _ahead_over_direct(clock: Callable[[], float], pause: float) -> Measure:
    """By the clock, of replays with a pause after each."""

    def value(_rows: Rows, device: Device) -> float:
        def seconds(replay: Replay) -> float:
            device.synchronize()
            begin = clock()
            for _ in range(20):
                replay.run()
                time.sleep(pause)
            return clock() - begin

        with _captured(_DECODER, device, ahead=True) as (_, ahead), _captured(_DECODER, device) as (_, direct):
            for replay in (ahead, direct):
                seconds(replay)
            return statistics.median(seconds(ahead) / seconds(direct) for _ in range(20))

    return value


def _deeper_direct(_rows: Rows, device: Device) -> float:
    with _captured("demo-decoder-128", device) as (_, deep), _captured(_DECODER, device) as (_, half):
        return _ratio(deep.run, half.run, device)


def _deeper_indirect(rows: Rows, _device: Device) -> float:
    seconds = [_mode(rows, f"demo-decoder-{layers}", INDIRECT).seconds or 0 for layers in (128, 64)]
    return seconds[0] / seconds[1]


def _simulated(what: str, build: str = "simulator") -> Any:
    """What simulated_times.py measures in a process of its own."""
    words = [sys.executable, "-m", "mps_simulator", str(Path(__file__).with_name("simulated_times.py")), what]
    environment = {**os.environ, "MPS_SIMULATOR_BUILD": str(REPOSITORY / "build" / build)}
    run = subprocess.run(words, env=environment, capture_output=True, text=True)
    if run.returncode:
        raise NotRun(
            f"simulated_times.py {what} does not run with build/{build}: {run.stderr.strip().splitlines()[-1]}"
        )
    return json.loads(run.stdout.splitlines()[-1])


def _first_commit(_rows: Rows, device: Device) -> float:
    from benchmark.bare_loop import BareLoop

    with _captured("activation-chain-1000", device) as (_, replay):
        return BareLoop(replay).steps_before_commit()


def _watching(name: str) -> Measure:
    """A graph that compares each tensor of its model over the same graph when its model is gone, beside another graph."""

    def value(_rows: Rows, device: Device) -> float:
        with _captured(name, device) as (_, other):
            case = _case(name, device)
            inputs = [weakref.ref(one.tensor) for one in case.inputs]
            with in_step(case), device.pool():
                case.step()
                replay = capture_step(case)
            watched = _ratio(replay.run, other.run, device, rounds=100)
            del case
            gc.collect()
            if any(one() is not None for one in inputs):
                raise NotRun(f"{name}: something keeps the inputs of the second capture")
            return watched / _ratio(replay.run, other.run, device, rounds=100)

    return value


def _capture_over_eager(_rows: Rows, device: Device) -> float:
    with _captured(_DECODER, device) as (case, _replay):
        return _ratio(lambda: capture_step(case), case.step, device)


def _small_graphs(_rows: Rows, device: Device) -> float:
    device.synchronize()
    device.give_back()
    x = torch.zeros(16, device=device.name)
    _eager = x + 1  # which takes a heap for the scalar
    before = torch.mps.driver_allocated_memory()
    graphs = [mps.MPSGraph() for _ in range(20)]
    outputs = []
    with torch.no_grad():
        for graph in graphs:
            with mps.graph(graph):
                outputs.append(x + 1)
    device.synchronize()
    return (torch.mps.driver_allocated_memory() - before) / 2**20


def _over_base(_rows: Rows, _device: Device) -> float:
    """Mean of the operators' ratios, each of the least time in processes that take turns."""
    builds = ("simulator", "simulator-base")
    for build_ in builds:
        if not (REPOSITORY / "build" / build_).is_dir():
            raise NotRun("takes a second build, of the base without the series (`make simulator BASE_ONLY=1`)")
    least: list[dict[str, float]] = [{}, {}]
    for _ in range(12):
        for build_, found in zip(builds, least):
            for name, value in _simulated("operators", build_).items():
                found[name] = min(value, found.get(name, value))
    return statistics.geometric_mean(least[0][name] / least[1][name] for name in least[0])


_FLUX = (
    "each of the 57 blocks copies a permuted tensor with a kernel, and in each of the 38 single blocks one linear layer "
    "and the attention are linked with nothing"
)
_UNET = "this UNet's attention copies permuted tensors, which are 80 kernels; each ends a stretch, so that no more than 5.4 is possible"
_OVER_BASE = "no single cause: perf's samples of a million copies are 6 % more than the base's, and no symbol has 1 % more of them"
_CAPTURE = (
    "no single cause: of the time that a capture adds to eager, 28 % allocates the steps and their contents, 17 % "
    "records the storage of each tensor, 8 % boxes the operators' arguments for that record, and 8 % retains "
    "objects (sampled by perf)"
)
_WATCH = "checking one tensor takes about 60 ns, because its object, storage and record are no longer in the CPU caches"
_CACHES = (
    "the data of a pass no longer fit in the CPU caches. Two graphs of 64 layers in turn take 2.07 times as long "
    "as one (direct). The bare loop takes 2.27 times as long at 128 layers as at 64, so it is not the engine "
    "(2026-11-21)"
)
_ONE_ENCODER = (
    "one thread encodes, so replays back to back are no faster than direct ones. A second thread would gain little, because "
    "executables are encoded one at a time"
)
_SMALL = (
    "a pool begins with a heap of 1 MiB; with a first heap of 128 KiB, some pools would exceed eager's peak, because a buffer "
    "cannot span two heaps"
)
_FIXED = "about 2 µs of a replay do not depend on its size: the checks, the stream's queue, the handler that looks for errors"
_RUNS = ("graph runs", "encoders opened")

_DECODER = "demo-decoder-64"
_DEEPER = "replay CPU at 128 layers ÷ 64 layers"
_ENCODED = "encoder calls (graph runs + encoders), direct ÷ linked"
_NOTHING = "replay ÷ replay with nothing left to watch, CPU"

GOALS = (
    *(
        at_most(1.15, f"direct replay ÷ bare loop of its calls, CPU: {name}", _over_bare_loop(name), _FIXED)
        for name in ("demo-mlp", "demo-convnet", "demo-vit", _DECODER)
    ),
    at_least(8, f"framework calls per pass, eager ÷ direct: {_DECODER}", _fewer_calls(_DECODER, DIRECT)),
    at_least(
        12, f"framework calls per pass, eager ÷ linked with indirect: {_DECODER}", _fewer_calls(_DECODER, INDIRECT)
    ),
    *(
        at_least(bound, f"{_ENCODED}: {name}", _fewer_calls(name, LINKED, DIRECT, *_RUNS), found)
        for name, bound, found in (
            ("sd15-unet-32", 8, _UNET),
            ("flux-s64", 8, _FLUX),
            ("resnet18", 20, ""),
            ("gpt2-s128", 3, ""),
        )
    ),
    at_least(
        50,
        "framework calls for a chain of 1,000 kernels, direct ÷ indirect",
        _fewer_calls("kernel-chain-1000", INDIRECT, DIRECT),
    ),
    at_most(
        0, f"setBytes in a replay of {_DECODER}", lambda rows, _device: _calls(rows, _DECODER, DIRECT, "set bytes")
    ),
    *(
        at_least(bound, f"caller's CPU, eager ÷ replay, ahead: {name}", _times_eager(name), _WATCH)
        for name, bound in (("demo-mlp", 17), ("demo-convnet", 79), ("demo-vit", 146), (_DECODER, 743))
    ),
    at_most(50, "the longest replay call of all configurations, ahead, µs", _longest_ahead, _WATCH),
    at_most(1.3, "replay CPU at 128 layers ÷ 16 layers, ahead", _deeper_ahead, _WATCH),
    at_most(
        1.05, "CPU of all threads, ahead ÷ direct, replays 5 ms apart", _ahead_over_direct(time.process_time, 0.005)
    ),
    at_most(
        0.65, "wall time, ahead ÷ direct, replays back to back", _ahead_over_direct(time.perf_counter, 0), _ONE_ENCODER
    ),
    at_most(2.0, f"{_DEEPER}, direct", _deeper_direct, _CACHES),
    at_most(1.5, f"{_DEEPER}, linked with indirect", _deeper_indirect, _CACHES),
    at_most(4, "replaying a graph of one step, wall, µs", lambda _rows, _device: float(_simulated("step"))),
    at_most(64, "steps of 1,000 that are encoded before the first commit of a replay", _first_commit),
    *(at_most(1.03, f"{_NOTHING}: {name}", _watching(name), _WATCH) for name in (_DECODER, "flux-s64", "resnet18")),
    at_most(1.15, f"capture pass ÷ eager pass, CPU: {_DECODER}", _capture_over_eager, _CAPTURE),
    at_most(1.01, "eager with the series, nothing captured ÷ base, CPU per operator", _over_base, _OVER_BASE),
    at_most(4, "driver memory of 20 one-operator graphs, MiB", _small_graphs, _SMALL),
)


def measure_all(rows: Sequence[Row], device: Device) -> list[dict[str, Any]]:
    """Print and return every goal; on a device other than the simulator none is measured."""
    if not device.simulated:
        return []
    by_name = {row.name: row for row in rows}
    results = []
    for wanted in GOALS:
        results.append(goal := wanted.judge(by_name, device))
        met = "met" if goal["met"] else "MISSED"
        shown = goal["reason"] if goal["value"] is None else f"{goal['value']:.4g} ({goal['goal']}, {met})"
        print(f"{wanted.figure}: {shown}", flush=True)
    return results
