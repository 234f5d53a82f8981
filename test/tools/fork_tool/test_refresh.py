"""`refresh`: what a commit becomes, and what it will not write over."""

import pytest

from workshop import command_git, Workshop


def test_patch_file_in_full(applied: Workshop) -> None:
    applied.commit(
        "[MPS] Speed it up\n\nIt was slow.\n\nTest Plan: timed it",
        {"aten/Graph.mm": "one\n2\nthree\n", "aten/Fast.h": "fast\n"},
    )
    output = applied.good("refresh")
    assert "wrote   patches/speed-it-up.patch" in output
    assert (applied.layout.patches / "speed-it-up.patch").read_text() == (
        "[MPS] Speed it up\n\nIt was slow.\n\nTest Plan: timed it\n\nOverlay:\n  aten/Fast.h\n\nHunks: 1\n\n"
        "diff --git a/aten/Graph.mm b/aten/Graph.mm\n--- a/aten/Graph.mm\n+++ b/aten/Graph.mm\n"
        "@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"
    )
    assert applied.layout.series.read_text() == "# the order\nrecorder\nspeed-it-up\n"
    assert (applied.layout.overlay / "aten/Fast.h").read_text() == "fast\n"
    assert command_git(applied.checkout, "log", "-1", "--format=%(trailers:key=Patch,valueonly)") == "speed-it-up"


def test_nothing_new_changes_nothing(applied: Workshop) -> None:
    applied.good("refresh")
    before = {path: path.stat().st_mtime_ns for path in applied.root.glob("patches/*")}
    assert "no files changed" in applied.good("refresh")
    assert before == {path: path.stat().st_mtime_ns for path in applied.root.glob("patches/*")}


def test_overlay_edit_is_a_hunk_of_its_own_patch(applied: Workshop) -> None:
    applied.commit("[MPS] Tidy\n\nWhy.\n\nTest Plan: none", {"aten/Recorder.h": "class Recorder final;\n"})
    applied.good("refresh")
    assert (applied.layout.overlay / "aten/Recorder.h").read_text() == "class Recorder final;\n"
    assert "-class Recorder;\n+class Recorder final;\n" in (applied.layout.patches / "tidy.patch").read_text()
    applied.good("verify")
    first, second = applied.titles
    assert (first, second) == ("[MPS] Add a recorder", "[MPS] Tidy")
    assert command_git(applied.checkout, "show", "HEAD~1:aten/Recorder.h") == "class Recorder;"
    before = applied.sources()
    command_git(applied.checkout, "reset", "--quiet", "--hard", applied.base)
    applied.good("apply", "--force")
    assert "no files changed" in applied.good("refresh")
    assert applied.sources() == before


def test_order_follows_the_branch_and_comments_follow_the_names(applied: Workshop) -> None:
    applied.commit("[MPS] Second", {"aten/Graph.mm": "2\n"})
    applied.good("refresh")
    applied.layout.series.write_text("# heading\n\n# why recorder\nrecorder\n# why second\nsecond # beside\n# end\n")
    applied.good("refresh")
    first, second = command_git(applied.checkout, "rev-list", f"{applied.base}..HEAD").splitlines()[::-1]
    command_git(applied.checkout, "reset", "--quiet", "--hard", applied.base)
    command_git(applied.checkout, "cherry-pick", second, first)
    applied.good("refresh")
    assert (
        applied.layout.series.read_text()
        == "# heading\n\n# why second\nsecond # beside\n# why recorder\nrecorder\n# end\n"
    )


def test_dropped_patch_goes_with_its_files(applied: Workshop) -> None:
    applied.overlay("aten/Unclaimed.h")
    command_git(applied.checkout, "reset", "--quiet", "--hard", applied.base)
    output = applied.good("refresh")
    assert "removed patches/recorder.patch" in output
    assert list(applied.sources()) == ["patches/series", "aten_mps_overlay/aten/Unclaimed.h"]


def test_neighbours_of_one_patch_are_folded(applied: Workshop) -> None:
    applied.commit("more of it\n\nPatch: recorder", {"aten/Graph.mm": "1\n"})
    applied.good("refresh")
    assert applied.titles == ["[MPS] Add a recorder"]
    assert "Graph.mm" in (applied.layout.patches / "recorder.patch").read_text()


