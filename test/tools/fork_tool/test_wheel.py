"""`wheel`, made of the official one or from source: what is refused, what is run, and that a dry run does nothing."""

import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from fork_tool.common.errors import ForkToolError
from fork_tool.mac_library import commands as commands_module
from fork_tool.mac_library import make as make_module
from fork_tool.machine import doctor as doctor_module
from fork_tool.machine.mac_facts import examine, GIB, jobs_for, MacFacts
from fork_tool.machine.machine import LACKS, Machine
from fork_tool.paths import Layout, own_layout
from fork_tool.series.overlay import list_overlay
from fork_tool.series.project import Project
from fork_tool.wheel import from_source as wheel_module
from fork_tool.wheel.build_lists import left_out, refuse_left_out
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


MAC_LIBRARY = own_layout().pin.read_text().partition("\n[mac_library]\n")[2].partition("\n[objfw]\n")[0]


@pytest.fixture
def with_pins(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    """A Linux machine with this repository's pins."""
    pin = workshop.layout.pin
    pin.write_text(pin.read_text().replace("[objfw]\n", f"[mac_library]\n{MAC_LIBRARY}\n[objfw]\n"))
    monkeypatch.setattr(make_module, "this_machine", lambda: LINUX)
    monkeypatch.setattr(make_module, "linker_of", lambda _machine: "ld64.lld-19")
    return workshop


def test_dry_run_shows_and_touches_nothing(with_pins: Workshop) -> None:
    before = set(with_pins.root.rglob("*"))
    said = with_pins.good("wheel", "--dry-run", "--python", "3.13", "--jobs", "3")
    assert "It would make dist/torch-0.1+mps.1-cp313-cp313-macosx_13_0_arm64.whl" in said
    assert "ziglang==" in said and "libpython3.13-dev" in said and "-j 3" in said and "ld64.lld-19 -dylib" in said
    assert set(with_pins.root.rglob("*")) == before


def test_words_are_given_on(with_pins: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str | None, int | None]] = []
    monkeypatch.setattr(commands_module, "make_wheel", lambda _project, python, jobs: seen.append((python, jobs)))
    with_pins.good("wheel", "--python", "3.13")
    with_pins.good("wheel", "--jobs", "2")
    assert seen == [("3.13", None), (None, 2)]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--set", "USE_KINETO=0"), "--set is for setup.py, which only --from-source runs"),
        (("--from-source", "--python", "3.13"), "--from-source takes the Python it runs on"),
        (("--dry-run", "--python", "2.7"), "There is no official wheel of torch 0.1 for Python 2.7: give one of 3.9, "),
    ],
)
def test_words_that_do_not_go_together(with_pins: Workshop, words: tuple[str, ...], said: str) -> None:
    assert said in with_pins.error("wheel", *words)


def test_pins_are_read_when_asked_for(workshop: Workshop) -> None:
    """A repository without the table can do all else."""
    workshop.good("apply")
    assert "lacks the value mac_library" in workshop.error("wheel", "--dry-run")


# The base's file lists take every file of the overlay, and a file that they do not take is found.


LISTS = (
    "aten/src/ATen/CMakeLists.txt",
    "aten/src/ATen/test/CMakeLists.txt",
    "caffe2/CMakeLists.txt",
    "build_variables.bzl",
    "setup.py",
    "torch/__init__.py",
    "torch/_dynamo/__init__.py",
    "torch/_dynamo/backends/__init__.py",
    "torch/mps/__init__.py",
)


@pytest.fixture
def planted(tmp_path: Path) -> Layout:
    """A copy of the lists and of the overlay, in which files may be planted."""
    own = own_layout()
    if not (own.checkout / LISTS[0]).exists():
        pytest.skip("the base is not fetched")
    layout = Layout(tmp_path)
    shutil.copy(own.pin, layout.pin)
    for name in LISTS:
        target = layout.checkout / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(own.checkout / name, target)
    shutil.copytree(own.overlay, layout.overlay)
    shutil.copytree(own.overlay, layout.checkout, dirs_exist_ok=True)
    return layout


def test_every_file_of_the_overlay_is_taken(planted: Layout) -> None:
    paths = list_overlay(planted.overlay)
    assert len(paths) > 20
    assert {Path(path).suffix for path in paths} >= {".mm", ".cpp", ".h", ".py"}
    assert refuse_left_out(Project(planted)) == len(paths)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("aten/src/ATen/mps/deeper/Planted.mm", "no pattern of the MPS backend in aten/src/ATen/CMakeLists.txt"),
        ("aten/src/ATen/native/mps/operations/deeper/Planted.h", "no pattern of the package data in setup.py"),
        ("aten/src/ATen/mps/Planted.metal", "no pattern of the MPS backend in aten/src/ATen/CMakeLists.txt"),
        ("aten/src/ATen/cuda/Planted.cpp", "no pattern of the MPS backend"),
        ("aten/src/ATen/test/mps_test_planted.mm", "aten/src/ATen/test/CMakeLists.txt does not name it"),
        ("aten/src/ATen/test/mps_planted.h", "no test in aten/src/ATen/test/ includes it"),
        ("torch/csrc/mps/Planted.cpp", "neither build_variables.bzl nor caffe2/CMakeLists.txt names it"),
        ("torch/csrc/mps/Planted.h", "and no source of its name"),
        ("torch/mps/planted/module.py", "torch/mps/planted, which has no __init__.py"),
        ("torch/mps/planted.txt", "neither build_variables.bzl"),
        ("test/mps_graph_planted.py", "files called test_*.py only"),
    ],
)
def test_planted_file_is_found(planted: Layout, path: str, reason: str) -> None:
    for top in (planted.overlay, planted.checkout):
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).touch()
    with pytest.raises(ForkToolError, match="would be left out of the build") as caught:
        refuse_left_out(Project(planted))
    assert path in str(caught.value)
    assert reason in str(caught.value)
    assert str(caught.value).count("would be left out") == 1


def test_checkout_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(ForkToolError, match="a whole checkout of PyTorch with the series on it"):
        left_out(tmp_path, ["torch/csrc/mps/Graphs.cpp"])
