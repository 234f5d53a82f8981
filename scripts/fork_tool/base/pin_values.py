"""The types of values in base.toml, and one sentence for a value that is missing or of another type."""

import tomllib
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AliasPath, BaseModel, ConfigDict, Field, StrictInt, StrictStr, ValidationError
from pydantic_core import ErrorDetails

from fork_tool.common.errors import ForkToolError

_Shape = TypeVar("_Shape", bound=BaseModel)


class Table(BaseModel):
    """A table of the file; a key that nothing reads is most likely misspelled."""

    model_config = ConfigDict(frozen=True, extra="forbid")


Text = Annotated[StrictStr, Field(min_length=1)]
Number = Annotated[StrictInt, Field(gt=0)]
FileName = Annotated[StrictStr, Field(pattern=r"^[^/\s]+$")]
Sha256 = Annotated[StrictStr, Field(pattern=r"^[0-9a-f]{64}$")]
# A commit or a tree.
GitName = Annotated[StrictStr, Field(pattern=r"^[0-9a-f]{40}$")]
Date = Annotated[StrictStr, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d$")]


def at(*path: str, **words: Any) -> Any:
    """A field that is read from this place of the file."""
    return Field(validation_alias=AliasPath(path[0], *path[1:]), **words)


def read_pin_file(path: Path, shape: type[_Shape]) -> _Shape:
    """What `shape` asks for of the file; the first value that is wrong is named, with what to write."""
    back = f"`git checkout -- {path.name}`"
    try:
        return shape.model_validate(tomllib.loads(path.read_text("utf-8")))
    except FileNotFoundError:
        raise ForkToolError(f"{path} is missing: bring it back with {back}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise ForkToolError(f"{path} is not valid TOML ({problem}): fix that line or {back}.") from None
    except ValidationError as problem:
        raise ForkToolError(f"{path}{sentence(problem.errors()[0])} or {back}.") from None


def sentence(error: ErrorDetails) -> str:
    """What is wrong with a value, and what to do, to follow the name of its file."""
    name = ""
    for part in error["loc"]:
        name += f"[{part}]" if isinstance(part, int) else f".{part}" if name else part
    if error["type"] == "missing":
        return f" lacks the value {name}: add it"
    if error["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        return f" has the value {name}, which nothing reads: correct its name"
    name = name or "the whole file"
    shown = repr(error["input"])
    shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
    return f": {name} is {shown} ({error['msg']}): correct it"
