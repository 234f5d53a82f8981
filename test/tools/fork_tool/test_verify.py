"""`verify`, `export`, and `export --ghstack`: the branch, its messages, and that no work on it is lost."""

from pathlib import Path

import pytest

from fork_tool.common.errors import ForkToolError
from fork_tool.paths import own_layout
from fork_tool.series.export import ISSUE, request_message, TAKEN_BY
from fork_tool.series.patches import parse_patch, Patch
from fork_tool.series.project import Project
from workshop import command_git, HUNK, MESSAGE, UPSTREAM, Workshop


def problems(shop: Workshop) -> str:
    result = shop.run("verify")
    assert result.exception is not None, result.output
    return result.stderr


def test_good_series(applied: Workshop) -> None:
    output = applied.good("verify")
    assert "All 1 patches apply and keep the rules." in output
    applied.commit("[MPS] More", {"aten/Graph.mm": "x\n"})
    assert "holds commits that patches/ does not have" in applied.good("verify")


def test_states(applied: Workshop) -> None:
    moved = (
        HUNK.replace("Stream", "Stream")
        .replace("@@ -4,2 +4,3 @@", "@@ -14,2 +14,3 @@")
        .replace("line 4", "line 10")
        .replace("line 5", "line 11")
    )
    applied.patch("moved", f"[MPS] Moved\n\nTest Plan: none\n\n{moved}")
    applied.patch("clash", f"[MPS] Clash\n\nTest Plan: none\n\n{HUNK}")
    applied.patch(
        "after",
        f"[MPS] After\n\nTest Plan: none\n\n{HUNK.replace('4', '6').replace('5', '7').replace('-6,2 +6,3', '-8,2 +8,3')}",
    )
    (applied.layout.patches / "broken.patch").write_text("[MPS] Broken\n\n" + HUNK[:-4])
    applied.layout.series.write_text("recorder\nmoved\nclash\nbroken\n")
    said = problems(applied)
    assert "moved: aten/Stream.mm, hunk 1: -3 lines from where it should be; check the new line" in said
    assert "clash: patch clash does not apply: aten/Stream.mm, hunk 1 (@@ -4,2 +4,3 @@)." in said
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
    applied.patch("greedy", f"{MESSAGE}\n\n{new}{gone}{mode}{rename}")
    said = problems(applied)
    assert "greedy: aten/N.mm: the patch creates the file; a patch holds only hunks" in said
    assert "greedy: aten/Graph.mm: the patch deletes the file" in said
    assert "greedy: tools/run.sh: the patch changes the file's mode" in said
    assert "greedy: torch/m.py: the patch renames or copies the file" in said


def test_wide_context(workshop: Workshop) -> None:
    wide = HUNK.replace("@@ -4,2 +4,3 @@", "@@ -2,4 +2,5 @@").replace(" line 4", " line 2\n line 3\n line 4")
    workshop.patch("wide", f"{MESSAGE}\n\n{wide}")
    workshop.good("apply")
    assert "more context than git needs; `make apply refresh` trims it" in problems(workshop)
    workshop.good("refresh")
    workshop.good("verify")


def test_overlay_bookkeeping(applied: Workshop) -> None:
    applied.overlay("aten/Unclaimed.h")
    applied.overlay("__pycache__/x.pyc")
    (applied.layout.patches / "notes.txt").write_text("x")
    applied.layout.releases.mkdir()
    applied.patch(
        "second", "[MPS] Second\n\nTest Plan: none\n\nOverlay:\n  aten/Recorder.h\n  aten/Lost.h\n  aten/Graph.mm\n"
    )
    applied.patch("empty", "Nothing\n")
    said = problems(applied)
    assert "aten_mps_overlay/aten/Unclaimed.h is claimed by no patch" in said
    assert "aten_mps_overlay/aten/Recorder.h is claimed by recorder and second" in said
    assert "overlay file aten_mps_overlay/aten/Lost.h, which is missing" in said
    assert "It claims the overlay file aten/Graph.mm, which upstream has" in said
    assert "patches/notes.txt is no patch" in said
    assert "patches/releases" not in said
    assert "empty: its title is 'Nothing'" in said
    assert "empty: its body is empty" in said
    assert "empty: it changes nothing" in said
    assert "pycache" not in said


def test_no_checkout(applied: Workshop) -> None:
    applied.checkout.rename(applied.root / "elsewhere")
    assert applied.error("verify") == "There is no checkout at build/pytorch: run `make fetch`."


