"""Folders of pinned packages are filled once, and again when what is wanted has changed."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from fork_tool.common.errors import ForkToolError
from fork_tool.machine import pinned_packages
from fork_tool.machine.pinned_packages import (
    install_model_libraries,
    install_upstream_tools,
    keep_up_to_date,
    MODEL_REQUIREMENTS,
    run_or_raise,
    TOOL_REQUIREMENTS,
)
from fork_tool.paths import Layout
from fork_tool.series.project import Project
from workshop import Workshop


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / MODEL_REQUIREMENTS).write_text("one==1\n")
    return Project(Layout(tmp_path))


def test_filled_once_and_when_it_changes(project: Project) -> None:
    folder = project.layout.model_packages
    runs: list[int] = []

    def install() -> None:
        folder.mkdir(parents=True)
        runs.append(1)

    def keep(is_there: bool = True) -> bool:
        return keep_up_to_date(project, MODEL_REQUIREMENTS, folder, "packages", install, lambda: is_there)

    assert keep()
    assert not keep()
    assert keep(is_there=False)
    (project.layout.root / MODEL_REQUIREMENTS).write_text("one==2\n")
    assert keep()
    assert not keep()
    assert len(runs) == 3


def test_a_failure_is_tried_again(project: Project) -> None:
    folder = project.layout.model_packages

    def fails() -> None:
        folder.mkdir(parents=True)
        run_or_raise(project, ["false"], "packages")

    for _ in range(2):
        with pytest.raises(ForkToolError, match="packages could not be installed"):
            keep_up_to_date(project, MODEL_REQUIREMENTS, folder, "packages", fails)


def test_models_are_installed_without_dependencies(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []

    def run(command: list[str], _folder: Path) -> int:
        commands.append(command)
        project.layout.model_packages.mkdir(parents=True)
        return 0

    monkeypatch.setattr(pinned_packages, "run_shown", run)
    assert install_model_libraries(project)
    assert "--no-deps" in commands[0]
    assert str(project.layout.model_packages) in commands[0]
    assert not install_model_libraries(project)


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
