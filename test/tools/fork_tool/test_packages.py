"""Imports between the fork tool's packages go in one direction: the order that scripts/README.md gives."""

from __future__ import annotations

import ast
import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from fork_tool.paths import own_layout

SCRIPTS = own_layout().root / "scripts"
ROW = re.compile(r"^\| \d+ \| ((?:`\w+/?`(?:, )?)+) \|", re.M)


def order(page: str) -> dict[str, int]:
    """Of each package, and of each module at the top, the number of its row."""
    rows = enumerate(ROW.findall(page))
    return {name: number for number, names in rows for name in re.findall(r"`(\w+)/?`", names)}


def modules(scripts: Path) -> dict[str, Path]:
    """The tool's modules by their full names."""
    paths = sorted((scripts / "fork_tool").rglob("*.py"))
    return {".".join(path.relative_to(scripts).with_suffix("").parts).removesuffix(".__init__"): path for path in paths}


def imports(scripts: Path) -> dict[str, set[str]]:
    """What each module imports of the tool, wherever in the file."""
    known = modules(scripts)
    found: dict[str, set[str]] = {}
    for name, path in known.items():
        found[name] = set()
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            wanted = []
            if isinstance(node, ast.Import):
                wanted = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                assert not node.level, f"{name}: write whole names"
                inner = [f"{node.module}.{alias.name}" for alias in node.names]
                wanted = [one if one in known else str(node.module) for one in inner]
            found[name] |= {one for one in wanted if one.split(".")[0] == "fork_tool"}
    return found


def faults(scripts: Path, places: dict[str, int]) -> list[str]:
    """Imports against the order, packages that the order lacks, and circles of modules."""

    def part(name: str) -> str:
        return name.split(".")[1] if "." in name else ""

    needs = imports(scripts)
    parts = {part(name) for name in needs} - {""}
    said = [f"{name} is not in the order" for name in sorted(parts - set(places))]
    said += [f"{name} is in the order and not there" for name in sorted(set(places) - parts)]
    for name, wanted in needs.items():
        for other in sorted(wanted):
            mine, its = part(name), part(other)
            if mine != its and places.get(its, -1) >= places.get(mine, len(places)):
                said.append(f"{name} imports {other}")
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as circle:
        said.append(f"a circle: {' '.join(circle.args[1])}")
    return said


PLACES = order((SCRIPTS / "README.md").read_text("utf-8"))


def test_imports_go_in_one_direction() -> None:
    assert len(PLACES) > 10
    assert faults(SCRIPTS, PLACES) == []


@pytest.mark.parametrize(
    ("path", "line", "fault"),
    [
        ("base/pin.py", "from fork_tool.series.project import Project", "base.pin imports fork_tool.series.project"),
        ("base/pin.py", "from fork_tool.series import project", "base.pin imports fork_tool.series.project"),
        ("series/entries.py", "from fork_tool.series.stack import Stack", "a circle: "),
        ("paths.py", "from fork_tool.common.errors import ForkToolError", "paths imports fork_tool.common.errors"),
        ("planted.py", "", "planted is not in the order"),
    ],
)
def test_planted_imports_are_found(tmp_path: Path, path: str, line: str, fault: str) -> None:
    for known in modules(SCRIPTS).values():
        copy = tmp_path / known.relative_to(SCRIPTS)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(known.read_bytes())
    planted = tmp_path / "fork_tool" / path
    planted.parent.mkdir(exist_ok=True)
    planted.write_text((planted.read_text() if planted.exists() else "") + f"\n{line}\n")
    assert any(fault in said for said in faults(tmp_path, PLACES))
