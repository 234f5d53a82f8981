"""An arm64 processor and its memory. A call of a function that nobody has written stops with the function's name."""

import ctypes
import itertools
import struct
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from inspect import signature
from typing import Any

import unicorn
from unicorn import arm64_const as arm64

# Its functions have no types.
_UNICORN: Any = unicorn
# What stands for a function of macOS: it gets the machine and its arguments, and returns x0 unless it returns None.
Handler = Callable[..., int | None]
Snapshot = list[tuple[int, bytes]]

# The memory of each machine lies where no native library is mapped, so that native code may use the same addresses.
_SIZE = 0x10_0000_0000
_BEGINS = itertools.count(0x6000_0000_0000, _SIZE)
# The parts of the memory, from its begin, and their sizes.
_TRAPS, _TRAP_BYTES = 0, 0x20_0000
_DATA, _DATA_BYTES = 0x1000_0000, 0x100_0000
_STACK, _STACK_BYTES = 0x2000_0000, 0x100_0000
_HEAP, _HEAP_BYTES = 0x1_0000_0000, 0x8000_0000
_IMAGES, _GAP = 0x2_0000_0000, 0x100_0000
_RETURN = 0xD65F03C0
_WORD = (1 << 64) - 1
# Private, of no file, without swap space, and at no address that is in use.
_READ_WRITE, _NEW_MEMORY = 3, 0x02 | 0x20 | 0x4000 | 0x10_0000
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)
_LIBC.mmap.restype = ctypes.c_void_p
_LIBC.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)


class Stopped(Exception):
    """The emulated code did what it must not; the text names the function and the place."""


