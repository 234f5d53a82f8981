"""What the benchmark asks of a device: the simulator, a Metal device, or CUDA."""

import gc
import platform
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import torch

try:
    import mps_simulator
except ImportError:  # only where the simulator is wanted
    mps_simulator = None  # type: ignore[assignment]


# The first pattern that is found in a selector gives its kind.
_KINDS = (
    ("graph runs", r"\[MPSGraph(Executable)? (encode|run)"),
    ("dispatches", r" dispatchThread| executeCommandsInBuffer"),
    ("set pipeline", r" setComputePipelineState:"),
    ("set bytes", r"(ComputeCommandEncoder|Encoder) setBytes:"),
    ("set buffer", r"ComputeCommandEncoder setBuffer"),
    ("barriers", r" memoryBarrier"),
    ("copies and fills", r" copyFromBuffer:| fillBuffer:"),
    ("encoders opened", r" (blitCommandEncoder|computeCommandEncoder)"),
    ("encoders ended", r" endEncoding"),
    ("tensor data", r"\[MPSGraphTensorData |\[MPSNDArray"),
    ("commits", r" commit"),
)


def by_kind(counts: Mapping[str, int]) -> dict[str, int]:
    """Calls like ``-[MTLCommandBuffer commit]`` by kind, those on or of encoders, and all."""
    result: Counter[str] = Counter()
    for selector, count in counts.items():
        result[next((kind for kind, pattern in _KINDS if re.search(pattern, selector)), "other")] += count
    encoders = sum(count for selector, count in counts.items() if re.search(r"\[MTL.*Encoder| (encode|run)", selector))
    return dict(sorted(result.items())) | {"encoder calls": encoders, "total": sum(counts.values())}


class Device:
    """A device that computes; what differs on others is overridden."""

    name = "mps"
    simulated = False

    def synchronize(self) -> None:
        getattr(torch, self.name).synchronize()

    def give_back(self) -> None:
        """Give back what a configuration used."""
        gc.collect()
        getattr(torch, self.name).empty_cache()

    @contextmanager
    def measuring(self) -> Iterator[None]:
        """In the block times are taken."""
        yield

    def pool(self) -> Any:
        """A context for one trial or call, at whose end temporary objects are dropped."""
        return nullcontext()

    def calls(
        self, run: Callable[[], object], wait_until_ready: Callable[[], None] | None = None
    ) -> dict[str, int] | None:
        """Framework calls of a run by kind, where they can be counted."""
        return None

    def machine(self) -> str:
        return f"{platform.platform()}, {platform.processor()}"


class Simulator(Device):
    """The simulated device: encodes and does not execute while times are taken."""

    simulated = True

    @contextmanager
    def measuring(self) -> Iterator[None]:
        from benchmark.simulated_times import not_executed

        self.synchronize()
        with not_executed():
            yield

    def pool(self) -> Any:
        return mps_simulator.autorelease_pool()

    def calls(
        self, run: Callable[[], object], wait_until_ready: Callable[[], None] | None = None
    ) -> dict[str, int] | None:
        run()
        self.synchronize()  # an encoder that is open would take the calls of this run, too
        if wait_until_ready:
            wait_until_ready()
        mps_simulator.reset_counters()
        run()
        if not wait_until_ready:  # else the next replay would be encoded meanwhile
            self.synchronize()
        return by_kind(mps_simulator.counters())

    def machine(self) -> str:
        return f"simulator of macOS {'.'.join(map(str, mps_simulator.macos_version()))}, {platform.platform()}"


class Cuda(Device):
    """A CUDA device under a stock torch, for comparison."""

    name = "cuda"

    def machine(self) -> str:
        return f"{torch.cuda.get_device_name()}, CUDA {torch.version.cuda}"


def find(name: str) -> Device:
    """The device of a name: ``mps``, simulated or not, or ``cuda``."""
    if name == "cuda":
        if not torch.cuda.is_available():
            raise RuntimeError("This torch sees no CUDA device: run it where there is one, or leave DEVICE out.")
        return Cuda()
    if not torch.backends.mps.is_available():
        raise RuntimeError("There is no MPS device here. On Linux `make` and scripts/mpsfork bring the simulated one.")
    if not hasattr(torch.mps, "MPSGraph"):
        raise RuntimeError("This torch has no torch.mps.MPSGraph: install the one that `make wheel` makes.")
    if mps_simulator is not None and mps_simulator.is_installed():
        return Simulator()
    return Device()
