"""Nothing may pile up: objects, GPU memory or the process itself; the soak program notices what does."""

from __future__ import annotations

import gc
import resource
import subprocess
import sys
from pathlib import Path

import torch
import torch.nn.functional as F

import mps_simulator

SIMULATOR = Path(__file__).resolve().parents[1]
ITERATIONS = 1000
# Caches of the backend and of malloc fill up during the first iterations.
WARM_UP = 100


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def one_iteration(model: torch.nn.Module, x: torch.Tensor) -> float:
    """Graphs, Metal kernels, blits, matrix kernels, autograd and a read-back.

    No view without a stride of one: for these PyTorch 2.6.0 itself leaks the two
    arrays that getStridedMPSNDArray copies.
    """
    y = model(x)
    loss = F.cross_entropy(y, torch.zeros(x.size(0), dtype=torch.long, device="mps"))
    loss.backward()  # type: ignore[no-untyped-call]
    for parameter in model.parameters():
        assert parameter.grad is not None
        parameter.data.add_(parameter.grad, alpha=-0.01)
        parameter.grad = None
    copy = x.clone().t().contiguous()
    copy[1:3] = 2.0
    picked = copy[:, torch.tensor([0, 1], device="mps")]
    total = torch.cat([picked.sum(0), torch.mm(x, copy).softmax(0).flatten()]).sum()
    return (total + loss.detach()).item()


def settle() -> None:
    torch.mps.synchronize()
    gc.collect()
    torch.mps.empty_cache()


def test_thousand_iterations_leave_nothing_behind() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 4)).to("mps")
    x = torch.randn(8, 16).to("mps")
    # The backend autoreleases without a pool of its own: see autorelease_pool.
    for _ in range(WARM_UP):
        with mps_simulator.autorelease_pool():
            one_iteration(model, x)
    settle()
    objects = mps_simulator.live_objects()
    allocated = torch.mps.current_allocated_memory()
    resident = resident_bytes()

    for _ in range(ITERATIONS):
        with mps_simulator.autorelease_pool():
            one_iteration(model, x)
    settle()

    grown = {
        name: (objects.get(name, 0), count)
        for name, count in mps_simulator.live_objects().items()
        # A few for what happens to be in flight; a leak would be hundreds.
        if count > objects.get(name, 0) + 20
    }
    assert grown == {}
    assert torch.mps.current_allocated_memory() == allocated
    assert resident_bytes() - resident < 16 << 20


def test_a_freed_tensor_gives_its_buffer_back() -> None:
    settle()
    before = torch.mps.current_allocated_memory(), torch.mps.driver_allocated_memory()
    x = torch.ones(64 << 20, dtype=torch.uint8, device="mps")
    torch.mps.synchronize()
    assert torch.mps.current_allocated_memory() >= before[0] + x.nbytes
    del x
    settle()
    after = torch.mps.current_allocated_memory(), torch.mps.driver_allocated_memory()
    assert after <= before


# A family of the mix that keeps something each time.
LEAKY = """
import soak, sys
kept = []
def elementwise(mix):
    kept.append({kept})
soak.Mix.elementwise = elementwise
sys.argv[1:] = ["--ops", "1500"]
sys.exit(soak.main())
"""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mps_simulator", *arguments],
        cwd=SIMULATOR,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_nothing_piles_up() -> None:
    done = run("soak.py", "--ops", "4000")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "known leak of PyTorch in strided_views" in done.stdout
    assert "nothing piles up" in done.stdout


def test_a_kept_tensor_is_noticed() -> None:
    done = run("-c", LEAKY.format(kept="mix.square * 2"))
    assert done.returncode == 1, done.stdout + done.stderr
    assert "the allocator's bytes grew" in done.stderr


def test_kept_memory_is_noticed() -> None:
    done = run("-c", LEAKY.format(kept='((mix.square * 2).cpu(), b"x" * (1 << 20))'))
    assert done.returncode == 1, done.stdout + done.stderr
    assert "resident memory grew" in done.stderr


def test_an_object_that_is_not_released_is_noticed() -> None:
    # A leak of PyTorch's that is known, in a family that is not known for it.
    done = run("-c", LEAKY.format(kept="[mix.square[:, ::2].sum(0) for _ in range(9)] is None"))
    assert done.returncode == 1, done.stdout + done.stderr
    assert "NSArray grew by" in done.stderr
