"""How times are taken and calls are sorted."""

import itertools
import time
from types import SimpleNamespace

import pytest
from benchmark import protocol
from benchmark.devices import by_kind
from benchmark.protocol import measure, Timed, trimmed_mean


def test_trimmed_mean() -> None:
    # ten values: the lowest and the highest are left out, (2 + 3 + 4 + 5 + 6 + 7 + 8 + 21) / 8
    assert trimmed_mean([100, 3, 2, 4, 5, 6, 7, 8, 21, -50]) == 7
    # of three nothing is left out
    assert trimmed_mean([1, 2, 6]) == 3
    with pytest.raises(ValueError, match="no mean of no values"):
        trimmed_mean([])


def test_modes_take_turns() -> None:
    ran: list[str] = []

    def timed(name: str, longest: int) -> Timed:
        return Timed(lambda: time.sleep(0.02), lambda: ran.append(name), longest)

    times = measure({"a": timed("a", 100), "b": timed("b", 1)}, lambda: None, trials=3, warm_ups=2)
    # warm-ups and a first look at each, then the trials
    assert ran == ["a", "a", "b", "b", *("a", "b") * 3]
    assert all(one.wall >= 0.02 > one.cpu for one in times.values())


@pytest.fixture
def short_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passes take so little that a trial wants more of them, whatever else the machine does."""
    clock = itertools.count(step=1e-6).__next__
    monkeypatch.setattr(protocol, "time", SimpleNamespace(perf_counter=clock, thread_time=clock))


def test_no_more_passes_follow_a_start_than_may(short_passes: None) -> None:
    passes = [0]

    def start() -> None:
        assert passes[-1] <= 7
        passes.append(0)

    def run() -> None:
        passes[-1] += 1

    measure({"a": Timed(run, start, 7)}, lambda: None)
    assert max(passes) == 7


def test_calls_by_kind() -> None:
    counts = {
        "-[MTLComputeCommandEncoder setBytes:length:atIndex:]": 2,
        "-[MTLComputeCommandEncoder setBuffer:offset:atIndex:]": 3,
        "-[MTLComputeCommandEncoder setBufferOffset:atIndex:]": 4,
        "-[MTLComputeCommandEncoder dispatchThreads:threadsPerThreadgroup:]": 5,
        "-[MPSGraphExecutable encodeToCommandBuffer:inputsArray:resultsArray:executionDescriptor:]": 6,
        "-[MPSGraph encodeToCommandBuffer:feeds:targetOperations:resultsDictionary:executionDescriptor:]": 7,
        "-[MPSCommandBuffer blitCommandEncoder]": 8,
        "-[MTLCommandEncoder endEncoding]": 9,
        "-[MTLCommandBuffer commit]": 10,
        "-[MTLDevice currentAllocatedSize]": 11,
    }
    assert by_kind(counts) == {
        "set bytes": 2,
        "set buffer": 7,
        "dispatches": 5,
        "graph runs": 13,
        "encoders opened": 8,
        "encoders ended": 9,
        "commits": 10,
        "other": 11,
        "encoder calls": 36,
        "total": 65,
    }


def test_each_pass_begins_on_an_idle_device_unless_they_run_together(short_passes: None) -> None:
    def sequence(together: bool) -> str:
        seen: list[str] = []
        timed = Timed(lambda: seen.append("p"), lambda: seen.append("s"), 2)
        measure({"a": timed}, lambda: seen.append("w"), trials=1, warm_ups=1, together=together)
        return "".join(seen)

    # the warm-up, a first look, and a trial of two passes
    assert sequence(together=True) == "spw" + "swpw" + "swppw"
    assert sequence(together=False) == "spw" + "swpw" + "swpwwpw"
