"""`mutants`: what is applied, built and run, and what counts as caught."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import pytest

from fork_tool.paths import own_layout
from fork_tool.series.project import Project
from fork_tool.suites.mutants import run as mutants_module
from fork_tool.suites.mutants.build import COMPILED, DoesNotBuild, MutantBuild
from fork_tool.suites.mutants.patch import DoesNotApply, MutantSuite, mutated, read_file
from fork_tool.suites.mutants.suites import GREEN, MutantSuites, NOTICED, Result, TIMED_OUT
from fork_tool.suites.suite import load_suites
from workshop import command_git, LINUX, Workshop

HEADER = "Line five is lost.\nSuite: fork tool: test/a.py\nSuite: capture cases: test_b.py -k c\n"
DIFF = "File: aten/Stream.mm\n line 4\n-line 5\n line 6\n"
# A mutant of a check, which needs no build.
OF_A_CHECK = """The check always says yes.
Suite: fork tool: test/a.py
File: test/check.py
-good = 1 + 1 == 2
+good = True
"""


class Bench:
    """A repository with mutants, and suites and a build that say what they are told to."""

    def __init__(self, shop: Workshop, monkeypatch: pytest.MonkeyPatch):
        self.shop = shop
        self.done: list[str] = []
        # By the mutant's name, or "" without a fault: what its suites say, one after the other.
        self.results: dict[str, list[Result | BaseException]] = {}
        self.broken = ""
        self.directory = shop.root / "test" / "mutants"
        self.directory.mkdir(parents=True)
        (shop.root / "test" / "check.py").write_text("good = 1 + 1 == 2\n")
        (shop.root / "test" / "a.py").touch()
        (shop.root / ".gitignore").write_text("build/\n")
        command_git(shop.root, "init", "--quiet")
        bench = self

        def make(_self: MutantBuild, changed: dict[Path, Path], _checkout: Path) -> None:
            if any(bench.broken in str(path) and bench.broken for path in changed):
                raise DoesNotBuild("Stream.mm:5: error: no")
            bench.done.append("build " + " ".join(sorted(path.name for path in changed)))

        def run(
            _self: MutantSuites, suites: Sequence[MutantSuite], _limit: float, log: Path, stop: bool = True
        ) -> Result:
            name = "" if log.stem == "baseline" else log.stem
            bench.done.append(f"{name or 'without'}: {'; '.join(str(suite) for suite in suites)}")
            left = bench.results.get(name, [])
            result = left.pop(0) if left else Result(GREEN)
            if isinstance(result, BaseException):
                raise result
            return result

        monkeypatch.setattr(MutantBuild, "make", make)
        monkeypatch.setattr(MutantSuites, "run", run)
        monkeypatch.setattr(mutants_module, "make_ready", lambda *_arguments, **_options: None)
        monkeypatch.setattr(mutants_module, "simulator_machine", lambda: LINUX)

    def add(self, name: str, text: str) -> None:
        (self.directory / f"{name}.patch").write_text(f"Mutant: {name}: {text}")

    def report(self) -> dict[str, Any]:
        report: dict[str, Any] = json.loads((self.shop.layout.reports / "mutants.json").read_text())
        return report

    def outcomes(self) -> dict[str, str]:
        """By the mutant's name."""
        return {row["name"]: row["outcome"] for row in self.report()["mutants"]}


@pytest.fixture
def bench(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> Bench:
    made = Bench(workshop, monkeypatch)
    made.add("lost", HEADER + DIFF)
    return made


def test_caught(bench: Bench) -> None:
    bench.results["lost"] = [Result(GREEN), Result(NOTICED, "TestB::test_c")]
    said = bench.shop.good("mutants")
    assert bench.done == [
        "build Stream.mm",
        "without: fork tool: test/a.py",
        "without: capture cases: test_b.py -k c",
        "build Stream.mm",
        "lost: fork tool: test/a.py",
        "lost: capture cases: test_b.py -k c",
    ]
    assert "[1/1] lost: caught by capture cases: TestB::test_c" in said
    report = bench.report()
    assert report["complete"]
    assert {name: count for name, count in report["totals"].items() if count} == {"caught": 1}
    [row] = report["mutants"]
    assert (row["suite"], row["test"]) == ("capture cases", "TestB::test_c")
    assert row["unnoticed"] == ["fork tool: test/a.py"]


def test_survivor_is_a_failure(bench: Bench) -> None:
    result = bench.shop.run("mutants")
    assert result.return_value == 1
    assert "lost: SURVIVED fork tool: test/a.py, capture cases: test_b.py -k c" in result.output
    assert bench.outcomes() == {"lost": "survived"}


@pytest.mark.parametrize("times", [0, 2])
def test_does_not_apply(bench: Bench, times: int) -> None:
    bench.shop.write({"aten/Stream.mm": "line 4\nline 5\nline 6\n" * times})
    result = bench.shop.run("mutants")
    assert result.return_value == 1
    assert bench.outcomes() == {"lost": "does not apply"}
    assert bench.report()["totals"]["caught"] == 0
    assert f"'line 4' with what follows is {'there 2 times' if times else 'not there'}" in result.output


def test_applies_where_the_lines_have_moved(bench: Bench) -> None:
    text = (bench.shop.checkout / "aten" / "Stream.mm").read_bytes()
    mutant = read_file(bench.directory / "lost.patch")[0]
    [moved] = mutated(mutant.files, lambda _path: b"new\n" * 30 + text).values()
    assert moved == b"new\n" * 30 + text.replace(b"line 5\n", b"")


def test_does_not_build(bench: Bench) -> None:
    bench.results["lost"] = [Result(NOTICED, "test")]
    bench.add("of-a-check", OF_A_CHECK)
    baseline = MutantBuild.make

    def make(self: MutantBuild, changed: dict[Path, Path], checkout: Path) -> None:
        baseline(self, changed, checkout)
        bench.broken = "Stream" if "build Stream.mm" in bench.done else ""

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MutantBuild, "make", make)
        result = bench.shop.run("mutants", "--mutant", "lost")
    assert result.return_value == 1
    assert bench.outcomes() == {"lost": "does not build"}
    assert "lost: does not build: Stream.mm:5: error: no" in result.output
    assert not [line for line in bench.done if line.startswith("lost:")]


