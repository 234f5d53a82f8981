"""The operators to measure, each with the requests for it: reading, checking and writing targets.yaml."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from fork_tool.common.errors import ForkToolError
from fork_tool.common.files import write_atomically

OWN_FILE = Path(__file__).with_name("targets.yaml")
_OPERATOR = re.compile(r"aten::\w+")
_LINK = re.compile(r"https://github\.com/[\w.-]+/[\w.-]+/(issues|pull)/\d+(#issuecomment-\d+)?")
_HEADER = """\
# Operators that users asked the MPS backend for. `curated` links are kept by hand: requests that a person has
# read. `found` and `synced` are written by `scripts/mpsfork fallback-sync`, which replaces them and nothing else.
"""


@dataclass(frozen=True)
class Request:
    """One person's comment that asks for an operator, and how many more agreed with it."""

    link: str
    votes: int = 1


@dataclass(frozen=True)
class Target:
    """An operator (all of its overloads) and who wants it."""

    operator: str
    note: str = ""
    curated: tuple[str, ...] = ()
    found: tuple[Request, ...] = ()

    @property
    def votes(self) -> int:
        """The demand; before the first sync, the links that were put in by hand."""
        return sum(request.votes for request in self.found) or len(self.curated)

    @property
    def links(self) -> list[str]:
        """Where it was asked for: curated links first."""
        return list(dict.fromkeys([*self.curated, *(request.link for request in self.found)]))


@dataclass(frozen=True)
class Targets:
    """What targets.yaml holds."""

    targets: tuple[Target, ...]
    synced: dict[str, str] = field(default_factory=dict)

    @property
    def by_demand(self) -> list[Target]:
        return sorted(self.targets, key=lambda target: (-target.votes, target.operator))


def load(path: Path = OWN_FILE) -> Targets:
    """Read and check the file; what is wrong with it is said with the entry's name."""
    try:
        content = yaml.safe_load(path.read_text("utf-8"))
    except FileNotFoundError:
        raise ForkToolError(f"{path} is missing: `git checkout -- {path}` brings the curated list back.") from None
    except (yaml.YAMLError, UnicodeDecodeError) as problem:
        reason = " ".join(str(problem).split())
        raise ForkToolError(f"{path} is no YAML: {reason}.") from None
    top = _mapping(content, {"synced", "targets"}, f"{path}")
    synced = _mapping(top.get("synced") or {}, {"date", "issues"}, f"{path}: synced")
    targets = [_target(entry, f"{path}: entry {number}") for number, entry in enumerate(_list(top, "targets", path), 1)]
    names = [target.operator for target in targets]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ForkToolError(f"{path} lists {', '.join(twice)} more than once: join the entries.")
    return Targets(tuple(targets), {key: str(value) for key, value in synced.items()})


def dump(targets: Targets) -> str:
    """The text of the file; the same content gives the same bytes."""
    entries: list[dict[str, Any]] = []
    for target in sorted(targets.targets, key=lambda target: target.operator):
        entry: dict[str, Any] = {"operator": target.operator}
        if target.note:
            entry["note"] = target.note
        if target.curated:
            entry["curated"] = list(target.curated)
        if target.found:
            entry["found"] = [{"link": request.link, "votes": request.votes} for request in target.found]
        entries.append(entry)
    content = {"synced": dict(targets.synced), "targets": entries}
    text: str = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=120)
    return _HEADER + text


def save(targets: Targets, path: Path) -> None:
    """Replace the file in one step, and only by something that reads back as the same."""
    text = dump(targets)
    if yaml.safe_load(text) is None:
        raise ForkToolError(f"Nothing would be left of {path}: it was not written.")
    write_atomically(path, text.encode())


def _target(entry: Any, where: str) -> Target:
    fields = _mapping(entry, {"operator", "note", "curated", "found"}, where)
    operator = fields.get("operator")
    if not isinstance(operator, str) or not _OPERATOR.fullmatch(operator):
        raise ForkToolError(
            f"{where}: `operator` is {operator!r}, and should be like aten::linalg_qr, without overload."
        )
    where = f"{where} ({operator})"
    curated = tuple(_link(link, where) for link in _list(fields, "curated", where))
    found = tuple(_request(request, where) for request in _list(fields, "found", where))
    if not curated and not found:
        raise ForkToolError(f"{where}: it is not asked for; put a link under `curated`, or take the entry out.")
    return Target(operator, str(fields.get("note") or ""), curated, found)


def _request(content: Any, where: str) -> Request:
    fields = _mapping(content, {"link", "votes"}, f"{where}: found")
    votes = fields.get("votes", 1)
    if not isinstance(votes, int) or isinstance(votes, bool) or votes < 1:
        raise ForkToolError(f"{where}: `votes` is {votes!r}, and should be a number from 1.")
    return Request(_link(fields.get("link"), where), votes)


def _link(link: object, where: str) -> str:
    if isinstance(link, str) and _LINK.fullmatch(link):
        return link
    raise ForkToolError(f"{where}: {link!r} is no link to an issue, a pull request or a comment on GitHub.")


def _list(fields: dict[str, Any], key: str, where: object) -> list[Any]:
    content = fields.get(key) or []
    if not isinstance(content, list):
        raise ForkToolError(f"{where}: `{key}` is no list.")
    return content


def _mapping(content: Any, keys: set[str], where: str) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise ForkToolError(f"{where} is no mapping with {', '.join(sorted(keys))}.")
    strange = sorted(str(key) for key in content if key not in keys)
    if strange:
        raise ForkToolError(f"{where} has {', '.join(strange)}, and may have {', '.join(sorted(keys))}.")
    return content
