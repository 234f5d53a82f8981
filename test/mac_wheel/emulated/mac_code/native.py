"""The simulator's frameworks and its Objective-C runtime, in this process."""

import ctypes
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

from mac_code.encodings import Signature, signature
from mac_code.machine import Machine

_WORD = ctypes.c_uint64
# What begins a class in memory: its own class, superclass, name, version, flags, and the size of its objects.
_SIZE_OF_OBJECTS = 40
_MAPS = Path("/proc/self/maps")
# Tells apart the same class that the simulator's build has natively.
_SUFFIX = " (arm64)"


class Native:
    """The simulator, by functions that take and return integers."""

    def __init__(self, library: Path):
        """Load it; there is one in a process."""
        ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
        self._all = ctypes.CDLL(None)
        self._functions: dict[tuple[str, int], Callable[..., int]] = {}
        # The names of all selectors that were asked for here.
        self.selectors: dict[int, str] = {}
        # Of new classes, which the runtime does not know to be such.
        self._metaclasses: set[int] = set()

    def __call__(self, name: str, *arguments: int) -> int:
        """Call a function of C by its name."""
        key = name, len(arguments)
        if key not in self._functions:
            function = ctypes.CFUNCTYPE(_WORD, *[_WORD] * len(arguments))((name, self._all))
            self._functions[key] = function
        return self._functions[key](*arguments)

    def address(self, variable: str) -> int:
        """Where a variable is."""
        return ctypes.addressof(ctypes.c_char.in_dll(self._all, variable))

    @staticmethod
    def text(address: int) -> str:
        return ctypes.string_at(address).decode() if address else ""

    # Objects

    def selector(self, name: str) -> int:
        number = self("sel_registerName", _text(name))
        self.selectors[number] = name
        return number

    def object_class(self, name: str) -> int:
        """The class of this name, or 0."""
        return self("objc_getClass", _text(name))

    def name_of(self, object_class: int) -> str:
        return self.text(self("class_getName", object_class))

    def title(self, object_class: int, selector: str) -> str:
        """A method as its error messages name it."""
        is_meta = self("class_isMetaClass", object_class) & 1 or object_class in self._metaclasses
        sign = "+" if is_meta else "-"
        return f"{sign}[{self.name_of(object_class).removesuffix(_SUFFIX)} {selector}]"

    def send(self, receiver: int, selector: str, *arguments: int) -> int:
        """A message whose arguments and result are objects or integers."""
        number = self.selector(selector)
        words = [_WORD] * (2 + len(arguments))
        method = self("objc_msg_lookup", receiver, number)
        return int(ctypes.CFUNCTYPE(_WORD, *words)(method)(receiver, number, *arguments))

    def string(self, text: str) -> int:
        """A string that lives as long as the pool."""
        return self.send(self.object_class("NSString"), "stringWithUTF8String:", _text(text))

    def signature(self, object_class: int, selector: int) -> Signature | None:
        """What a method takes and returns, if the class has it."""
        method = self("class_getInstanceMethod", object_class, selector)
        return signature(self.text(self("method_getTypeEncoding", method))) if method else None

    @cached_property
    def classes(self) -> set[int]:
        """All classes, and the classes of these."""
        count = self("objc_getClassList", 0, 0)
        found = (_WORD * count)()
        self("objc_getClassList", ctypes.addressof(found), count)
        return {*found, *(self("object_getClass", each) for each in found)}

    def class_of(self, receiver: int) -> int:
        """The class of an object; 0 if what is there is none. The address must be readable."""
        # An odd address stands for a number.
        found = self("object_getClass", receiver) if receiver & 1 else _WORD.from_address(receiver).value
        if found not in self.classes:
            del self.classes
        return found if found in self.classes else 0

    def new_class(self, name: str, above: int, size: int) -> int:
        """A class for objects of this size; it still needs its methods."""
        made = self("objc_allocateClassPair", above, _text(name + _SUFFIX), 0)
        place = ctypes.c_long.from_address(made + _SIZE_OF_OBJECTS)
        if place.value != self("class_getInstanceSize", above):
            raise RuntimeError("the runtime keeps the size of objects in another place")
        place.value = size
        self._metaclasses.add(self("object_getClass", made))
        return made

    def add_method(self, object_class: int, name: str, encoding: str, function: int) -> None:
        self("class_addMethod", object_class, self.selector(name), function, _text(encoding))


# Texts that C keeps a pointer to.
_TEXTS: dict[str, Any] = {}


def _text(text: str) -> int:
    return ctypes.addressof(_TEXTS.setdefault(text, ctypes.create_string_buffer(text.encode())))


def address_of(function: Any) -> int:
    """Where a function of ctypes begins."""
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def adopt(machine: Machine, address: int) -> bool:
    """Share the mapping of this process that an address is in; false if there is none that can be read."""
    parts = [(begin, begin + len(memory)) for begin, memory in machine.regions]
    known = any(begin <= address < end for begin, end in parts)
    if known or machine.owns(address):
        return known
    for line in _MAPS.read_text().splitlines():
        ends, access = line.split(maxsplit=2)[:2]
        begin, end = (int(each, 16) for each in ends.split("-"))
        if begin <= address < end and access.startswith("r"):
            # It may have grown since a part of it was shared. Whether it may be written is the kernel's matter.
            begin = max([begin, *(other for _, other in parts if other <= address)])
            machine.share(begin, min([end, *(other for other, _ in parts if other > address)]) - begin)
            return True
    return False
