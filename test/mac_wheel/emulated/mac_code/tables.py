"""The tables by which torch reaches a backend, read from memory, and what may differ after the take-over."""

import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from mac_code.machine import Machine
from mac_code.process import Image, Process

MPS = "MPS"
# Its number among the types of devices, and the size of a kernel in memory.
MPS_DEVICE, KERNEL = 13, 32
# Of a dispatch stub, the pointers of CPU, CUDA, HIP, MPS, MTIA and XPU.
_STUB, _STUB_MPS = 48, 24
OFFICIAL = "libtorch_cpu.dylib"


@dataclass(frozen=True)
class Operator:
    """One operator: its computed table, and its registered kernels by key, the newest first. A kernel is 32 bytes."""

    place: int
    table: bytes
    kernels: dict[str, tuple[bytes, ...]]

    def slot(self, index: int) -> bytes:
        return self.table[index * KERNEL : (index + 1) * KERNEL]


@dataclass(frozen=True)
class Tables:
    """All tables at one moment."""

    # The numbers of the keys in the computed tables.
    keys: dict[str, int]
    fallbacks: tuple[bytes, ...]
    fallback_places: tuple[int, ...]
    operators: dict[str, Operator]
    stubs: dict[str, bytes]
    guards: tuple[int, ...]
    allocators: tuple[int, ...]
    # Where the interpreter's operators lie.
    interpreted: frozenset[int]


class _Reader:
    def __init__(self, content: bytes):
        self._content, self._at = content, 0

    def number(self) -> int:
        return int(struct.unpack("<Q", self.take(8))[0])

    def text(self) -> str:
        return self.take(self.number()).decode()

    def take(self, size: int) -> bytes:
        self._at += size
        return self._content[self._at - size : self._at]


def stub_names(exports: Iterable[str]) -> dict[str, str]:
    """The symbols of the dispatch stubs, by their names: each has a type, in the symbol of its kernel for any processor."""
    types = {name.removesuffix("_typeEE7DEFAULTE") for name in exports if name.endswith("_DISPATCH_typeEE7DEFAULTE")}
    found = {}
    for symbol in exports:
        match = re.fullmatch(r"__ZN2at6native\d+([A-Za-z_]\w*)E", symbol)
        if match and any(each.endswith(f"{len(match[1]) + 22}{match[1]}_DECLARE_DISPATCH") for each in types):
            found[match[1]] = symbol
    return found


class Probe:
    """Calls the probe in the process."""

    def __init__(self, process: Process, image: Image):
        self.process, self.image = process, image
        self._machine: Machine = process.machine
        official = process.image(OFFICIAL)
        self._stubs = {name: official.address(symbol) for name, symbol in stub_names(official.file.exports).items()}

    def call(self, name: str, *arguments: int) -> int:
        return self._machine.call(self.image.address(f"_mac_code_{name}"), *arguments)

    def _answer(self, name: str, *arguments: int) -> _Reader:
        begin, size = struct.unpack("<2Q", self._machine.read(self.call(name, *arguments), 16))
        return _Reader(self._machine.read(begin, size))

    def tables(self) -> Tables:
        """Read everything. Asks for nothing that torch decides at the first question, as the hooks are."""
        reader = self._answer("tables")
        count = reader.number()
        keys = {}
        while name := reader.text():
            keys[name] = reader.number()
        fallbacks, places = zip(*((reader.take(KERNEL), reader.number()) for _ in range(count)))
        operators = {}
        for _ in range(reader.number()):
            name, place = reader.text(), reader.number()
            kernels = {}
            for _ in range(reader.number()):
                key = reader.text()
                kernels[key] = tuple(reader.take(KERNEL) for _ in range(reader.number()))
            operators[name] = Operator(place, self._machine.read(place, count * KERNEL), kernels)
        devices = [(reader.number(), reader.number()) for _ in range(reader.number())]
        interpreted = frozenset(reader.number() for _ in range(reader.number()))
        stubs = {name: self._machine.read(place, _STUB) for name, place in self._stubs.items()}
        guards, allocators = zip(*devices)
        return Tables(keys, fallbacks, places, operators, stubs, guards, allocators, interpreted)

    def stub_place(self, name: str) -> int:
        """Where a dispatch stub has its pointer for MPS."""
        return self._stubs[name] + _STUB_MPS

    def owner_of_object(self, address: int) -> str:
        """The library that has the virtual functions of an object."""
        return self.process.owner(self._machine.word(address)) if address else "nothing"

    def hooks_owner(self) -> str:
        """The library of the hooks; the first question makes torch decide."""
        return self.owner_of_object(self.call("hooks"))

    def generator_owner(self) -> str:
        """The library of the device's default generator."""
        return self.owner_of_object(self.call("generator"))

    def interpreted_owners(self, operator: str) -> list[str]:
        """The libraries of the interpreter's own operators of this name."""
        reader = self._answer("interpreted", self._machine.string(operator))
        found = []
        while word := reader.take(8):
            found.append(self.process.owner(struct.unpack("<Q", word)[0]))
        return found

    def kernel_owners(self, kernel: bytes) -> set[str]:
        """The libraries of a kernel: of its function object, and of the code for boxed, plain and symbolic calls."""
        functor, *code = struct.unpack("<4Q", kernel)
        found = {self.owner_of_object(functor), *map(self.process.owner, code)}
        return found - {"nothing"}


