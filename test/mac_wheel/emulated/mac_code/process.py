"""What dyld does: bring libraries into memory, bind each name to the library that the file says, run the initializers."""

import struct
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath

from unicorn import UC_PROT_ALL

from fork_tool.mac_library.symbols import Import
from mac_code.machine import Machine, Stopped
from mac_code.macho import ANY, Bind, INITIALIZERS, MachO, SELF, THREAD_DATA, THREAD_VARIABLES, THREAD_ZERO

LIBSYSTEM, LIBCXX = "/usr/lib/libSystem.B.dylib", "/usr/lib/libc++.1.dylib"
# In the place of a library's name: the interpreter.
PYTHON = ""
# A file is read once.
_read = cache(MachO)


@dataclass
class Image:
    """A library in memory."""

    file: MachO
    base: int
    memory: memoryview
    initialized: int = 0

    @property
    def name(self) -> str:
        return self.file.path.name

    def section(self, name: str) -> tuple[int, int]:
        """Where a section lies, and its size; zeros if there is none."""
        found = ((self.base + each.address, each.size) for each in self.file.sections if each.name == name)
        return next(found, (0, 0))

    def items(self, section: str, size: int) -> range:
        """Where the items of a section lie, each of this size."""
        begin, all_of_them = self.section(section)
        return range(begin, begin + all_of_them, size)

    def address(self, symbol: str) -> int:
        """Where one of its names lies, be it exported or local."""
        exports = self.file.exports
        return self.base + (exports[symbol] if symbol in exports else self.file.symbols[symbol])


@dataclass(frozen=True)
class Source:
    """Where libraries come from."""

    # By their install names.
    files: Mapping[str, Path]
    # What a library of macOS has for ours. What the official libraries take, which are in this folder, is there.
    names: Mapping[str, Collection[str]]
    official: Path


