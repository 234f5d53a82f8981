"""Writes a report as a Markdown page, its summary and two pictures."""

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
from page_table import table, write_page  # noqa: E402

from benchmark.configurations import CATEGORIES  # noqa: E402
from benchmark.measure import Row  # noqa: E402
from benchmark.modes import AHEAD, DIRECT, EAGER, INDIRECT, MODES  # noqa: E402
from benchmark.report import HERE, rows_of, shown, verdict  # noqa: E402

# The report of a run with `--device cuda`.
RECORDED_CUDA = HERE / "recorded" / "cuda.json"
COLOURS = dict(zip(MODES, ("#555555", "#1f77b4", "#d62728", "#2ca02c"), strict=True))
_NAMES = {
    EAGER: "eager",
    DIRECT: "replay",
    AHEAD: "replay, `encode_ahead=1`",
    INDIRECT: "replay, indirect command buffers",
}
# The chart in README.md shows these six because most readers know them.
_CHART = {
    "resnet18": "ResNet-18",
    "minilm-l6-s32": "MiniLM-L6, 32 tokens",
    "gpt2-decode": "GPT-2, one token",
    "sd15-unet-32": "Stable Diffusion 1.5 U-Net",
    "qwen3-0.5b-decode": "Qwen3-like decoder, one token",
    "train-vit-tiny": "ViT-Tiny, training step",
}
_DEMO = ("demo-mlp", "demo-convnet", "demo-vit", *(f"demo-decoder-{layers}" for layers in (16, 32, 64, 128)))
_GOALS = (
    "*Series ÷ base* compares PyTorch with the patches and without. *Direct* is a replay with default options, *ahead* one with "
    "`encode_ahead=1`, *caller's CPU* the CPU time of the thread that calls `replay()`. Callgrind counts instructions and cache misses. "
    "All figures but the sizes are SIMULATED. A missed goal does not make the run fail.\n"
)
Rows = Sequence[Row]


def _seconds(row: Row, mode: str, wall: bool) -> float | None:
    one = row.modes.get(mode)
    return (one.wall_seconds if wall else one.seconds) if one else None


def _share(row: Row, mode: str, wall: bool) -> float | None:
    """The time of a pass in a mode, in percent of eager's; None if one of them was not measured."""
    eager, other = (_seconds(row, one, wall) for one in (EAGER, mode))
    return 100 * other / eager if eager and other else None


def _shares(rows: Rows, mode: str, wall: bool) -> list[float]:
    return [share for row in rows if (share := _share(row, mode, wall)) is not None]


def measured_modes(rows: Rows) -> list[str]:
    """The modes without eager that have times."""
    return [mode for mode in MODES if mode != EAGER and any(_seconds(row, mode, wall=False) for row in rows)]


def draw_cost(rows: Rows, path: Path) -> None:
    """Draw the CPU time of a pass against the number of steps of its replay."""
    figure, axes = plt.subplots(figsize=(7, 4), layout="tight")
    for mode in [EAGER, *measured_modes(rows)]:
        points = [
            (sum(count for kind, count in row.steps.items() if kind != "executables"), seconds * 1e3)
            for row in rows
            if row.steps and (seconds := _seconds(row, mode, wall=False))
        ]
        axes.plot(*zip(*points), ".", color=COLOURS[mode], label=_NAMES[mode].replace("`", ""), markersize=6)
    axes.set(xscale="log", yscale="log", xlabel="steps of the graph", ylabel="CPU time of a pass, ms")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    figure.savefig(path, dpi=100, pil_kwargs={"optimize": True})
    plt.close(figure)


def draw_shares(rows: Rows, path: Path) -> None:
    """Draw the chart of README.md: bars of six models, opaque so that it is legible in light and dark mode."""
    by_name = {row.name: row for row in rows}
    figure, axes = plt.subplots(figsize=(7, 2.5), layout="tight")
    for place, name in enumerate(_CHART):
        share = _share(by_name[name], DIRECT, wall=False) or 0.0
        axes.barh(place, 100, color="#dcdcdc", height=0.7, label="" if place else "eager PyTorch: 100 %")
        axes.barh(place, share, color=COLOURS[DIRECT], height=0.7, label="" if place else "replay")
        axes.text(share + 1, place, f"{share:.1f} %", va="center", fontsize=10, fontweight="bold")
    axes.set_yticks(range(len(_CHART)), _CHART.values(), fontsize=10)
    axes.invert_yaxis()
    axes.set(xlim=(0, 100), xticks=())
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    axes.set_title("CPU time to submit one pass (simulated)", fontsize=11)
    axes.legend(loc="upper center", bbox_to_anchor=(0.3, 0.02), ncols=2, frameon=False, fontsize=9)
    figure.savefig(path, dpi=150, facecolor="white", pil_kwargs={"optimize": True})
    plt.close(figure)


def _percent(values: Sequence[float]) -> str:
    return f"{statistics.mean(values):.1f} ({min(values):.1f} … {max(values):.1f})" if values else "–"


