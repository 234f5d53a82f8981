"""Types of methods in one normal form: the codes of Objective-C, without names, offsets and qualifiers.

One code per value, the result first. Objects are ``@`` whatever their class, blocks ``@?``, pointers ``^`` and what
they point to, structs ``{`` their fields ``}``: what decides registers and memory, and nothing else.
"""

from __future__ import annotations

_QUALIFIERS = "rnNoORVA"
_CLOSING = {"{": "}", "(": ")", "[": "]", "<": ">"}
# What clang writes for vectors: nothing.
VECTOR = "vector"


def method_types(encoding: str) -> tuple[str, ...]:
    """Return the normal form of what the runtime calls a method's types, without ``self`` and ``_cmd``."""
    codes = list(_codes(encoding, with_offsets=True))
    if len(codes) < 3 or codes[1:3] != ["@", ":"]:
        raise ValueError(f"{encoding!r} is not the type of a method")
    return (codes[0], *codes[3:])


def value_type(encoding: str) -> str:
    """Return the normal form of one value's type."""
    (code,) = _codes(encoding, with_offsets=False)
    return code


def same(ours: str, theirs: str) -> bool:
    """Whether two codes are passed and laid out alike. A pointer to something unknown is like any pointer."""
    if ours == theirs:
        return True
    vague = ("^v", "^{}", "^?")
    if ours.startswith(("^", "*")) and theirs.startswith(("^", "*")):
        return ours in vague or theirs in vague or {ours, theirs} <= {"*", "^C", "^c"}
    return False


def _codes(encoding: str, *, with_offsets: bool) -> list[str]:
    codes: list[str] = []
    at = 0
    while at < len(encoding):
        code, end = _one(encoding, at)
        if end == at and not with_offsets:
            raise ValueError(f"{encoding!r} is not a type at {at}")
        at = end
        codes.append(code)
        if with_offsets:
            end = at
            while end < len(encoding) and encoding[end].isdigit():
                end += 1
            if end == at:
                raise ValueError(f"{encoding!r} has no offset at {at}")
            at = end
    return codes


def _one(encoding: str, at: int) -> tuple[str, int]:
    while encoding[at : at + 1] in _QUALIFIERS:
        at += 1
        if at > len(encoding):
            raise ValueError(f"{encoding!r} ends before a type")
    first = encoding[at]
    if first.isdigit():
        return VECTOR, at
    if first == "^":
        if encoding[at + 1 : at + 2] == "?":
            return "^?", at + 2
        pointee, end = _one(encoding, at + 1)
        return "^" + pointee, end
    if first == "@":
        if encoding[at + 1 : at + 2] == "?":
            end = at + 2
            if encoding[end : end + 1] == "<":
                end = _closing(encoding, end) + 1
            return "@?", end
        if encoding[at + 1 : at + 2] == '"':
            return "@", encoding.index('"', at + 2) + 1
        return "@", at + 1
    if first == "b":
        end = at + 1
        while encoding[end : end + 1].isdigit():
            end += 1
        return encoding[at:end], end
    if first in "{(":
        end = _closing(encoding, at)
        _, _, fields = encoding[at + 1 : end].partition("=")
        return first + "".join(_codes(fields, with_offsets=False)) + _CLOSING[first], end + 1
    if first in "[<":
        end = _closing(encoding, at)
        return encoding[at : end + 1], end + 1
    return first, at + 1


def _closing(encoding: str, at: int) -> int:
    depth = 0
    for position in range(at, len(encoding)):
        if encoding[position] in _CLOSING:
            depth += 1
        elif encoding[position] in _CLOSING.values():
            depth -= 1
            if depth == 0:
                return position
    raise ValueError(f"{encoding!r} does not close what it opens at {at}")
