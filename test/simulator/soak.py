"""Runs a long mix of operations and checks that nothing piles up.

Usage: python -m mps_simulator test/simulator/soak.py [--ops N] [--seed N]

Prints a table: resident memory, the allocator's bytes and live Objective-C
objects every tenth of the way. Fails when, in the last third, resident memory
grows by more than ``--limit-mib``, the allocator's bytes by anything, or the
objects of a class by more than happen to be in flight and more than is listed
in ``KNOWN_LEAKS``.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import random
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

import mps_simulator

# Command buffers and what they hold at the moment of counting.
IN_FLIGHT = 40
# Leaks of PyTorch 2.6.0 itself, by family: objects per pass. They are counted, shown and named, and
# whatever is beyond them is a failure. getStridedMPSNDArray does not release its copies of the shape
# and strides of a view without a stride of one; argmax_argmin_out_mps that of its input's shape.
KNOWN_LEAKS = {"strided_views": {"NSArray": 2}, "reductions": {"NSMutableArray": 1}}


class CountOperations(TorchDispatchMode):
    """Counts calls of operators."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        return func(*args, **(kwargs or {}))


class Mix:
    """The families: each call is a few operations, on memory that is given back."""

    def __init__(self, seed: int) -> None:
        torch.manual_seed(seed)
        self.square = torch.randn(24, 24).to("mps")
        self.half = torch.randn(24, 24).to("mps", torch.float16)
        self.whole = torch.arange(576, dtype=torch.int32).reshape(24, 24).to("mps")
        self.image = torch.randn(2, 3, 16, 16).to("mps")
        self.index = torch.tensor([3, 1, 2]).to("mps")
        self.filters = torch.randn(4, 3, 3, 3).to("mps")
        self.model = torch.nn.Sequential(torch.nn.Linear(24, 32), torch.nn.GELU(), torch.nn.Linear(32, 4)).to("mps")
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.labels = torch.zeros(24, dtype=torch.long, device="mps")

    def elementwise(self) -> None:
        y = torch.sigmoid(self.square * 2 + 1).exp() - self.square.abs().sqrt()
        torch.where(y > 0, y, -y).clamp_(0, 1)

    def half_precision(self) -> None:
        (self.half @ self.half + self.half.tanh()).float().mean()

    def integers(self) -> None:
        ((self.whole & 7) + (self.whole >> 1)).remainder(5).max()

    def matrices(self) -> None:
        torch.addmm(self.square, self.square, self.square)
        torch.bmm(self.square.expand(2, 24, 24).contiguous(), self.square.expand(2, 24, 24).contiguous())

    def convolutions(self) -> None:
        y = F.conv2d(self.image, self.filters, padding=1)
        F.max_pool2d(F.relu(y), 2)
        F.interpolate(y, scale_factor=2, mode="nearest")

    def reductions(self) -> None:
        self.square.sum(0)
        self.square.argmax(1)
        self.square.softmax(-1).cumsum(0)
        self.square.var(1)

    def norms(self) -> None:
        F.layer_norm(self.square, (24,))
        F.batch_norm(self.image, None, None, training=True)

    def indexing(self) -> None:
        copy = self.square.clone()
        copy[1:3] = 2.0
        copy[self.index] = copy[self.index] + 1
        copy.index_add_(0, self.index, self.square[:3]).gather(1, self.whole.long() % 24)
        torch.sort(copy, 1)

    def random_numbers(self) -> None:
        torch.randn(8, 8, device="mps")
        torch.rand(8, 8, device="mps").bernoulli_(0.5)
        F.dropout(self.square, 0.5)
        torch.randint(0, 9, (5,), device="mps")

    def copies(self) -> None:
        there = torch.randn(64).to("mps")
        back = there.cpu()
        self.square[0].copy_(back[:24])
        torch.cat([there, there]).to(torch.float16).cpu()

    def strided_views(self) -> None:
        self.square[:, ::2].sum(0)
        self.square.t().contiguous()

    def attention(self) -> None:
        x = self.square.reshape(1, 1, 24, 24)
        F.scaled_dot_product_attention(x, x, x)

    def linear_algebra(self) -> None:
        torch.linalg.solve_triangular(self.square.tril() + 3, self.square, upper=False)
        self.square.triu().trace()

    def training(self) -> None:
        loss = F.cross_entropy(self.model(self.square), self.labels)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.optimizer.zero_grad()

    def capture(self) -> None:
        graph = torch.mps.MPSGraph()
        with torch.no_grad(), torch.mps.graph(graph):
            y = self.model(self.square).softmax(-1)
        for _ in range(3):
            self.square.mul_(0.999)
            graph.replay()
        y.sum().item()
        graph.reset()

    def families(self) -> dict[str, Callable[[], None]]:
        """Returns all of them by name; no capture on a backend without it."""
        names = [name for name in vars(Mix) if not name.startswith("_") and name != "families"]
        if not hasattr(torch.mps, "MPSGraph"):
            names.remove("capture")
        return {name: getattr(self, name) for name in names}


