"""`rebase`: the series on another base, what it drops and says, and that nothing is lost on the way."""

import os
import signal
from pathlib import Path

import pytest

from fork_tool.base.checkout import rebase_directory
from fork_tool.rebase import run as rebase_module
from moving import DEBIAN_COMMENT, everything, lines, PIN_COMMENT, put, resolve, upstream, upstream_elsewhere
from workshop import command_git, Workshop


def patch(shop: Workshop, name: str) -> str:
    return (shop.layout.patches / f"{name}.patch").read_text()


def flat(text: str) -> str:
    return " ".join(text.split())


def check_whole(shop: Workshop, base: str, thorough: bool = False) -> None:
    """Files, pin, refs and checkout say the same, and nothing of the rebase is left."""
    assert command_git(shop.checkout, "rev-parse", "refs/mpsfork/base") == base
    assert command_git(shop.checkout, "rev-parse", "mps-graph", "refs/mpsfork/applied").split() == [shop.head] * 2
    assert command_git(shop.checkout, "branch", "--show-current") == "mps-graph"
    assert command_git(shop.checkout, "status", "--porcelain") == ""
    assert command_git(shop.checkout, "for-each-ref", "refs/mpsfork/rebase") == ""
    assert not rebase_directory(shop.git).exists()
    assert not shop.layout.rebase_checkout.exists()
    assert "already applied" in shop.good("apply")
    if not thorough:
        return
    sources = shop.sources()
    assert "no files changed" in shop.good("refresh")
    assert shop.sources() == sources
    shop.good("verify")


def test_code_that_moved(shop: Workshop) -> None:
    base = upstream(
        shop, put("aten/Stream.mm", "stream 1\n", "a\nb\nc\nstream 1\n"), put("aten/Graph.mm", "graph 15\n", "x\ny\n")
    )
    before = shop.layout.pin.read_text()
    said = shop.good("rebase", "--onto", "v0.2")
    assert "1 of 4: recorder moved" in said
    assert "4 of 4: python fits as it is" in said
    assert f"The series stands on v0.2 ({base[:12]})" in said
    assert "@@ -7,2 +7,5 @@" in patch(shop, "recorder")
    text = shop.layout.pin.read_text()
    start, end = before.index(DEBIAN_COMMENT), before.index("[release]")
    expected = (before[:start] + before[end:]).replace('tag = "v0.1"', 'tag = "v0.2"').replace(shop.base, base)
    date = command_git(shop.checkout, "log", "-1", "--date=format-local:%Y-%m-%dT%H:%M:%S", "--format=%cd", base)
    expected = expected.replace("2025-01-01T00:00:00", date).replace('version = "0.1"', 'version = "0.2"')
    assert text == expected
    assert PIN_COMMENT in text
    assert "# a tag" in text
    assert "base.toml no longer has the table [debian]" in said
    check_whole(shop, base, thorough=True)
    assert shop.titles[-4:] == [f"[MPS] Add {name}" for name in ("recorder", "cache", "pool", "python")]


def test_files_that_were_renamed(shop: Workshop) -> None:
    def rename(root: Path) -> None:
        (root / "aten/Graph.mm").rename(root / "aten/Graphs.mm")

    base = upstream(shop, rename, put("aten/Graphs.mm", "graph 3\n", "graph three\n"))
    said = shop.good("rebase", "--onto", "v0.2")
    assert "note: cache: aten/Graph.mm is aten/Graphs.mm there" in said
    assert "--- a/aten/Graphs.mm\n" in patch(shop, "cache")
    assert "--- a/aten/Graph.mm\n" not in patch(shop, "cache")
    check_whole(shop, base, thorough=True)