def differences(before: Tables, after: Tables) -> list[str]:
    """A sentence for each table that is not byte for byte the same."""
    found = []
    for part, name in (("guards", "guards"), ("allocators", "allocators"), ("interpreted", "interpreter's operators")):
        if getattr(before, part) != getattr(after, part):
            found.append(f"the {name} differ")
    for name, number in before.keys.items():
        if number < len(before.fallbacks) and before.fallbacks[number] != after.fallbacks[number]:
            found.append(f"the fallback of {name} differs")
    for kind in ("operators", "stubs"):
        old, new = getattr(before, kind), getattr(after, kind)
        found += [f"{name} is there once" for name in sorted(old.keys() ^ new.keys())]
        found += [f"{name} differs" for name in sorted(old.keys() & new.keys()) if old[name] != new[name]]
    return found


def _wrong_owners(owners: set[str], own: str) -> str:
    return " and ".join(sorted(owners - {own})) or ("" if owners else "nobody")


class TakeOver:
    """What the tables say after the take-over, against those before."""

    def __init__(self, probe: Probe, own: str, before: Tables, after: Tables):
        self._probe, self._own, self._before, self._after = probe, own, before, after
        self._mps = before.keys[MPS]

    @property
    def taken(self) -> list[str]:
        """The operators with a kernel for MPS."""
        return sorted(name for name, operator in self._after.operators.items() if MPS in operator.kernels)

    @property
    def stubs(self) -> list[str]:
        """The dispatch stubs with a kernel for MPS."""
        return sorted(name for name, stub in self._after.stubs.items() if any(stub[_STUB_MPS : _STUB_MPS + 8]))

    def findings(self) -> list[str]:
        """A sentence for each entry that names the wrong library."""
        before, after = self._before, self._after
        found = [f"{name} is there once" for name in sorted(before.operators.keys() ^ after.operators.keys())]
        for name in sorted(before.operators.keys() & after.operators.keys()):
            found += [f"{name}: {fault}" for fault in self._of_operator(before.operators[name], after.operators[name])]
        for name in sorted(before.stubs):
            found += [f"{name}: {fault}" for fault in self._of_stub(before.stubs[name], after.stubs[name])]
        found += [f"fallback: {fault}" for fault in self._of_fallbacks()]
        found += [f"guard: {fault}" for fault in self._of_guards()]
        if before.allocators != after.allocators:
            found.append("c10's allocators differ")
        return found + [f"TorchScript: {fault}" for fault in self._of_interpreter()]

    def asked_findings(self) -> list[str]:
        """The same of what has to be asked for: hooks and generator."""
        owners = {"hooks": self._probe.hooks_owner(), "generator": self._probe.generator_owner()}
        return [f"the {what} are of {owner}" for what, owner in owners.items() if owner != self._own]

    def _of_operator(self, before: Operator, after: Operator) -> Iterator[str]:
        own_fallback = self._after.fallbacks[self._mps]
        for number in range(len(self._after.fallbacks)):
            old, new = before.slot(number), after.slot(number)
            if number == self._mps and MPS in after.kernels:
                if new != after.kernels[MPS][0]:
                    yield "its table does not have the newest kernel for MPS"
                if wrong := _wrong_owners(self._probe.kernel_owners(new), self._own):
                    yield f"its kernel for MPS is of {wrong}"
            elif old != new and not (number == self._mps and old == self._before.fallbacks[number] and new == own_fallback):
                yield f"entry {number} of its table differs"
        for key in before.kernels.keys() | after.kernels.keys():
            old_list, new_list = before.kernels.get(key, ()), after.kernels.get(key, ())
            if key == MPS:
                # Ours lie over the official ones, which stay.
                old_list, new_list = old_list[::-1], new_list[::-1][: len(old_list)]
            if old_list != new_list:
                yield f"the kernels of {key} differ"

    def _of_stub(self, before: bytes, after: bytes) -> Iterator[str]:
        end = _STUB_MPS + 8
        if before[:_STUB_MPS] + before[end:] != after[:_STUB_MPS] + after[end:]:
            yield "a pointer for another device differs"
        old, new = (struct.unpack_from("<Q", stub, _STUB_MPS)[0] for stub in (before, after))
        owner = self._probe.process.owner(new)
        if (old or new) and owner != self._own:
            yield f"its kernel for MPS is of {owner}"

    def _of_fallbacks(self) -> Iterator[str]:
        for number, (old, new) in enumerate(zip(self._before.fallbacks, self._after.fallbacks)):
            if number != self._mps and old != new:
                yield f"entry {number} differs"
        if wrong := _wrong_owners(self._probe.kernel_owners(self._after.fallbacks[self._mps]), self._own):
            yield f"that of MPS is of {wrong}"

    def _of_guards(self) -> Iterator[str]:
        for number, (old, new) in enumerate(zip(self._before.guards, self._after.guards)):
            if number != MPS_DEVICE and old != new:
                yield f"that of device {number} differs"
        owner = self._probe.owner_of_object(self._after.guards[MPS_DEVICE])
        if owner != self._own:
            yield f"that of MPS is of {owner}"

    def _of_interpreter(self) -> Iterator[str]:
        gone, new = self._before.interpreted - self._after.interpreted, self._after.interpreted - self._before.interpreted
        if (len(gone), len(new)) != (1, 1):
            yield f"{len(gone)} operators are gone, {len(new)} are new"
        owners = self._probe.interpreted_owners("aten::Generator")
        if owners != [self._own]:
            yield f"aten::Generator is of {' and '.join(owners)}"
