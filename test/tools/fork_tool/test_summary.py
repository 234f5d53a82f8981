"""The report of a run: what it counts, and what it says of the machine, be it a Mac or the simulator."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from fork_tool.machine.machine import Machine
from fork_tool.suites import runner as runner_module
from fork_tool.suites.reports import Count
from fork_tool.suites.suite import STATUS, Suite
from fork_tool.suites.summary import commit_of, MachineReport, Outcome, report_machine, Summary
from workshop import command_git, Workshop

LINUX = Machine("Linux", "x86_64", "Debian", frozenset({"debian"}))
MAC = Machine("Darwin", "arm64")
ANSWERS = {
    "sysctl -n hw.model": "Mac15,9",
    "sysctl -n machdep.cpu.brand_string": "Apple M3 Max",
    "sysctl -n hw.memsize": str(64 << 30),
    "sw_vers -productVersion": "15.5",
    "sw_vers -buildVersion": "24F74",
}


def read(shop: Workshop) -> dict[str, Any]:
    """The report, as a program sees it."""
    found: dict[str, Any] = json.loads((shop.layout.reports / "summary.json").read_text("utf-8"))
    return found


def page(shop: Workshop) -> str:
    """The report, as people see it."""
    return (shop.layout.reports / "summary.md").read_text("utf-8")


def test_mac_says_what_it_is() -> None:
    found = report_machine(MAC, ask=lambda *words: ANSWERS[" ".join(words)])
    assert (found.runs_on, found.model, found.chip) == ("device", "Mac15,9", "Apple M3 Max")
    assert (found.memory, found.macos, found.system) == (64 << 30, ("15.5",), "macOS 24F74")
    assert found.sentence().startswith("device: Mac15,9, Apple M3 Max, ")
    assert found.sentence().endswith(" cores, 64 GiB, macOS 15.5")


def test_mac_that_does_not_answer() -> None:
    found = report_machine(MAC, ask=lambda *_words: "")
    assert (found.runs_on, found.chip, found.memory) == ("device", "arm64", 0)


def test_simulator_says_that_it_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MPS_SIMULATOR_MACOS", raising=False)
    info = tmp_path / "cpuinfo"
    info.write_text("processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nmodel name\t: Other\n")
    found = report_machine(LINUX, cpu_info=info)
    assert (found.runs_on, found.macos, found.chip, found.system) == (
        "simulator",
        ("15.2",),
        "Some CPU @ 2 GHz",
        "Debian",
    )
    assert found.sentence().startswith(f"simulator of macOS 15.2 on Some CPU @ 2 GHz, {found.cores} cores")
    assert found.sentence().endswith("no GPU was used")
    assert (
        report_machine(LINUX, ("15.2", "14.5"), cpu_info=info).sentence().startswith("simulator of macOS 15.2 and 14.5")
    )
    monkeypatch.setenv("MPS_SIMULATOR_MACOS", "13.3")
    assert report_machine(LINUX, cpu_info=tmp_path / "none").macos == ("13.3",)


MACHINE = MachineReport("device", "Mac15,9", "Apple M3 Max", 16, 64 << 30, ("15.5",), "macOS 24F74")


def test_suites_are_written_down_as_they_end(workshop: Workshop) -> None:
    summary = Summary(workshop.project, "test", MACHINE, "0.1+mps.1")
    assert read(workshop)["suites"] == []
    summary.add(Outcome("first", Count(3, 1, 2), 1.26, 2.52))
    assert read(workshop)["complete"] is False
    assert "did not come to its end" in page(workshop)
    summary.add(Outcome("second", Count(1000, expected_failures=1392, known_failures=22, not_run=2), 61))
    summary.write(True)
    found = read(workshop)
    assert found["complete"] is True
    none = {"expected_failures": 0, "known_failures": 0, "not_run": 0}
    times = {"seconds": 1.3, "cpu_seconds": 2.5}
    assert found["suites"][0] == {"name": "first", "passed": 3, "failed": 1, "skipped": 2, **times, **none}
    assert found["suites"][1]["cpu_seconds"] is None
    assert found["total"] == {
        "passed": 1003,
        "failed": 1,
        "skipped": 2,
        "expected_failures": 1392,
        "known_failures": 22,
        "not_run": 2,
    }
    assert found["base"] == {"tag": "v0.1", "commit": workshop.base}
    assert found["torch"] == "0.1+mps.1"
    assert found["machine"]["runs_on"] == "device"
    lines = page(workshop).splitlines()
    everything = "1,003 passed, 1 failed, 2 skipped, 1,392 expected failures, 22 known failures, 2 not run"
    assert lines[0] == f"# test: {everything}"
    assert "On device: Mac15,9, Apple M3 Max, 16 cores, 64 GiB, macOS 15.5." in lines
    assert lines[-5] == "| suite | passed | failed | skipped | expected failures | known failures | not run | time |"
    # Suites may run side by side: the last line is of the clock.
    assert lines[-1] == "| all | 1,003 | 1 | 2 | 1,392 | 22 | 2 | 0 s |"


def test_commit_of_the_repository(tmp_path: Path) -> None:
    assert commit_of(tmp_path) == "unknown"
    command_git(tmp_path, "init", "--quiet")
    (tmp_path / "file").write_text("one\n")
    command_git(tmp_path, "add", "file")
    command_git(tmp_path, "commit", "--quiet", "--message=first")
    commit = command_git(tmp_path, "rev-parse", "HEAD")
    assert commit_of(tmp_path) == commit
    (tmp_path / "file").write_text("two\n")
    assert commit_of(tmp_path) == f"{commit} with changes"


def test_suites_of_a_run(applied: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner_module, "make_ready_for_tests", lambda *_arguments: None)
    monkeypatch.setattr(runner_module, "this_machine", lambda: LINUX)
    applied.layout.python.parent.mkdir(parents=True)
    applied.layout.python.symlink_to(sys.executable)
    tools: list[object] = []
    monkeypatch.setattr(runner_module, "install_upstream_tools", tools.append)
    suites = (
        Suite("good", ("-c", "pass"), "base.toml", counted=STATUS),
        Suite("bad", ("-c", "raise SystemExit(3)"), "base.toml", counted=STATUS, upstream_tools=True),
    )
    runner_module.run_suites(applied.project, ["good"], suites)
    assert [(suite["name"], suite["passed"]) for suite in read(applied)["suites"]] == [("good", 1)]
    assert read(applied)["command"] == "test --suite 'good'"
    assert tools == []
    runner_module.run_suites(applied.project, [], suites)
    found = read(applied)
    # In the order in which they end, and these two run side by side.
    assert sorted((suite["name"], suite["failed"]) for suite in found["suites"]) == [("bad", 1), ("good", 0)]
    assert (found["command"], found["complete"], found["machine"]["runs_on"]) == ("test", True, "simulator")
    assert len(tools) == 1


def test_upstream_tests_on_the_simulator(applied: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    totals = {"passed": 4, "failed": 0, "errored": 0, "skipped": 2, "xfailed": 3, "xpassed": 0, "not_started": 1}

    def run(command: list[str], *_arguments: object, **_options: object) -> int:
        version = command[command.index("--macos") + 1]
        path = applied.layout.reports / f"test_mps_{version}.json"
        path.write_text(json.dumps({"totals": totals, "listed": 0}))
        return 0

    monkeypatch.setattr(runner_module, "make_ready_for_tests", lambda *_arguments: None)
    monkeypatch.setattr(runner_module, "this_machine", lambda: LINUX)
    monkeypatch.setattr(runner_module, "run_shown", run)
    applied.good("test-mps")
    found = read(applied)
    assert found["machine"]["macos"] == ["15.2", "14.5"]
    assert [
        (suite["name"], suite["passed"], suite["expected_failures"], suite["not_run"]) for suite in found["suites"]
    ] == [
        ("test_mps.py on macOS 15.2", 4, 3, 1),
        ("test_mps.py on macOS 14.5", 4, 3, 1),
    ]


def test_upstream_tests_on_a_mac(applied: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_arguments: object, **_options: object) -> int:
        cases = '<testsuites><testcase name="a"/><testcase name="b"><failure/></testcase></testsuites>'
        (applied.layout.reports / "test_mps.xml").write_text(cases)
        return 1

    monkeypatch.setattr(runner_module, "make_ready_for_tests", lambda *_arguments: None)
    monkeypatch.setattr(runner_module, "this_machine", lambda: MAC)
    monkeypatch.setattr(runner_module, "run_shown", run)
    assert applied.run("test-mps").return_value == 1
    found = read(applied)
    assert (found["machine"]["runs_on"], found["complete"]) == ("device", True)
    assert (found["total"]["passed"], found["total"]["failed"], found["total"]["skipped"]) == (1, 1, 0)
