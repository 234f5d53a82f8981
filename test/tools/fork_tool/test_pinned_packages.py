"""Folders of pinned packages are filled once, and again when what is wanted has changed."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from fork_tool.common.errors import ForkToolError
from fork_tool.machine import package_index
from fork_tool.machine.package_index import (
    install_model_libraries,
    MODEL_REQUIREMENTS,
    TOOL_REQUIREMENTS,
)
from fork_tool.paths import Layout
from fork_tool.series.project import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    for name in (MODEL_REQUIREMENTS, TOOL_REQUIREMENTS):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("one==1\n")
    return Project(Layout(tmp_path))


@pytest.fixture
def commands(project: Project, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was run; it leaves what the real programs would."""
    seen: list[str] = []

    def run(command: Sequence[str], _directory: Path) -> int:
        seen.append(" ".join(command))
        if "venv" in command:
            (Path(command[-1]) / "bin").mkdir(parents=True)
            (Path(command[-1]) / "bin" / "python").touch()
        project.layout.model_packages.mkdir(parents=True, exist_ok=True)
        return 0

    monkeypatch.setattr(package_index, "run_shown", run)
    return seen


def test_models_are_installed_once_and_when_they_change(project: Project, commands: list[str]) -> None:
    assert install_model_libraries(project)
    assert not install_model_libraries(project)
    (project.layout.root / MODEL_REQUIREMENTS).write_text("one==2\n")
    assert install_model_libraries(project)
    assert not install_model_libraries(project)
    assert len(commands) == 2
    assert f"--no-deps --target {project.layout.model_packages}" in commands[0]


def test_a_failure_is_tried_again(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package_index, "run_shown", lambda *_arguments: 1)
    for _ in range(2):
        with pytest.raises(ForkToolError, match="requirements-models.txt could not be installed"):
            install_model_libraries(project)
