"""The wheel's compiled Metal kernels: libtorch_cpu has them for a GPU, the simulator compiles the same from their source."""

from collections.abc import Callable, Sequence
from itertools import accumulate
from pathlib import Path

from mac_code.bridge import Bridge
from mac_code.encodings import signature
from mac_code.machine import Stopped
from mac_code.own_classes import SUFFIX
from mac_code.system import FOLDER

# What a file of compiled kernels begins with.
_COMPILED = b"MTLB"
_LANGUAGE_3_1, _SAFE = 3 << 16 | 1, 0
_METHODS = {"newFunctionWithName:": "@24@0:8@16", "device": "@16@0:8"}


class Kernels:
    """Answers for a library of compiled kernels."""

    def __init__(self, bridge: Bridge, sources: Sequence[Path]):
        """Takes over the functions and the message by which such a library is made."""
        self._bridge, self._native, self._sources = bridge, bridge.native, sources
        self._device, self._compiled = 0, b""
        # By source, when they were first looked into.
        self._libraries: dict[Path, int] = {}
        bridge.functions["_getsectiondata"] = self._section
        bridge.functions["__dyld_get_image_name"] = self._image_name
        bridge.functions["_dispatch_data_create"] = self._data
        bridge.answers["newLibraryWithData:error:"] = self._library
        above = self._native.object_class("NSObject")
        self._class = self._native.new_class(
            f"SimulatedLibrary{SUFFIX}", above, self._native("class_getInstanceSize", above)
        )
        methods: tuple[Callable[..., int], ...] = (self._function, lambda *_: self._device)
        for (name, encoding), method in zip(_METHODS.items(), methods):
            self._native.add_method(self._class, name, encoding, bridge.calls.function(signature(encoding), method))
        self._native("objc_registerClassPair", self._class)

    def _image_name(self, number: int) -> int:
        name = FOLDER + self._bridge.process.images[number].name
        return self._bridge.machine.data(f"the path {name}", name.encode() + b"\0")

    def _section(self, header: int, _segment: int, section: int, size: int) -> int:
        process = self._bridge.process
        image, name = process.image_at(header), process.machine.text(section)
        for each in image.file.sections if image else ():
            if image and each.name == name:
                process.machine.write_word(size, each.size)
                return image.base + each.address
        return 0

    def _data(self, begin: int, size: int, _queue: int, _destructor: int) -> int:
        self._compiled = self._bridge.machine.read(begin, size)
        if not self._compiled.startswith(_COMPILED):
            raise Stopped(f"what is at {begin:#x} are no compiled kernels")
        return self._native.send(self._native.object_class("NSObject"), "new")

    def _library(self, device: int, _selector: int, _data: int, _error: int) -> int:
        self._device = device
        return self._native.send(self._class, "new")

    def _function(self, _receiver: int, _selector: int, name: int) -> int:
        text = self._native.text(self._native.send(name, "UTF8String"))
        # By their names, the wheel must have them compiled.
        if text.encode() + b"\0" not in self._compiled:
            return 0
        # A macro may add the types to a function's name, each behind a line.
        beginnings = list(accumulate(text.split("_"), "{}_{}".format))
        likely = lambda source: sum(each in source.read_text() for each in beginnings)  # noqa: E731
        for source in sorted(self._sources, key=likely, reverse=True):
            if found := self._native.send(self._made_from(source), "newFunctionWithName:", name):
                return found
        return 0

    def _made_from(self, source: Path) -> int:
        if source not in self._libraries:
            send = self._native.send
            options = send(self._native.object_class("MTLCompileOptions"), "new")
            send(options, "setLanguageVersion:", _LANGUAGE_3_1)
            send(options, "setMathMode:", _SAFE)
            text = self._native.string(source.read_text())
            found = send(self._device, "newLibraryWithSource:options:error:", text, options, 0)
            if not found:
                raise Stopped(f"the simulator does not compile {source.name}")
            self._libraries[source] = found
        return self._libraries[source]
