"""Arguments, results and blocks cross the bridge as the compilers of both sides pass them."""

import ctypes
import struct
from collections.abc import Callable
from typing import Any

import pytest

from mac_code.encodings import signature
from mac_code.loaded import Inputs, Loaded
from mac_code.messages import Messages
from mac_code.programs import in_child, MacPrograms

TAKE = "dc{Pair=qq}{Triple=qqq}sq{Small=ic}{Pair=qq}csi{F=fff}{D=dddd}{F=fff}dB{Triple=qqq}"
# By the functions of arguments.cpp, which all take a number.
RESULTS = {"pair": "{Pair=qq}", "triple": "{Triple=qqq}", "floats": "{F=fff}", "doubles": "{D=dddd}"}
RESULTS |= {"char": "c", "float": "f"}
# What the block of arguments.cpp returns for the n-th time.
CALLED = [1008, 2008, 3008]


class Sides:
    """The same functions on the machine and natively."""

    def __init__(self, inputs: Inputs, loaded: Loaded):
        """Each has seen nothing yet."""
        self.mac = MacPrograms(loaded, inputs, Messages())
        self.library: Any = ctypes.CDLL(str(inputs.runtime.native_programs))
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
        address = ctypes.cast(self.native(name), ctypes.c_void_p).value or 0
        self.mac.bridge.functions["_native"] = lambda: self.calls.to_native(address, signature(encoding))
        return self.mac.machine.trap("_native")

    def as_native_function(self, name: str, encoding: str) -> Any:
        """A function of the machine as a native one."""
        kind, address = signature(encoding), self.mac.image.address(f"_mac_code_{name}")
        return self.calls.function(kind, lambda *values: self.calls.on_machine(address, kind, values))


@pytest.fixture
def seen(inputs: Inputs, loaded: Loaded) -> Callable[[Callable[[Sides], bytes]], bytes]:
    """What the work has seen, done in a copy of the process."""

    def run(work: Callable[[Sides], bytes]) -> bytes:
        return bytes.fromhex(in_child(lambda: {"seen": work(Sides(inputs, loaded)).hex()})["seen"])

    return run


Seen = Callable[[Callable[[Sides], bytes]], bytes]


def given_natively(sides: Sides) -> bytes:
    sides.native("give")(sides.native("take"))
    return sides.seen_natively()


@pytest.mark.parametrize("encoding", [TAKE, TAKE.replace("{F=fff}d", "{F=fff}q")], ids=["right", "planted"])
def test_machine_gives_to_native_code(seen: Seen, encoding: str) -> None:
    def work(sides: Sides) -> bytes:
        sides.mac.call("give", sides.as_mac_function("take", encoding))
        return sides.seen_natively() + sides.seen_on_machine()

    assert (seen(work) == seen(given_natively)) == (encoding == TAKE)


def test_native_code_gives_to_machine(seen: Seen) -> None:
    def work(sides: Sides) -> bytes:
        sides.native("give")(sides.as_native_function("take", TAKE))
        return sides.seen_on_machine() + sides.seen_natively()

    assert seen(work) == seen(given_natively)


def test_results_of_native_code(seen: Seen) -> None:
    def natively(sides: Sides) -> bytes:
        for name in RESULTS:
            sides.native(f"want_{name}")(sides.native(f"return_{name}"))
        return sides.seen_natively()

    def work(sides: Sides) -> bytes:
        for name, encoding in RESULTS.items():
            sides.mac.call(f"want_{name}", sides.as_mac_function(f"return_{name}", encoding + "q"))
        return sides.seen_on_machine()

    assert seen(work) == seen(natively)


def numbers(content: bytes) -> list[int]:
    return list(struct.unpack(f"<{len(content) // 8}q", content))


def test_block_of_the_machine(seen: Seen) -> None:
    """Native code keeps it, and what it captured lives until then."""

    def work(sides: Sides) -> bytes:
        sides.mac.call("give_block", sides.as_mac_function("keep_block", "v@?"))
        assert sides.mac.call("live") == 1
        sides.native("drop_block")()
        sides.calls.raise_failure()
        sides.calls.do_waiting()
        assert sides.mac.call("live") == 0
        return sides.seen_natively() + sides.seen_on_machine()

    # The machine has noted the variable after two calls.
    assert numbers(seen(work)) == [*CALLED, 2]


def test_block_of_native_code(seen: Seen) -> None:
    def work(sides: Sides) -> bytes:
        sides.native("give_block")(sides.as_native_function("call_block", "v@?"))
        sides.calls.raise_failure()
        return sides.seen_on_machine() + sides.seen_natively()

    assert numbers(seen(work)) == [CALLED[0], 1]
