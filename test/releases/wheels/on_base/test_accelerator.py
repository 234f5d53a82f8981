"""torch.accelerator.Graph reaches the engine by the adapter: what is passed on, in which order, and what is refused."""

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


def test_the_accelerator_is_mps() -> None:
    assert torch.accelerator.current_accelerator() == torch.device("mps")


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
    other = torch.accelerator.Graph()
    capture(other, lambda: None)
    with pytest.raises(RuntimeError, match="made with keep_graph=True"):
        other.instantiate()


def test_refusals() -> None:
    graph = torch.accelerator.Graph()
    for call in (graph.replay, graph.capture_end, graph.pool):
        with pytest.raises(RuntimeError, match="empty|not being captured|before a capture"):
            call()
    with pytest.raises(RuntimeError, match="can't be nested"), graph:
        torch.accelerator.Graph().capture_begin()
    with pytest.raises(RuntimeError, match="empty"):
        graph.replay()


def test_block_that_raises(calls: Any) -> None:
    graph = torch.accelerator.Graph()
    x = torch.zeros(3, device="mps")
    with pytest.raises(KeyError), graph:
        x.add_(1)
        raise KeyError("in the middle")
    assert calls()[-2:] == ["end", "reset"]
    with pytest.raises(RuntimeError, match="empty"):
        graph.replay()


def test_stream_is_capturing() -> None:
    stream = torch.accelerator.current_stream()
    seen: list[bool] = []

    def look() -> bool:
        thread = threading.Thread(target=lambda: seen.append(stream.is_capturing()))
        thread.start()
        thread.join()
        return bool(stream.is_capturing())

    assert capture(torch.accelerator.Graph(), look) is True
    # Its work is not recorded.
    assert seen == [False]
    assert not stream.is_capturing()


def test_dump(tmp_path: Path) -> None:
    graph = torch.accelerator.Graph()
    capture(graph, lambda: torch.ones(2, device="mps") + 1)
    path = tmp_path / "graph.dot"
    with pytest.raises(RuntimeError, match="call enable_debug_mode"):
        graph.debug_dump(str(path))
    graph.enable_debug_mode()
    graph.debug_dump(str(path))
    text = path.read_text()
    assert text.startswith("digraph mps_graph {\n  b0 [shape=ellipse") and text.endswith("}\n")
    assert 's0 [shape=box, label="0: kernel aten::fill_\\nthreads=[4, 1, 1]"];' in text and "s0 -> s1;" in text
    with pytest.raises(RuntimeError, match="could not write"):
        graph.debug_dump(str(tmp_path / "nowhere" / "graph.dot"))


def test_a_graph_that_goes_away_during_its_capture() -> None:
    graph = torch.accelerator.Graph()
    graph.capture_begin()
    del graph
    capture(torch.accelerator.Graph(), lambda: None)
