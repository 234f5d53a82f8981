"""`verify` and `export`."""

from __future__ import annotations

from workshop import command_git, HUNK, MESSAGE, Workshop


def problems(shop: Workshop) -> str:
    """What `verify` says about a series that is wrong."""
    result = shop.run("verify")
    assert result.exception is not None, result.output
    return result.stderr


def test_good_series(applied: Workshop) -> None:
    output = applied.good("verify")
    assert "All 1 entries apply and keep the rules." in output
    applied.commit("[MPS] More", {"aten/Graph.mm": "x\n"})
    assert "holds commits that patches/ does not have" in applied.good("verify")


def test_states(applied: Workshop) -> None:
    moved = (
        HUNK.replace("Stream", "Stream")
        .replace("@@ -4,2 +4,3 @@", "@@ -14,2 +14,3 @@")
        .replace("line 4", "line 10")
        .replace("line 5", "line 11")
    )
    applied.entry("moved", f"[MPS] Moved\n\nTest Plan: none\n\n{moved}")
    applied.entry("clash", f"[MPS] Clash\n\nTest Plan: none\n\n{HUNK}")
    applied.entry(
        "after",
        f"[MPS] After\n\nTest Plan: none\n\n{HUNK.replace('4', '6').replace('5', '7').replace('-6,2 +6,3', '-8,2 +8,3')}",
    )
    (applied.layout.patches / "broken.patch").write_text("[MPS] Broken\n\n" + HUNK[:-4])
    applied.layout.series.write_text("recorder\nmoved\nclash\nbroken\n")
    said = problems(applied)
    assert "moved: aten/Stream.mm, hunk 1: -3 lines from where it should be; look at the place" in said
    assert "clash: entry clash does not apply: aten/Stream.mm, hunk 1 (@@ -4,2 +4,3 @@)." in said
    assert "broken: patches/broken.patch is corrupted" in said
    assert "patches/after.patch is not in patches/series: add the line `after`" in said
    rows = [line for line in applied.run("verify").output.splitlines() if line.startswith("│")]
    assert [row.split()[3] for row in rows] == ["applies", "fuzz", "conflict", "unreadable"]


def test_hunks_that_add_more_than_they_should(applied: Workshop) -> None:
    new = (
        "diff --git a/aten/N.mm b/aten/N.mm\nnew file mode 100644\n--- /dev/null\n+++ b/aten/N.mm\n@@ -0,0 +1 @@\n+x\n"
    )
    gone = "diff --git a/aten/Graph.mm b/aten/Graph.mm\ndeleted file mode 100644\n--- a/aten/Graph.mm\n+++ /dev/null\n@@ -1,3 +0,0 @@\n-one\n-two\n-three\n"
    mode = "diff --git a/tools/run.sh b/tools/run.sh\nold mode 100644\nnew mode 100755\n"
    rename = "diff --git a/torch/mps.py b/torch/m.py\nsimilarity index 100%\nrename from torch/mps.py\nrename to torch/m.py\n"
    applied.entry("greedy", f"{MESSAGE}\n\n{new}{gone}{mode}{rename}")
    said = problems(applied)
    assert "greedy: aten/N.mm: the patch creates the file; a patch holds only hunks" in said
    assert "greedy: aten/Graph.mm: the patch deletes the file" in said
    assert "greedy: tools/run.sh: the patch changes the file's mode" in said
    assert "greedy: torch/m.py: the patch renames or copies the file" in said


def test_wide_context(workshop: Workshop) -> None:
    wide = HUNK.replace("@@ -4,2 +4,3 @@", "@@ -2,4 +2,5 @@").replace(" line 4", " line 2\n line 3\n line 4")
    workshop.entry("wide", f"{MESSAGE}\n\n{wide}")
    workshop.good("apply")
    assert "more context than git needs; `make apply refresh` trims it" in problems(workshop)
    workshop.good("refresh")
    workshop.good("verify")


def test_overlay_bookkeeping(applied: Workshop) -> None:
    applied.overlay("aten/Nobody.h")
    applied.overlay("__pycache__/x.pyc")
    (applied.layout.patches / "notes.txt").write_text("x")
    applied.entry(
        "second", "[MPS] Second\n\nTest Plan: none\n\nOverlay:\n  aten/Recorder.h\n  aten/Lost.h\n  aten/Graph.mm\n"
    )
    applied.entry("empty", "Nothing")
    said = problems(applied)
    assert "aten_mps_overlay/aten/Nobody.h is claimed by no entry" in said
    assert "aten_mps_overlay/aten/Recorder.h is claimed by recorder and second" in said
    assert "overlay file aten_mps_overlay/aten/Lost.h, which is missing" in said
    assert "It claims the overlay file aten/Graph.mm, which upstream has" in said
    assert "patches/notes.txt is no entry" in said
    assert "empty: its title is 'Nothing'" in said
    assert "empty: its body is empty" in said
    assert "empty: it changes nothing" in said
    assert "pycache" not in said


def test_unknown_entry(applied: Workshop) -> None:
    with applied.layout.series.open("a") as stream:
        stream.write("lost\n")
    assert "patches/series names the entry lost, and there is no patches/lost.patch (there: recorder)" in problems(
        applied
    )


def test_no_checkout(applied: Workshop) -> None:
    applied.checkout.rename(applied.root / "elsewhere")
    assert applied.error("verify") == "There is no checkout at build/pytorch: run `make fetch`."


def test_export_is_what_upstream_would_get(applied: Workshop) -> None:
    applied.commit("[MPS] Second", {"aten/Graph.mm": "2\n"})
    applied.good("refresh")
    state = applied.state()
    output = applied.good("export").split()
    assert output == ["build/export/0001-MPS-Add-a-recorder.patch", "build/export/0002-MPS-Second.patch"]
    text = (applied.root / output[0]).read_text()
    assert "Subject: [PATCH 1/2] [MPS] Add a recorder\n\nWhy it is there." in text
    assert "Entry:" not in text
    assert "create mode 100644 aten/Recorder.h" in text
    assert applied.state() == state
    before = {path.name: path.read_bytes() for path in applied.layout.export.iterdir()}
    applied.good("export")
    assert before == {path.name: path.read_bytes() for path in applied.layout.export.iterdir()}
    command_git(applied.checkout, "checkout", "--quiet", "--detach", "base")
    command_git(applied.checkout, "am", "--quiet", *(str(applied.root / path) for path in output))
    assert applied.git.tree_of("HEAD") == applied.git.tree_of("mps-graph")
    applied.layout.series.write_text("")
    assert "nothing to export" in applied.error("export")
