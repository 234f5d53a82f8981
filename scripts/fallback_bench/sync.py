"""`sync`: bring the requests of targets.yaml up to date with the tracking issues."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from fallback_bench.comments import Comment, read_comment
from fallback_bench.github import GitHub
from fallback_bench.targets import load, Request, save, Target, Targets
from fork_tool.common.console import count_progress
from fork_tool.common.errors import ForkToolError

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
    stamp = {"date": (today or date.today()).isoformat(), "issues": ", ".join(map(str, numbers))}
    save(Targets(merged, stamp), path)
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
                count += len(page)
                asking += [comment for comment in map(read_comment, page) if comment]
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
