"""The table of suites, how suites are counted, and the report of a run."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fork_tool.common.errors import ForkToolError
from fork_tool.paths import own_layout
from fork_tool.suites import one_suite as one_suite_module
from fork_tool.suites import runner as runner_module
from fork_tool.suites.one_suite import SANITIZERS
from fork_tool.suites.reports import (
    commit_of,
    Count,
    count_junit,
    count_status,
    count_totals,
    machine_sentence,
    Outcome,
    Summary,
)
from fork_tool.suites.suite import BROWSER, CAPTURED, load_suites, Suite, UPSTREAM_TOOLS
from workshop import command_git, LINUX, MAC, Workshop


def test_table_of_this_repository() -> None:
    suites = load_suites(own_layout())
    names = [suite.name for suite in suites]
    assert len(names) > 20 and len(set(names)) == len(names)
    assert {suite.mode for suite in suites} >= set(SANITIZERS)
    page = (own_layout().root / "test" / "README.md").read_text("utf-8")
    assert [name for name in names if f"`{name}`" not in page] == []


def test_each_file_of_the_overlay_is_run() -> None:
    layout = own_layout()
    [cases] = [suite for suite in load_suites(layout) if suite.name == "capture cases"]
    files = {path.name for path in (layout.overlay / "test").glob("test_*.py")}
    assert files - set(cases.words) == set()


def test_what_suites_name_is_there() -> None:
    layout = own_layout()
    for suite in load_suites(layout):
        if suite.directory == "." or layout.checkout.exists():
            assert suite.missing(layout.root) == [], suite.name
    gone = ("-m", "pytest", "test/gone.py", "test/tools/gone.py::test_it", "build/gone.py")
    assert Suite("planted", gone).missing(layout.root) == ["test/gone.py", "test/tools/gone.py::test_it"]
    assert Suite("planted", ("gone.py",), directory="test").missing(layout.root) == ["gone.py"]


def test_table_of_the_working_copy_is_taken(workshop: Workshop) -> None:
    workshop.layout.suites.write_text(
        "from fork_tool.suites.suite import Suite\nSUITES = (Suite('own', ('-c', 'pass')),)\n"
    )
    assert [suite.name for suite in load_suites(workshop.layout)] == ["own"]
    assert "There is no suite 'fork tool': the suites are own." in workshop.error("test", "fork tool")
    assert workshop.error("test", "own", "--all") == "Give either names of suites or --all."


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (None, "test/suites.py is missing: bring it back with `git checkout -- test/suites.py`."),
        ("SUITES = (", "test/suites.py can't be read (SyntaxError: "),
        ("SUITS = ()\n", "test/suites.py can't be read (AttributeError: "),
        ("import nothing_of_the_kind\n", "test/suites.py can't be read (ModuleNotFoundError: "),
    ],
)
def test_a_table_that_cannot_be_read_is_told(workshop: Workshop, text: str | None, problem: str) -> None:
    if text is None:
        workshop.layout.suites.unlink()
    else:
        workshop.layout.suites.write_text(text)
    assert workshop.error("test").startswith(problem)


ANSWERS = {
    "sysctl -n hw.model": "Mac15,9",
    "sysctl -n machdep.cpu.brand_string": "Apple M3 Max",
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
    said = machine_sentence(MAC, ask=lambda *words: ANSWERS[" ".join(words)])
    assert said.startswith("device: Mac15,9, Apple M3 Max, ") and said.endswith(" GiB, macOS 15.5 (24F74)")


def test_simulator_says_that_it_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MPS_SIMULATOR_MACOS", raising=False)
    info = tmp_path / "cpuinfo"
    info.write_text("processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nmodel name\t: Other\n")
    said = machine_sentence(LINUX, cpu_info=info)
    assert said.startswith("simulator of macOS 15.2 on Some CPU @ 2 GHz, ")
    assert said.endswith(" GiB, Debian: no GPU was used")
    assert machine_sentence(LINUX, ("15.2", "14.5"), cpu_info=info).startswith("simulator of macOS 15.2 and 14.5")
    monkeypatch.setenv("MPS_SIMULATOR_MACOS", "13.3")
    assert machine_sentence(LINUX, cpu_info=tmp_path / "none").startswith("simulator of macOS 13.3 on x86_64, ")


def test_suites_are_written_down_as_they_end(workshop: Workshop) -> None:
    summary = Summary(workshop.project, "test", "device: a Mac", "0.1+mps.1")
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
    assert Count(**found["total"]) == Count(1003, 1, 2, 1392, 22, 2)
    assert found["base"] == {"tag": "v0.1", "commit": workshop.base}
    assert found["torch"] == "0.1+mps.1"
    assert found["machine"] == "device: a Mac"
    lines = page(workshop).splitlines()
    everything = "1,003 passed, 1 failed, 2 skipped, 1,392 expected failures, 22 known failures, 2 not run"
    assert lines[0] == f"# test: {everything}"
    assert "On device: a Mac." in lines
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
    applied.with_python()
    tools: list[object] = []
    for install in ("install_upstream_tools", "install_browser"):
        monkeypatch.setattr(runner_module, install, tools.append)
    suites = (
        Suite("good", ("-c", "pass")),
        Suite("bad", ("-c", "raise SystemExit(3)"), packages=UPSTREAM_TOOLS),
        Suite("pages", ("-c", "pass"), packages=BROWSER),
    )
    runner_module.run_suites(applied.project, ["good"], suites)
    assert [(suite["name"], suite["passed"]) for suite in read(applied)["suites"]] == [("good", 1)]
    assert read(applied)["command"] == "test 'good'"
    assert tools == []
    runner_module.run_suites(applied.project, [], suites, everything=True)
    found = read(applied)
    # In the order in which they end, and these two run side by side.
    assert sorted((suite["name"], suite["failed"]) for suite in found["suites"]) == [
        ("bad", 1),
        ("good", 0),
        ("pages", 0),
    ]
    assert (found["command"], found["complete"], found["machine"].split()[0]) == ("test --all", True, "simulator")
    assert len(tools) == 2


def test_what_a_visitor_runs(applied: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    """`make test`: the suites with `brief`, with its words; a suite that is named runs without them."""
    monkeypatch.setattr(runner_module, "make_ready_for_tests", lambda *_arguments: None)
    applied.with_python()
    suites = (
        Suite("whole", ("-c", "pass"), brief=()),
        Suite("short", ("-c", "import sys; sys.exit(len(sys.argv) == 1)"), brief=("less",)),
        Suite("long", ("-c", "raise SystemExit(3)")),
    )
    monkeypatch.setattr(runner_module, "load_suites", lambda _layout: suites)
    lines = applied.good("test").splitlines()[-3:]
    assert [line.partition(" (")[0] for line in lines] == [
        *("whole  1 passed, 0 failed", "short  1 passed, 0 failed", "2 passed, 0 failed"),
    ]
    assert {one["name"]: one["failed"] for one in read(applied)["suites"]} == {"whole": 0, "short": 0}
    assert applied.run("test", "short").return_value == 1
    assert applied.run("test", "--all").return_value == 1
    assert {one["name"]: one["failed"] for one in read(applied)["suites"]} == {"whole": 0, "short": 1, "long": 1}


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
    assert found["machine"].startswith("simulator of macOS 15.2 and 14.5 on ")
    counts = [[suite[name] for name in ("name", "passed", "expected_failures", "not_run")] for suite in found["suites"]]
    assert counts == [[f"test_mps.py on macOS {version}", 4, 3, 1] for version in ("15.2", "14.5")]


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
    assert (found["machine"].split(":")[0], found["complete"]) == ("device", True)
    assert (found["total"]["passed"], found["total"]["failed"], found["total"]["skipped"]) == (1, 1, 0)


def suite(name: str, code: str, on_device: bool = False) -> Suite:
    return Suite(name, ("-c", code, "{report}"), on_device=on_device)


def test_suites_run_in_order_and_are_counted(applied: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner_module, "make_ready_for_tests", lambda *_arguments: None)
    monkeypatch.setattr(one_suite_module, "device_command", lambda *_arguments: [sys.executable])
    applied.with_python()
    totals = {"passed": 4, "failed": 2, "errored": 1, "skipped": 2, "xfailed": 3, "xpassed": 0, "not_started": 1}
    report = {"totals": totals, "listed": 1, "tests": []}
    upstream = applied.root / "mps_simulator" / "run_test_mps.py"
    upstream.parent.mkdir()
    upstream.with_name("__init__.py").touch()
    upstream.write_text(f"import sys; open(sys.argv[1], 'w').write({json.dumps(report)!r}); sys.exit(1)")
    suites = (
        suite("good", "pass"),
        suite("bad", "raise SystemExit(3)", on_device=True),
        Suite("upstream", ("-m", "mps_simulator.run_test_mps", "{report}")),
        Suite("absent", ("-m", "pytest", "test/nothing")),
    )
    total = runner_module.run_suites(applied.project, [], suites, everything=True)
    # "good" and 4 of upstream's; "bad", "absent" and 2 of upstream's that the list does not have
    assert str(total) == "5 passed, 4 failed, 2 skipped"
    assert (total.expected_failures, total.known_failures, total.not_run) == (3, 1, 1)
    assert str(runner_module.run_suites(applied.project, ["good"], suites)) == "1 passed, 0 failed"
    with pytest.raises(ForkToolError, match="There is no suite 'gone': the suites are good, bad, upstream, absent"):
        runner_module.run_suites(applied.project, ["gone"], suites)


def test_failures_are_told_at_the_end(
    applied: Workshop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(runner_module, "make_ready_for_tests", lambda *_arguments: None)
    applied.with_python()
    lines = "".join(f"line {number}\n" for number in range(20))
    report = (
        f'<testsuites><testcase classname="T" name="a"><failure>{lines}E  1 != 2</failure></testcase>'
        '<testcase classname="T" name="b"/><testcase classname="T" name="c"><error message="no device"/></testcase></testsuites>'
    )
    bad = suite("bad", f"import sys; open(sys.argv[1], 'w').write({report!r}); sys.exit(1)")
    gone = Suite("gone", ("-m", "pytest", "test/nothing"))
    applied.layout.reports.mkdir(parents=True)
    (applied.layout.reports / "gone.xml").write_text(report)
    runner_module.run_suites(applied.project, [], (suite("good", "pass"), bad, gone), everything=True)
    said = capsys.readouterr().out.partition("bad   0 passed")[2]
    assert "failed, bad: T::a\n" in said and "E  1 != 2" in said and "line 9" in said and "line 8" not in said
    assert "failed, bad: T::c\n  no device" in said and "T::b" not in said
    assert "failed, gone" not in said


@pytest.mark.parametrize(
    ("operators", "changed", "failed", "said"),
    [
        ({"equal": 3, "refused": 1}, {"equal": 2}, 0, "operators: 3 equal, 1 refused"),
        ({}, {}, 1, "No operator was captured"),
        ({"equal": 3}, {"too large": 3}, 1, "No operator was replayed on changed inputs"),
        ({"equal": 3, "different": 2}, {"equal": 3}, 1, "2 replays differed from eager"),
        ({"equal": 3}, {"equal": 2, "different": 1}, 1, "1 replays differed from eager"),
    ],
)
def test_captured_suite(
    applied: Workshop,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    operators: dict[str, int],
    changed: dict[str, int],
    failed: int,
    said: str,
) -> None:
    """What a test that is expected to fail would hide fails the suite."""
    monkeypatch.setattr(runner_module, "make_ready_for_tests", lambda *_arguments: None)
    applied.with_python()
    program = f"""
