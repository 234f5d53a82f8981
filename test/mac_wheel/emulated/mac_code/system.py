"""macOS as the libraries see it: the functions that are called while they load and take over. All others stop."""

import re
import struct
from ctypes import CDLL
from pathlib import Path

from mac_code.machine import D0, Handler, Machine, Snapshot, Stopped
from mac_code.process import Image, LIBCXX, Process, Source

# Where the libraries lie, as they are told.
FOLDER = "/v/lib/python3.11/site-packages/torch/lib/"
# Darwin's table of characters: the classes of each, from this bit on, and its lower and upper case.
_CLASSES = "alpha cntrl digit graph lower punct space upper xdigit blank print".split()
_FIRST_BIT, _ASCII = 8, [chr(number) for number in range(0x80)]
_IS = [getattr(CDLL(None), f"is{name}") for name in _CLASSES]
_CLASSES_OF = [sum(bool(each(ord(char))) << bit for bit, each in enumerate(_IS, _FIRST_BIT)) for char in _ASCII]
_RUNES = (_CLASSES_OF, [ord(char.lower()) for char in _ASCII], [ord(char.upper()) for char in _ASCII])
VARIABLES: dict[str, bytes | int] = {
    "___stack_chk_guard": struct.pack("<Q", 0x5AFE5AFE5AFE00),
    "__DefaultRuneLocale": bytes(60) + b"".join(struct.pack("<128I512x", *part) for part in _RUNES),
    **dict.fromkeys(("___stderrp", "___stdoutp", "___stdinp"), 64),
}


class MacProcess(Process):
    """A process of macOS, with its functions in Python."""

    def __init__(self, runtime: Path, source: Source):
        """Load libc++ and what there is of libSystem."""
        parts = (runtime / "base/libshim.dylib", runtime / "base/libunwind.dylib")
        super().__init__(Machine(), parts, VARIABLES, source)
        self.machine.functions |= self._functions()
        self._shim = self.image("libshim.dylib")
        self.machine.call(self._shim.address("_mac_code_set_heap"), *self.machine.heap)
        self.initialize(self.load(source.files[LIBCXX]))

    def snapshot(self) -> Snapshot:
        """All memory that code can change."""
        return self.machine.snapshot(self.machine.call(self._shim.address("_mac_code_heap")))

    def _functions(self) -> dict[str, Handler]:
        def variable(name: str) -> Handler:
            return lambda: self.machine.data(name, 4096)

        # The process does not end, no variable of the environment is set, and what is thrown does not say from where.
        nothing = ("___cxa_atexit", "__tlv_atexit", "_getenv", "_close", "_dlclose", "_backtrace")
        methods = ("_open", "_read", "_dladdr", "_dlopen", "_dlsym", "_getsectiondata", "_strtod", "_strtoll")
        places = ("___error", "_pthread_self", "_pthread_mach_thread_np", "_newlocale", "_backtrace_symbols")
        return {
            **dict.fromkeys(nothing, lambda: 0),
            **{name: variable(name) for name in places},
            **{name: getattr(self, name) for name in methods},
            "_strtod_l": self._strtod,
            # The size of a page, and the number of processors; nothing else is asked for.
            "_sysconf": lambda name: {29: 0x4000, 57: 4, 58: 4}[name],
            "_mbtowc_l": lambda _result, text: self._stop("a wide character was read") if text else 0,
            "__dyld_image_count": lambda: len(self.images),
            "__dyld_get_image_header": lambda number: self.images[number].base,
            "__dyld_get_image_name": lambda number: self._path(self.images[number]),
            "__dyld_find_unwind_sections": self._unwind_sections,
            "__dyld_register_func_for_add_image": self._for_each_image,
        }

    def _stop(self, reason: str) -> int:
        raise Stopped(f"{reason}, from {self.machine.caller}")

    def _open(self, path: int) -> int:
        name = self.machine.text(path)
        # The number of a file that is read only here.
        return 3 if name == "/dev/urandom" else self._stop(f"{name} was opened")

    def _read(self, _file: int, to: int, size: int) -> int:
        self.machine.write(to, bytes(range(size)))
        return size

    def _number(self, text: int, end: int, pattern: str) -> str:
        """The number that a text begins with, or nothing; notes its end."""
        found = re.match(rf"\s*[-+]?({pattern})", self.machine.text(text))
        if end:
            self.machine.write_word(end, text + (found.end() if found else 0))
        return found[0] if found else ""

    def _strtoll(self, text: int, end: int, base: int) -> int:
        found = self._number(text, end, r"\d+")
        return int(found) if found and base == 10 else self._stop("a number of another base was read")

    def _strtod(self, text: int, end: int) -> None:
        exponent = r"([eE][-+]?\d+)?"
        found = self._number(text, end, rf"\d+\.?\d*{exponent}|\.\d+{exponent}|inf|nan")
        self.machine.set_register(D0, int.from_bytes(struct.pack("<d", float(found or 0)), "little"))

    def _path(self, image: Image) -> int:
        return self.machine.data(f"the path of {image.name}", f"{FOLDER}{image.name}\0".encode())

    def _dladdr(self, address: int, result: int) -> int:
        image = self.image_at(address)
        if image:
            self.machine.write(result, struct.pack("<4Q", self._path(image), image.base, 0, 0))
        return image is not None

    def _dlopen(self, path: int, flags: int) -> int:
        name = self.machine.text(path)
        # RTLD_NOLOAD
        if not flags & 0x10:
            self._stop(f"dlopen would load {name}")
        return next((image.base for image in self.images if FOLDER + image.name == name), 0)

    def _dlsym(self, handle: int, name: int) -> int:
        image, symbol = self.image_at(handle), f"_{self.machine.text(name)}"
        if image is None:
            return self._stop(f"dlsym was called for {symbol} in no library")
        return image.address(symbol) if symbol in image.file.exports else 0

    def _getsectiondata(self, header: int, _segment: int, name: int, size: int) -> int:
        image = self.image_at(header)
        begin, length = image.section(self.machine.text(name)) if image else (0, 0)
        self.machine.write_word(size, length)
        return begin

    def _unwind_sections(self, address: int, result: int) -> int:
        image = self.image_at(address)
        if image:
            sections = (*image.section("__eh_frame"), *image.section("__unwind_info"))
            self.machine.write(result, struct.pack("<5Q", image.base, *sections))
        return image is not None

    def _for_each_image(self, function: int) -> None:
        for image in self.images:
            self.machine.call(function, image.base, image.base)
