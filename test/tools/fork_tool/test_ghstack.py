"""`export --ghstack`: the branch, its messages, and that no work on it is lost."""

import pytest

from fork_tool.common.errors import ForkToolError
from fork_tool.paths import own_layout
from fork_tool.series.entries import Entry, parse_entry
from fork_tool.series.export import ISSUE, request_message
from fork_tool.series.project import Project
from workshop import command_git, Workshop

BRANCH = "mps-graph-ghstack"


def tip(shop: Workshop) -> str:
    return command_git(shop.checkout, "rev-parse", BRANCH)


def test_branch_holds_one_commit_per_entry(applied: Workshop) -> None:
    applied.commit(
        "[MPS] Second\n\nWhy.\n\nHow it works.\n\nAnd more.\n\nTest plan: `pytest -k it`", {"aten/Graph.mm": "2\n"}
    )
    applied.good("refresh")
    head, status = applied.head, applied.state()["status"]
    said = applied.good("export", "--ghstack")
    assert "2 commits on the branch mps-graph-ghstack" in said
    assert not applied.layout.export.exists()
    # What is checked out stays, and the branch has the same files, in a line from the base.
    assert (applied.head, applied.state()["status"]) == (head, status)
    assert applied.git.tree_of(BRANCH) == applied.git.tree_of("mps-graph")
    log = command_git(applied.checkout, "log", "--format=%P|%s", "--reverse", f"{applied.base}..{BRANCH}").splitlines()
    assert [line.split("|")[1] for line in log] == ["[MPS] Add a recorder", "[MPS] Second"]
    assert log[0].split("|")[0] == applied.base
    assert command_git(applied.checkout, "log", "-1", "--format=%B", BRANCH) == (
        f"[MPS] Second\n\n### Motivation\n\nWhy.\n\n{ISSUE}\n\n### Design\n\nHow it works.\n\nAnd more.\n\n"
        "### Test Plan\n\n`pytest -k it`"
    )
    assert "Entry:" not in command_git(applied.checkout, "log", "--format=%B", f"{applied.base}..{BRANCH}")
    before = tip(applied)
    applied.good("export", "--ghstack")
    assert tip(applied) == before


def test_changed_series_moves_the_branch(applied: Workshop) -> None:
    applied.good("export", "--ghstack")
    before = tip(applied)
    applied.overlay("aten/Recorder.h", "class Other;\n")
    applied.good("export", "--ghstack")
    assert tip(applied) != before
    assert command_git(applied.checkout, "show", f"{BRANCH}:aten/Recorder.h") == "class Other;"


def test_what_ghstack_wrote_is_not_lost(applied: Workshop) -> None:
    applied.good("export", "--ghstack")
    command_git(applied.checkout, "checkout", "--quiet", BRANCH)
    applied.commit("[MPS] Add a recorder\n\nghstack-source-id: 1", amend=True)
    assert "is checked out in build/pytorch" in applied.error("export", "--ghstack")
    command_git(applied.checkout, "checkout", "--quiet", "mps-graph")
    submitted = tip(applied)
    assert "is not as it was left here" in applied.error("export", "--ghstack")
    assert tip(applied) == submitted
    applied.good("export", "--ghstack", "--force")
    assert tip(applied) != submitted
    assert command_git(applied.checkout, "rev-parse", "refs/mpsfork/ghstack-backup") == submitted


def test_base_without_history_is_named(applied: Workshop) -> None:
    assert "Debian tarball" not in applied.good("export", "--ghstack")
    applied.write_pin(commit="0" * 40, tree=applied.git.tree_of(applied.base))
    assert "submit from a clone" in applied.good("export", "--ghstack")


@pytest.mark.parametrize("body", ["", "Why.", "Why.\n\nTest Plan:", "Test Plan: a\n\nTest Plan: b"])
def test_entry_without_test_plan(body: str) -> None:
    with pytest.raises(ForkToolError, match=r"Entry one has no test plan: end its body in patches/one\.patch"):
        request_message(Entry("one", "[MPS] One", body))


def test_benchmark_only_where_one_was_measured() -> None:
    body = "Why.\n\nHow.\n\nBenchmark: on an M3 with macOS 15.2, 4 ms → 1 ms.\nAnd more.\n\nTest Plan: ran it"
    assert request_message(Entry("one", "[MPS] One", body)) == (
        f"[MPS] One\n\n### Motivation\n\nWhy.\n\n{ISSUE}\n\n### Design\n\nHow.\n\n"
        "### Benchmark\n\non an M3 with macOS 15.2, 4 ms → 1 ms.\nAnd more.\n\n### Test Plan\n\nran it\n"
    )


def test_empty_series(workshop: Workshop) -> None:
    assert "nothing to export" in workshop.error("export", "--ghstack")


def test_every_entry_of_this_repository_makes_a_request() -> None:
    project = Project(own_layout())
    for name in project.series().names:
        entry = parse_entry(name, (project.layout.patches / f"{name}.patch").read_bytes())
        message = request_message(entry)
        assert message.startswith("[MPS] ")
        assert message.count("https://github.com/pytorch/pytorch/issues/180397") == 1
        assert "TODO" not in message
        assert ("### Benchmark" in message) == ("\nBenchmark:" in entry.body)
        assert [line for line in message.splitlines() if line.startswith("### ")][-1] == "### Test Plan"
