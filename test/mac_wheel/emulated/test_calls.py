"""Arguments and results cross the bridge as the compilers of both sides pass them."""

import ctypes
import struct
import threading
from collections.abc import Callable
from typing import Any

import pytest

from mac_code.calls import Calls, invoke_of
from mac_code.encodings import signature
from mac_code.loaded import Inputs, Loaded
from mac_code.messages import Messages
from mac_code.programs import in_child, MacPrograms

TAKE = "dc{Pair=qq}{Triple=qqq}sq{Small=ic}{Pair=qq}csi{F=fff}{D=dddd}{F=fff}dB{Triple=qqq}"
# By the functions of arguments.cpp.
RESULTS = {
    "pair": "{Pair=qq}q",
    "triple": "{Triple=qqq}q",
    "floats": "{F=fff}q",
    "doubles": "{D=dddd}q",
    "char": "cq",
    "float": "fq",
}


def run_with(inputs: Inputs, loaded: Loaded, work: Callable[[MacPrograms, Any], bytes]) -> bytes:
    """What the work has seen, done in a copy of the process."""

    def run() -> dict[str, Any]:
        programs = MacPrograms(loaded, inputs, Messages())
        library = ctypes.CDLL(str(inputs.runtime.native_programs))
        library.mac_code_seen.restype = ctypes.c_void_p
        return {"seen": work(programs, library).hex()}

    return bytes.fromhex(in_child(run)["seen"])


def seen_natively(library: Any) -> bytes:
    return ctypes.string_at(library.mac_code_seen(), library.mac_code_seen_size())


def seen_on_machine(programs: MacPrograms) -> bytes:
    return programs.machine.read(programs.call("seen"), programs.call("seen_size"))


@pytest.fixture(scope="module")
def expected(inputs: Inputs) -> dict[str, bytes]:
    """What native code sees of native calls."""

    def run() -> dict[str, Any]:
        ctypes.CDLL(str(inputs.simulator), mode=ctypes.RTLD_GLOBAL)
        library = ctypes.CDLL(str(inputs.runtime.native_programs))
        library.mac_code_seen.restype = ctypes.c_void_p
        library.mac_code_give(library.mac_code_take)
        found = {"take": seen_natively(library).hex()}
        for name in RESULTS:
            before = len(seen_natively(library))
            library[f"mac_code_want_{name}"](library[f"mac_code_return_{name}"])
            found[name] = seen_natively(library)[before:].hex()
        return found

    return {name: bytes.fromhex(text) for name, text in in_child(run).items()}


def address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def as_function(programs: MacPrograms, function: Any, encoding: str) -> int:
    """A native function as one of macOS."""
    calls: Calls = programs.bridge.calls
    programs.bridge.functions["_native"] = lambda: calls.to_native(address(function), signature(encoding))
    return programs.machine.trap("_native")


@pytest.mark.parametrize("encoding", [TAKE, TAKE.replace("{F=fff}d", "{F=fff}q")], ids=["right", "planted"])
def test_machine_gives_to_native_code(
    inputs: Inputs, loaded: Loaded, expected: dict[str, bytes], encoding: str
) -> None:
    def work(programs: MacPrograms, library: Any) -> bytes:
        programs.call("give", as_function(programs, library.mac_code_take, encoding))
        result = seen_on_machine(programs)
        return seen_natively(library) + result

    assert (run_with(inputs, loaded, work) == expected["take"]) == (encoding == TAKE)


def test_native_code_gives_to_machine(inputs: Inputs, loaded: Loaded, expected: dict[str, bytes]) -> None:
    def work(programs: MacPrograms, library: Any) -> bytes:
        kind, calls = signature(TAKE), programs.bridge.calls
        target = programs.image.address("_mac_code_take")
        library.mac_code_give(calls.function(kind, lambda *values: calls.on_machine(target, kind, values)))
        return seen_on_machine(programs) + seen_natively(library)

    assert run_with(inputs, loaded, work) == expected["take"]


def test_results_of_native_code(inputs: Inputs, loaded: Loaded, expected: dict[str, bytes]) -> None:
    def work(programs: MacPrograms, library: Any) -> bytes:
        for name, encoding in RESULTS.items():
            function = as_function(programs, library[f"mac_code_return_{name}"], encoding)
            programs.call(f"want_{name}", function)
        return seen_on_machine(programs)

    assert run_with(inputs, loaded, work) == b"".join(expected[name] for name in RESULTS)


CALLED = [1 * 1000 + 8, 2 * 1000 + 8, 3 * 1000 + 8]


def numbers(content: bytes) -> list[int]:
    return list(struct.unpack(f"<{len(content) // 8}q", content))


def test_block_of_the_machine(inputs: Inputs, loaded: Loaded) -> None:
    """Native code keeps it, and what it captured lives until then."""

    def work(programs: MacPrograms, library: Any) -> bytes:
        keep = as_function(programs, library.mac_code_keep_block, "v@?")
        programs.call("give_block", keep)
        assert programs.call("live") == 1
        library.mac_code_drop_block()
        programs.bridge.calls.raise_failure()
        assert programs.call("live") == 0
        # The machine has noted the variable after two calls.
        return seen_natively(library) + seen_on_machine(programs)

    assert numbers(run_with(inputs, loaded, work)) == [*CALLED, 2]


def test_block_of_native_code(inputs: Inputs, loaded: Loaded) -> None:
    def work(programs: MacPrograms, library: Any) -> bytes:
        target, kind = programs.image.address("_mac_code_call_block"), signature("v@?")
        call = lambda block: programs.bridge.calls.on_machine(target, kind, (block,))  # noqa: E731
        library.mac_code_give_block(programs.bridge.calls.function(kind, call))
        programs.bridge.calls.raise_failure()
        return seen_on_machine(programs) + seen_natively(library)

    assert numbers(run_with(inputs, loaded, work)) == [CALLED[0], 1]


def test_block_on_another_thread_runs_here(inputs: Inputs, loaded: Loaded) -> None:
    def work(programs: MacPrograms, library: Any) -> bytes:
        calls, here = programs.bridge.calls, threading.get_ident()
        seen: list[bool] = []
        programs.bridge.functions["_native"] = lambda: seen.append(threading.get_ident() == here)
        block = programs.call("plain_block", programs.machine.trap("_native"))
        native = calls.native_block(block)
        function = signature("v@?").function(invoke_of(ctypes.addressof(native)))
        thread = threading.Thread(target=function, args=(ctypes.addressof(native),))
        thread.start()
        thread.join()
        assert seen == []
        calls.do_waiting()
        return bytes(seen)

    assert run_with(inputs, loaded, work) == b"\1"
