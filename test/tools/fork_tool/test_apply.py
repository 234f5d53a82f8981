"""`apply`: one commit per patch, the same when run again, and nothing changed when it refuses."""

from pathlib import Path

import pytest

from fork_tool.base.checkout import BACKUP_REF
from fork_tool.common.errors import ForkToolError
from fork_tool.series.apply import bring_series
from fork_tool.series.project import Project
from workshop import command_git, HUNK, MESSAGE, Workshop


def test_series_that_has_not_changed_is_not_made_again(
    applied: Workshop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made: list[object] = []
    make = Project.stack
    monkeypatch.setattr(Project, "stack", lambda *words: made.append(words) or make(*words))

    def is_made() -> bool:
        del made[:]
        bring_series(applied.project)
        return bool(made)

    assert is_made() and not is_made()
    assert capsys.readouterr().out == ""
    for path in (applied.layout.overlay / "aten" / "Recorder.h", applied.layout.patches / "recorder.patch"):
        path.write_text(path.read_text().replace("recorded", "noted").replace("class", "struct"))
        assert is_made() and not is_made()
    assert command_git(applied.checkout, "show", "HEAD:aten/Recorder.h") == "struct Recorder;"
    # Nor where the branch has left.
    command_git(applied.checkout, "checkout", "--quiet", "--detach", applied.base)
    assert is_made()
    assert applied.titles == ["[MPS] Add a recorder"]
    (applied.checkout / ".git" / "CHERRY_PICK_HEAD").write_text(f"{applied.base}\n")
    with pytest.raises(ForkToolError, match="A cherry-pick is under way"):
        bring_series(applied.project)


def test_one_commit_per_patch_in_series_order(workshop: Workshop) -> None:
    workshop.overlay("aten/New.h")
    workshop.patch("later", "[MPS] Later\n\nOverlay:\n  aten/New.h\n")
    workshop.patch("earlier", f"{MESSAGE}\n\n{HUNK}")
    workshop.layout.series.write_text("# order\nearlier  # first\n\nlater\n")
    workshop.good("apply")
    assert workshop.titles == ["[MPS] Add a recorder", "[MPS] Later"]
    assert command_git(workshop.checkout, "branch", "--show-current") == "mps-graph"
    assert (workshop.checkout / "aten/New.h").read_text() == "new\n"
    assert "line 4\nrecorded\nline 5" in (workshop.checkout / "aten/Stream.mm").read_text()
    message = command_git(workshop.checkout, "log", "-1", "--format=%B", "HEAD~1")
    assert message == f"{MESSAGE}\n\nPatch: earlier"


def test_users_settings_change_nothing(applied: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, sources = applied.head, applied.sources()
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    (hooks / "post-checkout").write_text("#!/bin/sh\nexit 1\n")
    (hooks / "post-checkout").chmod(0o755)
    config = tmp_path / "config"
    config.write_text(
        f"[core]\nautocrlf = true\nhooksPath = {hooks}\nquotePath = true\n[diff]\nnoprefix = true\ncontext = 9\n"
        "mnemonicPrefix = true\nrenames = copies\nalgorithm = patience\n[commit]\ngpgSign = true\n"
        "[user]\nname = Somebody\n[apply]\nwhitespace = error\n[color]\nui = always\n"
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    applied.good("refresh")
    assert applied.sources() == sources
    applied.git.run("checkout", "--quiet", "--detach", applied.base)
    applied.git.run("branch", "-D", "mps-graph")
    applied.good("apply")
    assert applied.head == first


def test_edited_patch_is_taken_in(applied: Workshop) -> None:
    path = applied.layout.patches / "recorder.patch"
    path.write_text(path.read_text().replace("+recorded", "+recorded again"))
    applied.overlay("aten/Recorder.h", "class Other;\n")
    applied.good("apply")
    assert "recorded again" in (applied.checkout / "aten/Stream.mm").read_text()
    assert (applied.checkout / "aten/Recorder.h").read_text() == "class Other;\n"


def test_moved_place_is_told(workshop: Workshop) -> None:
    workshop.patch("recorder", f"{MESSAGE}\n\n{HUNK.replace('@@ -4,2 +4,3 @@', '@@ -7,2 +7,3 @@')}")
    assert "hunk 1: -3 lines from where it should be" in workshop.good("apply")


def test_conflict_names_patch_file_and_hunk(applied: Workshop) -> None:
    wrong = HUNK + "@@ -10,2 +11,3 @@\n line 99\n+never\n line 11\n"
    applied.patch("second", f"[MPS] Second\n\n{wrong.replace('recorded', 'again')}")
    before = applied.state()
    error = applied.error("apply")
    assert "patch second does not apply: aten/Stream.mm, hunk 1 (@@ -4,2 +4,3 @@)" in error
    (applied.layout.patches / "second.patch").write_text(
        f"[MPS] Second\n\n{wrong[: wrong.index('@@')]}{wrong[wrong.rindex('@@ -10') :]}"
    )
    assert "aten/Stream.mm, hunk 1 (@@ -10,2 +11,3 @@)" in applied.error("apply")
    (applied.layout.patches / "second.patch").write_text("[MPS] Second\n\n" + HUNK.replace("Stream", "Gone"))
    assert "aten/Gone.mm does not exist" in applied.error("apply")
    assert applied.state() == before


def test_dirty_tree_is_refused(applied: Workshop) -> None:
    applied.write({"aten/Stream.mm": "mine\n"})
    before = applied.state()
    assert "has changes that are not committed (aten/Stream.mm)" in applied.error("apply")
    assert applied.state() == before


def test_unfinished_rebase_is_refused(applied: Workshop) -> None:
    (applied.checkout / ".git" / "rebase-merge").mkdir()
    assert "A rebase is under way in build/pytorch" in applied.error("apply")


def test_foreign_branch_is_refused(applied: Workshop) -> None:
    command_git(applied.checkout, "checkout", "--quiet", "-b", "topic", "base")
    applied.commit("mine", {"mine.txt": "x"})
    before = applied.state()
    assert "(topic), which is neither v0.1 nor the branch mps-graph" in applied.error("apply")
    assert applied.state() == before


def test_foreign_repository_is_refused(workshop: Workshop) -> None:
    command_git(workshop.checkout, "update-ref", "-d", "refs/mpsfork/base")
    workshop.commit("another base", {"x": "y"})
    workshop.write_pin(commit="a" * 40)
    assert "not at v0.1 (aaaaaaaaaaaa)" in workshop.error("apply")


def test_not_a_repository_is_refused(workshop: Workshop) -> None:
    command_git(workshop.root, "init", "--quiet")
    (workshop.checkout / ".git").rename(workshop.root / "gone")
    assert "build/pytorch is not a git checkout" in workshop.error("apply")


def test_work_on_the_branch_is_kept(applied: Workshop) -> None:
    mine = applied.commit("[MPS] Mine", {"aten/Graph.mm": "mine\n"})
    applied.overlay("aten/Recorder.h", "class Changed;\n")
    assert "holds commits that patches/ does not have" in applied.error("apply")
    assert applied.head == mine
    applied.good("apply", "--force")
    assert command_git(applied.checkout, "rev-parse", BACKUP_REF) == mine


def test_own_file_in_the_way_is_kept(workshop: Workshop) -> None:
    workshop.write({"aten/New.h": "the user's\n"})
    workshop.overlay("aten/New.h")
    workshop.patch("new", "[MPS] New\n\nOverlay:\n  aten/New.h\n")
    before = workshop.state()
    assert "has a file of its own where the series puts one (aten/New.h)" in workshop.error("apply")
    assert workshop.state() == before


@pytest.mark.parametrize("path", ["../outside", "/etc/passwd", "aten/../../x", ".git/config", "a//b"])
def test_claim_outside_the_tree_is_refused(workshop: Workshop, path: str) -> None:
    workshop.patch("new", f"[MPS] New\n\nOverlay:\n  {path}\n")
    assert "is no path inside the upstream tree" in workshop.error("apply")


def test_overlay_file_that_cannot_stand_there(workshop: Workshop) -> None:
    workshop.overlay("torch/mps.py", "taken")
    workshop.patch("new", "[MPS] New\n\nOverlay:\n  torch/mps.py\n")
    assert "claims the overlay file torch/mps.py, and the tree has it already" in workshop.error("apply")
    workshop.layout.series.write_text("")
    workshop.overlay("aten/Stream.mm/inner")
    workshop.patch("inner", "[MPS] New\n\nOverlay:\n  aten/Stream.mm/inner\n")
    assert "or a file where it needs a directory" in workshop.error("apply")


def test_missing_pieces(applied: Workshop) -> None:
    (applied.layout.overlay / "aten/Recorder.h").unlink()
    before = applied.state()
    assert "Patch recorder claims the overlay file aten_mps_overlay/aten/Recorder.h, which is missing" in applied.error(
        "apply"
    )
    (applied.layout.patches / "recorder.patch").unlink()
    assert "names the patch recorder, and there is no patches/recorder.patch (there: none)" in applied.error("apply")
    applied.layout.series.unlink()
    assert "patches/series is missing" in applied.error("apply")
    assert applied.state() == before


def test_linked_overlay_file_is_refused(applied: Workshop) -> None:
    path = applied.layout.overlay / "aten/Recorder.h"
    path.unlink()
    path.symlink_to("/etc/hostname")
    assert "is a symbolic link: put the file itself there" in applied.error("apply")
