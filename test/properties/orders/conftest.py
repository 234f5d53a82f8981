"""Runs the tests of random programs on the simulator, or on a Mac as they are."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

# As this folder's other tests have it, the modules beside them are imported by name.
HERE = Path(__file__).resolve().parent


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Brings the device before torch is imported."""
    # torch logs each trace, which a failure would show
    config.option.showcapture = "no"
    if sys.platform != "darwin":
        sys.path.insert(0, str(HERE.parents[1] / "simulator"))
        from mps_simulator.pytest_support import install_or_exit

        install_or_exit()
