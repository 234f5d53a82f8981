"""What a call of a compiled function costs beside a replay by hand: prints µs of CPU time as a table.

    python -m mps_simulator test/programs/benchmark/compiled_call.py

Inputs are those of the call before, so that nothing is copied to static memory; results are copied out, or stay in the
memory of the graph. Simulated: nothing is executed, and Apple's encoding is not in it.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmark.simulated_times import microseconds  # noqa: E402

_CALLS = 100
_TRIALS = 20
# Annotations of the wheel know nothing of what the series adds.
_mps: Any = torch.mps


def model(layers: int) -> torch.nn.Module:
    """Two parameters and two operators a layer."""
    return torch.nn.Sequential(*(torch.nn.Linear(16, 16) for _ in range(layers))).to("mps").eval()


def measure(layers: int) -> dict[str, float]:
    """Eager, a replay by hand, and compiled calls."""
    x = torch.randn(4, 16, device="mps")
    torch._dynamo.mark_static_address(x)  # type: ignore[attr-defined,unused-ignore]
    eager = model(layers)
    graph = _mps.MPSGraph()
    with _mps.graph(graph):
        _y = eager(x)

    def compiled(module: torch.nn.Module, **options: Any) -> Callable[[], object]:
        function = torch.compile(module, backend="mpsgraphs", options=options)
        return lambda: function(x)

    def nothing(_module: torch.fx.GraphModule, _inputs: object) -> Callable[..., tuple[torch.Tensor]]:
        return lambda *_args: (x,)

    guards = torch.compile(model(layers), backend=nothing)
    runs: dict[str, Callable[[], object]] = {
        "eager": lambda: eager(x),
        "replay by hand": graph.replay,
        "Dynamo alone": lambda: guards(x),
        "compiled": compiled(model(layers)),
        "compiled, copy_outputs=False": compiled(model(layers), copy_outputs=False),
    }
    for run in runs.values():
        for _ in range(3):
            run()
    taken = {name: statistics.median(values) for name, values in microseconds(runs, _CALLS, _TRIALS).items()}
    added = "added to the replay, beyond Dynamo"
    taken[added] = taken["compiled"] - taken["replay by hand"] - taken["Dynamo alone"]
    taken[f"{added}, copy_outputs=False"] = taken["compiled, copy_outputs=False"] - taken["compiled"] + taken[added]
    return taken


def main() -> None:
    """Print the table."""
    rows: dict[int, dict[str, float]] = {}
    for layers in (1, 10, 100):
        with torch.no_grad():
            rows[layers] = measure(layers)
        torch._dynamo.reset()
    table = Table("layers", *rows[1], title="CPU time of a call, µs (SIMULATED)")
    for layers, row in rows.items():
        table.add_row(str(layers), *(f"{value:.1f}" for value in row.values()))
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
