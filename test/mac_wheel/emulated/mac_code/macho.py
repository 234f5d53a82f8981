"""Read a Mach-O library for arm64: its segments, what it exports, and what dyld has to write into it."""

import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

# Load commands.
_SYMTAB, _SEGMENT, _UUID, _ID = 0x02, 0x19, 0x1B, 0x0D
_DEPENDENCIES = {0x0C: False, 0x80000018: True, 0x8000001F: False, 0x80000023: False}
_DYLD_INFO, _CHAINED_FIXUPS = (0x22, 0x80000022), 0x80000034
# Types of sections.
INITIALIZERS = 0x09
THREAD_DATA, THREAD_ZERO, THREAD_VARIABLES = 0x11, 0x12, 0x13
_INITIALIZER_OFFSETS = 0x16
# Ordinals that stand for no library: this image, and whichever has the name.
SELF, ANY = 0, -2
# Flags of a file: dyld looks for what it defines on behalf of other libraries.
WEAK_DEFINES = 0x8000


class MachOError(Exception):
    """The file is not one that this reader understands."""


@dataclass(frozen=True)
class Segment:
    """A part of the file and where it lies in memory."""

    name: str
    address: int
    size: int
    offset: int
    file_size: int

    @property
    def writable(self) -> bool:
        return self.name.startswith("__DATA")


@dataclass(frozen=True)
class Section:
    """A part of a segment."""

    segment: str
    name: str
    address: int
    size: int
    offset: int
    kind: int


@dataclass(frozen=True)
class Bind:
    """A pointer that dyld sets to the address of a name."""

    address: int
    name: str
    ordinal: int
    addend: int
    # A missing library leaves the pointer null.
    optional: bool


@dataclass(frozen=True)
class Export:
    """An exported name; another library's copy may take the place of a weak one."""

    address: int
    weak: bool


