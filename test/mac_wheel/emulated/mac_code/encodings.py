"""Types as the Objective-C runtime writes them, and where arm64 code of macOS passes such values."""

import ctypes
import re
from collections.abc import Sequence
from functools import cache, cached_property
from itertools import takewhile
from typing import Any, NamedTuple

from mac_code.machine import D0, Machine, X0

_INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
_SCALARS: dict[str, Any] = {code: getattr(ctypes, f"c_{name}") for code, name in zip("cCsSiIqQ", _INTEGERS)}
_SCALARS |= {"B": ctypes.c_uint8, "f": ctypes.c_float, "d": ctypes.c_double}
# What does not matter: classes of objects, names of structs, structs behind pointers, qualifiers, places in a frame, and
# what blocks take.
_LEFT_OUT = [(r'"[^"]*"', ""), (r"\{[^={}]*=", "{"), (r"\^\{[^{}]*\}", "^v"), (r"[rnNoORVAj]", "")]
_LEFT_OUT += [(r"(?<![\[\d])\d+", ""), (r"@\?<[^<>]*>", "@?")]
# Arguments in each kind of register; a larger struct than this is passed by its address.
_REGISTERS, _IN_REGISTERS = 8, 16


class Type:
    """One type; `code` is what the runtime writes, without names and sizes of frames."""

    def __init__(self, code: str, fields: Sequence["Type"] = ()):
        """Fields are those of a struct or an array."""
        self.code, self.fields = code, tuple(fields)

    @cached_property
    def ctype(self) -> Any:
        """How ctypes passes it."""
        if self.fields:
            pairs = [(f"field{number}", field.ctype) for number, field in enumerate(self.fields)]
            return type("Struct", (ctypes.Structure,), {"_fields_": pairs})
        return None if self.code == "v" else _SCALARS.get(self.code, ctypes.c_uint64)

    @property
    def size(self) -> int:
        return ctypes.sizeof(self.ctype) if self.ctype else 0

    @property
    def floats(self) -> int:
        """How many equal floating-point numbers it is, if it is passed in vector registers."""
        sizes = {"f": 4, "d": 8}
        count = self.size // sizes.get("".join(set(re.sub(r"[\[\]{}\d]", "", self.code))), self.size + 1)
        return count if count <= 4 else 0

    @property
    def by_address(self) -> bool:
        return not self.floats and self.size > _IN_REGISTERS

    @property
    def registers(self) -> range:
        """Those that hold it if it is the first, and a result. One that is passed by address is where x8 says."""
        words = 1 if self.by_address else (self.size + 7) // 8
        return range(D0, D0 + self.floats) if self.floats else range(X0, X0 + words)

    @property
    def part(self) -> int:
        """How many bytes of it a register holds."""
        return self.size // self.floats if self.floats else 8


class Signature(NamedTuple):
    """What a method or a block returns and takes, receiver and selector included."""

    result: Type
    arguments: tuple[Type, ...]
    encoding: str

    @property
    def function(self) -> Any:
        """The type of a native function."""
        return ctypes.CFUNCTYPE(self.result.ctype, *(each.ctype for each in self.arguments))


@cache
def signature(encoding: str) -> Signature:
    """Read what the runtime wrote."""
    text, at, types = encoding, 0, []
    for pattern, other in _LEFT_OUT:
        text = re.sub(pattern, other, text)
    while at < len(text):
        found, at = _type(text, at)
        types.append(found)
    return Signature(types[0], tuple(types[1:]), encoding)


def _type(text: str, at: int) -> tuple[Type, int]:
    first, begin, at = text[at], at, at + 1
    if first == "^":
        inner, at = _type(text, at)
        return Type("^" + inner.code), at
    if first in "{[":
        count, fields = "".join(takewhile(str.isdigit, text[at:])), []
        at += len(count)
        while text[at] not in "}]":
            field, at = _type(text, at)
            fields.append(field)
        fields *= int(count or 1)
        return Type(text[begin : at + 1], fields), at + 1
    if first == "@" and text[at : at + 1] == "?":
        return Type("@?"), at + 1
    if first not in _SCALARS and first not in "v*:#?@":
        raise ValueError(f"{first} in {text} is no type that a message may have here")
    return Type(first), at


# Where a value is: in registers, or at an offset on the stack.
Place = range | int


def places(types: Sequence[Type]) -> tuple[list[Place], int]:
    """The place of each argument, and how much of the stack they take."""
    used, stack = {X0: 0, D0: 0}, 0
    found: list[Place] = []
    for each in types:
        kind, count = D0 if each.floats else X0, len(each.registers)
        if used[kind] + count <= _REGISTERS:
            found.append(range(kind + used[kind], kind + used[kind] + count))
            used[kind] += count
            continue
        # The ones that follow do not fill the gap.
        used[kind] = _REGISTERS
        size, alignment = (8, 8) if each.by_address else (each.size, ctypes.alignment(each.ctype))
        stack = -(-stack // alignment) * alignment
        found.append(stack)
        stack += size
    return found, -(-stack // 16) * 16


def take(machine: Machine, each: Type, place: Place, stack: int) -> Any:
    """Read a value, as ctypes passes it."""
    if isinstance(place, int):
        content = machine.read(stack + place, 8 if each.by_address else each.size)
    else:
        content = b"".join(machine.register(number).to_bytes(8, "little")[: each.part] for number in place)
    if each.by_address:
        content = machine.read(int.from_bytes(content, "little"), each.size)
    return each.ctype.from_buffer_copy(content)


def put(machine: Machine, each: Type, place: Place, stack: int, value: Any) -> None:
    """Write a value, or the address of one that is passed by address."""
    content, size = bytes(value), each.part
    if isinstance(place, int):
        machine.write(stack + place, content)
        return
    for at, number in enumerate(place):
        part = content[at * size : (at + 1) * size]
        # As Apple's callers do, a small number fills its register.
        machine.set_register(number, int.from_bytes(part, "little", signed=each.code in ("c", "s", "i")))
