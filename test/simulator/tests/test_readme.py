"""The README's example of an operation is the code that runs."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

SIMULATOR = Path(__file__).resolve().parents[1]


def unindented(text: str) -> str:
    return "\n".join(line.strip() for line in text.splitlines() if line.strip())


def test_worked_example_is_real() -> None:
    readme = (SIMULATOR / "README.md").read_text()
    section = readme.split("## Adding an operation")[1].split("\n## ")[0]
    steps = re.findall(r"`((?:graph|tests)/\w+\.mm)`[^`]*```objc\+\+\n(.*?)```", section, re.DOTALL)
    assert [name for name, _ in steps] == ["graph/shape.mm", "tests/graph_core_cases.mm"]
    for name, code in steps:
        assert unindented(textwrap.dedent(code)) in unindented((SIMULATOR / name).read_text()), name


def test_files_that_it_names_exist() -> None:
    readme = (SIMULATOR / "README.md").read_text()
    names = set(re.findall(r"`((?:graph|tests|glue|metal|shader|include|cmake|performance_shaders)/[\w/.]*)`", readme))
    assert len(names) > 10
    for name in names:
        assert (SIMULATOR / name).exists(), name
