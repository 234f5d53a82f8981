"""Writes docs/results/models.md and its summary, from a run of all models."""

import datetime
import platform
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from textwrap import shorten

import torch
from page_table import table, write_page

from real_models.catalog import architectures
from real_models.generation import cases, CHOICES, GENERATE
from real_models.measure import Outcome, Row, Rows, TRAINING_STEPS

_HEAD = """# Models

`scripts/mpsfork real-models --page …` wrote this file; [README.md](README.md#models-and-programs) explains it.

{summary}
*Equal* means bit for bit, *raises* that the capture raises. *Pieces* are the graphs of a compiled model. Models with the same outcomes share a row.
"""
_OUTCOMES = ("equal", "refused", "fails", "differs")
_MODES = ("as it is", "compiled")
_CAPTIONS = ("captured", "compiled")
_TRAINING = """
## {steps} steps of training, compiled

Losses, gradients, weights and buffers after each step are compared with those of eager training, in float32.

*As traced*: equal to the same trace without captures, but not to eager training. Dynamo splits these models into several graphs, and AOTAutograd adds up
the gradient of a tensor that several of them read graph by graph.

*Not repeatable*: the trace adds up by index in no fixed order, so two runs of it differ. Replays differ from it at most four times as much.

"""
_NOTES = {
    "detection": """torchvision's Linux wheel has no MPS kernel for non-maximum suppression, so these models run it on the CPU
(`PYTORCH_ENABLE_MPS_FALLBACK=1`). The number of boxes depends on the values, so Dynamo breaks the graph there. *Network* is backbone and head alone, without
the fallback.

"""
}
_GENERATION = """
## `generate()`

`generate()` must give the same tokens, greedy and sampled with one seed, in float32, for four prompts. The first prompt is captured. The second has the
same length, the third is longer, the fourth shorter.

| way | what is captured |
|---|---|
| forward | `model.forward`, compiled by `torch.compile(backend="mpsgraphs")` |
| library | the steps after the prompt, compiled by `generate(compile_config=…)` |
| by hand | one step with the choice of the token, captured by `torch.mps.graph` |

*Cache* is `cache_implementation`. GPT-2 has no static cache in this version of transformers, so its shapes grow with each step. The counts of compiled
forms are for the second prompt; 0 captures means that it uses the graphs of the first.

"""
_GENERATED = "models | cache | way | greedy | sampled | captures | replays | eager calls | operators in between"


def _named(outcome: str) -> str:
    return "raises" if outcome == "refused" else outcome


def _cut(reason: str) -> str:
    """The first sentence of an error, or its beginning."""
    return shorten(reason.partition(". ")[0], 110, placeholder=" …")


