"""torch.accelerator.Graph reaches the engine by the adapter: what is passed on, and in which order.

The overlay's own test_mps_accelerator_graph.py, which runs here too, has the values and the refusals.
"""

import threading
from pathlib import Path
from typing import Any

import pytest
import torch

ENTERED = ["synchronize", "empty_cache"]


def capture(graph: Any, function: Any = lambda: None) -> None:
    with graph:
        function()


def test_calls(calls: Any) -> None:
    first = torch.accelerator.Graph()
    capture(first)
    first.replay()
    first.reset()
    assert calls() == ["new", *ENTERED, "begin pool=none", "end", "replay", "reset"]
    capture(first)
    capture(torch.accelerator.Graph(pool=first.pool()))
    assert f"begin pool={first.pool()[0]},{first.pool()[1]}" in calls()
    kept = torch.accelerator.Graph(keep_graph=True)
    capture(kept)
    kept.instantiate()
    assert calls() == ["new keep_graph", *ENTERED, "begin pool=none", "end", "instantiate"]
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
