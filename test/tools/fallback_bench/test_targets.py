"""The list of targets: what is accepted, what is refused, and what is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from fallback_bench.cases import CASES
from fallback_bench.targets import dump, load, OWN_FILE, Request, save, Target, Targets
from fork_tool.common.errors import ForkToolError

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


def test_demand() -> None:
    many = Target("aten::many", found=(Request(LINK, 5), Request(LINK, 2)))
    hand = Target("aten::hand", curated=(LINK, LINK + "2"))
    assert (many.votes, hand.votes) == (7, 2)
    assert [target.operator for target in Targets((hand, many)).by_demand] == ["aten::many", "aten::hand"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("targets: [", "is no YAML"),
        ("- a", "is no mapping"),
        ("", "is no mapping"),
        ("wanted: []", "has wanted, and may have synced, targets"),
        ("targets: 3", "`targets` is no list"),
        ("targets: [a]", "entry 1 is no mapping"),
        ("targets: [{operator: linalg_qr}]", "`operator` is 'linalg_qr', and should be like aten::linalg_qr"),
        ("targets: [{operator: aten::a.out}]", "without overload"),
        ("targets: [{operator: aten::a}]", r"\(aten::a\): it is not asked for"),
        ("targets: [{operator: aten::a, curated: [here]}]", "'here' is no link"),
        ("targets: [{operator: aten::a, curated: [javascript:x]}]", "is no link"),
        (f"targets: [{{operator: aten::a, found: [{{link: '{LINK}', votes: 0}}]}}]", "`votes` is 0"),
        (f"targets: [{{operator: aten::a, found: [{{link: '{LINK}', votes: yes}}]}}]", "`votes` is True"),
        (f"targets: [{{operator: aten::a, curated: ['{LINK}'], dtype: x}}]", "has dtype, and may have"),
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
