"""Preprocessed source as tokens, with its brackets matched and its attributes read; keeps the changes to be made."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

SOURCE_NAME = "program_source"

OPENING = {"(": ")", "[": "]", "{": "}"}
_CLOSING = frozenset(OPENING.values())
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


class RewriteError(Exception):
    """The source cannot be compiled; the message has the form of a compiler's."""


class Attribute(NamedTuple):
    """One attribute of a ``[[…]]`` list."""

    name: str
    argument: str
    token: Token


class Source:
    """One translation unit on its way from Metal to C++."""

    def __init__(self, text: str, version: int) -> None:
        self.text = text
        self.version = version
        self.tokens = tokenize(text)
        self.edits: dict[int, str] = {}
        self.attributes: dict[int, tuple[int, list[Attribute]]] = {}  # by first token: last token, contents
        self.in_attribute: set[int] = set()
        self.insertions: dict[int, list[int]] = {}  # by line: columns behind which a letter was put
        self.pairs = self._match_brackets()

    # -- small helpers -------------------------------------------------------------------------------------------

    def fail(self, token: Token, message: str) -> RewriteError:
        """An error at ``token``, worded as the compiler would."""
        return RewriteError(f"{SOURCE_NAME}:{token.line}:{token.column}: error: {message}")

    def word(self, at: int) -> str:
        """The text of a token, empty past the end."""
        return self.tokens[at].text if 0 <= at < len(self.tokens) else ""

    def _match_brackets(self) -> dict[int, int]:
        pairs: dict[int, int] = {}
        stack: list[int] = []
        for at, token in enumerate(self.tokens):
            if token.kind != "operator":
                continue
            if token.text in OPENING:
                stack.append(at)
            elif token.text in _CLOSING:
                # clang reports an unbalanced source.
                while stack and OPENING[self.tokens[stack[-1]].text] != token.text:
                    stack.pop()
                if stack:
                    pairs[stack.pop()] = at
        return pairs

    def after_pair(self, at: int) -> int:
        """The token after the bracket that closes the one at ``at``."""
        return self.pairs.get(at, len(self.tokens) - 1) + 1

    def after_angles(self, at: int) -> int:
        """The token after the ``>`` that closes the ``<`` at ``at``."""
        depth = 0
        while at < len(self.tokens):
            text = self.tokens[at].text
            if text == "<":
                depth += 1
            elif text == ">":
                depth -= 1
                if depth == 0:
                    return at + 1
            elif text in OPENING:
                at = self.after_pair(at)
                continue
            elif text in (";", "{", "}"):
                return at
            at += 1
        return at

    def outside(self, first: int, end: int, angles: bool = True) -> Iterator[int]:
        """The tokens that are in no attribute, nor between brackets, of which the opening ones count."""
        at = first
        while at < end:
            if at in self.attributes:
                at = self.attributes[at][0] + 1
                continue
            yield at
            if self.word(at) in OPENING:
                at = self.after_pair(at)
            else:
                at = self.after_angles(at) if angles and self.word(at) == "<" else at + 1

    def semicolon(self, at: int, end: int) -> int:
        """The next ``;`` outside brackets."""
        while at < end:
            text = self.tokens[at].text
            if text == ";":
                return at
            at = self.after_pair(at) if text in OPENING else at + 1
        return end - 1

    def blank(self, first: int, last: int) -> None:
        """Replaces tokens by as much white space."""
        for at in range(first, last + 1):
            if self.tokens[at].kind != "directive":
                self.edits[at] = " " * len(self.tokens[at].text)

    def identifiers(self, first: int, last: int) -> set[str]:
        """The identifiers in a range of tokens, those in attributes excepted."""
        return {
            self.tokens[at].text
            for at in range(first, last + 1)
            if self.tokens[at].kind == "identifier" and at not in self.in_attribute
        }

    # -- attributes ----------------------------------------------------------------------------------------------

    def collect_attributes(self) -> None:
        """Reads and blanks out every ``[[…]]``."""
        for at in range(len(self.tokens)):
            last = self.pairs.get(at, -1)
            if self.word(at) != "[" or self.word(at + 1) != "[" or self.pairs.get(at + 1) != last - 1:
                continue
            contents: list[Attribute] = []
            inner = at + 2
            while inner < last - 1:
                token = self.tokens[inner]
                inner += 1
                if token.kind == "identifier":
                    argument = ""
                    if self.word(inner) == "(":
                        close = self.after_pair(inner)
                        argument = " ".join(self.word(i) for i in range(inner + 1, close - 1))
                        inner = close
                    contents.append(Attribute(token.text, argument, token))
            self.attributes[at] = (last, contents)
            self.in_attribute.update(range(at, last + 1))
            self.blank(at, last)

    def attributes_between(self, first: int, last: int) -> list[Attribute]:
        """The attributes written in a range of tokens."""
        return [found for at in range(first, last + 1) if at in self.attributes for found in self.attributes[at][1]]
