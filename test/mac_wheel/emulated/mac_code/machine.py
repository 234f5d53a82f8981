"""An arm64 processor and its memory. A call of a function that nobody has written stops with the function's name."""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import signature
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from typing import Any

import unicorn
from unicorn import arm64_const as arm64

# Its functions have no types.
_UNICORN: Any = unicorn
# What stands for a function of macOS: it gets its arguments, and returns x0 unless it returns None.
Handler = Callable[..., int | None]
Snapshot = list[tuple[int, bytes]]

X0, X8, D0 = arm64.UC_ARM64_REG_X0, arm64.UC_ARM64_REG_X8, arm64.UC_ARM64_REG_D0
_SP, _LR, _PC = arm64.UC_ARM64_REG_SP, arm64.UC_ARM64_REG_LR, arm64.UC_ARM64_REG_PC
# The size of all memory, and of its parts; libraries have the rest. Between two parts, and for the traps, is a gap.
_SIZE, _DATA, _STACK, _HEAP, _GAP = 0x2_0000_0000, 0x100_0000, 0x100_0000, 0x8000_0000, 0x100_0000
_PAGE, _WORD = 0x4000, (1 << 64) - 1
_READ_WRITE = unicorn.UC_PROT_READ | unicorn.UC_PROT_WRITE
# Memory takes no swap space before it is used.
_NO_RESERVE = 0x4000


class Stopped(Exception):
    """The emulated code did what it must not; the text names the function and the place."""


