"""The device in a pytest run."""

from __future__ import annotations

import sys

import pytest

from mps_simulator._build import read_build, SimulatorError
from mps_simulator._install import install


def install_or_exit() -> None:
    """Installs the device before any test module imports torch; stops pytest with the reason where it can't."""
    try:
        read_build()
        install()
    except SimulatorError as error:
        pytest.exit(str(error), returncode=2)


@pytest.hookimpl(tryfirst=True)
def pytest_configure() -> None:
    """Brings the device; a conftest.py that imports this runs its tests on the simulator, or on a Mac as they are."""
    if sys.platform != "darwin":
        install_or_exit()