def test_patch_twice_is_refused(applied: Workshop) -> None:
    applied.commit("[MPS] Between", {"aten/Graph.mm": "1\n"})
    applied.commit("more of it\n\nPatch: recorder", {"aten/Graph.mm": "2\n"})
    assert "Two commits that are not neighbours say `Patch: recorder`" in applied.error("refresh")


def test_edits_of_the_files_are_not_lost(applied: Workshop) -> None:
    applied.overlay("aten/Recorder.h", "edited here\n")
    assert "the branch has nothing new: run `make apply`" in applied.error("refresh")
    applied.commit("[MPS] Mine", {"aten/Graph.mm": "1\n"})
    before = applied.sources()
    assert "Both the branch mps-graph and patches/" in applied.error("refresh")
    assert applied.sources() == before
    applied.good("refresh", "--force")
    assert (applied.layout.overlay / "aten/Recorder.h").read_text() == "class Recorder;\n"


def test_unclaimed_overlay_file_is_not_written_over(applied: Workshop) -> None:
    applied.overlay("aten/Fast.h", "somebody's\n")
    applied.commit("[MPS] Fast", {"aten/Fast.h": "mine\n"})
    assert "aten_mps_overlay/aten/Fast.h is claimed by no patch and differs" in applied.error("refresh")
    assert (applied.layout.overlay / "aten/Fast.h").read_text() == "somebody's\n"


def test_stray_patch_is_not_written_over(applied: Workshop) -> None:
    (applied.layout.patches / "mine.patch").write_text("a draft\n")
    applied.commit("[MPS] Mine", {"aten/Graph.mm": "1\n"})
    applied.good("refresh")
    assert (applied.layout.patches / "mine.patch").read_text() == "a draft\n"
    assert (applied.layout.patches / "mine-2.patch").exists()


def test_uncommitted_and_unknown_files(applied: Workshop) -> None:
    applied.write({"scratch.txt": "x"})
    assert "scratch.txt in build/pytorch belong to no commit" in applied.good("refresh")
    applied.write({"aten/Graph.mm": "x"})
    assert "has changes that are not committed" in applied.error("refresh")


def test_commits_that_no_series_can_hold(applied: Workshop) -> None:
    def refused(message: str, files: dict[str, str | bytes]) -> str:
        before = applied.sources()
        applied.commit(message, files)
        error = applied.error("refresh")
        assert applied.sources() == before
        command_git(applied.checkout, "reset", "--quiet", "--hard", "HEAD~1")
        return error

    assert "aten/Graph.mm is not text" in refused("[MPS] Binary", {"aten/Graph.mm": b"\0\1"})
    assert "waits to be folded" in refused("fixup! [MPS] Add a recorder", {"aten/Graph.mm": "x"})
    assert "marks a part of a patch file" in refused("[MPS] Odd\n\nOverlay:\n", {"aten/Graph.mm": "x"})
    (applied.checkout / "aten/Graph.mm").unlink()
    assert "it deletes aten/Graph.mm, which upstream has" in refused("[MPS] Delete", {})
    (applied.checkout / "aten/Graph.mm").rename(applied.checkout / "aten/Moved.mm")
    assert "it deletes aten/Graph.mm" in refused("[MPS] Rename", {})
    (applied.checkout / "tools/run.sh").chmod(0o755)
    assert "it changes the mode of tools/run.sh" in refused("[MPS] Mode", {})
    (applied.checkout / "aten/link").symlink_to("Graph.mm")
    assert "aten/link on the branch mps-graph is a symbolic link" in refused("[MPS] Link", {})


def test_merge_is_refused(applied: Workshop) -> None:
    command_git(applied.checkout, "checkout", "--quiet", "-b", "side", "base")
    applied.commit("side", {"side.txt": "x"})
    command_git(applied.checkout, "checkout", "--quiet", "mps-graph")
    command_git(applied.checkout, "merge", "--quiet", "--no-edit", "side")
    assert "is a merge: the series is a straight line" in applied.error("refresh")


