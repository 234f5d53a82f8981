"""Links between the pages of this repository lead somewhere, and the tests that pages name exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted(
    path
    for folder in (".", "docs", "patches", "scripts", "test")
    for path in (ROOT / folder).glob("**/*.md" if folder != "." else "*.md")
)
# The front page is for everyone.
ADDRESSED = [page for page in PAGES if page != ROOT / "README.md"]
LINK = re.compile(r"\]\((?!https?:)([^)#]+)(#[^)]*)?\)")
TEST = re.compile(r"`(?:[A-Z]\w+\.)?(test_\w+)`")


def anchors(page: Path) -> set[str]:
    """What headings are called in links."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    prose = re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.M | re.S)
    for target, anchor in LINK.findall(prose):
        found = (page.parent / target).resolve()
        assert found.exists(), target
        assert not anchor or anchor[1:] in anchors(found), target + anchor


def names_its_readers(text: str) -> bool:
    """Whether the first line, or the first one below the title, says for whom the page is."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return bool(lines) and re.match(r"For (anyone|authors|reviewers|users) ", lines[0]) is not None


@pytest.mark.parametrize("page", ADDRESSED, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_say_first_for_whom_they_are(page: Path) -> None:
    assert names_its_readers(page.read_text())


def test_a_page_without_its_readers_is_seen() -> None:
    assert names_its_readers("# A title\n\nFor anyone who reads. And more.\n")
    for text in (
        "",
        "# For anyone who reads\n",
        "# A title\n\nWhat it is. For anyone who reads.\n",
        "For the rest, see below.\n",
    ):
        assert not names_its_readers(text)


# Words that readers have stumbled over, and what to say.
PLAINER = {
    "anew": "again",
    "lest": "so that … not",
    "mend": "fix",
    "mended": "fixed",
    "mends": "fixes",
    "nobody": "no one",
}


def unusual_words(text: str) -> list[str]:
    """Those of a page that have a plainer one."""
    return [word for word in re.findall(r"\b[a-z]+\b", text.lower()) if word in PLAINER]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_use_plain_words(page: Path) -> None:
    assert unusual_words(page.read_text()) == []


def test_an_unusual_word_is_seen() -> None:
    assert unusual_words("Mend it, lest it is made anew. `test_nobody_else` recommends an amendment.") == [
        "mend",
        "lest",
        "anew",
    ]


def test_named_tests_exist() -> None:
    sources = [*(ROOT / "aten_mps_overlay" / "test").glob("*.py"), *(ROOT / "test").rglob("test_*.py")]
    known = set(re.findall(r"def (test_\w+)", "\n".join(path.read_text() for path in sources)))
    known |= {path.stem for path in sources}
    page = ROOT / "docs" / "upstreaming.md"
    named = set(TEST.findall(page.read_text()))
    assert len(named) > 5
    assert named - known == set()
