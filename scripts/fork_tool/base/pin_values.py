"""The types of values in base.toml, and one sentence for a value that is missing or of another type."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, AliasPath, BaseModel, ConfigDict, Field, StrictInt, StrictStr, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from fork_tool.common.errors import ForkToolError

_Shape = TypeVar("_Shape", bound=BaseModel)
# What pydantic's kinds of errors say, in the words of the file's reader.
_WANTED = {
    "string_type": "a text in quotes",
    "string_too_short": "a text that is not empty",
    "int_type": "a whole number above zero",
    "greater_than": "a whole number above zero",
    "tuple_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
    "dataclass_type": "a table",
    "literal_error": "a name that is read",
}


class Table(BaseModel):
    """A table of the file; a key that nothing reads is most likely misspelled."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def shaped(shape: str, what: str) -> AfterValidator:
    """A text of this shape; `what` says in an error what is wanted."""

    def check(value: str) -> str:
        if not re.fullmatch(shape, value):
            raise PydanticCustomError("shape", "{what}", {"what": what})
        return value

    return AfterValidator(check)


def _oldest_and_newest(versions: tuple[str, ...]) -> tuple[str, ...]:
    if len(versions) != 2:
        raise PydanticCustomError("shape", "the oldest and the newest version")
    return versions


Text = Annotated[StrictStr, Field(min_length=1)]
Number = Annotated[StrictInt, Field(gt=0)]
FileName = Annotated[StrictStr, shaped(r"[^/\s]+", "the name of a file")]
Sha256 = Annotated[StrictStr, shaped(r"[0-9a-f]{64}", "the SHA-256 of a file, 64 hexadecimal digits")]
GitName = Annotated[StrictStr, shaped(r"[0-9a-f]{40}", "a name that git gives, 40 hexadecimal digits")]
_DATE = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d"
Date = Annotated[StrictStr, shaped(_DATE, "a date with its zone, like 2025-01-29T17:20:00+00:00")]
Versions = Annotated[tuple[Text, ...], AfterValidator(_oldest_and_newest)]


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
    return f": {name} is {shown}, and must be {_WANTED.get(error['type'], error['msg'])}: correct it"
