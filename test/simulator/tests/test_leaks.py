"""Nothing may pile up, and the soak program notices what does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.mark.parametrize(
    ("kept", "complaint"),
    [
        ("mix.square * 2", "the allocator's bytes grew"),
        ('((mix.square * 2).cpu(), b"x" * (1 << 20))', "resident memory grew"),
        # A leak of PyTorch's that is known, in a family that is not known for it.
        ("[mix.square[:, ::2].sum(0) for _ in range(9)] is None", "NSArray grew by"),
    ],
)
def test_what_piles_up_is_noticed(kept: str, complaint: str) -> None:
    done = run("-c", LEAKY.format(kept=kept))
    assert done.returncode == 1, done.stdout + done.stderr
    assert complaint in done.stderr
