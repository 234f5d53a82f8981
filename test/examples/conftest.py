"""Runs the examples on the simulator, or on a Mac as they are."""

from mps_simulator.pytest_support import pytest_configure  # noqa: F401
