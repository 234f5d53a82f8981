"""What the Mach-O file of a library says."""

from pathlib import Path
from typing import NamedTuple

from fork_tool.mac_library.symbols import DEBUG, KIND, SECTION
from fork_tool.mac_library.tools import read_library

# Types of sections.
INITIALIZERS = 0x09
THREAD_DATA, THREAD_ZERO, THREAD_VARIABLES = 0x11, 0x12, 0x13
# Ordinals that stand for no library: this image, and whichever has the name.
SELF, ANY = 0, -2
_DEPENDENCIES = ("LOAD_DYLIB", "LOAD_WEAK_DYLIB", "REEXPORT_DYLIB", "LOAD_UPWARD_DYLIB")
# A flag of a file: other libraries may use its copies of names. A flag of an export: another copy may be used.
_WEAK_DEFINES, _WEAK = 0x8000, 0x04


class Bind(NamedTuple):
    """A pointer that dyld sets to the address of a name."""

    address: int
    name: str
    ordinal: int
    addend: int
    # A missing name leaves the pointer null.
    optional: bool


class Section(NamedTuple):
    """A part of the file."""

    name: str
    address: int
    size: int
    kind: int


class MachO:
    """One file. Addresses count from its own base."""

    def __init__(self, path: Path):
        """Read the file."""
        binary = read_library(path)
        self.path = path
        commands = [(command.command.name, command) for command in binary.libraries]
        self.install_name = next((command.name for kind, command in commands if kind == "ID_DYLIB"), path.name)
        self.dependencies = [str(command.name) for kind, command in commands if kind in _DEPENDENCIES]
        # Their names, addresses and sizes in memory, offsets and sizes in the file.
        keys = ("name", "virtual_address", "virtual_size", "file_offset", "file_size")
        self.segments = [tuple(getattr(each, key) for key in keys) for each in binary.segments]
        self.size = max(address + size for _, address, size, _, _ in self.segments)
        parts = binary.sections
        self.sections = [Section(each.name, each.virtual_address, each.size, int(each.type)) for each in parts]
        self.uuid_offset = binary.uuid.command_offset + 8
        self.rebases = [int(each.address) for each in binary.relocations]
        self.binds: list[Bind] = []
        # Pointers to names of which one copy serves all libraries.
        self.weak_binds: list[Bind] = []
        for each in binary.bindings:
            bind = Bind(each.address, each.symbol.name, each.library_ordinal, each.addend, each.weak_import)
            (self.weak_binds if each.binding_class.name == "WEAK" else self.binds).append(bind)
        self.exports: dict[str, int] = {}
        self.shared: dict[str, bool] = {}
        # All names that it defines, local ones too.
        self.symbols: dict[str, int] = {}
        for symbol in binary.symbols:
            if symbol.has_export_info:
                self.exports[symbol.name] = int(symbol.export_info.address)
                self.shared[symbol.name] = bool(symbol.export_info.flags & _WEAK)
            if not symbol.raw_type & DEBUG and symbol.raw_type & KIND == SECTION:
                self.symbols[symbol.name] = int(symbol.value)
        if not int(binary.header.flags) & _WEAK_DEFINES:
            self.shared = {}

    def sections_of(self, *kinds: int) -> list[Section]:
        """Its sections of these types."""
        return [section for section in self.sections if section.kind in kinds]