def test_branch_must_be_there_checked_out_and_on_the_base(workshop: Workshop) -> None:
    assert "has no branch mps-graph: run `make apply`" in workshop.error("refresh")
    workshop.good("apply")
    command_git(workshop.checkout, "checkout", "--quiet", "base")
    assert "checkout mps-graph`, then refresh" in workshop.error("refresh")
    command_git(workshop.checkout, "checkout", "--quiet", "mps-graph")
    command_git(workshop.checkout, "checkout", "--quiet", "--orphan", "lost")
    workshop.commit("lost", {})
    command_git(workshop.checkout, "branch", "--quiet", "--force", "mps-graph", "lost")
    command_git(workshop.checkout, "checkout", "--quiet", "mps-graph")
    assert "no longer stands on the base" in workshop.error("refresh")


def test_corrupted_patch_can_be_written_again(applied: Workshop) -> None:
    path = applied.layout.patches / "recorder.patch"
    good = path.read_bytes()
    path.write_bytes(good[:-5])
    assert "refresh --force" in applied.error("refresh")
    applied.good("refresh", "--force")
    assert path.read_bytes() == good.replace(b" line 3\n", b" line 3\n")


def upstream_moved(shop: Workshop) -> str:
    """A commit of upstream's on top of the base; the branch stays."""
    command_git(shop.checkout, "checkout", "--quiet", "--detach", shop.base)
    moved = shop.commit("Fix upstream's tool", {"tools/run.sh": "#!/bin/sh -e\n"})
    command_git(shop.checkout, "checkout", "--quiet", "mps-graph")
    return moved


@pytest.mark.parametrize("force", [[], ["--force"]])
def test_upstreams_commits_do_not_become_patches(applied: Workshop, force: list[str]) -> None:
    """What a user would do to move the series by hand."""
    moved = upstream_moved(applied)
    command_git(applied.checkout, "rebase", "--quiet", "--onto", moved, applied.base, "mps-graph")
    before = applied.sources()
    error = applied.error("refresh", *force)
    assert "([MPS] Fix upstream's tool) stands below the patches" in error
    assert "scripts/mpsfork rebase --onto REF" in error
    # With the pin moved, Debian's tree stale or gone.
    tree = applied.git.tree_of(applied.base)
    applied.write_pin(commit=moved, tree=tree)
    assert "base.toml names two sources" in applied.error("refresh", *force)
    applied.write_pin(commit=moved)
    error = applied.error("refresh", *force)
    assert f"stood on {applied.base[:12]} (refs/mpsfork/base), and base.toml names v0.1 ({moved[:12]})" in error
    assert applied.sources() == before


def test_published_commits_do_not_become_the_first_patches(workshop: Workshop) -> None:
    workshop.good("apply")
    moved = upstream_moved(workshop)
    command_git(workshop.checkout, "reset", "--quiet", "--hard", moved)
    command_git(workshop.checkout, "tag", "v0.2", moved)
    assert "is part of v0.2, so it may be upstream's" in workshop.error("refresh")
    command_git(workshop.checkout, "tag", "--delete", "v0.2")
    command_git(workshop.checkout, "update-ref", "refs/remotes/origin/main", moved)
    assert "is part of origin/main" in workshop.error("refresh")


def test_a_first_patch_that_says_so_is_taken(applied: Workshop) -> None:
    patch = applied.head
    command_git(applied.checkout, "reset", "--quiet", "--hard", applied.base)
    applied.commit("[MPS] Before all\n\nPatch: before-all", {"aten/Graph.mm": "one\n"})
    command_git(applied.checkout, "cherry-pick", patch)
    applied.good("refresh")
    assert applied.layout.series.read_text() == "# the order\nbefore-all\nrecorder\n"


def test_apply_goes_to_a_base_that_somebody_else_moved_to(applied: Workshop) -> None:
    """As after a pull of this repository in which base.toml names another commit."""
    moved = upstream_moved(applied)
    applied.write_pin(commit=moved)
    applied.good("apply")
    assert command_git(applied.checkout, "rev-parse", "HEAD~1") == moved
    assert "no files changed" in applied.good("refresh")
