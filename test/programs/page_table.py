"""Tables of the pages in docs/results."""

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], lines: Iterable[Sequence[str]], words: int = 100) -> str:
    """Rows under a head; columns after so many of `words` are numbers, which stand to the right."""
    marks = ["--:" if column >= words else "---" for column in range(len(head))]
    escaped = ([cell.replace("|", "\\|") for cell in line] for line in lines)
    return "".join("| " + " | ".join(line) + " |\n" for line in (head, marks, *escaped))
