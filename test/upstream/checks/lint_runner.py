"""Runs the linters that upstream's .lintrunner.toml describes, with its adapters, without lintrunner and the network."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checked_tree import CHECKOUT, TOOLS, tools_environment


@dataclass(frozen=True)
class Linter:
    """One `[[linter]]` of the file."""

    code: str
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    command: tuple[str, ...]
    pins: tuple[str, ...]

    def takes(self, path: str) -> bool:
        """Whether upstream runs it on this file."""
        return _any(self.include, path) and not _any(self.exclude, path)

    def run(self, tree: Path, paths: Iterable[str]) -> list[Message]:
        """What it says of these files of a tree."""
        names = tree / f".paths_of_{self.code}"
        names.write_text("".join(f"{path}\n" for path in paths))
        words = [word.replace("@{{PATHSFILE}}", f"@{names}") for word in self.command]
        words = [word.replace(".lintbin/", f"{TOOLS / 'bin'}/") for word in words]
        try:
            done = subprocess.run(words, cwd=tree, env=tools_environment(), capture_output=True, text=True, check=False)
        finally:
            names.unlink()
        assert done.returncode == 0, f"{self.code} ended with {done.returncode}: {done.stderr[-2000:]}"
        return [_message(tree, json.loads(line)) for line in done.stdout.splitlines() if line.startswith("{")]


@dataclass(frozen=True)
class Message:
    """A complaint; `text` is the line that it is about, so that other lines may move."""

    path: str
    name: str
    text: str
    description: str

    def __str__(self) -> str:
        return f"{self.path}: {self.name}: {self.text.strip()} {self.description}"


def read_linters() -> list[Linter]:
    """All linters that upstream has, in its order."""
    described = tomllib.loads((CHECKOUT / ".lintrunner.toml").read_text("utf-8"))["linter"]
    return [
        Linter(
            one["code"],
            tuple(one["include_patterns"]),
            tuple(one.get("exclude_patterns", ())),
            tuple(one["command"]),
            tuple(word for word in one.get("init_command", ()) if "==" in word),
        )
        for one in described
    ]


def _any(patterns: Iterable[str], path: str) -> bool:
    return any(re.fullmatch(_expression(pattern), path) for pattern in patterns)


def _expression(pattern: str) -> str:
    """As lintrunner understands a pattern: `**/` may be nothing, and `*` goes over slashes."""
    parts = re.split(r"(\*\*/|\*+)", pattern)
    known = {"**/": "(?:.*/)?", "**": ".*", "*": ".*"}
    return "".join(known.get(part, re.escape(part)) for part in parts)


def _message(tree: Path, said: dict[str, Any]) -> Message:
    # A linter that could not run names no file, and is heard in every tree.
    path = str(said["path"] or f"({tree.name})")
    path = path.removeprefix(f"{tree}/")
    text = ""
    if said["line"]:
        text = (tree / path).read_text("utf-8").split("\n")[said["line"] - 1]
    return Message(path, said["name"], text, str(said["description"] or "").partition("\n")[0])
