"""The table of suites in test/suites.py, as the tool reads it."""

from __future__ import annotations

import pytest

from fork_tool.paths import own_layout
from fork_tool.suites.sanitized import KINDS
from fork_tool.suites.table import load_suites
from workshop import Workshop


def test_table_of_this_repository() -> None:
    table = load_suites(own_layout())
    names = [suite.name for suite in table.suites]
    assert len(names) > 20 and len(set(names)) == len(names)
    assert set(table.sanitized) == set(KINDS)
    assert {suite.sanitizer for kind in table.sanitized.values() for suite in kind} == set(KINDS)


def test_each_file_of_the_overlay_is_run() -> None:
    layout = own_layout()
    [cases] = [suite for suite in load_suites(layout).suites if suite.name == "capture cases"]
    files = {path.name for path in (layout.overlay / "test").glob("test_*.py")}
    assert files - set(cases.words) == set()


def test_table_of_the_working_copy_is_taken(workshop: Workshop) -> None:
    workshop.layout.suites.write_text(
        "from fork_tool.suites.suite import Suite\n"
        "SUITES = (Suite('own', ('-c', 'pass'), 'base.toml'),)\n"
        "SANITIZED = {}\n"
    )
    assert [suite.name for suite in load_suites(workshop.layout).suites] == ["own"]
    assert "There is no suite 'fork tool': the suites are own." in workshop.error("test", "--suite", "fork tool")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (None, "test/suites.py is missing: bring it back with `git checkout -- test/suites.py`."),
        ("SUITES = (", "test/suites.py can't be read (SyntaxError: "),
        ("SUITES = ()\n", "test/suites.py can't be read (AttributeError: "),
        ("import nothing_of_the_kind\n", "test/suites.py can't be read (ModuleNotFoundError: "),
    ],
)
def test_a_table_that_cannot_be_read_is_told(workshop: Workshop, text: str | None, problem: str) -> None:
    if text is None:
        workshop.layout.suites.unlink()
    else:
        workshop.layout.suites.write_text(text)
    for command in ("test", "test-sanitized"):
        assert workshop.error(command).startswith(problem)
