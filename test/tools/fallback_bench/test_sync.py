"""Bringing targets.yaml up to date: what is merged, what is kept, and that nothing is lost."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

from fallback_bench.github import GitHub
from fallback_bench.sync import known_operators, Outcome, sync
from fallback_bench.targets import load, Target, Targets
from fork_tool.common.errors import ForkToolError
from fork_tool.paths import own_layout
from recorded_github import Answer, comments_of, page, recorded, RecordedGitHub

CURATED = "https://github.com/pytorch/pytorch/issues/151820"
OLD = "https://github.com/pytorch/pytorch/issues/77764#issuecomment-99"
BEFORE = f"""\
synced: {{date: '2020-01-01', issues: '77764'}}
targets:
- operator: aten::col2im
  note: Read by somebody.
  curated: [{CURATED}]
  found:
  - link: {OLD}
    votes: 7
- operator: aten::mode
  curated: [{CURATED}]
- operator: aten::sin
  found:
  - link: {OLD}
"""
KNOWN = {f"aten::{name}" for name in "linalg_qr linalg_eig mode kthvalue col2im sin angle".split()}


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    path = tmp_path / "targets.yaml"
    path.write_text(BEFORE)
    return path


def answers() -> dict[str, list[Answer]]:
    return {
        comments_of(77764): [page("77764-1", comments_of(77764, 2))],
        comments_of(77764, 2): [page("77764-2")],
        comments_of(141287): [page("141287-1")],
    }


def run(server: RecordedGitHub, path: Path) -> Outcome:
    github = GitHub("a-token", server.api)
    return sync(github, path, KNOWN, today=date(2026, 1, 2))


def test_requests_are_counted_and_curated_entries_stay(file: Path) -> None:
    with recorded(answers()) as server:
        outcome = run(server, file)
    after = load(file)
    assert after.synced == {"date": "2026-01-02", "issues": "77764, 141287"}
    targets = {target.operator: target for target in after.targets}
    # What is not asked for any more goes, unless it was curated.
    assert sorted(targets) == ["aten::col2im", "aten::kthvalue", "aten::linalg_eig", "aten::linalg_qr", "aten::mode"]
    assert targets["aten::col2im"] == Target("aten::col2im", "Read by somebody.", (CURATED,))
    assert targets["aten::mode"].curated == (CURATED,)
    assert targets["aten::mode"].links == [CURATED, "https://github.com/pytorch/pytorch/issues/77764#issuecomment-3"]
    # Two comments of one person are one request, with the agreement of the better liked; an upstream member only answers.
    asked = [(request.link.rsplit("-", 1)[1], request.votes) for request in targets["aten::linalg_qr"].found]
    assert asked == [("6", 6), ("12", 1), ("3", 1)]
    assert targets["aten::linalg_qr"].votes == 8
    assert targets["aten::kthvalue"].votes == 2
    assert outcome == Outcome(
        13, 8, ("aten::kthvalue", "aten::linalg_eig", "aten::linalg_qr"), ("aten::sin",), ("aten::no_such_operator",)
    )


def test_the_same_answers_give_the_same_bytes(file: Path) -> None:
    with recorded(answers()) as server:
        run(server, file)
        first = file.read_bytes()
        outcome = run(server, file)
    assert file.read_bytes() == first
    assert (outcome.new, outcome.gone) == ((), ())


@pytest.mark.parametrize(
    "broken",
    [
        {comments_of(77764, 2): [Answer(status=500)]},
        {comments_of(77764, 2): [Answer(status=401)]},
        {comments_of(141287): [Answer(body=b"{}")]},
        {comments_of(77764): [Answer(body=b"[]")], comments_of(141287): [Answer(body=b"[]")]},
    ],
    ids=["server", "token", "shape", "nothing"],
)
def test_a_sync_that_fails_changes_nothing(file: Path, broken: dict[str, list[Answer]]) -> None:
    with recorded({**answers(), **broken}) as server, pytest.raises(ForkToolError):
        run(server, file)
    assert file.read_text() == BEFORE
    assert os.listdir(file.parent) == [file.name]


def test_a_full_disk_changes_nothing(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_from: object, _to: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    with recorded(answers()) as server, monkeypatch.context() as patch, pytest.raises(OSError, match="full"):
        patch.setattr(Path, "replace", full)
        run(server, file)
    assert file.read_text() == BEFORE
    assert os.listdir(file.parent) == [file.name]


def test_a_file_that_is_no_list_is_not_written_over(file: Path) -> None:
    file.write_text("targets: [")
    with recorded(answers()) as server, pytest.raises(ForkToolError, match="is no YAML"):
        run(server, file)
    assert server.asked == []
    assert file.read_text() == "targets: ["


def test_operators_of_this_torch() -> None:
    known = known_operators()
    assert {target.operator for target in load().targets} <= known
    assert "aten::no_such_operator" not in known
    assert not any("." in name for name in known)


def command(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name not in ("GH_TOKEN", "GITHUB_TOKEN")}
    program = str(own_layout().root / "scripts" / "fallback_bench" / "run.py")
    return subprocess.run(
        [sys.executable, program, "sync", *words],
        env=environment | variables,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_command(file: Path) -> None:
    missing = command("--targets", str(file))
    assert (missing.returncode, missing.stderr.count("\n")) == (1, 1)
    assert "error: There is no GH_TOKEN or GITHUB_TOKEN" in missing.stderr
    with recorded(answers()) as server:
        done = command("--targets", str(file), "--api", server.api, GH_TOKEN="a-very-secret-token")
    assert done.returncode == 0, done.stderr
    assert "read 13 comments, 8 of which ask for operators" in done.stdout
    assert "this torch does not know aten::no_such_operator" in done.stdout
    assert "secret" not in done.stdout + done.stderr
    assert isinstance(load(file), Targets) and len(load(file).targets) == 5
