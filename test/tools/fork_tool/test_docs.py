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


def test_named_tests_exist() -> None:
    sources = [*(ROOT / "aten_mps_overlay" / "test").glob("*.py"), *(ROOT / "test").rglob("test_*.py")]
    known = set(re.findall(r"def (test_\w+)", "\n".join(path.read_text() for path in sources)))
    known |= {path.stem for path in sources}
    page = ROOT / "docs" / "upstreaming.md"
    named = set(TEST.findall(page.read_text()))
    assert len(named) > 5
    assert named - known == set()
