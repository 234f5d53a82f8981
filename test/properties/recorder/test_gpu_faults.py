"""A fault of the GPU in a replay, and the device in a child of fork(): what the simulator can show and a Mac can't be relied
upon to (there a write out of bounds may do nothing, and a child may die)."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from replays import captured

pytestmark = pytest.mark.skipif(sys.platform == "darwin", reason="no Mac tells of a write out of bounds")

SIZE = 1 << 12
FAR = 1 << 18
KERNELS = """
kernel void put(device float* out, constant int* place, constant float* value,
                uint i [[thread_position_in_grid]]) {
  out[place[i]] = value[i];
}
"""


class World:
    """A kernel that writes where a tensor says."""

    def __init__(self) -> None:
        self.library = torch.mps._compile_shader(KERNELS)
        self.out = torch.zeros(SIZE, device="mps")
        self.place = torch.zeros(1, dtype=torch.int32, device="mps")
        self.value = torch.ones(1, device="mps")

    def put(self) -> torch.Tensor:
        self.library.put(self.out, self.place, self.value, threads=1)
        return self.out * 2

    def aim(self, place: int, value: float) -> None:
        self.place.fill_(place)
        self.value.fill_(value)


def errors_until_quiet(wait: Callable[[], object]) -> list[str]:
    """Synchronizes until nothing raises: a fault is told once, or once by each of those who look, of each command buffer."""
    errors = []
    for _ in range(8):
        try:
            wait()
        except RuntimeError as error:
            errors.append(str(error))
        else:
            return errors
    raise AssertionError(errors)


@pytest.fixture
def made() -> World:
    return World()


def wait_for(event: torch.mps.event.Event | torch.Event) -> None:
    event.record()
    event.synchronize()


WAITS: dict[str, Callable[[World], object]] = {
    "synchronize": lambda _made: torch.mps.synchronize(),
    "accelerator": lambda _made: torch.accelerator.synchronize(),
    "mps event": lambda _made: wait_for(torch.mps.event.Event()),
    "event": lambda _made: wait_for(torch.Event("mps")),
    "item": lambda made: made.out[0].item(),
    "cpu": lambda made: made.out.cpu(),
}


REPLAYS_ERROR = "torch.mps graph replay: the GPU reported an error"


@pytest.mark.parametrize("how", ["synchronize", "item", "cpu"])
def test_eager_fault_raises_at_the_next_synchronization(made: World, how: str) -> None:
    """21: what a replay is measured by."""
    made.aim(FAR, 3.0)
    made.put()
    errors = errors_until_quiet(lambda: WAITS[how](made))
    assert len(errors) == 1
    assert "kernel 'put' wrote beyond the end of the buffer" in errors[0]
    made.aim(1, 4.0)
    made.put()
    assert made.out[:2].tolist() == [0.0, 4.0]


@pytest.mark.parametrize("how", WAITS)
@pytest.mark.parametrize("replays", [1, 3])
def test_fault_in_a_replay(made: World, how: str, replays: int) -> None:
    """21, 37: a RuntimeError at the next synchronization, and the graph is as good as before."""
    made.aim(1, 5.0)
    graph, doubled = captured(made.put)
    made.aim(2, 6.0)
    graph.replay()
    assert doubled[:3].tolist() == [0.0, 10.0, 12.0]

    made.aim(FAR, 7.0)
    for _ in range(replays):
        graph.replay()
    errors = errors_until_quiet(lambda: WAITS[how](made))
    assert sum(REPLAYS_ERROR in error for error in errors) == 1
    assert all("kernel 'put' wrote beyond the end of the buffer" in error for error in errors)
    # the simulator tells those, too, who wait for a command buffer, as events don't
    errors = errors_until_quiet(torch.mps.synchronize)
    assert not any(REPLAYS_ERROR in error for error in errors)

    # A fault ends its command buffer, as in eager, so what is enqueued before the wait may be lost.
    made.aim(3, 8.0)
    graph.replay()
    assert doubled[:4].tolist() == [0.0, 10.0, 12.0, 16.0]
    assert made.out[:4].tolist() == [0.0, 5.0, 6.0, 8.0]
    assert graph.stats()["replays"] == replays + 2


def test_fault_spares_other_graphs(made: World) -> None:
    """21, 22: one that shares the stream replays right after it."""
    x = torch.ones(16, device="mps")
    faulty, _ = captured(made.put)
    sound, y = captured(lambda: x + 1)
    made.aim(FAR, 1.0)
    x.fill_(4)
    faulty.replay()
    assert errors_until_quiet(torch.mps.synchronize)
    sound.replay()
    assert y.tolist() == [5.0] * 16


def test_fault_in_a_capture(made: World) -> None:
    """9, 21: it comes at the next synchronization as well; a capture refuses reads, so that is after the block."""
    made.aim(FAR, 1.0)
    graph, _ = captured(made.put)
    assert errors_until_quiet(torch.mps.synchronize)
    made.aim(4, 9.0)
    graph.replay()
    assert made.out[4].item() == 9.0


def test_fault_of_eager_work_before_a_replay(made: World) -> None:
    """21: where they share a command buffer, the message names both, and the replay is lost, not wrong."""
    x = torch.ones(16, device="mps")
    graph, y = captured(lambda: x + 1)
    for value in range(4):
        x.fill_(value)
        y.zero_()
        torch.mps.synchronize()
        made.aim(FAR, 1.0)
        made.put()
        graph.replay()
        errors = errors_until_quiet(torch.mps.synchronize)
        # The operator that multiplies may have committed the fault by itself.
        of_replay = [error for error in errors if REPLAYS_ERROR in error]
        assert errors and len(of_replay) <= 1
        assert all(REPLAYS_ERROR + " in the replay or in work around it" in error for error in of_replay)
        graph.replay()
        assert y.tolist() == [value + 1.0] * 16


@pytest.mark.parametrize("where", ["before", "after"])
def test_fault_in_any_command_buffer_of_a_replay(made: World, where: str) -> None:
    """21: a kernel object, or an executable, may commit in the middle."""
    from encoder_driver import driver

    commit_and_continue = driver().commit_and_continue
    made.aim(1, 5.0)

    def work() -> torch.Tensor:
        if where == "after":
            commit_and_continue()
        doubled = made.put()
        if where == "before":
            commit_and_continue()
            commit_and_continue()
            doubled = doubled + 1
        return doubled

    graph, doubled = captured(work)
    made.aim(FAR, 1.0)
    graph.replay()
    assert any(REPLAYS_ERROR in error for error in errors_until_quiet(torch.mps.synchronize))
    made.aim(2, 3.0)
    graph.replay()
    torch.mps.synchronize()
    assert doubled[:3].tolist() == ([1.0, 11.0, 7.0] if where == "before" else [0.0, 10.0, 6.0])


FORK = """
import os

import torch

x = torch.ones(4, device="mps")
graph = torch.mps.MPSGraph()
with torch.mps.graph(graph):
    y = x * 2
graph.replay()
torch.mps.synchronize()


def attempt(work):
    try:
        work()
        print("worked", flush=True)
    except RuntimeError as error:
        # what comes before names the call of Metal
        call, known, reason = str(error).partition("the device was used")
        print(known + reason or call, flush=True)


child = os.fork()
if child == 0:
    attempt(lambda: x + 1)
    attempt(graph.replay)
    attempt(lambda: graph.debug_dump("unused"))
    os._exit(7)
assert os.waitpid(child, 0)[1] >> 8 == 7
x.fill_(3)
graph.replay()
assert y.tolist() == [6.0] * 4
"""


def test_child_of_fork() -> None:
    """22: a replay in the child raises what an operator of eager raises there, and the parent goes on."""
    done = subprocess.run(
        [sys.executable, "-c", FORK],
        env={**os.environ, "MPS_SIMULATOR": "1"},
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    eager, replay, dump = done.stdout.splitlines()
    assert "cannot be used in the child" in eager
    assert replay == eager
    assert "enable_debug_mode" in dump
