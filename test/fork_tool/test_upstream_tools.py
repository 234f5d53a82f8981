"""The environment of upstream's tools: made once, anew for other versions, and never taken for whole when it is not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from fork_tool import pinned_packages
from fork_tool.errors import ForkToolError
from fork_tool.upstream_tools import install_upstream_tools, REQUIREMENTS
from workshop import Workshop


def test_tools_are_installed_once(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[str] = []
    failing = False

    def run(command: Sequence[str], _directory: Path) -> int:
        commands.append("venv" if "venv" in command else "pip")
        if "venv" in command:
            (Path(command[-1]) / "bin").mkdir(parents=True)
            (Path(command[-1]) / "bin" / "python").touch()
        return 1 if failing and "pip" in command else 0

    monkeypatch.setattr(pinned_packages, "run_shown", run)
    wanted = workshop.root / REQUIREMENTS
    wanted.parent.mkdir(parents=True)
    wanted.write_text("flake8==1\n")
    assert install_upstream_tools(workshop.project)
    assert commands == ["venv", "pip"]
    assert not install_upstream_tools(workshop.project)
    wanted.write_text("flake8==2\n")
    failing = True
    with pytest.raises(ForkToolError, match="could not be installed"):
        install_upstream_tools(workshop.project)
    failing = False
    commands.clear()
    assert install_upstream_tools(workshop.project)
    assert commands == ["venv", "pip"]
