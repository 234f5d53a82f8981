"""Brings the layered build up to date before the tests of the suite that need it."""

import layered_build
import pytest


@pytest.fixture(scope="session")
def layered() -> None:
    """The build, made or brought up to date; seconds if nothing has changed, minutes from nothing."""
    layered_build.build()