def test_build_that_fails_without_a_fault_ends_the_run(bench: Bench) -> None:
    bench.broken = "Stream"
    assert "The build without a fault, made as a mutant's is, fails" in bench.shop.error("mutants")


def test_suite_that_is_red_without_the_fault_catches_nothing(bench: Bench) -> None:
    bench.results[""] = [Result(NOTICED, "test_red")]
    bench.results["lost"] = [Result(NOTICED, "test_red")]
    result = bench.shop.run("mutants")
    assert result.return_value == 1
    assert bench.outcomes() == {"lost": "suite fails without it"}
    assert "lost: suite fails without it: fork tool: test/a.py: test_red" in result.output


def test_red_one_of_several_is_found(bench: Bench) -> None:
    bench.add("of-a-check", OF_A_CHECK.replace("test/a.py", "test/c.py"))
    # Together, then one by one.
    bench.results[""] = [Result(NOTICED, "test_red"), Result(GREEN), Result(NOTICED, "test_red")]
    bench.results["lost"] = [Result(NOTICED, "test")]
    assert bench.shop.run("mutants").return_value == 1
    assert bench.outcomes() == {"lost": "caught", "of-a-check": "suite fails without it"}
    assert bench.done[1] == "without: fork tool: test/a.py; fork tool: test/c.py"


def test_timeout_counts_only_where_it_is_said(bench: Bench) -> None:
    bench.results["lost"] = [Result(TIMED_OUT, "no end within 120 s")]
    assert bench.shop.run("mutants").return_value == 1
    assert bench.outcomes() == {"lost": "timed out"}
    bench.add("lost", HEADER + "Timeout: counts\n" + DIFF)
    bench.results["lost"] = [Result(TIMED_OUT, "no end within 120 s")]
    assert "caught by fork tool: test/a.py by timeout" in bench.shop.good("mutants")


