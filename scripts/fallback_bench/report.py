"""The report in Markdown and its plot: a ranking, what stops a capture, and what could not be measured."""

import io
from collections.abc import Sequence
from pathlib import Path

from fallback_bench.device import Device
from fallback_bench.rows import NOISY, Summary
from fallback_bench.targets import Target, Targets
from fork_tool.common.files import write_atomically

_MOST_LINKS = 3


def markdown(device: Device, targets: Targets, summaries: Sequence[Summary], plot: str, left: Sequence[Target]) -> str:
    """The whole report; `left` are requested and have no case."""
    parts = ["# What CPU fallbacks cost on MPS", device.heading, _demand(targets)]
    ranked = [one for one in summaries if one.penalty is not None]
    parts.append("## Ranking")
    if ranked:
        parts += [
            "Operators that fall back, by votes times penalty. The penalty is MPS with fallback over CPU (medians; "
            "geometric mean over dtypes and shapes, and its range); the overhead is their difference in one call.",
            _ranking(ranked, device),
        ]
        noisy = sum(row.noisy for one in ranked for row in one.rows)
        if noisy:
            count = sum(len(one.rows) for one in ranked)
            parts.append(
                f"{noisy} of {count} rows are noisy (half of the times lie further apart than {NOISY:.0%} of the median; "
                "`spread` in the CSV files): run it again on a machine that does nothing else."
            )
        if plot:
            parts.append(f"![penalty of each operator; {device.name}]({plot})")
    else:
        parts.append("No operator that was measured falls back.")
    stopping = sorted((one for one in summaries if one.stops_capture == "yes"), key=_by_votes)
    parts += ["## What stops a capture", *_stopping(stopping, summaries, device)]
    native = sorted(one.operator for one in summaries if one.native)
    if native:
        parts += ["## No longer falling back", f"Asked for, and native here now: {_names(native)}."]
    troubled = [one for one in summaries if one.problems]
    if troubled:
        parts += ["## Not measured, or only in part", _problems(troubled, device)]
    if left:
        names = [f"`{target.operator}` ({target.votes})" for target in left]
        parts += ["## Without a case", f"Asked for (votes), and not yet in `cases.py`: {', '.join(names)}."]
    return "\n\n".join(parts) + "\n"


def _demand(targets: Targets) -> str:
    if targets.synced:
        return f"Votes: comments in the issues {targets.synced['issues']} as of {targets.synced['date']}, and agreement with them."
    return (
        "Votes: the number of links that were put in by hand, since no `scripts/mpsfork fallback-sync` has counted the "
        "comments of the tracking issues yet."
    )


def _ranking(ranked: Sequence[Summary], device: Device) -> str:
    rows = []
    for place, one in enumerate(ranked, 1):
        assert one.penalty is not None and one.overhead_ms is not None
        low, high = min(one.penalties), max(one.penalties)
        rows.append(
            [
                str(place),
                f"`{one.operator}`",
                f"{one.target.votes} ({_links(one.target)})",
                _names(one.fell_back),
                f"{one.penalty:.3g}× ({low:.3g} to {high:.3g})",
                f"{one.overhead_ms:.3g} ms",
                one.stops_capture,
            ]
        )
    heads = ["", "operator", "votes", "ran on the CPU", "penalty", "overhead", "stops a capture"]
    return _table(heads, rows, device)


def _stopping(stopping: Sequence[Summary], summaries: Sequence[Summary], device: Device) -> list[str]:
    if not stopping:
        unknown = any(one.stops_capture == "unknown" for one in summaries)
        return ["This torch has no `torch.mps.graph_capture`." if unknown else "None of those measured."]
    rows = [[f"`{one.operator}`", str(one.target.votes), "; ".join(one.capture_errors)] for one in stopping]
    return [
        "Each was called in `torch.mps.graph_capture()`, most requested first (promise 5 and, where a value is read, 4).",
        _table(["operator", "votes", "what the capture raised"], rows, device),
    ]


def _problems(troubled: Sequence[Summary], device: Device) -> str:
    rows = [
        [f"`{one.operator}`", f"{row.dtype} {row.shape}", row.problem]
        for one in sorted(troubled, key=lambda one: one.operator)
        for row in one.rows
        if row.problem
    ]
    return _table(["operator", "with", "problem"], rows, device)


def _links(target: Target) -> str:
    links = [f"[{_short(link)}]({link})" for link in target.links]
    more = ["…"] if len(links) > _MOST_LINKS else []
    return ", ".join(links[:_MOST_LINKS] + more)


def _short(link: str) -> str:
    address, _, comment = link.partition("#")
    return f"#{address.rsplit('/', 1)[1]}{' comment' if comment else ''}"


def _names(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _by_votes(one: Summary) -> tuple[int, str]:
    return -one.target.votes, one.operator


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], device: Device) -> str:
    lines = [list(heads), ["---"] * len(heads), *([_cell(text) for text in row] for row in rows)]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"*{device.name[0].upper()}{device.name[1:]}, torch {device.torch}:*\n\n{table}"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


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
