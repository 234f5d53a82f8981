"""Runs the tests of random programs on the simulator, or on a Mac as they are."""

import os
import random

import pytest

from mps_simulator import pytest_support

# Whoever runs the programs in several processes has one seed for all.
os.environ.setdefault("STATE_SEED", str(random.SystemRandom().randrange(1 << 31)))
# Inductor starts no processes, which nothing here uses.
os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Brings the device before torch is imported."""
    # torch logs each trace, which a failure would show
    config.option.showcapture = "no"
    pytest_support.pytest_configure()


def pytest_report_header() -> str:
    """Says what it takes to draw the same programs again."""
    return f"orders: STATE_SEED={os.environ['STATE_SEED']}"
