"""A plugin of pytest (`-p mps_simulator.frozen_objects`) that makes each collection of garbage in the tests cheaper."""

from __future__ import annotations

import gc


def pytest_collection_finish() -> None:
    """Take the objects of torch and of the collected tests, which are many and stay, out of later collections."""
    gc.collect()
    gc.freeze()
