"""`sync`: what the comments of the tracking issues ask for, and targets.yaml brought up to date with it."""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

from fallback_bench.github import GitHub
from fallback_bench.targets import load, Request, save, Target, Targets
from fork_tool.common.console import count_progress
from fork_tool.common.errors import ForkToolError

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
    link: str
    author: str
    votes: int
    operators: tuple[str, ...]


def read_comment(content: Any) -> Comment | None:
    """The comment that GitHub's answer holds, or None if it asks for nothing."""
    operators = operators_in(content["body"] or "")
    if not operators or content["author_association"] in _MAINTAINERS:
        return None
    link = content["html_url"]
    # An account that was deleted since is no user any more; each such comment counts for itself.
    author = content["user"]["login"] if content["user"] else link
    return Comment(link, author, 1 + content["reactions"]["+1"], tuple(operators))


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


REPOSITORY = "pytorch/pytorch"
ISSUES = (77764, 141287)


@dataclass(frozen=True)
class Outcome:
    """What a sync read and changed."""

    comments: int
    asking: int
    new: tuple[str, ...]
    gone: tuple[str, ...]
    unknown: tuple[str, ...]


def known_operators() -> set[str]:
    """All operators of this torch, without overloads."""
    import torch

    names = torch._C._dispatch_get_all_op_names()
    return {name.split(".")[0] for name in names if name.startswith("aten::")}


def sync(
    github: GitHub, path: Path, known: Collection[str], issues: Iterable[int] = ISSUES, today: date | None = None
) -> Outcome:
    """Read all comments, then write the file in one step: a sync that fails leaves it as it was."""
    before = load(path)
    numbers = list(issues)
    count, comments = _read(github, numbers)
    if not comments:
        raise ForkToolError(
            f"None of {count} comments asks for an operator, which can't be: {path} was left as it was."
        )
    requests = _by_operator(comments)
    unknown = tuple(sorted(name for name in requests if name not in known))
    found = {name: tuple(asked) for name, asked in requests.items() if name in known}
    merged = merge(before, found)
    day = (today or date.today()).isoformat()
    save(Targets(merged, {"date": day, "issues": ", ".join(map(str, numbers))}), path)
    old, new = ({target.operator for target in targets} for targets in (before.targets, merged))
    return Outcome(count, len(comments), tuple(sorted(new - old)), tuple(sorted(old - new)), unknown)


def merge(before: Targets, found: dict[str, tuple[Request, ...]]) -> tuple[Target, ...]:
    """Curated entries stay, with what was found for them now; the others are those that were found."""
    kept = [
        replace(target, found=found.get(target.operator, ()))
        for target in before.targets
        if target.curated or target.operator in found
    ]
    there = {target.operator for target in kept}
    return (*kept, *(Target(name, found=requests) for name, requests in found.items() if name not in there))


def _read(github: GitHub, issues: list[int]) -> tuple[int, list[Comment]]:
    count, asking = 0, []
    with count_progress() as progress:
        for issue in issues:
            task = progress.add_task(f"#{issue}", total=None)
            for page in github.comments(REPOSITORY, issue):
                try:
                    asking += [comment for comment in map(read_comment, page) if comment]
                except (TypeError, KeyError) as problem:
                    raise ForkToolError(
                        f"#{issue} has what is no comment by its fields ({problem!r}): has GitHub's API changed? "
                        "Nothing was written."
                    ) from None
                count += len(page)
                progress.update(task, advance=len(page))
    return count, asking


def _by_operator(comments: list[Comment]) -> dict[str, list[Request]]:
    """The requests for each operator: one for each person, whose most approved comment it is."""
    best: dict[tuple[str, str], Comment] = {}
    for comment in comments:
        for operator in comment.operators:
            there = best.get((operator, comment.author))
            if there is None or comment.votes > there.votes:
                best[operator, comment.author] = comment
    requests: dict[str, list[Request]] = {}
    for (operator, _), comment in best.items():
        requests.setdefault(operator, []).append(Request(comment.link, comment.votes))
    return {name: sorted(asked, key=lambda one: (-one.votes, one.link)) for name, asked in requests.items()}
