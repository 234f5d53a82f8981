"""Joins the machine to the simulator: classes, selectors, messages and the functions that libobjc has."""

import time
from collections.abc import Callable, Sequence
from ctypes import addressof, c_uint64
from functools import partial
from inspect import signature as python_signature
from struct import pack, unpack
from typing import Any

from mac_code.calls import Calls, invoke_of, two_words, X0, zero
from mac_code.encodings import Signature
from mac_code.machine import Stopped
from mac_code.messages import Messages
from mac_code.native import adopt, Native
from mac_code.own_classes import OwnClasses, SUFFIX
from mac_code.process import Image
from mac_code.system import MacProcess

_CLASS, _METACLASS, _STRING = "_OBJC_CLASS_$_", "_OBJC_METACLASS_$_", "___CFConstantStringClassReference"
_BLOCKS = {f"__NSConcrete{kind}Block": f"_NSConcrete{kind}Block" for kind in ("Stack", "Global")}
# What waits until the GPU is done, and so until its handlers were called.
_WAITS = ("waitUntilCompleted", "waitUntilScheduled")
_DESTROYED = "SimulatorDestroyedObject"
# Functions that mean the same there, with the number of their arguments.
_SAME = dict.fromkeys(("_objc_autoreleasePoolPush", "_getpid", "_MTLCopyAllDevices"), 0)
_SAME |= dict.fromkeys(("_objc_autoreleasePoolPop", "_sel_getName", "_NSClassFromString", "_dispatch_get_specific"), 1)
_SAME |= {"_dispatch_queue_create": 2, "_dispatch_queue_set_specific": 4}
Function = Callable[..., int | None]


