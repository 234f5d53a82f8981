"""On the device: whether operators fall back, what it costs, and how much of a function it is."""

import csv
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from fallback_bench import measure as measure_module
from fallback_bench.cases import Case, CASES
from fallback_bench.cli import _function
from fallback_bench.device import this_device
from fallback_bench.fallbacks import with_fallbacks
from fallback_bench.measure import capture_error, check
from fallback_bench.percentage import fallback_share
from fallback_bench.workers import Worker
from fork_tool.common.errors import ForkToolError
from fork_tool.paths import own_layout

ROOT = own_layout().root


@pytest.fixture(scope="module")
def free() -> Iterator[Worker]:
    worker = Worker(True, 120.0)
    yield worker
    worker.close()


@pytest.fixture(scope="module")
def bound() -> Iterator[Worker]:
    worker = Worker(False, 120.0)
    yield worker
    worker.close()


def smallest(operator: str) -> tuple[Case, tuple[int, ...], torch.dtype]:
    case = CASES[operator]
    return case, case.shapes[0], case.dtypes[0]


@pytest.mark.parametrize("operator", sorted(CASES))
def test_each_case_runs_and_what_falls_back_stops_a_capture(operator: str, free: Worker, bound: Worker) -> None:
    """Promise 5, for the most requested operators: what the check and the capture say must agree."""
    case, shape, dtype = smallest(operator)
    job = {"operator": operator, "shape": shape, "dtype": str(dtype).removeprefix("torch."), "seconds": 0.0}
    checked = bound.ask({**job, "task": "check"})
    measured = free.ask({**job, "task": "measure"})
    if operator == "aten::quantize_per_tensor":
        # Its result can't lie on MPS at all.
        assert "QuantizedMPS" in measured["problem"]
        return
    assert measured["cpu"] > 0 and measured["mps"] > 0 and measured["repeats"] >= 3 and measured["spread"] >= 0
    if checked["verdict"] == "native":
        assert measured["fallbacks"] == []
        assert "falls back" not in (measured["capture"] or "")
    else:
        assert set(checked["missing"]) <= set(measured["fallbacks"])
        assert measured["capture"] is not None
        assert "falls back to the CPU" in measured["capture"] or "the host read device data" in measured["capture"]


def test_checked_and_not_looked_up() -> None:
    """The base registers a kernel for `col2im` on MPS, which is the fallback itself."""
    assert torch._C._dispatch_has_kernel_for_dispatch_key("aten::col2im", "MPS")
    assert check(*smallest("aten::col2im")) == {"verdict": "falls back unasked", "missing": ["aten::col2im"]}
    assert check(*smallest("aten::linalg_qr")) == {"verdict": "falls back", "missing": ["aten::linalg_qr.out"]}
    assert check(*smallest("aten::lgamma")) == {"verdict": "native", "missing": []}
    complex_one = Case(torch.lgamma, lambda shape, dtype: [torch.randn(shape).to(dtype)], ((4,),))
    failed = check(complex_one, (4,), torch.complex64)
    assert failed["verdict"] == "fails" and failed["problem"]


def test_capture_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(4, 4, device="mps")
    assert capture_error(lambda: x + 1) is None
    refused = capture_error(lambda: torch.linalg.svd(x))
    assert refused is not None and refused.startswith("the operator 'aten::linalg_svd' falls back to the CPU")
    assert "the host read device data" in (capture_error(lambda: x.sum().item()) or "")
    monkeypatch.delattr(torch.mps, "graph_capture")
    assert capture_error(lambda: x + 1) == measure_module.UNKNOWN


def test_fallbacks_are_seen_each_time_and_other_warnings_pass() -> None:
    x = torch.randn(4, 4, device="mps")

    def call() -> int:
        torch.linalg.svd(x)
        warnings.warn("something else", stacklevel=1)
        torch.linalg.svd(x)
        return 7

    with pytest.warns(UserWarning, match="something else"):
        assert with_fallbacks(call) == (7, ["aten::linalg_svd", "aten::linalg_svd"])
    assert not torch.is_warn_always_enabled()
    with pytest.raises(ZeroDivisionError):
        with_fallbacks(lambda: 1 / 0)
    assert not torch.is_warn_always_enabled()


