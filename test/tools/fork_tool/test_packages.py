"""Imports between the fork tool's packages go in one direction: the order that scripts/README.md gives."""

import re
import shutil
from pathlib import Path

import pytest

from fork_tool.paths import own_layout

SCRIPTS = own_layout().root / "scripts"
ROW = re.compile(r"^\| \d+ \| ((?:`\w+/?`(?:, )?)+) \|", re.M)
IMPORT = re.compile(r"^\s*(?:import fork_tool|from fork_tool)(?:\.| import )(\w+)", re.M)
# Of each package, and of each module at the top, the number of its row.
PLACES = {
    name: number
    for number, names in enumerate(ROW.findall((SCRIPTS / "README.md").read_text("utf-8")))
    for name in re.findall(r"`(\w+)/?`", names)
}


def faults(scripts: Path) -> list[str]:
    """Imports against the order, and packages that it lacks."""
    said = []
    for path in sorted((scripts / "fork_tool").glob("**/*.py")):
        own = path.relative_to(scripts / "fork_tool").parts[0].removesuffix(".py")
        if own not in (*PLACES, "__init__"):
            said.append(f"{own} is not in the order")
        for other in IMPORT.findall(path.read_text("utf-8")):
            if other != own and PLACES.get(other, -1) >= PLACES.get(own, -1):
                said.append(f"{own}/{path.name} imports {other}")
    return said


def test_imports_go_in_one_direction() -> None:
    assert len(PLACES) > 10
    assert faults(SCRIPTS) == []


@pytest.mark.parametrize(
    ("path", "line", "fault"),
    [
        ("base/pin.py", "from fork_tool.series.project import Project", "base/pin.py imports series"),
        ("machine/setup.py", "def late():\n    from fork_tool import suites", "machine/setup.py imports suites"),
        ("paths.py", "from fork_tool.common.errors import ForkToolError", "paths/paths.py imports common"),
        ("planted/__init__.py", "", "planted is not in the order"),
    ],
)
def test_planted_imports_are_found(tmp_path: Path, path: str, line: str, fault: str) -> None:
    shutil.copytree(SCRIPTS / "fork_tool", tmp_path / "fork_tool", ignore=shutil.ignore_patterns("__pycache__"))
    planted = tmp_path / "fork_tool" / path
    planted.parent.mkdir(exist_ok=True)
    with planted.open("a") as stream:
        stream.write(f"\n{line}\n")
    assert faults(tmp_path) == [fault]