class Bridge:
    """The simulator behind the libraries of a process."""

    def __init__(self, process: MacProcess, native: Native, messages: Messages):
        """Takes the process's calls of macOS's functions that are not in it."""
        self.process, self.native, self.messages = process, native, messages
        self.machine = process.machine
        shim = self._shim = process.image("libshim.dylib")
        self._for_blocks = {"retain": shim.address("__Block_copy"), "release": shim.address("__Block_release")}
        self.calls = Calls(self.machine, native, *self._for_blocks.values())
        self.machine.adopt = partial(adopt, self.machine)
        self.machine.outside = self._outside
        self.classes = OwnClasses(self.machine, native, self.calls)
        self._blocks = {native.address(f"_NSConcrete{kind}Block") for kind in ("Stack", "Malloc", "Global")}
        # By class and selector.
        self._methods: dict[tuple[int, int], tuple[int, Signature] | None] = {}
        # Messages that are answered here.
        self.answers: dict[str, Callable[..., int]] = {}
        self.functions: dict[str, Function] = {
            "_objc_msgSend": self._message,
            "_objc_msgSendSuper2": self._message_to_super,
            "_objc_alloc": lambda kind: self._plain(kind, "alloc"),
            "_objc_alloc_init": lambda kind: self._plain(self._plain(kind, "alloc"), "init"),
            "_objc_retain": lambda each: self._plain(each, "retain"),
            "_objc_release": lambda each: self._plain(each, "release"),
            "_objc_autorelease": lambda each: self._plain(each, "autorelease"),
            "_dispatch_sync": lambda queue, block: self._dispatch("dispatch_sync", queue, block),
            "_dispatch_async": lambda queue, block: self._dispatch("dispatch_async", queue, block),
            "_snprintf": self._snprintf,
            "_clock_gettime": self._clock,
            "_pthread_cond_wait": self._wait,
        }
        retains, releases = self.machine.trap("_objc_retain"), self.machine.trap("_objc_release")
        heap_class = native.address("_NSConcreteMallocBlock")
        self.machine.call(shim.address("_mac_code_set_blocks"), retains, releases, heap_class)

    def attach(self, image: Image) -> None:
        """Point a library to the simulator's classes, selectors, strings and queues, and register its classes."""
        places: dict[str, int] = {name: self.native.address(other) for name, other in _BLOCKS.items()}
        places["__dispatch_main_q"] = self.native("dispatch_get_main_queue")
        empty = self.native.send(self.native.object_class("NSArray"), "new")
        places["___NSArray0__"] = self.machine.data("___NSArray0__", empty.to_bytes(8, "little"))
        places["_vm_page_size"] = self.machine.data("_vm_page_size", 0x4000.to_bytes(8, "little"))
        places[_STRING] = self.native.object_class("NSConstantString")
        for bind in image.file.binds:
            if bind.name.startswith((_CLASS, _METACLASS)) and bind.ordinal:
                found = self.native.object_class(bind.name.split("_$_")[1])
                is_meta = bind.name.startswith(_METACLASS)
                places[bind.name] = self.native("object_getClass", found) if is_meta and found else found
            if bind.name in places:
                if not places[bind.name] and not bind.optional:
                    raise Stopped(f"the simulator does not have {bind.name}, which {image.name} takes")
                self.process.point(image, bind, places[bind.name])
        for begin in image.items("__cfstring", 32):
            # The simulator's constant strings have their length right behind the text.
            text, length = two_words(self.machine, begin + 16)
            self.machine.write_word(begin + 8, text)
            self.machine.write_word(begin + 16, length)
        for begin in image.items("__objc_selrefs", 8):
            name = self.machine.text(self.machine.word(begin))
            self.machine.write_word(begin, self.native.selector(name))
        self.classes.register(image)

    # Calls of functions

    def _outside(self, address: int) -> bool:
        name = self.machine.trap_name(address)
        if not name:
            return self.calls.native_code(address)
        if name in _SAME:
            registers = (self.machine.register(X0 + number) for number in range(_SAME[name]))
            self.calls.leave(self.native(name[1:], *registers))
            return True
        if name not in self.functions:
            return False
        function = self.functions[name]
        count = len(python_signature(function).parameters)
        result = function(*(self.machine.register(X0 + number) for number in range(count)))
        # A message has left already, or goes on in a method.
        if not name.startswith("_objc_msgSend"):
            self.calls.leave(result)
        return True

    def _plain(self, receiver: int, name: str) -> int:
        """A message for which macOS has a function; the receiver may be a block of the machine."""
        if not receiver:
            return 0
        is_number = receiver & 1
        if not is_number and self.machine.word(receiver) in self._blocks and self.machine.owns(invoke_of(receiver)):
            return self.machine.call(self._for_blocks[name], receiver)
        object_class = self._class_of(receiver, name)
        # What a block keeps for its own is no message of the library.
        if self.process.image_at(self.machine.return_address) is not self._shim:
            self._note(self._title(object_class, name))
        result = self.native.send(receiver, name)
        self.calls.raise_failure()
        return result

    def _dispatch(self, name: str, queue: int, block: int) -> None:
        self.calls.do_waiting()
        made = self.calls.native_block(block)
        self.native(name, queue, addressof(made) if made else block)
        self.calls.raise_failure()
        self.calls.do_waiting()

    def _wait(self) -> int:
        # One of the blocks that wait here may end it; it may return without a reason, too.
        self.calls.do_next()
        return 0

    def _clock(self, _which: int, to: int) -> int:
        self.machine.write(to, pack("<2Q", *divmod(time.monotonic_ns(), 1_000_000_000)))
        return 0

    def _snprintf(self, to: int, _size: int, text: int) -> int:
        if self.machine.text(text) != "%f":
            raise Stopped(f"snprintf has other arguments than a number, from {self.machine.caller}")
        (value,) = unpack("<d", self.machine.read(self.calls.stack, 8))
        content = f"{value:f}".encode()
        self.machine.write(to, content + b"\0")
        return len(content)

    # Messages

    def selector(self, number: int) -> str:
        """The name of a selector of a library that was attached."""
        if number not in self.native.selectors:
            raise Stopped(f"a message has no selector at {number:#x}, sent from {self.machine.caller}")
        return self.native.selectors[number]

    def _class_of(self, receiver: int, what: str) -> int:
        if not receiver & 1 and not self.machine.adopt(receiver):
            raise Stopped(f"{what} was sent to {receiver:#x}, where no memory is, from {self.machine.caller}")
        found = self.native.class_of(receiver)
        if not found:
            raise Stopped(f"{what} was sent to {receiver:#x}, which is no object, from {self.machine.caller}")
        if self.native.name_of(found) == _DESTROYED:
            raise Stopped(f"{what} was sent to a deallocated object, from {self.machine.caller}")
        return found

    def _message(self, receiver: int, selector: int) -> None:
        if not receiver:
            zero(self.machine)
            self.calls.leave()
            return
        name = self.selector(selector)
        self._send(self._class_of(receiver, name), receiver, selector, name)

    def _message_to_super(self, place: int, selector: int) -> None:
        receiver, of_class = two_words(self.machine, place)
        self.machine.set_register(X0, receiver)
        self._send(self.native("class_getSuperclass", of_class), receiver, selector, self.selector(selector))

    def _send(self, object_class: int, receiver: int, selector: int, name: str) -> None:
        method = self._method(object_class, selector, receiver)
        title = self._title(object_class, name)
        if method is None:
            raise Stopped(f"the simulator does not have {title}, sent from {self.machine.caller}")
        function, kind = method
        self._note(title)
        if function in self.classes.functions:
            self.calls.go(self.classes.functions[function])
            return
        kind = self.messages.sent(title, kind)
        if name in self.answers:
            count = len(kind.arguments)
            self.calls.leave(self.answers[name](*(self.machine.register(X0 + each) for each in range(count))))
            return

        def check(values: Sequence[Any]) -> None:
            for number, (each, value) in enumerate(zip(kind.arguments[2:], values[2:]), 1):
                if each.code == "@" and value.value:
                    self._class_of(value.value, f"argument {number} of {title}: a message")
                if each.code == "B" and value.value > 1:
                    raise Stopped(f"argument {number} of {title} is {value.value}, which is no BOOL")

        further = 0
        if name == "stringWithFormat:":
            text = self.native.text(self.native.send(self.machine.register(X0 + 2), "UTF8String"))
            further = text.count("%")
            if text.count("%s") + text.count("%p") < further:
                raise Stopped(f"{text} has other arguments than the bridge passes on")
        self.calls.to_native(function, kind, check, further)
        if name in _WAITS:
            self.calls.do_waiting()

    def _note(self, title: str) -> None:
        if not self.calls.of_others:
            self.messages.sequence.append(title)

    def _title(self, object_class: int, name: str) -> str:
        return self.native.title(object_class, name).replace(SUFFIX, "")

    def _method(self, object_class: int, selector: int, receiver: int) -> tuple[int, Signature] | None:
        key = object_class, selector
        if key not in self._methods:
            kind = self.native.signature(object_class, selector)
            # This sets a class up that has not been used.
            place = (c_uint64 * 2)(receiver, object_class)
            function = self.native("objc_msg_lookup_super", addressof(place), selector)
            self._methods[key] = (function, kind) if kind else None
        return self._methods[key]
