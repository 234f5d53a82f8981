"""Models of public libraries, captured as they are and through `torch.compile(backend="mpsgraphs")`.

python -m mps_simulator test/real_models/run.py [--quick] [--only NAME] [--page FILE]
"""

from __future__ import annotations

import gc
import json
import os
import sys
from pathlib import Path

import click
import torch

REPOSITORY = Path(__file__).parents[2]
sys.path[:0] = [str(REPOSITORY / "build/models/packages"), str(REPOSITORY / "test")]
# Nothing is downloaded.
os.environ["HF_HUB_OFFLINE"] = "1"

from real_models.catalog import architectures, QUICK, TRAINED  # noqa: E402
from real_models.measure import measure, Row  # noqa: E402
from real_models.page import page  # noqa: E402

_DTYPES = (torch.float32, torch.float16)


def _shown(row: Row) -> str:
    return ", ".join(f"{mode} {outcome.outcome}" for mode, outcome in row.modes.items() if mode != "eager") or (
        f"eager {row.modes['eager'].outcome}"
    )


def _write(rows: list[Row], report: Path) -> None:
    totals: dict[str, dict[str, int]] = {}
    for row in rows:
        for mode, outcome in row.modes.items():
            counts = totals.setdefault(mode, {})
            counts[outcome.outcome] = counts.get(outcome.outcome, 0) + 1
    report.parent.mkdir(parents=True, exist_ok=True)
    report.write_text(json.dumps({"totals": totals, "models": [row.as_json() for row in rows]}, indent=1) + "\n")


def _kept(report: Path) -> dict[tuple[str, str], Row]:
    """The rows of an earlier run, by name and dtype, but for those that failed."""
    if not report.exists():
        return {}
    rows = [Row.of_json(values) for values in json.loads(report.read_text())["models"]]
    return {(row.name, row.dtype): row for row in rows if not row.failures()}


@click.command()
@click.option("--quick", is_flag=True, help="The eight of `make test`, in float32.")
@click.option("--only", multiple=True, metavar="NAME", help="These alone.")
@click.option("--resume", is_flag=True, help="Keep what the report has without a failure.")
@click.option("--page", "path", type=click.Path(path_type=Path), help="Write the page of a whole run there.")
@click.option("--no-replay", is_flag=True, help="Replays do nothing: the run fails if anything is equal then.")
@click.option(
    "--report",
    type=click.Path(path_type=Path),
    default=REPOSITORY / "build/reports/models.json",
    help="Where all numbers are kept.",
)
def main(quick: bool, only: tuple[str, ...], resume: bool, path: Path | None, no_replay: bool, report: Path) -> None:
    """Compare models on new inputs with eager, bit for bit; a difference fails the run."""
    known = list(architectures())
    unknown = set(only) - {one.name for one in known}
    if unknown:
        raise click.UsageError(f"there is no model {', '.join(sorted(unknown))}")
    chosen = [one for one in known if one.name in (only or (QUICK if quick else {o.name for o in known}))]
    if path and len(chosen) != len(known):
        raise click.UsageError("--page takes a run of all")
    if path and no_replay:
        raise click.UsageError("--page takes a run with replays")
    if no_replay:
        torch.mps.MPSGraph.replay = lambda _self: None  # type: ignore[attr-defined]
    kept = _kept(report) if resume and not no_replay else {}
    rows: list[Row] = []
    failures: list[str] = []
    dtypes = _DTYPES[:1] if quick else _DTYPES
    total = len(chosen) * len(dtypes)
    for architecture in chosen:
        for dtype in dtypes:
            train = architecture.name in TRAINED and dtype == torch.float32 and not quick
            found = kept.get((architecture.name, str(dtype).removeprefix("torch.")))
            row = found or measure(architecture, dtype, train)
            rows.append(row)
            failures += row.equal() if no_replay else row.failures()
            print(f"[{len(rows):3}/{total}] {row.name}, {row.dtype}: {_shown(row)} ({row.seconds:.0f} s)", flush=True)
            _write(rows, report)
            gc.collect()
            torch.mps.empty_cache()
    for failure in failures:
        print(failure, file=sys.stderr)
    if path:
        path.write_text(page(rows))
    equal = sum(row.modes.get("compiled") is not None and row.modes["compiled"].outcome == "equal" for row in rows)
    print(
        f"{equal} of {len(rows)} equal eager through the backend, {len(failures)} failures. Numbers kept in {report}."
    )
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
