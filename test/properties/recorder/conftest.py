"""Runs the capture tests on the simulator, or on a Mac as they are."""

import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

from mps_simulator import pytest_support

_common = settings(deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fast", _common, derandomize=True, database=None, max_examples=60)
# For `make mutants`, which asks whether a test fails, not for the smallest example.
_fast = settings.get_profile("fast")
settings.register_profile("unshrunk", _fast, phases=(Phase.explicit, Phase.generate))
settings.register_profile("long", _common, max_examples=int(os.environ.get("HYPOTHESIS_EXAMPLES", "3000")))
# Who asks for a number of random programs wants new ones.
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "long" if "CAPTURE_PROGRAMS" in os.environ else "fast")


@pytest.hookimpl(tryfirst=True)
def pytest_configure() -> None:
    """Brings the device before torch is imported."""
    pytest_support.pytest_configure()
    settings.load_profile(PROFILE)


@pytest.fixture(scope="session")
def world() -> Any:
    """Makes encoder calls, on buffers that all examples share."""
    from encoder_driver import driver

    return driver()


@pytest.fixture
def indirect(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of kernels become indirect command buffers in the captures that follow."""
    monkeypatch.setenv("PYTORCH_MPS_GRAPH_INDIRECT_COMMANDS", "1")


@pytest.fixture(autouse=True)
def _replays_autorelease_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever replays has no autorelease pool, as Python's threads have none: a replay needs one of its own."""
    if sys.platform == "darwin":
        return
    from torch import mps

    import mps_simulator

    replay = mps.MPSGraph.replay

    def watched(graph: object) -> None:
        mps_simulator.reset_autorelease_leaks()
        replay(graph)
        assert mps_simulator.autorelease_leaks() == {}

    monkeypatch.setattr(mps.MPSGraph, "replay", watched)


@pytest.fixture(autouse=True)
def _no_capture_left() -> Iterator[None]:
    from torch import mps

    yield
    assert not mps.is_current_stream_capturing()
