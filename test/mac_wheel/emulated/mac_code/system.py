"""macOS as the libraries see it: the functions that are called while they load and take over. All others stop."""

import re
import struct
import time

from mac_code.machine import Handler, HEAP, HEAP_BYTES, Machine, Stopped
from mac_code.process import Process

# Where the libraries lie, as they are told.
FOLDER = "/v/lib/python3.11/site-packages/torch/lib"

_RANDOM_FILE = 3

# Bits of a character's class in Darwin's table.
_ALPHA, _CONTROL, _DIGIT, _GRAPH, _LOWER, _PUNCTUATION, _SPACE, _UPPER, _HEX, _BLANK, _PRINT = (
    1 << bit for bit in (8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18)
)
_RUNES = 256
_RUNE_TABLE = 60


def _rune_class(number: int) -> int:
    char = chr(number)
    if number >= 0x80:
        return 0
    bits = _CONTROL if number < 0x20 or number == 0x7F else _PRINT
    if bits == _PRINT and char != " ":
        bits |= _GRAPH | (0 if char.isalnum() else _PUNCTUATION)
    bits |= _ALPHA | (_UPPER if char.isupper() else _LOWER) if char.isalpha() else 0
    bits |= _DIGIT if char.isdigit() else 0
    bits |= _HEX if char in "0123456789abcdefABCDEF" else 0
    bits |= _SPACE if char in " \t\n\v\f\r" else 0
    return bits | (_BLANK if char in " \t" else 0)


def rune_locale() -> bytes:
    """The table of characters of the locale C: classes, lower and upper case."""
    classes = [_rune_class(number) for number in range(_RUNES)]
    lower = [ord(chr(number).lower()) if number < 0x80 else number for number in range(_RUNES)]
    upper = [ord(chr(number).upper()) if number < 0x80 else number for number in range(_RUNES)]
    return bytes(_RUNE_TABLE) + struct.pack(f"<{3 * _RUNES}I", *classes, *lower, *upper)


