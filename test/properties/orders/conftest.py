"""Runs the tests of random programs on the simulator, or on a Mac as they are."""

import pytest

from mps_simulator import pytest_support


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Brings the device before torch is imported."""
    # torch logs each trace, which a failure would show
    config.option.showcapture = "no"
    pytest_support.pytest_configure()
