"""Replaces the words that are Metal's alone: address spaces, literals, what the simulator does not support."""

from __future__ import annotations

import re

from .declarations import Declarations
from .source import OPENING

ADDRESS_SPACES = frozenset({"device", "constant", "thread", "threadgroup"})
BUILT_IN_TYPES = frozenset(
    "bool char uchar short ushort int uint long ulong float half bfloat void unsigned signed auto size_t".split()
)
_MARGIN = 64  # elements
_DOUBLE_LITERAL = re.compile(
    r"(?: [0-9']+ [eE] [+-]? [0-9']+ | [0-9']+ \. [0-9']* (?: [eE] [+-]? [0-9']+ )? | \. [0-9']+ (?: [eE] [+-]? [0-9']+ )?"
    r" | 0[xX] [0-9a-fA-F'.]+ [pP] [+-]? [0-9']+ )",
    re.VERBOSE,
)
_UNSUPPORTED_WORDS = re.compile(
    r"(?:texture|depth)(?:1d|2d|3d|cube)\w* | texture_buffer | imageblock | visible_function_table"
    r" | intersection_\w+ | acceleration_structure | ray_data | object_data | tensor_handle",
    re.VERBOSE,
)


class Words(Declarations):
    """The words of a translation unit."""

    def rewrite_words(self) -> None:
        """Replaces the words that are Metal's alone."""
        for at, token in enumerate(self.tokens):
            if at in self.edits:
                continue
            text = token.text
            if token.kind == "number" and _DOUBLE_LITERAL.fullmatch(text):
                # There is no double: literals without a suffix are float.
                self.edits[at] = text + "f"
                self.insertions.setdefault(token.line, []).append(token.column + len(text))
            elif token.kind == "number" and text[-2:] in ("bf", "BF") and text[:2] not in ("0x", "0X"):
                # clang accepts only user-defined suffixes that begin with an underscore.
                self.edits[at] = text[:-2] + "_b"
            elif token.kind == "number" and text[-1:] == "H":
                self.edits[at] = text[:-1] + "h"
            if token.kind != "identifier":
                continue
            if text == "kernel":
                self.edits[at] = "static"
            elif text == "constant":
                after_parameters = self.word(at - 1) in (")", "const") and self.word(at + 1) in ("{", ";", "const")
                self.edits[at] = " " * 8 if after_parameters else "const   "
            elif text == "threadgroup":
                is_variable = self._declares_threadgroup_variable(at)
                self.edits[at] = "static     " if is_variable else " " * 11
                if is_variable:
                    self._add_margins(at)
            elif text in ("device", "thread"):
                self.edits[at] = " " * len(text)
            elif text == "double":
                raise self.fail(token, "'double' is not supported in Metal")
            elif text == "bfloat" and self.version < 310:
                raise self.fail(token, "unknown type name 'bfloat' (it needs Metal 3.1)")
            elif _UNSUPPORTED_WORDS.fullmatch(text) and self.word(at + 1) == "<":
                raise self.fail(token, f"the simulator does not support '{text}'")

    def _add_margins(self, at: int) -> None:
        """Declares an array in front of each threadgroup variable of a declaration, and one behind them.

        The runtime fills them with a pattern, and sees when a kernel has overwritten it.
        """
        first = at + 1
        while first < len(self.tokens) and self.word(first) not in (";", "=", "[", "{", ","):
            first = self.after_angles(first) if self.word(first) == "<" else first + 1
        last = self.semicolon(first, len(self.tokens))
        if self.tokens[first - 1].kind != "identifier" or self.word(last) != ";":
            return
        name = f"__mps_simulator_margin_{at}_"
        margin = f"{name}{{}}[{_MARGIN}] __attribute__((used))"
        self._insert(first - 1, margin.format("front") + ", ")
        between = first
        while between < last:
            if self.word(between) == ",":
                self._insert(between, ", " + margin.format(between))
            between = self.after_pair(between) if self.word(between) in OPENING else between + 1
        self._insert(last, ", " + margin.format("end"))

    def _insert(self, at: int, text: str) -> None:
        """Puts text in front of a token."""
        token = self.tokens[at]
        self.edits[at] = text + self.edits.get(at, token.text)
        self.insertions.setdefault(token.line, []).extend([token.column - 1] * len(text))

    def _declares_threadgroup_variable(self, at: int) -> bool:
        """Whether the word begins a variable in threadgroup memory, and not a pointer to such."""
        before = at - 1
        while self.word(before) in ("static", "volatile", "const"):
            before -= 1
        if before >= 0 and self.tokens[before].kind != "directive" and self.word(before) not in ("{", "}", ";", ":"):
            return False
        at += 1
        while at < len(self.tokens):
            text = self.word(at)
            if text in ("*", "&", "("):
                return False
            if text in (";", "=", "[", "{", ","):
                return True
            at = self.after_angles(at) if text == "<" else at + 1
        return False

    def drop_duplicates(self) -> None:
        """Drops functions that differ from an earlier one by address spaces only."""
        seen: dict[tuple[str, ...], tuple[str, ...]] = {}
        for function in self.functions:
            if function.body is None or function.is_kernel:
                continue
            plain: list[str] = ["::".join(function.scope)]
            full: list[str] = list(plain)
            for at in range(function.first, function.body[0]):
                if at in self.in_attribute or self.tokens[at].kind == "directive":
                    continue
                text = self.word(at)
                in_parameters = function.opening < at <= function.closing
                if in_parameters and text in (",", ")") and self._is_parameter_name(at - 1):
                    full.pop()
                    plain.pop()
                full.append(text)
                if text == "constant" and at < function.closing:
                    plain.append("const")
                elif text not in ADDRESS_SPACES:
                    plain.append(text)
            key = tuple(plain)
            if key in seen and seen[key] != tuple(full):
                self.blank(function.first, function.last)
            else:
                seen.setdefault(key, tuple(full))

    def _is_parameter_name(self, at: int) -> bool:
        previous = self.tokens[at - 1]
        return (
            self.tokens[at].kind == "identifier"
            and self.word(at) not in BUILT_IN_TYPES
            and (previous.kind == "identifier" or previous.text in ("*", "&", ">"))
            and previous.text not in ADDRESS_SPACES | {"const", "struct", "volatile"}
        )
