"""A process that measures: reads a job a line, answers in a line. Started by workers.py."""

from __future__ import annotations

import json
import os
import sys
from typing import Any, IO

import torch

from fallback_bench.cases import CASES
from fallback_bench.device import this_device
from fallback_bench.measure import check, measure


def answer(job: dict[str, Any]) -> dict[str, Any]:
    """Do one job."""
    case = CASES[job["operator"]]
    shape, dtype = tuple(job["shape"]), getattr(torch, job["dtype"])
    if job["task"] == "check":
        return check(case, shape, dtype)
    return measure(case, shape, dtype, job["seconds"])


def main() -> None:
    """Answer jobs until there are no more."""
    # What anything else prints must not come between the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    if not torch.backends.mps.is_available():
        _say(
            answers,
            {"error": "there is no MPS device here; on Linux run `scripts/mpsfork fallback-bench`, which brings one"},
        )
        return
    _say(answers, {"device": this_device().as_dict()})
    for line in sys.stdin:
        _say(answers, answer(json.loads(line)))
    torch.mps.synchronize()


def _say(answers: IO[str], content: dict[str, Any]) -> None:
    answers.write(json.dumps(content) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
