"""Tables of docs/results, and the place of their summaries on its page."""

from collections.abc import Iterable, Sequence
from pathlib import Path


def table(head: Sequence[str], lines: Iterable[Sequence[str]], words: int = 100) -> str:
    """Rows under a head; columns after so many of `words` are numbers, which stand to the right."""
    marks = ["--:" if column >= words else "---" for column in range(len(head))]
    escaped = ([cell.replace("|", "\\|") for cell in line] for line in lines)
    return "".join("| " + " | ".join(line) + " |\n" for line in (head, marks, *escaped))


def write_page(page: Path, text: str, summary: str) -> None:
    """Write a file of results, and its summary on the README.md beside it, after the mark `<!-- NAME -->`."""
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(text)
    readme = page.with_name("README.md")
    if readme.exists():
        before, mark, rest = readme.read_text().partition(f"<!-- {page.name} -->\n")
        _, end, after = rest.partition("<!-- end -->\n")
        if not end:
            raise ValueError(f"{readme} has no lines `<!-- {page.name} -->` and `<!-- end -->`")
        readme.write_text(before + mark + summary + end + after)
