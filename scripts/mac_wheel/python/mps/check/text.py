"""The report as text, to be pasted into an issue."""

from typing import Any


def _machine(facts: dict[str, Any]) -> str:
    where = "SIMULATED device" if facts["simulated"] else facts["model"]
    memory = f", {facts['memory'] / (1 << 30):.0f} GiB" if facts["memory"] else ""
    system = f", macOS {facts['macos']}" if facts["macos"] else ""
    return f"{where}, {facts['chip']}{memory}{system}, Python {facts['python']}, torch {facts['torch']}"


def _times(rows: list[dict[str, Any]], simulated: bool) -> list[str]:
    lines = [
        "",
        "milliseconds per pass"
        + (
            ", of the simulator: no GPU was used"
            if simulated
            else " (wall: until the GPU is done; CPU: until submitted)"
        ),
        "",
        "| configuration | steps | wall, eager | wall, replay | ratio | CPU, eager | CPU, replay | ratio |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        cells = [row["name"], str(row["steps"])]
        for kind in ("wall", "cpu"):
            eager, replay = row["eager"][kind], row["replay"][kind]
            cells += [f"{eager * 1e3:.3f}", f"{replay * 1e3:.3f}", f"{eager / replay:.1f}" if replay else "-"]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def as_text(report: dict[str, Any]) -> str:
    """Return the report in Markdown."""
    backend = report["backend"]
    good = len(report["checks"]) - len(report["bad"])
    lines = [
        "## torch.mps.check",
        "",
        _machine(report["machine"]),
        "",
        f"Patched backend: {'in charge' if backend['patched'] else 'not in charge'} ({backend['how']})"
        + (f"; {backend['reason']}" if backend["reason"] else ""),
        "",
        f"{good} of {len(report['checks'])} checks are good, in {report['seconds']} s with the timing.",
    ]
    for each in report["checks"]:
        if each["reason"]:
            lines.append(f"- **{each['name']}**: {each['result']}: {each['reason']}")
    if report["bad"]:
        lines += [f"Reported for eager on such a machine: {problem}." for problem in report["known_problems"]]
    if report["times"]:
        lines += _times(report["times"], report["machine"]["simulated"])
    return "\n".join(lines)
