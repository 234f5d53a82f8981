"""Calls between native code and code on the machine, in both directions, by their types."""

import ctypes
import struct
import threading
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any

from unicorn import arm64_const as arm64

from mac_code.encodings import Place, place_of_result, places, put, Signature, signature, take
from mac_code.machine import Machine, Stopped
from mac_code.native import Native

X0, X8 = arm64.UC_ARM64_REG_X0, arm64.UC_ARM64_REG_X8
_SP, _LR, _PC = arm64.UC_ARM64_REG_SP, arm64.UC_ARM64_REG_LR, arm64.UC_ARM64_REG_PC
# In seconds.
_LONGEST_WAIT = 60
_HAS_HELPERS, _HAS_SIGNATURE = 1 << 25, 1 << 30
_WORD = ctypes.c_uint64

Check = Callable[[Sequence[Any]], None]


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
        # Native code keeps pointers to these.
        self._kept: dict[Any, Any] = {}
        self._copy = self.function(signature("vQQ"), self._block_copied)
        self._dispose = self.function(signature("vQ"), self._block_disposed)

    # From the machine into native code

    @property
    def stack(self) -> int:
        return self.machine.register(_SP)

    def go(self, address: int) -> None:
        """Continue on the machine, in a function with the same arguments."""
        self.machine.set_register(_PC, address)

    def leave(self, result: int | None = None) -> None:
        """Return to the caller on the machine."""
        if result is not None:
            self.machine.set_register(X0, result)
        self.go(self.machine.register(_LR))

    def to_native(self, function: int, kind: Signature, check: Check | None = None, further: int = 0) -> None:
        """Call a native function with what the registers hold, and return its result.

        `further` is the number of its variable arguments: integers, which are all on the stack.
        """
        where = places(kind.arguments)[0] + [Place("stack", 8 * number, 8) for number in range(further)]
        if further:
            kind = signature(kind.encoding + "Q" * further)
        values = [take(self.machine, each, place, self.stack) for each, place in zip(kind.arguments, where)]
        if check:
            check(values)
        blocks = [
            self.native_block(value.value) if each.code == "@?" else None for each, value in zip(kind.arguments, values)
        ]
        passed = [value if block is None else _WORD(ctypes.addressof(block)) for value, block in zip(values, blocks)]
        indirect = self.machine.register(X8)
        result = kind.function(function)(*passed)
        self.raise_failure()
        if kind.result.code != "v":
            value = result if isinstance(result, ctypes.Structure) else kind.result.ctype(result or 0)
            if kind.result.by_address:
                self.machine.write(indirect, bytes(value))
            else:
                put(self.machine, kind.result, place_of_result(kind.result), self.stack, value)
        self.leave()

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
            return take(self.machine, kind.result, place_of_result(kind.result), stack).value

    def function(self, kind: Signature, call: Callable[..., Any]) -> Any:
        """A native function that calls this, and keeps its errors until native code has returned."""

        def guarded(*values: Any) -> Any:
            try:
                return call(*values)
            except BaseException as problem:
                self._failure = self._failure or problem
                return None if kind.result.code == "v" else 0

        made = kind.function(guarded)
        self._kept[id(made)] = made, guarded
        return made

    # Blocks of the machine in native code

    def native_block(self, block: int) -> _Block | None:
        """A native block for one of the machine's, for the time of a call; native code may copy it. None if it is native."""
        if not block or not self.machine.owns(invoke_of(block)):
            return None
        kind = block_signature(block)
        key = "block", kind
        if key not in self._kept:
            function = self.function(kind, lambda native, *values: self._block_called(kind, native, values))
            text = self._kept["text", kind] = ctypes.create_string_buffer(kind.encoding.encode())
            helpers = (ctypes.cast(each, ctypes.c_void_p).value or 0 for each in (self._copy, self._dispose))
            description = (_WORD * 5)(0, ctypes.sizeof(_Block), *helpers, ctypes.addressof(text))
            self._kept[key] = function, description
        function, description = self._kept[key]
        made = _Block(self.native.address("_NSConcreteStackBlock"), _HAS_HELPERS | _HAS_SIGNATURE)
        made.invoke, made.description = ctypes.cast(function, ctypes.c_void_p).value, ctypes.addressof(description)
        made.emulated = block
        return made

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


def zero(machine: Machine) -> None:
    """The result of a message to nil, whatever its type is."""
    for number in (X0, X0 + 1, *(arm64.UC_ARM64_REG_D0 + number for number in range(4))):
        machine.set_register(number, 0)


def two_words(machine: Machine, address: int) -> tuple[int, int]:
    first, second = struct.unpack("<2Q", machine.read(address, 16))
    return first, second
