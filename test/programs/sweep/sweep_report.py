"""What the sweep says at its end: the report, a table, and the page for docs/."""

import datetime
import json
import re
import sys
import textwrap
import tomllib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

sys.path.append(str(Path(__file__).resolve().parents[1]))
from page_table import table, write_page  # noqa: E402

# What became of a case. The last three have none: eager did not run it.
OUTCOMES = (
    "equal",
    "equal_up_to_rounding",
    "unchanged_inputs",
    "no_effect_visible",
    "raised",
    "refused",
    "explained",
    "wrong",
    "crash",
    "eager_lacks",
    "simulator_lacks",
    "simulator_refused",
)
# The outcomes as the page of all results shows them.
_IN_SHORT = {
    "the replay equals eager": ("equal", "equal_up_to_rounding"),
    "equal, but no input could be changed": ("unchanged_inputs",),
    "equal even without a replay: no proof": ("no_effect_visible",),
    "the capture raises": ("refused",),
    "**the replay differs, or the process crashes**": ("wrong", "crash"),
    "not run: eager raises on MPS": ("eager_lacks",),
    "not run: the simulator does not have the call, or rejects it": ("simulator_lacks", "simulator_refused"),
}
# How a comparison says that a replay gave something else.
RESULTS_DIFFER = "results or gradients differ"
INPUTS_DIFFER = "inputs differ afterwards"
GENERATOR_DIFFERS = "the generator is in another state than eager's"
DIFFERENCES = (RESULTS_DIFFER, INPUTS_DIFFER, GENERATOR_DIFFERS)
# Told by operator, with what the simulator says.
OF_THE_SIMULATOR = ("simulator_lacks", "simulator_refused")


# Differences of `--compiled` whose cause is known.
DIFFERENCES_KNOWN = Path(__file__).with_name("compiled_differences.toml")


def explain(cases: list[dict[str, Any]]) -> list[str]:
    """Makes known differences `explained`, with the cause; returns the causes of which there was no case."""
    known = tomllib.loads(DIFFERENCES_KNOWN.read_text())["difference"]
    met = {case["reason"] for case in cases}
    for case in cases:
        if case["outcome"] != "wrong" or "layout" not in case:
            continue
        said = f"{case['dtype']}, {case['layout']}: {case['reason']}"
        cause = next((k["cause"] for k in known if case["op"] in k["operators"] and k.get("where", "") in said), None)
        if (
            cause is None
            and not case["listed"]
            and case["reason"].startswith(("compiled raises", "other shapes or types"))
        ):
            cause = "upstream: it traces a dtype that the operator's OpInfo does not list by the rules of other devices"
        if cause is not None:
            case.update(outcome="explained", reason=cause, found=case["reason"])
            met.add(cause)
    return [each["cause"] for each in known if each["cause"] not in met]


def read_cases(path: Path) -> list[dict[str, Any]]:
    """The cases of a report; none where there is no report."""
    return list(json.loads(path.read_text())["cases"]) if path.exists() else []


def write_report(cases: list[dict[str, Any]], path: Path, **head: Any) -> None:
    """One case a line, so that two runs can be compared."""
    lines = ",\n".join(json.dumps(case) for case in cases)
    path.write_text(f'{json.dumps({"totals": count(cases), **head})[:-1]},\n"cases": [\n{lines}\n]}}\n')


def finish(cases: list[dict[str, Any]], path: Path, no_replay: bool, state: bool, console: Console) -> int:
    """Writes the report, prints the table and returns the exit status."""
    cases.sort(key=lambda case: (case["op"], case["dtype"], case["sample"], case["pass"]))
    totals = count(cases)
    changes = dict.fromkeys(case["change"] for case in cases if "change" in case)
    by_change = {name: count(case for case in cases if case.get("change") == name) for name in changes}
    write_report(cases, path, by_change=by_change, replays=not no_replay)
    shown = Table("outcome", "reason", "cases", "operators")
    for (outcome, reason), operators in grouped(cases).items():
        names = sorted(set(operators))
        few = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
        shown.add_row(outcome, reason[:120], str(len(operators)), str(len(names)) if outcome == "equal" else few)
    console.print(shown)
    console.print(", ".join(f"{totals[name]} {name}" for name in OUTCOMES), highlight=False)
    if no_replay:
        return verdict_without_replay(cases, console)
    strange = [c for c in cases if c["outcome"] == "refused" and c["reason"].startswith("other")]
    return 1 if totals["wrong"] or totals["crash"] or strange or not totals["raised" if state else "equal"] else 0


def verdict_without_replay(cases: list[dict[str, Any]], console: Console) -> int:
    """Exit status 0 if cases were compared, and each was seen to differ."""
    blind = [case for case in cases if case["outcome"] in ("equal", "equal_up_to_rounding", "unchanged_inputs")]
    seen = [case for case in cases if case["outcome"] == "wrong" and case["reason"] in DIFFERENCES]
    other = [case for case in cases if case["outcome"] in ("wrong", "crash") and case not in seen]
    for case in blind:
        console.print(f"equal without a replay: {case}", style="red", highlight=False)
    for case in other:
        console.print(f"wrong for another cause: {case}", style="red", highlight=False)
    console.print(f"without replays {len(blind)} cases are equal, and {len(seen)} are seen to differ", highlight=False)
    return 1 if blind or other or not seen else 0


def count(cases: Iterable[dict[str, Any]]) -> dict[str, int]:
    """How many cases had each outcome."""
    counts = Counter(case["outcome"] for case in cases)
    assert not set(counts) - set(OUTCOMES), counts
    return {name: counts[name] for name in OUTCOMES}


