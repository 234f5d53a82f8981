"""Times of elementwise operations on the simulator, next to torch's own on the CPU.

    python -m mps_simulator.bench [--elements 1000000] [--rounds 50] [--limit 3]

Both use one thread for computing. What counts is the processor's time, so that other programs on the machine matter
little. The times are the simulator's: they say how long its tests take, and nothing about a GPU.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import NamedTuple, TYPE_CHECKING

from . import install

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

KERNEL = """
#include <metal_stdlib>
using namespace metal;
kernel void scaled(device const float* x [[buffer(0)]], device float* out [[buffer(1)]],
                   constant float& factor [[buffer(2)]], uint i [[thread_position_in_grid]]) {
  out[i] = x[i] * factor + 1.0f;
}
"""


class Timing(NamedTuple):
    """One line of the table, in milliseconds."""

    name: str
    simulator: float
    cpu: float

    @property
    def ratio(self) -> float:
        """How many times longer the simulator takes."""
        return self.simulator / self.cpu


def operations() -> dict[str, Callable[[dict[str, torch.Tensor]], torch.Tensor]]:
    """What is measured, by name; each takes the inputs by name."""
    import torch

    return {
        "add": lambda t: t["x"] + t["y"],
        "add, in place": lambda t: t["out"].add_(t["y"]),
        "mul": lambda t: t["x"] * t["y"],
        "mul by a number": lambda t: t["x"] * 2.5,
        "div": lambda t: t["x"] / t["y"],
        "exp": lambda t: t["x"].exp(),
        "tanh": lambda t: t["x"].tanh(),
        "sigmoid": lambda t: t["x"].sigmoid(),
        "relu": lambda t: t["x"].relu(),
        "gelu": lambda t: torch.nn.functional.gelu(t["x"]),
        "sqrt": lambda t: t["y"].sqrt(),
        "where": lambda t: torch.where(t["mask"], t["x"], t["y"]),
        "greater": lambda t: t["x"] > t["y"],
        "to float16": lambda t: t["x"].half(),
        "from float16": lambda t: t["half"].float(),
        "to int32": lambda t: t["x"].int(),
        "add of int32": lambda t: t["int"] + t["int"],
        "add of float16": lambda t: t["half"] + t["half"],
        "bitwise and": lambda t: t["int"] & 255,
        "copy": lambda t: t["x"].clone(),
        "add, transposed": lambda t: t["square"].t() + t["square"],
    }


def inputs(elements: int) -> dict[str, torch.Tensor]:
    """The same numbers for both devices, on the CPU."""
    import torch

    torch.manual_seed(0)
    side = int(elements**0.5)
    x = torch.randn(elements)
    return {
        "x": x,
        "y": torch.rand(elements) + 0.5,
        "out": torch.zeros(elements),
        "mask": x > 0,
        "half": x.half(),
        "int": (x * 1000).int(),
        "square": torch.randn(side, side),
    }


def fastest(run: Callable[[], object], finish: Callable[[], object], rounds: int) -> float:
    """Milliseconds of processor time in the fastest round; the first ones compile, and fill caches."""
    times = []
    for _ in range(rounds + 2):
        finish()
        start = time.process_time()
        run()
        finish()
        times.append(time.process_time() - start)
    return 1000 * min(times[2:])


def measure(elements: int, rounds: int) -> list[Timing]:
    """Times every operation on both devices, one after the other."""
    import torch

    cpu = inputs(elements)
    mps = {name: tensor.to("mps") for name, tensor in cpu.items()}
    result = []
    for name, operation in operations().items():

        def on_cpu(operation: Callable[..., torch.Tensor] = operation) -> torch.Tensor:
            return operation(cpu)

        def on_simulator(operation: Callable[..., torch.Tensor] = operation) -> torch.Tensor:
            return operation(mps)

        simulated = fastest(on_simulator, torch.mps.synchronize, rounds)
        result.append(Timing(name, simulated, fastest(on_cpu, lambda: None, rounds)))
    return [*result, measure_kernel(cpu["x"], mps["x"], rounds)]


def measure_kernel(cpu: torch.Tensor, mps: torch.Tensor, rounds: int) -> Timing:
    """Times a kernel of our own, next to the same in two operations on the CPU."""
    import torch

    library = torch.mps._compile_shader(KERNEL)
    out = torch.empty_like(mps)
    simulated = fastest(lambda: library.scaled(mps, out, 2.5), torch.mps.synchronize, rounds)
    if not torch.equal(out.cpu(), cpu * 2.5 + 1.0):
        raise AssertionError("the kernel's result is wrong")
    return Timing("custom kernel, x * a + 1", simulated, fastest(lambda: cpu * 2.5 + 1.0, lambda: None, rounds))


def main() -> int:
    """Prints the table; exit status 1 when some operation is beyond the limit."""
    parser = argparse.ArgumentParser(prog="python -m mps_simulator.bench", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--elements", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=50, help="of which the fastest counts")
    parser.add_argument("--limit", type=float, default=3.0, help="times the CPU's that an operation may take")
    options = parser.parse_args()
    install()
    import torch

    torch.set_num_threads(1)
    timings = measure(options.elements, options.rounds)
    print("Processor time of the simulator, not of a GPU, and of torch on the CPU with one thread:")
    print(f"{options.elements:,} elements, the fastest of {options.rounds} rounds.")
    print(f"{'operation':26} {'simulator':>12} {'torch, CPU':>12} {'ratio':>7}")
    for timing in timings:
        mark = "  beyond the limit" if timing.ratio > options.limit else ""
        print(f"{timing.name:26} {timing.simulator:9.3f} ms {timing.cpu:9.3f} ms {timing.ratio:7.2f}{mark}")
    return int(any(timing.ratio > options.limit for timing in timings))


if __name__ == "__main__":
    sys.exit(main())
