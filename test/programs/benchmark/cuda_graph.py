"""Captures a step with torch.cuda.graph."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path
from typing import Any

import torch

from benchmark.case import Case
from benchmark.replay import Replay

# Annotations differ by version, and some have none.
cuda: Any = torch.cuda


def warm_up_cuda(case: Case, passes: int) -> None:
    """Runs the step on a stream of its own, as captures want it."""
    stream = cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(passes):
            case.step()
    torch.cuda.current_stream().wait_stream(stream)


def _nodes(graph: Any) -> int | None:
    # torch counts none; the run-time library that it has loaded does
    maps = Path("/proc/self/maps")
    found = re.search(r"(/\S*libcudart[^\s/]*\.so[^\s/]*)", maps.read_text()) if maps.exists() else None
    if not found or not hasattr(graph, "raw_cuda_graph"):
        return None
    count = ctypes.c_size_t()
    library = ctypes.CDLL(found.group(1))
    status = library.cudaGraphGetNodes(ctypes.c_void_p(graph.raw_cuda_graph()), None, ctypes.byref(count))
    return count.value if status == 0 else None


def capture_cuda(case: Case) -> Replay:
    """A graph of the step; its steps are the nodes of the CUDA graph, where they can be counted."""
    try:
        graph = cuda.CUDAGraph(keep_graph=True)
    except TypeError:  # before torch 2.8
        graph = cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outputs = case.step()
    nodes = _nodes(graph)
    return Replay(graph.replay, outputs, {} if nodes is None else {"nodes": nodes})
