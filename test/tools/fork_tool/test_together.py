"""Suites side by side: which run at once, what is printed of them, and what becomes of them on Ctrl-C."""

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fork_tool.common.processes import put_down
from fork_tool.suites import together
from fork_tool.suites.reports import Count, Outcome
from fork_tool.suites.suite import ALONE, BUILDS, Suite, WAITS
from workshop import LINUX, Workshop

# Says that it is there and waits for the other one; status 1 if that does not come.
MEET = """
import pathlib, sys, time
own, other = map(pathlib.Path, sys.argv[1:3])
own.touch()
end = time.monotonic() + 5
while not other.exists() and time.monotonic() < end:
    time.sleep(0.01)
time.sleep(0.2)
own.unlink()
sys.exit(not other.exists() and time.monotonic() >= end)
"""


@pytest.fixture
def shop(workshop: Workshop) -> Workshop:
    return workshop.with_python()


def suite(name: str, code: str, *words: str) -> Suite:
    return Suite(name, ("-c", code, *words))


def run(shop: Workshop, cores: int, *suites: Suite) -> list[Outcome]:
    outcomes: list[Outcome] = []
    together.run_together(shop.project, LINUX, suites, cores, outcomes.append)
    return outcomes


def meeting(tmp_path: Path) -> tuple[Suite, Suite]:
    places = [str(tmp_path / name) for name in "ab"]
    return suite("a", MEET, *places), suite("b", MEET, *reversed(places))


def failed(outcomes: list[Outcome]) -> set[str]:
    return {one.name for one in outcomes if one.count.failed}


def test_two_suites_of_one_core_run_at_once_on_two(shop: Workshop, tmp_path: Path) -> None:
    assert failed(run(shop, 2, *meeting(tmp_path))) == set()


def test_on_one_core_they_run_one_after_the_other(
    shop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = meeting(tmp_path)
    quick = replace(first, words=(first.words[0], MEET.replace("+ 5", "+ 0.2"), *first.words[2:]))
    assert failed(run(shop, 1, quick, replace(second, words=("-c", "pass")))) == {"a"}


def test_what_measures_time_has_all_cores_for_itself(shop: Workshop, tmp_path: Path) -> None:
    alone, other = meeting(tmp_path)
    alone = replace(alone, words=(alone.words[0], MEET.replace("+ 5", "+ 0.2"), *alone.words[2:]), load=ALONE)
    assert failed(run(shop, 2, alone, replace(other, words=("-c", "pass")))) == {"a"}


def test_of_those_that_build_one_runs() -> None:
    first, other = replace(suite("first", "pass"), load=BUILDS), replace(suite("other", "pass"), load=BUILDS)
    waiting = [first, other, suite("plain", "pass")]
    assert [each.name for each, _ in together.take_what_fits(waiting, 3, 3)] == ["first", "plain"]
    assert together.take_what_fits(waiting, 2, 3, building=True) == []
    assert together.take_what_fits(waiting, 2, 3) == [(other, 1)]


def test_a_spread_suite_is_told_its_cores_and_one_beside_it_waits_for_none(shop: Workshop) -> None:
    told = "import sys; sys.exit(sys.argv[1:] != ['8'])"
    assert failed(run(shop, 16, suite("spread", told, "{processes}"), suite("other", "pass"))) == set()
    assert suite("spread", told, "{processes}").cores(4) == 4
    assert suite("single", told).cores(4) == 1
    assert replace(suite("timed", told), load=ALONE).cores(16) == 16


def test_a_suite_that_waits_has_two_processes_on_one_core(shop: Workshop, tmp_path: Path) -> None:
    told = "import sys; sys.exit(sys.argv[1:] != ['2'])"
    assert (
        failed(run(shop, 2, replace(suite("slow", told, "{processes}"), load=WAITS), suite("other", "pass"))) == set()
    )
    first, second = meeting(tmp_path)
    assert failed(run(shop, 2, replace(first, words=(*first.words, "{processes}"), load=WAITS), second)) == set()


def test_each_output_is_printed_whole_and_every_suite_counted(
    shop: Workshop, capsys: pytest.CaptureFixture[str]
) -> None:
    chatty = "import sys, time\nfor _ in range(3): print(sys.argv[1] * 3, flush=True); time.sleep(0.1)\nprint(end='no end of line')"
    outcomes = run(
        shop,
        2,
        suite("first", chatty, "x"),
        suite("second", f"{chatty}\nsys.exit(3)", "y"),
        suite("absent", "pass", "test/nothing"),
    )
    assert {one.name: one.count for one in outcomes} == {
        "first": Count(passed=1),
        "second": Count(failed=1),
        "absent": Count(failed=1),
    }
    said = capsys.readouterr().out
    assert "xxx\nxxx\nxxx\nno end of line\nfirst: 1 passed, 0 failed (" in said
    assert "yyy\nyyy\nyyy\nno end of line\nsecond: 0 passed, 1 failed (" in said
    assert "test/nothing is missing" in said
    assert (shop.layout.reports / "first.log").read_text() == "xxx\n" * 3 + "no end of line"


def test_cpu_time_is_that_of_the_suite_and_not_of_the_other(shop: Workshop) -> None:
    works = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'sum(range(20_000_000))'], check=True)"
    for suites in ([suite("works", works)], [suite("works", works), suite("sleeps", "import time; time.sleep(1)")]):
        used = {one.name: one.cpu_seconds for one in run(shop, 2, *suites)}
        assert used["works"] is not None and used["works"] > 0.2
        if "sleeps" in used:
            assert used["sleeps"] is not None and used["sleeps"] < used["works"]


def test_a_suite_alone_is_shown_while_it_runs(shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(together, "start_logged", None)
    assert failed(run(shop, 2, suite("only", "pass"))) == set()


def test_interrupt_ends_what_runs(shop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[subprocess.Popen[bytes]] = []
    start = together.start_logged

    def remember(*arguments: object) -> subprocess.Popen[bytes]:
        begun.append(start(*arguments))  # type: ignore[arg-type]
        return begun[-1]

    def stop(_seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(together, "start_logged", remember)
    monkeypatch.setattr(together, "time", SimpleNamespace(sleep=stop, monotonic=time.monotonic))
    monkeypatch.setattr("fork_tool.common.processes._GRACE_SECONDS", 0.2)
    sleeps = suite("sleeps", "import time; time.sleep(60)")
    with pytest.raises(KeyboardInterrupt):
        run(shop, 2, sleeps, replace(sleeps, name="too"))
    assert len(begun) == 2
    assert all(process.poll() is not None for process in begun)


def test_what_does_not_listen_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fork_tool.common.processes._GRACE_SECONDS", 0.2)
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    began = time.monotonic()
    put_down([process])
    assert process.returncode == -9
    assert time.monotonic() - began < 5
    process.stdout.close()


@given(st.lists(st.sampled_from(["single", "spread", "timed"]), max_size=12), st.integers(1, 16))
def test_no_more_cores_are_taken_than_there_are(kinds: list[str], cores: int) -> None:
    known = {
        "single": suite("single", "pass"),
        "spread": suite("spread", "pass", "{processes}"),
        "timed": replace(suite("timed", "pass"), load=ALONE),
    }
    waiting = [known[kind] for kind in kinds]
    running: list[int] = []
    done = 0
    while waiting or running:
        running += [given for _, given in together.take_what_fits(waiting, cores - sum(running), cores)]
        assert len(running) >= 1
        assert min(running) >= 1 and sum(running) <= cores
        running.pop(0)
        done += 1
    assert done == len(kinds)