class Machine:
    """One processor with one thread."""

    def __init__(self, functions: Mapping[str, Handler]):
        """`functions` are those of macOS that are written in Python."""
        self._uc = _UNICORN.Uc(unicorn.UC_ARCH_ARM64, unicorn.UC_MODE_ARM)
        self._uc.ctl_set_cpu_model(arm64.UC_CPU_ARM64_MAX)
        self.regions: list[tuple[int, memoryview]] = []
        self._kept: list[tuple[int, int]] = []
        self._traps: list[str] = []
        self._functions = {name: (each, len(signature(each).parameters)) for name, each in functions.items()}
        self._data: dict[str, int] = {}
        begin = self._begin = next(_BEGINS)
        self._trap_begin, self._data_begin, self._next_data = begin + _TRAPS, begin + _DATA, begin + _DATA
        self._next_image = begin + _IMAGES
        self.heap = begin + _HEAP, begin + _HEAP + _HEAP_BYTES
        self._stack_end = begin + _STACK + _STACK_BYTES
        # Says where an address lies, for messages.
        self.describe: Callable[[int], str] = hex
        # Takes over a call of an address without memory, or a use of it; false if it is nobody's.
        self.outside: Callable[[int], bool] = lambda address: False
        self.adopt: Callable[[int], bool] = lambda address: False
        self._fault, self._depth = 0, 0
        traps = self._map(self._trap_begin, _TRAP_BYTES, unicorn.UC_PROT_EXEC)
        traps[:] = struct.pack("<I", _RETURN) * (_TRAP_BYTES // 4)
        for part, size in ((_DATA, _DATA_BYTES), (_HEAP, _HEAP_BYTES), (_STACK, _STACK_BYTES)):
            self._map(begin + part, size, unicorn.UC_PROT_READ | unicorn.UC_PROT_WRITE)
        # Lets code use the vector registers.
        self._uc.reg_write(arm64.UC_ARM64_REG_CPACR_EL1, 3 << 20)
        ends = {"begin": self._trap_begin, "end": self._trap_begin + _TRAP_BYTES}
        self._uc.hook_add(unicorn.UC_HOOK_CODE, self._trapped, **ends)
        self._uc.hook_add(unicorn.UC_HOOK_MEM_INVALID, self._note_fault)
        self._end = self.trap("the end of a call")

    # Memory: both sides see the same bytes.

    def _map(self, begin: int, size: int, access: int) -> memoryview:
        if _LIBC.mmap(begin, size, _READ_WRITE, _NEW_MEMORY, -1, 0) != begin:
            raise OSError(ctypes.get_errno(), f"no memory at {begin:#x}")
        weakref.finalize(self, _LIBC.munmap, begin, size)
        return self.share(begin, size, access)

    def share(self, begin: int, size: int, access: int = unicorn.UC_PROT_READ | unicorn.UC_PROT_WRITE) -> memoryview:
        """Let code use memory that is in this process, at its own address."""
        self._uc.mem_map_ptr(begin, size, access, begin)
        self.regions.append((begin, memoryview((ctypes.c_ubyte * size).from_address(begin)).cast("B")))
        return self.regions[-1][1]

    def place_image(self, size: int) -> tuple[int, memoryview]:
        """Make room for a library."""
        begin = self._next_image
        self._next_image += (size + 2 * _GAP) // _GAP * _GAP
        return begin, self._map(begin, (size + 0x3FFF) & ~0x3FFF, unicorn.UC_PROT_ALL)

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

    def word(self, address: int) -> int:
        return int(struct.unpack("<Q", self.view(address, 8))[0])

    def write_word(self, address: int, value: int) -> None:
        self.write(address, struct.pack("<Q", value & _WORD))

    def text(self, address: int) -> str:
        """The string of C at a place."""
        found = b""
        while b"\0" not in found:
            # No region ends within so many bytes.
            size = 256 - address % 256
            found += self.read(address, size)
            address += size
        return found.split(b"\0", 1)[0].decode(errors="replace")

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
        """The address that stands for a function of macOS. Where nobody has written it, there is no memory."""
        if name not in self._traps:
            self._traps.append(name)
        known = name in self._functions or name == self._traps[0]
        return self._trap_begin + 16 * self._traps.index(name) + (0 if known else _TRAP_BYTES)

    def trap_name(self, address: int) -> str:
        """The function that an address stands for, or an empty string."""
        offset = address - self._trap_begin
        number = offset % _TRAP_BYTES // 16
        return self._traps[number] if 0 <= offset < 2 * _TRAP_BYTES and number < len(self._traps) else ""

    def register(self, number: int) -> int:
        return int(self._uc.reg_read(number))

    def set_register(self, number: int, value: int) -> None:
        self._uc.reg_write(number, value & _WORD)

    def set_double(self, value: float) -> None:
        """Return a double in place of an integer."""
        self._uc.reg_write(arm64.UC_ARM64_REG_D0, struct.unpack("<Q", struct.pack("<d", value))[0])

    @property
    def caller(self) -> str:
        """The place of the call of the running function."""
        return self.describe(self.return_address - 4)

    @property
    def return_address(self) -> int:
        return self.register(arm64.UC_ARM64_REG_LR)

    def _note_fault(self, _uc: object, kind: int, address: int, _size: int, _value: int, _data: object) -> bool:
        self._fault = address
        return kind in (unicorn.UC_MEM_READ_UNMAPPED, unicorn.UC_MEM_WRITE_UNMAPPED) and self.adopt(address)

    def _trapped(self, _uc: object, address: int, _size: int, _data: object) -> None:
        if address != self._end:
            function, count = self._functions[self.trap_name(address)]
            result = function(self, *(self.register(arm64.UC_ARM64_REG_X0 + number) for number in range(count - 1)))
            if result is not None:
                self.set_register(arm64.UC_ARM64_REG_X0, result)

    @contextmanager
    def frame(self) -> Iterator[int]:
        """A place on the stack for a call; one that is made within another brings back the registers."""
        context = self._uc.context_save() if self._depth else None
        self._depth += 1
        try:
            # Below what the running function may have there.
            yield (self.register(arm64.UC_ARM64_REG_SP) & -16 if context else self._stack_end) - 0x1000
        finally:
            self._depth -= 1
            if context:
                self._uc.context_restore(context)

    def call(self, address: int, *arguments: int) -> int:
        """Run a function to its end and return x0."""
        with self.frame() as stack:
            for number, argument in enumerate(arguments):
                self.set_register(arm64.UC_ARM64_REG_X0 + number, argument)
            self.run(address, stack)
            return self.register(arm64.UC_ARM64_REG_X0)

    def run(self, address: int, stack: int) -> None:
        """Run a function to its end with the registers as they are."""
        self.set_register(arm64.UC_ARM64_REG_SP, stack)
        self.set_register(arm64.UC_ARM64_REG_LR, self._end)
        while address != self._end:
            try:
                self._uc.emu_start(address, self._end)
                return
            except _UNICORN.UcError as problem:
                at = self.register(arm64.UC_ARM64_REG_PC)
                if at != self._fault:
                    raise Stopped(f"{problem} of {self.describe(self._fault)} at {self.describe(at)}") from None
            if not self.outside(at):
                name = self.trap_name(at) or hex(at)
                raise Stopped(f"{name} was called, which nobody has written, from {self.caller}")
            address = self.register(arm64.UC_ARM64_REG_PC)
