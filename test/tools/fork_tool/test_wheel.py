"""`wheel`: what is refused, what is run, what is done again, and that a dry run does nothing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
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
from fork_tool.wheel import plan as plan_module
from fork_tool.wheel.from_source import install_patched_torch, wheel_stands
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
        self.environments: list[dict[str, str] | None] = []
        # The command that is to fail, once.
        self.failing = ""

    def run(
        self, command: Sequence[str], _directory: Path, environment: dict[str, str] | None = None, where: str = ""
    ) -> int:
        line = " ".join(command).replace(str(self.shop.root), "ROOT")
        self.commands.append(line)
        self.environments.append(environment)
        if self.failing and self.failing in line:
            self.failing = ""
            return 1
        build = self.shop.layout.wheel
        if "venv" in command:
            python = Path(command[-1]) / "bin" / "python"
            python.parent.mkdir(parents=True, exist_ok=True)
            python.touch()
        if "--cmake-only" in command:
            (self.shop.checkout / "build").mkdir(exist_ok=True)
            (self.shop.checkout / "build" / "build.ninja").touch()
        if "--dist-dir" in command:
            assert environment is not None
            (build / "dist").mkdir(parents=True)
            (build / "dist" / f"torch-{environment['PYTORCH_BUILD_VERSION']}-cp311-cp311-macosx_13_0_arm64.whl").touch()
        return 0

    def stages(self) -> list[str]:
        """The stages of which a command was run since the last question."""
        marks = {
            "submodule": "source",
            "venv --clear ROOT/build/wheel/environment": "environment",
            "--cmake-only": "configure",
            "--dist-dir": "compile",
            "wheel/check.py": "check",
            "--force-reinstall": "install",
        }
        found = [name for line in self.commands for mark, name in marks.items() if mark in line]
        self.commands.clear()
        return found


@pytest.fixture
def bench(applied: Workshop, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """The tiny upstream as a clone with submodules, on a Mac."""
    ignored = applied.checkout / ".git" / "info" / "exclude"
    ignored.write_text("/build/\n.gitmodules\n")
    (applied.checkout / ".gitmodules").touch()
    applied.layout.environment.mkdir()
    made = Bench(applied)
    monkeypatch.setattr(wheel_module, "run_shown", made.run)
    monkeypatch.setattr(wheel_module, "gather", lambda _layout: made.facts)
    monkeypatch.setattr(wheel_module, "refuse_left_out", lambda _project: 1)
    for module in (wheel_module, commands_module):
        monkeypatch.setattr(module, "this_machine", lambda: MAC)
    yield made


ALL = ["source", "environment", "configure", "compile", "check"]


def test_wheel_is_built_once(bench: Bench) -> None:
    said = bench.shop.good("wheel", "--from-source")
    assert bench.stages() == ALL
    assert "is built and checked" in said
    assert "done before" in bench.shop.good("wheel", "--from-source")
    assert bench.stages() == ["source"]


def test_setup_py_sees_the_pinned_environment_alone(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONDA_PREFIX", "/opt/conda")
    monkeypatch.setenv("CMAKE_PREFIX_PATH", "/opt/homebrew")
    monkeypatch.setenv("USE_DISTRIBUTED", "1")
    bench.shop.good("wheel", "--from-source", "--set", "USE_KINETO=0", "--jobs", "3")
    seen = [environment for environment in bench.environments if environment is not None]
    assert len(seen) == 2
    assert seen[0] == seen[1]
    assert not {"CONDA_PREFIX", "CMAKE_PREFIX_PATH", "USE_DISTRIBUTED"} & set(seen[0])
    expected = {
        "USE_MPS": "1",
        "BUILD_TEST": "0",
        "USE_KINETO": "0",
        "MAX_JOBS": "3",
        "MACOSX_DEPLOYMENT_TARGET": "13.3",
        "PYTORCH_BUILD_NUMBER": "1",
    }
    assert expected.items() <= seen[0].items()
    assert seen[0]["PATH"].startswith(f"{bench.shop.layout.wheel}/environment/bin:/usr/bin:")
    assert "homebrew" not in seen[0]["PATH"]
    assert "/opt/homebrew" in seen[0]["CMAKE_IGNORE_PREFIX_PATH"].split(";")


@pytest.mark.skipif(shutil.which("cmake") is None, reason="there is no cmake")
def test_cmake_leaves_homebrew_out(tmp_path: Path) -> None:
    """On Apple silicon CMake has Homebrew's folder among the system's; here another one stands for it."""
    library = tmp_path / "homebrew" / "lib" / "libomp.so"
    library.parent.mkdir(parents=True)
    library.touch()
    script = tmp_path / "find.cmake"
    script.write_text(
        f'set(CMAKE_SYSTEM_PREFIX_PATH "{tmp_path}/homebrew")\nset(CMAKE_FIND_LIBRARY_PREFIXES lib)\n'
        'set(CMAKE_FIND_LIBRARY_SUFFIXES .so)\nfind_library(FOUND omp)\nmessage("${FOUND}")\n'
    )

    def find(*words: str) -> str:
        done = subprocess.run(["cmake", *words, "-P", str(script)], capture_output=True, text=True, check=True)
        return done.stderr.strip()

    assert find() == str(library)
    assert find(f"-DCMAKE_IGNORE_PREFIX_PATH=/elsewhere;{tmp_path}/homebrew") == "FOUND-NOTFOUND"


def test_setup_py_of_the_base_tells_cmake(tmp_path: Path) -> None:
    """The base gives on what begins with CMAKE_."""
    checkout = own_layout().checkout
    if not (checkout / "tools" / "setup_helpers").exists():
        pytest.skip("the base is not fetched")
    code = (
        "import sys, tools.setup_helpers.cmake as m; c = m.CMake(sys.argv[1]); c.run = lambda words, env: print(words);"
        "import os; os.environ['CMAKE_IGNORE_PREFIX_PATH'] = '/opt/homebrew;/sw';"
        "c.generate(None, None, True, False, os.environ.copy(), True)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        cwd=checkout,
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert "'-DCMAKE_IGNORE_PREFIX_PATH=/opt/homebrew;/sw'" in done.stdout


@pytest.mark.parametrize(
    ("failing", "rest"),
    [
        ("pip install", ["environment", "configure", "compile", "check"]),
        ("--cmake-only", ["configure", "compile", "check"]),
        ("--dist-dir", ["compile", "check"]),
        ("wheel/check.py", ["check"]),
    ],
)
def test_a_build_that_was_cut_off_goes_on(bench: Bench, failing: str, rest: list[str]) -> None:
    bench.failing = failing
    assert "run `make wheel FROM_SOURCE=1` again" in bench.shop.error("wheel", "--from-source")
    bench.stages()
    bench.shop.good("wheel", "--from-source")
    assert bench.stages() == ["source", *rest]


def test_what_changed_is_built_again(bench: Bench) -> None:
    bench.shop.good("wheel", "--from-source")
    bench.stages()
    bench.shop.good("wheel", "--from-source", "--set", "USE_DISTRIBUTED=1")
    assert bench.stages() == ["source", "configure", "compile", "check"]
    bench.facts = replace(FACTS, sdk="15.0")
    bench.shop.good("wheel", "--from-source", "--set", "USE_DISTRIBUTED=1")
    assert bench.stages() == ["source", "configure", "compile", "check"]
    # Xcode came, or went, or is another one: the kernels are compiled in, or go in as text.
    for metal in ("", "metal 32024", "metal 32023"):
        bench.facts = replace(FACTS, sdk="15.0", metal=metal)
        bench.shop.good("wheel", "--from-source", "--set", "USE_DISTRIBUTED=1")
        assert bench.stages() == ["source", "configure", "compile", "check"]
    # More compilers at once make no other wheel.
    bench.shop.good("wheel", "--from-source", "--set", "USE_DISTRIBUTED=1", "--jobs", "1")
    assert bench.stages() == ["source"]
    for wheel in (bench.shop.layout.wheel / "dist").iterdir():
        wheel.unlink()
    bench.shop.good("wheel", "--from-source", "--set", "USE_DISTRIBUTED=1")
    assert bench.stages() == ["source", "compile"]


def test_a_wheel_checked_without_a_device_is_checked_again(bench: Bench) -> None:
    said = bench.shop.good("wheel", "--from-source", "--no-device")
    assert bench.commands[-1].endswith(" --no-device")
    assert "checked, but for what needs a device" in " ".join(said.split())
    assert bench.stages() == ALL
    assert not wheel_stands(bench.shop.project)
    bench.shop.good("wheel", "--from-source", "--no-device")
    assert bench.stages() == ["source"]
    assert "is built and checked." in bench.shop.good("wheel", "--from-source")
    assert "--no-device" not in bench.commands[-1]
    assert bench.stages() == ["source", "check"]
    assert wheel_stands(bench.shop.project)


def test_the_wheel_is_named_before_it_is_built(bench: Bench) -> None:
    bench.failing = "venv"
    result = bench.shop.run("wheel", "--from-source")
    assert isinstance(result.exception, ForkToolError)
    said = "".join(result.output.split())
    (name,) = re.findall(r"torch-0\.1\+mps\.1\.s\w{10}-cp311-cp311-macosx_…_arm64\.whl,forPython3\.11", said)
    bench.facts = replace(FACTS, python=(3, 13))
    assert name.replace("311", "313").replace("3.11", "3.13") in "".join(
        bench.shop.good("wheel", "--from-source", "--dry-run").split()
    )


def built(bench: Bench) -> str:
    """The version of the one wheel that is there."""
    (wheel,) = (bench.shop.layout.wheel / "dist").iterdir()
    return wheel.name.split("-")[1]


def test_version_names_the_series(bench: Bench) -> None:
    bench.shop.good("wheel", "--from-source")
    first = built(bench)
    assert first.startswith("0.1+mps.1.s")
    leftover = bench.shop.checkout / "build" / "lib.macosx" / "gone.py"
    leftover.parent.mkdir(parents=True)
    leftover.touch()
    bench.shop.overlay("aten/Recorder.h", "class Other;\n")
    bench.stages()
    bench.shop.good("wheel", "--from-source")
    assert bench.stages() == ["source", "configure", "compile", "check"]
    second = built(bench)
    assert second.startswith("0.1+mps.1.s")
    assert second != first
    assert not leftover.exists()
    # Work that patches/ does not have is named too, and each state of it differently.
    bench.shop.write({"aten/Graph.mm": "edited\n"})
    bench.shop.good("wheel", "--from-source")
    third = built(bench)
    assert third.startswith("0.1+mps.1.w")
    bench.shop.commit("[MPS] Mine", {"aten/Graph.mm": "edited again\n"})
    bench.shop.good("wheel", "--from-source")
    assert built(bench) not in (first, second, third)
    assert built(bench).startswith("0.1+mps.1.w")


def test_patched_torch_is_installed_once(bench: Bench) -> None:
    project = Project(bench.shop.layout)
    assert install_patched_torch(project)
    assert bench.stages() == [*ALL, "install"]
    assert not install_patched_torch(project)
    assert bench.stages() == []
    bench.shop.overlay("aten/Recorder.h", "class Other;\n")
    assert install_patched_torch(Project(bench.shop.layout))
    assert bench.stages() == ["source", "configure", "compile", "check", "install"]


def test_checkout_without_submodules(bench: Bench) -> None:
    (bench.shop.checkout / ".gitmodules").unlink()
    assert "may come from the Debian tarball" in bench.shop.error("wheel", "--from-source")
    assert bench.commands == []


def test_submodules_that_do_not_come(bench: Bench) -> None:
    bench.failing = "submodule"
    assert "are not complete (see above): run `make wheel FROM_SOURCE=1` where GitHub answers" in bench.shop.error(
        "wheel", "--from-source"
    )
    assert bench.stages() == ["source"]


def test_file_left_out_stops_before_the_build(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_project: Project) -> int:
        raise ForkToolError("would be left out")

    monkeypatch.setattr(wheel_module, "refuse_left_out", refuse)
    assert bench.shop.error("wheel", "--from-source") == "would be left out"
    assert bench.stages() == ["source"]


def test_wheel_that_stands(bench: Bench) -> None:
    """What a test would install: the wheel of this series, built and checked, and no other."""
    project = bench.shop.project
    assert not wheel_stands(project)
    bench.failing = "wheel/check.py"
    bench.shop.error("wheel", "--from-source")
    assert not wheel_stands(project)
    bench.shop.good("wheel", "--from-source")
    assert wheel_stands(project)
    assert install_patched_torch(project)
    bench.shop.commit("[MPS] Other", {"aten/Graph.mm": "other\n"})
    assert not wheel_stands(project)
    bench.shop.checkout.rename(bench.shop.root.parent / "aside")
    assert not wheel_stands(project)


def test_build_that_leaves_no_wheel(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_module.Plan, "wheels", [])
    assert "ended well and left nothing" in bench.shop.error("wheel", "--from-source")


@pytest.mark.parametrize(
    ("change", "name", "remedy"),
    [
        ({"macos": "13.2"}, "macOS", "Software Update"),
        ({"tools": "", "compiler": ""}, "compiler", "xcode-select --install"),
        ({"compiler": ""}, "compiler", "xcodebuild -license accept"),
        ({"sdk": "13.3"}, "macOS SDK", "needed: 14.0 or newer"),
        ({"sdk": ""}, "macOS SDK", "xcode-select --install"),
        ({"memory": 4 * GIB}, "memory", "needed: 8 GiB"),
        ({"disk": 10 * GIB}, "disk for the wheel", "needed: 20 GiB"),
        ({"disk": 4 * GIB, "under_way": True}, "disk for the wheel", "needed: 5 GiB"),
        ({"python": (3, 14)}, "Python for the wheel", "MPSFORK_PYTHON="),
        ({"python": (3, 8)}, "Python for the wheel", "needed: 3.9 to 3.13"),
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


def test_all_lacks_are_named_at_once(bench: Bench) -> None:
    bench.facts = replace(FACTS, macos="12.0", memory=GIB)
    assert "it lacks macOS, memory." in bench.shop.error("wheel", "--from-source")


def test_newer_machines_are_good_enough(bench: Bench) -> None:
    facts = replace(FACTS, macos="26.1", sdk="26.1", disk=6 * GIB, under_way=True, metal="", python=(3, 13))
    assert not [finding for finding in examine(facts, bench.shop.project.pin) if finding.state == LACKS]


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
    for module in (wheel_module, commands_module):
        monkeypatch.setattr(module, "this_machine", lambda: machine)
    if not fetched:
        shop.checkout.rename(shop.root.parent / "aside")
    before = {path: path.stat().st_mtime_ns for path in shop.root.rglob("*")}
    said = shop.good("wheel", "--from-source", "--dry-run", "--set", "USE_KINETO=0").replace(str(shop.root), "ROOT")
    assert {path: path.stat().st_mtime_ns for path in shop.root.rglob("*")} == before
    assert bench.commands == []
    assert ("scripts/mpsfork fetch" in said) == (not fetched)
    if not fetched:
        (shop.root.parent / "aside").rename(shop.checkout)
    monkeypatch.setattr(wheel_module, "this_machine", lambda: MAC)
    monkeypatch.setattr(commands_module, "this_machine", lambda: MAC)
    shop.good("wheel", "--from-source", "--set", "USE_KINETO=0")
    shown = [
        line.partition("$ ")[2].removeprefix("(cd build/pytorch) ").removeprefix("(cd build/wheel) ")
        for line in said.splitlines()
    ]
    assert [line for line in shown if line] == bench.commands
    environment = next(environment for environment in bench.environments if environment)
    for name, value in environment.items():
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


def test_cmake_of_the_pin_still_knows_old_policies() -> None:
    """cmake 4 refuses what third_party of the base asks for."""
    requires = dict(line.split("==") for line in Project(own_layout()).pin.wheel_build.requires)
    assert int(requires["cmake"].split(".")[0]) == 3
    assert all(version for version in requires.values())
