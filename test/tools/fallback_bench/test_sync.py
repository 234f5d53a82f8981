"""Bringing targets.yaml up to date: what comments ask for, what is accepted, merged and kept."""

import os
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

from fallback_bench.cases import CASES
from fallback_bench.github import GitHub
from fallback_bench.sync import operators_in, Outcome, read_comment, sync
from fallback_bench.targets import dump, load, OWN_FILE, Request, save, Target, Targets
from fork_tool.common.errors import ForkToolError
from fork_tool.paths import own_layout
from recorded_github import Answer, comment, comments_of, page, recorded, RecordedGitHub

MISSING = "The operator 'aten::{}' is not currently implemented for the MPS device."


@pytest.mark.parametrize(
    ("body", "operators"),
    [
        ("Please add `aten::linalg_qr.out`!", ["aten::linalg_qr"]),
        ("aten::mode, aten::angle and aten::mode", ["aten::mode", "aten::angle"]),
        ("nothing here", []),
        (f"```\n{MISSING.format('mode')}\n```", ["aten::mode"]),
        (f"```python\nlog of aten::add and aten::mul\n{MISSING.format('mode')}\n```", ["aten::mode"]),
        ("```\naten::add aten::mul\n```", []),
        ("The operator 'aten::angle' is not current implemented for MPS", ["aten::angle"]),
        (f"~~~~\n~~~\n{MISSING.format('mode')}\naten::add\n~~~~\naten::angle", ["aten::angle", "aten::mode"]),
        ("- linalg\n    - aten::mode", ["aten::mode"]),
        ("```\nan unclosed block\naten::add", []),
        ("    an indented block with aten::add", []),
        ("> aten::mode\n\nSo do I.", []),
        ("> aten::mode\n\nSo do I: aten::mode.", ["aten::mode"]),
        ("operator ‘**aten::_upsample_bicubic2d_aa.out**’ is missing", ["aten::_upsample_bicubic2d_aa"]),
        ("\x00\ufffd aten::mode\r\n", ["aten::mode"]),
    ],
)
def test_operators_in(body: str, operators: list[str]) -> None:
    assert operators_in(body) == operators


@pytest.mark.parametrize(
    "content", [comment(1, "a", None), comment(1, "a", "x"), comment(1, "a", "aten::b", 1, "MEMBER")]
)
def test_what_is_no_request(content: dict[str, object]) -> None:
    assert read_comment(content) is None


LINK = "https://github.com/pytorch/pytorch/issues/77764#issuecomment-1"


def test_own_list() -> None:
    targets = load()
    # As the tool writes it, so that a sync changes only what it found.
    assert dump(targets) == OWN_FILE.read_text("utf-8")
    assert all(target.curated for target in targets.targets) or targets.synced
    assert not [target.operator for target in targets.targets if target.curated and target.operator not in CASES]


def test_round_trip(tmp_path: Path) -> None:
    targets = Targets(
        (
            Target("aten::a", "Why: it's «needed»", (LINK,), (Request(LINK, 3),)),
            Target("aten::b", found=(Request(LINK),)),
        ),
        {"date": "2026-01-02", "issues": "1, 2"},
    )
    save(targets, tmp_path / "targets.yaml")
    assert load(tmp_path / "targets.yaml") == targets


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("targets: [", "is no YAML"),
        ("", "the whole file is None .Input should be a dictionary"),
        ("wanted: []", "lacks the value targets"),
        ("targets: [a]", r"targets\[0\] is 'a' .Input should be a dictionary"),
        ("targets: [{operator: linalg_qr}]", "operator is 'linalg_qr' .String should match pattern"),
        ("targets: [{operator: aten::a}]", "it needs a link under"),
        ("targets: [{operator: aten::a, curated: [here]}]", "'here' .String should match"),
        (
            f"targets: [{{operator: aten::a, found: [{{link: '{LINK}', votes: 0}}]}}]",
            "votes is 0 .Input should be greater than 0",
        ),
        (
            f"targets: [{{operator: aten::a, curated: ['{LINK}'], dtype: x}}]",
            "has the value .*dtype, which nothing reads",
        ),
        (
            f"targets: [{{operator: aten::a, curated: ['{LINK}']}}, {{operator: aten::a, curated: ['{LINK}']}}]",
            "aten::a more than",
        ),
    ],
)
def test_refused(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "targets.yaml"
    path.write_text(text)
    with pytest.raises(ForkToolError, match=sentence):
        load(path)


def test_missing(tmp_path: Path) -> None:
    with pytest.raises(ForkToolError, match="is missing: `git checkout"):
        load(tmp_path / "targets.yaml")


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
        12, 8, ("aten::kthvalue", "aten::linalg_eig", "aten::linalg_qr"), ("aten::sin",), ("aten::no_such_operator",)
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
        {comments_of(141287): [Answer("limit")]},
        {comments_of(141287): [Answer("no comment")]},
        {comments_of(77764): [Answer("empty")], comments_of(141287): [Answer("empty")]},
    ],
    ids=["server", "token", "no list", "no comment", "nothing"],
)
def test_a_sync_that_fails_changes_nothing(file: Path, broken: dict[str, list[Answer]]) -> None:
    with recorded({**answers(), **broken}) as server, pytest.raises(ForkToolError):
        run(server, file)
    assert file.read_text() == BEFORE
    assert os.listdir(file.parent) == [file.name]


def test_a_file_that_is_no_list_is_not_written_over(file: Path) -> None:
    file.write_text("targets: [")
    with recorded(answers()) as server, pytest.raises(ForkToolError, match="is no YAML"):
        run(server, file)
    assert server.asked == []
    assert file.read_text() == "targets: ["


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
    assert "read 12 comments, 8 of which ask for operators" in done.stdout
    assert "this torch does not know aten::no_such_operator" in done.stdout
    assert "secret" not in done.stdout + done.stderr
    assert isinstance(load(file), Targets) and len(load(file).targets) == 5
