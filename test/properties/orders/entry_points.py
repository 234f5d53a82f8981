"""The ways to run a target: eagerly, by captured graphs, and as the reference that traces but does not capture."""

import functools
import types
from collections.abc import Callable, Sequence
from typing import Any

import torch
from subjects import Target
from torch import mps
from torch.mps._compiled_graphs import drop_all

# A process compiles every kind of module once, and many forms of it: training, frozen, other shapes.
torch._dynamo.config.cache_size_limit = 100_000
torch._dynamo.config.accumulated_cache_size_limit = 100_000
# Another shape is another trace; sharing one is for `dynamic=True`.
torch._dynamo.config.automatic_dynamic_shapes = False

Call = Callable[[Target, torch.Tensor], Any]
Block = Callable[[], Sequence[torch.Tensor]]


def call(target: Target, x: torch.Tensor) -> Any:
    return target(x)


class Captured:
    """A block that a graph repeats."""

    def __init__(self, block: Block) -> None:
        self.graph = mps.MPSGraph()
        with mps.graph(self.graph, empty_cache=False):
            self.results = list(block())

    def replay(self) -> None:
        self.graph.replay()


class Repeated:
    """A block that runs again where a graph would be replayed."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self.results = list(block())

    def replay(self) -> None:
        new = self.block()
        with torch.no_grad():
            for kept, result in zip(self.results, new, strict=True):
                kept.copy_(result)


def make_graphed(targets: Sequence[Target], samples: Sequence[torch.Tensor]) -> Sequence[Target]:
    """Graphed callables of one call share a pool."""
    graphed: Sequence[Target] = mps.make_graphed_callables(
        tuple(targets), tuple((sample,) for sample in samples), num_warmup_iters=1, allow_unused_input=True
    )
    return graphed


_OPTIONS: dict[str, dict[str, Any]] = {
    "compiled": {},
    "compiled dynamic": {"dynamic": True},
    "compiled views": {"dynamic": True, "options": {"copy_outputs": False}},
}


def _of_its_own(name: str) -> Call:
    """`call` with code of its own, as torch.compile keeps what it makes by code."""
    return types.FunctionType(call.__code__.replace(co_name=name), call.__globals__)


@functools.cache
def compiled(kind: str, entry: str) -> Call:
    """Compiled once per process: programs share traces, and the graphs are dropped between them."""
    function = _of_its_own(f"{kind}_{entry.replace(' ', '_')}")
    return torch.compile(function, backend="mpsgraphs", **_OPTIONS[entry])


@functools.cache
def _traced_only() -> Callable[..., Any]:
    from torch._dynamo.backends.mpsgraphs import _aot_autograd
    from torch._functorch.compilers import make_boxed_compiler

    def without_autocast(module: torch.fx.GraphModule, _inputs: object) -> Callable[..., Any]:
        # The traced operators have the casts. AOTAutograd leaves the autocast of this device on.
        def run(*args: Any) -> Any:
            with torch._C._DisableAutocast():
                return module(*args)

        return run

    return _aot_autograd(fw_compiler=make_boxed_compiler(without_autocast), keep_inference_input_mutations=True)


@functools.cache
def traced(kind: str, entry: str) -> Call:
    """Traced as the backend does, and run as the operators come: rounds and raises as AOTAutograd makes it."""
    dynamic = _OPTIONS[entry].get("dynamic")
    return torch.compile(_of_its_own(f"{kind}_traced"), backend=_traced_only(), dynamic=dynamic)


def let_go() -> None:
    """Drops the graphs of all compiled functions; their traces stay."""
    drop_all()
    # Two threads that call functions compiled with dynamic=True may leave this off, since each puts back what it found.
    torch._dynamo.config.assume_static_by_default = True
