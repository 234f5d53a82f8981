"""Patches that change an overlay file which an earlier one brings."""

from pathlib import Path

import pytest
from hypothesis import given, HealthCheck, settings, strategies

from workshop import command_git, MESSAGE, Workshop

RECORDER = "aten/Recorder.h"


@pytest.fixture
def changed(applied: Workshop) -> Workshop:
    """The recorder with a line that the patch `more` adds and one that `most` adds."""
    applied.overlay(RECORDER, "top\none\nmore\nmost\ntwo\n")
    for name, place, above in (("more", "@@ -2,2 +2,3 @@ top", "one"), ("most", "@@ -3,2 +3,3 @@ one", "more")):
        hunk = f"{place}\n {above}\n+{name}\n two\n"
        file = f"diff --git a/{RECORDER} b/{RECORDER}\n--- a/{RECORDER}\n+++ b/{RECORDER}\n"
        applied.patch(name, f"{MESSAGE.replace('a recorder', name)}\n\nHunks: 1\n\n{file}{hunk}")
    applied.good("apply")
    return applied


def contents(shop: Workshop) -> list[str]:
    """The recorder after each patch."""
    commits = command_git(shop.checkout, "rev-list", "--reverse", f"{shop.base}..mps-graph").splitlines()
    return [command_git(shop.checkout, "show", f"{commit}:{RECORDER}") for commit in commits]


def test_each_patch_has_its_own_content(changed: Workshop) -> None:
    assert contents(changed) == ["top\none\ntwo", "top\none\nmore\ntwo", "top\none\nmore\nmost\ntwo"]
    assert "All 3 patches apply and keep the rules." in changed.good("verify")
    assert "no files changed" in changed.good("refresh")


def test_edited_line_of_a_later_patch(changed: Workshop) -> None:
    changed.overlay(RECORDER, "top\none\nmore\nMOST\ntwo\n")
    error = changed.error("apply")
    assert f"patch most does not come off the overlay: {RECORDER}, hunk 1 (@@ -3,2 +3,3 @@): the lines" in error
    assert "Make the same edit in patches/most.patch" in error
    output = changed.run("verify").output
    assert [line.split()[3] for line in output.splitlines() if line.startswith("│")][:3] == [
        "applies",
        "not",
        "conflict",
    ]


def test_lines_above_a_hunk_move_it(changed: Workshop) -> None:
    changed.overlay(RECORDER, "top\nzero\none\nmore\nmost\ntwo\n")
    changed.good("apply")
    assert contents(changed)[0] == "top\nzero\none\ntwo"
    assert f"{RECORDER}, hunk 1: -1 lines from where it should be" in changed.run("verify").stderr
    changed.good("refresh")
    changed.good("verify")


def test_only_a_later_patch_changes_a_file(changed: Workshop) -> None:
    changed.layout.series.write_text("more\nrecorder\nmost\n")
    error = changed.error("apply")
    assert f"patch more changes {RECORDER}, which patch recorder brings: only a later patch may" in error


def test_hunk_on_a_file_of_nobody(changed: Workshop) -> None:
    path = changed.layout.patches / "most.patch"
    path.write_text(path.read_text().replace(RECORDER, "aten/Other.h"))
    assert "aten/Other.h: neither upstream nor an earlier patch has such a file." in changed.run("verify").stderr


# Few different lines, so that hunks would fit in several places.
CONTENT = strategies.lists(strategies.sampled_from(["{", "}", "a", ""]), min_size=1, max_size=12)


@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(versions=strategies.lists(CONTENT, min_size=2, max_size=4))
def test_any_edits_come_back(tmp_path_factory: pytest.TempPathFactory, versions: list[list[str]]) -> None:
    shop = Workshop(Path(tmp_path_factory.mktemp("edits")) / "repository")
    shop.good("apply")
    texts = ["".join(f"{line}\n" for line in lines) for lines in versions]
    for number, text in enumerate(texts):
        shop.commit(f"[MPS] Edit {number}\n\nWhy.\n\nTest Plan: none", {RECORDER: text, f"aten/{number}.h": "x\n"})
    trees = command_git(shop.checkout, "log", "--format=%T", "HEAD").splitlines()
    shop.good("refresh")
    command_git(shop.checkout, "reset", "--quiet", "--hard", shop.base)
    shop.good("apply", "--force")
    assert command_git(shop.checkout, "log", "--format=%T", "HEAD").splitlines() == trees
    assert "no files changed" in shop.good("refresh")


@pytest.fixture
def grouped(changed: Workshop) -> Workshop:
    """The same in groups, with a patch that needs the core alone."""
    changed.commit("[MPS] Alone\n\nWhy.\n\nTest Plan: none", {"aten/Graph.mm": "one\n2\nthree\n"})
    changed.good("refresh")
    changed.layout.series.write_text("# the order\n\n[core]\nrecorder\n\n[more]\nmore\nmost: more\nalone\n")
    return changed


def exported(shop: Workshop, part: str) -> list[str]:
    """The names of the patches of a part."""
    return [line.split("/")[-1] for line in shop.run("export", "--stack", part).stdout.split()]


def test_part_of_the_series(grouped: Workshop) -> None:
    assert exported(grouped, "core") == ["0001-MPS-Add-a-recorder.patch"]
    assert exported(grouped, "alone") == ["0001-MPS-Add-a-recorder.patch", "0002-MPS-Alone.patch"]
    assert len(exported(grouped, "most")) == 3
    assert len(exported(grouped, "more")) == 4
    grouped.good("export", "--ghstack", "--stack", "alone")
    alone = command_git(grouped.checkout, "log", "--format=%s", f"{grouped.base}..mps-graph-ghstack").splitlines()
    assert alone == ["[MPS] Alone", "[MPS] Add a recorder"]
    assert command_git(grouped.checkout, "show", f"mps-graph-ghstack:{RECORDER}") == "top\none\ntwo"
    assert "neither a group nor a patch 'fast': choose one of core, more, recorder, more," in grouped.error(
        "export", "--stack", "fast"
    )


def test_needs_that_the_series_does_not_name(grouped: Workshop) -> None:
    grouped.layout.series.write_text("[core]\nrecorder\n[more]\nmore\nmost\nalone\n")
    error = grouped.error("export", "--stack", "most")
    sentence = "Patch most does not apply without patches that patches/series does not name as its needs"
    assert sentence in error
    done = grouped.run("verify")
    assert done.exit_code == 1 and f"most: {sentence}" in " ".join(done.output.split())
    assert "alone: " not in done.output
    grouped.layout.series.write_text("recorder\nmost: more\nmore\n")
    assert "line 2: most needs more, which is not above it" in grouped.error("apply")
