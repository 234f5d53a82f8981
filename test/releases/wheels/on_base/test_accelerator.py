"""torch.accelerator.Graph reaches the engine by the adapter: what is passed on, and in which order.

The overlay's own test_mps_accelerator_graph.py, which runs here too, has the values and the other refusals.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import torch

ENTERED = ["synchronize", "empty_cache"]


def capture(graph: Any, function: Any) -> Any:
    with graph:
        return function()


def test_capture_replay_reset(calls: Any) -> None:
    x = torch.arange(4.0, device="mps")
    graph = torch.accelerator.Graph()
    y = capture(graph, lambda: x * 2 + 1)
    x.fill_(5.0)
    graph.replay()
    assert y.tolist() == [11.0] * 4
    graph.reset()
    z = capture(graph, lambda: x - 1)
    x.fill_(3.0)
    graph.replay()
    assert z.tolist() == [2.0] * 4
    begin = "begin pool=none"
    assert calls() == ["new", *ENTERED, begin, "end", "replay", "reset", *ENTERED, begin, "end", "replay"]


@pytest.mark.parametrize("mode", ["default", "global", "thread_local", "relaxed"])
def test_modes(calls: Any, mode: Any) -> None:
    capture(torch.accelerator.Graph(capture_error_mode=mode), lambda: None)
    assert "begin pool=none" in calls()


def test_pools(calls: Any) -> None:
    first = torch.accelerator.Graph()
    capture(first, lambda: None)
    second = torch.accelerator.Graph(pool=first.pool())
    capture(second, lambda: None)
    assert first.pool() == second.pool() and first.pool() != (0, 0)
    assert f"begin pool={first.pool()[0]},{first.pool()[1]}" in calls()
    third = torch.accelerator.Graph(pool=torch.mps.graph_pool_handle())
    capture(third, lambda: None)
    assert third.pool() != first.pool()


def test_keep_graph(calls: Any) -> None:
    graph = torch.accelerator.Graph(keep_graph=True)
    capture(graph, lambda: torch.ones(2, device="mps") + 1)
    graph.instantiate()
    assert "new keep_graph" in (found := calls()) and "instantiate" in found


def test_refusals() -> None:
    graph = torch.accelerator.Graph()
    for call in (graph.replay, graph.capture_end, graph.pool):
        with pytest.raises(RuntimeError, match="empty|not being captured|before a capture"):
            call()


def test_block_that_raises(calls: Any) -> None:
    with pytest.raises(KeyError), torch.accelerator.Graph():
        raise KeyError("in the middle")
    assert calls()[-2:] == ["end", "reset"]


def test_work_of_another_thread_is_not_recorded() -> None:
    stream = torch.accelerator.current_stream()
    seen: list[bool] = []

    def look() -> None:
        thread = threading.Thread(target=lambda: seen.append(stream.is_capturing()))
        thread.start()
        thread.join()

    capture(torch.accelerator.Graph(), look)
    assert seen == [False]


def test_dump_has_the_steps(tmp_path: Path) -> None:
    graph = torch.accelerator.Graph()
    graph.enable_debug_mode()
    capture(graph, lambda: torch.ones(2, device="mps") + 1)
    path = tmp_path / "graph.dot"
    graph.debug_dump(str(path))
    text = path.read_text()
    assert text.startswith("digraph mps_graph {\n  b0 [shape=ellipse") and text.endswith("}\n")
    assert 's0 [shape=box, label="0: kernel aten::fill_\\nthreads=[4, 1, 1]"];' in text and "s0 -> s1;" in text


def test_a_graph_that_goes_away_during_its_capture() -> None:
    graph = torch.accelerator.Graph()
    graph.capture_begin()
    del graph
    capture(torch.accelerator.Graph(), lambda: None)
