"""Builds a configuration, compares its replays with eager, and takes times and counts of all its modes."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from benchmark import modes as modes_module
from benchmark.case import Case, NotRun, Replay
from benchmark.comparison import Comparison, DEVICE, EXACT
from benchmark.configurations import Configuration
from benchmark.devices import Device
from benchmark.families import builder
from benchmark.modes import DIRECT, EAGER, in_step, MODES, warm_up_cuda
from benchmark.protocol import measure as take_times
from benchmark.protocol import Timed, TRIALS

_CAPTURED, _NEW = 1, 2
# Until operators have compiled what they keep, and optimizers have made their state.
_PASSES_BEFORE_CAPTURE = 2


@dataclass
class ModeRow:
    """One mode of one configuration: seconds of a pass, framework calls by kind, and whether it equals eager."""

    seconds: float | None = None
    wall_seconds: float | None = None
    calls: dict[str, int] | None = None
    equal: bool | None = None
    difference: float | None = None
    # what its graph holds by kind
    steps: dict[str, int] = field(default_factory=dict)
    # why it was not run, or what went wrong
    reason: str = ""


@dataclass
class Row:
    name: str
    category: str
    note: str = ""
    steps: dict[str, int] = field(default_factory=dict)
    modes: dict[str, ModeRow] = field(default_factory=dict)
    # why it was not run
    reason: str = ""

    @property
    def wrong(self) -> list[str]:
        """The modes that differ from eager."""
        return [name for name, mode in self.modes.items() if mode.equal is False]


def build(configuration: Configuration, device: Device) -> Case:
    """The configuration on the device, with weights that are the same each time."""
    torch.manual_seed(0)
    parameters: dict[str, Any] = configuration.parameters_for(device.simulated)
    return builder(configuration.family)(device.name, **parameters)


def timed(
    case: Case,
    device: Device,
    run: Callable[[], object],
    wait_until_ready: Callable[[], None] | None = None,
) -> Timed:
    """A run of the case, or of its replay, to be timed."""

    def one() -> None:
        with device.pool():
            run()

    def start() -> None:
        if case.start:
            case.start()

    return Timed(one, start, case.longest, wait_until_ready)


def _compare(row: Row, case: Case, device: Device, replays: dict[str, Replay], left_out: bool) -> None:
    comparison = Comparison(case, case.step, _NEW)
    for name, replay in replays.items():

        def once(replay: Replay = replay) -> None:
            device.synchronize()
            if not left_out:
                replay.run()

        verdict = comparison.verdict(once, replay.outputs, EXACT if device.simulated else DEVICE)
        row.modes[name] = ModeRow(
            equal=verdict.equal, difference=verdict.difference, steps=replay.steps, reason=verdict.problem
        )


def _measure(row: Row, case: Case, device: Device, replays: dict[str, Replay], trials: int) -> None:
    # eager first: the others are compared with it
    row.modes = {EAGER: ModeRow()} | row.modes
    all_timed = {EAGER: timed(case, device, case.step)} | {
        name: timed(case, device, one.run, one.wait_until_ready) for name, one in replays.items()
    }
    with device.measuring():
        times = take_times(all_timed, device.synchronize, trials, together=device.simulated)
        for name, one in all_timed.items():
            one.start()
            device.synchronize()
            mode = row.modes[name]
            mode.calls = device.calls(one.run, one.wait_until_ready)
            mode.seconds, mode.wall_seconds = times[name].cpu, times[name].wall


def run(configuration: Configuration, device: Device, trials: int = TRIALS, left_out: bool = False) -> Row:
    """Measure one configuration; `left_out` leaves the replays out of the comparison, which then must fail."""
    row = Row(configuration.name, configuration.category, configuration.note(device.simulated))
    try:
        case = build(configuration, device)
    except NotRun as reason:
        row.reason = str(reason)
        return row
    if case.start:
        case.start()
    case.fill(_CAPTURED)
    with in_step(case), device.pool():
        if device.name == "cuda":
            warm_up_cuda(case, _PASSES_BEFORE_CAPTURE)
        else:
            for _ in range(_PASSES_BEFORE_CAPTURE):
                case.step()
        replays, reasons = modes_module.prepare(case, device)
        row.steps = replays[DIRECT].steps
        _compare(row, case, device, replays, left_out)
        if not row.wrong:
            _measure(row, case, device, replays, trials)
    for name, why in reasons.items():
        row.modes[name] = ModeRow(reason=f"not run: {why}")
    row.modes = {name: row.modes[name] for name in MODES if name in row.modes}
    return row
