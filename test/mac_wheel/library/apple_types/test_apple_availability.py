"""What the patched backend uses was there in macOS 13.3, or is used behind a check of the version."""

from __future__ import annotations

import re

import pytest

import apple_guards
from apple_check import facts_for, newest
from apple_declarations import CHECKOUT, Declarations
from apple_facts import Facts, OLDEST, Version
from apple_lists import (
    ASKED_FOR,
    CLASSES_OF_THE_BACKEND,
    GuardElsewhere,
    GUARDS_ELSEWHERE,
    OF_THE_BACKEND,
    OF_THE_RUNTIME,
    UNCONFIRMED,
)
from apple_uses import sources_of, Uses

# Selectors that older classes have too: what stands before them when the newer class is meant.
RECEIVERS = {
    "descriptor": r"MPSGraphFFTDescriptor\s+",
    "initWithBuffer:offset:descriptor:": r"MPSNDArray\s+alloc\]\s*",
}


def pattern(selector: str) -> re.Pattern[str]:
    """How a message is written, also as an assignment to a property."""
    first, *others = selector.split(":")
    words = [rf"\b{first}\s*:" if ":" in selector else rf"(?<!\w){first}(?=\s*[\];.,)])"]
    # The first two parts: names of later ones may stand on the other side of a block.
    words += [rf"{part}\s*:" for part in others[:1] if part]
    text = RECEIVERS.get(selector, "") + r"[^;]*?\s".join(words)
    if first.startswith("set") and selector.count(":") == 1:
        text += rf"|\.{first[3].lower()}{first[4:]}\s*="
    return re.compile(text)


def unguarded(
    path: str, text: str, versions: dict[str, Version], patterns: dict[str, re.Pattern[str]], rows: list[GuardElsewhere]
) -> list[str]:
    """Return a sentence for every use of a newer name that no check stands before."""
    found = []
    for use in apple_guards.find(text, patterns):
        needed = versions[use.name]
        elsewhere = any(row.file == path and row.function == use.function and use.name in row.names for row in rows)
        if use.guard < needed and not elsewhere:
            since = ".".join(map(str, needed))
            found.append(
                f"{path}:{use.line}: {use.name} came with macOS {since}, and no check of the version is before it"
            )
    return found


def newer_selectors(declared: Declarations, facts: Facts, uses: Uses) -> dict[str, Version]:
    """The selectors in use that macOS 13.3 lacks."""
    every = {name: newest(name, declared, facts) for name in uses.selectors}
    return {name: since for name, since in every.items() if since > OLDEST}


def test_every_selector_is_known(declared: Declarations, facts: Facts, uses: Uses) -> None:
    unknown = [
        name for name in uses.selectors if not newest(name, declared, facts) and name not in OF_THE_BACKEND | ASKED_FOR
    ]
    assert sorted(unknown) == sorted(UNCONFIRMED["versions"])


def test_newer_selectors_are_guarded(declared: Declarations, facts: Facts, uses: Uses) -> None:
    versions = newer_selectors(declared, facts, uses)
    assert "reciprocalSquareRootWithTensor:name:" in versions
    patterns = {name: pattern(name) for name in versions}
    wrong, seen = [], set()
    for path in sources_of(CHECKOUT):
        if path.suffix == ".h":
            continue
        text = path.read_text(errors="replace")
        wrong += unguarded(str(path.relative_to(CHECKOUT)), text, versions, patterns, GUARDS_ELSEWHERE)
        seen |= {use.name for use in apple_guards.find(text, patterns)}
    assert wrong == []
    # Each of them is in an object: a pattern that finds nothing looks in vain.
    assert sorted(set(versions) - seen) == []


def test_receivers_tell_old_and_new_apart(declared: Declarations, facts: Facts, uses: Uses) -> None:
    ambiguous = set()
    for name in newer_selectors(declared, facts, uses):
        methods = [method for method in declared.methods.values() if method.selector == name]
        known = [fact.macos for method in methods for fact in facts_for(method, declared, facts)]
        if min(known) <= OLDEST:
            ambiguous.add(name)
    assert ambiguous == set(RECEIVERS)


def test_guards_elsewhere_are_there() -> None:
    for row in GUARDS_ELSEWHERE:
        assert row.text in (CHECKOUT / row.in_file).read_text(), f"{row.file}, {row.function}: {row.why}"
        assert (CHECKOUT / row.file).is_file(), row.file


def class_faults(classes: set[str], weak: set[str], facts: Facts) -> list[str]:
    """Return a sentence for every class that Apple does not have, or not yet in 13.3 and is not linked weakly."""
    found = []
    for name in sorted(classes - CLASSES_OF_THE_BACKEND - OF_THE_RUNTIME):
        if name not in facts.classes:
            found.append(f"{name} is no class that any source knows")
        elif facts.classes[name] > OLDEST and name not in weak:
            since = ".".join(map(str, facts.classes[name]))
            found.append(
                f"{name} came with macOS {since}: its declaration must be weak_import, or no older system loads the library"
            )
    return found


def test_classes(declared: Declarations, facts: Facts, uses: Uses) -> None:
    assert class_faults(set(uses.classes) - set(UNCONFIRMED["classes"]), declared.weak, facts) == []