def _table(head: str, named: Iterable[Sequence[str]]) -> str:
    """Rows of a name and other cells; names with the same cells share a row."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for name, *cells in named:
        groups.setdefault(tuple(cells), []).append(name)
    return table(head.split(" | "), ((", ".join(names), *others) for others, names in groups.items()))


def _pieces(outcome: Outcome) -> str:
    if outcome.outcome not in ("equal", "as traced"):
        return f"**{outcome.outcome}** {outcome.reason}"
    names = ", ".join(f"`{name}`" for name in dict.fromkeys(outcome.splits))
    breaks = outcome.steps.get("graph breaks")
    return (
        f"{outcome.outcome}: {outcome.steps.get('pieces', 0)}"
        + (f", {breaks} graph breaks" if breaks else "")
        + (f" ({names})" if names else "")
    )


def _cells(row: Row) -> list[str]:
    if "as it is" not in row.modes:
        return [f"eager raises: {_cut(row.modes['eager'].reason)}", "–"]
    as_it_is, compiled = (row.modes[mode] for mode in _MODES)
    return [_named(as_it_is.outcome), _pieces(compiled)]


def _in_all_dtypes(rows: Sequence[Row]) -> list[str]:
    """The cells of a model, each once where the dtypes agree."""
    first, *others = rows
    cells = _cells(first)
    for row in others:
        pairs = zip(cells, _cells(row), strict=True)
        cells = [one if one == other else f"{one}; {row.dtype}: {other}" for one, other in pairs]
    return cells


def _times(rows: Sequence[Row]) -> str:
    medians = []
    for mode, name in (("eager", "eager"), ("as it is", "captured"), ("compiled", "compiled")):
        taken = [row.modes[mode].microseconds for row in rows if mode in row.modes]
        known = [value for value in taken if value is not None]
        medians.append(f"{name} {statistics.median(known):,.0f}" if known else f"{name} –")
    return f"\nCPU time of a pass, µs, median of the timed models (SIMULATED): {'; '.join(medians)}.\n"


def _count(rows: list[Row], mode: str, outcome: str) -> int:
    return sum(mode in row.modes and row.modes[mode].outcome == outcome for row in rows)


def _summary(rows: list[Row]) -> str:
    names = {row.name for row in rows}
    said = (
        f"{len(names)} architectures, {len(rows)} runs. {_count(rows, 'eager', 'fails')} runs fail in eager mode and are left out. "
        f"Simulator on {platform.system()} {platform.machine()}, torch {torch.__version__}, {datetime.date.today()}.\n\n"
    )
    counts = (
        (name, *(str(_count(rows, mode, outcome)) for outcome in _OUTCOMES)) for mode, name in zip(_MODES, _CAPTIONS)
    )
    return said + _table(f"form | {' | '.join(map(_named, _OUTCOMES))}", counts)


def _decoded(row: Row) -> list[str]:
    outcomes = [row.modes[choice] for choice in CHOICES]
    first = outcomes[0]
    case = next(case for case in cases() if case.title == row.name)
    return [
        *(case.name, case.cache, case.way),
        *(f"**{_named(one.outcome)}** {one.reason}" if one.reason else one.outcome for one in outcomes),
        *(str(first.steps.get(count, "–")) for count in ("captures", "replays", "eager_calls")),
        ", ".join(f"`{name}`" for name in dict.fromkeys(first.splits)) or "–",
    ]


def _refusals(rows: list[Row]) -> str:
    help_of = {one.name: one.help for one in architectures()}
    refused = [
        (
            row.name,
            row.modes["as it is"].reason.partition(". ")[0].removeprefix("torch.mps graph capture: "),
            help_of[row.name],
        )
        for row in rows
        if row.dtype == "float32" and "as it is" in row.modes and row.modes["as it is"].outcome == "refused"
    ]
    return "\n## Captures that raise\n\n" + _table("models | error | what may help", refused) if refused else ""


def write(path: Path, found: Rows) -> None:
    rows = [row for row in found.values() if row.kind != GENERATE]
    summary = _summary(rows)
    parts = [_HEAD.format(summary=summary)]
    for kind in dict.fromkeys(row.kind for row in rows):
        by_name: dict[str, list[Row]] = {}
        for row in (row for row in rows if row.kind == kind):
            by_name.setdefault(row.name, []).append(row)
        models = ((name, *_in_all_dtypes(several)) for name, several in by_name.items())
        shown = _table("models | captured | compiled: pieces", models)
        timed = _times([row for several in by_name.values() for row in several])
        parts += [f"\n## {kind[0].upper()}{kind[1:]}\n\n", _NOTES.get(kind, ""), shown, timed]
    trained = [(row.name, row.modes["compiled, training"]) for row in rows if "compiled, training" in row.modes]
    pieces = _table("models | compiled: pieces", ((name, _pieces(outcome)) for name, outcome in trained))
    decoded = _table(_GENERATED, (_decoded(row) for row in found.values() if row.kind == GENERATE))
    parts += [_TRAINING.format(steps=TRAINING_STEPS), pieces, _GENERATION, decoded, _refusals(rows)]
    write_page(path, "".join(parts), summary)
