"""The ways a configuration is run, and what prepares each of them."""

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

EAGER, DIRECT, AHEAD, INDIRECT = MODES = ("eager", "direct", "ahead", "indirect")

_STEPS = ("kernels", "graph_runs", "copies", "fills", "kernel_objects", "host_refreshes", "executables")


def in_step(case: Case) -> ExitStack:
    """The context in which steps run: without gradients unless it trains, and backward on the calling thread, whose
    time is taken."""
    stack = ExitStack()
    stack.enter_context(torch.autograd.set_multithreading_enabled(False))
    if not case.training:
        stack.enter_context(torch.no_grad())
    return stack


def capture(case: Case, ahead: bool = False) -> Replay:
    """A graph of the step; with `ahead` one replay is kept encoded."""
    graph = mps.MPSGraph(encode_ahead=int(ahead))
    with mps.graph(graph):
        outputs = case.step()

    def wait_until_ready() -> None:
        while not (stats := graph.stats())["ready_replays"] and not stats["why_not_ahead"]:
            time.sleep(0.0002)

    stats = graph.stats()
    return Replay(
        graph.replay,
        outputs,
        {kind: stats[kind] for kind in _STEPS if stats.get(kind)},
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
            raise NotRun("CUDA has neither indirect command buffers nor another way to replay")
        graph = cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            outputs = case.step()
        return Replay(graph.replay, outputs)
    with mock.patch.dict(os.environ, {"PYTORCH_MPS_GRAPH_INDIRECT_COMMANDS": "1"} if mode == INDIRECT else {}):
        return capture(case, mode == AHEAD)


def prepare(case: Case, device: Device) -> tuple[dict[str, Replay], dict[str, str]]:
    """Captures the case for each mode; returns what runs, and the reasons of what does not."""
    replays, reasons = {}, {}
    for mode in MODES[1:]:
        try:
            replays[mode] = _capture_for(mode, case, device)
        except NotRun as reason:
            reasons[mode] = str(reason)
    return replays, reasons
