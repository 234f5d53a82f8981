"""`wheel --from-source`: what is refused, what is run, and that a dry run does nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from fork_tool.common.errors import ForkToolError
from fork_tool.mac_library import commands as commands_module
from fork_tool.machine import doctor as doctor_module
from fork_tool.machine.mac_facts import examine, GIB, jobs_for, MacFacts
from fork_tool.machine.machine import LACKS, Machine
from fork_tool.paths import own_layout
from fork_tool.series.project import Project
from fork_tool.wheel import from_source as wheel_module
from workshop import LINUX, MAC, Workshop

FACTS = MacFacts(
    "14.5", "/Library", "14.5", "Apple clang version 15.0.0", "metal 32023", 16 * GIB, 10, 80 * GIB, (3, 11), "/Users/a"
)


class Bench:
    """A Mac with all that is needed, on which commands leave what the real ones would."""

    def __init__(self, shop: Workshop):
        self.shop = shop
        self.facts = FACTS
        self.commands: list[str] = []
        self.environments: list[dict[str, str]] = []
        # The command that is to fail.
        self.failing = "none"

    def run(
        self, command: Sequence[str], _directory: Path, environment: dict[str, str] | None = None, where: str = ""
    ) -> int:
        line = " ".join(command).replace(str(self.shop.root), "ROOT")
        self.commands.append(line)
        if environment is not None:
            self.environments.append(environment)
            dist = self.shop.layout.wheel / "dist"
            dist.mkdir()
            (dist / f"torch-{environment['PYTORCH_BUILD_VERSION']}-cp311-cp311-macosx_13_0_arm64.whl").touch()
        return int(self.failing in line)


@pytest.fixture
def bench(applied: Workshop, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """The tiny upstream as a clone with submodules, on a Mac."""
    ignored = applied.checkout / ".git" / "info" / "exclude"
    ignored.write_text("/build/\n.gitmodules\n")
    (applied.checkout / ".gitmodules").touch()
    made = Bench(applied)
    monkeypatch.setattr(wheel_module, "run_shown", made.run)
    monkeypatch.setattr(wheel_module, "gather", lambda _layout: made.facts)
    monkeypatch.setattr(wheel_module, "refuse_left_out", lambda _project: 1)
    monkeypatch.setattr(commands_module, "this_machine", lambda: MAC)
    return made


def test_what_is_run(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """And that setup.py sees the pinned environment alone."""
    monkeypatch.setenv("CONDA_PREFIX", "/opt/conda")
    monkeypatch.setenv("CMAKE_PREFIX_PATH", "/opt/homebrew")
    monkeypatch.setenv("USE_DISTRIBUTED", "1")
    said = bench.shop.good("wheel", "--from-source", "--set", "USE_KINETO=0", "--jobs", "3")
    assert "is built and checked." in said
    marks = ("submodule", "wheel/environment", "cmake==3.31.10", "setup.py --cmake bdist_wheel", "wheel/check")
    marks += ("--find-links", "wheel/check.py --version 0.1+mps.1.s")
    assert len(bench.commands) == len(marks)
    assert all(mark in line for mark, line in zip(marks, bench.commands))
    (seen,) = bench.environments
    assert not {"CONDA_PREFIX", "CMAKE_PREFIX_PATH", "USE_DISTRIBUTED"} & set(seen)
    expected = {
        "USE_MPS": "1",
        "BUILD_TEST": "0",
        "USE_KINETO": "0",
        "MAX_JOBS": "3",
        "MACOSX_DEPLOYMENT_TARGET": "13.3",
        "PYTORCH_BUILD_NUMBER": "1",
    }
    assert expected.items() <= seen.items()
    assert seen["PATH"].startswith(f"{bench.shop.layout.wheel}/environment/bin:/usr/bin:")
    assert "homebrew" not in seen["PATH"]
    assert "/opt/homebrew" in seen["CMAKE_IGNORE_PREFIX_PATH"].split(";")


def test_without_a_device_no_capture_is_checked(bench: Bench) -> None:
    said = bench.shop.good("wheel", "--from-source", "--no-device")
    assert bench.commands[-1].endswith(" --no-device")
    assert "checked, but for what needs a device" in " ".join(said.split())


@pytest.mark.parametrize(
    ("failing", "remedy"),
    [
        ("pip install", "python -m failed (see above): check the network and the package index"),
        ("bdist_wheel", "python setup.py failed (see above): fix the errors that the compiler or CMake names"),
        ("wheel/check.py", "see which line failed"),
        ("submodule", "are not complete (see above): run `make wheel FROM_SOURCE=1` where GitHub answers"),
    ],
)
def test_a_step_that_fails_ends_the_build(bench: Bench, failing: str, remedy: str) -> None:
    bench.failing = failing
    assert remedy in bench.shop.error("wheel", "--from-source")
    assert failing in bench.commands[-1]


def built(bench: Bench) -> str:
    """The version of the one wheel that is there after a build."""
    bench.shop.good("wheel", "--from-source")
    (wheel,) = (bench.shop.layout.wheel / "dist").iterdir()
    return wheel.name.split("-")[1]


def test_version_names_the_series(bench: Bench) -> None:
    versions = [built(bench)]
    leftover = bench.shop.checkout / "build" / "lib.macosx" / "gone.py"
    leftover.parent.mkdir(parents=True)
    leftover.touch()
    bench.shop.overlay("aten/Recorder.h", "class Other;\n")
    versions.append(built(bench))
    assert not leftover.exists()
    # Work that patches/ does not have is named too, and each state of it differently.
    bench.shop.write({"aten/Graph.mm": "edited\n"})
    versions.append(built(bench))
    bench.shop.commit("[MPS] Mine", {"aten/Graph.mm": "edited again\n"})
    versions.append(built(bench))
    assert len(set(versions)) == 4
    assert [version.removeprefix("0.1+mps.1.")[0] for version in versions] == ["s", "s", "w", "w"]


def test_checkout_without_submodules(bench: Bench) -> None:
    (bench.shop.checkout / ".gitmodules").unlink()
    assert "may come from the Debian tarball" in bench.shop.error("wheel", "--from-source")
    assert bench.commands == []


def test_file_left_out_stops_before_the_build(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_project: Project) -> int:
        raise ForkToolError("would be left out")

    monkeypatch.setattr(wheel_module, "refuse_left_out", refuse)
    assert bench.shop.error("wheel", "--from-source") == "would be left out"
    assert len(bench.commands) == 1


@pytest.mark.parametrize(
    ("change", "name", "remedy"),
    [
        ({"macos": "13.2"}, "macOS", "Software Update"),
        ({"tools": "", "compiler": ""}, "compiler", "xcode-select --install"),
        ({"sdk": "13.3"}, "macOS SDK", "needed: 14.0 or newer"),
        ({"memory": 4 * GIB}, "memory", "needed: 8 GiB"),
        ({"disk": 10 * GIB}, "disk for the wheel", "needed: 20 GiB"),
        ({"disk": 4 * GIB, "under_way": True}, "disk for the wheel", "needed: 5 GiB"),
        ({"python": (3, 14)}, "Python for the wheel", "MPSFORK_PYTHON="),
        ({"place": "/Users/a/My code"}, "folder", "move this repository to a path without one"),
    ],
)
def test_every_lack_is_named_with_its_remedy(
    bench: Bench, capsys: pytest.CaptureFixture[str], change: dict[str, object], name: str, remedy: str
) -> None:
    bench.facts = replace(FACTS, **change)  # type: ignore[arg-type]
    lacking = [finding for finding in examine(bench.facts, bench.shop.project.pin) if finding.state == LACKS]
    assert [finding.name for finding in lacking] == [name]
    assert remedy in lacking[0].remedy
    assert f"it lacks {name}." in bench.shop.error("wheel", "--from-source")
    assert bench.commands == []


def test_doctor_of_a_mac_knows_of_the_wheel(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_module, "gather", lambda _layout: replace(FACTS, sdk="13.3"))
    bench.shop.layout.requirements.write_text("")
    states = {finding.name: finding.state for finding in doctor_module.examine(bench.shop.project, MAC)}
    assert states["macOS SDK"] == LACKS
    assert "macOS SDK" not in {finding.name for finding in doctor_module.examine(bench.shop.project, LINUX)}


def test_compilers_fit_into_the_memory() -> None:
    assert jobs_for(replace(FACTS, memory=8 * GIB)) == 4
    assert jobs_for(replace(FACTS, memory=64 * GIB)) == FACTS.cores
    assert jobs_for(replace(FACTS, memory=GIB)) == 1


def test_linux_is_told_to_use_a_mac(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands_module, "this_machine", lambda: LINUX)
    sentence = bench.shop.error("wheel", "--from-source")
    assert "is built on a Mac with Apple silicon, and this is Linux" in sentence
    assert "make wheel FROM_SOURCE=1 DRY_RUN=1" in sentence
    monkeypatch.setattr(commands_module, "this_machine", lambda: Machine("Darwin", "x86_64"))
    assert "This Mac's processor is x86_64" in bench.shop.error("wheel", "--from-source")


@pytest.mark.parametrize("machine", [MAC, LINUX])
@pytest.mark.parametrize("fetched", [True, False])
def test_dry_run_touches_nothing_and_shows_what_is_run(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, machine: Machine, fetched: bool
) -> None:
    shop = bench.shop
    monkeypatch.setattr(commands_module, "this_machine", lambda: machine)
    if not fetched:
        shop.checkout.rename(shop.root.parent / "aside")
    before = {path: path.stat().st_mtime_ns for path in shop.root.rglob("*")}
    said = shop.good("wheel", "--from-source", "--dry-run", "--set", "USE_KINETO=0").replace(str(shop.root), "ROOT")
    assert {path: path.stat().st_mtime_ns for path in shop.root.rglob("*")} == before
    assert bench.commands == []
    assert re.search(r"torch-0\.1\+mps\.1\.s\w{10}-cp311-cp311-macosx_…_arm64\.whl", "".join(said.split()))
    assert ("scripts/mpsfork fetch" in said) == (not fetched)
    if not fetched:
        (shop.root.parent / "aside").rename(shop.checkout)
    monkeypatch.setattr(commands_module, "this_machine", lambda: MAC)
    shop.good("wheel", "--from-source", "--set", "USE_KINETO=0")
    shown = [
        line.partition("$ ")[2].removeprefix("(cd build/pytorch) ").removeprefix("(cd build/wheel) ")
        for line in said.splitlines()
    ]
    assert [line for line in shown if line] == bench.commands
    for name, value in bench.environments[0].items():
        assert f"{name}={value}".replace(str(shop.root), "ROOT") in said.splitlines()


def test_option_that_is_none(bench: Bench) -> None:
    result = bench.shop.run("wheel", "--from-source", "--dry-run", "--set", "distributed")
    assert "is not of the form NAME=VALUE" in str(result.exception)


def test_options_of_the_pin_are_options_of_the_base() -> None:
    """A word that the base's CMake does not know would be passed on and do nothing."""
    layout = own_layout()
    lists = layout.checkout / "CMakeLists.txt"
    if not lists.exists():
        pytest.skip("the base is not fetched")
    text = lists.read_text()
    for name in Project(layout).pin.wheel_build.options:
        assert re.search(rf"^\s*(cmake_dependent_)?option\(\s*{name}\s", text, re.MULTILINE), name