@dataclass
class Mark:
    """What there is at one moment."""

    operations: int
    resident: int
    allocator: int
    driver: int
    objects: dict[str, int]
    passes: Counter[str] = field(default_factory=Counter)


def _resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def take_mark(operations: int, passes: Counter[str]) -> Mark:
    """Waits until nothing is in flight, and counts."""
    torch.mps.synchronize()
    gc.collect()
    torch.mps.empty_cache()
    # Memory that malloc keeps for itself is not a leak.
    ctypes.CDLL(None).malloc_trim(0)
    return Mark(
        operations,
        _resident_bytes(),
        torch.mps.current_allocated_memory(),
        torch.mps.driver_allocated_memory(),
        mps_simulator.live_objects(),
        Counter(passes),
    )


def faults(before: Mark, after: Mark, limit: int) -> list[str]:
    """Says what grew between two marks beyond what is known."""
    found = []
    if after.resident - before.resident > limit:
        found.append(f"resident memory grew by {(after.resident - before.resident) / 2**20:.1f} MiB")
    if after.allocator > before.allocator:
        found.append(f"the allocator's bytes grew from {before.allocator:,} to {after.allocator:,}")
    passes = after.passes - before.passes
    for name, count in sorted(after.objects.items()):
        known = sum(passes[family] * leaks.get(name, 0) for family, leaks in KNOWN_LEAKS.items())
        grown = count - before.objects.get(name, 0)
        if grown > IN_FLIGHT + known:
            found.append(f"{name} grew by {grown:,} objects, {known:,} of them known")
    return found


def run(operations: int, seed: int) -> list[Mark]:
    """Runs the mix and returns a mark for every tenth of the way."""
    families = Mix(seed).families()
    sizes = {}
    passes: Counter[str] = Counter()
    # Caches fill up: graphs, pipelines, malloc's arenas.
    for name, family in list(families.items()) * 3:
        with mps_simulator.autorelease_pool():
            # A capture counts what its replays submit as well.
            with CountOperations() as counter:
                family()
            sizes[name] = counter.count * (4 if name == "capture" else 1)
    chooser = random.Random(seed)
    # These two are many operations at once.
    weights = [1 if name in ("capture", "training") else 4 for name in families]
    print(f"{len(families)} families: " + ", ".join(f"{name} ({size})" for name, size in sizes.items()))
    print(
        f"{'ops':>8} {'seconds':>8} {'resident MiB':>13} {'allocator':>10} {'driver':>11} {'objects':>8}  largest classes"
    )
    marks: list[Mark] = []
    started, done = time.monotonic(), 0
    while True:
        if done >= len(marks) * operations / 10:
            mark = take_mark(done, passes)
            marks.append(mark)
            largest = sorted(mark.objects.items(), key=lambda item: -item[1])[:4]
            print(
                f"{done:8,} {time.monotonic() - started:8.1f} {mark.resident / 2**20:13.1f} {mark.allocator:10,} "
                f"{mark.driver:11,} {sum(mark.objects.values()):8,}  "
                + ", ".join(f"{name} {count:,}" for name, count in largest),
                flush=True,
            )
        if done >= operations:
            return marks
        name = chooser.choices(list(families), weights)[0]
        # Python's main thread has no pool, and the backend autoreleases outside of its own.
        with mps_simulator.autorelease_pool():
            families[name]()
        done += sizes[name]
        passes[name] += 1


def main() -> int:
    """Runs the mix and checks the last third."""
    parser = argparse.ArgumentParser(prog="soak.py", description="Runs a long mix of operations.")
    parser.add_argument("--ops", type=int, default=20_000, help="operations to run (default 20,000)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit-mib", type=float, default=4.0, help="growth allowed in the last third (default 4)")
    options = parser.parse_args()
    marks = run(options.ops, options.seed)
    before, after = marks[-4], marks[-1]
    passes = after.passes - before.passes
    for family, leaks in KNOWN_LEAKS.items():
        counts = ", ".join(f"{count * passes[family]:,} {name}" for name, count in leaks.items())
        print(f"known leak of PyTorch in {family}, {passes[family]:,} passes since {before.operations:,} ops: {counts}")
    grown = {name: count - before.objects.get(name, 0) for name, count in after.objects.items()}
    print(f"objects since then: {', '.join(f'{name} {count:+,}' for name, count in grown.items() if count) or 'same'}")
    found = faults(before, after, int(options.limit_mib * 2**20))
    for fault in found:
        print(f"error: from {before.operations:,} to {after.operations:,} ops {fault}", file=sys.stderr)
    if not found:
        print(
            f"nothing piles up: resident memory {(after.resident - before.resident) / 2**20:+.2f} MiB "
            f"from {before.operations:,} to {after.operations:,} ops"
        )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
