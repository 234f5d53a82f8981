"""The tables by which torch reaches a backend, read from memory, and what may differ after the take-over."""

import re
import struct
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from mac_code.process import Image, Process

MPS, OFFICIAL = "MPS", "libtorch_cpu.dylib"
# Its number among the types of devices, and the size of a kernel in memory.
MPS_DEVICE, KERNEL = 13, 32
# A dispatch stub begins with the pointers of CPU, CUDA, HIP, MPS, MTIA and XPU.
_STUB, _STUB_MPS = 48, slice(24, 32)


@dataclass(frozen=True)
class Operator:
    """One operator: its computed table, and its registered kernels by key, the newest first."""

    place: int
    table: bytes
    kernels: dict[str, list[bytes]]

    def slot(self, index: int) -> bytes:
        return self.table[index * KERNEL : (index + 1) * KERNEL]


@dataclass(frozen=True)
class Tables:
    """All tables at one moment."""

    # The numbers of the keys in the computed tables.
    keys: dict[str, int]
    fallbacks: list[bytes]
    fallback_places: tuple[int, ...]
    operators: dict[str, Operator]
    stubs: dict[str, bytes]
    guards: tuple[int, ...]
    allocators: tuple[int, ...]
    # Where TorchScript's operators lie.
    interpreted: frozenset[int]

    def of_key(self, key: str) -> set[str]:
        """The operators with a kernel for this key."""
        return {name for name, operator in self.operators.items() if key in operator.kernels}

    def key_of(self, number: int) -> str:
        """The key with this number."""
        return next(key for key, at in self.keys.items() if at == number)

    @property
    def mps_stubs(self) -> set[str]:
        """The stubs with a kernel for MPS."""
        return {name for name, stub in self.stubs.items() if any(stub[_STUB_MPS])}


def stub_names(exports: Collection[str]) -> dict[str, str]:
    """The symbols of the dispatch stubs by their names, which are in the symbols of their kernels for any processor."""
    found = re.findall(r"^.*NS0_\d+(\w+)_DECLARE_DISPATCH_typeEE7DEFAULTE$", "\n".join(exports), re.MULTILINE)
    symbols = {name: f"__ZN2at6native{len(name)}{name}E" for name in found}
    return {name: symbol for name, symbol in symbols.items() if symbol in exports}


class Probe:
    """Calls the probe in the process."""

    def __init__(self, process: Process, image: Image):
        self.process, self.image, self._machine = process, image, process.machine
        official = process.image(OFFICIAL)
        self._stubs = {name: official.address(symbol) for name, symbol in stub_names(official.file.exports).items()}

    def call(self, name: str, *arguments: int) -> int:
        return self._machine.call(self.image.address(f"_mac_code_{name}"), *arguments)

    def _lines(self, name: str) -> list[list[str]]:
        return [line.split() for line in self._machine.text(self.call(name)).splitlines()]

    def tables(self) -> Tables:
        """Read everything. Asks for nothing that torch decides at the first question, as the hooks are."""
        read = self._machine.read
        lines: defaultdict[str, list[list[str]]] = defaultdict(list)
        for kind, *words in self._lines("tables"):
            lines[kind].append(words)
        fallbacks, guards, allocators, interpreted = (
            tuple(int(place) for (place,) in lines[kind]) for kind in ("fallback", "guard", "allocator", "interpreted")
        )
        operators = {
            name: Operator(int(place), read(int(place), len(fallbacks) * KERNEL), {})
            for name, place in lines["operator"]
        }
        for name, key, place in lines["kernel"]:
            operators[name].kernels.setdefault(key, []).append(read(int(place), KERNEL))
        keys = {key: int(number) for key, number in lines["key"]}
        kernels = [read(place, KERNEL) for place in fallbacks]
        stubs = {name: read(place, _STUB) for name, place in self._stubs.items()}
        return Tables(keys, kernels, fallbacks, operators, stubs, guards, allocators, frozenset(interpreted))

    def stub_place(self, name: str) -> int:
        """Where a dispatch stub has its pointer for MPS."""
        return self._stubs[name] + _STUB_MPS.start

    def owner_of_object(self, address: int) -> str:
        """The library that has the virtual functions of an object."""
        return self.process.owner(self._machine.word(address)) if address else "nothing"

    def owners_of_kernel(self, kernel: bytes) -> set[str]:
        """The libraries of a kernel: of its function object, and of the code for boxed, plain and symbolic calls."""
        functor, *code = struct.unpack("<4Q", kernel)
        return {self.owner_of_object(functor), *map(self.process.owner, code)} - {"nothing"}

    def asked_owners(self) -> dict[str, str]:
        """The libraries of what torch decides at the first question: hooks and default generator."""
        return {what: self.owner_of_object(self.call(what)) for what in ("hooks", "generator")}

    def generator_operators(self) -> list[str]:
        """The libraries of TorchScript's own operators aten::Generator."""
        return [self.process.owner(int(address)) for (address,) in self._lines("generator_operators")]


