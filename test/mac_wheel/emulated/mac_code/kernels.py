"""The wheel's compiled Metal kernels: libtorch_cpu has them for a GPU, the simulator compiles the same from their source."""

from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

from mac_code.bridge import Bridge
from mac_code.machine import Stopped

# What a file of compiled kernels begins with.
_COMPILED = b"MTLB"
_LANGUAGE_3_1, _SAFE = 3 << 16 | 1, 0
# What the simulator compiles to stand for the compiled library.
_STAND_IN = "nothing.metal"


class Kernels:
    """Answers for a library of compiled kernels."""

    def __init__(self, bridge: Bridge, sources: Sequence[Path]):
        """Takes over the function and the messages by which such a library is made and used."""
        self._bridge, self._native, self._device, self._compiled = bridge, bridge.native, 0, b""
        self._sources = {path.name: path.read_text() for path in sources} | {_STAND_IN: ""}
        # By source, when they were first looked into.
        self._libraries: dict[str, int] = {}
        bridge.machine.functions["_dispatch_data_create"] = self._data
        bridge.answers |= {"newLibraryWithData:error:": self._library, "newFunctionWithName:": self._function}

    def _data(self, begin: int, size: int, _queue: int, _destructor: int) -> int:
        self._compiled = self._bridge.machine.read(begin, size)
        if not self._compiled.startswith(_COMPILED):
            raise Stopped(f"what is at {begin:#x} are no compiled kernels")
        return self._native.send(self._native.object_class("NSObject"), "new")

    def _library(self, device: int, _selector: int, _data: int, _error: int) -> int:
        self._device = device
        return self._native.send(self._made_from(_STAND_IN), "retain")

    def _function(self, receiver: int, _selector: int, name: int) -> int | None:
        if receiver != self._libraries.get(_STAND_IN):
            return None
        text = self._native.text(self._native.send(name, "UTF8String"))
        # By their names, the wheel must have them compiled.
        if text.encode() + b"\0" not in self._compiled:
            return 0
        # A macro may add the types to a function's name, each behind a line.
        beginnings = list(accumulate(text.split("_"), "{}_{}".format))
        likely = lambda source: sum(each in self._sources[source] for each in beginnings)  # noqa: E731
        for source in sorted(self._sources, key=likely, reverse=True):
            if found := self._native.send(self._made_from(source), "newFunctionWithName:", name):
                return found
        return 0

    def _made_from(self, source: str) -> int:
        if source not in self._libraries:
            send = self._native.send
            options = send(self._native.object_class("MTLCompileOptions"), "new")
            send(options, "setLanguageVersion:", _LANGUAGE_3_1)
            send(options, "setMathMode:", _SAFE)
            text = self._native.string(self._sources[source])
            self._libraries[source] = send(self._device, "newLibraryWithSource:options:error:", text, options, 0)
            if not self._libraries[source]:
                raise Stopped(f"the simulator does not compile {source}")
        return self._libraries[source]
