"""Writes a report as a Markdown page with a plot."""

import io
import json
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
from page_table import table  # noqa: E402
from PIL import Image  # noqa: E402

from benchmark.configurations import CATEGORIES, load  # noqa: E402
from benchmark.measure import ModeRow, Row  # noqa: E402
from benchmark.modes import AHEAD, DIRECT, EAGER, MODES  # noqa: E402
from benchmark.report import HERE, rows_of, shown, verdict  # noqa: E402

# A run of DEVICE=cuda that was kept.
RECORDED_CUDA = HERE / "recorded" / "cuda.json"
_COLOURS = dict(zip(MODES, ("#555555", "#1f77b4", "#d62728", "#9467bd")))


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


def _points(rows: Sequence[Row], mode: str, steps: dict[str, int]) -> list[tuple[int, float]]:
    """How many steps the replay of each configuration has, and milliseconds of a pass in that mode."""
    timed = {row.name: row.modes[mode].seconds for row in rows if steps.get(row.name) and mode in row.modes}
    return sorted((steps[name], seconds * 1e3) for name, seconds in timed.items() if seconds)


def draw_cost(rows: Sequence[Row], path: Path, title: str, cuda: Sequence[Row] = ()) -> None:
    """CPU time of a pass against the number of steps of its replay; `cuda` are rows of a recorded run."""
    steps = {row.name: sum(n for kind, n in row.steps.items() if kind != "executables") for row in rows}
    figure, axes = plt.subplots(figsize=(9, 5), layout="tight")
    for mode in [EAGER, *measured_modes(rows)]:
        axes.plot(*zip(*_points(rows, mode, steps)), ".", color=_COLOURS[mode], label=mode, markersize=5)
    for mode, style, name in ((EAGER, "+", "CUDA, eager"), (DIRECT, "x", "CUDA Graphs")):
        if points := _points(cuda, mode, steps):
            axes.plot(*zip(*points), style, color="black", label=name, markersize=4, linewidth=0.8, alpha=0.6)
    axes.set(xscale="log", yscale="log", xlabel="steps of the replay", ylabel="CPU time of a pass, ms")
    axes.set_title(title, fontsize=10)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=72)
    plt.close(figure)
    # few colours make a small file
    Image.open(drawn).convert("RGB").quantize(32, dither=Image.Dither.NONE).save(path, format="PNG", optimize=True)


def _percent(values: Sequence[float]) -> str:
    return f"{statistics.mean(values):+.1f} ({min(values):+.0f} … {max(values):+.0f})" if values else "–"


def _by_category(rows: Sequence[Row], wall: bool) -> str:
    modes = measured_modes(rows)
    lines = []
    for category in CATEGORIES:
        of_it = [row for row in rows if row.category == category]
        lines.append([category, str(len(of_it)), *(_percent(improvements(of_it, mode, wall)) for mode in modes)])
    return table(["category", "configurations", *modes], lines, words=1)


def _pass(mode: ModeRow | None, wall: bool) -> str:
    seconds = mode and (mode.wall_seconds if wall else mode.seconds)
    return f"{seconds * 1e3:.3g}" if seconds else "–"


def _calls(mode: ModeRow | None) -> str:
    return f"{mode.calls['total']:,}" if mode and mode.calls else "–"


def _steps(row: Row) -> str:
    return ", ".join(f"{count:,} {kind.replace('_', ' ')}" for kind, count in row.steps.items())


def _rows_table(rows: Sequence[Row], simulated: bool) -> str:
    modes = [EAGER, *measured_modes(rows)]
    head = ["configuration", "category", "steps", *(f"{mode}: CPU, ms" for mode in modes)]
    head += [f"{mode}: calls" for mode in modes] if simulated else [f"{mode}: wall, ms" for mode in modes]
    lines = []
    for row in rows:
        if row.reason:
            continue
        note = f"<br>{row.note}" if row.note else ""
        found = [row.modes.get(mode) for mode in modes]
        others = [_calls(one) if simulated else _pass(one, wall=True) for one in found]
        lines.append(
            [f"`{row.name}`{note}", row.category, _steps(row), *(_pass(one, wall=False) for one in found), *others]
        )
    return table(head, lines, words=3)


def _goals_table(goals: Sequence[dict[str, Any]]) -> str:
    head = ["figure", "before", "goal", "measured", "result"]
    lines = [[goal["figure"], goal["before"], goal["goal"], shown(goal), verdict(goal)] for goal in goals]
    return table(head, lines, words=1)


def _not_run(rows: Sequence[Row]) -> str:
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if row.reason:
            reasons.setdefault(row.reason, []).append(f"`{row.name}`")
        for mode in MODES:
            one = row.modes.get(mode)
            if one and one.seconds is None and one.reason:
                reasons.setdefault(f"{mode}: {one.reason}", []).append(f"`{row.name}`")
    lines = []
    for reason, names in reasons.items():
        shown = "all" if len(names) == sum(not row.reason for row in rows) else ", ".join(names)
        lines.append(f"- {reason}: {shown}")
    return "\n".join(lines) + "\n"


