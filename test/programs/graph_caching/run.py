"""Shows what the executable cache counts by operation and parameters: see README.md next to this file."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch  # noqa: E402
from benchmark.devices import Device  # noqa: E402
from benchmark.report import heading  # noqa: E402
from measuring import device_and_console, finish, median_seconds, options  # noqa: E402
from rich.table import Table  # noqa: E402

from graph_caching.cases import all_cases, Case  # noqa: E402

CAPTURES = 2
REPLAYS = 2
WAYS = {"eager": "eager", "eager_cached": "eager, cached", "replay": "replay"}


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
    """One row of the table."""

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
    """What each call of an operation counted and cost."""
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
