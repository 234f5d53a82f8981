"""What dyld does: bring libraries into memory, bind each name to the library that the file says, run the initializers."""

import struct
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from mac_code.machine import Machine, Stopped
from mac_code.macho import ANY, Bind, INITIALIZERS, MachO, SELF, THREAD_DATA, THREAD_VARIABLES, THREAD_ZERO, WEAK_DEFINES


class BindError(Exception):
    """A library takes a name that the library it says does not have."""


@dataclass
class Image:
    """A library in memory."""

    file: MachO
    base: int
    memory: memoryview
    # What was bound: the pointer's address, and the owner of what it points to.
    bound: dict[int, str] = field(default_factory=dict)
    initialized: int = 0

    @property
    def name(self) -> str:
        return self.file.path.name

    @property
    def end(self) -> int:
        return self.base + len(self.memory)

    def address(self, symbol: str) -> int:
        """Where one of its names lies, be it exported or local."""
        export = self.file.exports.get(symbol)
        return self.base + (export.address if export else self.file.symbols[symbol])

    @cached_property
    def places(self) -> list[tuple[int, str]]:
        """Its names in the order of their addresses."""
        return sorted((address, name) for name, address in self.file.symbols.items())


@dataclass(frozen=True)
class System:
    """A library of macOS that no file stands for, or only in part."""

    name: str
    # Whether it has a name, as far as is known.
    has: Callable[[str], bool]
    # The files that have parts of it.
    files: tuple[Path, ...] = ()


