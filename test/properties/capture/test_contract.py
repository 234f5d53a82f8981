"""Every promise of the contract is named by the docstring of at least one test."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = (ROOT / "aten_mps_overlay" / "test", ROOT / "test")
NUMBERS = re.compile(r"((?:\d+, )*\d+)(?::|$)")
PROMISES = range(1, 45)


def named_promises() -> dict[int, list[str]]:
    """The tests by the promises with whose numbers their docstrings begin."""
    tests: dict[int, list[str]] = {number: [] for number in PROMISES}
    for path in (path for folder in FOLDERS for path in folder.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                begin = NUMBERS.match(ast.get_docstring(node) or "")
                for number in begin.group(1).split(", ") if begin else ():
                    tests[int(number)].append(f"{path.name}::{node.name}")
    return tests


def test_every_promise_has_a_test() -> None:
    assert [number for number, tests in named_promises().items() if not tests] == []


def test_page_has_every_promise_with_a_test_of_it() -> None:
    tests = named_promises()
    rows = re.findall(r"^\| (\d+) \|.*\| `([\w.]+::\w+)` \|$", (ROOT / "docs/internals.md").read_text(), re.M)
    assert [int(number) for number, _ in rows] == list(PROMISES)
    assert [(number, test) for number, test in rows if test not in tests[int(number)]] == []
