"""Shows what the cache counted and what a call costs as tables, and keeps it as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from rich.table import Table

from graph_caching.measure import CAPTURES, Counts, Result

WAYS = {"eager": "eager", "eager_cached": "eager, cached", "replay": "replay"}


def heading(simulated: bool) -> str:
    """Says what the numbers are and what they are not."""
    if not simulated:
        return "On the Metal device. CPU time per call: until it returned, while the GPU may still have been at work."
    return (
        "SIMULATED: MPSGraph is stood in for by the simulator, on the CPU. Counts and values are those of PyTorch's real MPS "
        "backend. CPU time per call is the backend's plus the simulator's encoding, in null mode (encoded, not executed). "
        "Not measured: GPU time, Apple's own compiling and encoding, anything on a Mac."
    )


def _counts(counts: Counts) -> str:
    return f"{counts.misses} / {counts.hits}"


def cases_table(results: list[Result], simulated: bool) -> Table:
    """What each call of an operation counted and cost."""
    calls = results[0].calls if results else 0
    result = Table(title="Each operation and its parameters")
    result.add_column("operation")
    result.add_column("parameters")
    result.add_column(f"{calls} eager calls\nmisses / hits", justify="right")
    result.add_column(f"then {CAPTURES} captures\nmisses / hits", justify="right")
    unit = "simulated µs of CPU" if simulated else "µs of CPU"
    for way in WAYS.values():
        result.add_column(f"{way}\n{unit}", justify="right")
    result.add_column("values")
    for before, row in zip([None, *results], results):
        result.add_row(
            row.kind if before is None or before.kind != row.kind else "",
            row.parameters,
            _counts(row.eager),
            _counts(row.captures),
            *(f"{row.seconds[way] * 1e6:.0f}" for way in WAYS),
            "equal" if row.equal else "DIFFER",
            style=None if row.equal else "bold red",
        )
    return result


def operations_table(operations: dict[str, dict[str, int]]) -> Table:
    """What `torch.mps.executable_cache_stats_by_operation()` says after all of it, the timed calls included."""
    result = Table(title="torch.mps.executable_cache_stats_by_operation(), the timed calls included")
    result.add_column("operation")
    for column in ("hits", "misses", "evictions", "entries"):
        result.add_column(column, justify="right")
    for operation, counts in operations.items():
        result.add_row(operation, *(f"{counts[column]:,}" for column in ("hits", "misses", "evictions", "entries")))
    return result


def write(results: list[Result], operations: dict[str, dict[str, int]], simulated: bool, path: Path) -> None:
    """Keep the results for other programs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"simulated": simulated, "rows": [asdict(row) for row in results], "operations": operations}
    path.write_text(json.dumps(content, indent=1) + "\n")
