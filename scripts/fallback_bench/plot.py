"""The plot: how much slower each operator is, with the range over dtypes and shapes."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

from fallback_bench.device import Device
from fallback_bench.summary import Summary
from fork_tool.common.files import write_atomically

_STOPS, _GOES_ON = "#b3423a", "#5b7ea8"


def draw(path: Path, device: Device, summaries: Sequence[Summary]) -> bool:
    """Write a PNG; false when nothing fell back."""
    ranked = sorted((one for one in summaries if one.penalty), key=lambda one: one.penalty or 0.0)
    if not ranked:
        return False
    import matplotlib

    # No window, whatever the user's own settings say.
    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.patches import Patch

    figure, axes = pyplot.subplots(figsize=(9, 1.8 + 0.28 * len(ranked)), layout="constrained")
    try:
        for place, one in enumerate(ranked):
            assert one.penalty
            stops = one.stops_capture == "yes"
            color = _STOPS if stops else _GOES_ON
            axes.plot([min(one.penalties), max(one.penalties)], [place, place], color=color, linewidth=1.5)
            axes.plot([one.penalty], [place], "o", color=color, markersize=6)
        axes.axvline(1.0, color="gray", linewidth=1, linestyle="--")
        axes.set_yticks(range(len(ranked)), [one.operator.removeprefix("aten::") for one in ranked], fontsize=8)
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda value, _position: f"{value:g}×")
        axes.grid(axis="x", alpha=0.3)
        axes.set_xlabel(
            "time on MPS with fallback / time on the CPU (dot: geometric mean, line: range over dtypes and shapes)"
        )
        handles = [Patch(color=color) for color in (_STOPS, _GOES_ON)]
        axes.legend(handles, ["stops a capture", "does not, or unknown"], loc="lower right", fontsize=8)
        title = "What CPU fallbacks cost" + (" — SIMULATED, not a Mac's times" if device.simulated else "")
        axes.set_title(f"{title}\n{device.name}, torch {device.torch}", fontsize=9)
        content = io.BytesIO()
        figure.savefig(content, format="png", dpi=110)
    finally:
        pyplot.close(figure)
    write_atomically(path, content.getvalue())
    return True
