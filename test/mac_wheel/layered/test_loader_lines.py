"""The lines by which torch/__init__.py calls the loader."""

from __future__ import annotations

import ast

import layered_build
import pytest

from fork_tool.common.errors import ForkToolError
from fork_tool.mac_library.python_files import with_loader


def test_lines_go_around_each_import() -> None:
    text = (layered_build.CHECKOUT / "torch/__init__.py").read_text("utf-8")
    changed = with_loader(text).splitlines()
    ast.parse("\n".join(changed))
    imports = [index for index, line in enumerate(changed) if line.lstrip().startswith("from torch._C import *")]
    assert len(imports) == 2
    for index in imports:
        assert (
            changed[index - 1].lstrip().startswith("from torch import _mps_graph_loader; _mps_graph_loader.take_over()")
        )
        assert changed[index + 1].strip() == "_mps_graph_loader.bind()"
    kept = [line for line in changed if "_mps_graph_loader" not in line]
    assert kept == text.splitlines()
    # The libraries that torch's own depend on are loaded by then.
    assert changed[imports[1] - 2].strip() == "_load_global_deps()"


@pytest.mark.parametrize("text", ["import os\n", "from torch import _mps_graph_loader\n"])
def test_other_files_are_refused(text: str) -> None:
    with pytest.raises(ForkToolError):
        with_loader(text)
