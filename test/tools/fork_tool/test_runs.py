"""`simulator`, `demo`, `test`: what is made first, what is run, how it is counted."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from fork_tool.common.errors import ForkToolError
from fork_tool.common.files import remove
from fork_tool.common.git import Git
from fork_tool.machine import doctor as doctor_module
from fork_tool.machine import simulator_build as build_module
from fork_tool.machine.machine import Machine
from fork_tool.paths import own_layout
from fork_tool.suites import one_suite as one_suite_module
from fork_tool.suites import runner as runner_module
from fork_tool.suites import simulator as simulator_module
from fork_tool.suites import unpatched as unpatched_module
from fork_tool.suites.reports import Count, count_junit, count_status, count_totals
from fork_tool.suites.suite import STATUS, Suite, TOTALS
from fork_tool.suites.table import load_suites, SuiteTable
from workshop import Workshop

LINUX = Machine("Linux", "x86_64", "Debian", frozenset({"debian"}))
MAC = Machine("Darwin", "arm64")


@pytest.fixture
def bench(applied: Workshop, monkeypatch: pytest.MonkeyPatch) -> tuple[Workshop, list[str]]:
    """A machine that has everything, and the commands that were run on it."""
    commands: list[str] = []

    def run(command: Sequence[str], directory: Path, *_arguments: object, **_options: object) -> int:
        commands.append(" ".join(str(word) for word in command).replace(str(applied.root), "ROOT"))
        if "-S" in command:
            build = Path(command[command.index("-B") + 1])
            build.mkdir(parents=True, exist_ok=True)
            (build / "build.ninja").touch()
        return 0

    for module in (build_module, one_suite_module, runner_module):
        monkeypatch.setattr(module, "run_shown", run)
    for module in (simulator_module, runner_module, unpatched_module):
        monkeypatch.setattr(module, "this_machine", lambda: LINUX)
    for module in (simulator_module, unpatched_module):
        monkeypatch.setattr(module, "setup", lambda *_arguments: iter(["installed things"]))
        monkeypatch.setattr(module, "check_torch", lambda *_arguments: None)
    return applied, commands


CONFIGURE = (
    "cmake -S ROOT/test/simulator -B ROOT/build/simulator -G Ninja -DTORCH_CHECKOUT=ROOT/build/pytorch "
    "-DPYTHON=ROOT/.venv/bin/python -DOBJFW_ROOT=ROOT/build/toolchain/objfw"
)
BUILD = "cmake --build ROOT/build/simulator"


def test_simulator_is_configured_once(bench: tuple[Workshop, list[str]]) -> None:
    shop, commands = bench
    shop.good("simulator")
    shop.good("simulator")
    assert commands == [CONFIGURE, BUILD, BUILD]


def test_what_only_tests_run_is_built_when_asked(bench: tuple[Workshop, list[str]]) -> None:
    shop, commands = bench
    shop.good("simulator", "--tests")
    assert commands == [CONFIGURE, f"{BUILD} --target all tests"]
    del commands[:]
    shop.good("simulator", "--base-only", "--tests")
    assert commands[-1] == f"{BUILD}-base --target all tests"


def test_build_that_was_cut_off_is_no_simulator(
    bench: tuple[Workshop, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    shop, _ = bench
    shop.layout.requirements.write_text("")
    run = vars(build_module)["run_shown"]

    def simulator() -> tuple[str, str]:
        (found,) = [row for row in doctor_module.examine(shop.project, LINUX) if row.name == "simulator"]
        return found.state, found.detail

    def killed(command: Sequence[str], directory: Path, *arguments: object) -> int:
        if "--build" in command:
            raise KeyboardInterrupt
        run(command, directory)
        # CMake writes it when it configures.
        (shop.layout.simulator_build / "mps_simulator.json").write_text("{}")
        return 0

    assert simulator() == ("not yet", "build/simulator")
    with monkeypatch.context() as patch:
        patch.setattr(build_module, "run_shown", killed)
        assert shop.run("simulator").exit_code != 0
    assert simulator() == ("not yet", "build/simulator's last build did not come to its end")
    shop.good("simulator")
    assert simulator() == ("ok", "build/simulator")
    # A later build that is cut off, or fails, leaves the old one half replaced.
    with monkeypatch.context() as patch:
        patch.setattr(build_module, "run_shown", lambda *_arguments: 1)
        assert "does not build" in shop.error("simulator")
    assert simulator()[0] == "not yet"


def test_environment_of_another_working_copy_is_not_taken_over(
    bench: tuple[Workshop, list[str]], tmp_path: Path
) -> None:
    shop, commands = bench
    other = tmp_path / "other"
    simulator = other / "test" / "simulator"
    simulator.mkdir(parents=True)
    packages = other / ".venv" / "lib" / "python3.11" / "site-packages"
    packages.mkdir(parents=True)
    hook = packages / "mps_simulator.pth"
    hook.write_text(f"{simulator}\nimport os\n")
    shop.layout.environment.symlink_to(other / ".venv")
    error = shop.error("simulator")
    assert f"The environment .venv (a link to {other}/.venv) runs the simulator of {simulator}" in error
    assert "`rm .venv` and run this again" in error
    assert commands == []
    assert hook.read_text().startswith(str(simulator))
    shop.layout.requirements.write_text("")
    found = {row.name: row for row in doctor_module.examine(shop.project, LINUX)}
    assert found["environment"].state == "lacks"
    # One that is gone, or this one's own, is no hindrance.
    hook.write_text(f"{shop.layout.simulator_source}\nimport os\n")
    shop.good("simulator")
    hook.write_text(f"{tmp_path}/gone\nimport os\n")
    shop.good("simulator")


def test_simulator_of_the_base(bench: tuple[Workshop, list[str]]) -> None:
    shop, commands = bench
    said = shop.good("simulator", "--base-only")
    configure = CONFIGURE.replace("build/simulator", "build/simulator-base").replace("pytorch", "pytorch-base")
    assert commands == [configure, BUILD + "-base"]
    assert "python -m mps_simulator --build build/simulator-base" in said
    base = Git(shop.layout.base_checkout)
    assert base.resolve("HEAD") == shop.base
    assert shop.titles == ["[MPS] Add a recorder"]
    # What the user does there stays, in `make clean` too.
    (shop.layout.base_checkout / "aten" / "Graph.mm").write_text("mine\n")
    shop.good("simulator", "--base-only")
    shop.good("clean")
    assert (shop.layout.base_checkout / "aten" / "Graph.mm").read_text() == "mine\n"
    shop.good("clean", "--checkout")
    assert not shop.layout.base_checkout.exists()


def test_simulator_of_a_worktree_that_was_removed_by_hand(bench: tuple[Workshop, list[str]]) -> None:
    shop, _ = bench
    shop.good("simulator", "--base-only")
    remove(shop.layout.base_checkout)
    shop.good("simulator", "--base-only")
    assert (shop.layout.base_checkout / "aten" / "Graph.mm").exists()


def test_simulator_of_own_sources(bench: tuple[Workshop, list[str]], tmp_path: Path) -> None:
    shop, commands = bench
    own = tmp_path / "own"
    own.mkdir()
    assert "give the top of a checkout of PyTorch v0.1" in shop.error("simulator", "--checkout", str(own))
    backend = own / "aten" / "src" / "ATen" / "mps" / "MPSStream.mm"
    backend.parent.mkdir(parents=True)
    backend.touch()
    (own / "version.txt").write_text("0.2.0a0\n")
    assert "is PyTorch 0.2.0a0, and the rest" in shop.error("simulator", "--checkout", str(own))
    (own / "version.txt").write_text("0.1a0\n")
    shop.good("simulator", "--checkout", str(own))
    assert f"-DTORCH_CHECKOUT={own}" in commands[0]
    assert commands[-1] == BUILD + "-own"
    assert "give one of the two" in shop.error("simulator", "--base-only", "--checkout", str(own))


def test_fallback_commands(bench: tuple[Workshop, list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    shop, commands = bench
    program = "scripts/fallback_bench/run.py"
    shop.good("fallback-bench", "--operator", "linalg_qr", "--verbose")
    assert commands[-2:] == [
        BUILD,
        f"ROOT/.venv/bin/python -m mps_simulator {program} bench --operator linalg_qr --verbose",
    ]
    shop.good("fallback-percentage", "--timed", "mine.py:step")
    assert commands[-1] == f"ROOT/.venv/bin/python -m mps_simulator {program} percentage --timed mine.py:step"
    # Counting requests takes torch and no device.
    monkeypatch.setattr(runner_module, "setup", lambda *_arguments: iter(["installed things"]))
    commands.clear()
    assert "installed things" in shop.good("fallback-sync", "--issue", "1")
    assert commands == [f"ROOT/.venv/bin/python {program} sync --issue 1"]


def test_sanitized_suites(bench: tuple[Workshop, list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    shop, commands = bench
    shop.layout.reports.mkdir(parents=True)
    old = shop.layout.reports / "sanitizer-report-quiet.1"
    old.touch()
    quiet = Suite("quiet", ("-c", "pass"), "base.toml", counted=STATUS, on_device=True, sanitizer="address")
    monkeypatch.setattr(runner_module, "load_suites", lambda _layout: SuiteTable((), (), {"address": (quiet,)}))
    assert shop.run("test-sanitized").output.splitlines()[-1] == "1 passed, 0 failed"
    assert not old.exists()
    assert commands[2:] == [
        CONFIGURE.replace("build/simulator", "build/simulator-asan") + " -DSANITIZER=address,undefined",
        BUILD + "-asan --target all tests",
        "ROOT/.venv/bin/python -m mps_simulator --build ROOT/build/simulator-asan -c pass",
    ]

    def report(*_arguments: object, **_options: object) -> int:
        old.write_text("ERROR: AddressSanitizer\n")
        return 0

    # A report is a failure even where the program that made it was not asked how it ended.
    monkeypatch.setattr(one_suite_module, "run_shown", report)
    done = shop.run("test-sanitized")
    assert "ERROR: AddressSanitizer" in done.output
    assert done.output.splitlines()[-1] == "1 passed, 1 failed"
    assert done.return_value == 1


def test_demo_makes_what_it_needs(bench: tuple[Workshop, list[str]]) -> None:
    shop, commands = bench
    shop.git.run("checkout", "--quiet", "--detach", "base")
    shop.git.run("branch", "-D", "mps-graph")
    shop.good("demo", "--small")
    assert shop.titles == ["[MPS] Add a recorder"]
    assert commands == [CONFIGURE, BUILD, "ROOT/.venv/bin/python -m mps_simulator test/programs/demo/run.py --small"]


def test_on_a_mac_the_patched_torch_takes_the_simulators_place(
    bench: tuple[Workshop, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    shop, commands = bench
    monkeypatch.setattr(runner_module, "this_machine", lambda: MAC)
    monkeypatch.setattr(simulator_module, "bring_patched_torch", lambda _project: commands.append("the wheel"))
    shop.good("demo")
    assert commands == ["the wheel", "ROOT/.venv/bin/python test/programs/demo/run.py"]


def test_upstream_tests(bench: tuple[Workshop, list[str]]) -> None:
    shop, commands = bench
    shop.good("test-mps", "-k", "test_add")
    start = "ROOT/.venv/bin/python -m mps_simulator.run_test_mps"
    assert commands[-2:] == [
        f"{start} --file test_mps.py --macos 15.2 -k test_add",
        f"{start} --file test_mps.py --macos 14.5 -k test_add",
    ]
    commands.clear()
    shop.good("test-mps", "--macos", "13.3")
    assert [command for command in commands if command.startswith(start)] == [
        f"{start} --file test_mps.py --macos 13.3"
    ]
    commands.clear()
    shop.good("test-mps", "--more", "--jobs", "1")
    files = [command.split()[4] for command in commands if command.startswith(start)]
    assert files == list(runner_module.MORE_FILES)
    assert commands[-1] == f"{start} --file {files[-1]} --macos 15.2 --jobs 1"


def test_work_in_the_checkout_is_used_as_it_is(bench: tuple[Workshop, list[str]]) -> None:
    shop, _ = bench
    shop.write({"aten/Graph.mm": "edited\n"})
    assert "it is used as it is" in shop.good("simulator")
    mine = shop.commit("[MPS] Mine")
    assert "it is used as it is" in shop.good("simulator")
    assert shop.head == mine


def test_missing_checkout_is_fetched(bench: tuple[Workshop, list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    shop, _ = bench
    shop.checkout.rename(shop.root / "own")
    asked = []

    def fetch(_project: object, sources: tuple[str, ...]) -> bool:
        asked.append(sources)
        return (shop.root / "own").rename(shop.checkout) is not None

    monkeypatch.setattr(simulator_module, "fetch", fetch)
    shop.good("simulator")
    assert asked == [("debian", "git")]


def test_build_that_fails(bench: tuple[Workshop, list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    shop, _ = bench
    monkeypatch.setattr(build_module, "run_shown", lambda *_arguments: 1)
    assert "CMake could not configure the simulator" in shop.error("simulator")


def suite(name: str, code: str, counted: str = STATUS, on_device: bool = False) -> Suite:
    return Suite(name, ("-c", code, "{report}"), needs="base.toml", counted=counted, on_device=on_device)


def test_suites_run_in_order_and_are_counted(applied: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner_module, "make_ready_for_tests", lambda *_arguments: None)
    monkeypatch.setattr(one_suite_module, "device_command", lambda *_arguments: [sys.executable])
    applied.layout.python.parent.mkdir(parents=True)
    applied.layout.python.symlink_to(sys.executable)
    totals = {"passed": 4, "failed": 2, "errored": 1, "skipped": 2, "xfailed": 3, "xpassed": 0, "not_started": 1}
    report = {"totals": totals, "listed": 1, "tests": []}
    suites = (
        suite("good", "pass"),
        suite("bad", "raise SystemExit(3)", on_device=True),
        suite(
            "upstream", f"import sys; open(sys.argv[1], 'w').write({json.dumps(report)!r}); sys.exit(1)", counted=TOTALS
        ),
        Suite("absent", ("-c", "pass"), needs="test/nothing"),
        replace(suite("long", "raise SystemExit(3)"), by_name_only=True),
    )
    total = runner_module.run_suites(applied.project, [], suites)
    # "good" and 4 of upstream's; "bad", "absent" and 2 of upstream's that the list does not have
    assert str(total) == "5 passed, 4 failed, 2 skipped"
    assert (total.expected_failures, total.known_failures, total.not_run) == (3, 1, 1)
    assert str(runner_module.run_suites(applied.project, ["good"], suites)) == "1 passed, 0 failed"
    assert str(runner_module.run_suites(applied.project, ["long"], suites)) == "0 passed, 1 failed"
    with pytest.raises(
        ForkToolError, match="There is no suite 'gone': the suites are good, bad, upstream, absent, long"
    ):
        runner_module.run_suites(applied.project, ["gone"], suites)


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
    applied.layout.python.parent.mkdir(parents=True)
    applied.layout.python.symlink_to(sys.executable)
    program = f"""
