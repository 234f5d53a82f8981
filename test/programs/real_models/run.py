"""Models of public libraries, captured as they are and through `torch.compile(backend="mpsgraphs")`.

python -m mps_simulator test/programs/real_models/run.py [--quick] [--only NAME] [--page FILE]
"""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

import click
import torch

REPOSITORY = Path(__file__).parents[3]
sys.path[:0] = [str(REPOSITORY / "build/models/packages"), str(REPOSITORY / "test" / "programs")]
# Nothing is downloaded.
os.environ["HF_HUB_OFFLINE"] = "1"

from real_models.catalog import architectures, QUICK, TRAINED  # noqa: E402
from real_models.fallback import has_fallback, rows_with_fallback  # noqa: E402
from real_models.generation import cases, decode, QUICK_CASES  # noqa: E402
from real_models.measure import measure, Outcome, Row  # noqa: E402
from real_models.page import page  # noqa: E402
from real_models.report import Report  # noqa: E402

_DTYPES = (torch.float32, torch.float16)
# Stands for all cases of it.
_GENERATE = "generate"


def _shown(outcomes: dict[str, Outcome]) -> str:
    return ", ".join(f"{mode} {outcome.outcome}" for mode, outcome in outcomes.items())


def _lacks_training(row: Row) -> bool:
    return row.modes["eager"].outcome == "equal" and "compiled, training" not in row.modes


@click.command()
@click.option("--quick", is_flag=True, help="The eight of `make test`, in float32, and two cases of generate().")
@click.option("--only", multiple=True, metavar="NAME", help="These alone; `generate` is all cases of generate().")
@click.option("--resume", is_flag=True, help="Keep what the report has without a failure.")
@click.option("--page", "path", type=click.Path(path_type=Path), help="Write the page of a whole run there.")
@click.option("--no-replay", is_flag=True, help="Replays do nothing: the run fails if anything is equal then.")
@click.option(
    "--report",
    "report_path",
    type=click.Path(path_type=Path),
    default=REPOSITORY / "build/reports/models.json",
    help="Where all numbers are kept.",
)
def main(
    quick: bool, only: tuple[str, ...], resume: bool, path: Path | None, no_replay: bool, report_path: Path
) -> None:
    """Compare models on new inputs with eager, bit for bit; a difference fails the run."""
    known = {one.name: one for one in architectures()}
    known_cases = {case.title: case for case in cases()}
    unknown = set(only) - {*known, *known_cases, _GENERATE}
    if unknown:
        raise click.UsageError(f"there is no model {', '.join(sorted(unknown))}")
    names = only or (QUICK if quick else tuple(known))
    titles = only or ([case.title for case in QUICK_CASES] if quick else (_GENERATE,))
    if _GENERATE in titles:
        titles = tuple(known_cases)
    chosen = [one for one in known.values() if one.name in names]
    chosen_cases = [case for case in known_cases.values() if case.title in titles]
    if path and (len(chosen), len(chosen_cases)) != (len(known), len(known_cases)):
        raise click.UsageError("--page takes a run of all")
    if path and no_replay:
        raise click.UsageError("--page takes a run with replays")
    if no_replay:
        torch.mps.MPSGraph.replay = lambda _self: None  # type: ignore[attr-defined]
    kept = Report.read(report_path).passed() if resume and not no_replay else Report()
    report = Report()
    dtypes = _DTYPES[:1] if quick else _DTYPES
    total = len(chosen) * len(dtypes) + len(chosen_cases)

    def tell(title: str, outcomes: dict[str, Outcome], seconds: float) -> None:
        done = len(report.models) + len(report.generation)
        print(f"[{done:3}/{total}] {title}: {_shown(outcomes)} ({seconds:.0f} s)", flush=True)
        report.write(report_path, kept)
        gc.collect()
        torch.mps.empty_cache()

    for case in chosen_cases:
        decoded = kept.generation.get(case) or decode(case)
        report.generation[case] = decoded
        tell(case.title, decoded.outcomes, decoded.seconds)
    for architecture in chosen:
        wanted = [(architecture.name, str(dtype).removeprefix("torch.")) for dtype in dtypes]
        if architecture.fallback and not has_fallback() and not all(key in kept.models for key in wanted):
            rows = rows_with_fallback(Path(__file__), architecture.name, no_replay)
            found = {(row.name, row.dtype): row for row in rows}
        else:
            found = kept.models
        for key, dtype in zip(wanted, dtypes):
            train = architecture.name in TRAINED and dtype == torch.float32 and not quick
            row = found.get(key)
            if not row or (train and _lacks_training(row)):
                row = measure(architecture, dtype, train)
            report.models[key] = row
            tell(", ".join(key), row.modes, row.seconds)
    failures = report.equal() if no_replay else report.failures()
    for failure in failures:
        print(failure, file=sys.stderr)
    if path:
        path.write_text(page(report))
    compiled = [row.modes["compiled"].outcome for row in report.models.values() if "compiled" in row.modes]
    print(
        f"{compiled.count('equal')} of {len(report.models)} equal eager through the backend, {len(failures)} failures. "
        f"Numbers kept in {report_path}."
    )
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