def _by_category(rows: Rows, wall: bool) -> str:
    modes = measured_modes(rows)
    groups = {category: [row for row in rows if row.category == category] for category in CATEGORIES}
    lines = [
        [name, str(len(group)), *(_percent(_shares(group, mode, wall)) for mode in modes)]
        for name, group in [*groups.items(), ("**all**", rows)]
    ]
    return table(["category", "configurations", *(_NAMES[mode] for mode in modes)], lines, words=1)


def _ratio(rows: Rows, name: str, mode: str) -> str:
    shares = _shares([row for row in rows if row.name == name], mode, wall=False)
    return f"{100 / shares[0]:.0f}" if shares else "–"


def _beside_cuda(rows: Rows, recorded: Path) -> str:
    if not recorded.exists():
        return ""
    cuda = json.loads(recorded.read_text())
    cuda_rows = rows_of(cuda["configs"])
    name_of_cuda = f"CUDA Graphs: {cuda['device']}, torch {cuda['torch']}"
    lines = [
        [f"`{name}`", _ratio(rows, name, DIRECT), _ratio(rows, name, AHEAD), _ratio(cuda_rows, name, DIRECT)]
        for name in _DEMO
    ]
    head = ["model", "replay, simulated", "`encode_ahead=1`, simulated"]
    return "\nEager's CPU time ÷ the replay's, on the demo's models:\n\n" + table([*head, name_of_cuda], lines, words=1)


def _regressions(rows: Rows, wall: bool) -> str:
    slower = [
        f"`{row.name}` ({_NAMES[mode]}: {share:.0f} %)"
        for row in rows
        for mode in measured_modes(rows)
        if (share := _share(row, mode, wall) or 0) > 100
    ]
    return f"\nSlower than eager: {', '.join(slower) or 'no configuration in any mode'}.\n"


def _ms(seconds: float | None) -> str:
    return f"{seconds * 1e3:.3g}" if seconds else "–"


def _all_rows(rows: Rows, simulated: bool) -> str:
    clocks = {"CPU": False} if simulated else {"CPU": False, "wall": True}
    modes = measured_modes(rows)
    head = ["configuration", "steps"]
    for clock in clocks:
        head += [f"eager: {clock}, ms", *(f"{_NAMES[mode]}: {clock}, ms" for mode in modes)]
    lines = []
    for row in rows:
        if row.reason:
            continue
        name = f"`{row.name}`" + (f"<br>{row.note}" if row.note else "")
        steps = ", ".join(f"{count:,} {kind.replace('_', ' ')}" for kind, count in row.steps.items())
        times = [_ms(_seconds(row, mode, wall)) for wall in clocks.values() for mode in [EAGER, *modes]]
        lines.append([name, steps, *times])
    return table(head, lines, words=2)


def _goals_table(goals: Sequence[dict[str, Any]]) -> str:
    lines = [[goal["figure"], goal["goal"], shown(goal), verdict(goal)] for goal in goals]
    return table(["figure", "goal", "measured", "result"], lines, words=1)


def _not_run(rows: Rows) -> str:
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if row.reason:
            reasons.setdefault(row.reason, []).append(f"`{row.name}`")
        for mode, one in row.modes.items():
            if one.seconds is None and one.reason:
                reasons.setdefault(f"{_NAMES[mode]}: {one.reason}", []).append(f"`{row.name}`")
    ran = sum(not row.reason for row in rows)
    return "".join(f"- {why}: {'all' if len(names) == ran else ', '.join(names)}\n" for why, names in reasons.items())


def _summary(report: dict[str, Any], rows: Rows, recorded: Path) -> str:
    """What the page of all results shows of a report."""
    simulated, protocol = report["simulated"], report["protocol"]
    clock = "CPU time" if simulated else "Wall time"
    head = (
        f"{clock} of a replay in % of eager's: mean (least … most). {len(rows)} configurations, {protocol['trials']} trials after "
        f"{protocol['warm_ups']} warm-ups, {protocol['trimmed']:.0%} trimmed mean; {report['device']}, torch {report['torch']}, "
        f"{report['cores']} cores, {report['date']}{', SIMULATED' if simulated else ''}.\n\n"
    )
    cuda = _beside_cuda(rows, recorded) if simulated else ""
    return head + _by_category(rows, not simulated) + _regressions(rows, not simulated) + cuda


def write_pages(page: Path, report_path: Path, recorded: Path = RECORDED_CUDA) -> None:
    """Write the page of a report and its pictures; `recorded` is the report of a run on CUDA."""
    report = json.loads(report_path.read_text())
    rows, simulated = rows_of(report["configs"]), report["simulated"]
    summary = _summary(report, rows, recorded)
    parts = [
        f"# Benchmark\n\n`make bench PAGE=…` wrote this file; [README.md](README.md#cpu-time) explains it.\n\n{summary}",
        f"![CPU time against steps]({page.stem}.png)\n",
    ]
    if report["goals"]:
        parts += ["## Goals\n", _GOALS, _goals_table(report["goals"])]
    parts += ["## All configurations\n", _all_rows(rows, simulated)]
    if not_run := _not_run(rows):
        parts += ["## Not run\n", not_run]
    write_page(page, "\n".join(parts), summary)
    draw_cost(rows, page.with_suffix(".png"))
    if simulated and set(_CHART) <= {row.name for row in rows if not row.reason}:
        draw_shares(rows, page.with_name("replay_share.png"))
