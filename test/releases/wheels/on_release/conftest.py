"""Tests that the environment of a newer release runs, on its own torch with the stand-in device."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "stand_in"))

import stand_in

torch, _calls = stand_in.load(Path(os.environ["MPSFORK_STAND_IN"]), adapter="MPSFORK_NO_ADAPTER" not in os.environ)


@pytest.fixture
def calls() -> Any:
    """Takes the calls of the engine since the last time."""
    _calls()
    return _calls
