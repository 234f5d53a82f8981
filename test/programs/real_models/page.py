"""docs/results/models.md, from a run of all models."""

from __future__ import annotations

import datetime
import platform

import torch

from real_models.catalog import architectures
from real_models.generation import cases, CHOICES, GENERATE
from real_models.measure import Outcome, Row, TRAINING_STEPS
from real_models.report import Rows

_HEAD = """# Models of public libraries

This page shows which models of public libraries can be captured or compiled. `scripts/mpsfork models --page docs/results/models.md` wrote it on {date},
on the simulator ({machine}, torch {torch}).

The models are small configurations with random weights of transformers, diffusers, timm and torchvision
([versions](../../requirements-models.txt)), in inference. [test/programs/real_models](../../test/programs/real_models/README.md) explains how each is captured,
compiled and compared. Times are CPU time per pass of the submitting thread (SIMULATED: not executed, without Apple's encoding).

*As traced*: AOTAutograd's trace rounds differently from eager; the results equal, bit for bit, those of Dynamo's backend
`aot_eager`, which runs the same trace without graphs. *Refused* models raise in the capture and run in the compiled form.

{summary}
"""
_OUTCOMES = ("equal", "as traced", "not repeatable", "refused", "fails", "differs")
_TABLE = "| model | dtype | steps | as it is | compiled: pieces | linked | µs: eager | captured | compiled | linked |\n"
_RULE = "| --- | --- | --- | --- | --- | --- | --: | --: | --: | --: |\n"
_TRAINING = """
## {steps} steps of training, compiled

Losses, gradients, weights and buffers after each step, in float32, next to eager. *As traced* are those of the same trace without
graphs, with the dropout that the backend puts in place of an operator without a kernel. *Not repeatable*: the trace adds up by index
in no fixed order and differs from itself; replays differ from it at most four times as much.

"""
_NOTES = {
    "detection": """Non-maximum suppression has no MPS kernel in torchvision's Linux wheel, so that eager
does not run these models. They are run with `PYTORCH_ENABLE_MPS_FALLBACK=1`, by eager too: such operators run on the CPU then. How many
boxes there are depends on the values, which is where Dynamo breaks its graphs. *Network* is the part without choices, backbone and
head, and runs without the fallback.

"""
}
_GENERATION = """
## `generate()`

Tokens of eager's `generate()`, greedy and sampled (`torch.multinomial`) from the same seed, in float32, for four prompts: the
first one is captured, the second has its length, the others are longer and shorter. *forward*: `model.forward` is compiled by
`torch.compile(backend="mpsgraphs")`. *library*: `generate(compile_config=…)` compiles the steps after the prompt by itself. *by
hand*: one step is captured by `torch.mps.graph`, with the choice of the token in it, and replayed for each prompt.

*static* and *hybrid* are `cache_implementation`. GPT-2 of this version takes no static cache, so that its shapes grow with each
step. Counts of the compiled forms are those of the second prompt, over all pieces into which Dynamo has cut
the forward pass.

| model | cache | way | greedy | sampled | captures | replays | eager calls | operators in between |
| --- | --- | --- | --- | --- | --: | --: | --: | --- |
"""


def _time(outcome: Outcome | None) -> str:
    return "–" if outcome is None or outcome.microseconds is None else f"{outcome.microseconds:,.0f}"


def _steps(outcome: Outcome | None) -> str:
    if outcome is None or not outcome.steps:
        return "–"
    return ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in outcome.steps.items())


def _pieces(outcome: Outcome | None) -> str:
    if outcome is None:
        return "–"
    if outcome.outcome not in ("equal", "as traced"):
        return f"**{outcome.outcome}** {outcome.reason}"
    names = ", ".join(f"`{name}`" for name in dict.fromkeys(outcome.splits))
    breaks = outcome.steps.get("graph breaks")
    return (
        f"{outcome.outcome}: {outcome.steps.get('pieces', 0)}"
        + (f", {breaks} graph breaks" if breaks else "")
        + (f" ({names})" if names else "")
    )


def _row(row: Row) -> str:
    modes = row.modes
    as_it_is = modes.get("as it is")
    cells = [
        row.name,
        row.dtype,
        _steps(as_it_is),
        as_it_is.outcome if as_it_is else f"eager does not run: {modes['eager'].reason}",
        _pieces(modes.get("compiled")),
        modes["compiled, linked"].outcome if "compiled, linked" in modes else "–",
        *(_time(modes.get(mode)) for mode in ("eager", "as it is", "compiled", "compiled, linked")),
    ]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def _count(rows: list[Row], mode: str, outcome: str) -> int:
    return sum(mode in row.modes and row.modes[mode].outcome == outcome for row in rows)


def _summary(rows: list[Row]) -> str:
    names = {row.name for row in rows}
    lines = [
        f"{len(names)} architectures, {len(rows)} runs; eager does not run {_count(rows, 'eager', 'fails')} of them.\n\n",
        f"| | {' | '.join(_OUTCOMES)} |\n| --- |{' --: |' * len(_OUTCOMES)}\n",
    ]
    for mode in ("as it is", "compiled", "compiled, linked"):
        counts = " | ".join(str(_count(rows, mode, outcome)) for outcome in _OUTCOMES)
        lines.append(f"| {mode} | {counts} |\n")
    return "".join(lines)


def _training(rows: list[Row]) -> str:
    lines = [
        f"| {row.name} | {_pieces(row.modes['compiled, training'])} |\n"
        for row in rows
        if "compiled, training" in row.modes
    ]
    head = _TRAINING.format(steps=TRAINING_STEPS)
    return head + "| model | compiled: pieces |\n| --- | --- |\n" + "".join(lines)


def _decoded(row: Row) -> str:
    outcomes = [row.modes[choice] for choice in CHOICES]
    first = outcomes[0]
    case = next(case for case in cases() if case.title == row.name)
    cells = [
        *(case.name, case.cache, case.way),
        *(f"**{one.outcome}** {one.reason}" if one.reason else one.outcome for one in outcomes),
        *(str(first.steps.get(count, "–")) for count in ("captures", "replays", "eager_calls")),
        ", ".join(f"`{name}`" for name in dict.fromkeys(first.splits)) or "–",
    ]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def _refusals(rows: list[Row]) -> str:
    help_of = {one.name: one.help for one in architectures()}
    lines = []
    for row in rows:
        outcome = row.modes.get("as it is")
        if outcome and outcome.outcome == "refused" and row.dtype == "float32":
            lines.append(f"| {row.name} | {outcome.reason.replace('|', '')} | {help_of[row.name]} |\n")
    if not lines:
        return ""
    return "\n## Refused as they are\n\n| model | why | what may help |\n| --- | --- | --- |\n" + "".join(lines)


def page(found: Rows) -> str:
    """The whole page."""
    rows = [row for row in found.values() if row.kind != GENERATE]
    head = _HEAD.format(
        date=datetime.date.today().isoformat(),
        machine=f"{platform.system()} {platform.machine()}",
        torch=torch.__version__,
        summary=_summary(rows),
    )
    parts = [head]
    for kind in dict.fromkeys(row.kind for row in rows):
        parts.append(f"\n## {kind[0].upper()}{kind[1:]}\n\n{_NOTES.get(kind, '')}{_TABLE}{_RULE}")
        parts += [_row(row) for row in rows if row.kind == kind]
    generation = _GENERATION + "".join(_decoded(row) for row in found.values() if row.kind == GENERATE)
    return "".join(parts) + _training(rows) + generation + _refusals(rows)
