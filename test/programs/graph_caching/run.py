"""Shows what the executable cache counts by operation and parameters: see README.md next to this file."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from benchmark.devices import Device  # noqa: E402
from benchmark.report import heading  # noqa: E402
from measuring import device_and_console, finish, median_seconds, options  # noqa: E402
from rich.table import Table  # noqa: E402

CAPTURES = 2
REPLAYS = 2
WAYS = {"eager": "eager", "eager_cached": "eager, cached", "replay": "replay"}


Shape = tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """One operation with its parameters."""

    kind: str
    parameters: str
    call: Callable[..., torch.Tensor]
    shapes: tuple[Shape, ...]
    dtype: torch.dtype = torch.float32

    def inputs(self) -> list[torch.Tensor]:
        """New ones, made on the CPU so that only the operation itself runs graphs."""
        return [torch.randn(shape).to(self.dtype).to("mps") for shape in self.shapes]


def _matmul() -> list[Case]:
    case = partial(Case, "matmul")
    square = ((64, 64), (64, 64))
    return [
        case("mm 64×64 · 64×64", torch.mm, square),
        case("mm 128×64 · 64×32", torch.mm, ((128, 64), (64, 32))),
        case("mm 64×64 · 64×64, f16", torch.mm, square, torch.float16),
        case("bmm 8 × 32×32 · 32×32", torch.bmm, ((8, 32, 32), (8, 32, 32))),
        case("bmm 4 × 16×48 · 48×16", torch.bmm, ((4, 16, 48), (4, 48, 16))),
        case("addmm 64×64 · 64×64", torch.addmm, ((64,), *square)),
        case("addmm 64×64 · 64×64, beta 0.5", partial(torch.addmm, beta=0.5), ((64,), *square)),
    ]


def _convolution() -> list[Case]:
    case = partial(Case, "convolution")
    image, weight = (2, 8, 16, 16), (16, 8, 3, 3)
    return [
        case("1d 3", F.conv1d, ((2, 8, 32), (16, 8, 3))),
        case("2d 3×3", F.conv2d, (image, weight)),
        case("2d 3×3, bias", F.conv2d, (image, weight, (16,))),
        case("2d 3×3, stride 2, padding 1", partial(F.conv2d, stride=2, padding=1), (image, weight)),
        case("2d 3×3, 4 groups", partial(F.conv2d, groups=4), (image, (16, 2, 3, 3))),
        case("2d 3×3, f16", F.conv2d, (image, weight), torch.float16),
        case("2d 3×3, transposed", F.conv_transpose2d, (image, (8, 16, 3, 3))),
    ]


def _attention() -> list[Case]:
    case = partial(Case, "attention")
    attention = F.scaled_dot_product_attention
    small, wide = ((1, 4, 16, 32),) * 3, ((1, 4, 16, 64),) * 3
    return [
        case("4 heads of 32, 16 tokens", attention, small),
        case("4 heads of 32, 16 tokens, causal", partial(attention, is_causal=True), small),
        case("4 heads of 32, 16 tokens, mask", attention, (*small, (16, 16))),
        case("4 heads of 64, 16 tokens", attention, wide),
        case("4 heads of 32, 1 token of 16", attention, ((1, 4, 1, 32), *small[1:])),
        case("4 heads of 32, 16 tokens, f16", attention, small, torch.float16),
    ]


def all_cases() -> list[Case]:
    return [*_matmul(), *_convolution(), *_attention()]


@dataclass
class Counts:
    """What the cache was asked."""

    hits: int = 0
    misses: int = 0

    def __str__(self) -> str:
        return f"{self.misses} / {self.hits}"

    @contextmanager
    def counting(self, enabled: bool) -> Iterator[None]:
        """Adds what the cache is asked in a block, with eager work using it or not."""
        before = torch.mps.executable_cache_stats()
        torch.mps.set_executable_cache_enabled(enabled)
        yield
        torch.mps.set_executable_cache_enabled(False)
        after = torch.mps.executable_cache_stats()
        self.hits += after["hits"] - before["hits"]
        self.misses += after["misses"] - before["misses"]


@dataclass
class Result:
    kind: str
    parameters: str
    calls: int
    eager: Counts
    captures: Counts
    equal: bool
    # seconds of CPU per call, by the way it was run
    seconds: dict[str, float]

    def is_good(self) -> bool:
        """Whether the values are eager's and a graph is compiled once, whoever comes first; replays look nothing up."""
        once = 0 < self.eager.misses * self.calls == self.eager.misses + self.eager.hits
        return self.equal and once and self.captures.misses == 0