def test_fault_is_in_copies_alone(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.add("of-a-check", OF_A_CHECK)
    scratch = bench.shop.layout.build / "mutants"
    seen: list[tuple[str, bool]] = []

    def run(_self: MutantSuites, _suites: Sequence[MutantSuite], _limit: float, log: Path, stop: bool = True) -> Result:
        check = (scratch / "tree" / "test" / "check.py").read_text()
        stream = (scratch / "pytorch" / "aten" / "Stream.mm").read_text()
        seen.append((check, "line 5" in stream))
        assert (scratch / "pytorch" / "aten" / "Graph.mm").read_text() == "one\ntwo\nthree\n"
        assert (scratch / "pytorch" / "torch").is_symlink()
        return Result(GREEN if log.stem == "baseline" else NOTICED)

    monkeypatch.setattr(MutantSuites, "run", run)
    before = bench.shop.state()
    bench.shop.good("mutants")
    good = "good = 1 + 1 == 2\n"
    assert seen[2:] == [(good, False), ("good = True\n", True)]
    assert seen[:2] == [(good, True)] * 2
    assert bench.shop.state() == before
    assert (bench.shop.root / "test" / "check.py").read_text() == good


def test_interrupted(bench: Bench) -> None:
    bench.add("of-a-check", OF_A_CHECK)
    before = bench.shop.state()
    bench.results["lost"] = [Result(NOTICED, "test")]
    bench.results["of-a-check"] = [KeyboardInterrupt()]
    assert isinstance(bench.shop.run("mutants").exception, click.Abort)
    assert bench.shop.state() == before
    assert (bench.shop.root / "test" / "check.py").read_text() == "good = 1 + 1 == 2\n"
    assert not bench.report()["complete"]
    # The next run does what was left.
    bench.done.clear()
    bench.results["of-a-check"] = [Result(NOTICED, "test")]
    said = bench.shop.good("mutants", "--resume")
    assert "1 of 2 were run on these sources already." in said
    assert [line for line in bench.done if not line.startswith("without")] == [
        "build ",
        "build check.py",
        "of-a-check: fork tool: test/a.py",
    ]
    assert bench.outcomes() == {"lost": "caught", "of-a-check": "caught"}


@pytest.mark.parametrize("changed", ["mutant", "repository", "checkout", "page"])
def test_resume_goes_by_the_sources(bench: Bench, changed: str) -> None:
    bench.results["lost"] = [Result(NOTICED, "test")]
    bench.shop.good("mutants")
    bench.done.clear()
    if changed == "mutant":
        bench.add("lost", HEADER.replace("lost", "gone") + DIFF)
    elif changed == "repository":
        (bench.shop.root / "test" / "a.py").write_text("new = 1\n")
    elif changed == "checkout":
        bench.shop.write({"aten/Graph.mm": "new\n"})
    else:
        (bench.shop.root / "page.md").write_text("new\n")
    bench.results["lost"] = [Result(NOTICED, "test")]
    bench.shop.good("mutants", "--resume")
    assert bool(bench.done) == (changed != "page")


def test_one_mutant_and_the_list(bench: Bench) -> None:
    bench.add("of-a-check", OF_A_CHECK)
    bench.results["of-a-check"] = [Result(NOTICED, "test")]
    bench.shop.good("mutants", "--mutant", "of-a-check")
    assert bench.outcomes() == {"of-a-check": "caught"}
    assert not bench.report()["complete"]
    assert "There is no mutant 'other'" in bench.shop.error("mutants", "--mutant", "other")
    # What is known of the other one stays, as long as the sources are the same.
    bench.results["lost"] = [Result(NOTICED, "test")]
    bench.shop.good("mutants", "--mutant", "lost")
    assert bench.outcomes() == {"lost": "caught", "of-a-check": "caught"}
    assert bench.report()["complete"]
    bench.shop.write({"aten/Graph.mm": "new\n"})
    bench.results["lost"] = [Result(NOTICED, "test")]
    bench.shop.good("mutants", "--mutant", "lost")
    assert bench.outcomes() == {"lost": "caught"}
    bench.done.clear()
    said = bench.shop.good("mutants", "--list")
    assert "Line five is lost." in said and "capture cases: test_b.py -k c" in said
    assert not bench.done


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (HEADER, "has no line 'File: …'"),
        (DIFF, "needs its fault behind the name"),
        ("One.\n" + DIFF, "needs its fault behind the name, and lines 'Suite: "),
        (HEADER + DIFF.replace("-", " "), "changes nothing"),
        (HEADER + DIFF + "line 7\n", "has b'line 7' in a change"),
        (HEADER + "Author: me\n" + DIFF, "a line that is no field"),
        (HEADER + "Limit: long\n" + DIFF, "no number of seconds"),
        (HEADER.replace(": test/a.py", "") + DIFF, "names no tests"),
        (HEADER.replace("fork tool", "spoon tool") + DIFF, "There is no suite 'spoon tool'"),
    ],
)
def test_file_that_is_wrong(bench: Bench, text: str, complaint: str) -> None:
    bench.add("lost", text)
    assert complaint in bench.shop.error("mutants")


def test_mutants_of_make_test() -> None:
    [suite] = [suite for suite in load_suites(own_layout()) if suite.name == "mutants"]
    names = [word for before, word in zip(suite.words, suite.words[1:]) if before == "--mutant"]
    chosen = mutants_module.choose(Project(own_layout()), names)
    assert sorted(mutant.name for mutant in chosen) == sorted(names)
    compiled = [mutant for mutant in chosen if any(path.endswith(COMPILED) for path in mutant.paths)]
    # The others need no build.
    assert len(chosen) == 3 and len(compiled) == 1


def test_mutants_of_this_repository() -> None:
    mutants = mutants_module.choose(Project(own_layout()), [])
    names = {suite.name for suite in load_suites(own_layout())}
    for mutant in mutants:
        assert {suite.name for suite in mutant.suites} <= names, mutant.name
        assert mutant.fault.endswith("."), mutant.name
        assert len({mutant.fault for mutant in mutants}) == len(mutants)


def test_mutants_of_this_repository_apply() -> None:
    """Those on files of the overlay and of this repository: the others need a checkout."""
    layout = own_layout()
    stale = []
    for mutant in mutants_module.choose(Project(layout), []):
        for file in mutant.files:
            for path in (layout.overlay / file.path, layout.root / file.path):
                if path.is_file():
                    content = path.read_bytes()
                    try:
                        mutated([file], lambda _, content=content: content)
                    except DoesNotApply as problem:
                        stale.append(f"{mutant.name}: {problem}")
    assert stale == []
