"""The Objective-C classes of a library on the machine, made known to the native runtime."""

from collections.abc import Iterator
from typing import Any

from mac_code.calls import Calls
from mac_code.encodings import signature
from mac_code.machine import Machine, Stopped
from mac_code.native import Native
from mac_code.process import Image


class OwnClasses:
    """The classes of libraries on the machine."""

    def __init__(self, machine: Machine, native: Native, calls: Calls):
        self._machine, self._native, self._calls = machine, native, calls
        # The functions on the machine, by what the native runtime calls instead.
        self.functions: dict[int, int] = {}

    def register(self, image: Image) -> None:
        """Register a library's classes, and let its references name these."""
        word = self._machine.word
        if any(image.items("__objc_catlist", 8)):
            raise Stopped(f"{image.name} has categories, which the bridge does not register")
        classes = {found: self._register(found) for found in map(word, image.items("__objc_classlist", 8))}
        for name in ("__objc_classrefs", "__objc_superrefs"):
            for place in image.items(name, 8):
                self._machine.write_word(place, classes.get(word(place), word(place)))

    def _register(self, found: int) -> int:
        word, text = self._machine.word, self._machine.text
        # Its superclass, and what does not change: sizes, name, methods, protocols, fields.
        above, fixed = word(found + 8), word(found + 32) & ~7
        begin, size = word(fixed + 4, 4), word(fixed + 8, 4)
        if begin != self._native("class_getInstanceSize", above):
            raise Stopped(f"the fields of {text(word(fixed + 24))} begin at {begin}, where its superclass does not end")
        made = self._native.new_class(text(word(fixed + 24)), above, size)
        of_class = word(word(found) + 32) & ~7
        for target, methods in ((made, fixed), (self._native("object_getClass", made), of_class)):
            for name, encoding, function in self._methods(word(methods + 32)):
                place = self._function(encoding, function)
                self._native.add_method(target, name, encoding, place)
                self.functions[place] = function
        self._native("objc_registerClassPair", made)
        return made

    def _methods(self, methods: int) -> Iterator[tuple[str, str, int]]:
        if methods:
            size, count = self._machine.word(methods, 4), self._machine.word(methods + 4, 4)
            for place in range(methods + 8, methods + 8 + count * size, size):
                name, encoding, function = (self._machine.word(place + at) for at in (0, 8, 16))
                yield self._machine.text(name), self._machine.text(encoding), function

    def _function(self, encoding: str, function: int) -> int:
        kind = signature(encoding)

        def call(*values: Any) -> Any:
            # How a C++ object is passed is not in the encoding; on the machine such messages need no bridge.
            if "<" in encoding:
                raise Stopped(f"native code sent a message with a C++ object: {encoding}")
            return self._calls.on_machine(function, kind, values)

        return self._calls.function(kind, call)
