"""The launcher, the installed command, and help, which shows options and does nothing else."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from test_interrupt import copy_of_the_tool

import mpsfork_command
from fork_tool.cli import cli
from fork_tool.common import help as help_module
from fork_tool.common.help import help_of, ProgramCommand
from fork_tool.machine import setup
from fork_tool.paths import own_layout
from fork_tool.suites import runner, simulator
from fork_tool.version import VERSION
from workshop import Workshop


@pytest.fixture
def no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_arguments: object) -> None:
        raise AssertionError("help made something")

    for module, name in (
        *((runner, name) for name in ("make_ready", "make_ready_for_tests", "setup", "run_shown", "exclusive")),
        *((simulator, name) for name in ("setup", "fetch", "bring_series", "build_simulator")),
        (setup, "install_packages"),
    ):
        monkeypatch.setattr(module, name, forbidden)


@pytest.mark.parametrize("option", ["--help", "-h"])
@pytest.mark.parametrize("command", sorted(cli.commands))
@pytest.mark.usefixtures("no_work")
def test_help_does_nothing_else(workshop: Workshop, monkeypatch: pytest.MonkeyPatch, command: str, option: str) -> None:
    monkeypatch.setattr(help_module, "help_of", lambda _program: "what the program says")
    before = sorted(workshop.root.rglob("*"))
    said = workshop.good(command, option)
    assert said.startswith("Usage: ")
    own = cli.commands[command]
    assert str(own.help).split(";")[0] in " ".join(said.split())
    assert ("what the program says" in said) == isinstance(own, ProgramCommand)
    assert sorted(workshop.root.rglob("*")) == before


def test_arguments_are_passed_on(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, ...]] = []
    monkeypatch.setattr(runner, "make_ready", lambda *_arguments: None)
    monkeypatch.setattr(runner, "run_shown", lambda command, *_arguments: seen.append(tuple(command[-3:])))
    workshop.good("sweep", "--op", "add", "--", "--help")
    workshop.good("sweep", "--state", "--dtype", "float32")
    assert seen == [("--op", "add", "--help"), ("--state", "--dtype", "float32")]


def test_options_of_the_program_are_shown() -> None:
    options = str(help_of(("test/programs/sweep/run.py",)))
    assert all(option in options for option in ("--sample N", "--state", "--dtype DTYPE"))
    assert help_of(("test/no_such_program.py",)) is None


def test_launcher_installs_nothing_for_help(workshop: Workshop) -> None:
    copy_of_the_tool(workshop)
    (workshop.root / "Makefile").write_text("demo:       ## capture models\n")
    done = subprocess.run(
        [sys.executable, str(workshop.root / "scripts" / "mpsfork"), "demo", "--help"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "  demo            capture models" in done.stdout
    assert not workshop.layout.environment.exists()


def listed(group: click.Group) -> list[str]:
    """The names below the headings of a group's help."""
    said = group.get_help(click.Context(group, info_name="mpsfork"))
    return re.findall(r"^  ([a-z][\w-]+)  +\S", said, re.M)


def test_help_lists_every_command_once_under_a_heading() -> None:
    assert listed(cli) == list(cli.commands)
    assert "\nThe series:\n  apply " in cli.get_help(click.Context(cli, info_name="mpsfork"))


ROOT = own_layout().root


def test_the_installed_command_runs_the_checkout_that_one_is_in(tmp_path: Path) -> None:
    copy, environment = tmp_path / "checkout", tmp_path / "environment"
    copy.mkdir()
    for name in ("base.toml", "pyproject.toml", "Makefile", "requirements.txt"):
        shutil.copy(ROOT / name, copy)
    shutil.copytree(ROOT / "scripts", copy / "scripts", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    pip = [str(environment / "bin" / "pip"), "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--quiet", "--editable", "."], cwd=copy, check=True)

    def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
        command = [str(environment / "bin" / "mpsfork"), *words]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)

    done = run(copy / "scripts" / "fork_tool", "--help")
    # The copy has no environment, and help makes none.
    assert done.returncode == 0 and "The tool's environment is not there yet" in done.stdout, done.stderr
    assert not (copy / ".venv").exists()
    done = run(ROOT / "docs", "--version")
    assert (done.returncode, done.stdout) == (0, f"{VERSION}\n"), done.stderr
    # A folder of the same name alone makes none.
    (tmp_path / "scripts").mkdir()
    done = run(tmp_path, "verify")
    assert done.returncode == 1 and done.stderr.startswith("error: mpsfork works on a checkout of its repository")
    listed = subprocess.run([*pip, "list"], capture_output=True, text=True, check=True).stdout
    assert VERSION in listed and "click" not in listed


def test_the_innermost_checkout_counts(tmp_path: Path) -> None:
    inner = tmp_path / "build" / "inner"
    for root in (tmp_path, inner):
        (root / "scripts").mkdir(parents=True)
        (root / "scripts" / "mpsfork").touch()
        (root / "base.toml").touch()
    assert mpsfork_command.checkout_of(tmp_path / "build") == tmp_path
    assert mpsfork_command.checkout_of(inner / "scripts") == inner
