"""Reading base.toml value by value: what is missing or of another type is named, with what mends it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fork_tool.errors import ForkToolError


@dataclass(frozen=True)
class Table:
    """A table of the file; `name` is how its values are called, `upstream` or `mac_library.wheels[2]`."""

    path: Path
    name: str
    values: dict[str, Any]

    def text(self, key: str, shape: str = r"(?s).+", what: str = "") -> str:
        """A string of the given shape; `what` says what such a string is."""
        value = self._of_type(key, str, "a text in quotes")
        if not re.fullmatch(shape, value):
            raise self.wrong(key, what or "a text that is not empty")
        return str(value)

    def sha256(self, key: str) -> str:
        """A hash of a file."""
        return self.text(key, r"[0-9a-f]{64}", "the SHA-256 of a file, 64 hexadecimal digits")

    def commit(self, key: str) -> str:
        """The name that git gives to a commit or a tree."""
        return self.text(key, r"[0-9a-f]{40}", "a name that git gives, 40 hexadecimal digits")

    def number(self, key: str) -> int:
        """A whole number above zero."""
        value = self._of_type(key, int, "a whole number")
        if isinstance(value, bool) or value < 1:
            raise self.wrong(key, "a whole number above zero")
        return int(value)

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of strings."""
        value = self._of_type(key, list, "a list of texts")
        if not all(isinstance(item, str) for item in value):
            raise self.wrong(key, "a list of texts")
        return tuple(value)

    def options(self, key: str) -> dict[str, str]:
        """A table of names and strings."""
        table = self.table(key)
        return {name: table.text(name, r"(?s).*") for name in table.values}

    def table(self, key: str) -> Table:
        """A table in this one."""
        value = self._of_type(key, dict, "a table")
        return Table(self.path, self._called(key), value)

    def tables(self, key: str) -> Iterator[Table]:
        """A list of tables in this one."""
        for index, value in enumerate(self._of_type(key, list, "a list of tables")):
            if not isinstance(value, dict):
                raise self.wrong(key, "a list of tables")
            yield Table(self.path, f"{self._called(key)}[{index}]", value)

    def wrong(self, key: str, wanted: str) -> ForkToolError:
        """The error of a value that is there and can't be used."""
        shown = repr(self.values[key])
        shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
        return ForkToolError(
            f"{self.path}: {self._called(key)} is {shown}, and must be {wanted}: mend it or `git checkout -- {self.path.name}`."
        )

    def _of_type(self, key: str, kind: type, wanted: str) -> Any:
        if key not in self.values:
            raise ForkToolError(
                f"{self.path} lacks the value {self._called(key)}: add it or `git checkout -- {self.path.name}`."
            )
        if not isinstance(self.values[key], kind):
            raise self.wrong(key, wanted)
        return self.values[key]

    def _called(self, key: str) -> str:
        return f"{self.name}.{key}" if self.name else key


def read_pin_file(path: Path) -> Table:
    """The whole file."""
    try:
        return Table(path, "", tomllib.loads(path.read_text("utf-8")))
    except FileNotFoundError:
        raise ForkToolError(f"{path} is missing: bring it back with `git checkout -- {path.name}`.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise ForkToolError(
            f"{path} is not valid TOML ({problem}): mend that line or `git checkout -- {path.name}`."
        ) from None
