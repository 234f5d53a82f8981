"""The files of the series: read, written, and refused when they are broken."""

import pytest
from expecttest import assert_expected_inline
from hypothesis import given, settings
from hypothesis import strategies as st

from fork_tool.base.pin import load_pin
from fork_tool.common.errors import ForkToolError
from fork_tool.series.diffs import CorruptDiff, parse_diff
from fork_tool.series.order import parse_series
from fork_tool.series.patches import name_from_title, parse_message, parse_patch, Patch
from workshop import HUNK, MESSAGE, Workshop

NAMES = st.from_regex(r"[a-z0-9][a-z0-9_.-]{0,8}", fullmatch=True)
COMMENT = st.sampled_from(["", "# a comment", "  # indented", "#"])


@given(st.lists(st.tuples(st.lists(COMMENT, max_size=2), NAMES, COMMENT), unique_by=lambda item: item[1], max_size=5))
@settings(max_examples=60, deadline=None, database=None)
def test_series_comes_back_byte_for_byte(items: list[tuple[list[str], str, str]]) -> None:
    text = "".join("".join(f"{line}\n" for line in above) + f"{name}{beside}\n" for above, name, beside in items)
    series = parse_series(text, "series")
    assert series.names == [name for _, name, _ in items]
    assert series.text() == text
    assert sorted(series.reordered(series.names[::-1]).text()) == sorted(text)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a\nb\na\n", "series, line 3: patch a is listed twice"),
        ("a b\n", "series, line 1: 'a b' cannot be the name of a patch"),
        ("../a\n", "series, line 1: '../a' cannot be the name of a patch"),
        ("A\n", "series, line 1: 'A' cannot be the name of a patch"),
    ],
)
def test_broken_series(text: str, sentence: str) -> None:
    with pytest.raises(ForkToolError, match="^" + sentence.replace(".", r"\.")):
        parse_series(text, "series")


WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp", "Zs"]), min_size=1, max_size=9)
PARAGRAPH = st.lists(
    WORDS.filter(lambda word: word != "Overlay:" and not word.startswith("Patch:")), min_size=1, max_size=4
)


@given(WORDS, st.lists(PARAGRAPH.map("\n".join), max_size=3), st.lists(NAMES, max_size=2, unique=True), st.booleans())
@settings(max_examples=80, deadline=None, database=None)
def test_patch_comes_back(title: str, paragraphs: list[str], overlay: list[str], hunk: bool) -> None:
    patch = Patch("name", title, "\n\n".join(paragraphs), tuple(overlay), HUNK.encode() if hunk else b"")
    again = parse_patch("name", patch.text())
    assert again == patch
    assert again.text() == patch.text()
    assert parse_message(patch.message()) == ("name", patch.title, patch.body)
    assert parse_message(patch.message(trailer=False)) == (None, patch.title, patch.body)


def test_names_say_what_titles_say() -> None:
    assert name_from_title("[MPS] Let callers pin blocks", set()) == "let-callers-pin-blocks"
    assert name_from_title("[MPS] Pin", {"pin", "pin-2"}) == "pin-3"
    assert name_from_title("[MPS] …", set()) == "patch"


@pytest.mark.parametrize(
    ("damage", "line", "reason"),
    [
        (lambda diff: diff.replace("@@ -4,2", "@@ -4,3"), 7, "ends in the middle of hunk"),
        (lambda diff: diff.replace("@@ -4,2 +4,3", "@@ -4,1 +4,2"), 7, "more lines than its header says"),
        (lambda diff: diff.replace("@@ -4,2", "@@ x"), 4, "a hunk header looks like"),
        (lambda diff: diff.replace("+recorded", "recorded"), 6, "is no line of hunk"),
        (lambda diff: diff.replace("+++ b/aten/Stream", "+++ b/aten/Other"), 3, "names another file"),
        (lambda diff: diff[: diff.index("@@")], 3, "has no hunk"),
        (lambda diff: diff + "garbage\n", 8, "more lines than its header says"),
    ],
)
def test_corrupted_diff_names_the_line(damage: object, line: int, reason: str) -> None:
    assert callable(damage)
    with pytest.raises(CorruptDiff) as caught:
        parse_diff(damage(HUNK).encode())
    assert (caught.value.line, reason in caught.value.reason) == (line, True), caught.value.reason


def test_corrupted_patch_names_file_and_line() -> None:
    patch = parse_patch("recorder", f"{MESSAGE}\n\n{HUNK[:-9]}".encode())
    with pytest.raises(ForkToolError) as caught:
        patch.files()
    assert_expected_inline(
        str(caught.value),
        """patches/recorder.patch is corrupted at line 13: the file ends in the middle of a line; bring it back with `git checkout -- patches/recorder.patch`, or `make refresh` from a checkout that has it applied.""",
    )
    with pytest.raises(ForkToolError, match="its header is not UTF-8 text"):
        parse_patch("recorder", b"\xff\xfe" + HUNK.encode())
    with pytest.raises(ForkToolError, match="line 4: after `Overlay:` only indented paths may follow"):
        parse_patch("recorder", b"[MPS] x\n\nOverlay:\nnot indented\n")


def test_pin_file(workshop: Workshop) -> None:
    workshop.layout.pin.write_text("[upstream\n")
    assert "base.toml is not valid TOML" in workshop.error("apply")
    workshop.layout.pin.unlink()
    assert "base.toml is missing" in workshop.error("apply")


@pytest.mark.parametrize(
    ("line", "other", "sentence"),
    [
        ('tag = "v0.1"', "tag = 3", "upstream.tag is 3 (Input should be a valid string)"),
        ('tag = "v0.1"', 'other = "v0.1"', "lacks the value upstream.tag"),
        ("size = 10", "size = true", "debian.size is True (Input should be a valid integer)"),
        ("size = 10", "size = -1", "debian.size is -1 (Input should be greater than 0)"),
        ('date = "2025-01-01T00:00:00+00:00"', 'date = "today"', "upstream.date is 'today' (String should match"),
        ("size = 10", "size = 10\nsiez = 10", "has the value debian.siez, which nothing reads: correct its name"),
        ("packages = []", 'packages = [{name = "a"}]', "lacks the value objfw.packages[0].size: add it"),
        ("packages = []", 'packages = ["a"]', "objfw.packages[0] is 'a' (Input should be a valid dictionary"),
    ],
)
def test_pin_with_a_value_of_another_type(workshop: Workshop, line: str, other: str, sentence: str) -> None:
    workshop.layout.pin.write_text(workshop.layout.pin.read_text().replace(line, other))
    for command in ("apply", "verify", "doctor"):
        error = workshop.error(command)
        assert sentence in error
        assert error.endswith("or `git checkout -- base.toml`.")


def test_pin_without_a_debian_tarball(workshop: Workshop) -> None:
    text = workshop.layout.pin.read_text()
    start, end = text.index("[debian]"), text.index("[release]")
    workshop.layout.pin.write_text(text[:start] + text[end:])
    assert load_pin(workshop.layout.pin).tarball is None
    workshop.good("apply")
    workshop.good("verify")
    workshop.checkout.rename(workshop.root / "elsewhere")
    assert "base.toml names no Debian tarball" in workshop.error("fetch", "--source", "debian")
