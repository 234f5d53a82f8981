"""Which hunks of the series fit the release's headers and Python files, and which of its files are needed for that."""

import shutil
from pathlib import Path

import pytest

from fork_tool.common.errors import ForkToolError
from fork_tool.releases.make import Made
from fork_tool.releases.release import ReleasePlaces
from fork_tool.releases.tree import (
    APPLIED,
    apply_file,
    apply_series,
    DIFFERS,
    installed_path,
    MISFIT,
    NOT_IN_WHEEL,
    reader,
    release_series,
    ReleasePatch,
    source_lines,
)
from fork_tool.series.diffs import FileDiff, parse_diff
from fork_tool.series.project import Project

FIRST = b"one\ntwo\nthree\ntwo\nthree\nfour\n"


def hunk(*lines: str, at: int = 1) -> bytes:
    old = sum(not line.startswith("+") for line in lines)
    new = sum(not line.startswith("-") for line in lines)
    head = f"diff --git a/f.h b/f.h\n--- a/f.h\n+++ b/f.h\n@@ -{at},{old} +{at},{new} @@\n"
    return (head + "".join(f"{line}\n" for line in lines)).encode()


def test_all_that_can_be_checked_fits(made: Made) -> None:
    assert [hunk for verdict in made.verdicts for hunk in verdict.misfits] == []
    states = {
        state: sum(verdict.count(state) for verdict in made.verdicts) for state in (APPLIED, DIFFERS, NOT_IN_WHEEL)
    }
    assert states[APPLIED] > 20 and states[DIFFERS] > 10 and states[NOT_IN_WHEEL] > 100


def test_a_file_of_the_wheel_says_so(made: Made) -> None:
    """A hunk is left unchecked only if the wheel lacks its file, not because of a wrong path."""
    for verdict in made.verdicts:
        for each in verdict.hunks:
            there = (made.places.wheel / installed_path(each.file)).is_file()
            assert there == (each.state != NOT_IN_WHEEL), each.file
            if each.state == NOT_IN_WHEEL:
                assert not each.file.startswith(("torch/", "c10/")) or each.file.endswith((".cpp", ".mm", ".in")), (
                    each.file
                )
                assert not (each.file.startswith("aten/") and each.file.endswith(".h")), each.file


def test_without_the_folder_of_the_release_hunks_do_not_fit(made: Made, project: Project) -> None:
    """Each of its replacements for a patch of patches/ is there for a reason."""
    own = {path.stem for path in made.places.patches.glob("*.patch")}
    general = {path.stem for path in project.layout.patches.glob("*.patch")}
    assert own & general and own - general == {"accelerator-graph"}
    for name in sorted(own & general):
        patches = [
            patch if patch.name != name else ReleasePatch(name, tuple(project_files(project, name)), frozenset(), {})
            for patch in made.patches
        ]
        verdicts, files = apply_series(patches, reader(made.places.wheel))
        misfits = [verdict.name for verdict in verdicts if verdict.misfits]
        # MPSStream.h is included where Objective-C is not known.
        no_stand_in = b"typedef void* MTLCommandBuffer_t;" not in files["aten/src/ATen/mps/MPSStream.h"]
        assert misfits or no_stand_in or older_types(made, files), (
            f"{name} fits without its patch in {made.places.patches}"
        )
    _, files = apply_series(made.patches, reader(made.places.wheel))
    assert older_types(made, files) == set()


def older_types(made: Made, files: dict[str, bytes]) -> set[str]:
    """Names of types in what the series adds to the stubs of torch._C, where they are not imported any more."""
    path = "torch/_C/__init__.pyi.in"
    before = (made.places.wheel / installed_path(path)).read_bytes().splitlines()
    added = b"\n".join(set(files[path].splitlines()) - set(before)).decode()
    return {name for name in ("Dict", "List", "Optional", "Tuple") if f"{name}[" in added}


def project_files(project: Project, name: str) -> list[FileDiff]:
    return next(patch.files() for patch in project.patches() if patch.name == name)


@pytest.mark.parametrize(
    ("change", "detail"),
    [
        ((" one", "+new", " nowhere"), "its lines are nowhere in the file"),
        ((" two", "+new", " three"), "its lines are in 2 places of the file"),
    ],
)
def test_hunk_that_does_not_fit(change: tuple[str, ...], detail: str) -> None:
    lines = FIRST.split(b"\n")
    verdict = apply_file(parse_diff(hunk(*change))[0], lines, APPLIED)[0]
    assert (verdict.state, verdict.detail) == (MISFIT, detail)
    assert b"\n".join(lines) == FIRST


def test_hunk_that_fits_elsewhere() -> None:
    lines = FIRST.split(b"\n")
    verdict = apply_file(parse_diff(hunk(" three", "+new", " four", at=2))[0], lines, DIFFERS)[0]
    assert (verdict.state, verdict.moved) == (DIFFERS, 3)
    assert b"\n".join(lines) == b"one\ntwo\nthree\ntwo\nthree\nnew\nfour\n"


def test_lines_around_an_installed_header_are_left_out() -> None:
    text = b'#if !defined(TORCH_STABLE_ONLY) && !defined(X)\n//  text\n\n#pragma once\n} // namespace\n\n#else\n#error "x"\n#endif  // y\n'
    assert b"\n".join(source_lines(text)) == b"//  text\n\n#pragma once\n} // namespace\n"
    assert b"\n".join(source_lines(b"#pragma once\n")) == b"#pragma once\n"


@pytest.fixture
def another(made: Made, tmp_path: Path) -> ReleasePlaces:
    """A copy of the release's folder, to break."""
    layout = type(made.places.layout)(tmp_path)
    (tmp_path / "aten_mps_overlay").symlink_to(made.places.layout.overlay)
    shutil.copytree(made.places.layout.patches, layout.patches)
    return ReleasePlaces(layout, made.places.name)


def refused(places: ReleasePlaces) -> str:
    with pytest.raises(ForkToolError) as caught:
        release_series(Project(places.layout), places)
    return str(caught.value)


def test_patch_that_the_order_does_not_name(another: ReleasePlaces) -> None:
    (another.patches / "lost.patch").write_text("lost\n\nHunks: 0\n")
    assert "does not name lost" in refused(another)


def test_patch_that_is_nowhere(another: ReleasePlaces) -> None:
    another.series.write_text(another.series.read_text() + "nowhere\n")
    assert "names the patch nowhere" in refused(another)


def test_overlay_file_that_no_patch_claims(another: ReleasePlaces) -> None:
    (another.overlay / "more.h").write_text("\n")
    assert "claims more.h" in refused(another)


def test_patch_for_a_file_that_its_patch_does_not_change(another: ReleasePlaces) -> None:
    path = another.patches / "python-api.patch"
    path.write_bytes(path.read_bytes().replace(b"__init__.pyi.in", b"another.pyi.in"))
    assert "which that one does not change" in refused(another)