def test_export_is_what_upstream_would_get(applied: Workshop) -> None:
    applied.commit("[MPS] Second", {"aten/Graph.mm": "2\n"})
    applied.good("refresh")
    state = applied.state()
    result = applied.run("export")
    output = result.stdout.split()
    assert TAKEN_BY in result.stderr
    assert output == ["build/export/0001-MPS-Add-a-recorder.patch", "build/export/0002-MPS-Second.patch"]
    text = (applied.root / output[0]).read_text()
    assert "Subject: [PATCH 1/2] [MPS] Add a recorder\n\nWhy it is there." in text
    assert "Patch:" not in text
    assert "create mode 100644 aten/Recorder.h" in text
    assert applied.state() == state
    before = {path.name: path.read_bytes() for path in applied.layout.export.iterdir()}
    applied.good("export")
    assert before == {path.name: path.read_bytes() for path in applied.layout.export.iterdir()}
    command_git(applied.checkout, "checkout", "--quiet", "--detach", "base")
    command = TAKEN_BY.removeprefix("git ").replace("build/export/*.patch", "").split()
    command_git(applied.checkout, *command, "--quiet", *(str(applied.root / path) for path in output))
    assert applied.titles == ["[MPS] Add a recorder", "[MPS] Second"]
    assert applied.git.tree_of("HEAD") == applied.git.tree_of("mps-graph")
    applied.layout.series.write_text("")
    assert "nothing to export" in applied.error("export")


def test_name_that_nobody_uses(applied: Workshop) -> None:
    applied.commit(
        "[MPS] Early\n\nWhy.\n\nTest Plan: none\n\nPatch: early", {"torch/early.py": "def early():\n    pass\n"}
    )
    applied.good("refresh")
    assert "early: torch/early.py declares early, which neither this patch nor an earlier one" in problems(applied)
    applied.commit("[MPS] Early\n\nPatch: early", {"torch/early.py": "def early():\n    pass\n\n\nearly()\n"})
    applied.good("refresh")
    assert "All 2 patches apply and keep the rules." in applied.good("verify")


def states(shop: Workshop) -> dict[str, str]:
    """The state of each patch, as the table has it."""
    cells = [[cell.strip() for cell in line.split("│")] for line in shop.run("verify").output.splitlines()]
    return {row[1]: row[2] for row in cells if len(row) == 8 and row[1]}


def test_cut_patch_is_named_and_not_the_next_one(shop: Workshop) -> None:
    """Wherever it is cut, at the end of a line too."""
    path = shop.layout.patches / "cache.patch"
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    cuts = {len(b"".join(lines[:count])) for count in range(1, len(lines))}
    cuts |= {length + 3 for length in list(cuts)[::3] if length + 3 < len(whole)}
    for length in sorted(cuts):
        path.write_bytes(whole[:length])
        said = problems(shop)
        assert said.startswith("error: cache: "), whole[:length]
        blamed = {
            line.split(": ")[1] for line in said.splitlines() if line.startswith("error: ") and line.count(": ") > 1
        }
        assert blamed == {"cache"}, said
    path.write_bytes(whole)
    shop.good("verify")


def test_hunk_that_is_missing_is_counted(shop: Workshop) -> None:
    path = shop.layout.patches / "cache.patch"
    path.write_text("".join(path.read_text().partition("@@ -20")[:1]))
    assert "patches/cache.patch has 1 of the 2 hunks that its header counts" in shop.error("apply")


def test_one_conflict_is_one_problem(shop: Workshop) -> None:
    """pool changes what recorder adds; python and cache are of other files."""
    path = shop.layout.patches / "recorder.patch"
    path.write_text(path.read_text().replace(" stream 4\n", " stream four\n"))
    said = problems(shop)
    assert "recorder: patch recorder does not apply: aten/Stream.mm, hunk 1" in said
    assert said.count("error: ") == 1
    assert "The series has 1 problem: see above." in str(shop.run("verify").exception)
    assert states(shop) == {"recorder": "conflict", "cache": "applies", "pool": "not checked", "python": "applies"}
    assert "pool was not checked, because it changes code after the conflict of recorder" in shop.run("verify").output
    # The overlay of a patch that conflicts is there all the same.
    path.write_text("[MPS]")
    assert states(shop)["recorder"] == "unreadable"
    assert states(shop)["pool"] == "not checked"
    assert states(shop)["python"] == "applies"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"a\0b\n", "holds NUL bytes: the overlay holds sources, nothing binary"),
        (b"\x89PNG\r\n\xff\xfe", "is not UTF-8 text: the overlay holds sources"),
        ((b"x" * 99 + b"\n") * 30_000, "has 3.0 MB: the overlay holds sources, of 1 MB at most"),
    ],
)
def test_overlay_holds_sources(applied: Workshop, content: bytes, sentence: str) -> None:
    (applied.layout.overlay / "aten/Recorder.h").write_bytes(content)
    assert f"recorder: aten_mps_overlay/aten/Recorder.h {sentence}" in problems(applied)


