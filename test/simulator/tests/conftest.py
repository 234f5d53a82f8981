"""Runs the simulator's own tests on the simulated device."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import mps_simulator  # noqa: E402
from mps_simulator.pytest_support import install_or_exit  # noqa: E402


def pytest_configure() -> None:
    """Installs the device before any test module imports torch."""
    install_or_exit()


@pytest.fixture(autouse=True)
def default_settings() -> Iterator[None]:
    """Leaves no test with the null mode, delay or validation of the one before."""
    yield
    if "torch" in sys.modules:
        mps_simulator.set_null_mode(False)
        mps_simulator.set_validation(True)
        mps_simulator.set_delay(0)
