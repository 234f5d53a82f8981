"""Finds functions, classes and explicit instantiations: as much C++ as it takes to know where each begins and ends."""

from __future__ import annotations

import re
from typing import NamedTuple

from .source import Source

_NO_MEMBERS = frozenset("static using typedef template friend struct class union enum constexpr static_assert".split())
_NO_CALL = frozenset({"decltype", "__attribute__", "alignas", "sizeof", "noexcept", "__declspec"})


class Function(NamedTuple):
    """A function declared in the source."""

    name: str
    scope: tuple[str, ...]
    first: int  # token range of the whole declaration, template header included
    last: int
    opening: int  # of its parameters
    closing: int
    body: tuple[int, int] | None
    is_template: bool
    is_kernel: bool
    host_name: str
    max_threads: str


class Instantiation(NamedTuple):
    """An explicit instantiation of a kernel template."""

    name: str
    written_name: str  # with its template arguments
    scope: tuple[str, ...]
    first: int
    last: int
    parameters: tuple[int, int] | None
    host_name: str


def _string_value(literals: str) -> str:
    parts = re.findall(r'"((?:\\.|[^"\\])*)"', literals)
    return "".join(parts)


class Declarations(Source):
    """The declarations of a translation unit."""

    def __init__(self, text: str, version: int) -> None:
        super().__init__(text, version)
        self.functions: list[Function] = []
        self.instantiations: list[Instantiation] = []
        self.units: list[tuple[set[str], set[str]]] = []  # names declared, names used

    def parse_scope(self, at: int, end: int, scope: tuple[str, ...], in_class: bool) -> None:
        """Finds the functions, classes and instantiations of a namespace or class."""
        while at < end:
            token = self.tokens[at]
            text = token.text
            if token.kind == "directive" or text in (";", "}"):
                at += 1
            elif at in self.attributes and self.attributes[at][1] and not self._starts_entity(at):
                at = self.attributes[at][0] + 1
            elif text in ("public", "private", "protected") and self.word(at + 1) == ":":
                at += 2
            elif text in ("using", "typedef", "static_assert"):
                last = self.semicolon(at, end)
                names = self.identifiers(at, last)
                declared = {self.word(at + 1)} if text == "using" else {self.word(last - 1)}
                if text != "static_assert" and self.word(at + 1) != "namespace":
                    self.units.append((declared, names))
                at = last + 1
            elif text == "namespace" or (text == "inline" and self.word(at + 1) == "namespace"):
                opening = at
                while opening < end and self.word(opening) not in ("{", ";"):
                    opening += 1
                if self.word(opening) == "{":
                    names_in_order = [
                        self.word(i)
                        for i in range(at, opening)
                        if self.tokens[i].kind == "identifier" and self.word(i) not in ("namespace", "inline")
                    ]
                    close = min(self.after_pair(opening), end + 1)
                    self.parse_scope(opening + 1, close - 1, scope + tuple(names_in_order), False)
                    at = close
                else:
                    at = opening + 1
            elif text == "template" and self.word(at + 1) != "<":
                at = self.parse_instantiation(at, end, scope)
            else:
                following = self.parse_entity(at, end, scope, in_class)
                at = following if following > at else at + 1

    def _starts_entity(self, at: int) -> bool:
        """Whether a function's declaration, not a lone statement, follows these attributes."""
        return self.word(self.attributes[at][0] + 1) not in (";", "}")

    def parse_instantiation(self, first: int, end: int, scope: tuple[str, ...]) -> int:
        """``template … name<arguments>(parameters);`` of a kernel becomes a registration."""
        last = self.semicolon(first, end)
        attributes = self.attributes_between(first, last)
        words = {self.word(at) for at in range(first, last) if at not in self.in_attribute}
        names = {attribute.name for attribute in attributes}
        if "kernel" not in words and "kernel" not in names and "host_name" not in names:
            return last + 1
        name_at = -1
        parameters: tuple[int, int] | None = None
        for at in self.outside(first + 1, last):
            if self.word(at) == "(" and self.word(at - 1) not in _NO_CALL:
                parameters = (at, self.after_pair(at) - 1)
                break
            if self.tokens[at].kind == "identifier" and self.word(at) not in _NO_CALL:
                name_at = at
        if name_at < 0:
            return last + 1
        stop = parameters[0] if parameters else last
        start = name_at
        while self.word(start - 1) == "::":
            start -= 2
        host_name = next((_string_value(a.argument) for a in attributes if a.name == "host_name"), "")
        written = " ".join(self.word(i) for i in range(start, stop))
        self.instantiations.append(
            Instantiation(
                self.word(name_at), written, scope, first, last, parameters, host_name or written.replace(" ", "")
            )
        )
        self.blank(first, last - 1)
        return last + 1

    def parse_entity(self, first: int, end: int, scope: tuple[str, ...], in_class: bool) -> int:
        """A class, function or variable, from its template header to its end."""
        at = first
        is_template = False
        while self.word(at) == "template" and self.word(at + 1) == "<":
            is_template = True
            at = self.after_angles(at + 1)
        start = at
        for at in self.outside(start, end):
            text = self.word(at)
            if text in ("struct", "class", "union", "enum"):
                body = self._class_body(at, end)
                if body is None:
                    continue
                name, opening = body
                close = self.after_pair(opening)
                last = self.semicolon(close, end)
                self.units.append(({name}, self.identifiers(first, last)))
                if text != "enum":
                    self.parse_scope(opening + 1, close - 1, scope + (name,), True)
                    self.add_identifier_offsets(name, opening + 1, close - 1)
                    self.add_members(name, opening + 1, close - 1)
                return last + 1
            if text == "operator":
                # The operator's own symbols, up to its parameters.
                at += 3 if self.word(at + 1) == "(" and self.word(at + 2) == ")" else 1
                while at < end and self.word(at) not in ("(", ";"):
                    at += 1
                return self.parse_function(first, start, at, end, scope, "operator", is_template)
            if text == "(" and self.word(at - 1) not in _NO_CALL and (name := self._name_before(at, start)):
                return self.parse_function(first, start, at, end, scope, name, is_template)
            if text in ("=", ";", "{", "["):
                last = self.semicolon(at, end)
                names = self.identifiers(first, last)
                self.units.append((names, names))
                return last + 1
        return end

    def _class_body(self, keyword: int, end: int) -> tuple[str, int] | None:
        name = ""
        in_bases = False
        for at in self.outside(keyword + 1, end):
            text = self.word(at)
            if text == "{":
                return name, at
            in_bases = (in_bases or text == ":") and text != ";"
            if in_bases or text in ("<", *_NO_CALL) or (text == "(" and self.word(at - 1) in _NO_CALL):
                continue
            if self.tokens[at].kind == "identifier":
                if name not in ("", "class") and text not in ("final", "class") and self.word(at - 1) != "::":
                    return None
                name = name if text == "final" else text
            elif text != "::":
                return None
        return None

    def _name_before(self, opening: int, start: int) -> str:
        at = opening - 1
        while at >= start and at in self.in_attribute:
            at -= 1
        if self.word(at) == ">":
            depth = 0
            while at >= start:
                depth += {">": 1, "<": -1}.get(self.word(at), 0)
                at -= 1
                if depth == 0:
                    break
        if at >= start and self.tokens[at].kind == "identifier":
            return self.word(at)
        return ""

    def parse_function(
        self, first: int, start: int, opening: int, end: int, scope: tuple[str, ...], name: str, is_template: bool
    ) -> int:
        """A function from its parameters on; records it."""
        closing = self.after_pair(opening) - 1
        body: tuple[int, int] | None = None
        last = end - 1
        in_initializers = False
        for at in self.outside(closing + 1, end, angles=False):
            text = self.word(at)
            previous = self.tokens[at - 1]
            if text == ";":
                last = at
                break
            if text == "=":
                last = self.semicolon(at, end)
                break
            if text == "{" and not (in_initializers and (previous.kind == "identifier" or previous.text == ">")):
                body = (at, self.after_pair(at) - 1)
                last = body[1]
                break
            in_initializers = in_initializers or text == ":"
        attributes = self.attributes_between(start, opening)
        words = {self.word(i) for i in range(start, opening) if i not in self.in_attribute}
        names = {attribute.name for attribute in attributes}
        for stage in ("vertex", "fragment"):
            if stage in names or self.word(start) == stage:
                raise self.fail(self.tokens[start], f"the simulator does not support {stage} functions")
        is_kernel = "kernel" in words or "kernel" in names
        if is_kernel and "kernel" not in words:
            marker = next(
                i for i in range(start, opening) if any(a.name == "kernel" for a in self.attributes.get(i, (0, []))[1])
            )
            self.edits[marker] = "static"
            token = self.tokens[marker]
            self.insertions.setdefault(token.line, []).extend([token.column] * 5)
        host_name = next((_string_value(a.argument) for a in attributes if a.name == "host_name"), "")
        max_threads = next((a.argument for a in attributes if a.name == "max_total_threads_per_threadgroup"), "0")
        self.functions.append(
            Function(
                name, scope, first, last, opening, closing, body, is_template, is_kernel, host_name or name, max_threads
            )
        )
        # An operator is used without its name: whatever it needs, everything may.
        declared = {name} if name != "operator" else {"*"}
        self.units.append((declared, self.identifiers(start, last)))
        return last + 1

    def add_identifier_offsets(self, name: str, first: int, end: int) -> None:
        """Adds to an argument buffer's structure a function from ``[[id(n)]]`` to the member's offset."""
        cases: list[str] = []
        for at in range(first, end):
            for attribute in self.attributes.get(at, (0, []))[1]:
                if attribute.name == "id":
                    member = self.word(at - 1)
                    base = f"(unsigned)({attribute.argument})"
                    cases.append(
                        f"if (n >= {base} && n - {base} < (sizeof({member}) < 8 ? 1 : sizeof({member}) / 8)) "
                        f"return __builtin_offsetof({name}, {member}) + (n - {base}) * 8;"
                    )
        if cases:
            function = f"static long __mps_simulator_identifier_offset(unsigned n) {{ {' '.join(cases)} return -1; }}"
            self.edits[end] = function + self.edits.get(end, self.word(end))

    def add_members(self, name: str, first: int, end: int) -> None:
        """Adds to a structure a function that visits its members, through which pointers are found in it."""
        names = self._member_names(first, end)
        if name and names:
            visits = " ".join(
                f"v.template member<decltype({name}::{member})>(__builtin_offsetof({name}, {member}));"
                for member in names
            )
            function = f"template <class V> static void __mps_simulator_members(V v) {{ {visits} }}"
            self.edits[end] = function + self.edits.get(end, self.word(end))

    def _member_names(self, first: int, end: int) -> list[str]:
        """The plain data members declared in a class's body: no references, bit fields or members of its bases."""
        names: list[str] = []
        at = first
        while at < end:
            if at in self.attributes:
                at = self.attributes[at][0] + 1
            elif self.tokens[at].kind == "directive" or self.word(at) == ";":
                at += 1
            elif self.word(at) in ("public", "private", "protected") and self.word(at + 1) == ":":
                at += 2
            else:
                at, found = self._member_statement(at, end)
                names += found
        return names

    def _member_statement(self, first: int, end: int) -> tuple[int, list[str]]:
        """The token after the declaration that begins at ``first``, and the data members that it declares."""
        names: list[str] = []
        is_data = self.word(first) not in _NO_MEMBERS
        in_value = False
        for at in self.outside(first, end):
            text = self.word(at)
            if text in _NO_MEMBERS or (text in ("&", ":", "(", "operator") and not in_value):
                is_data = False
            if text in (";", ",", "=", "[", "{") and not in_value and at > first + 1:
                before = at - 1
                while before > first and before in self.in_attribute:
                    before -= 1
                if before > first and self.tokens[before].kind == "identifier":
                    names.append(self.word(before))
            if text == ";":
                return at + 1, names if is_data else []
            if text == "{" and not is_data and self.word(first) not in ("struct", "class", "union", "enum"):
                # A function's body; that of a class goes on to its semicolon.
                return self.after_pair(at), []
            in_value = text == "=" or (in_value and text != ",")
        return end, []
