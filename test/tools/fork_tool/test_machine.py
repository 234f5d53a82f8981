"""`setup`, `doctor` and what they report of a machine."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from fork_tool.base.pin import PinnedFile
from fork_tool.common.errors import ForkToolError
from fork_tool.common.files import describe
from fork_tool.machine import doctor as doctor_module
from fork_tool.machine import environment
from fork_tool.machine import setup as setup_steps
from fork_tool.machine import unpacked as objfw_module
from fork_tool.machine.environment import check_torch
from fork_tool.machine.machine import Finding, LACKS, Machine, Need, this_machine
from fork_tool.machine.setup import setup
from fork_tool.machine.unpacked import has_objfw
from workshop import MAC, Workshop

DEBIAN = Machine("Linux", "x86_64", "Debian GNU/Linux 12", frozenset({"debian"}))
UBUNTU = Machine("Linux", "x86_64", "Ubuntu 24.04", frozenset({"ubuntu", "debian"}))
FEDORA = Machine("Linux", "x86_64", "Fedora 41", frozenset({"fedora"}))


def lacking(monkeypatch: pytest.MonkeyPatch, name: str = "clang-19", mac: str = "xcode-select --install") -> None:
    """Let the machine lack one thing."""
    need = Need("clang 19", "compiling", (), name, mac)
    for module in (setup_steps, doctor_module):
        monkeypatch.setattr(module, "needs_of", lambda _machine: (need,))


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Commands that `setup` would have run."""
    seen: list[str] = []

    def run(command: Sequence[str], *_arguments: object) -> int:
        seen.append(" ".join(command))
        return 0

    monkeypatch.setattr(setup_steps, "run_shown", run)
    monkeypatch.setattr(environment, "run_shown", run)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    return seen


def test_os_release_is_read(tmp_path: Path) -> None:
    path = tmp_path / "os-release"
    path.write_text('PRETTY_NAME="Ubuntu 24.04"\nID=ubuntu\nID_LIKE=debian\n')
    machine = this_machine(path)
    assert (machine.distribution, machine.is_debian) == ("Ubuntu 24.04", True)


@pytest.mark.parametrize(
    ("machine", "sentence"),
    [
        (Machine("Windows", "AMD64"), "This is Windows on AMD64"),
        (Machine("Linux", "aarch64"), "This is Linux on aarch64"),
        (Machine("Darwin", "x86_64"), "This Mac's processor is x86_64"),
    ],
)
def test_unsupported_machine(workshop: Workshop, machine: Machine, sentence: str) -> None:
    with pytest.raises(ForkToolError, match=sentence):
        list(setup(workshop.project, machine))
    assert any(finding.state == LACKS and sentence in finding.remedy for finding in examine(workshop, machine))


def examine(shop: Workshop, machine: Machine) -> list[Finding]:
    shop.layout.requirements.write_text("click==0.0.1\n")
    return doctor_module.examine(shop.project, machine)


@pytest.fixture
def lacks_clang(monkeypatch: pytest.MonkeyPatch, commands: list[str]) -> list[str]:
    """The commands of a machine that lacks one package and has all else."""
    lacking(monkeypatch)
    monkeypatch.delenv("MPSFORK_YES", raising=False)
    monkeypatch.setattr(setup_steps, "_has_candidate", lambda _package: True)
    monkeypatch.setattr(setup_steps, "unpack_objfw", lambda *_arguments: False)
    monkeypatch.setattr(setup_steps, "install_requirements", lambda *_arguments: False)
    monkeypatch.setattr(setup_steps, "fetch_apple_metadata", lambda *_arguments: False)
    return commands


INSTALL = ["apt-get update -qq", "apt-get install --yes -qq --no-install-recommends clang-19"]


def test_missing_packages_are_installed(workshop: Workshop, lacks_clang: list[str]) -> None:
    assert list(setup(workshop.project, DEBIAN)) == ["installed clang-19"]
    assert lacks_clang == INSTALL


@pytest.mark.parametrize(("answer", "yes"), [("n", False), ("y", False), ("n", True)])
def test_a_terminal_is_asked_first(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, lacks_clang: list[str], answer: str, yes: bool
) -> None:
    asked: list[str] = []
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("click.confirm", lambda question, **_options: asked.append(question) or answer == "y")
    if yes:
        monkeypatch.setenv("MPSFORK_YES", "1")
    if answer == "n" and not yes:
        with pytest.raises(ForkToolError, match="Nothing was installed. Install clang-19 by other means"):
            list(setup(workshop.project, DEBIAN))
        assert "apt-get install" not in " ".join(lacks_clang)
    else:
        assert list(setup(workshop.project, DEBIAN)) == ["installed clang-19"]
        assert lacks_clang == INSTALL
    assert asked == ([] if yes else ["Install clang-19 with apt-get?"])


@pytest.mark.parametrize("machine", [DEBIAN, UBUNTU])
def test_browser_is_installed_but_not_as_a_snap(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, lacks_clang: list[str], machine: Machine
) -> None:
    monkeypatch.setattr(setup_steps, "this_machine", lambda: machine)
    monkeypatch.setattr("shutil.which", lambda _name: None)
    setup_steps.install_browser(workshop.project)
    assert [command.split()[-1] for command in lacks_clang[1:]] == ["chromium-headless-shell"] * (machine is DEBIAN)