class Process:
    """The libraries of one process, on one machine."""

    def __init__(
        self,
        machine: Machine,
        systems: Mapping[str, System],
        files: Mapping[str, Path],
        variables: Mapping[str, bytes | int],
    ):
        """`files` are libraries by the install name that others take them by, `systems` those of macOS.

        `variables` are the data of macOS, by content or size; all other names of macOS are functions.
        """
        self.machine = machine
        self.images: list[Image] = []
        self._systems, self._files = systems, files
        self._variables = variables
        self._of_system: dict[str, list[Image]] = {}
        machine.describe = self.describe
        # macOS's own libraries come first, so that no library of ours is asked for their names.
        for name, system in systems.items():
            self._of_system[name] = [self._place(MachO(path)) for path in system.files]
        self._finish([image for images in self._of_system.values() for image in images])

    # Looking

    def image_at(self, address: int) -> Image | None:
        """The library that an address lies in."""
        return next((image for image in self.images if image.base <= address < image.end), None)

    def image(self, name: str) -> Image:
        """The library of this file name."""
        return next(image for image in self.images if image.name == name)

    def owner(self, address: int) -> str:
        """The file name of the library that an address lies in."""
        image = self.image_at(address)
        if image is not None:
            return image.name
        return "macOS" if self.machine.trap_name(address) else "data" if address else "nothing"

    def describe(self, address: int) -> str:
        """An address as library, function and offset."""
        image = self.image_at(address)
        if image is None:
            return self.machine.trap_name(address) or hex(address)
        at = address - image.base
        number = bisect_right(image.places, (at, "\U0010ffff")) - 1
        begin, name = image.places[number] if number >= 0 else (0, "?")
        return f"{image.name} {name}+{at - begin:#x}"

    # Loading

    def load(self, path: Path, content: bytes | None = None) -> Image:
        """Bring a library and those that it needs into memory and bind them, breadth first as dyld does."""
        first = self._place(MachO(path, content))
        fresh = [first]
        for image in fresh:
            for name, optional in image.file.dependencies:
                if self._provider(name) or name in self._systems:
                    continue
                if name not in self._files:
                    if optional:
                        continue
                    raise BindError(f"{image.name} needs {name}, which is not there")
                fresh.append(self._place(MachO(self._files[name])))
        self._finish(fresh)
        return first

    def _place(self, file: MachO) -> Image:
        region = self.machine.place_image(file.size)
        for segment in file.segments:
            size = min(segment.file_size, segment.size)
            region.memory[segment.address : segment.address + size] = file.content[segment.offset : segment.offset + size]
            if segment.writable:
                self.machine.keep(region.begin + segment.address, segment.size)
        # Its header too, which says what it is.
        self.machine.keep(region.begin, 0x1000)
        image = Image(file, region.begin, region.memory)
        self.images.append(image)
        return image

    def _finish(self, images: Iterable[Image]) -> None:
        images = list(images)
        for image in images:
            for at in image.file.rebases():
                value = struct.unpack_from("<Q", image.memory, at)[0]
                struct.pack_into("<Q", image.memory, at, value + image.base)
        for image in images:
            found: dict[tuple[str, int], tuple[int, str]] = {}
            for bind in image.file.binds():
                key = (bind.name, bind.ordinal)
                if key not in found:
                    found[key] = self._resolve(image, bind)
                self._set(image, bind, *found[key])
            self._set_thread_variables(image)
        for image in images:
            chosen: dict[str, tuple[int, str] | None] = {}
            for bind in image.file.weak_binds():
                if bind.name not in chosen:
                    chosen[bind.name] = self._coalesce(bind.name)
                if (one := chosen[bind.name]) is not None:
                    self._set(image, bind, *one)

    def _set(self, image: Image, bind: Bind, address: int, owner: str) -> None:
        value = (address + bind.addend) & 0xFFFFFFFFFFFFFFFF if address else 0
        struct.pack_into("<Q", image.memory, bind.address, value)
        image.bound[bind.address] = owner

    def _provider(self, install_name: str) -> Image | None:
        return next((image for image in self.images if image.file.install_name == install_name), None)

    def _resolve(self, image: Image, bind: Bind) -> tuple[int, str]:
        """The address of a name in the library that the file says, and that library's name."""
        if bind.ordinal == ANY:
            return self._look_everywhere(image, bind)
        if bind.ordinal == SELF:
            return image.address(bind.name), image.name
        if not 1 <= bind.ordinal <= len(image.file.dependencies):
            raise BindError(f"{image.name} takes {bind.name} from its library number {bind.ordinal}, of {len(image.file.dependencies)}")
        library, _ = image.file.dependencies[bind.ordinal - 1]
        address = self._in_library(library, bind.name)
        if address is None and not bind.optional:
            raise BindError(f"{image.name} takes {bind.name} from {library}, which does not have it")
        return address or 0, library.rsplit("/", 1)[-1]

    def _in_library(self, library: str, name: str) -> int | None:
        provider = self._provider(library)
        if provider is not None:
            export = provider.file.exports.get(name)
            return provider.base + export.address if export else None
        return self._in_system(library, name)

    def _in_system(self, library: str, name: str) -> int | None:
        for image in self._of_system.get(library, ()):
            if name in image.file.exports:
                return image.address(name)
        if library not in self._systems or not self._systems[library].has(name):
            return None
        if name in self._variables:
            return self.machine.data(name, self._variables[name])
        if name.startswith(("_OBJC_CLASS_$_", "_OBJC_METACLASS_$_")):
            return self.machine.data(name)
        return self.machine.trap(name)

    def _look_everywhere(self, image: Image, bind: Bind) -> tuple[int, str]:
        for other in self.images:
            if bind.name in other.file.exports:
                return other.address(bind.name), other.name
        for library, system in self._systems.items():
            address = self._in_system(library, bind.name)
            if address is not None:
                return address, system.name
        raise BindError(f"{image.name} takes {bind.name} from whichever library has it, and none does")

    def _coalesce(self, name: str) -> tuple[int, str] | None:
        """The one copy of a name for all libraries: the first that is not weak, else the first."""
        weak: tuple[int, str] | None = None
        for image in self.images:
            export = image.file.exports.get(name) if image.file.flags & WEAK_DEFINES else None
            if export and not export.weak:
                return image.base + export.address, image.name
            if export and weak is None:
                weak = image.base + export.address, image.name
        return weak

    def _set_thread_variables(self, image: Image) -> None:
        """Give the one thread its copy of the library's thread-local variables."""
        parts = image.file.sections_of(THREAD_DATA, THREAD_ZERO)
        if not parts:
            return
        begin, end = min(part.address for part in parts), max(part.address + part.size for part in parts)
        content = bytearray(end - begin)
        for part in parts:
            if part.kind == THREAD_DATA:
                content[part.address - begin : part.address - begin + part.size] = image.memory[part.address : part.address + part.size]
        block = self.machine.thread_block(bytes(content))
        for part in image.file.sections_of(THREAD_VARIABLES):
            for at in range(part.address, part.address + part.size, 24):
                # The third word stays: the variable's offset in the block.
                struct.pack_into("<Q", image.memory, at + 8, block)

    # Running

    def initialize(self, image: Image) -> int:
        """Run a library's initializers; returns how many."""
        for section in image.file.sections_of(INITIALIZERS):
            count = section.size // 8
            for number, address in enumerate(struct.unpack_from(f"<{count}Q", image.memory, section.address), 1):
                try:
                    # Their arguments are those of main.
                    self.machine.call(address, 0, 0, 0, 0)
                except Stopped as problem:
                    raise Stopped(f"initializer {number} of {count} in {image.name}: {problem}") from None
                image.initialized += 1
        return image.initialized
