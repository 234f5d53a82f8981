"""When a suite has noticed a fault: tests that fail, and nothing else that goes wrong."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fork_tool.machine.machine import Machine
from fork_tool.suites.mutants import suites as mutants_suites
from fork_tool.suites.mutants.patch import MutantSuite
from fork_tool.suites.mutants.place import MutantPlace
from fork_tool.suites.mutants.suites import GREEN, MutantSuites, NOT_RUN, NOTICED, TIMED_OUT
from fork_tool.suites.suite import STATUS, Suite
from fork_tool.suites.table import SuiteTable
from workshop import Workshop

TESTS = """
import os, signal, time
class TestAll:
    def test_good(self): pass
    def test_bad(self): assert False
    def test_dies(self): os.kill(os.getpid(), signal.SIGSEGV)
    def test_hangs(self):
        if os.fork() == 0:
            time.sleep(60)
        time.sleep(60)
"""
SUITES = (
    Suite("tests", (), needs="test"),
    Suite("device", (), needs="test", on_device=True),
    Suite("program", (), needs="test", counted=STATUS),
)


@pytest.fixture
def suites(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> MutantSuites:
    place = MutantPlace(workshop.layout)
    for name, text in {
        "test_all.py": TESTS,
        "test_broken.py": "import nothing_of_the_kind\n",
        "program.py": "import sys; sys.exit(int(sys.argv[1]))\n",
    }.items():
        path = place.tree / "test" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    # Programs on the device: here a package that runs none, or says no.
    package = place.tree / "test" / "simulator" / "mps_simulator"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(
        "import os, runpy, sys\n"
        "if sys.argv[1] == '-c': sys.exit(int(os.environ.get('LOST', '0')))\n"
        "sys.argv = sys.argv[2:]\n"
        "runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)\n"
    )
    monkeypatch.setattr(mutants_suites, "load_suites", lambda _layout: SuiteTable(SUITES, (), {}))
    made = MutantSuites(workshop.project, Machine("Linux", "x86_64", "Debian", frozenset({"debian"})), place)
    made._python = Path(sys.executable)
    return made


@pytest.mark.parametrize(
    ("suite", "words", "state", "detail"),
    [
        ("tests", "test/test_all.py::TestAll::test_good", GREEN, ""),
        (
            "tests",
            "test/test_all.py::TestAll::test_good test/test_all.py::TestAll::test_bad",
            NOTICED,
            "TestAll::test_bad",
        ),
        ("tests", "test/test_broken.py", NOT_RUN, "exit status 2"),
        ("tests", "test/no_such_file.py", NOT_RUN, "exit status 4"),
        ("tests", "test/test_all.py -k nothing_like_it", NOT_RUN, "exit status 5"),
        (
            "device",
            "test/test_all.py::TestAll::test_dies",
            NOTICED,
            "test/test_all.py::TestAll::test_dies (died of SIGSEGV)",
        ),
        ("tests", "test/test_all.py::TestAll::test_hangs", TIMED_OUT, "no end within 5 s"),
        ("program", "test/program.py 0", GREEN, ""),
        ("program", "test/program.py 1", NOTICED, "exit status 1"),
        ("program", "test/program.py 2", NOT_RUN, "exit status 2"),
    ],
)
def test_results(suites: MutantSuites, tmp_path: Path, suite: str, words: str, state: str, detail: str) -> None:
    limit = 5.0 if state == TIMED_OUT else 60.0
    result = suites.run([MutantSuite(suite, tuple(words.split()))], limit, tmp_path / "log.txt")
    assert (result.state, result.detail.split(",")[0]) == (state, detail)


def test_death_with_the_device_is_no_test_that_noticed(
    suites: MutantSuites, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOST", "1")
    suite = MutantSuite("device", ("test/test_all.py::TestAll::test_dies",))
    result = suites.run([suite], 30.0, tmp_path / "log.txt")
    assert result.state == NOT_RUN
    assert "nothing runs on the device any more" in result.detail


def test_what_can_be_run_as_one(suites: MutantSuites) -> None:
    assert suites.can_be_joined(MutantSuite("tests", ("test/a.py",)))
    assert not suites.can_be_joined(MutantSuite("tests", ("test/a.py", "-k", "b")))
    assert not suites.can_be_joined(MutantSuite("program", ("test/program.py",)))
