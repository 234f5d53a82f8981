"""Gives PyTorch the MPS device on a machine without Apple hardware.

Either run a program under it::

    python -m mps_simulator script.py arguments…

or, before torch is imported::

    import mps_simulator

    mps_simulator.install()
    import torch

or set ``MPS_SIMULATOR=1`` in the environment, which every Python process of the
virtual environment heeds: subprocesses and pytest workers too.

The other functions control the simulated device and count what reaches it.
"""

from __future__ import annotations

from mps_simulator._build import SimulatorError
from mps_simulator._control import (
    autorelease_leaks,
    autorelease_pool,
    counters,
    forget_raised_errors,
    handler_wakes,
    live_objects,
    macos_version,
    null_mode,
    raised_errors,
    reset_autorelease_leaks,
    reset_counters,
    reset_signposts,
    set_delay,
    signposts,
    validation,
)
from mps_simulator._install import install, is_installed

__all__ = [
    "SimulatorError",
    "autorelease_leaks",
    "autorelease_pool",
    "counters",
    "forget_raised_errors",
    "handler_wakes",
    "install",
    "is_installed",
    "live_objects",
    "macos_version",
    "null_mode",
    "raised_errors",
    "reset_autorelease_leaks",
    "reset_counters",
    "reset_signposts",
    "set_delay",
    "signposts",
    "validation",
]
