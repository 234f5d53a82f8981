"""Arguments, results and blocks cross the bridge as the compilers of both sides pass them."""

import ctypes
import struct
from collections.abc import Callable
from typing import Any

import pytest

from mac_code.encodings import signature
from mac_code.loaded import Inputs, Loaded
from mac_code.native import address_of
from mac_code.programs import MacPrograms, OnMac

TAKE = "dc{Pair=qq}{Triple=qqq}sq{Small=ic}{Pair=qq}csi{F=fff}{D=dddd}{F=fff}dB{Triple=qqq}"
# What the functions of arguments.cpp give, and the result.
GIVEN = (-1, 2, 3, 4, 5, 6, -7, 1 << 40, -8, 9, 10, 11, -12, 13, -14, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5, 10.5)
TAKEN = struct.pack("<b5qhqib2qbhi3f4d3fd?3qd", *GIVEN, 11.5, True, 15, 16, 17, 12.0)
RESULTS = {"pair": "{Pair=qq}", "triple": "{Triple=qqq}", "floats": "{F=fff}", "doubles": "{D=dddd}"}
RESULTS |= {"char": "c", "float": "f"}
RETURNED = struct.pack("<5q3f4dbf", 1, 2, 3, 4, 5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, -6, 8.5)
# What the block returns for the n-th time.
CALLED = (1008, 2008, 3008)


class Sides:
    """The same functions on the machine and natively."""

    def __init__(self, inputs: Inputs, programs: MacPrograms):
        """Each has seen nothing yet."""
        self.mac = programs
        self.library: Any = ctypes.CDLL(str(inputs.runtime / "extensions/libprograms.so"))
        self.library.mac_code_seen.restype = ctypes.c_void_p
        self.calls = self.mac.bridge.calls

    def native(self, name: str) -> Any:
        return self.library[f"mac_code_{name}"]

    def seen_natively(self) -> bytes:
        return ctypes.string_at(self.library.mac_code_seen(), self.library.mac_code_seen_size())

    def seen_on_machine(self) -> bytes:
        return self.mac.machine.read(self.mac.call("seen"), self.mac.call("seen_size"))

    def as_mac_function(self, name: str, encoding: str) -> int:
        """A native function as one of macOS."""
        address = address_of(self.native(name))
        self.mac.machine.functions["_native"] = lambda: self.calls.to_native(address, signature(encoding))
        return self.mac.machine.trap("_native")

    def as_native_function(self, name: str, encoding: str) -> ctypes.c_void_p:
        """A function of the machine as a native one."""
        kind, address = signature(encoding), self.mac.image.address(f"_mac_code_{name}")
        return ctypes.c_void_p(self.calls.function(kind, lambda *values: self.calls.on_machine(address, kind, values)))


def take_natively(sides: Sides, encoding: str = TAKE) -> bytes:
    sides.mac.call("give", sides.as_mac_function("take", encoding))
    return sides.seen_natively() + sides.seen_on_machine()


def take_on_machine(sides: Sides) -> bytes:
    sides.native("give")(sides.as_native_function("take", TAKE))
    return sides.seen_on_machine() + sides.seen_natively()


def return_natively(sides: Sides) -> bytes:
    for name, encoding in RESULTS.items():
        sides.mac.call(f"want_{name}", sides.as_mac_function(f"return_{name}", encoding + "q"))
    return sides.seen_on_machine()


def keep_block_of_machine(sides: Sides) -> bytes:
    """What the block has captured lives until native code drops it; the variable is noted after two calls."""
    sides.mac.call("give_block", sides.as_mac_function("keep_block", "v@?"))
    assert sides.mac.call("live") == 1
    sides.native("drop_block")()
    sides.calls.raise_failure()
    sides.calls.do_waiting()
    assert sides.mac.call("live") == 0
    return sides.seen_natively() + sides.seen_on_machine()


def call_native_block(sides: Sides) -> bytes:
    sides.native("give_block")(sides.as_native_function("call_block", "v@?"))
    sides.calls.raise_failure()
    return sides.seen_on_machine() + sides.seen_natively()


@pytest.mark.parametrize(
    ("work", "expected"),
    [
        (take_natively, TAKEN),
        (take_on_machine, TAKEN),
        (return_natively, RETURNED),
        (keep_block_of_machine, struct.pack("<4q", *CALLED, 2)),
        (call_native_block, struct.pack("<2q", CALLED[0], 1)),
    ],
)
def test_calls(inputs: Inputs, on_mac: OnMac, work: Callable[[Sides], bytes], expected: bytes) -> None:
    assert on_mac(lambda programs: work(Sides(inputs, programs))) == expected


def test_argument_of_another_type_is_seen(inputs: Inputs, loaded: Loaded, on_mac: OnMac) -> None:
    wrong = TAKE.replace("{F=fff}d", "{F=fff}q")
    assert on_mac(lambda programs: take_natively(Sides(inputs, programs), wrong)) != TAKEN
    loaded.seen("an argument of another type")
