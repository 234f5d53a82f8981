"""The ways a configuration is run, and what prepares each of them."""

import inspect
import os
import time
from contextlib import ExitStack
from typing import Any
from unittest import mock

import torch

from benchmark.case import Case, NotRun, Replay
from benchmark.devices import Device

# Annotations of the wheel know nothing of what the series adds, and those of CUDA differ by version.
mps: Any = torch.mps
cuda: Any = torch.cuda

EAGER, STEPS, DIRECT, AHEAD, LINKED, INDIRECT = MODES = (
    "eager",
    "steps",
    "direct",
    "ahead",
    "linked",
    "linked, indirect",
)

_STEPS = ("kernels", "graph_runs", "copies", "fills", "kernel_objects", "host_refreshes", "executables")
# Captures read these: without a plan, a replay encodes step by step, as the core of the series does.
_VARIABLES = {
    STEPS: {"PYTORCH_MPS_GRAPH_PLAN": "0"},
    INDIRECT: {"PYTORCH_MPS_GRAPH_INDIRECT_COMMANDS": "1"},
}
# Of a linked graph besides.
_LINKED = ("linked_stretches", "linked_runs", "link_microseconds")


def in_step(case: Case) -> ExitStack:
    """The context in which steps run: without gradients unless it trains, and backward on the calling thread, whose
    time is taken."""
    stack = ExitStack()
    stack.enter_context(torch.autograd.set_multithreading_enabled(False))
    if not case.training:
        stack.enter_context(torch.no_grad())
    return stack


def capture(case: Case, ahead: bool = False, **options: bool) -> Replay:
    """A graph of the step, with options of torch.mps.graph; with `ahead` one replay is kept encoded."""
    graph = mps.MPSGraph(encode_ahead=int(ahead))
    with mps.graph(graph, **options):
        outputs = case.step()

    def wait_until_ready() -> None:
        while not (stats := graph.stats())["ready_replays"] and not stats["why_not_ahead"]:
            time.sleep(0.0002)

    stats = graph.stats()
    return Replay(
        graph.replay,
        outputs,
        {kind: stats[kind] for kind in (*_STEPS, *_LINKED) if stats.get(kind)},
        wait_until_ready if ahead else None,
    )


def warm_up_cuda(case: Case, passes: int) -> None:
    """Runs the step on a stream of its own, as captures want it."""
    stream = cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(passes):
            case.step()
    torch.cuda.current_stream().wait_stream(stream)


def _capture_for(mode: str, case: Case, device: Device) -> Replay:
    if device.name == "cuda":
        if mode != DIRECT:
            raise NotRun(
                "CUDA has neither MPSGraph executables nor indirect command buffers, and no other way to replay"
            )
        graph = cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            outputs = case.step()
        return Replay(graph.replay, outputs)
    links = mode in (LINKED, INDIRECT)
    if links and "link" not in inspect.signature(mps.graph.__init__).parameters:
        raise NotRun("torch.mps.graph of this build takes no link=True")
    with mock.patch.dict(os.environ, _VARIABLES.get(mode, {})):
        return capture(case, mode == AHEAD, **({"link": True} if links else {}))


def prepare(case: Case, device: Device) -> tuple[dict[str, Replay], dict[str, str]]:
    """Captures the case for each mode; returns what runs, and the reasons of what does not."""
    replays, reasons = {}, {}
    for mode in MODES[1:]:
        try:
            replays[mode] = _capture_for(mode, case, device)
        except NotRun as reason:
            reasons[mode] = str(reason)
    return replays, reasons