class Machine:
    """One processor with one thread."""

    def __init__(self) -> None:
        self._uc = _UNICORN.Uc(unicorn.UC_ARCH_ARM64, unicorn.UC_MODE_ARM)
        self._uc.ctl_set_cpu_model(arm64.UC_CPU_ARM64_MAX)
        # Lets code use the vector registers.
        self._uc.reg_write(arm64.UC_ARM64_REG_CPACR_EL1, 3 << 20)
        self._uc.hook_add(unicorn.UC_HOOK_MEM_INVALID, self._note_fault)
        # The functions of macOS that are written in Python.
        self.functions: dict[str, Handler] = {}
        # Says where an address lies, for messages.
        self.describe: Callable[[int], str] = hex
        # Takes over a call of native code, or a use of its memory; false if it is nobody's.
        self.outside: Callable[[int], bool] = lambda address: False
        self.adopt: Callable[[int], bool] = lambda address: False
        self._fault, self._depth = 0, 0
        self._memory = mmap(-1, _SIZE, MAP_PRIVATE | MAP_ANONYMOUS | _NO_RESERVE)
        self._begin = self._free = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        # What code can use; native code uses it at the same addresses.
        self.regions: list[tuple[int, memoryview]] = []
        self._kept: list[tuple[int, int]] = []
        self._traps: list[str] = []
        self._data: dict[str, int] = {}
        self._end = self.place(_PAGE, unicorn.UC_PROT_EXEC)
        self._trap_begin, self._free = self._free, self._free + _GAP
        self._data_begin = self._next_data = self.place(_DATA)
        self._stack_end = self.place(_STACK) + _STACK
        heap = self.place(_HEAP)
        self.heap = heap, heap + _HEAP

    # Memory

    def place(self, size: int, access: int = _READ_WRITE) -> int:
        """Make room; what follows is a gap."""
        begin = self._free
        self._free += -(-size // _GAP) * _GAP + _GAP
        self.share(begin, -(-size // _PAGE) * _PAGE, access)
        return begin

    def share(self, begin: int, size: int, access: int = _READ_WRITE) -> None:
        """Let code use memory of this process, at its own address."""
        self._uc.mem_map_ptr(begin, size, access, begin)
        self.regions.append((begin, memoryview((ctypes.c_ubyte * size).from_address(begin)).cast("B")))

    def owns(self, address: int) -> bool:
        """Whether an address is one of this machine, and not of the process."""
        return self._begin <= address < self._begin + _SIZE

    def view(self, address: int, size: int) -> memoryview:
        """The bytes of a place; writing changes the memory."""
        for begin, memory in self.regions:
            if begin <= address and address + size <= begin + len(memory):
                return memory[address - begin : address - begin + size]
        if self.adopt(address) and self.adopt(address + size - 1):
            return memoryview((ctypes.c_ubyte * size).from_address(address)).cast("B")
        raise Stopped(f"{size} bytes at {address:#x} are nobody's memory")

    def read(self, address: int, size: int) -> bytes:
        return bytes(self.view(address, size))

    def write(self, address: int, content: bytes) -> None:
        self.view(address, len(content))[:] = content

    def word(self, address: int, size: int = 8) -> int:
        return int.from_bytes(self.view(address, size), "little")

    def write_word(self, address: int, value: int) -> None:
        self.write(address, (value & _WORD).to_bytes(8, "little"))

    def text(self, address: int) -> str:
        """The string of C at a place."""
        # Checks that it begins in known memory.
        self.view(address, 1)
        return ctypes.string_at(address).decode(errors="replace")

    def data(self, name: str, content: bytes | int = 64) -> int:
        """The address of a variable of macOS, made at the first call with this content or of this many zero bytes."""
        if name not in self._data:
            filled = bytes(content)
            self._data[name] = self._next_data
            self._next_data += (len(filled) + 63) // 64 * 64
            self.write(self._data[name], filled)
        return self._data[name]

    def keep(self, begin: int, size: int) -> None:
        """Let `snapshot` keep this part of the memory."""
        self._kept.append((begin, size))

    def snapshot(self, heap_end: int) -> Snapshot:
        """The content of everything that code can change, the heap up to its end."""
        heap, data = self.heap[0], self._data_begin
        parts = [*self._kept, (heap, heap_end - heap), (data, self._next_data - data)]
        return [(begin, self.read(begin, size)) for begin, size in parts]

    def restore(self, snapshot: Snapshot) -> None:
        """Bring everything back to what it was."""
        for begin, content in snapshot:
            self.write(begin, content)

    # Calls

    def trap(self, name: str) -> int:
        """The address that stands for a function or a variable of macOS, where no memory is."""
        if name not in self._traps:
            self._traps.append(name)
        return self._trap_begin + 16 * self._traps.index(name)

    def trap_name(self, address: int) -> str:
        """What an address stands for, or an empty string."""
        number = (address - self._trap_begin) // 16
        return self._traps[number] if 0 <= number < len(self._traps) else ""

    def register(self, number: int) -> int:
        return int(self._uc.reg_read(number))

    def set_register(self, number: int, value: int) -> None:
        self._uc.reg_write(number, value & _WORD)

    def arguments(self, count: int) -> list[int]:
        """The first arguments of the running function."""
        return [self.register(X0 + number) for number in range(count)]

    @property
    def stack(self) -> int:
        return self.register(_SP)

    @property
    def return_address(self) -> int:
        return self.register(_LR)

    @property
    def caller(self) -> str:
        """The place of the call of the running function."""
        return self.describe(self.return_address - 4)

    def _note_fault(self, _uc: object, kind: int, address: int, _size: int, _value: int, _data: object) -> bool:
        self._fault = address
        return kind in (unicorn.UC_MEM_READ_UNMAPPED, unicorn.UC_MEM_WRITE_UNMAPPED) and self.adopt(address)

    @contextmanager
    def frame(self) -> Iterator[int]:
        """A place on the stack for a call; one that is made within another brings back the registers."""
        context = self._uc.context_save() if self._depth else None
        self._depth += 1
        try:
            # Below what the running function may have there.
            yield (self.stack & -16 if context else self._stack_end) - 0x1000
        finally:
            self._depth -= 1
            if context:
                self._uc.context_restore(context)

    def call(self, address: int, *arguments: int) -> int:
        """Run a function to its end and return x0."""
        with self.frame() as stack:
            for number, argument in enumerate(arguments):
                self.set_register(X0 + number, argument)
            self.run(address, stack)
            return self.register(X0)

    def run(self, address: int, stack: int) -> None:
        """Run a function to its end with the registers as they are."""
        self.set_register(_SP, stack)
        self.set_register(_LR, self._end)
        while address != self._end:
            try:
                self._uc.emu_start(address, self._end)
                return
            except _UNICORN.UcError as problem:
                at = self.register(_PC)
                if at != self._fault:
                    raise Stopped(f"{problem} of {self.describe(self._fault)} at {self.describe(at)}") from None
            self._answer(at)
            address = self.register(_PC)

    def go(self, address: int) -> None:
        """Continue at an address."""
        self.set_register(_PC, address)

    def _answer(self, address: int) -> None:
        """Do what the code has called that is not in its memory."""
        self.go(self.return_address)
        name = self.trap_name(address)
        if function := self.functions.get(name):
            result = function(*self.arguments(len(signature(function).parameters)))
            if result is not None:
                self.set_register(X0, result)
        elif name or not self.outside(address):
            raise Stopped(f"{name or hex(address)} was called, which nobody has written, from {self.caller}")
