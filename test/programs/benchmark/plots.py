"""Draws a report as PNG."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.patches import Patch  # noqa: E402

from benchmark.configurations import CATEGORIES  # noqa: E402
from benchmark.measure import Row  # noqa: E402
from benchmark.modes import DIRECT, EAGER, MODES  # noqa: E402

_COLOURS = dict(zip(MODES, ("#555555", "#d62728", "#1f77b4", "#2ca02c", "#9467bd")))


def improvement(row: Row, mode: str, wall: bool) -> float | None:
    """Percent of eager's time that a mode saves; None where either was not measured."""
    eager, other = row.modes.get(EAGER), row.modes.get(mode)
    if not eager or not other:
        return None
    before, after = (one.wall_seconds if wall else one.seconds for one in (eager, other))
    return None if not before or after is None else 100 * (1 - after / before)


def improvements(rows: Iterable[Row], mode: str, wall: bool) -> list[float]:
    """Those of all rows where both were measured."""
    return [value for row in rows if (value := improvement(row, mode, wall)) is not None]


def measured_modes(rows: Sequence[Row]) -> list[str]:
    """The modes, without eager, that some row has a time of."""
    return [
        mode for mode in MODES if mode != EAGER and any(row.modes.get(mode) and row.modes[mode].seconds for row in rows)
    ]


def _points(rows: Sequence[Row], mode: str) -> list[tuple[int, float]]:
    """How many steps each replay has, and milliseconds of a pass in that mode."""
    points = []
    for row in rows:
        steps = sum(count for kind, count in row.steps.items() if kind != "executables")
        if steps and mode in row.modes and (seconds := row.modes[mode].seconds):
            points.append((steps, seconds * 1e3))
    return sorted(points)


def draw_improvement(rows: Sequence[Row], path: Path, wall: bool, title: str) -> None:
    """By category: a dot for each configuration, and a bar at the mean."""
    modes = measured_modes(rows)
    figure, axes = plt.subplots(figsize=(9, 4.5))
    for position, category in enumerate(CATEGORIES):
        for index, mode in enumerate(modes):
            values = improvements((row for row in rows if row.category == category), mode, wall)
            if not values:
                continue
            x = position + (index - (len(modes) - 1) / 2) * 0.25
            axes.bar(x, sum(values) / len(values), 0.22, color=_COLOURS[mode], alpha=0.35)
            axes.plot([x] * len(values), values, ".", color=_COLOURS[mode], markersize=4)
    axes.axhline(0, color="black", linewidth=0.8)
    axes.set_xticks(range(len(CATEGORIES)), CATEGORIES, rotation=20, ha="right")
    axes.set_ylabel("% less than eager")
    axes.set_title(title, fontsize=10)
    axes.legend([Patch(color=_COLOURS[mode], alpha=0.6) for mode in modes], modes, fontsize=8)
    _save(figure, path)


def _save(figure: Any, path: Path) -> None:
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def draw_cost(rows: Sequence[Row], path: Path, title: str, cuda: Sequence[Row] = ()) -> None:
    """CPU time of a pass against the number of steps of its replay; `cuda` are rows of a recorded run."""
    figure, axes = plt.subplots(figsize=(9, 5))
    for mode in [EAGER, *measured_modes(rows)]:
        axes.plot(*zip(*_points(rows, mode)), ".", color=_COLOURS[mode], label=mode, markersize=5)
    for mode, style, name in ((EAGER, "+", "CUDA, eager"), (DIRECT, "x", "CUDA Graphs")):
        if points := _points(cuda, mode):
            axes.plot(*zip(*points), style, color="black", label=name, markersize=4, linewidth=0.8, alpha=0.6)
    axes.set(xscale="log", yscale="log", xlabel="steps of the replay", ylabel="CPU time of a pass, ms")
    axes.set_title(title, fontsize=10)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    _save(figure, path)