@pytest.mark.parametrize("options", [[], ["--ghstack"]])
def test_author_of_exports(applied: Workshop, options: list[str]) -> None:
    applied.good("export", *options, "--author", "Ada Lovelace <ada@example.org>")
    if options:
        said = command_git(applied.checkout, "log", "-1", "--format=%an|%ae|%cn", "mps-graph-ghstack")
        assert said == "Ada Lovelace|ada@example.org|Ada Lovelace"
    else:
        (path,) = applied.layout.export.iterdir()
        assert "\nFrom: Ada Lovelace <ada@example.org>\n" in path.read_text()
    for wrong in ("Ada", "<ada@example.org>", "Ada <ada>", "Ada <a@b> <c@d>"):
        assert "is not of the form 'Name <mail@example.org>'" in str(applied.run("export", "--author", wrong).exception)


OLD_TEST, NEW_TEST, PROGRAM = "test/test_mps.py", "test/test_mps_new.py", "aten/src/ATen/test/mps_test_new.mm"


@pytest.fixture
def with_test(tmp_path: Path) -> Workshop:
    """An upstream that has a test."""
    files: dict[str, str | bytes] = {**UPSTREAM, OLD_TEST: "class TestMPS(TestCase):\n    pass\n"}
    return Workshop(tmp_path / "repository", files)


def series(with_test: Workshop, plan: str) -> None:
    """A patch with this plan, and a later one that brings tests."""
    with_test.patch("first", f"[MPS] First\n\nWhy.\n\nTest Plan: {plan}\n\n{HUNK}")
    with_test.overlay(NEW_TEST, "class TestNew(TestCase):\n    pass\n")
    with_test.overlay(PROGRAM, "TEST(New, Works) {}\n")
    with_test.patch(
        "second",
        f"[MPS] Second\n\nWhy.\n\nTest Plan: `python {NEW_TEST} TestNew.test_it`, `build/bin/mps_test_new`\n\n"
        f"Overlay:\n  {PROGRAM}\n  {NEW_TEST}\n",
    )


@pytest.mark.parametrize("plan", ["ran it", "`pytest -k it`", f"`python {OLD_TEST} TestMPS.test_add`"])
def test_plans_that_can_be_followed(with_test: Workshop, plan: str) -> None:
    series(with_test, plan)
    with_test.good("verify")


@pytest.mark.parametrize(
    ("plan", "problem"),
    [
        (f"`python {NEW_TEST}`", f"runs {NEW_TEST}, which is not there before a later patch"),
        ("`build/bin/mps_test_new`", "runs build/bin/mps_test_new, whose source is not there before a later patch"),
        (f"`python {OLD_TEST} TestGone`", f"runs TestGone of {OLD_TEST}, which has no such class"),
    ],
)
def test_plans_that_need_a_later_patch(with_test: Workshop, plan: str, problem: str) -> None:
    series(with_test, plan)
    result = with_test.run("verify")
    assert result.exception is not None
    assert f"first: its test plan {problem}" in result.stderr


BRANCH = "mps-graph-ghstack"


def tip(shop: Workshop) -> str:
    return command_git(shop.checkout, "rev-parse", BRANCH)


def test_branch_holds_one_commit_per_patch(applied: Workshop) -> None:
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
    assert "Patch:" not in command_git(applied.checkout, "log", "--format=%B", f"{applied.base}..{BRANCH}")
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
def test_patch_without_test_plan(body: str) -> None:
    with pytest.raises(ForkToolError, match=r"Patch one has no test plan: end its body in patches/one\.patch"):
        request_message(Patch("one", "[MPS] One", body))


def test_benchmark_only_where_one_was_measured() -> None:
    body = "Why.\n\nHow.\n\nBenchmark: on an M3 with macOS 15.2, 4 ms → 1 ms.\nAnd more.\n\nTest Plan: ran it"
    assert request_message(Patch("one", "[MPS] One", body)) == (
        f"[MPS] One\n\n### Motivation\n\nWhy.\n\n{ISSUE}\n\n### Design\n\nHow.\n\n"
        "### Benchmark\n\non an M3 with macOS 15.2, 4 ms → 1 ms.\nAnd more.\n\n### Test Plan\n\nran it\n"
    )


def test_every_patch_of_this_repository_makes_a_request() -> None:
    project = Project(own_layout())
    for name in project.series().names:
        patch = parse_patch(name, (project.layout.patches / f"{name}.patch").read_bytes())
        message = request_message(patch)
        assert message.startswith("[MPS] ")
        assert message.count("https://github.com/pytorch/pytorch/issues/180397") == 1
        assert "TODO" not in message
        assert ("### Benchmark" in message) == ("\nBenchmark:" in patch.body)
        assert [line for line in message.splitlines() if line.startswith("### ")][-1] == "### Test Plan"