def test_release_without_the_package(workshop: Workshop, monkeypatch: pytest.MonkeyPatch, commands: list[str]) -> None:
    lacking(monkeypatch)
    monkeypatch.setattr(setup_steps, "_has_candidate", lambda _package: False)
    with pytest.raises(
        ForkToolError, match=r"Debian GNU/Linux 12 has no package clang-19: use Debian 12, Ubuntu 24\.04"
    ):
        list(setup(workshop.project, DEBIAN))


def test_no_root_and_no_sudo(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    lacking(monkeypatch)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr("shutil.which", lambda _name: None)
    with pytest.raises(ForkToolError, match="there is no sudo: run `apt-get update -qq` as root"):
        list(setup(workshop.project, DEBIAN))


def test_other_systems_are_told_what_to_install(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    lacking(monkeypatch)
    with pytest.raises(ForkToolError, match="Fedora 41 is neither Debian nor Ubuntu, and clang 19 are missing"):
        list(setup(workshop.project, FEDORA))
    with pytest.raises(ForkToolError, match="This Mac lacks clang 19: run `xcode-select --install`"):
        list(setup(workshop.project, MAC))


def test_doctor_names_what_installs(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    lacking(monkeypatch)
    rows = {finding.name: finding for finding in examine(workshop, DEBIAN)}
    assert (rows["clang 19"].state, rows["clang 19"].remedy) == ("lacks", "make setup")
    assert rows["requirements"].detail == "torch==0.1, click==0.0.1"
    assert rows["series"].remedy == "make apply"
    on_mac = {finding.name: finding for finding in examine(workshop, MAC)}
    assert on_mac["clang 19"].remedy == "xcode-select --install"
    assert "ObjFW" not in on_mac
    assert "simulator" not in on_mac
    workshop.good("apply")
    assert {finding.name: finding for finding in examine(workshop, DEBIAN)}["series"].state == "ok"


def test_requirements_are_installed_once(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, commands: list[str]
) -> None:
    versions = {"torch": "0.1+cpu", "click": "1"}
    monkeypatch.setattr(environment, "installed_version", versions.get)
    workshop.layout.environment.mkdir()
    workshop.layout.requirements.write_text("# why\nclick==2  # pinned\n\n")
    pin = workshop.project.pin
    assert environment.install_requirements(workshop.layout, pin, DEBIAN)
    assert commands[0].endswith("--quiet click==2")
    assert not environment.install_requirements(workshop.layout, pin, DEBIAN)
    versions["torch"] = "0.2"
    assert environment.install_requirements(workshop.layout, pin, DEBIAN)
    assert commands[1].endswith("torch==0.1 click==2")
    assert not environment.install_requirements(workshop.layout, pin, MAC) or "torch" not in commands[-1]


@pytest.mark.parametrize(
    ("version", "sentence"), [(None, "There is no torch in"), ("2.0", "has torch 2.0, and the series stands on 0.1")]
)
def test_wrong_torch(workshop: Workshop, monkeypatch: pytest.MonkeyPatch, version: str | None, sentence: str) -> None:
    monkeypatch.setattr(environment, "installed_version", lambda _name: version)
    with pytest.raises(ForkToolError, match=sentence):
        check_torch(workshop.layout, workshop.project.pin, DEBIAN)
    monkeypatch.setattr(environment, "installed_version", lambda _name: "0.1+cu124")
    check_torch(workshop.layout, workshop.project.pin, DEBIAN)


def test_torch_of_a_mac_is_the_patched_one(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    pin = workshop.project.pin
    pin = pin.model_copy(update={"wheel_name": "pytest", "wheel_version": "7"})
    monkeypatch.setattr(environment, "installed_version", lambda _name: "7a0+git1234")
    check_torch(workshop.layout, pin, MAC)
    workshop.overlay("torch/mps/graphs_of_ours.py")
    with pytest.raises(ForkToolError, match="is not built from the patched checkout"):
        check_torch(workshop.layout, pin, MAC)
    with pytest.raises(ForkToolError, match="has pytest 7a0"):
        check_torch(workshop.layout, pin, DEBIAN)


def test_objfw_is_unpacked_once_and_whole(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    package = PinnedFile(name="lib_1_amd64.deb", size=1, sha256="3" * 64)
    pin = workshop.project.pin.model_copy(update={"objfw_packages": (package, package)})
    file = workshop.root / package.name
    file.write_text("<html>")
    monkeypatch.setattr(objfw_module, "fetch_file", lambda *_arguments: file)
    monkeypatch.setattr(objfw_module, "find_mirrors", list)
    with pytest.raises(ForkToolError, match=r"lib_1_amd64\.deb is no Debian package: delete it"):
        objfw_module.unpack_objfw(workshop.layout, pin)
    assert list(workshop.layout.objfw.parent.iterdir()) == []
    monkeypatch.setattr(objfw_module, "unpack_package", lambda _file, into, _below: (into / "usr").mkdir(exist_ok=True))
    assert objfw_module.unpack_objfw(workshop.layout, pin)
    assert not objfw_module.unpack_objfw(workshop.layout, pin)
    assert has_objfw(workshop.layout, pin)


def test_system_errors_are_sentences() -> None:
    assert describe(OSError(28, "No space left on device", "/build")).startswith(
        "The disk is full at /build: make room"
    )
    assert describe(PermissionError(13, "Permission denied", "/x")).startswith("No permission to write at /x")
    assert describe(OSError(5, "Input/output error")) == "The operating system refused: Input/output error."
