"""The launcher, and help, which shows options and does nothing else."""

import re
import subprocess
import sys

import pytest
from test_interrupt import copy_of_the_tool

from fork_tool.base.pin import load_pin
from fork_tool.cli import cli
from fork_tool.common import help as help_module
from fork_tool.common.help import help_of, ProgramCommand
from fork_tool.mac_library.archive import wheel_name
from fork_tool.mac_library.pin import load_mac_pin
from fork_tool.machine import setup
from fork_tool.paths import own_layout
from fork_tool.suites import runner, simulator
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


def test_help_lists_every_command_under_a_heading(workshop: Workshop) -> None:
    said = workshop.good("--help")
    assert re.findall(r"^  ([a-z][\w-]+)  +\S", said, re.M) == list(cli.commands)
    assert "\nThe series:\n  apply " in said


def test_the_version_is_in_one_place(workshop: Workshop) -> None:
    pin, mac_pin = load_pin(own_layout().pin), load_mac_pin(own_layout().pin)
    assert re.fullmatch(r"2\.6\.0\+mps\.\d+", pin.version)
    assert workshop.good("--version").strip() == pin.version == mac_pin.version
    assert wheel_name(mac_pin, "3.11").startswith(f"torch-{pin.version}-cp311-")
