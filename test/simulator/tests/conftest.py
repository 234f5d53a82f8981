"""Runs the simulator's own tests on the simulated device."""

from mps_simulator.pytest_support import pytest_configure  # noqa: F401