class Process:
    """The libraries of one process, on one machine."""

    def __init__(self, machine: Machine, parts: Sequence[Path], variables: Mapping[str, bytes | int], source: Source):
        """Load the files that have parts of libSystem; `variables` are the data of macOS, by content or size."""
        self.machine = machine
        self.images: list[Image] = []
        self._variables, self._source = variables, source
        machine.describe = self.describe
        self._parts = [self._place(_read(path)) for path in parts]
        self._bind(self._parts)

    # Looking

    def image_at(self, address: int) -> Image | None:
        """The library that an address lies in."""
        return next((each for each in self.images if each.base <= address < each.base + len(each.memory)), None)

    def image(self, name: str) -> Image:
        """The library of this file name."""
        return next(image for image in self.images if image.name == name)

    def owner(self, address: int) -> str:
        """The file name of the library that an address lies in."""
        image = self.image_at(address)
        if image is not None:
            return "macOS" if image in self._parts else image.name
        return "macOS" if self.machine.trap_name(address) else "data" if address else "nothing"

    def describe(self, address: int) -> str:
        """An address as library, function and offset."""
        image = self.image_at(address)
        if image is None:
            return self.machine.trap_name(address) or hex(address)
        at = address - image.base
        below = ((place, name) for name, place in image.file.symbols.items() if place <= at)
        begin, name = max(below, default=(0, "?"))
        return f"{image.name} {name}+{at - begin:#x}"

    # Loading

    def load(self, path: Path) -> Image:
        """Bring a library and those that it needs into memory and bind them, breadth first as dyld does."""
        fresh = [self._place(_read(path))]
        for image in fresh:
            for name in image.file.dependencies:
                if name in self._source.files and self._provider(name) is None:
                    fresh.append(self._place(_read(self._source.files[name])))
        self._bind(fresh)
        return fresh[0]

    def _place(self, file: MachO) -> Image:
        base = self.machine.place(file.size, UC_PROT_ALL)
        content = file.path.read_bytes()
        for name, address, size, offset, file_size in file.segments:
            self.machine.write(base + address, content[offset : offset + file_size])
            if name.startswith("__DATA"):
                self.machine.keep(base + address, size)
        # Its header too, which says what it is.
        self.machine.keep(base, 0x1000)
        self.images.append(Image(file, base, self.machine.view(base, file.size)))
        return self.images[-1]

    def _bind(self, images: Sequence[Image]) -> None:
        for image in images:
            for at in image.file.rebases:
                struct.pack_into("<Q", image.memory, at, struct.unpack_from("<Q", image.memory, at)[0] + image.base)
            found: dict[tuple[str, int], int] = {}
            for bind in image.file.binds:
                key = (bind.name, bind.ordinal)
                if key not in found:
                    found[key] = self._resolve(image, bind)
                self.point(image, bind, found[key])
            self._set_thread_variables(image)
        chosen: dict[str, int] = {}
        for image in images:
            for bind in image.file.weak_binds:
                if bind.name not in chosen:
                    chosen[bind.name] = self._coalesce(bind.name)
                if chosen[bind.name]:
                    self.point(image, bind, chosen[bind.name])

    def point(self, image: Image, bind: Bind, address: int) -> None:
        """Set a pointer to what it is bound to."""
        value = address + bind.addend & 0xFFFFFFFFFFFFFFFF if address else 0
        struct.pack_into("<Q", image.memory, bind.address, value)

    def _provider(self, install_name: str) -> Image | None:
        return next((image for image in self.images if image.file.install_name == install_name), None)

    def _resolve(self, image: Image, bind: Bind) -> int:
        """The address of a name in the library that the file says."""
        if bind.ordinal == SELF:
            return image.address(bind.name)
        if bind.ordinal == ANY:
            for other in self.images:
                if bind.name in other.file.exports:
                    return other.address(bind.name)
            library = LIBSYSTEM if bind.name in self._source.names[LIBSYSTEM] else PYTHON
        else:
            library = image.file.dependencies[bind.ordinal - 1]
        provider = self._provider(library)
        if provider is None:
            address = self._of_macos(image, library, bind.name)
        else:
            address = provider.address(bind.name) if bind.name in provider.file.exports else None
        if address is None and not bind.optional:
            raise Stopped(f"{image.name} takes {bind.name} from {library or 'Python'}, which does not have it")
        return address or 0

    def _of_macos(self, image: Image, library: str, name: str) -> int | None:
        if library == LIBSYSTEM:
            for part in self._parts:
                if name in part.file.exports:
                    return part.address(name)
        if image.file.path.parent != self._source.official and name not in self._source.names.get(library, ()):
            return None
        if name in self._variables or name.startswith("_OBJC_"):
            return self.machine.data(name, self._variables.get(name, 64))
        return self.machine.trap(name)

    def _coalesce(self, name: str) -> int:
        """The one copy of a name for all libraries: the first that is not weak, else the first, or 0."""
        found = [image for image in self.images if name in image.file.shared]
        strong = [image for image in found if not image.file.shared[name]]
        return next((image.address(name) for image in (*strong, *found)), 0)

    def _set_thread_variables(self, image: Image) -> None:
        """Give the one thread its copy of the library's thread-local variables."""
        parts = image.file.sections_of(THREAD_DATA, THREAD_ZERO)
        if not parts:
            return
        begin, end = min(part.address for part in parts), max(part.address + part.size for part in parts)
        block = self.machine.data(f"thread-local variables of {image.name}", bytes(image.memory[begin:end]))
        for part in image.file.sections_of(THREAD_VARIABLES):
            for address in range(part.address, part.address + part.size, 24):
                # The third word stays: the variable's offset in the block.
                struct.pack_into("<Q", image.memory, address + 8, block)

    # Running, and checking

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

    def wrong_bindings(self, image: Image, taken: Sequence[Import]) -> Iterator[str]:
        """A sentence for each pointer that does not lead into the library that the symbol table says (`taken`).

        The symbol table is written apart from the instructions that dyld follows.
        """
        owners = {each.name: PurePosixPath(each.library).name for each in taken}
        files = {each.name for each in self.images}
        for bind in image.file.binds:
            wanted = owners[bind.name]
            found = self.owner(self.machine.word(image.base + bind.address) - bind.addend)
            if found != wanted if wanted in files else found not in ("macOS", "data"):
                yield f"{bind.name} is bound to {found}, not to {wanted or 'Python'}"