def test_overlay_follows_a_directory(shop: Workshop) -> None:
    def rename(root: Path) -> None:
        (root / "torch").rename(root / "pytorch")

    base = upstream(shop, rename)
    said = shop.good("rebase", "--onto", "v0.2")
    assert "torch/graphs.py is pytorch/graphs.py there, since upstream renamed its directory" in said
    assert (shop.layout.overlay / "pytorch/graphs.py").read_text() == lines("new", 5)
    assert not (shop.layout.overlay / "torch").exists()
    check_whole(shop, base, thorough=True)


def test_hunk_that_upstream_has(shop: Workshop) -> None:
    base = upstream(shop, put("aten/Graph.mm", "graph 10\n", "cached 10\n"))
    said = shop.good("rebase", "--onto", "v0.2")
    assert "note: cache: aten/Graph.mm, hunk 1 dropped: upstream has it" in said
    assert "hunk 2" not in said
    assert "+cached 20" in patch(shop, "cache")
    assert "cached 10" not in patch(shop, "cache")
    check_whole(shop, base, thorough=True)


def test_whole_patch_that_upstream_has(shop: Workshop) -> None:
    def new_file(root: Path) -> None:
        (root / "aten/Recorder.h").write_text("class Recorder;\n")

    base = upstream(
        shop,
        *(
            put("aten/Graph.mm", "graph 10\n", "cached 10\n"),
            put("aten/Graph.mm", "graph 20\n", "graph 20\ncached 20\n"),
        ),
        *(put("aten/Stream.mm", "stream 4\n", "stream 4\nrecorded\nmiddle\nlast\n"), new_file),
    )
    said = shop.good("rebase", "--onto", "v0.2")
    for name in ("cache", "recorder"):
        assert f"note: {name}: dropped from the series: upstream has all of it" in said
        assert f"removed patches/{name}.patch" in said
    assert "removed aten_mps_overlay/aten/Recorder.h" in said
    assert shop.layout.series.read_text() == "# the order\npool\npython\n"
    check_whole(shop, base)


def test_new_file_that_upstream_has(shop: Workshop) -> None:
    def new_file(root: Path) -> None:
        (root / "torch/graphs.py").write_text(lines("new", 5))

    base = upstream(shop, new_file)
    said = shop.good("rebase", "--onto", "v0.2")
    assert "note: python: torch/graphs.py dropped: upstream has it" in said
    assert "Overlay:" not in patch(shop, "python")
    check_whole(shop, base)


CONFLICT = (put("aten/Stream.mm", "stream 4\nstream 5\n", "stream 4 of upstream\nstream five\n"),)


def test_conflict_is_shown_and_resolved(shop: Workshop) -> None:
    base = upstream(shop, *CONFLICT)
    before = everything(shop)
    result = shop.run("rebase", "--onto", "v0.2")
    error = str(result.exception)
    assert "The patch recorder does not fit v0.2" in error
    assert "scripts/mpsfork rebase --continue" in error
    shown = flat(result.output)
    assert "recorder: aten/Stream.mm, line 4, hunk 1 (@@ -4,2 +4,5 @@)" in shown
    assert (
        "was: stream 4 stream 5 v0.2 has: stream 4 of upstream stream five the patch recorder has: stream 4 recorded"
        in shown
    )
    # The checkout and the files wait unchanged.
    now = everything(shop)
    assert (now["sources"], now["pin"]) == (before["sources"], before["pin"])
    assert shop.head == command_git(shop.checkout, "rev-parse", "mps-graph")
    for command in ("apply", "refresh"):
        assert "A rebase of the series is under way" in shop.error(command)
    assert "is under way" in shop.error("rebase", "--onto", "v0.2")
    # Not resolved, resolved and not added, added with a mark in it.
    worktree = shop.layout.rebase_checkout
    assert "aten/Stream.mm in build/pytorch-rebase waits to be resolved" in shop.error("rebase", "--continue")
    file = worktree / "aten/Stream.mm"
    command_git(worktree, "add", "--all")
    assert "still has a mark of the conflict" in shop.error("rebase", "--continue")
    resolve(file, "stream 4 of upstream\nrecorded\nmiddle\nlast\nstream five\n")
    assert "aten/Stream.mm in build/pytorch-rebase waits" in shop.error("rebase", "--continue")
    command_git(worktree, "add", "--all")
    shop.good("clean")
    said = shop.good("rebase", "--continue")
    assert "4 of 4: python fits as it is" in said
    assert "+recorded\n" in patch(shop, "recorder")
    assert " stream 4 of upstream\n" in patch(shop, "recorder")
    check_whole(shop, base, thorough=True)


