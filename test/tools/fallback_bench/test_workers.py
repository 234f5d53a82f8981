"""Processes that measure: what happens when they crash or hang."""

import os
from typing import Any

import pytest

from fallback_bench.bench import Bench, Cell
from fallback_bench.workers import Died, Worker
from fork_tool.common.errors import ForkToolError

GREET = """
import os, signal, sys, time
from multiprocessing.connection import Connection
from fallback_bench.device import Device
pipe = Connection(int(sys.argv[1]))
"""
FAKE = f"""{GREET}
pipe.send({{"device": Device(True, "a fake", "0")}})
while True:
    try:
        job = pipe.recv()
    except EOFError:
        break
    how = job["operator"]
    if how == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if how == "exit":
        sys.exit("the device is gone")
    if how == "hang":
        time.sleep(100)
    check = {{"verdict": "falls back", "missing": ["aten::x"]}}
    times = {{"cpu": 1.0, "mps": 3.0, "repeats": 3, "spread": 0.1, "fallbacks": ["aten::x"], "capture": None, "pid": os.getpid()}}
    pipe.send(check if job["task"] == "check" else times)
"""


def fake(timeout: float = 20.0, program: str = FAKE) -> Worker:
    return Worker(True, timeout, ("-c", program))


def ask(worker: Worker, operator: str) -> dict[str, Any]:
    return worker.ask({"operator": operator, "task": "measure"})


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ("crash", "the process ended with SIGSEGV"),
        ("exit", "the process ended with status 1, saying: the device is gone"),
        ("hang", "no answer for 1 s"),
    ],
)
def test_a_process_that_fails_is_replaced(how: str, sentence: str) -> None:
    worker = fake(timeout=1.0)
    try:
        before = ask(worker, "fine")["pid"]
        assert ask(worker, "fine")["pid"] == before
        with pytest.raises(Died, match=sentence):
            ask(worker, how)
        assert ask(worker, "fine")["pid"] != before
        with pytest.raises(ProcessLookupError):
            os.kill(before, 0)
    finally:
        worker.close()
        worker.close()


@pytest.mark.parametrize(
    ("program", "sentence"),
    [
        (f"{GREET}\npipe.send({{'error': 'there is none'}})", "Nothing can be measured: there is none"),
        ("import sys; sys.exit('no torch')", "does not start .*no torch"),
        ("pass", "does not start .*status 0"),
    ],
)
def test_a_process_that_does_not_start(program: str, sentence: str) -> None:
    with pytest.raises(ForkToolError, match=sentence):
        _ = fake(program=program).device


def test_ctrl_c_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = fake()
    pid = ask(worker, "fine")["pid"]

    def strike(*_arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("multiprocessing.connection.Connection.poll", strike)
    with pytest.raises(KeyboardInterrupt):
        ask(worker, "hang")
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_failure_costs_one_row() -> None:
    free, bound = fake(), fake()
    cells: list[Cell] = [(name, "float32", (2, 3)) for name in ("fine", "crash", "again")]
    begun: list[Cell] = []
    try:
        fine, crashed, again = Bench(free, bound, 0.1).rows(cells, begun.append)
    finally:
        free.close()
        bound.close()
    assert begun == cells
    assert crashed.problem == "the process ended with SIGSEGV"
    assert crashed.penalty is None and crashed.where == "a fake"
    for row in (fine, again):
        assert (row.shape, row.verdict, row.fell_back, row.repeats) == ("2×3", "falls back", "aten::x", 3)
        assert (row.cpu_ms, row.mps_ms, row.penalty, row.overhead_ms) == (1000, 3000, 3, 2000)
        assert (row.stops_capture, row.problem) == ("no", "")
