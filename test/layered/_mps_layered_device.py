"""Stands for the backend that the official libtorch_cpu for macOS has in it."""

from __future__ import annotations

from mps_simulator import _control
from mps_simulator._build import read_build


def load() -> None:
    """Loads the backend of the base, and counts from now on which of its functions run."""
    _control.load(read_build().library)
    _control.forget_functions_run()
