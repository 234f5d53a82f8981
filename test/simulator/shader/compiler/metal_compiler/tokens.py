"""Splits preprocessed source into tokens that know the user's line and column."""

from __future__ import annotations

import re
from typing import NamedTuple

_PATTERN = re.compile(
    r"""
    (?P<directive>^[ \t]*\#[^\n]*)
  | (?P<space>\s+)
  | (?P<identifier>[A-Za-z_$][A-Za-z0-9_$]*)
  | (?P<number>\.?[0-9](?:[eEpP][+-]|[A-Za-z0-9_.'])*)
  | (?P<string>"(?:\\.|[^"\\\n])*")
  | (?P<character>'(?:\\.|[^'\\\n])*')
  | (?P<operator>::|->|<<=|<<|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|\+\+|--|.)
    """,
    re.VERBOSE | re.MULTILINE,
)
_LINE_MARKER = re.compile(r'\s*#\s*(?:line\s+)?(\d+)\s+"((?:[^"\\]|\\.)*)"')


class Token(NamedTuple):
    """One token; ``start`` and ``end`` are offsets into the preprocessed text."""

    kind: str
    text: str
    start: int
    end: int
    line: int
    column: int
    file: str


def tokenize(text: str) -> list[Token]:
    """All tokens of ``text`` but white space; preprocessor directives are tokens too."""
    tokens: list[Token] = []
    file = ""
    line = 1
    line_start = 0
    for match in _PATTERN.finditer(text):
        kind = match.lastgroup or "operator"
        piece = match.group()
        start = match.start()
        if kind == "directive":
            marker = _LINE_MARKER.match(piece)
            if marker:
                # The line after the marker has this number.
                line = int(marker.group(1)) - 1
                file = marker.group(2)
            tokens.append(Token(kind, piece, start, match.end(), line, 1, file))
        elif kind != "space":
            tokens.append(Token(kind, piece, start, match.end(), line, start - line_start + 1, file))
        breaks = piece.count("\n")
        if breaks:
            line += breaks
            line_start = start + piece.rindex("\n") + 1
    return tokens