def test_resolution_that_the_user_committed(shop: Workshop) -> None:
    base = upstream(shop, *CONFLICT)
    shop.run("rebase", "--onto", "v0.2")
    worktree = shop.layout.rebase_checkout
    command_git(worktree, "checkout", "--theirs", "--", "aten/Stream.mm")
    command_git(worktree, "add", "--all")
    command_git(
        worktree, "commit", "--quiet", "--message=[MPS] Record it\n\nAnew.\n\nTest Plan: none\n\nPatch: recorder"
    )
    said = shop.good("rebase", "--continue")
    assert "[MPS] Record it\n\nAnew.\n" in patch(shop, "recorder")
    assert "1 of 4: recorder moved, as it was resolved" in said
    check_whole(shop, base)


def test_resolution_that_leaves_nothing(shop: Workshop) -> None:
    """Upstream's side may be right; the patch goes when the user says so."""
    base = upstream(
        shop, put("aten/Graph.mm", "graph 10\n", "cached ten\n"), put("aten/Graph.mm", "graph 20\n", "cached twenty\n")
    )
    assert "The patch cache does not fit" in shop.error("rebase", "--onto", "v0.2")
    worktree = shop.layout.rebase_checkout
    command_git(worktree, "checkout", "--ours", "--", "aten/Graph.mm")
    command_git(worktree, "add", "--all")
    assert "leaves nothing of the patch cache: `scripts/mpsfork rebase --skip`" in shop.error("rebase", "--continue")
    said = shop.good("rebase", "--skip")
    assert "note: cache: dropped, as --skip said" in said
    assert shop.layout.series.read_text() == "# the order\nrecorder\npool\npython\n"
    check_whole(shop, base)


def test_resolution_that_changes_a_hunk_says_so(shop: Workshop) -> None:
    upstream(shop, *CONFLICT)
    shop.run("rebase", "--onto", "v0.2")
    file = shop.layout.rebase_checkout / "aten/Stream.mm"
    resolve(file, "stream 4 of upstream\nanother\nmiddle\nlast\nstream five\n")
    command_git(shop.layout.rebase_checkout, "add", "--all")
    # It is next to what the patch pool changes.
    assert "The patch pool does not fit v0.2" in shop.error("rebase", "--continue")
    said = shop.good("rebase", "--skip")
    assert "recorder: aten/Stream.mm, hunk 1 resolved by hand: 2 of its 3 lines are as they were" in said


def test_resolution_that_no_series_can_hold(shop: Workshop) -> None:
    upstream(shop, *CONFLICT)
    shop.run("rebase", "--onto", "v0.2")
    command_git(shop.layout.rebase_checkout, "rm", "--quiet", "--force", "aten/Stream.mm")
    assert "it deletes aten/Stream.mm, which upstream has" in shop.error("rebase", "--continue")
    shop.good("rebase", "--abort")


def test_file_that_upstream_deleted(shop: Workshop) -> None:
    upstream(shop, lambda root: (root / "torch/mps.py").unlink())
    result = shop.run("rebase", "--onto", "v0.2")
    shown = flat(result.output)
    assert (
        "python: torch/mps.py: CONFLICT (modify/delete): torch/mps.py deleted in the new base and modified in the patch"
        in shown
    )
    assert "The patch python does not fit v0.2" in str(result.exception)
    shop.good("rebase", "--skip")
    assert "python" not in shop.layout.series.read_text()