@torch.no_grad()
def measure(case: Case, calls: int, repeats: int, device: Device) -> Result:
    """Run a case `calls` times on new inputs each way, then measure what a call costs."""
    result = Result(case.kind, case.parameters, calls, Counts(), Counts(), True, {})
    for _ in range(calls):
        inputs = case.inputs()
        expected = case.call(*inputs)
        with result.eager.counting(enabled=True):
            got = case.call(*inputs)
        result.equal &= torch.equal(got.cpu(), expected.cpu())

    graphs = []
    for _ in range(CAPTURES):
        graph = torch.mps.MPSGraph()
        with result.captures.counting(enabled=False), torch.mps.graph(graph):
            output = case.call(*inputs)
        graphs.append((graph, output))
    for _ in range(REPLAYS):
        for tensor, new in zip(inputs, case.inputs()):
            tensor.copy_(new)
        expected = case.call(*inputs)
        for graph, output in graphs:
            with result.captures.counting(enabled=False):
                graph.replay()
            result.equal &= torch.equal(output.cpu(), expected.cpu())

    with device.measuring():
        for way in WAYS:
            run = graphs[0][0].replay if way == "replay" else lambda: case.call(*inputs)
            torch.mps.set_executable_cache_enabled(way == "eager_cached")
            result.seconds[way] = median_seconds(run, repeats)
    return result


def cases_table(results: list[Result], simulated: bool) -> Table:
    result = Table("operation", "parameters", title="Each operation and its parameters")
    unit = "simulated µs of CPU" if simulated else "µs of CPU"
    asked = (f"{results[0].calls} eager calls", f"then {CAPTURES} captures")
    for column in (*(f"{one}\nmisses / hits" for one in asked), *(f"{way}\n{unit}" for way in WAYS.values())):
        result.add_column(column, justify="right")
    result.add_column("values")
    for before, row in zip([None, *results], results):
        result.add_row(
            row.kind if before is None or before.kind != row.kind else "",
            row.parameters,
            str(row.eager),
            str(row.captures),
            *(f"{row.seconds[way] * 1e6:.0f}" for way in WAYS),
            "equal" if row.equal else "DIFFER",
            style=None if row.equal else "bold red",
        )
    return result


def operations_table(operations: dict[str, dict[str, int]]) -> Table:
    """What `torch.mps.executable_cache_stats_by_operation()` says after all of it."""
    result = Table("operation", title="torch.mps.executable_cache_stats_by_operation(), the timed calls included")
    columns = ("hits", "misses", "evictions", "entries")
    for column in columns:
        result.add_column(column, justify="right")
    for operation, counts in operations.items():
        result.add_row(operation, *(f"{counts[column]:,}" for column in columns))
    return result


@options("build/reports/graph_caching.json", repeats=200)
@click.option("--calls", default=10, show_default=True, type=click.IntRange(min=2), help="Eager calls per row.")
def main(small: bool, calls: int, repeats: int, report: Path) -> None:
    """Run matmul, convolution and attention without and with cached executables, and captured."""
    del small
    device, console = device_and_console()
    torch.manual_seed(0)
    torch.mps.executable_cache_clear()
    results = [measure(case, calls, repeats, device) for case in all_cases()]
    operations = torch.mps.executable_cache_stats_by_operation()
    console.print(heading(device), style="bold")
    console.print(cases_table(results, device.simulated))
    console.print(operations_table(operations))
    wrong = [f"{row.kind} {row.parameters}" for row in results if not row.is_good()]
    finish(
        device,
        console,
        report,
        {"rows": [asdict(row) for row in results], "operations": operations},
        f"Other values than eager's, or compiled more than once: {'; '.join(wrong)}." if wrong else "",
        "Each compiled once, all values those of eager.",
    )


if __name__ == "__main__":
    main()