def test_percentage_counts_operators_that_compute_on_the_device() -> None:
    x = torch.randn(4, 4, device="mps")
    square = torch.randn(4, 4)

    def call() -> None:
        torch.linalg.svd(square)
        torch.linalg.svd(x.T.mul(2.0))[1].add(1.0)

    share = fallback_share(call)
    # mul, linalg_svd and add; neither the transposition nor what runs on the CPU anyway.
    assert (share.operators, share.fell_back, dict(share.by_operator)) == (3, 1, {"aten::linalg_svd": 1})
    assert share.percentage == pytest.approx(100 / 3)
    assert fallback_share(lambda: x + 1).percentage == 0.0
    assert fallback_share(lambda: square + 1).operators == 0


def test_percentage_of_a_backward_pass_with_arguments_and_times() -> None:
    image = torch.randn(1, 2, 8, 8, device="mps", requires_grad=True)

    def train(factor: float, kernel: int) -> None:
        torch.autograd.backward(torch.nn.functional.unfold(image, kernel).sum() * factor)

    share = fallback_share(train, 2.0, kernel=3, timed=True)
    assert dict(share.by_operator) == {"aten::col2im": 1}
    assert 0 < share.percentage < 100 and 0 < share.time_percentage < 100
    assert image.grad is not None


def test_percentage_where_nothing_may_fall_back() -> None:
    if os.environ.get("PYTORCH_ENABLE_MPS_FALLBACK", "0") != "0":
        pytest.skip("this run may fall back")
    x = torch.randn(4, 4, device="mps")
    with pytest.raises(NotImplementedError, match=r"aten::linalg_qr\.out"):
        fallback_share(lambda: torch.linalg.qr(x))


def program(*words: str) -> subprocess.CompletedProcess[str]:
    run = str(ROOT / "scripts" / "fallback_bench" / "run.py")
    return subprocess.run([sys.executable, run, *words], capture_output=True, text=True, check=False)


def test_percentage_command(tmp_path: Path) -> None:
    done = program("percentage", "--timed", "fallback_bench.example:gaussian_process")
    assert done.returncode == 0, done.stderr
    first, count, share, operator = done.stdout.splitlines()
    assert first == this_device().heading
    assert count.startswith("1 of ") and " operators fell back: " in count and share.endswith(" % of the time")
    assert operator == "  aten::linalg_cholesky_ex.L: 1"
    own = tmp_path / "own.py"
    own.write_text("import torch\ndef step():\n    torch.ones(3, device='mps').add_(1)\n")
    assert "0 of 2 operators fell back: 0.0 %" in program("percentage", f"{own}:step").stdout


def test_what_is_no_function(tmp_path: Path) -> None:
    own = tmp_path / "own.py"
    own.write_text("value = 3\n")
    for words, sentence in {
        "nothing": "is no MODULE:FUNCTION",
        "no_such_module:f": "can't be imported",
        f"{tmp_path}/none.py:f": "No such file",
        f"{own}:other": "has no function other",
        f"{own}:value": "has no function value",
    }.items():
        with pytest.raises(ForkToolError, match=sentence):
            _function(words)
    failed = program("percentage", "nothing")
    assert failed.returncode == 1
    assert failed.stderr.startswith("error: 'nothing' is no MODULE:FUNCTION") and failed.stderr.count("\n") == 1


def test_bench_command(tmp_path: Path) -> None:
    out = tmp_path / "out"
    names = [word for name in ("linalg_qr.out", "aten::col2im", "isin") for word in ("--operator", name)]
    done = program("bench", *names, "--quick", "--seconds", "0", "--out", str(out))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == this_device().heading
    written = "linalg_qr.csv col2im.csv isin.csv report.md"
    assert {path.name for path in out.iterdir()} == set(written.split())
    with (out / "linalg_qr.csv").open(encoding="utf-8", newline="") as stream:
        (row,) = csv.DictReader(stream)
    assert (row["verdict"], row["fell_back"], row["stops_capture"]) == ("falls back", "aten::linalg_qr.out", "yes")
    assert float(row["penalty"]) == pytest.approx(float(row["mps_ms"]) / float(row["cpu_ms"]), rel=1e-3)
    assert row["where"] == this_device().name
    report = (out / "report.md").read_text("utf-8")
    assert "native here now: `aten::isin`." in report
    assert this_device().heading in report


def test_bench_command_refuses(tmp_path: Path) -> None:
    unknown = program("bench", "--operator", "sin", "--out", str(tmp_path / "out"))
    assert "aten::sin is not in the list of targets" in unknown.stderr
    nothing = program("bench", "--operator", "linalg_qr", "--dtype", "int64", "--out", str(tmp_path / "out"))
    assert "There is nothing to measure" in nothing.stderr
    assert unknown.returncode == nothing.returncode == 1
    assert not (tmp_path / "out").exists()
