"""An arm64 processor and its memory. A call of a function that nobody has written stops with the function's name."""

import ctypes
import mmap
import struct
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from typing import Any

import unicorn
from unicorn import arm64_const as arm64

# Its functions have no types.
_UNICORN: Any = unicorn
# What stands for a function of macOS: it gets the machine and its arguments, and returns x0 unless it returns None.
Handler = Callable[..., int | None]

# Where the parts of the memory begin, and their sizes.
HEAP, HEAP_BYTES = 0x6000_0000_0000, 0x8000_0000
_STACK, _STACK_BYTES = 0x6800_0000_0000, 0x100_0000
_THREAD, _THREAD_BYTES = 0x6900_0000_0000, 0x100_0000
_TRAPS, _TRAP_BYTES = 0x7000_0000_0000, 0x20_0000
_DATA, _DATA_BYTES = 0x7100_0000_0000, 0x100_0000
_IMAGES = 0x1_0000_0000
_RETURN = 0xD65F03C0
_WORD = (1 << 64) - 1
_PAGE = 0x4000


class Stopped(Exception):
    """The emulated code did what it must not; the text names the function and the place."""


@dataclass(frozen=True)
class Region:
    """A part of the memory; both sides see the same bytes."""

    begin: int
    memory: memoryview

    @property
    def end(self) -> int:
        return self.begin + len(self.memory)


