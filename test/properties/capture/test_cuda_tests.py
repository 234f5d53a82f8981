"""docs/results/cuda_graph_tests.md lists every test of CUDA's graphs, with cases that exist (the yardstick of all promises)."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
CUDA = ROOT / "build" / "pytorch" / "test" / "test_cuda.py"
OURS = ROOT / "aten_mps_overlay" / "test"
PAGE = ROOT / "docs" / "results" / "cuda_graph_tests.md"
# All of their tests are about the pools of graphs.
POOL_CLASSES = {"TestBlockStateAbsorption", "TestMemPool"}
CASE = re.compile(r"`(test_\w+\.py)::(\w+)::(test_\w+)`")


def cases_of(path: Path) -> set[tuple[str, str]]:
    """The tests of a file, each with its class."""
    return {
        (node.name, item.name)
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef)
        for item in node.body
        if isinstance(item, ast.FunctionDef) and item.name.startswith("test")
    }


def rows() -> list[tuple[str, str, str]]:
    """The class, the test and the second column of each row."""
    found = []
    current = ""
    for line in PAGE.read_text().splitlines():
        if heading := re.fullmatch(r"## `(\w+)`", line):
            current = heading[1]
        elif row := re.fullmatch(r"\| `(\w+)` \| (.+) \|", line):
            found.append((current, row[1], row[2]))
    return found


def test_each_test_of_cuda_is_listed_once() -> None:
    of_cuda = cases_of(CUDA)
    about_graphs = {(c, t) for c, t in of_cuda if "graph" in t or c in POOL_CLASSES}
    assert len(about_graphs) > 30
    listed = [(c, t) for c, t, _ in rows()]
    assert sorted(listed) == sorted(about_graphs)


def test_each_case_of_ours_exists() -> None:
    named = {match for _, _, ours in rows() for match in CASE.findall(ours)}
    files = {file for file, _, _ in named}
    assert len(files) > 4
    missing = {f"{f}::{c}::{t}" for f, c, t in named if (c, t) not in cases_of(OURS / f)}
    assert not missing


def test_each_row_names_a_case_or_a_reason() -> None:
    for _, test, ours in rows():
        assert CASE.search(ours) or ours.startswith("none: "), test
        # what looks like a case is one
        assert ours.count("::") == 2 * len(CASE.findall(ours)), test
