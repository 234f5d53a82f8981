"""The report in Markdown: a ranking, what stops a capture, and what could not be measured."""

from collections.abc import Sequence

from fallback_bench.device import Device
from fallback_bench.rows import NOISY, Summary
from fallback_bench.targets import Target, Targets

_MOST_LINKS = 3


def markdown(device: Device, targets: Targets, summaries: Sequence[Summary], left: Sequence[Target]) -> str:
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
    else:
        parts.append("No operator that was measured falls back.")
    stopping = [one for one in summaries if one.stops_capture == "yes"]
    stopping.sort(key=lambda one: (-one.target.votes, one.operator))
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


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], device: Device) -> str:
    lines = [list(heads), ["---"] * len(heads), *([_cell(text) for text in row] for row in rows)]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"*{device.name[0].upper()}{device.name[1:]}, torch {device.torch}:*\n\n{table}"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
