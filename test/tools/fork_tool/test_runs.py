"""`simulator`, `demo`, `test`: what is made first, what is run, how it is counted."""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from fork_tool.common.files import remove
from fork_tool.common.git import Git
from fork_tool.machine import doctor as doctor_module
from fork_tool.machine import environment as environment_module
from fork_tool.machine import simulator_build as build_module
from fork_tool.machine.machine import Machine
from fork_tool.suites import one_suite as one_suite_module
from fork_tool.suites import runner as runner_module
from fork_tool.suites import simulator as simulator_module
from fork_tool.suites.suite import Suite
from workshop import LINUX, MAC, Workshop


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
    for module in (simulator_module, runner_module):
        monkeypatch.setattr(module, "this_machine", lambda: LINUX)
    monkeypatch.setattr(simulator_module, "setup", lambda *_arguments: iter(["installed things"]))
    monkeypatch.setattr(simulator_module, "check_torch", lambda *_arguments: None)
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


def test_what_has_not_changed_is_not_built_again(bench: tuple[Workshop, list[str]]) -> None:
    shop, commands = bench
    source = shop.layout.simulator_source / "metal" / "gpu.mm"
    source.parent.mkdir(parents=True)
    source.write_text("one\n")

    def built(*words: str) -> bool:
        del commands[:]
        shop.good(*words)
        return any(command.startswith(BUILD) for command in commands)

    assert built("demo")
    (shop.layout.simulator_build / "mps_simulator.json").write_text("{}")
    assert not built("demo")
    assert commands == ["ROOT/.venv/bin/python -m mps_simulator test/programs/demo/run.py"]
    assert built("test-mps") and not built("test-mps") and not built("demo")
    # Who asks for the build gets it.
    assert built("simulator")
    source.write_text("three\n")
    assert built("demo") and not built("demo")
    # Which changes a checkout has, CMake finds out each time.
    shop.write({"aten/Graph.mm": "edited\n"})
    assert built("demo") and built("demo")
    for title in ("[MPS] Mine", "[MPS] More"):
        shop.write({"aten/Graph.mm": title})
        shop.commit(title)
        assert built("demo") and not built("demo")
    shop.write({"aten/New.mm": "new\n"})
    assert built("demo")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build_module, "run_shown", lambda *_arguments: 1)
        assert "does not build" in shop.error("demo")
    (shop.checkout / "aten" / "New.mm").unlink()
    assert built("demo")


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
    quiet = Suite("quiet", ("-c", "pass"), on_device=True, mode="address")
    monkeypatch.setattr(runner_module, "load_suites", lambda _layout: (quiet,))
    assert shop.run("test", "--all").output.splitlines()[-1] == "1 passed, 0 failed"
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
    done = shop.run("test", "--all")
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


def test_program_of_the_user(
    bench: tuple[Workshop, list[str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shop, commands = bench
    started: list[tuple[str, list[str], dict[str, str]]] = []
    monkeypatch.setattr("os.execve", lambda *words: started.append(words))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").touch()
    monkeypatch.setattr("os.environ", {**os.environ})
    shop.good("run", "--yes", "mine.py", "--yes", "-n", "2")
    assert os.environ["MPSFORK_YES"] == "1"
    assert commands == [CONFIGURE, BUILD]
    [(path, words, environment)] = started
    python = str(shop.layout.python)
    assert (path, words) == (python, [python, "-m", "mps_simulator", "mine.py", "--yes", "-n", "2"])
    assert environment["PYTHONPATH"].startswith(str(shop.layout.simulator_source))
    assert Path.cwd() == tmp_path
    shop.good("run", "-m", "json.tool", "--help")
    assert started[1][1][-3:] == ["-m", "json.tool", "--help"]
    assert shop.error("run", "other.py") == f"There is no file other.py in {tmp_path}."
    monkeypatch.setattr(runner_module, "this_machine", lambda: MAC)
    monkeypatch.setattr(runner_module, "make_ready", lambda *_arguments: None)
    shop.good("run", "mine.py")
    assert started[2][1] == [python, "mine.py"]


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
    commands.clear()
    shop.good("test-mps", "--ported")
    wanted = [f"{start} --file {file} --macos 15.2 --ported" for file in runner_module.PORTED_FILES]
    assert [command for command in commands if command.startswith(start)] == wanted


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


@pytest.mark.parametrize(
    "command", ["test-patches", "test-as-release", "mutants", "lint-overlay", "simulator --base-only"]
)
def test_what_builds_the_simulator_is_refused_on_a_mac(
    bench: tuple[Workshop, list[str]], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setattr(simulator_module, "this_machine", lambda: MAC)
    assert "use Linux on x86-64" in bench[0].error(*command.split())


# On a Mac, tests run on the patched torch that is installed, and nothing is made without one.


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
