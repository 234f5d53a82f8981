"""The operators to measure, each with the requests for it: reading, checking and writing targets.yaml."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import BeforeValidator, ConfigDict, Field, model_validator, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from fork_tool.base.pin_values import Number, sentence
from fork_tool.common.errors import ForkToolError
from fork_tool.common.files import write_atomically

OWN_FILE = Path(__file__).with_name("targets.yaml")
# Without overload.
_Operator = Annotated[str, Field(pattern=r"^aten::\w+$")]
_ISSUE = r"^https://github\.com/[\w.-]+/[\w.-]+/(issues|pull)/\d+(#issuecomment-\d+)?$"
_Link = Annotated[str, Field(pattern=_ISSUE)]
_Text = Annotated[str, BeforeValidator(str)]
_SHAPE = ConfigDict(extra="forbid")
_HEADER = """\
# Operators that users asked the MPS backend for. `curated` links are kept by hand: requests that a person has
# read. `found` and `synced` are written by `scripts/mpsfork fallback-sync`, which replaces them and nothing else.
"""


@dataclass(frozen=True, config=_SHAPE)
class Request:
    """One person's comment that asks for an operator, and how many more agreed with it."""

    link: _Link
    votes: Number = 1


@dataclass(frozen=True, config=_SHAPE)
class Target:
    """An operator (all of its overloads) and who wants it."""

    operator: _Operator
    note: str = ""
    curated: tuple[_Link, ...] = ()
    found: tuple[Request, ...] = ()

    @model_validator(mode="after")
    def _is_asked_for(self) -> Target:
        if not self.curated and not self.found:
            raise ValueError("it needs a link under `curated`, or a sync that finds one")
        return self

    @property
    def votes(self) -> int:
        """The demand; before the first sync, the links that were put in by hand."""
        return sum(request.votes for request in self.found) or len(self.curated)

    @property
    def links(self) -> list[str]:
        """Where it was asked for: curated links first."""
        return list(dict.fromkeys([*self.curated, *(request.link for request in self.found)]))


@dataclass(frozen=True, config=_SHAPE)
class Targets:
    targets: tuple[Target, ...]
    synced: dict[Literal["date", "issues"], _Text] = field(default_factory=dict)

    @property
    def by_demand(self) -> list[Target]:
        return sorted(self.targets, key=lambda target: (-target.votes, target.operator))


def load(path: Path = OWN_FILE) -> Targets:
    """Read and check the file; the first value that is wrong is named, with what to write."""
    try:
        found = TypeAdapter(Targets).validate_python(yaml.safe_load(path.read_text("utf-8")))
    except FileNotFoundError:
        raise ForkToolError(f"{path} is missing: `git checkout -- {path}` brings the curated list back.") from None
    except (yaml.YAMLError, UnicodeDecodeError) as problem:
        raise ForkToolError(f"{path} is no YAML: {' '.join(str(problem).split())}.") from None
    except ValidationError as problem:
        raise ForkToolError(f"{path}{sentence(problem.errors()[0])}.") from None
    names = [target.operator for target in found.targets]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ForkToolError(f"{path} lists {', '.join(twice)} more than once: join the entries.")
    return found


def dump(targets: Targets) -> str:
    """The text of the file; the same content gives the same bytes."""
    values = {
        target.operator: {
            "operator": target.operator,
            "note": target.note,
            "curated": list(target.curated),
            "found": [{"link": request.link, "votes": request.votes} for request in target.found],
        }
        for target in targets.targets
    }
    entries = [{key: value for key, value in values[name].items() if value} for name in sorted(values)]
    content = {"synced": dict(targets.synced), "targets": entries}
    text: str = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=140, default_flow_style=None)
    return _HEADER + text


def save(targets: Targets, path: Path) -> None:
    """Replace the file in one step."""
    write_atomically(path, dump(targets).encode())
