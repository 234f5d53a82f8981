"""macOS as the libraries see it: the functions that are called while they load and take over. All others stop."""

import re
import struct
from string import ascii_letters, ascii_lowercase, ascii_uppercase, digits, hexdigits, punctuation, whitespace

from mac_code.machine import Handler, Machine, Snapshot, Stopped
from mac_code.process import Image, Process, Source
from mac_code.runtime import Runtime

# Where the libraries lie, as they are told.
FOLDER = "/v/lib/python3.11/site-packages/torch/lib/"
# The classes of characters by their bits in Darwin's table, which has lower and upper case, too.
_CONTROL = "".join(map(chr, (*range(0x20), 0x7F)))
_GRAPH = ascii_letters + digits + punctuation
_CLASSES = dict(enumerate((ascii_letters, _CONTROL, digits, _GRAPH, ascii_lowercase, punctuation, whitespace), 8))
_CLASSES |= dict(enumerate((ascii_uppercase, hexdigits, " \t", _GRAPH + " "), 15))
_ASCII = [chr(number) for number in range(0x80)]
_CLASS_OF = [sum(1 << bit for bit, members in _CLASSES.items() if char in members) for char in _ASCII]
_RUNES = (_CLASS_OF, [ord(char.lower()) for char in _ASCII], [ord(char.upper()) for char in _ASCII])
VARIABLES: dict[str, bytes | int] = {
    "___stack_chk_guard": struct.pack("<Q", 0x5AFE5AFE5AFE00),
    "__DefaultRuneLocale": bytes(60) + b"".join(struct.pack("<128I512x", *part) for part in _RUNES),
    **dict.fromkeys(("___stderrp", "___stdoutp", "___stdinp"), 64),
}


class MacProcess(Process):
    """A process of macOS, with its functions in Python."""

    def __init__(self, runtime: Runtime, source: Source):
        """Load libc++ and what there is of libSystem."""
        machine = Machine(self._functions())
        super().__init__(machine, (runtime.shim, runtime.unwind), VARIABLES, source)
        machine.call(self.image("libshim.dylib").address("_mac_code_set_heap"), *machine.heap)
        self.initialize(self.load(runtime.cxx))

    def snapshot(self) -> Snapshot:
        """All memory that code can change."""
        return self.machine.snapshot(self.machine.call(self.image("libshim.dylib").address("_mac_code_heap")))

    def _functions(self) -> dict[str, Handler]:
        nothing: Handler = lambda machine: 0  # noqa: E731
        thread: Handler = lambda machine: machine.data("the thread", 4096)  # noqa: E731
        return {
            # The process does not end.
            **dict.fromkeys(("___cxa_atexit", "__tlv_atexit"), nothing),
            "_strtoll": self._strtol,
            **dict.fromkeys(("_strtod", "_strtod_l"), self._strtod),
            # No variable of the environment is set.
            "_getenv": nothing,
            "___error": lambda machine: machine.data("errno"),
            "_open": self._open,
            "_read": self._read,
            "_close": nothing,
            # The size of a page, and the number of processors; nothing else is asked for.
            "_sysconf": lambda machine, name: {29: 0x4000, 57: 4, 58: 4}[name],
            "_pthread_self": thread,
            "_pthread_mach_thread_np": thread,
            "_newlocale": lambda machine: machine.data("the locale"),
            "_mbtowc_l": lambda machine, _result, text: self._stop("a wide character was read") if text else 0,
            # What is thrown says where it comes from; here it says nothing.
            "_backtrace": nothing,
            "_backtrace_symbols": lambda machine: machine.data("no symbols"),
            "_dladdr": self._dladdr,
            "_dlopen": self._dlopen,
            "_dlsym": self._dlsym,
            "_dlclose": nothing,
            "__dyld_image_count": lambda machine: len(self.images),
            "__dyld_get_image_header": lambda machine, number: self.images[number].base,
            "__dyld_find_unwind_sections": self._unwind_sections,
        }

    def _stop(self, reason: str) -> int:
        raise Stopped(f"{reason}, from {self.machine.caller}")

    def _open(self, machine: Machine, path: int) -> int:
        # The number of a file that is read only here.
        return 3 if machine.text(path) == "/dev/urandom" else self._stop(f"{machine.text(path)} was opened")

    def _read(self, machine: Machine, _file: int, to: int, size: int) -> int:
        machine.write(to, bytes(range(size)))
        return size

    def _strtol(self, machine: Machine, text: int, end: int, base: int) -> int:
        found = re.match(r"\s*[-+]?\d+", machine.text(text))
        if end:
            machine.write_word(end, text + (found.end() if found else 0))
        return int(found[0]) if found and base == 10 else self._stop("a number of another base was read")

    def _strtod(self, machine: Machine, text: int, end: int) -> None:
        found = re.match(r"\s*[-+]?(\d+\.?\d*([eE][-+]?\d+)?|\.\d+([eE][-+]?\d+)?|inf|nan)", machine.text(text))
        if end:
            machine.write_word(end, text + (found.end() if found else 0))
        machine.set_double(float(found[0]) if found else 0.0)

    def _dladdr(self, machine: Machine, address: int, result: int) -> int:
        image = self.image_at(address)
        if image is None:
            return 0
        machine.write(
            result,
            struct.pack(
                "<4Q", machine.data(image.name, FOLDER.encode() + image.name.encode() + b"\0"), image.base, 0, 0
            ),
        )
        return 1

    def _dlopen(self, machine: Machine, path: int, flags: int) -> int:
        # RTLD_NOLOAD
        if not flags & 0x10:
            self._stop(f"dlopen would load {machine.text(path)}")
        return next((image.base for image in self.images if FOLDER + image.name == machine.text(path)), 0)

    def _dlsym(self, machine: Machine, handle: int, name: int) -> int:
        image: Image | None = self.image_at(handle)
        symbol = f"_{machine.text(name)}"
        if image is None:
            self._stop(f"dlsym was called for {symbol} in no library")
        return image.address(symbol) if image and symbol in image.file.exports else 0

    def _unwind_sections(self, machine: Machine, address: int, result: int) -> int:
        image = self.image_at(address)
        if image is None:
            return 0
        places = {section.name: (image.base + section.address, section.size) for section in image.file.sections}
        frames, table = (places.get(name, (0, 0)) for name in ("__eh_frame", "__unwind_info"))
        machine.write(result, struct.pack("<5Q", image.base, *frames, *table))
        return 1