import json, os, pathlib
folder = pathlib.Path(os.environ["PYTORCH_TEST_MPS_CAPTURE_REPORT"])
folder.mkdir(parents=True)
(folder / "1.json").write_text(json.dumps({{"operators": {operators}, "changed inputs": {changed}, "refusals": {{}}}}))
"""
    captured = replace(suite("captured", program), captured=True)
    total = runner_module.run_suites(applied.project, [], (captured,))
    assert (total.passed, total.failed) == (1, failed)
    assert said in " ".join(capsys.readouterr().out.split())


def test_exit_status_follows_the_count(applied: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    for failed in (0, 1):
        monkeypatch.setattr(
            runner_module, "run_suites", lambda *_arguments, failed=failed, **_options: Count(3, failed)
        )
        result = applied.run("test")
        assert result.output.splitlines()[-1] == f"3 passed, {failed} failed"
        assert result.return_value == failed


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


def test_suites_of_this_repository() -> None:
    names = [suite.name for suite in load_suites(own_layout()).suites]
    assert len(set(names)) == len(names)
    assert names[0] == "fork tool"
    targets = (own_layout().root / "Makefile").read_text()
    for name in "setup demo test wheel bench fetch apply refresh verify simulator export rebase mutants clean".split():
        assert f"\n{name}:" in targets
        assert re.search(rf"\t@\$\(MPSFORK\) {name}( \$\(.*)?\n", targets)
