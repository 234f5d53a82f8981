"""The library for a Mac, as it is linked: what it asks of Apple is what the other tests have looked at.

They read the objects of the simulator's build. What only the library has, its part that takes the device over, would be
in none of them.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

import pytest

from apple_check import compare_methods
from apple_declarations import Declarations
from apple_facts import Facts, OLDEST
from apple_lists import ASKED_FOR, CLASSES_OF_THE_BACKEND, OF_THE_BACKEND, OF_THE_RUNTIME, UNCONFIRMED
from apple_uses import Uses
from fork_tool.mac_library.symbol_tables import imports
from fork_tool.mac_library.tools import read_library
from made_wheel import ENTRIES, Made, SmallLibraries

_CLASS = "_OBJC_CLASS_$_"
# A class of Apple's by its symbol, as any source refers to it.
REFERENCE = """
extern "C" { extern void* used __asm("_OBJC_CLASS_$_NAME") WEAK; }
extern "C" __attribute__((visibility("default"))) void* aoti_torch_mps_used() { return &used; }
"""
# For a Mac the compiler calls objc_alloc() and its kin, and int64_t is long long, for which NSNumber has other methods.
OF_THE_SIMULATORS_BUILD = {"alloc", "numberWithLong:", "numberWithUnsignedLong:", "release", "retain"}


@dataclass(frozen=True)
class Asked:
    """Selectors that are sent or asked for, and the classes of other libraries with whether a system may lack them."""

    selectors: frozenset[str]
    # False for a class without which dyld does not load the library.
    classes: dict[str, bool]


def read_asked(library: Path) -> Asked:
    """Read a linked library."""
    binary = read_library(library)
    sections = {section.name: section for section in binary.sections}
    selectors = set()
    if "__objc_selrefs" in sections:
        names = sections["__objc_methname"]
        text = bytes(names.content)
        # Addresses of names: the names' section has those of fields and properties, too.
        for (address,) in struct.iter_unpack("<Q", bytes(sections["__objc_selrefs"].content)):
            at = address - names.virtual_address
            selectors.add(text[at : text.index(0, at)].decode())
    # dyld goes by its own list, and tools by the table of symbols: both must say so.
    bound = {binding.symbol.name: True for binding in binary.bindings if binding.has_symbol}
    for binding in binary.bindings:
        if binding.has_symbol:
            bound[binding.symbol.name] &= bool(binding.weak_import)
    classes = {
        each.name.removeprefix(_CLASS): each.weak and bound.get(each.name, True)
        for each in imports(library)
        if each.name.startswith(_CLASS)
    }
    return Asked(frozenset(selectors), classes)


@pytest.fixture(scope="module")
def asked(made: Made) -> Asked:
    return read_asked(made.library)


def library_faults(asked: Asked, uses: Uses, declared: Declarations, facts: Facts) -> list[str]:
    """Return a sentence for everything that a library asks of Apple and that nothing else has looked at, or wrongly."""
    own = set(asked.selectors) - set(uses.selectors) - OF_THE_BACKEND - ASKED_FOR
    known = {method.selector for method in declared.methods.values()}
    found = [f"{name} is sent by the library, and no header declares it" for name in sorted(own - known)]
    result = compare_methods(declared, facts, own)
    found += [*result.wrong, *(f"{name} is not confirmed" for name in result.unconfirmed)]
    for name, weak in sorted(asked.classes.items()):
        if name in facts.classes:
            since = facts.classes[name]
            if since > OLDEST and not weak:
                text = ".".join(map(str, since))
                found.append(f"{name} came with macOS {text}, and the library is not loaded where it is missing")
        elif name not in (*CLASSES_OF_THE_BACKEND, *OF_THE_RUNTIME, *UNCONFIRMED["classes"]):
            found.append(f"{name} is no class that any source knows")
    return found


def test_the_library(asked: Asked, uses: Uses, declared: Declarations, facts: Facts) -> None:
    assert library_faults(asked, uses, declared, facts) == []
    assert len(asked.selectors) > 380 and len(asked.classes) > 30


def test_the_two_builds_ask_the_same(asked: Asked, uses: Uses) -> None:
    """So that what was compared for the simulator's objects is what a Mac is asked for."""
    assert sorted(set(uses.classes) - OF_THE_RUNTIME - CLASSES_OF_THE_BACKEND - set(asked.classes)) == []
    assert sorted(set(uses.selectors) - asked.selectors - OF_THE_BACKEND) == sorted(OF_THE_SIMULATORS_BUILD)


def test_newer_classes_may_be_missing(asked: Asked) -> None:
    assert asked.classes["MPSGraphFFTDescriptor"] and asked.classes["MPSNDArrayIdentity"]


@pytest.mark.parametrize("name", ["MPSGraphFFTDescriptor", "MPSNDArrayIdentity"])
def test_a_newer_class_that_must_be_there_is_named(
    name: str, made: Made, small: SmallLibraries, uses: Uses, declared: Declarations, facts: Facts
) -> None:
    def strongly(words: list[str]) -> list[str]:
        return [word for word in words if word != "-weak_library"]

    def faults(attribute: str) -> list[str]:
        part = small.compile(ENTRIES + REFERENCE.replace("NAME", name).replace("WEAK", attribute))
        return library_faults(read_asked(small.link(part, change=strongly)), uses, declared, facts)

    (said,) = faults("")
    assert said.startswith(f"{name} came with macOS 1") and said.endswith(
        "the library is not loaded where it is missing"
    )
    assert faults("__attribute__((weak_import))") == []


def test_a_selector_that_only_the_library_sends_is_named(
    made: Made, small: SmallLibraries, uses: Uses, declared: Declarations, facts: Facts
) -> None:
    """As of a source that is in no build of the simulator."""
    part = small.compile(
        f"{ENTRIES}\n@interface Sent\n- (void)frobnicate;\n@end\n"
        'extern "C" __attribute__((visibility("default"))) void aoti_torch_mps_send(Sent* sent) { [sent frobnicate]; }\n',
        *("-x", "objective-c++", "-fno-objc-arc"),
    )
    found = library_faults(read_asked(small.link(part)), uses, declared, facts)
    assert found == ["frobnicate is sent by the library, and no header declares it"]