class Machine:
    """One processor with one thread."""

    def __init__(self) -> None:
        self._uc = _UNICORN.Uc(unicorn.UC_ARCH_ARM64, unicorn.UC_MODE_ARM)
        self._uc.ctl_set_cpu_model(arm64.UC_CPU_ARM64_MAX)
        self._regions: list[Region] = []
        self._traps: list[str] = []
        self._handlers: dict[str, tuple[Handler, int]] = {}
        self._trap_of: dict[str, int] = {}
        self._data: dict[str, int] = {}
        self._kept: list[tuple[int, int]] = []
        self._next_image, self._next_data, self._next_thread = _IMAGES, _DATA, _THREAD
        # How often each function of macOS was called.
        self.calls: Counter[str] = Counter()
        # Says where an address lies, for messages.
        self.describe: Callable[[int], str] = hex
        # Names of functions are never read as data: their memory can only be executed.
        traps = self._map(_TRAPS, _TRAP_BYTES, unicorn.UC_PROT_EXEC)
        traps[:] = struct.pack("<I", _RETURN) * (_TRAP_BYTES // 4)
        plain = unicorn.UC_PROT_READ | unicorn.UC_PROT_WRITE
        for begin, size in ((_DATA, _DATA_BYTES), (HEAP, HEAP_BYTES), (_STACK, _STACK_BYTES), (_THREAD, _THREAD_BYTES)):
            self._map(begin, size, plain)
        self._uc.reg_write(arm64.UC_ARM64_REG_CPACR_EL1, 3 << 20)
        self._uc.hook_add(unicorn.UC_HOOK_CODE, self._trapped, begin=_TRAPS, end=_TRAPS + _TRAP_BYTES)
        self._returned = self.trap("return to the caller")

    def _map(self, begin: int, size: int, access: int) -> memoryview:
        memory = mmap.mmap(-1, size)
        self._uc.mem_map_ptr(begin, size, access, ctypes.addressof(ctypes.c_char.from_buffer(memory)))
        region = Region(begin, memoryview(memory))
        self._regions.append(region)
        return region.memory

    # Memory

    def place_image(self, size: int) -> Region:
        """Make room for an image."""
        begin = self._next_image
        rounded = (size + _PAGE - 1) // _PAGE * _PAGE
        # A gap, so that an address past its end is nobody's.
        self._next_image += (rounded + 0x100_0000) & ~0xFF_FFFF
        self._map(begin, rounded, unicorn.UC_PROT_ALL)
        return self._regions[-1]

    def view(self, address: int, size: int) -> memoryview:
        """The bytes of a place; writing changes the memory."""
        for region in self._regions:
            if region.begin <= address and address + size <= region.end:
                at = address - region.begin
                return region.memory[at : at + size]
        raise Stopped(f"{size} bytes at {address:#x} are nobody's memory")

    def read(self, address: int, size: int) -> bytes:
        return bytes(self.view(address, size))

    def write(self, address: int, content: bytes) -> None:
        self.view(address, len(content))[:] = content

    def word(self, address: int) -> int:
        """The pointer at a place."""
        return int(struct.unpack_from("<Q", self.view(address, 8))[0])

    def write_word(self, address: int, value: int) -> None:
        struct.pack_into("<Q", self.view(address, 8), 0, value & _WORD)

    def text(self, address: int) -> str:
        """The string of C at a place."""
        found = b""
        while b"\0" not in found:
            # No read crosses a page, and no region ends within one.
            size = 256 - address % 256
            found += self.read(address, size)
            address += size
        return found.split(b"\0", 1)[0].decode(errors="replace")

    def data(self, name: str, content: bytes | int = 64) -> int:
        """The address of a variable of macOS, made at the first call with this content or of this many zero bytes."""
        if name not in self._data:
            filled = bytes(content) if isinstance(content, int) else content
            self._data[name] = self._next_data
            self._next_data += (len(filled) + 63) // 64 * 64
            self.write(self._data[name], filled)
        return self._data[name]

    def string(self, text: str) -> int:
        """The address of this text."""
        return self.data(f"text {text}", text.encode() + b"\0")

    def thread_block(self, content: bytes) -> int:
        """Give a library's thread-local variables their place."""
        begin = (self._next_thread + 63) // 64 * 64
        self._next_thread = begin + len(content)
        self.write(begin, content)
        return begin

    # Calls

    def handle(self, name: str, handler: Handler) -> None:
        """Set what a function of macOS does."""
        self._handlers[name] = (handler, len(signature(handler).parameters))

    @property
    def handled(self) -> set[str]:
        """The functions that are written in Python."""
        return set(self._handlers)

    def trap(self, name: str) -> int:
        """The address that stands for a function of macOS."""
        if name not in self._trap_of:
            self._trap_of[name] = _TRAPS + 16 * len(self._traps)
            self._traps.append(name)
        return self._trap_of[name]

    def trap_name(self, address: int) -> str | None:
        """The function that an address stands for."""
        number, rest = divmod(address - _TRAPS, 16)
        return self._traps[number] if not rest and 0 <= number < len(self._traps) else None

    def register(self, number: int) -> int:
        """The content of x0 to x28."""
        return int(self._uc.reg_read(arm64.UC_ARM64_REG_X0 + number))

    def set_double(self, value: float) -> None:
        """Return a double in place of an integer."""
        self._uc.reg_write(arm64.UC_ARM64_REG_D0, struct.unpack("<Q", struct.pack("<d", value))[0])

    @property
    def stack(self) -> int:
        return int(self._uc.reg_read(arm64.UC_ARM64_REG_SP))

    @property
    def caller(self) -> int:
        """The call of the running function of macOS: the instruction before the one that it returns to."""
        return int(self._uc.reg_read(arm64.UC_ARM64_REG_LR)) - 4

    def _trapped(self, _uc: object, address: int, _size: int, _data: object) -> None:
        if address == self._returned:
            return
        name = self.trap_name(address)
        if name not in self._handlers:
            raise Stopped(f"{name or hex(address)} was called, which nobody has written, from {self.describe(self.caller)}")
        self.calls[name] += 1
        handler, count = self._handlers[name]
        result = handler(self, *(self.register(number) for number in range(count - 1)))
        if result is not None:
            self._uc.reg_write(arm64.UC_ARM64_REG_X0, result & _WORD)

    def call(self, address: int, *arguments: int) -> int:
        """Run a function to its end and return x0."""
        uc = self._uc
        uc.reg_write(arm64.UC_ARM64_REG_SP, _STACK + _STACK_BYTES - 0x1000)
        uc.reg_write(arm64.UC_ARM64_REG_FP, 0)
        for number, argument in enumerate(arguments):
            uc.reg_write(arm64.UC_ARM64_REG_X0 + number, argument)
        uc.reg_write(arm64.UC_ARM64_REG_LR, self._returned)
        try:
            uc.emu_start(address, self._returned)
        except _UNICORN.UcError as problem:
            at = int(uc.reg_read(arm64.UC_ARM64_REG_PC))
            raise Stopped(
                f"{problem} at {self.describe(at)}, called from {self.describe(self.caller)}"
            ) from None
        return self.register(0)

    # The way back

    def keep(self, begin: int, size: int) -> None:
        """Let `snapshot` keep this part of the memory."""
        self._kept.append((begin, size))

    def snapshot(self, heap_end: int) -> list[tuple[int, bytes]]:
        """The content of everything that code can change; the heap up to its end."""
        parts = [*self._kept, (HEAP, heap_end - HEAP), (_DATA, self._next_data - _DATA)]
        return [(begin, self.read(begin, size)) for begin, size in [*parts, (_THREAD, self._next_thread - _THREAD)]]

    def restore(self, snapshot: list[tuple[int, bytes]]) -> None:
        """Bring everything back to what it was."""
        for begin, content in snapshot:
            self.write(begin, content)
