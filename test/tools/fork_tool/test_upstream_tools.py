"""The environment of upstream's tools; that it is filled once, and again when it must be, is `test_pinned_packages.py`'s."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from fork_tool.machine import pinned_packages
from fork_tool.machine.pinned_packages import install_upstream_tools, TOOL_REQUIREMENTS
from workshop import Workshop


def test_the_environment_is_made_before_its_packages(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[str] = []

    def run(command: Sequence[str], _directory: Path) -> int:
        commands.append(" ".join(command))
        if "venv" in command:
            (Path(command[-1]) / "bin").mkdir(parents=True)
            (Path(command[-1]) / "bin" / "python").touch()
        return 0

    monkeypatch.setattr(pinned_packages, "run_shown", run)
    wanted = workshop.root / TOOL_REQUIREMENTS
    wanted.parent.mkdir(parents=True)
    wanted.write_text("flake8==1\n")
    assert install_upstream_tools(workshop.project)
    environment = workshop.layout.upstream_checks / "environment"
    assert commands[0].endswith(f"-m venv {environment}")
    assert commands[1].startswith(f"{environment}/bin/python -m pip install ")
    assert commands[1].endswith(f"--requirement {TOOL_REQUIREMENTS}")
    assert not install_upstream_tools(workshop.project)
    # The packages without an interpreter are no environment.
    shutil.rmtree(environment / "bin")
    assert install_upstream_tools(workshop.project)
    assert len(commands) == 4
