"""Reads the table of suites, which lies next to what it runs."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass

from fork_tool.common.errors import ForkToolError
from fork_tool.paths import Layout
from fork_tool.suites.suite import Suite


@dataclass(frozen=True)
class SuiteTable:
    """What test/suites.py says."""

    # Those of `make test`, in order.
    suites: tuple[Suite, ...]
    # The names of those of `make test QUICK=1`.
    quick: tuple[str, ...]
    # Those of `test-sanitized`, by the sanitizer.
    sanitized: dict[str, tuple[Suite, ...]]


def load_suites(layout: Layout) -> SuiteTable:
    """The suites of a working copy. Raises ForkToolError if the table is missing or is no such table."""
    shown = layout.shown(layout.suites)
    if not layout.suites.is_file():
        raise ForkToolError(f"{shown} is missing: bring it back with `git checkout -- {shown}`.")
    spec = importlib.util.spec_from_file_location("suites_of_this_working_copy", layout.suites)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        return SuiteTable(tuple(module.SUITES), tuple(module.QUICK), dict(module.SANITIZED))
    except Exception as problem:
        raise ForkToolError(f"{shown} can't be read ({type(problem).__name__}: {problem}): correct it.") from problem
