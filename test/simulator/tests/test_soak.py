"""The soak program, for a short while; and that it notices what piles up."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SIMULATOR = Path(__file__).resolve().parents[1]
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
