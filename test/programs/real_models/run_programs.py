"""Programs as people write them, eager and with their models compiled.

python -m mps_simulator test/programs/real_models/run_programs.py [--only NAME] [--page FILE] [--no-replay]
"""

import inspect
import platform
import random
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy
import torch
from torch import nn, Tensor

sys.path.insert(0, str(Path(__file__).parents[1]))

from page_table import table, write_page  # noqa: E402

from real_models import programs, programs_generation  # noqa: E402

_PROGRAMS = (*programs.PROGRAMS, *programs_generation.PROGRAMS)
# Of the passes of a program's parts after their captures.
_REPLAYED = 0.95
mps: Any = torch.mps


@dataclass
class Found:
    """What came of a program."""

    title: str
    # What a user has to know, or nothing.
    note: str
    is_equal: bool
    captures: int
    replays: int
    eager_calls: int

    @property
    def replayed(self) -> float:
        return self.replays / max(1, self.replays + self.eager_calls)

    @property
    def is_good(self) -> bool:
        return self.is_equal and self.replayed >= _REPLAYED

    @property
    def outcome(self) -> str:
        return "equal" if self.is_equal else "differs"


def _run(program: Any, backend: Any = None) -> tuple[list[Tensor], int, int, int]:
    """The program's results; captures, replays and eager calls."""
    torch._dynamo.reset()
    # The frames that Dynamo runs eagerly after its limit are in no report.
    torch._dynamo.config.fail_on_cache_limit_hit = True
    random.seed(0)
    numpy.random.seed(0)
    torch.manual_seed(0)

    # the report has models that exist
    models = []

    def prepare(model: nn.Module, in_place: bool = False) -> nn.Module:
        if backend and in_place:
            model.compile(backend=backend)  # type: ignore[no-untyped-call]
        elif backend:
            model = torch.compile(model, backend=backend)  # type: ignore[assignment]
        models.append(model)
        return model

    values = [value.detach().cpu() for value in program(prepare)]
    reports = mps.compile_report()
    captures, replays, eager = (sum(r[kind] for r in reports) for kind in ("captures", "replays", "eager_calls"))
    return values, captures, replays, eager


def compare(program: Any) -> Found:
    """Run a program eagerly and compiled."""
    found, *counts = _run(program, "mpsgraphs")
    wanted, *_ = _run(program)
    is_equal = len(found) == len(wanted) and all(map(torch.equal, found, wanted))
    title, _, note = inspect.cleandoc(program.__doc__).partition("\n")
    return Found(title, " ".join(note.split()), is_equal, *counts)


def write(path: Path, results: list[Found]) -> None:
    """Write the page of a run of all programs."""
    rows = [
        (found.title, found.outcome, str(found.captures), str(found.replays), f"{found.replayed:.0%}")
        for found in results
    ]
    notes = "".join(f"\n**{found.title}**: {found.note}\n" for found in results if found.note)
    equal, good = (sum(bool(getattr(found, name)) for found in results) for name in ("is_equal", "is_good"))
    summary = (
        f"{len(results)} programs: {equal} equal the unchanged program bit for bit, and {good} replay at least {_REPLAYED:.0%} of their "
        f"calls. Simulator on {platform.system()} {platform.machine()}, torch {torch.__version__}, {time.strftime('%Y-%m-%d')}.\n"
    )
    columns = ("program", "compared with eager", "captures", "replays", "replayed")
    text = f"""# Programs

`scripts/mpsfork programs --page …` wrote this file; [README.md](README.md#models-and-programs) explains it. The programs are in
[programs.py](../../test/programs/real_models/programs.py) and [programs_generation.py](../../test/programs/real_models/programs_generation.py).

{summary}
*Replayed* is the share of calls that were replays, without the captures.

{table(columns, rows)}{notes}"""
    write_page(path, text, summary)


@click.command()
@click.option("--only", multiple=True, metavar="NAME", help="Only these programs, by the names of their functions.")
@click.option("--page", "path", type=click.Path(path_type=Path), help="Write the page of a whole run to this file.")
@click.option("--no-replay", is_flag=True, help="Make replays do nothing, and fail if anything is equal.")
def main(only: tuple[str, ...], path: Path | None, no_replay: bool) -> None:
    """Compare programs with their eager runs; a difference, or too few replays, fails the run."""
    unknown = set(only) - {program.__name__ for program in _PROGRAMS}
    if unknown or (path and (only or no_replay)):
        raise click.UsageError(f"there is no program {', '.join(unknown)}" if unknown else "--page takes a run of all")
    if no_replay:
        mps.MPSGraph.replay = lambda _self: None
    chosen = [program for program in _PROGRAMS if not only or program.__name__ in only]
    results = []
    for number, program in enumerate(chosen, 1):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results.append(found := compare(program))
        counts = f"{found.captures} captures, {found.replays} replays, {found.eager_calls} eager calls"
        print(f"[{number}/{len(chosen)}] {program.__name__}: {found.outcome}, {counts}", flush=True)
    if path:
        write(path, results)
    bad = [found for found in results if (found.is_equal if no_replay else not found.is_good)]
    print(f"{len(results) - len(bad)} of {len(results)} programs are as wanted.")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