class MacOS:
    """The functions of macOS in Python, for one process."""

    def __init__(self, machine: Machine, environment: dict[str, str] | None = None):
        self.machine = machine
        self.process: Process | None = None
        self.environment = environment or {}
        # What the code has written to standard output and error.
        self.written: list[str] = []
        self._handles: dict[int, str] = {}
        for name, handler in self._functions().items():
            machine.handle(name, handler)

    def attach(self, process: Process) -> None:
        """Serve this process."""
        self.process = process
        self.machine.call(process.image("libshim.dylib").address("_mac_code_set_heap"), HEAP, HEAP + HEAP_BYTES)

    @property
    def heap_end(self) -> int:
        """How far memory was given out."""
        assert self.process
        return self.machine.call(self.process.image("libshim.dylib").address("_mac_code_heap"))

    @staticmethod
    def variables() -> dict[str, bytes | int]:
        """The data of macOS that the libraries name: its content, or its size if it is zero."""
        return {
            "___stack_chk_guard": struct.pack("<Q", 0x5AFE5AFE5AFE00),
            "__DefaultRuneLocale": rune_locale(),
            "_vm_page_size": struct.pack("<Q", 0x4000),
            **dict.fromkeys(("___stderrp", "___stdoutp", "___stdinp"), 64),
        }

    def _functions(self) -> dict[str, Handler]:
        nothing: Handler = lambda machine: 0  # noqa: E731
        found: dict[str, Handler] = {
            "_mac_code_stop": self._stop,
            "_abort": lambda machine: self._fail("abort was called"),
            "___stack_chk_fail": lambda machine: self._fail("a function wrote past its frame"),
            "_getenv": self._getenv,
            "_write": self._write,
            "_fwrite": self._fwrite,
            "_open": self._open,
            "_read": self._read,
            "_close": nothing,
            "_backtrace": nothing,
            "_backtrace_symbols": lambda machine: machine.data("no frames"),
            "___error": lambda machine: machine.data("errno"),
            "_pthread_self": lambda machine: machine.data("pthread_self", 4096),
            "_pthread_mach_thread_np": lambda machine: 0x103,
            "_pthread_threadid_np": self._thread_id,
            "_mach_absolute_time": lambda machine: time.monotonic_ns(),
            "_clock_gettime_nsec_np": lambda machine: time.monotonic_ns(),
            "_newlocale": lambda machine: machine.data("locale"),
            "_uselocale": lambda machine: machine.data("locale"),
            "___maskrune": lambda machine, char, bits: _rune_class(char & 0xFF) & bits,
            "___tolower": lambda machine, char: ord(chr(char & 0x7F).lower()),
            "___toupper": lambda machine, char: ord(chr(char & 0x7F).upper()),
            "_mbtowc_l": lambda machine, _result, text: self._fail("a wide character was read") if text else 0,
            "____mb_cur_max": lambda machine: 1,
            "____mb_cur_max_l": lambda machine: 1,
            "_sysconf": self._sysconf,
            "_dladdr": self._dladdr,
            "_dlopen": self._dlopen,
            "_dlsym": self._dlsym,
            "_dlclose": nothing,
            "__dyld_image_count": self._image_count,
            "__dyld_get_image_header": self._image_header,
            "__dyld_get_image_name": self._image_name,
            "__dyld_find_unwind_sections": self._unwind_sections,
        }
        # The process never ends, and never has a child.
        found |= dict.fromkeys(("___cxa_atexit", "__tlv_atexit", "_atexit", "_pthread_atfork"), nothing)
        found |= dict.fromkeys(("_strtol", "_strtoll", "_strtoul", "_strtoull"), self._strtol)
        found |= dict.fromkeys(("_strtod", "_strtod_l"), self._strtod)
        return found

    # The end

    def _stop(self, machine: Machine, reason: int) -> int:
        return self._fail(machine.text(reason))

    def _fail(self, reason: str) -> int:
        said = f" after it wrote {''.join(self.written[-3:])!r}" if self.written else ""
        raise Stopped(f"{reason}{said}, from {self.machine.describe(self.machine.caller)}")

    # C

    def _getenv(self, machine: Machine, name: int) -> int:
        value = self.environment.get(machine.text(name))
        return 0 if value is None else machine.string(value)

    def _write(self, machine: Machine, _file: int, content: int, size: int) -> int:
        self.written.append(machine.read(content, size).decode(errors="replace"))
        return size

    def _fwrite(self, machine: Machine, content: int, size: int, count: int) -> int:
        self.written.append(machine.read(content, size * count).decode(errors="replace"))
        return count

    def _open(self, machine: Machine, path: int) -> int:
        name = machine.text(path)
        return _RANDOM_FILE if name == "/dev/urandom" else self._fail(f"{name} was opened")

    def _read(self, machine: Machine, file: int, to: int, size: int) -> int:
        if file != _RANDOM_FILE:
            self._fail(f"file {file} was read")
        machine.write(to, bytes(range(size)))
        return size

    def _strtol(self, machine: Machine, text: int, end: int, base: int) -> int:
        found = re.match(r"\s*[-+]?\d+", machine.text(text))
        if base not in (0, 10):
            self._fail(f"a number to base {base} was read")
        if end:
            machine.write_word(end, text + (found.end() if found else 0))
        return int(found[0]) if found else 0

    def _strtod(self, machine: Machine, text: int, end: int) -> None:
        found = re.match(r"\s*[-+]?(\d+\.?\d*([eE][-+]?\d+)?|\.\d+([eE][-+]?\d+)?|inf|nan)", machine.text(text))
        if end:
            machine.write_word(end, text + (found.end() if found else 0))
        machine.set_double(float(found[0]) if found else 0.0)

    def _sysconf(self, machine: Machine, name: int) -> int:
        # The size of a page, and processors of both kinds.
        known = {29: 0x4000, 57: 4, 58: 4}
        return known[name] if name in known else self._fail(f"sysconf({name}) was asked for")

    def _thread_id(self, machine: Machine, _thread: int, result: int) -> int:
        machine.write_word(result, 1)
        return 0

    # dyld

    def _path(self, name: str) -> str:
        return f"{FOLDER}/{name}"

    def _dladdr(self, machine: Machine, address: int, result: int) -> int:
        assert self.process
        image = self.process.image_at(address)
        if image is None:
            return 0
        machine.write(result, struct.pack("<4Q", machine.string(self._path(image.name)), image.base, 0, 0))
        return 1

    def _dlopen(self, machine: Machine, path: int, flags: int) -> int:
        assert self.process
        name = machine.text(path)
        # RTLD_NOLOAD
        if not flags & 0x10:
            self._fail(f"dlopen({name}) would load a library")
        image = next((image for image in self.process.images if self._path(image.name) == name), None)
        return image.base if image else 0

    def _dlsym(self, machine: Machine, handle: int, name: int) -> int:
        assert self.process
        symbol = f"_{machine.text(name)}"
        # RTLD_DEFAULT is -2.
        for image in self.process.images:
            if handle in (image.base, 0xFFFFFFFFFFFFFFFE) and symbol in image.file.exports:
                return image.address(symbol)
        return 0

    def _image_count(self, machine: Machine) -> int:
        assert self.process
        return len(self.process.images)

    def _image_header(self, machine: Machine, number: int) -> int:
        assert self.process
        return self.process.images[number].base

    def _image_name(self, machine: Machine, number: int) -> int:
        assert self.process
        return machine.string(self._path(self.process.images[number].name))

    def _unwind_sections(self, machine: Machine, address: int, result: int) -> int:
        assert self.process
        image = self.process.image_at(address)
        if image is None:
            return 0
        places = []
        for name in ("__eh_frame", "__unwind_info"):
            section = image.file.section(name)
            places += [image.base + section.address, section.size] if section else [0, 0]
        machine.write(result, struct.pack("<5Q", image.base, *places))
        return 1