def test_constants(declared: Declarations, facts: Facts, uses: Uses) -> None:
    used = {word: files for word, files in uses.words.items() if word in declared.constants}
    assert len(used) > 70
    unknown = sorted(name for name in used if name not in facts.constants)
    assert unknown == sorted(UNCONFIRMED["constants"])
    versions = {name: facts.constants[name] for name in used if name in facts.constants}
    newer = {name: since for name, since in versions.items() if since > OLDEST}
    assert "MTLLanguageVersion3_1" in newer
    # Constants are numbers in the code: asking whether a tensor has a type needs no check, making one does, and
    # getMPSDataType() checks. What is left is what is handed to Metal.
    handed = {name: since for name, since in newer.items() if not name.startswith("MPSDataType")}
    patterns = {name: re.compile(rf"\b{name}\b") for name in handed}
    wrong = []
    for path in sources_of(CHECKOUT):
        if path.suffix != ".h":
            wrong += unguarded(
                str(path.relative_to(CHECKOUT)), path.read_text(errors="replace"), handed, patterns, GUARDS_ELSEWHERE
            )
    assert wrong == []


def faults_in(text: str, name: str, since: Version) -> list[str]:
    return unguarded("source.mm", text, {name: since}, {name: pattern(name)}, [])


SENT = "[graph planarTensorWithComplexTensor:x name:nil]"
NEW = "planarTensorWithComplexTensor:name:"


def test_a_selector_of_macos_26_is_named() -> None:
    (said,) = faults_in(f"void f() {{\n  {SENT};\n}}\n", NEW, (26, 3))
    assert said == f"source.mm:2: {NEW} came with macOS 26.3, and no check of the version is before it"


@pytest.mark.parametrize(
    "text",
    [
        "void f() {{ if (@available(macOS 26.3, *)) {{ {0}; }} }}",
        "void f() {{ if (is_macos_13_or_newer(MacOSVersion::MACOS_VER_26_3_PLUS)) {{ {0}; }} }}",
        "void f() {{ if (a && is_macOS_26_3_or_newer) {{ {0}; }} }}",
        "void f() {{ if (!is_macOS_26_3_or_newer) {{ g(); }} else {{ {0}; }} }}",
        "void f() {{ if (a || !is_macOS_26_3_or_newer) {{ g(); }} else {{ {0}; }} }}",
        "void f() {{ if ((a() && !b) || !c || !is_macOS_26_3_or_newer) {{ g(); }} else {{ {0}; }} }}",
        "void f() {{ if (!(a || !mps::is_macOS_26_3_or_newer)) {{ {0}; }} }}",
        "void f() {{ if (!is_macOS_26_3_or_newer) {{ return; }} {0}; }}",
        'void f() {{ TORCH_CHECK(is_macOS_26_3_or_newer, "no"); {{ {0}; }} }}',
        "void f() {{ x = is_macOS_26_3_or_newer ? {0} : nil; }}",
    ],
)
def test_a_check_of_the_version_is_seen(text: str) -> None:
    assert faults_in(text.format(SENT), NEW, (26, 3)) == []


@pytest.mark.parametrize(
    "text",
    [
        "void f() {{ if (is_macOS_15_0_or_newer) {{ {0}; }} }}",
        "void f() {{ if (is_macOS_26_3_or_newer) {{ g(); }} else {{ {0}; }} }}",
        "void f() {{ if (is_macOS_26_3_or_newer) {{ g(); }} {0}; }}",
        "void f() {{ if (a || is_macOS_26_3_or_newer) {{ {0}; }} }}",
        "void f() {{ if (!is_macOS_26_3_or_newer && a) {{ return; }} {0}; }}",
        "void f() {{ if ((a && !is_macOS_26_3_or_newer) || b) {{ g(); }} else {{ {0}; }} }}",
        "void f() {{ if (!(a && is_macOS_26_3_or_newer)) {{ {0}; }} }}",
        "void f() {{ if (is_macOS_26_3_or_newer == a) {{ {0}; }} }}",
        "void f() {{ if (!is_macOS_26_3_or_newer) {{ g(); }} {0}; }}",
        "void f() {{ x = is_macOS_26_3_or_newer ? nil : {0}; }}",
        "// if (is_macOS_26_3_or_newer) {{\nvoid f() {{ {0}; }}",
        "void f() {{ if (!is_macOS_26_3_or_newer) {{ return; }} }} void g() {{ {0}; }}",
    ],
)
def test_what_is_no_check_is_not_taken_for_one(text: str) -> None:
    assert len(faults_in(text.format(SENT), NEW, (26, 3))) == 1


def test_a_class_that_does_not_exist_or_is_newer_is_named(facts: Facts) -> None:
    (said,) = class_faults({"MPSGraphFrobnicator"}, set(), facts)
    assert said == "MPSGraphFrobnicator is no class that any source knows"
    (said,) = class_faults({"MPSGraphFFTDescriptor"}, set(), facts)
    assert said.startswith("MPSGraphFFTDescriptor came with macOS 14.0: its declaration must be weak_import")
    assert class_faults({"MPSGraphFFTDescriptor"}, {"MPSGraphFFTDescriptor"}, facts) == []


def test_a_selector_of_none_is_named(declared: Declarations, facts: Facts) -> None:
    assert newest("frobnicateTensor:name:", declared, facts) == ()
    assert newest(NEW, declared, facts) == (26, 3)
