"""Random tensor programs: replays on new inputs leave every visible tensor as eager does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from memory import allocated, returns_to
from patched import mps
from tensor_programs import Data, drop, HOSTS, Made, make_data, programs, run, SIDE, Step

# A program may consist of views only.
pytestmark = pytest.mark.filterwarnings("ignore:torch.mps graph replay. nothing ran")

numbers = st.integers(0, 15)
seeds = st.integers(0, 1000)
# Which graph is replayed, whether the inputs are updated before, and with what.
replays = st.lists(st.tuples(numbers, st.booleans(), seeds), min_size=1, max_size=5)


class Interruption(Exception):
    pass


def _raise_own(data: Data) -> None:
    raise Interruption


def _read_on_host(data: Data) -> None:
    data.inputs[0].sum().item()


def _misuse(data: Data) -> None:
    torch.mm(data.inputs[0], data.inputs[0][1:])


def _interrupt(data: Data) -> None:
    raise KeyboardInterrupt


FAILURES: dict[type[BaseException], tuple[Callable[[Data], None], ...]] = {
    Interruption: (_raise_own,),
    RuntimeError: (_read_on_host, _misuse),
    KeyboardInterrupt: (_interrupt,),
}
failures = st.sampled_from([(kind, fail) for kind, several in FAILURES.items() for fail in several])


def capture(program: list[Step], data: Data) -> tuple[Any, Made]:
    graph = mps.MPSGraph()
    with mps.graph(graph):
        made = run(program, data)
    return graph, made


def make_hosts(seed: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.rand(SIDE, SIDE, generator=generator) for _ in range(HOSTS)]


def update(data: Data, reference: Data, seed: int) -> None:
    data.update(seed)
    reference.update(seed)
    # the host tensors are common to both
    for host, new in zip(data.hosts, make_hosts(seed)):
        host.copy_(new)


def assert_equal(actual: Made, expected: Made, what: str) -> None:
    assert len(actual) == len(expected)
    for number, (one, other) in enumerate(zip(actual, expected)):
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            named = f"{what} {number}: "
            torch.testing.assert_close(one.cpu(), other.cpu(), rtol=0, atol=0, equal_nan=True, msg=named.__add__)


def _check_programs(
    captured: list[tuple[list[Step], list[int]]], schedule: list[tuple[int, bool, int]], data: Data
) -> None:
    """Captures programs, drops some results, replays them interleaved, and compares all with eager."""
    reference = make_data(data.hosts)
    update(data, reference, 0)
    graphs: list[Any] = []
    made: list[Made] = []
    expected: list[Made] = []
    for program, dropped in captured:
        graph, results = capture(program, data)
        expected.append(run(program, reference))
        assert_equal(results, expected[-1], "after the capture, result")
        drop(results, dropped)
        drop(expected[-1], dropped)
        graphs.append(graph)
        made.append(results)
    del results
    # takes memory that was freed, were it not kept for the graphs
    others = [torch.full((side, SIDE), 7.0, device="mps") for side in (1, 2, SIDE) for _ in range(4)]
    for number, updated, seed in schedule:
        number %= len(graphs)
        if updated:
            update(data, reference, seed)
        graphs[number].replay()
        program, dropped = captured[number]
        expected[number] = run(program, reference)
        drop(expected[number], dropped)
        assert_equal([*data.inputs], [*reference.inputs], "input")
        for graph_number in range(len(graphs)):
            assert_equal(made[graph_number], expected[graph_number], f"graph {graph_number}, result")
    for other in others:
        assert bool((other.cpu() == 7).all()), "a replay wrote to memory of others"
    made.clear()
    for number, graph in enumerate(graphs):
        if number % 2 == 0:
            graph.reset()


@given(st.lists(st.tuples(programs, st.lists(numbers, max_size=4)), min_size=1, max_size=3), replays)
def test_replays_equal_eager(
    captured: list[tuple[list[Step], list[int]]], schedule: list[tuple[int, bool, int]]
) -> None:
    data = make_data(make_hosts(0))
    before = allocated()
    _check_programs(captured, schedule, data)
    assert returns_to(before)


@given(programs, numbers, failures, seeds)
def test_exception_in_the_block(
    program: list[Step], cut: int, failure: tuple[type[BaseException], Callable[[Data], None]], seed: int
) -> None:
    """What ran before it counts, as in eager; the graph is empty, and can be captured again."""
    data = make_data(make_hosts(seed))
    reference = make_data(data.hosts)
    update(data, reference, seed)
    before = allocated()
    kind, fail = failure
    graph = mps.MPSGraph()
    with pytest.raises(kind), mps.graph(graph):
        run(program[:cut], data)
        fail(data)
    run(program[:cut], reference)
    assert_equal([*data.inputs], [*reference.inputs], "input")
    with pytest.raises(RuntimeError, match="empty"):
        graph.replay()
    assert returns_to(before)
    with mps.graph(graph):
        made = run(program, data)
    run(program, reference)
    update(data, reference, seed + 1)
    graph.replay()
    assert_equal(made, run(program, reference), "result")
    del made
    graph.reset()
    assert returns_to(before)
