"""Random programs do through entry points what they do eagerly: see README.md for how to draw more of them."""

import os

import pytest
from search import BATCH, FAMILIES, Hung, run_batch

PROGRAMS = int(os.environ.get("STATE_PROGRAMS", "300"))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("batch", range(-(-PROGRAMS // BATCH)))
def test_programs(batch: int) -> None:
    try:
        outcomes = run_batch(int(os.environ["STATE_SEED"]), batch, FAMILIES[os.environ.get("STATE_FAMILY", "both")])
    except Hung as hung:
        # the threads still hold what other programs would need
        pytest.exit(f"batch {batch}, {hung}", returncode=1)
    assert sum(outcomes.values()) == BATCH and outcomes["equal"]
