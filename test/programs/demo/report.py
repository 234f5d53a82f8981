"""Shows the demo's results as a table, and keeps them as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from rich.table import Table

if TYPE_CHECKING:
    from pathlib import Path

    from demo.measure import Pass, Result


def heading(simulated: bool) -> str:
    """Says what the numbers are and what they are not."""
    if not simulated:
        return "On the Metal device. CPU time per pass: until the call returned, while the GPU may still have been at work."
    return (
        "SIMULATED: Metal and MPSGraph are stood in for by the simulator, on the CPU. Values are computed and compared. "
        "CPU time per pass is that of PyTorch's real MPS backend plus the simulator's encoding, in null mode (encoded, not "
        "executed). Not measured: GPU time, Apple's own encoding, anything on a Mac."
    )


def _pair(eager: Pass, replay: Pass, part: str) -> str:
    before, after = getattr(eager, part), getattr(replay, part)
    if before is None or after is None:
        return "–"
    if part == "seconds":
        return f"{before * 1e3:.2f} → {after * 1e3:.2f} ms\n({before / max(after, 1e-9):.0f}× less)"
    return f"{before:,} → {after:,}"


def table(results: list[Result], simulated: bool) -> Table:
    """The table that the demo prints."""
    result = Table(show_lines=True)
    for column in ("model", "data", "steps of the graph", "passes replayed"):
        result.add_column(column)
    result.add_column("largest difference\nreplay − eager")
    result.add_column("predictions\nthat differ")
    where = "null mode" if simulated else "device"
    result.add_column(f"CPU time per pass ({where})\neager → replay")
    result.add_column("API calls per pass\neager → replay")
    for row in results:
        right = "" if row.accuracy is None else f"\n{row.accuracy:.0%} right on the unseen half"
        steps = "\n".join(f"{count} {kind.replace('_', ' ')}" for kind, count in row.steps.items() if count)
        result.add_row(
            row.name,
            row.data + right,
            steps,
            f"{row.passes:,}",
            f"{row.largest_difference:g}",
            f"{row.predictions_differing} of {row.predictions:,}",
            _pair(row.eager, row.replay, "seconds"),
            _pair(row.eager, row.replay, "calls"),
            style=None if row.equal else "bold red",
        )
    return result


def write(results: list[Result], simulated: bool, small: bool, path: Path) -> None:
    """Keep the results for other programs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"simulated": simulated, "small": small, "rows": [asdict(row) | {"equal": row.equal} for row in results]}
    path.write_text(json.dumps(content, indent=1) + "\n")
