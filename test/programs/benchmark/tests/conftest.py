"""Runs the benchmark's tests on the simulator, or on a Mac as they are."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_configure() -> None:
    """Brings the device before torch is imported."""
    if sys.platform != "darwin":
        sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "simulator"))
        from mps_simulator.pytest_support import install_or_exit

        install_or_exit()
