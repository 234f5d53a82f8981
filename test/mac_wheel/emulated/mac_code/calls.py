"""Calls between native code and code on the machine, in both directions, by their types."""

import ctypes
import threading
from collections.abc import Callable, Sequence
from functools import cache
from queue import Empty, SimpleQueue
from typing import Any

from mac_code.encodings import places, put, Signature, signature, take
from mac_code.machine import Machine, Stopped, X0, X8
from mac_code.native import address_of, Native

# In seconds.
_LONGEST_WAIT = 60
_HAS_HELPERS, _HAS_SIGNATURE = 1 << 25, 1 << 30
_WORD = ctypes.c_uint64


class _Block(ctypes.Structure):
    """A native block that stands for one of the machine's."""

    _fields_ = [
        *(("isa", _WORD), ("flags", ctypes.c_int), ("reserved", ctypes.c_int), ("invoke", _WORD)),
        *(("description", _WORD), ("emulated", _WORD)),
    ]


def invoke_of(block: int) -> int:
    """The function of a block."""
    return int(_WORD.from_address(block + _Block.invoke.offset).value)


def block_signature(block: int) -> Signature:
    """What a block, native or not, says that it takes."""
    flags, description = _Block.from_address(block).flags, _Block.from_address(block).description
    if not flags & _HAS_SIGNATURE:
        raise Stopped(f"the block at {block:#x} does not say what it takes")
    place = description + (32 if flags & _HAS_HELPERS else 16)
    return signature(Native.text(_WORD.from_address(place).value))