def _regressions_text(rows: Sequence[Row], wall: bool) -> str:
    found = [
        f"- `{row.name}`, {mode}: {value:+.1f} %\n"
        for row in rows
        for mode in measured_modes(rows)
        if (value := improvement(row, mode, wall) or 0) < 0
    ]
    if not found:
        return "No configuration took longer than eager in any mode.\n"
    return "Longer than eager:\n\n" + "".join(found)


_NO_SPEED_UP = (
    "These are shares of CPU time, not speed-ups. If the GPU takes longer than the CPU, as in the last category, a pass on a Mac "
    "takes as long as before. Only a run there can show wall time.\n"
)
_MODES = "*direct* (the default), *ahead* (`encode_ahead=1`), *indirect* (with indirect command buffers)"
_GOALS = (
    "All figures but the sizes are SIMULATED. Instructions and cache misses are counted by callgrind on the submitting thread, for the "
    "simulator's build with the series and for its build without (base). *Before* is the value of 27 November 2026.\n"
)
_DEMO = ("demo-mlp", "demo-convnet", "demo-vit", *(f"demo-decoder-{layers}" for layers in (16, 32, 64, 128)))


def _fewer(rows: Sequence[Row], name: str, mode: str = DIRECT) -> str:
    for row in rows:
        eager, replay = row.modes.get(EAGER), row.modes.get(mode)
        if row.name == name and eager and replay and eager.seconds and replay.seconds:
            return f"{eager.seconds / replay.seconds:.0f}"
    return "–"


def _beside_cuda(rows: Sequence[Row], cuda: Sequence[Row], device: str) -> str:
    if not cuda:
        return ""
    lines = [[f"`{name}`", _fewer(rows, name), _fewer(rows, name, AHEAD), _fewer(cuda, name)] for name in _DEMO]
    text = (
        "CPU time of a pass, eager ÷ replay. CUDA Graphs are a real run with stock torch; *direct* and *ahead* are simulated, so "
        "these columns cannot be compared with it.\n\n"
    )
    return text + table(["model", "direct", "ahead", f"CUDA Graphs, {device}"], lines, words=1)


def page_text(report: dict[str, Any], name: str, cuda: dict[str, Any] | None = None) -> str:
    """The page of a report; its plot is a file next to it whose name begins with `name`; `cuda` is the report of a run there."""
    rows, simulated = rows_of(report["configs"]), report["simulated"]
    measured = "CPU time" if simulated else "wall time"
    protocol = report["protocol"]
    parts = [
        "# Benchmark results\n",
        f"This page shows the {measured} that a replay saves in {len(rows)} configurations. Device: {report['device']}. torch "
        f"{report['torch']}, {report['cores']} cores, load average {report['load_average']} at the end (1 is the run itself). "
        f"`make bench PAGE=…` wrote it on {report['date']}.\n",
        f"{report['about']} [test/programs/benchmark](../../test/programs/benchmark/README.md) describes the runs.\n",
        f"{protocol['trials']} trials after {protocol['warm_ups']} warm-ups, {protocol['trimmed']:.0%} trimmed mean; the "
        f"modes of a configuration take turns: {_MODES}.\n",
        f"## {measured[0].upper()}{measured[1:]} saved, in % of eager: mean (least … most)\n",
        _by_category(rows, wall=not simulated),
        _NO_SPEED_UP if simulated else "",
        _regressions_text(rows, wall=not simulated),
        _beside_cuda(rows, rows_of(cuda["configs"]), cuda["device"]) if cuda and simulated else "",
        f"![CPU time against steps]({name}_cost.png)\n",
    ]
    if report["goals"]:
        parts += ["## Goals\n", _GOALS, _goals_table(report["goals"])]
    quick = {one.name for one in load() if one.quick}
    examples = [row for row in rows if row.name in quick] or rows
    parts += ["## Examples\n", "`build/reports/bench.json` has all configurations.\n", _rows_table(examples, simulated)]
    not_run = _not_run(rows)
    if not_run.strip():
        parts += ["## Not run\n", not_run]
    return "\n".join(part for part in parts if part)


def write_page(page: Path, report_path: Path, recorded: Path = RECORDED_CUDA) -> None:
    """Write page and plot of a report; a recorded run on CUDA is drawn, too, if there is one."""
    report = json.loads(report_path.read_text())
    rows, simulated = rows_of(report["configs"]), report["simulated"]
    cuda = json.loads(recorded.read_text()) if recorded.exists() else None
    cuda_rows = rows_of(cuda["configs"]) if cuda else []
    page.parent.mkdir(parents=True, exist_ok=True)
    mark = "SIMULATED, CPU time in null mode" if simulated else report["device"]
    draw_cost(rows, page.with_name(f"{page.stem}_cost.png"), f"CPU time of a pass ({mark})", cuda_rows)
    page.write_text(page_text(report, page.stem, cuda))
