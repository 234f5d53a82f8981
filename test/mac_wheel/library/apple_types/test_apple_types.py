"""Every declaration that the patched backend uses of the simulator's headers has Apple's types."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

import pytest

from apple_check import compare_enums, compare_methods, compare_structs, compare_superclasses, Result
from apple_declarations import CHECKOUT, Declarations, read
from apple_facts import Facts
from apple_lists import ASKED_FOR, CLASSES_OF_THE_BACKEND, OF_THE_BACKEND, UNCONFIRMED
from apple_uses import sources_of, Uses

# Enough for a few declarations by Apple's names, without a header.
_MINIMAL = ["-x", "objective-c++", "-std=gnu++17", "-fblocks", "-w"]
_TYPES = "typedef struct { unsigned long width, height, depth; } MTLSize;\n"


def planted(text: str) -> Declarations:
    """Return what a text declares."""
    return read(_MINIMAL, _TYPES + text)


def test_library_and_sources_were_read(uses: Uses) -> None:
    assert len(uses.selectors) > 380 and len(uses.classes) > 30 and len(uses.words) > 5000


def test_every_selector_that_is_used_is_declared(declared: Declarations, uses: Uses) -> None:
    known = {method.selector for method in declared.methods.values()}
    assert sorted(uses.selectors - known - OF_THE_BACKEND - ASKED_FOR) == []


def test_what_the_backend_defines_is_its_own(declared: Declarations) -> None:
    assert OF_THE_BACKEND.isdisjoint(method.selector for method in declared.methods.values())
    sources = "".join(path.read_text() for path in sources_of(CHECKOUT) if path.suffix == ".mm")
    assert all(f"@implementation {name}" in sources for name in CLASSES_OF_THE_BACKEND)
    assert all(re.search(rf"^[-+] \([^()]*\){name.split(':')[0]}:", sources, re.MULTILINE) for name in OF_THE_BACKEND)


@pytest.mark.parametrize("kind", ["methods", "enums", "structs", "superclasses"])
def test_declarations(kind: str, declared: Declarations, facts: Facts, uses: Uses) -> None:
    """Superclasses of every class that the headers declare: which methods an object answers, and where its fields begin."""
    enums = {declared.constants[word] for word in uses.words if word in declared.constants}
    result = {
        "methods": lambda: compare_methods(declared, facts, uses.selectors),
        "enums": lambda: compare_enums(declared, facts, uses.words | enums),
        "structs": lambda: compare_structs(declared, facts, uses.words),
        "superclasses": lambda: compare_superclasses(declared, facts),
    }[kind]()
    assert result.wrong == []
    assert set(result.unconfirmed) == set(UNCONFIRMED[kind])
    assert result.confirmed


def test_another_superclass_is_named(facts: Facts) -> None:
    base = "@interface MPSNDArrayMultiaryBase\n@end\n"
    declared = planted(f"{base}@interface MPSNDArrayUnaryKernel : MPSNDArrayMultiaryBase\n@end\n")
    result = compare_superclasses(declared, facts)
    assert result.wrong == [
        "MPSNDArrayUnaryKernel is derived from MPSNDArrayMultiaryBase here and from MPSNDArrayMultiaryKernel by sdk-header"
    ]
    declared = planted(f"{base}@interface MPSFrobnicator : MPSNDArrayMultiaryBase\n@end\n")
    assert compare_superclasses(declared, facts).unconfirmed == ["MPSFrobnicator"]


def test_no_source_is_alone_in_everything(facts: Facts) -> None:
    sources = Counter(fact.source for known in facts.methods.values() for fact in known)
    assert set(sources) == {"metal-cpp", "dotnet", "sdk-header", "runtime"}


FAULTS: list[tuple[str, str, Callable[[Declarations, Facts, set[str]], Result], str]] = [
    (
        "a struct by pointer",
        "@protocol MTLComputeCommandEncoder\n"
        "- (void)dispatchThreads:(MTLSize*)grid threadsPerThreadgroup:(MTLSize)group;\n@end\n",
        compare_methods,
        "-[MTLComputeCommandEncoder dispatchThreads:threadsPerThreadgroup:] (declarations.mm) is v ^{QQQ} {QQQ} here "
        "and v {QQQ} {QQQ} by metal-cpp",
    ),
    (
        "BOOL as int",
        "@protocol MTLDevice\n- (int)supportsFamily:(long)family;\n@end\n",
        compare_methods,
        "-[MTLDevice supportsFamily:] (declarations.mm) is i q here and B q by metal-cpp",
    ),
    (
        "float instead of double",
        "@class NSString, MPSGraphTensor;\n@interface MPSGraph\n"
        "- (MPSGraphTensor*)dropoutTensor:(MPSGraphTensor*)tensor rate:(float)rate name:(NSString*)name;\n@end\n",
        compare_methods,
        "-[MPSGraph dropoutTensor:rate:name:] (declarations.mm) is @ @ f @ here and @ @ d @ by dotnet",
    ),
    (
        "an enum of the wrong width",
        "enum MTLGPUFamily : int { MTLGPUFamilyMac2 = 2002 };\n",
        compare_enums,
        "enum MTLGPUFamily is i here and q by metal-cpp",
    ),
    (
        "a struct that lacks a field",
        "typedef struct { unsigned long size; } MTLSizeAndAlign;\n",
        compare_structs,
        "struct MTLSizeAndAlign is {Q} here and {QQ} by metal-cpp",
    ),
]


@pytest.mark.parametrize(("fault", "text", "compare", "said"), FAULTS, ids=[fault for fault, *_ in FAULTS])
def test_a_planted_fault_is_named(
    fault: str, text: str, compare: Callable[[Declarations, Facts, set[str]], Result], said: str, facts: Facts
) -> None:
    declared = planted(text)
    names = {method.selector for method in declared.methods.values()} | set(declared.enums) | set(declared.structs)
    result = compare(declared, facts, names)
    assert said in result.wrong, fault


def test_what_no_source_confirms_is_not_called_confirmed(facts: Facts) -> None:
    declared = planted("@interface MPSGraph\n- (void)frobnicate;\n@end\n")
    result = compare_methods(declared, facts, {"frobnicate"})
    assert result.unconfirmed == ["-[MPSGraph frobnicate]"]
    assert not result.confirmed
    assert not result.wrong
