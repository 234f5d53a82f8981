"""How a run is divided: programs have the same numbers whatever the number of processes."""

from __future__ import annotations

# Programs that are drawn from one seed.
BATCH = 50


def seed_of(seed: int, batch: int) -> int:
    """The seed of a batch."""
    return seed * 1_000_003 + batch
