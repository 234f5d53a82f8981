"""Texts with conversions, whose arguments macOS has on the stack, 8 bytes each."""

import re
import struct
from typing import Any

from mac_code.machine import Machine, Stopped

_CONVERSION = re.compile(r"%([-+ #0]*\d*(?:\.\d+)?)(hh|h|ll|l|q|z|t|j)?([diuxXeEfFgGcsp@%])")
_FLOATS = "eEfFgG"
_SMALL = {"hh": 1, "h": 2, None: 4}


def argument_codes(text: str) -> str:
    """The types of the arguments of a text."""
    found = [kind for _, _, kind in _CONVERSION.findall(text) if kind != "%"]
    if text.count("%") != len(found) + 2 * text.count("%%"):
        raise Stopped(f"the text {text!r} has a conversion that nobody has written")
    return "".join("d" if kind in _FLOATS else "@" if kind == "@" else "Q" for kind in found)


def formatted(machine: Machine, text: str, stack: int) -> str:
    """What printf writes."""
    argument_codes(text)

    def convert(match: re.Match[str]) -> str:
        nonlocal stack
        flags, length, kind = match.groups()
        if kind == "%":
            return "%"
        content = machine.read(stack, 8)
        stack += 8
        value: Any = int.from_bytes(content[: _SMALL.get(length, 8)], "little", signed=kind in "di")
        if kind in _FLOATS:
            (value,) = struct.unpack("<d", content)
        elif kind in "sp":
            value = machine.text(int.from_bytes(content, "little")) if kind == "s" else hex(value)
        return str(f"%{flags}{'s' if kind == 'p' else kind}" % value)

    return _CONVERSION.sub(convert, text)