import json, os, pathlib
folder = pathlib.Path(os.environ["PYTORCH_TEST_MPS_CAPTURE_REPORT"])
folder.mkdir(parents=True)
(folder / "1.json").write_text(json.dumps({{"operators": {operators}, "changed inputs": {changed}, "refusals": {{}}}}))
"""
    captured = replace(suite("captured", program), mode=CAPTURED)
    total = runner_module.run_suites(applied.project, [], (captured,), everything=True)
    assert (total.passed, total.failed) == (1, failed)
    assert said in " ".join(capsys.readouterr().out.split())


def test_junit_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "report.xml"
    path.write_text(
        '<testsuites><testsuite><testcase name="a"/><testcase name="b"><failure/></testcase>'
        '<testcase name="c"><error/></testcase><testcase name="d"><skipped type="pytest.skip"/></testcase>'
        '<testcase name="e"><skipped type="pytest.xfail"/></testcase></testsuite></testsuites>'
    )
    assert count_junit(path, 1) == Count(passed=1, failed=2, skipped=1, expected_failures=1)


def test_what_fails_is_no_pass(tmp_path: Path) -> None:
    """As upstream's 212 tests: 9 failed, 2 errored and 12 passed unexpectedly, as the list says; 1 was not started."""
    totals = {"passed": 150, "failed": 9, "errored": 2, "skipped": 4, "xfailed": 34, "xpassed": 12, "not_started": 1}
    path = tmp_path / "report"
    path.write_text(json.dumps({"totals": totals, "listed": 23}))
    count = count_totals(path, 0)
    assert count == Count(150, 0, 4, expected_failures=34, known_failures=23, not_run=1)
    assert str(count) == "150 passed, 0 failed, 4 skipped"
    assert count.whole() == "150 passed, 0 failed, 4 skipped, 34 expected failures, 23 known failures, 1 not run"
    # The list has one less: that is a failure.
    path.write_text(json.dumps({"totals": totals, "listed": 22}))
    assert count_totals(path, 1).failed == 1
    # A run in which no test was started is a failure.
    path.write_text(json.dumps({"totals": dict.fromkeys(totals, 0) | {"not_started": 3}, "listed": 0}))
    assert count_totals(path, 0).failed == 1


@pytest.mark.parametrize("count", [count_junit, count_totals])
def test_no_report_is_a_failure(tmp_path: Path, count: object) -> None:
    assert callable(count)
    path = tmp_path / "report"
    assert count(path, 0) == Count(failed=1)
    path.write_text("<half")
    assert count(path, 0) == Count(failed=1)


def test_a_run_that_proves_nothing_is_a_failure(tmp_path: Path) -> None:
    path = tmp_path / "report.xml"
    path.write_text("<testsuites/>")
    assert count_junit(path, 0) == Count(failed=1)
    path.write_text('<testsuites><testcase name="a"/></testsuites>')
    assert count_junit(path, 2) == Count(1, 1)
    assert count_status(0) == Count(1)
    assert count_status(-11) == Count(failed=1)
