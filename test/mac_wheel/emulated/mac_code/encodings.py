"""Types as the Objective-C runtime writes them, and where arm64 code of macOS passes such values."""

import ctypes
import struct
from collections.abc import Iterator, Sequence
from functools import cache, cached_property
from typing import Any, NamedTuple

from unicorn import arm64_const as arm64

from mac_code.machine import Machine

_INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
_SCALARS: dict[str, Any] = {code: getattr(ctypes, f"c_{name}") for code, name in zip("cCsSiIqQ", _INTEGERS)}
_SCALARS |= {"B": ctypes.c_uint8, "f": ctypes.c_float, "d": ctypes.c_double}
_QUALIFIERS = "rnNoORVAj"
_BRACKETS = {"{": "}", "[": "]", "(": ")", "<": ">", '"': '"'}
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
    def alignment(self) -> int:
        return ctypes.alignment(self.ctype)

    @property
    def is_object(self) -> bool:
        return self.code == "@"

    def leaves(self) -> Iterator[str]:
        """The codes of all that it has inside."""
        if not self.fields:
            yield self.code
        for field in self.fields:
            yield from field.leaves()

    @property
    def floats(self) -> int:
        """How many equal floating-point numbers it is, if it is passed in vector registers."""
        leaves = list(self.leaves())
        return len(leaves) if len(leaves) <= 4 and set(leaves) in ({"f"}, {"d"}) else 0

    @property
    def by_address(self) -> bool:
        return not self.floats and self.size > _IN_REGISTERS

    @property
    def words(self) -> int:
        return 1 if self.by_address else (self.size + 7) // 8


class Signature(NamedTuple):
    """What a method or a block returns and takes, receiver and selector included."""

    result: Type
    arguments: tuple[Type, ...]
    encoding: str

    @property
    def codes(self) -> tuple[str, ...]:
        """As the facts on Apple's API write a method's."""
        return (self.result.code, *(each.code for each in self.arguments[2:]))

    @property
    def function(self) -> Any:
        """The type of a native function."""
        return ctypes.CFUNCTYPE(self.result.ctype, *(each.ctype for each in self.arguments))


@cache
def signature(encoding: str) -> Signature:
    """Read what the runtime wrote."""
    types, at = [], 0
    while at < len(encoding):
        found, at = _type(encoding, at)
        types.append(found)
        while at < len(encoding) and encoding[at] in "-0123456789":
            at += 1
    return Signature(types[0], tuple(types[1:]), encoding)


def _type(text: str, at: int) -> tuple[Type, int]:
    while text[at] in _QUALIFIERS:
        at += 1
    first = text[at]
    if first == "^":
        inner, end = _type(text, at + 1) if text[at + 1] != "{" else (None, _skipped(text, at + 1))
        return Type("^" + inner.code if inner else "^{}"), end
    if first == "@":
        end = at + 1
        code = "@?" if text[end : end + 1] == "?" else "@"
        end += len(code) - 1
        while end < len(text) and text[end] in '<"':
            end = _skipped(text, end)
        return Type(code), end
    if first == "{":
        end = _skipped(text, at)
        begin = text.index("=", at, end) + 1
        fields = []
        while begin < end - 1:
            field, begin = _type(text, begin)
            fields.append(field)
        return Type("{" + "".join(field.code for field in fields) + "}", fields), end
    if first == "[":
        end = at + 1
        while text[end].isdigit():
            end += 1
        field, after = _type(text, end)
        count = int(text[at + 1 : end])
        return Type(f"[{count}{field.code}]", [field] * count), after + 1
    if first not in _SCALARS and first not in "v*:#?":
        raise ValueError(f"the type {text[at:]!r} is none that a message may have here")
    return Type(first), at + 1


def _skipped(text: str, at: int) -> int:
    """The end of what is in brackets."""
    closing, at = _BRACKETS[text[at]], at + 1
    while text[at] != closing:
        at = _skipped(text, at) if text[at] in _BRACKETS and closing != '"' else at + 1
    return at + 1


class Place(NamedTuple):
    """Where an argument is: registers of a kind, or bytes at an offset on the stack."""

    kind: str
    first: int
    amount: int


def places(types: Sequence[Type]) -> tuple[list[Place], int]:
    """The place of each argument, and how much of the stack they take."""
    used, stack, found = {"x": 0, "v": 0}, 0, []
    for each in types:
        kind, count = ("v", each.floats) if each.floats else ("x", each.words)
        if used[kind] + count <= _REGISTERS:
            found.append(Place(kind, used[kind], count))
            used[kind] += count
            continue
        # The ones that follow do not fill the gap.
        used[kind] = _REGISTERS
        size, alignment = (8, 8) if each.by_address else (each.size, each.alignment)
        stack = -(-stack // alignment) * alignment
        found.append(Place("stack", stack, size))
        stack += size
    return found, -(-stack // 16) * 16


def place_of_result(result: Type) -> Place:
    """Where a result is; one that is passed by address is where x8 said."""
    return Place("v", 0, result.floats) if result.floats else Place("x", 0, result.words)


def take(machine: Machine, each: Type, place: Place, stack: int) -> Any:
    """Read a value, as ctypes passes it."""
    if place.kind == "v":
        size = each.size // place.amount
        content = b"".join(_vector(machine, place.first + number)[:size] for number in range(place.amount))
    elif place.kind == "x":
        numbers = (machine.register(arm64.UC_ARM64_REG_X0 + place.first + number) for number in range(place.amount))
        content = struct.pack(f"<{place.amount}Q", *numbers)
    else:
        content = machine.read(stack + place.first, place.amount)
    if each.by_address:
        content = machine.read(int.from_bytes(content[:8], "little"), each.size)
    return each.ctype.from_buffer_copy(content)


def put(machine: Machine, each: Type, place: Place, stack: int, value: Any) -> None:
    """Write a value; one that is passed by address needs its content in memory first."""
    content = bytes(value)
    if place.kind == "v":
        size = each.size // place.amount
        for number in range(place.amount):
            part = content[number * size : (number + 1) * size].ljust(8, b"\0")
            machine.set_register(arm64.UC_ARM64_REG_D0 + place.first + number, int.from_bytes(part, "little"))
    elif place.kind == "x":
        for number in range(place.amount):
            part = content[number * 8 : (number + 1) * 8]
            # As Apple's callers do, a small number fills its register.
            signed = each.code in "csiq"
            machine.set_register(
                arm64.UC_ARM64_REG_X0 + place.first + number, int.from_bytes(part, "little", signed=signed)
            )
    else:
        machine.write(stack + place.first, content)


def _vector(machine: Machine, number: int) -> bytes:
    return machine.register(arm64.UC_ARM64_REG_D0 + number).to_bytes(8, "little")
