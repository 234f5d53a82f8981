"""Which torch a Mac's tests run on: a wheel of the user's, the one that was built here, or none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fork_tool.machine.machine import Machine
from fork_tool.suites import runner as runner_module
from fork_tool.suites import simulator as simulator_module
from fork_tool.wheel import from_source as mac_torch_module
from fork_tool.wheel.from_source import bring_patched_torch, has_own_wheel, refuse_without_patched_torch
from workshop import MAC, Workshop

MODULE = "torch/mps/graphs.py"


class Mac:
    """A Mac on which nothing is really run, and what is installed there."""

    def __init__(self, shop: Workshop):
        self.shop = shop
        self.done: list[str] = []
        self.version: str | None = "0.1+mps.1"
        self.lacking: list[str] = []
        self.wheel_stands = False

    def run(self, *_arguments: object, **_options: object) -> int:
        self.done.append("run")
        return 0

    @property
    def stamp(self) -> Path:
        return self.shop.layout.environment / ".mpsfork-patched-torch"


@pytest.fixture
def mac(applied: Workshop, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mac]:
    """A Mac with a patched torch of the user's own."""
    made = Mac(applied)
    applied.layout.environment.mkdir(exist_ok=True)
    monkeypatch.setattr(mac_torch_module, "installed_version", lambda _name: made.version)
    monkeypatch.setattr(mac_torch_module, "lacking_modules", lambda *_arguments: made.lacking)
    monkeypatch.setattr(mac_torch_module, "wheel_stands", lambda _project: made.wheel_stands)
    monkeypatch.setattr(mac_torch_module, "install_patched_torch", lambda _project: made.done.append("wheel"))
    monkeypatch.setattr(mac_torch_module, "fetch", lambda _project: made.done.append("fetch"))
    monkeypatch.setattr(mac_torch_module, "bring_series", lambda _project: made.done.append("series"))
    monkeypatch.setattr(simulator_module, "setup", lambda *_arguments: iter(()))
    monkeypatch.setattr(simulator_module, "check_torch", lambda *_arguments: made.done.append("check"))
    monkeypatch.setattr(runner_module, "this_machine", lambda: MAC)
    monkeypatch.setattr(runner_module, "run_shown", made.run)
    yield made


def test_own_wheel_is_used(mac: Mac) -> None:
    assert has_own_wheel(mac.shop.project)
    bring_patched_torch(mac.shop.project)
    assert mac.done == ["series"]
    mac.shop.checkout.rename(mac.shop.root / "aside")
    bring_patched_torch(mac.shop.project)
    assert mac.done == ["series", "fetch", "series"]


def test_wheel_from_here_is_brought_up_to_date(mac: Mac) -> None:
    mac.stamp.touch()
    assert not has_own_wheel(mac.shop.project)
    bring_patched_torch(mac.shop.project)
    assert mac.done == ["wheel"]


@pytest.mark.parametrize(
    ("version", "lacking", "sentence"),
    [
        (None, [], "There is no torch in"),
        ("0.1", [MODULE], "The torch 0.1 in"),
    ],
)
@pytest.mark.parametrize("command", [("test",), ("test-mps", "-k", "test_add")])
def test_without_the_patched_torch_nothing_is_run(
    mac: Mac, version: str | None, lacking: list[str], sentence: str, command: tuple[str, ...]
) -> None:
    mac.version, mac.lacking = version, lacking
    said = mac.shop.error(*command)
    assert said.startswith(sentence)
    assert ("it has no torch.mps.graph_capture" in said) == (version is not None)
    assert "`make wheel` makes a patched one" in said
    assert "-m pip install WHEEL" in said
    assert "scripts/mac_wheel/README.md" in said
    assert mac.done == []
    assert not mac.shop.layout.reports.exists()


def test_wheel_that_was_built_is_installed(mac: Mac) -> None:
    mac.version, mac.lacking, mac.wheel_stands = "0.1", [MODULE], True
    # Another torch was installed over it.
    mac.stamp.touch()
    refuse_without_patched_torch(mac.shop.project)
    assert not mac.stamp.exists()
    mac.shop.run("test-mps")
    assert mac.done == ["wheel", "check", "run"]


def test_captured_run_must_capture(mac: Mac) -> None:
    mac.wheel_stands = True
    assert "No operator was captured" in mac.shop.error("test-mps", "--captured")
    assert mac.done[-1] == "run"


def test_demo_builds_what_lacks(mac: Mac) -> None:
    mac.version, mac.lacking = "0.1", [MODULE]
    mac.shop.good("demo")
    assert mac.done == ["wheel", "check", "run"]


def test_an_intel_mac_is_told_first(mac: Mac, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner_module, "this_machine", lambda: Machine("Darwin", "x86_64"))
    mac.version = None
    assert "This Mac's processor is x86_64" in mac.shop.error("test")