def differences(before: Tables, after: Tables) -> list[str]:
    """A sentence for each table that is not byte for byte the same."""
    found = []
    for part, name in (("guards", "guards"), ("allocators", "allocators"), ("interpreted", "operators of TorchScript")):
        if getattr(before, part) != getattr(after, part):
            found.append(f"the {name} differ")
    for number, (old, new) in enumerate(zip(before.fallbacks, after.fallbacks)):
        if old != new:
            found.append(f"the fallback of {before.key_of(number)} differs")
    for part in ("operators", "stubs"):
        one, other = getattr(before, part), getattr(after, part)
        found += [f"{name} differs" for name in sorted(one.keys() | other.keys()) if one.get(name) != other.get(name)]
    return found


def findings(probe: Probe, own: str, before: Tables, after: Tables) -> Iterator[str]:
    """A sentence for each entry that names the wrong library after `own` took the device over."""
    mps = before.keys[MPS]

    def wrong(kernel: bytes) -> str:
        owners = probe.owners_of_kernel(kernel)
        return " and ".join(sorted(owners - {own})) or ("" if owners else "nobody")

    for name in sorted(before.operators.keys() | after.operators.keys()):
        if name not in before.operators or name not in after.operators:
            yield f"{name} is there once"
            continue
        old, new = before.operators[name], after.operators[name]
        for number in range(len(before.fallbacks)):
            slots = old.slot(number), new.slot(number)
            if number == mps and MPS in new.kernels:
                if slots[1] != new.kernels[MPS][0]:
                    yield f"{name}: its table does not have the newest kernel for MPS"
                if owners := wrong(slots[1]):
                    yield f"{name}: its kernel for MPS is of {owners}"
            # Those of no kernel have the fallback of MPS in their tables.
            elif slots[0] != slots[1] and (number != mps or slots != (before.fallbacks[mps], after.fallbacks[mps])):
                yield f"{name}: entry {number} of its table differs"
        for key in old.kernels.keys() | new.kernels.keys():
            kernels = old.kernels.get(key, []), new.kernels.get(key, [])
            # Ours lie over the official ones, which stay.
            if kernels[0] != (kernels[1][len(kernels[1]) - len(kernels[0]) :] if key == MPS else kernels[1]):
                yield f"{name}: the kernels of {key} differ"
    for name, stub in before.stubs.items():
        changed = after.stubs[name]
        if stub[: _STUB_MPS.start] + stub[_STUB_MPS.stop :] != changed[: _STUB_MPS.start] + changed[_STUB_MPS.stop :]:
            yield f"{name}: a pointer for another device differs"
        owner = probe.process.owner(int.from_bytes(changed[_STUB_MPS], "little"))
        if name in before.mps_stubs | after.mps_stubs and owner != own:
            yield f"{name}: its kernel for MPS is of {owner}"
    for number, kernel in enumerate(after.fallbacks):
        if kernel != before.fallbacks[number] if number != mps else wrong(kernel):
            yield f"the fallback of {before.key_of(number)} is of {wrong(kernel)}"
    for number, guard in enumerate(after.guards):
        owner = probe.owner_of_object(guard)
        if guard != before.guards[number] if number != MPS_DEVICE else owner != own:
            yield f"the guard of device {number} is of {owner}"
    if before.allocators != after.allocators:
        yield "c10's allocators differ"
    changes = len(before.interpreted - after.interpreted), len(after.interpreted - before.interpreted)
    if changes != (1, 1):
        yield f"of TorchScript's operators {changes[0]} are gone and {changes[1]} new"
    if probe.generator_operators() != [own]:
        yield f"TorchScript's aten::Generator is of {' and '.join(probe.generator_operators())}"
