"""On a Mac, tests run on the patched torch that is installed, and nothing is made without one."""

import pytest

from fork_tool.machine import environment as environment_module
from fork_tool.machine.machine import Machine
from fork_tool.suites import runner as runner_module
from fork_tool.suites import simulator as simulator_module
from workshop import MAC, Workshop


@pytest.fixture
def done(applied: Workshop, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was done on a Mac on which nothing is really run."""
    made: list[str] = []
    monkeypatch.setattr(simulator_module, "setup", lambda *_arguments: iter(made.append("setup") or ()))
    monkeypatch.setattr(simulator_module, "fetch", lambda *_arguments, **_options: made.append("fetch"))
    monkeypatch.setattr(simulator_module, "bring_series", lambda _project: made.append("series"))
    monkeypatch.setattr(runner_module, "this_machine", lambda: MAC)
    monkeypatch.setattr(runner_module, "run_shown", lambda *_arguments, **_options: made.append("run") or 0)
    monkeypatch.setattr(environment_module, "installed_version", lambda _name: "0.1+mps.1")
    monkeypatch.setattr(environment_module, "lacking_modules", lambda *_arguments: [])
    return made


def test_patched_torch_is_used(applied: Workshop, done: list[str]) -> None:
    applied.good("demo")
    assert done == ["setup", "series", "run"]
    assert "No operator was captured" in applied.error("test-mps", "--captured")
    applied.checkout.rename(applied.root / "aside")
    done.clear()
    applied.good("demo")
    assert done == ["setup", "fetch", "series", "run"]


@pytest.mark.parametrize(("version", "sentence"), [(None, "There is no torch in"), ("0.1", "The torch 0.1 in")])
@pytest.mark.parametrize("command", [("test",), ("test-mps", "-k", "test_add")])
def test_without_the_patched_torch_nothing_is_run(
    applied: Workshop,
    done: list[str],
    monkeypatch: pytest.MonkeyPatch,
    version: str | None,
    sentence: str,
    command: tuple[str, ...],
) -> None:
    monkeypatch.setattr(environment_module, "installed_version", lambda _name: version)
    monkeypatch.setattr(environment_module, "lacking_modules", lambda *_arguments: ["torch/mps/graphs.py"])
    said = applied.error(*command)
    assert said.startswith(sentence)
    assert "`make wheel` makes a patched one" in said and "-m pip install WHEEL" in said
    assert done == [] and not applied.layout.reports.exists()


def test_an_intel_mac_is_told_first(applied: Workshop, done: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner_module, "this_machine", lambda: Machine("Darwin", "x86_64"))
    assert "This Mac's processor is x86_64" in applied.error("test")
    assert done == []
