"""What a comment asks for: the operators that it names, however it is written."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

_NAME = r"aten::(\w+)(?:\.\w+)?"
_ANY = re.compile(_NAME)
# The sentence of the error or the warning, which people paste.
_MESSAGE = re.compile(rf"operator\W{{0,4}}{_NAME}\W{{0,4}}\s+is\s+not\s+current", re.IGNORECASE)
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")
# A list in a list is indented like code.
_ITEM = re.compile(r"\s*([-*+]|\d+\.)\s")
# Those answer more often than they ask.
_MAINTAINERS = {"MEMBER", "OWNER", "COLLABORATOR"}


@dataclass(frozen=True)
class Comment:
    """A comment that asks for operators."""

    link: str
    author: str
    votes: int
    operators: tuple[str, ...]


def read_comment(content: Any) -> Comment | None:
    """The comment that GitHub's answer holds, or None when it asks for nothing or is not what a comment should be."""
    if not isinstance(content, dict):
        return None
    body, link = content.get("body"), content.get("html_url")
    if not isinstance(body, str) or not isinstance(link, str) or content.get("author_association") in _MAINTAINERS:
        return None
    operators = operators_in(body)
    if not operators:
        return None
    user = content.get("user")
    # An account that was deleted since is no user any more; each such comment counts for itself.
    author = user.get("login") if isinstance(user, dict) else None
    reactions = content.get("reactions")
    thumbs = reactions.get("+1") if isinstance(reactions, dict) else None
    votes = 1 + (thumbs if isinstance(thumbs, int) and thumbs > 0 else 0)
    return Comment(link, author if isinstance(author, str) else link, votes, tuple(operators))


def operators_in(body: str) -> list[str]:
    """Operators without overload, each once, those in prose first.

    In prose every name counts; in a block of code, where a log may name operators by the dozen, only the one that an
    error or a warning says is missing. A quotation is somebody else's request, or is repeated below it.
    """
    prose, code = _split(body)
    names = _ANY.findall(prose) + _MESSAGE.findall(code)
    return list(dict.fromkeys(f"aten::{name}" for name in names))


def _split(body: str) -> tuple[str, str]:
    """Prose and code; a fence that is never closed reaches to the end, as GitHub shows it."""
    prose: list[str] = []
    code: list[str] = []
    fence = ""
    for line in body.splitlines():
        match = _FENCE.match(line)
        if fence:
            if match and match[1].startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
            else:
                code.append(line)
        elif match:
            fence = match[1]
        elif line.startswith(("    ", "\t")) and not _ITEM.match(line):
            code.append(line)
        elif not line.lstrip().startswith(">"):
            prose.append(line)
    return "\n".join(prose), "\n".join(code)