def test_abort_leaves_all_as_before(shop: Workshop) -> None:
    upstream(shop, *CONFLICT)
    before = everything(shop)
    shop.run("rebase", "--onto", "v0.2")
    assert everything(shop) != before
    assert "The series is as it was" in shop.good("rebase", "--abort")
    assert everything(shop) == before
    assert "No rebase is under way" in shop.error("rebase", "--abort")
    assert "No rebase is under way" in shop.error("rebase", "--continue")


@pytest.mark.parametrize("way", ["--continue", "--abort"])
@pytest.mark.parametrize("strike", ["move_checkout", "write_series", "_remove_worktree", "merge_patch", "_keep_files"])
def test_killed_anywhere(shop: Workshop, strike: str, way: str) -> None:
    """A SIGKILL, before and in the middle of the step that it interrupts."""
    base = upstream(shop, put("aten/Stream.mm", "stream 1\n", "a\nb\nc\nstream 1\n"))
    before = everything(shop)
    pid = os.fork()
    if pid == 0:
        real = getattr(rebase_module, strike)
        calls = iter(range(9))

        def killed(*arguments: object) -> object:
            if strike != "merge_patch" or next(calls) == 2:
                if strike != "_keep_files":
                    real(*arguments)
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments)

        setattr(rebase_module, strike, killed)
        try:
            shop.run("rebase", "--onto", "v0.2")
        finally:
            os._exit(7)
    assert os.waitpid(pid, 0)[1] == signal.SIGKILL
    shop.good("rebase", way)
    if way == "--abort":
        assert everything(shop) == before
    else:
        check_whole(shop, base)


def test_uncommitted_changes_are_refused(shop: Workshop) -> None:
    upstream(shop)
    shop.write({"aten/Graph.mm": "mine\n"})
    before = shop.sources()
    assert "has changes that are not committed (aten/Graph.mm)" in shop.error("rebase", "--onto", "v0.2")
    assert shop.sources() == before
    assert (shop.checkout / "aten/Graph.mm").read_text() == "mine\n"
    shop.commit("[MPS] Mine")
    assert "holds commits that patches/ does not have: `make refresh`" in shop.error("rebase", "--onto", "v0.2")
    command_git(shop.checkout, "reset", "--quiet", "--hard", "HEAD~1")
    command_git(shop.root, "init", "--quiet")
    assert "This repository has changes that are not committed" in shop.error("rebase", "--onto", "v0.2")
    (shop.root / ".gitignore").write_text("build/\n")
    command_git(shop.root, "add", "--all")
    command_git(shop.root, "commit", "--quiet", "--message=all")
    shop.good("rebase", "--onto", "v0.2")


def test_edits_on_the_way_are_refused(shop: Workshop) -> None:
    upstream(shop, *CONFLICT)
    shop.run("rebase", "--onto", "v0.2")
    shop.overlay("aten/Recorder.h", "class Other;\n")
    assert "were edited since the rebase began" in shop.error("rebase", "--continue")
    shop.good("rebase", "--abort")
    assert (shop.layout.overlay / "aten/Recorder.h").read_text() == "class Other;\n"


def test_unknown_base(shop: Workshop) -> None:
    before = everything(shop)
    error = shop.error("rebase", "--onto", "v9")
    assert "nor https://upstream.invalid/upstream.git has 'v9'" in error and "Could not resolve host" in error
    remote = shop.root / "remote"
    command_git(shop.root, "clone", "--quiet", "--bare", str(shop.checkout), str(remote))
    shop.write_pin(url=f"file://{remote}")
    before = everything(shop)
    assert f"Neither build/pytorch nor file://{remote} has 'v9'" in shop.error("rebase", "--onto", "v9")
    assert "has '0000000000000000000000000000000000000000'" in shop.error("rebase", "--onto", "0" * 40)
    for name in ("", "--force", "a b"):
        assert "is no name of a base" in shop.error("rebase", f"--onto={name}")
    assert "is a commit of the series itself" in shop.error("rebase", "--onto", "mps-graph")
    assert everything(shop) == before


