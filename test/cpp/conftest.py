"""The option by which some of the programs are chosen."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds it."""
    parser.addoption("--program", default="", metavar="NAMES", help="only these programs, like mps_test_print")
