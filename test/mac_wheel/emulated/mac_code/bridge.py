"""Joins the machine to the simulator: classes, selectors, messages and the functions that libobjc has."""

import time
from collections.abc import Sequence
from ctypes import addressof, c_uint64
from functools import partial
from struct import unpack
from typing import Any

from mac_code.calls import Calls, invoke_of
from mac_code.encodings import Signature
from mac_code.machine import D0, Handler, Stopped, X0
from mac_code.messages import Messages
from mac_code.native import adopt, Native
from mac_code.own_classes import OwnClasses
from mac_code.process import Image
from mac_code.system import MacProcess

_CLASS, _METACLASS, _STRING = "_OBJC_CLASS_$_", "_OBJC_METACLASS_$_", "___CFConstantStringClassReference"
_KINDS = ("Stack", "Malloc", "Global")
# What waits until the GPU is done, and so until its handlers were called.
_WAITS = ("waitUntilCompleted", "waitUntilScheduled")
_DESTROYED = "SimulatorDestroyedObject"
# Functions that mean the same there.
_SAME = (
    *("_objc_autoreleasePoolPush", "_objc_autoreleasePoolPop", "_sel_getName", "_NSClassFromString", "_getpid"),
    *("_dispatch_get_specific", "_dispatch_queue_create", "_dispatch_queue_set_specific", "_MTLCopyAllDevices"),
)


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
        self.machine.outside = self.calls.native_code
        self.classes = OwnClasses(self.machine, native, self.calls)
        # The classes of blocks.
        self._blocks = {f"__NSConcrete{kind}Block": native.address(f"_NSConcrete{kind}Block") for kind in _KINDS}
        # By class and selector.
        self._methods: dict[tuple[int, int], tuple[int, Signature] | None] = {}
        # Messages that are answered here, unless the answer is None.
        self.answers: dict[str, Handler] = {}
        self.machine.functions |= {
            **{name: self._same(name) for name in _SAME},
            **{f"_objc_{name}": partial(self._plain, name) for name in ("alloc", "retain", "release", "autorelease")},
            **{f"_{name}": partial(self._dispatch, name) for name in ("dispatch_sync", "dispatch_async")},
            "_objc_msgSend": self._message,
            "_objc_msgSendSuper2": self._message_to_super,
            "_objc_alloc_init": lambda kind: self._plain("init", self._plain("alloc", kind)),
            "_snprintf": self._snprintf,
            # The clocks have other numbers there.
            "_clock_gettime": lambda _clock, to: native("clock_gettime", time.CLOCK_MONOTONIC, to),
            "_pthread_cond_wait": self._wait,
        }
        retains, releases = self.machine.trap("_objc_retain"), self.machine.trap("_objc_release")
        heap_class = self._blocks["__NSConcreteMallocBlock"]
        self.machine.call(shim.address("_mac_code_set_blocks"), retains, releases, heap_class)

    def attach(self, image: Image) -> None:
        """Point a library to the simulator's classes, selectors, strings and queues, and register its classes."""
        places = dict(self._blocks)
        places["__dispatch_main_q"] = self.native("dispatch_get_main_queue")
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
            self.machine.write(begin + 8, self.machine.read(begin + 16, 16))
        for begin in image.items("__objc_selrefs", 8):
            name = self.machine.text(self.machine.word(begin))
            self.machine.write_word(begin, self.native.selector(name))
        self.classes.register(image)

    # Calls of functions

    def _same(self, name: str) -> Handler:
        # A function leaves alone what it does not take.
        return lambda first, second, third, fourth: self.native(name[1:], first, second, third, fourth)

    def _plain(self, name: str, receiver: int) -> int:
        """A message for which macOS has a function; the receiver may be a block of the machine."""
        if not receiver:
            return 0
        is_block = not receiver & 1 and self.machine.word(receiver) in self._blocks.values()
        if is_block and self.machine.owns(invoke_of(receiver)):
            return self.machine.call(self._for_blocks[name], receiver)
        object_class = self._class_of(receiver, name)
        # What a block keeps for its own is no message of the library.
        if self.process.image_at(self.machine.return_address) is not self._shim:
            self._note(self.native.title(object_class, name))
        result = self.native.send(receiver, name)
        self.calls.raise_failure()
        return result

    def _dispatch(self, name: str, queue: int, block: int) -> None:
        self.calls.do_waiting()
        self.native(name, queue, self.calls.native_block(block))
        self.calls.raise_failure()
        self.calls.do_waiting()

    def _wait(self) -> int:
        # One of the blocks that wait here may end it; it may return without a reason, too.
        self.calls.do_next()
        return 0

    def _snprintf(self, to: int, _size: int, text: int) -> int:
        if self.machine.text(text) != "%f":
            raise Stopped(f"snprintf has other arguments than a number, from {self.machine.caller}")
        (value,) = unpack("<d", self.machine.read(self.machine.stack, 8))
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
        # An odd address stands for a number.
        found = self.native.class_of(receiver) if receiver & 1 or self.machine.adopt(receiver) else 0
        if not found:
            raise Stopped(f"{what} was sent to {receiver:#x}, which is no object, from {self.machine.caller}")
        if self.native.name_of(found) == _DESTROYED:
            raise Stopped(f"{what} was sent to a deallocated object, from {self.machine.caller}")
        return found

    def _message(self, receiver: int, selector: int) -> None:
        if receiver:
            self._send(self._class_of(receiver, self.selector(selector)), selector)
            return
        # The result for nil, whatever its type is.
        for number in (X0, X0 + 1, *range(D0, D0 + 4)):
            self.machine.set_register(number, 0)

    def _message_to_super(self, place: int, selector: int) -> None:
        self.machine.set_register(X0, self.machine.word(place))
        of_class = self.machine.word(place + 8)
        self._send(self.native("class_getSuperclass", of_class), selector)

    def _send(self, object_class: int, selector: int, forwarded: str = "") -> None:
        name = self.selector(selector)
        method = self._method(object_class, selector)
        title = self.native.title(object_class, name)
        if method is None:
            forward = self.native.selector("forwardingTargetForSelector:")
            function, _ = self._method(object_class, forward) or (0, None)
            if function not in self.classes.functions:
                raise Stopped(f"the simulator does not have {title}, sent from {self.machine.caller}")
            receiver = self.machine.register(X0)
            receiver = self.machine.call(self.classes.functions[function], receiver, forward, selector)
            self.machine.set_register(X0, receiver)
            self._send(self._class_of(receiver, name), selector, title)
            return
        function, kind = method
        self._note(forwarded or title)
        if function in self.classes.functions:
            self.machine.go(self.classes.functions[function])
            return
        kind = self.messages.sent(title, kind)
        if name in self.answers:
            answer = self.answers[name](*self.machine.arguments(len(kind.arguments)))
            if answer is not None:
                self.machine.set_register(X0, answer)
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

    def _method(self, object_class: int, selector: int) -> tuple[int, Signature] | None:
        key = object_class, selector
        if key not in self._methods:
            kind = self.native.signature(object_class, selector)
            # This sets a class up that has not been used, which may be the receiver.
            place = (c_uint64 * 2)(self.machine.register(X0), object_class)
            function = self.native("objc_msg_lookup_super", addressof(place), selector)
            self._methods[key] = (function, kind) if kind else None
        return self._methods[key]
