"""A process that measures: takes jobs from a pipe, and puts an answer to each into it. Started by workers.py."""

import contextlib
import sys
from multiprocessing.connection import Connection
from typing import Any

import torch

from fallback_bench.cases import CASES
from fallback_bench.device import this_device
from fallback_bench.measure import check, measure


def answer(job: dict[str, Any]) -> dict[str, Any]:
    case = CASES[job["operator"]]
    shape, dtype = tuple(job["shape"]), getattr(torch, job["dtype"])
    if job["task"] == "check":
        return check(case, shape, dtype)
    return measure(case, shape, dtype, job["seconds"])


def main() -> None:
    pipe = Connection(int(sys.argv[1]))
    if not torch.backends.mps.is_available():
        missing = "there is no MPS device here; on Linux run `scripts/mpsfork fallback-bench`, which brings one"
        pipe.send({"error": missing})
        return
    pipe.send({"device": this_device()})
    with contextlib.suppress(EOFError):
        while True:
            pipe.send(answer(pipe.recv()))
    torch.mps.synchronize()


if __name__ == "__main__":
    main()