class Calls:
    """The ways over the bridge."""

    def __init__(self, machine: Machine, native: Native, copy_block: int, release_block: int):
        """The last two are the machine's functions for blocks."""
        self.machine, self.native = machine, native
        self._copy_block, self._release_block = copy_block, release_block
        self._thread = threading.get_ident()
        # What other threads want to be done here.
        self._waiting: SimpleQueue[Callable[[], object]] = SimpleQueue()
        # Whether such work is running, and how many blocks there were.
        self.of_others, self.count_of_others = False, 0
        # An error in a call that came from native code.
        self._failure: BaseException | None = None
        # Native code has pointers to these.
        self._kept: list[Any] = []
        self._of_kind = cache(self._new_kind)
        self._copy = self.function(signature("vQQ"), self._block_copied)
        self._dispose = self.function(signature("vQ"), self._block_disposed)

    # From the machine into native code

    def to_native(
        self, function: int, kind: Signature, check: Callable[[Sequence[Any]], None] | None = None, further: int = 0
    ) -> None:
        """Call a native function with what the registers hold, and return its result.

        `further` is the number of its variable arguments: integers, which are all on the stack.
        """
        stack, where = self.machine.stack, places(kind.arguments)[0] + [8 * number for number in range(further)]
        if further:
            kind = signature(kind.encoding + "Q" * further)
        values = [take(self.machine, each, place, stack) for each, place in zip(kind.arguments, where)]
        if check:
            check(values)
        arguments = zip(kind.arguments, values)
        passed = [self.native_block(value.value) if each.code == "@?" else value for each, value in arguments]
        indirect = self.machine.register(X8)
        result = kind.function(function)(*passed)
        self.raise_failure()
        if kind.result.code != "v":
            value = result if isinstance(result, ctypes.Structure) else kind.result.ctype(result or 0)
            if kind.result.by_address:
                self.machine.write(indirect, bytes(value))
            else:
                put(self.machine, kind.result, kind.result.registers, stack, value)

    def raise_failure(self) -> None:
        """An error that had to wait until native code returned."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    # From native code onto the machine

    def on_machine(self, address: int, kind: Signature, values: Sequence[Any]) -> Any:
        """Call a function on the machine; returns its result as ctypes wants it from a callback."""
        with self.machine.frame() as stack:
            passed = []
            for each, value in zip(kind.arguments, values):
                content = value if isinstance(value, ctypes.Structure) else each.ctype(value)
                if each.by_address:
                    stack = stack - each.size & -16
                    self.machine.write(stack, bytes(content))
                    content = _WORD(stack)
                passed.append(content)
            where, size = places(kind.arguments)
            stack -= size
            for each, place, content in zip(kind.arguments, where, passed):
                put(self.machine, each, place, stack, content)
            self.machine.run(address, stack)
            if kind.result.code == "v":
                return None
            return take(self.machine, kind.result, kind.result.registers, stack).value

    def function(self, kind: Signature, call: Callable[..., Any]) -> int:
        """A native function that calls this, and keeps its errors until native code has returned."""

        def guarded(*values: Any) -> Any:
            try:
                return call(*values)
            except BaseException as problem:
                self._failure = self._failure or problem
                return None if kind.result.code == "v" else 0

        self._kept.append(kind.function(guarded))
        return address_of(self._kept[-1])

    # Blocks of the machine in native code

    def native_block(self, block: int) -> int:
        """A native block for one of the machine's, which native code may copy. A native one stands for itself."""
        if not block or not self.machine.owns(invoke_of(block)):
            return block
        isa, kind = self.native.address("_NSConcreteStackBlock"), block_signature(block)
        self._kept.append(_Block(isa, _HAS_HELPERS | _HAS_SIGNATURE, 0, *self._of_kind(kind), block))
        return ctypes.addressof(self._kept[-1])

    def _new_kind(self, kind: Signature) -> tuple[int, int]:
        """The function and the description of native blocks of a type."""
        function = self.function(kind, lambda native, *values: self._block_called(kind, native, values))
        text = ctypes.create_string_buffer(kind.encoding.encode())
        description = (_WORD * 5)(0, ctypes.sizeof(_Block), self._copy, self._dispose, ctypes.addressof(text))
        self._kept += [text, description]
        return function, ctypes.addressof(description)

    def _block_called(self, kind: Signature, native: int, values: Sequence[Any]) -> Any:
        block = _Block.from_address(native).emulated
        if threading.get_ident() == self._thread:
            # An asynchronous block of the same queue was to run before.
            self.do_waiting()
            return self.on_machine(invoke_of(block), kind, (block, *values))
        if kind.result.code != "v":
            raise Stopped("another thread wants a block's result")
        objects = [value for each, value in zip(kind.arguments[1:], values) if each.code == "@" and value]
        for each in objects:
            self.native("objc_retain", each)

        def later() -> None:
            self.count_of_others += 1
            self.on_machine(invoke_of(block), kind, (block, *values))
            for each in objects:
                self.native("objc_release", each)

        self._waiting.put(later)
        return None

    def _block_copied(self, to: int, source: int) -> None:
        copy = self.machine.call(self._copy_block, _Block.from_address(source).emulated)
        _Block.from_address(to).emulated = copy

    def _block_disposed(self, native: int) -> None:
        block = _Block.from_address(native).emulated
        # A call of it may wait.
        self._waiting.put(lambda: self.machine.call(self._release_block, block))

    def do_waiting(self) -> None:
        """Run what other threads have left for this one."""
        while not self._waiting.empty():
            self.do_next()

    def do_next(self) -> None:
        """Run the next of it; wait if there is none."""
        try:
            work = self._waiting.get(timeout=_LONGEST_WAIT)
        except Empty:
            raise Stopped(f"nobody ends the wait of {self.machine.caller}") from None
        of_others, self.of_others = self.of_others, True
        try:
            work()
        finally:
            self.of_others = of_others

    # Native blocks on the machine

    def native_code(self, address: int) -> bool:
        """Call what is at a native address, if that is the function of the block in the first register."""
        block = self.machine.register(X0)
        if not self.machine.adopt(block) or invoke_of(block) != address:
            return False
        self.to_native(address, block_signature(block))
        return True