class MachO:
    """One file. Addresses count from the file's own base, 0."""

    def __init__(self, path: Path, content: bytes | None = None):
        """Read `path`, or `content` in its place."""
        self.path = path
        self.content: bytes | mmap.mmap
        if content is None:
            with path.open("rb") as file:
                self.content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        else:
            self.content = content
        self.segments: list[Segment] = []
        self.sections: list[Section] = []
        # Each library that it names, and whether it may be missing.
        self.dependencies: list[tuple[str, bool]] = []
        self.install_name = path.name
        self.uuid_offset = 0
        self._info = (0,) * 10
        self._symbols = (0, 0, 0, 0)
        magic, processor, _, _, count, _, self.flags, _ = struct.unpack_from("<8I", self.content, 0)
        if (magic, processor) != (0xFEEDFACF, 0x0100000C):
            raise MachOError(f"{path.name} is not for arm64")
        at = 32
        for _ in range(count):
            command, size = struct.unpack_from("<II", self.content, at)
            self._read_command(command, at, size)
            at += size
        if self.segments[0].address != 0:
            raise MachOError(f"{path.name} does not begin at address 0")

    def _read_command(self, command: int, at: int, size: int) -> None:
        if command == _SEGMENT:
            self._read_segment(at)
        elif command in _DEPENDENCIES:
            self.dependencies.append((self._command_text(at, size), _DEPENDENCIES[command]))
        elif command == _ID:
            self.install_name = self._command_text(at, size)
        elif command == _UUID:
            self.uuid_offset = at + 8
        elif command in _DYLD_INFO:
            self._info = struct.unpack_from("<10I", self.content, at + 8)
        elif command == _SYMTAB:
            self._symbols = struct.unpack_from("<4I", self.content, at + 8)
        elif command == _CHAINED_FIXUPS:
            raise MachOError(f"{self.path.name} has chained fixups, which this reader does not know")

    def _read_segment(self, at: int) -> None:
        name = _fixed_text(self.content[at + 8 : at + 24])
        self.segments.append(Segment(name, *struct.unpack_from("<4Q", self.content, at + 24)))
        (count,) = struct.unpack_from("<I", self.content, at + 64)
        for number in range(count):
            begin = at + 72 + 80 * number
            address, size = struct.unpack_from("<QQ", self.content, begin + 32)
            (offset,) = struct.unpack_from("<I", self.content, begin + 48)
            (flags,) = struct.unpack_from("<I", self.content, begin + 64)
            section = _fixed_text(self.content[begin : begin + 16])
            if flags & 0xFF == _INITIALIZER_OFFSETS:
                raise MachOError(f"{self.path.name} has initializers by offset, which this reader does not know")
            self.sections.append(Section(name, section, address, size, offset, flags & 0xFF))

    def _command_text(self, at: int, size: int) -> str:
        (offset,) = struct.unpack_from("<I", self.content, at + 8)
        return _fixed_text(self.content[at + offset : at + size])

    def _text(self, at: int) -> str:
        return self.content[at : self.content.find(b"\0", at)].decode()

    @property
    def size(self) -> int:
        """How much memory it takes."""
        return max(segment.address + segment.size for segment in self.segments)

    def sections_of(self, *kinds: int) -> list[Section]:
        """Its sections of these types."""
        return [section for section in self.sections if section.kind in kinds]

    def section(self, name: str) -> Section | None:
        """Its section of this name."""
        return next((section for section in self.sections if section.name == name), None)

    @cached_property
    def symbols(self) -> dict[str, int]:
        """The addresses of all names in its symbol table, local ones too."""
        offset, count, texts, _ = self._symbols
        found = {}
        for number in range(count):
            text, kind, _, _, value = struct.unpack_from("<IBBHQ", self.content, offset + 16 * number)
            # No names of a debugger, and defined in a section.
            if not kind & 0xE0 and kind & 0x0E == 0x0E:
                found[self._text(texts + text)] = value
        return found

    @cached_property
    def exports(self) -> dict[str, Export]:
        """What other libraries can bind to."""
        begin, size = self._info[8:10]
        found: dict[str, Export] = {}
        waiting = [(begin, b"")] if size else []
        while waiting:
            at, prefix = waiting.pop()
            length, at = _unsigned(self.content, at)
            children = at + length
            if length:
                flags, at = _unsigned(self.content, at)
                if flags & 0x08:
                    raise MachOError(f"{self.path.name} exports {prefix.decode()} on behalf of another library")
                address, _ = _unsigned(self.content, at)
                found[prefix.decode()] = Export(address, bool(flags & 0x04))
            count, at = self.content[children], children + 1
            for _ in range(count):
                end = self.content.find(b"\0", at)
                label = self.content[at:end]
                child, at = _unsigned(self.content, end + 1)
                waiting.append((begin + child, prefix + label))
        return found

    def rebases(self) -> Iterator[int]:
        """The addresses of the pointers that grow by the place of the image."""
        at, size = self._info[0:2]
        end, address = at + size, 0
        while at < end:
            byte = self.content[at]
            action, small = byte & 0xF0, byte & 0x0F
            at += 1
            count, step = 0, 8
            if action == 0x00:
                return
            if action == 0x20:
                offset, at = _unsigned(self.content, at)
                address = self.segments[small].address + offset
            elif action == 0x30:
                offset, at = _unsigned(self.content, at)
                address += offset
            elif action == 0x40:
                address += small * 8
            elif action == 0x50:
                count = small
            elif action == 0x60:
                count, at = _unsigned(self.content, at)
            elif action == 0x70:
                offset, at = _unsigned(self.content, at)
                count, step = 1, 8 + offset
            elif action == 0x80:
                count, at = _unsigned(self.content, at)
                offset, at = _unsigned(self.content, at)
                step = 8 + offset
            elif action != 0x10:
                raise MachOError(f"{self.path.name} has the rebase opcode {byte:#x}")
            for _ in range(count):
                yield address
                address += step

    def binds(self) -> Iterator[Bind]:
        """The pointers to names of other libraries; those that dyld would set at first use too."""
        yield from self._binds(*self._info[2:4], lazy=False)
        yield from self._binds(*self._info[6:8], lazy=True)

    def weak_binds(self) -> Iterator[Bind]:
        """The pointers to names of which one copy serves all libraries."""
        yield from self._binds(*self._info[4:6], lazy=False)

    def _binds(self, at: int, size: int, lazy: bool) -> Iterator[Bind]:
        end, address, name, ordinal, addend, flags = at + size, 0, "", 0, 0, 0
        while at < end:
            byte = self.content[at]
            action, small = byte & 0xF0, byte & 0x0F
            at += 1
            count, step = 0, 8
            if action == 0x00:
                if lazy:
                    continue
                return
            if action == 0x10:
                ordinal = small
            elif action == 0x20:
                ordinal, at = _unsigned(self.content, at)
            elif action == 0x30:
                ordinal = small - 16 if small else 0
            elif action == 0x40:
                name, flags = self._text(at), small
                at += len(name.encode()) + 1
            elif action == 0x60:
                addend, at = _signed(self.content, at)
            elif action == 0x70:
                offset, at = _unsigned(self.content, at)
                address = self.segments[small].address + offset
            elif action == 0x80:
                offset, at = _unsigned(self.content, at)
                address = (address + offset) & 0xFFFFFFFFFFFFFFFF
            elif action == 0x90:
                count = 1
            elif action == 0xA0:
                offset, at = _unsigned(self.content, at)
                count, step = 1, 8 + offset
            elif action == 0xB0:
                count, step = 1, 8 + 8 * small
            elif action == 0xC0:
                count, at = _unsigned(self.content, at)
                offset, at = _unsigned(self.content, at)
                step = 8 + offset
            elif action != 0x50:
                raise MachOError(f"{self.path.name} has the bind opcode {byte:#x}")
            for _ in range(count):
                yield Bind(address, name, ordinal, addend, bool(flags & 1))
                address = (address + step) & 0xFFFFFFFFFFFFFFFF


def _fixed_text(content: bytes) -> str:
    return content.split(b"\0", 1)[0].decode()


def _unsigned(content: bytes | mmap.mmap, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return value, at


def _signed(content: bytes | mmap.mmap, at: int) -> tuple[int, int]:
    begin = at
    value, at = _unsigned(content, at)
    return (value - (1 << 7 * (at - begin)) if content[at - 1] & 0x40 else value), at
