"""Models of public libraries, captured as they are and through `torch.compile(backend="mpsgraphs")`.

python -m mps_simulator test/programs/real_models/run.py [--quick] [--only NAME] [--page FILE]
"""

import gc
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import click
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from real_models import REPOSITORY  # noqa: E402
from real_models.catalog import architectures, QUICK, TRAINED  # noqa: E402
from real_models.generation import cases, decode, GENERATE, QUICK_CASES  # noqa: E402
from real_models.measure import measure, read, Row, Rows, write  # noqa: E402
from real_models.page import write as write_results  # noqa: E402

_DTYPES = (torch.float32, torch.float16)
_FALLBACK = "PYTORCH_ENABLE_MPS_FALLBACK"


def _rows_with_fallback(name: str, no_replay: bool) -> Rows:
    """What a process of its own finds, in which operators without an MPS kernel run on the CPU."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "models.json"
        command = [sys.executable, "-m", "mps_simulator", __file__, "--only", name, "--report", str(report)]
        command += ["--no-replay"] if no_replay else []
        environment = {**os.environ, _FALLBACK: "1"}
        # its status says whether there were failures, which are looked for in the rows
        ended = subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        rows = read(report)
        if ended.returncode not in (0, 1) or not rows:
            # it crashed: rows that are there would hide the others
            raise RuntimeError(f"the run of {name} with {_FALLBACK}=1 ended with {ended.returncode}: {ended.stderr}")
        return rows


@click.command()
@click.option("--quick", is_flag=True, help="Eight models, in float32, and two cases of generate().")
@click.option(
    "--only", multiple=True, metavar="NAME", help="Only these models; `generate` means all cases of generate()."
)
@click.option("--page", "path", type=click.Path(path_type=Path), help="Write the page of a whole run to this file.")
@click.option("--no-replay", is_flag=True, help="Make replays do nothing, and fail if anything is equal.")
@click.option(
    "--report",
    "report_path",
    type=click.Path(path_type=Path),
    default=REPOSITORY / "build/reports/models.json",
    help="File for all numbers.",
)
def main(quick: bool, only: tuple[str, ...], path: Path | None, no_replay: bool, report_path: Path) -> None:
    """Compare models on new inputs with eager, bit for bit; a difference fails the run."""
    known = {one.name: one for one in architectures()}
    known_cases = {case.title: case for case in cases()}
    unknown = set(only) - {*known, *known_cases, GENERATE}
    if unknown:
        raise click.UsageError(f"there is no model {', '.join(sorted(unknown))}")
    names = only or (QUICK if quick else tuple(known))
    titles = only or ([case.title for case in QUICK_CASES] if quick else (GENERATE,))
    if GENERATE in titles:
        titles = tuple(known_cases)
    chosen = [one for one in known.values() if one.name in names]
    chosen_cases = [case for case in known_cases.values() if case.title in titles]
    if path and (len(chosen), len(chosen_cases)) != (len(known), len(known_cases)):
        raise click.UsageError("--page takes a run of all")
    if path and no_replay:
        raise click.UsageError("--page takes a run with replays")
    if no_replay:
        torch.mps.MPSGraph.replay = lambda _self: None  # type: ignore[attr-defined]
    rows: Rows = {}
    dtypes = _DTYPES[:1] if quick else _DTYPES
    total = len(chosen) * len(dtypes) + len(chosen_cases)

    def add(row: Row) -> None:
        rows[row.key] = row
        outcomes = ", ".join(f"{mode} {outcome.outcome}" for mode, outcome in row.modes.items())
        print(f"[{len(rows):3}/{total}] {row.key}: {outcomes} ({row.seconds:.0f} s)", flush=True)
        write(report_path, rows)
        gc.collect()
        torch.mps.empty_cache()

    for case in chosen_cases:
        add(decode(case))
    for architecture in chosen:
        if architecture.fallback and os.environ.get(_FALLBACK) != "1":
            for row in _rows_with_fallback(architecture.name, no_replay).values():
                add(row)
            continue
        for dtype in dtypes:
            add(measure(architecture, dtype, architecture.name in TRAINED and dtype == torch.float32 and not quick))
    failures = [failure for row in rows.values() for failure in (row.equal() if no_replay else row.failures())]
    for failure in failures:
        print(failure, file=sys.stderr)
    if path:
        write_results(path, rows)
    compiled = [row.modes["compiled"].outcome for row in rows.values() if "compiled" in row.modes]
    print(
        f"{compiled.count('equal')} of {len(rows) - len(chosen_cases)} equal eager through the backend, {len(failures)} failures. "
        f"Numbers kept in {report_path}."
    )
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
