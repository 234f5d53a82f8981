"""The hooks of `.pre-commit-config.yaml` run the repository's linters, and stop what they find."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from fork_tool.paths import own_layout
from workshop import command_git

ROOT = own_layout().root
CONFIGURATION = ROOT / ".pre-commit-config.yaml"


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with the configuration, the linters' settings and this environment."""
    monkeypatch.setenv("PRE_COMMIT_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    root = tmp_path / "clone"
    programs = [f"test/programs/{name}" for name in ("benchmark", "demo", "real_models")]
    for folder in ("scripts", *programs, "aten_mps_overlay"):
        (root / folder).mkdir(parents=True)
        (root / folder / "__init__.py").touch()
    (root / "test" / "suites.py").touch()
    for name in (CONFIGURATION.name, "pyproject.toml"):
        shutil.copy(ROOT / name, root)
    (root / ".venv").symlink_to(ROOT / ".venv")
    # The launcher has no suffix, and `ruff check .` does not look at it.
    (root / "scripts" / "mpsfork").write_text("#!/usr/bin/env python3\nimport sys;sys.exit( 1 )\n")
    (root / "scripts" / "mpsfork").chmod(0o755)
    (root / ".gitignore").write_text(".venv\n.mypy_cache\n.ruff_cache\n")
    command_git(root, "init", "--quiet")
    command_git(root, "add", "--all")
    command_git(root, "commit", "--quiet", "--message=first")
    return root


def hooks(root: Path, **files: str) -> subprocess.CompletedProcess[str]:
    """Stage files and run the hooks as a commit would."""
    for name, text in files.items():
        (root / name).write_text(text)
    command_git(root, "add", "--all")
    words = [str(ROOT / ".venv" / "bin" / "pre-commit"), "run", "--color=never"]
    return subprocess.run(words, cwd=root, capture_output=True, text=True, check=False, env=dict(os.environ))


def states(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    lines = [line for line in done.stdout.splitlines() if line.endswith(("Passed", "Failed", "Skipped"))]
    return {line.partition("..")[0]: line.rpartition(".")[2].split(")")[-1] for line in lines}


def test_good_files_pass(clone: Path) -> None:
    launcher = "#!/usr/bin/env python3\nimport sys;sys.exit( 2 )\n"
    done = hooks(clone, **{"scripts/good.py": '"""Good."""\n\nNUMBER: int = 1\n', "scripts/mpsfork": launcher})
    assert done.returncode == 0, done.stdout
    assert states(done) == {
        "ruff check": "Passed",
        "ruff format": "Passed",
        "mypy": "Passed",
        "the series applies and keeps its rules": "Skipped",
    }


@pytest.mark.parametrize(
    ("name", "text", "hook"),
    [
        ("scripts/bad.py", "import os\n", "ruff check"),
        ("scripts/bad.py", "number = {  'a':1 }\n", "ruff format"),
        ("scripts/bad.py", 'number: int = "a"\n', "mypy"),
        ("base.toml", "", "the series applies and keeps its rules"),
        ("aten_mps_overlay/new.h", "", "the series applies and keeps its rules"),
    ],
)
def test_each_hook_stops_what_it_is_for(clone: Path, name: str, text: str, hook: str) -> None:
    done = hooks(clone, **{name: text})
    assert done.returncode == 1
    assert [found for found, state in states(done).items() if state == "Failed"] == [hook], done.stdout


def test_what_upstream_formats_is_left_alone(clone: Path) -> None:
    """As for `ruff check .`, though the hooks name the files."""
    done = hooks(clone, **{"aten_mps_overlay/theirs.py": "import os\nx = {  'a':1 }\n"})
    found = states(done)
    assert (found["ruff check"], found["ruff format"]) == ("Passed", "Passed"), done.stdout


def test_hooks_are_the_commands_of_the_workflow() -> None:
    """What a pull request is checked by."""
    configuration = yaml.safe_load(CONFIGURATION.read_text())
    entries = {hook["id"]: hook["entry"] for repository in configuration["repos"] for hook in repository["hooks"]}
    workflow = (ROOT / ".github" / "workflows" / "tests.yml").read_text()
    contributing = (ROOT / "CONTRIBUTING.md").read_text()
    assert entries["mypy"] in workflow and entries["mypy"] in contributing
    assert ".venv/bin/ruff check ." in workflow and ".venv/bin/ruff format --check ." in workflow
    assert all(repository["repo"] == "local" for repository in configuration["repos"])