@pytest.mark.parametrize("kind", ["annotated tag", "branch", "commit"])
def test_base_that_upstream_has(shop: Workshop, kind: str) -> None:
    """The checkout lacks it: it comes from the address in base.toml."""
    remote = upstream_elsewhere(shop, put("aten/Stream.mm", "stream 1\n", "a\nstream 1\n"))
    base = command_git(remote, "rev-parse", "HEAD")
    command_git(remote, "tag", *(["--annotate", "--message=x"] if kind == "annotated tag" else []), "v0.2")
    asked = {"branch": "main", "commit": base}.get(kind, "v0.2")
    said = shop.good("rebase", "--onto", asked)
    name = "v0.2" if "tag" in kind else base[:12]
    assert f"The series stands on {name} ({base[:12]})" in said
    assert f'tag = "{name}"' in shop.layout.pin.read_text()
    assert ("is no release: base.toml still names the wheel torch==0.1" in said) == ("tag" not in kind)
    check_whole(shop, base)
    # A clone of it gets the same base, by its name or its commit.
    shop.good("clean", "--checkout")
    shop.good("fetch", "--source", "git")
    shop.good("apply")
    assert command_git(shop.checkout, "rev-parse", "HEAD~4") == base


def test_base_of_another_history(shop: Workshop) -> None:
    """From a tarball's single commit to a clone's, and from one release to a later one, fetched without its history."""
    remote = shop.root / "remote"
    remote.mkdir()
    command_git(remote, "init", "--quiet", "--initial-branch=main")
    for name in command_git(shop.checkout, "ls-tree", "-r", "--name-only", shop.base).splitlines():
        (remote / name).parent.mkdir(exist_ok=True)
        (remote / name).write_text(command_git(shop.checkout, "show", f"{shop.base}:{name}") + "\n")
    for version in ("v0.1", "v0.2"):
        put("aten/Stream.mm", "stream 1\n", "a\nstream 1\n")(remote)
        command_git(remote, "add", "--all")
        command_git(remote, "commit", "--quiet", f"--message={version}")
        command_git(remote, "tag", version)
    commits = command_git(remote, "rev-parse", "v0.1", "v0.2").split()
    shop.write_pin(url=f"file://{remote}", commit=commits[0], tree=shop.git.tree_of(shop.base))
    # The pinned commit itself: the tarball was the same release, so that pin and Debian part stay.
    text = shop.layout.pin.read_text()
    shop.good("rebase", "--onto", "v0.1")
    assert shop.layout.pin.read_text() == text
    check_whole(shop, commits[0])
    shop.good("rebase", "--onto", "v0.2")
    assert command_git(shop.checkout, "rev-list", "--count", "HEAD") == "5"
    assert "[debian]" not in shop.layout.pin.read_text()
    check_whole(shop, commits[1], thorough=True)


def test_onto_the_same_base(shop: Workshop) -> None:
    before = everything(shop)
    assert "stands on base already" in shop.good("rebase", "--onto", "base")
    assert everything(shop) == before
    assert "Give one of --onto REF" in shop.error("rebase")


def test_pin_that_can_not_be_rewritten_is_told_first(shop: Workshop) -> None:
    upstream(shop)
    text = shop.layout.pin.read_text()
    start, end = text.index("[upstream]"), text.index("[debian]")
    values = shop.project.pin
    inline = f'upstream = {{tag = "v0.1", commit = "{values.commit}", url = "{values.url}", date = "{values.date}"}}\n'
    shop.layout.pin.write_text(inline + text[:start] + text[end:])
    before = everything(shop)
    assert "is laid out in a way that can't be rewritten" in shop.error("rebase", "--onto", "v0.2")
    assert everything(shop) == before