def grouped(cases: Iterable[dict[str, Any]]) -> dict[tuple[str, str], list[str]]:
    """The operators of the cases by outcome and reason, in the order of the outcomes."""
    groups: dict[tuple[str, str], list[str]] = {}
    for case in cases:
        reason = ": ".join(dict.fromkeys([case["change"], case["reason"]])) if "change" in case else case["reason"]
        reason = re.sub(r"(not implemented for )'\w+'", r"\1a data type", reason)
        groups.setdefault((case["outcome"], re.sub(r"\d+", "N", reason)), []).append(case["op"])
    return dict(sorted(groups.items(), key=lambda group: (OUTCOMES.index(group[0][0]), group[0][1])))


def write(path: Path, cases: list[dict[str, Any]], every: int, most: int) -> None:
    """Write the page for docs/ and its summary; of a sample it says what was not run."""
    import torch

    totals = count(cases)
    run = [case for case in cases if case["outcome"] not in ("eager_lacks", *OF_THE_SIMULATOR)]
    groups = grouped(cases)
    head = (
        f"{len(run):,} cases of {len({case['op'] for case in run})} operators. Simulator of macOS 15.2, torch "
        f"{torch.__version__.split('+')[0]}, {datetime.date.today()}.\n"
    )
    if every > 1:
        head += f"\n**A sample** (`--sample {every}`): one in {every} pairs of operator and dtype was run, with at most {most} samples.\n"
    operators_of = {name: {case["op"] for case in cases if case["outcome"] == name} for name in OUTCOMES}
    # These belong to other ways to run the sweep.
    shown = [name for name in OUTCOMES if name not in ("raised", "explained")]
    outcomes = ((name, f"{totals[name]:,}", str(len(operators_of[name]))) for name in shown)
    reasons = (
        (outcome, reason, f"{len(operators):,}", str(len(set(operators))))
        for (outcome, reason), operators in groups.items()
        if outcome not in OF_THE_SIMULATOR and not reason.startswith("other")
    )
    in_short = ((said, f"{sum(totals[name] for name in names):,}") for said, names in _IN_SHORT.items())
    parts = [
        "# Operators that can be captured\n",
        "`scripts/mpsfork sweep --page …` wrote this file; [README.md](README.md#operators) explains it.\n",
        head,
        "[The sweep](../../test/programs/sweep/README.md) defines the outcomes. An operator counts in a row if one of its cases does.\n",
        table(["outcome", "cases", "operators"], outcomes, words=1),
        "By reason, without rare ones:\n",
        table(["outcome", "reason", "cases", "operators"], reasons, words=2),
    ]
    for (outcome, reason), operators in groups.items():
        if outcome in ("refused", "wrong", "crash", "equal_up_to_rounding"):
            parts += [f"## {outcome}: {reason}\n", textwrap.fill(code(operators) + ".", 120) + "\n"]
    listed = [case for case in cases if case.get("listed")]
    of_listed = grouped(listed)
    for outcome, title in zip(OF_THE_SIMULATOR, ("What the simulator lacks", "What the simulator refuses")):
        known = {reason: operators for (of, reason), operators in of_listed.items() if of == outcome}
        others = totals[outcome] - count(listed)[outcome]
        if not known:
            continue
        parts.append(f"## {title}\n")
        parts.append(f"Besides {others:,} cases of dtypes that the operator's OpInfo does not list for the CPU:\n")
        rows = sorted(known.items(), key=lambda pair: -len(pair[1]))
        said = ((reason, f"{len(operators):,}", code(operators)) for reason, operators in rows)
        parts.append(table(["it says", "cases", "operators"], said))
    write_page(path, "\n".join(parts), head + "\n" + table(["outcome", "cases"], in_short, words=1))


def write_compiled(path: Path, cases: list[dict[str, Any]], every: int, most: int) -> None:
    """Write the page of `--compiled`: outcomes by layout, and every reason, with its operators."""
    import torch

    run = [case for case in cases if "layout" in case]
    layouts = list(dict.fromkeys(case["layout"] for case in run))
    counts = {layout: count(case for case in run if case["layout"] == layout) for layout in layouts}
    names = [name for name in OUTCOMES if any(counts[layout][name] for layout in layouts) or name in ("wrong", "crash")]
    head = (
        f"{len(run):,} cases of {len({case['op'] for case in run})} operators that run in eager mode, at most {most} sample{'s' * (most > 1)} per "
        f"operator and dtype{f', and one in {every} of these pairs' if every > 1 else ''}. Simulator of macOS 15.2, torch "
        f"{torch.__version__.split('+')[0]}, {datetime.date.today()}.\n"
    )
    outcomes = table(
        ["outcome", *layouts], ((name, *(f"{counts[at][name]:,}" for at in layouts)) for name in names), words=1
    )
    rows = (
        (of, why, f"{len(ops):,}", code(ops) if len(set(ops)) < 60 else "") for (of, why), ops in grouped(run).items()
    )
    parts = [
        "# Operators under torch.compile\n",
        "`scripts/mpsfork sweep --compiled --page …` wrote this file; [the sweep](../../test/programs/sweep/README.md#compiled-operators) "
        "defines the outcomes.\n",
        head,
        outcomes,
        table(["outcome", "reason", "cases", "operators"], rows),
    ]
    write_page(path, "\n".join(parts), f"{head}\n{outcomes}")


def code(names: Iterable[str]) -> str:
    """Each name once, as Markdown shows code."""
    return ", ".join(f"`{name}`" for name in sorted(set(names)))
