"""The short form of the capture cases: what must be refused, and what must be left behind by it."""

import gc
import time
from typing import Any

import torch

from .comparison import Outcome


def _raises(words: str, action: Any) -> str:
    """Return what is wrong, or nothing: the action must raise a RuntimeError with these words."""
    try:
        action()
    except RuntimeError as error:
        return "" if words in str(error) else f"it raised something else: {error}".splitlines()[0]
    return "nothing was raised"


def _graph() -> Any:
    mps: Any = torch.mps
    return mps.MPSGraph()


def _captured(function: Any) -> Any:
    mps: Any = torch.mps
    graph = _graph()
    with mps.graph(graph):
        graph.result = function()
    return graph


def host_read() -> str:
    """A read of the device's data by the host is refused, and the next capture works."""
    x = torch.ones(4, device="mps")
    wrong = _raises("the host read device data", lambda: _captured(lambda: x.sum().item()))
    if wrong:
        return wrong
    graph = _captured(lambda: x + 1)
    x.fill_(5)
    graph.replay()
    return "" if graph.result.tolist() == [6.0] * 4 else "a capture after it is wrong"


def moved_storage() -> str:
    """A replay raises when a tensor has other memory than at its capture."""
    x = torch.ones(4, device="mps")
    graph = _captured(lambda: x + 1)
    x.data = torch.zeros(4, device="mps")
    return _raises("another storage", graph.replay)


def replay_before_capture() -> str:
    """A graph without a capture has nothing to replay."""
    return _raises("this graph is empty", _graph().replay)


def capture_in_capture() -> str:
    """A capture in a capture is refused."""
    x = torch.ones(4, device="mps")
    return _raises("captur", lambda: _captured(lambda: _captured(lambda: x + 1)))


def exception() -> str:
    """An exception in the block leaves the graph empty and the device usable."""
    x = torch.ones(4, device="mps")

    def fail() -> None:
        x.add_(1)
        raise KeyError("planned")

    try:
        _captured(fail)
    except KeyError:
        return "" if (x * 2).tolist() == [4.0] * 4 else "the device computes something else afterwards"
    return "the exception was lost"


def memory_comes_back() -> str:
    """All memory of a graph is given back when it goes."""
    mps: Any = torch.mps
    x = torch.ones(1 << 16, device="mps")

    def level() -> int:
        gc.collect()
        torch.mps.synchronize()
        time.sleep(0.01)
        return int(torch.mps.current_allocated_memory())

    while level() != level():
        pass
    before = level()
    graph = _captured(lambda: (x * 2).exp())
    if level() <= before:
        return "a graph takes no memory: nothing was shown"
    del graph
    end = time.monotonic() + 5
    while level() != before and time.monotonic() < end:
        pass
    mps.empty_cache()
    return "" if level() == before else f"{level() - before} bytes stay allocated"


def random_numbers() -> str:
    """Each replay draws new numbers, and leaves the generator where eager would."""
    mps: Any = torch.mps
    graph = _captured(lambda: torch.rand(64, device="mps"))
    torch.mps.manual_seed(7)
    expected = [torch.rand(64, device="mps").cpu() for _ in range(2)]
    state = mps.get_rng_state()
    torch.mps.manual_seed(7)
    for each in expected:
        graph.replay()
        if not torch.equal(graph.result.cpu(), each):
            return "a replay draws other numbers than eager"
    if torch.equal(expected[0], expected[1]):
        return "eager draws the same numbers twice: nothing was shown"
    return "" if torch.equal(mps.get_rng_state(), state) else "the generator is left in another state than eager's"


def make_graphed_callables() -> str:
    """A module's forward and backward pass as graphs: gradients as eager's."""
    mps: Any = torch.mps
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4)).to("mps")
    inputs = [torch.randn(4, 8, device="mps") for _ in range(3)]

    def gradients(function: Any, x: torch.Tensor) -> Any:
        module.zero_grad()
        function(x).square().sum().backward()
        return [parameter.grad.cpu() for parameter in module.parameters() if parameter.grad is not None]

    expected = [gradients(module, x) for x in inputs]
    graphed = mps.make_graphed_callables(module, (inputs[0].clone(),))
    for x, wanted in zip(inputs[1:], expected[1:]):
        if not all(torch.equal(a, b) for a, b in zip(gradients(graphed, x), wanted)):
            return "gradients differ from eager's"
    return "" if not torch.equal(expected[0][0], expected[1][0]) else "gradients are the same: nothing was shown"


PROMISES = (
    host_read,
    moved_storage,
    replay_before_capture,
    capture_in_capture,
    exception,
    memory_comes_back,
    random_numbers,
    make_graphed_callables,
)


def check(promise: Any) -> Outcome:
    """Try one of the promises; its docstring is what it says."""
    name = promise.__doc__.strip().splitlines()[0].rstrip(".")
    try:
        wrong = promise()
    except Exception as error:  # a report says what failed and goes on
        return Outcome(name, "error", f"{type(error).__name__}: {error}".splitlines()[0])
    return Outcome(name, "broken", wrong) if wrong else Outcome(name, "kept")
