"""Compiles the operators of the OpInfo database for which eager raises that MPS has no kernel."""

import os
import re
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import click
import torch
from cases import DTYPES, OPERATORS
from sweep_inputs import other_contents, Tensors, tensors_of, with_tensors
from sweep_report import code, table, write_page
from torch.testing import assert_close
from torch.testing._internal import common_methods_invocations
from torch.utils import _pytree as pytree

LACKS = re.compile(r"'(aten::[\w.]+)'.*(?:not currently implemented for the MPS|arguments from the 'MPS')")
FALLBACK = "PYTORCH_ENABLE_MPS_FALLBACK"
HEAD = ("missing kernel", "operators of the database", "without the variable", "with the variable")
PAGE = """# Operators without an MPS kernel

`scripts/mpsfork without-kernel --page …` wrote this file; [README.md](README.md#operators) explains it.

{summary}
Each operator is compiled and called three times with new values, and compared with the CPU. The sample is the first for which eager raises that a kernel
is missing, in float32 if the operator takes it. *The variable* is `PYTORCH_ENABLE_MPS_FALLBACK=1`.

| outcome | meaning |
|---|---|
| decomposed, captured | equal to the CPU: one capture, two replays, no split |
| decomposed, in pieces | equal to the CPU: the named operators run between captured pieces |
| on the CPU between pieces | equal to the CPU: the named operators run on the CPU between captured pieces |
| eagerly as a whole | equal to the CPU, but the function cannot be traced, so nothing is captured |
| eager's error | the compiled call raises the error of the eager call, or the same error for the named kernel |
| other | the named error. `linalg.vecdot` has it because its first sample is empty: it runs as `dot`, which also raises eagerly for empty tensors |

{table}"""
# Dynamo skips the database's own way to seed, and the function in it.
common_methods_invocations.wrapper_set_seed = lambda function, *args, **kwargs: function(*args, **kwargs)


def draw(name: str, **seeded: bool) -> list[Any]:
    dtype = next((dtype for dtype in DTYPES if dtype in OPERATORS[name].dtypes), None)
    return list(OPERATORS[name].sample_inputs("cpu", dtype, **seeded)) if dtype else []


def call(function: Any, sample: Any, contents: Tensors, device: str) -> Tensors:
    """Results of a call, and its inputs afterwards."""
    given = with_tensors(sample, [content.to(device, copy=True) for content in contents])
    first, args, kwargs = pytree.tree_map_only((str, torch.device), lambda x: device if str(x) == "cpu" else x, given)
    torch.manual_seed(0)
    leaves = pytree.tree_leaves((function(first, *args, **kwargs), given))
    return [leaf.detach().cpu() for leaf in leaves if isinstance(leaf, torch.Tensor)]


def eager_error(function: Any, sample: Any) -> str:
    try:
        call(function, sample, tensors_of(sample), "mps")
    except Exception as error:
        return str(error)
    return ""


def outcome(_kernel: str, name: str, number: int) -> str:
    """What becomes of three compiled calls with other numbers each."""
    function, sample = OPERATORS[name].op, draw(name)[number]
    eager, contents = eager_error(function, sample), [tensors_of(sample)]
    for _ in range(2):  # goes on with the numbers of the call before
        other = dict(enumerate(draw(name, set_seed=False))).get(number)
        contents.append(next(other_contents(contents[0], other))[1])
    torch._dynamo.reset()
    compiled = torch.compile(lambda first, *args, **kwargs: function(first, *args, **kwargs), backend="mpsgraphs")
    for values in contents:
        try:
            assert_close(call(compiled, sample, values, "mps"), call(function, sample, values, "cpu"), equal_nan=True)
        except Exception as error:
            if str(error) == eager:
                return "eager's error"
            if kernel := LACKS.search(str(error)):
                return f"eager's error, for {code([kernel[1]])}"
            return f"other: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
    reports = torch.mps.compile_report()  # type: ignore[attr-defined]
    counts = [(report["captures"], report["replays"], report["eager_calls"]) for report in reports]
    if counts not in ([], [(1, 2, 0)]):
        return f"other: captures, replays and eager calls are {counts}"
    splits = {split["operator"]: "CPU" in split["reason"] for report in reports for split in report["splits"]}
    if not splits:
        return "decomposed, captured" if reports else "eagerly as a whole"
    way = "on the CPU between" if os.environ[FALLBACK] == "1" and all(splits.values()) else "decomposed, in"
    return f"{way} pieces: {code(name.removeprefix('aten.').removesuffix('.default') for name in splits)}"


def outcomes(cases: list[tuple[str, str, int]], fallback: str) -> list[str]:
    """What a new process finds with this value of the variable."""
    os.environ.update({FALLBACK: fallback, "PYTHONWARNINGS": "ignore"})
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return list(pool.map(outcome, *zip(*cases)))


def counted(rows: dict[tuple[str, str, str], list[str]]) -> str:
    """How many operators have each outcome, without and with the variable."""
    counts: list[Counter[str]] = [Counter(), Counter()]
    for (_, *pair), names in rows.items():
        for count, found in zip(counts, pair, strict=True):
            count[re.split(r"[:,] (?!captured|in pieces)", found)[0]] += len(names)
    names = sorted(set().union(*counts), key=lambda name: -sum(count[name] for count in counts))
    lines = [[name, *(str(count[name]) for count in counts)] for name in names]
    return (
        f"{counts[0].total()} operators of the database without an MPS kernel. Simulator on Linux x86-64, macOS 15.2, {time.strftime('%Y-%m-%d')}.\n\n"
        + table(["outcome of `torch.compile`", "operators", "with fallback allowed"], lines, words=1)
    )


@click.command()
@click.option("--only", multiple=True, metavar="OPERATOR", help="Only these operators of the OpInfo database.")
@click.option("--page", type=click.Path(path_type=Path), help="Write the page of a whole run to this file.")
def main(only: tuple[str, ...], page: Path | None) -> None:
    """Compile the operators without an MPS kernel, and compare them with the CPU."""
    if unknown := set(only) - set(OPERATORS):
        raise click.UsageError(f"there is no operator {', '.join(sorted(unknown))}")
    if page and only:
        raise click.UsageError("--page takes a run of all")
    found: dict[tuple[str, str], int] = {}
    for name in only or OPERATORS:
        for number, sample in enumerate(draw(name)):
            if kernel := LACKS.search(eager_error(OPERATORS[name].op, sample)):
                found.setdefault((kernel[1], name), number)
    listed = sorted((*key, number) for key, number in found.items())
    rows: dict[tuple[str, str, str], list[str]] = {}
    for (lacked, name, _), *pair in zip(listed, outcomes(listed, "0"), outcomes(listed, "1")):
        rows.setdefault((lacked, *pair), []).append(name)
    lines = [(code([kernel]), code(names), without, with_it) for (kernel, without, with_it), names in rows.items()]
    print(table(HEAD, lines), end="")
    if page:
        summary = counted(rows)
        write_page(page, PAGE.format(summary=summary, table=table(HEAD, lines)), summary)
    faults = [row for row in rows if "other: " in str(row) and "tensor is empty" not in str(row)]  # see the page
    sys.exit(f"{len(faults)} rows have faults" if faults or not rows else 0)


if __name__ == "__main__":
    main()
