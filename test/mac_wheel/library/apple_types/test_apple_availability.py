"""What the patched backend uses was there in macOS 13.3, or is upstream's."""

import re
from collections import Counter

import pytest

from apple_check import newest
from apple_declarations import CHECKOUT, Declarations
from apple_facts import ASKED_FOR, CLASSES_OF_THE_BACKEND, Facts, OF_THE_BACKEND, OLDEST, UNCONFIRMED, Version
from apple_uses import gather, Uses, without_comments
from fork_tool.base.checkout import BASE_REF
from fork_tool.common.git import Git
from made_wheel import ENTRIES, SmallLibraries


def test_every_selector_is_known(declared: Declarations, facts: Facts, uses: Uses) -> None:
    unknown = [
        name for name in uses.selectors if not newest(name, declared, facts) and name not in OF_THE_BACKEND | ASKED_FOR
    ]
    assert sorted(unknown) == sorted(UNCONFIRMED["versions"])


def newer_names(declared: Declarations, facts: Facts, uses: Uses) -> dict[str, Version]:
    """What the backend uses and every class or header of macOS 13.3 lacks, by the word that it begins with."""
    selectors = {name: newest(name, declared, facts, min) for name in uses.selectors}
    constants = {name: facts.constants.get(name, ()) for name in uses.words if name in declared.constants}
    # Constants are numbers in the code: asking whether a tensor has a type needs no check, making one does, and
    # getMPSDataType() checks. What is left is what is handed to Metal.
    constants = {name: since for name, since in constants.items() if not name.startswith("MPSDataType")}
    return {name.partition(":")[0]: since for name, since in (selectors | constants).items() if since > OLDEST}


def further_uses(names: dict[str, Version], text: str, base: str) -> list[str]:
    """The names that a source uses more often than the base's."""
    words, before = (Counter(re.findall(r"\w+", without_comments(each))) for each in (text, base))
    # Setters are written as assignments, too.
    written = {name: (name, re.sub(r"^set(\w)", lambda match: match[1].lower(), name)) for name in names}
    return sorted(name for name, forms in written.items() if any(words[form] > before[form] for form in forms))


def test_the_series_uses_no_newer_names(declared: Declarations, facts: Facts, uses: Uses) -> None:
    """The base's own uses are upstream's."""
    names = newer_names(declared, facts, uses)
    assert {"reciprocalSquareRootWithTensor", "MTLLanguageVersion3_1"} <= names.keys()
    git, found = Git(CHECKOUT), {}
    for path in git.names("diff", "--name-only", "-z", BASE_REF, "--", "*.mm", "*.cpp"):
        base = git.run("show", f"{BASE_REF}:{path}", check=False).stdout.decode()
        if (CHECKOUT / path).is_file() and (used := further_uses(names, (CHECKOUT / path).read_text(), base)):
            found[path] = used
    assert found == {}


def test_a_further_use_is_named() -> None:
    names = {"planarTensorWithComplexTensor": (26, 3)}
    sent = "[graph planarTensorWithComplexTensor:x name:nil];\n"
    assert further_uses(names, sent, "// planarTensorWithComplexTensor\n") == ["planarTensorWithComplexTensor"]
    assert further_uses(names, sent, sent) == []


def class_faults(classes: dict[str, bool], facts: Facts) -> list[str]:
    """Return a sentence for every class that Apple does not have, or not yet in 13.3 and without which nothing is loaded."""
    found = []
    for name, weak in sorted(classes.items()):
        if name in facts.classes:
            since = ".".join(map(str, facts.classes[name]))
            if facts.classes[name] > OLDEST and not weak:
                found.append(f"{name} came with macOS {since}, and the library is not loaded where it is missing")
        elif name not in (*CLASSES_OF_THE_BACKEND, *UNCONFIRMED["classes"]):
            found.append(f"{name} is no class that any source knows")
    return found


def test_classes(facts: Facts, uses: Uses) -> None:
    assert class_faults(uses.classes, facts) == []
    assert uses.classes["MPSGraphFFTDescriptor"] and uses.classes["MPSNDArrayIdentity"]


# A class of Apple's by its symbol, as any source refers to it.
REFERENCE = """
extern "C" { extern void* used __asm("_OBJC_CLASS_$_NAME") WEAK; }
extern "C" __attribute__((visibility("default"))) void* aoti_torch_mps_used() { return &used; }
"""


@pytest.mark.parametrize("name", ["MPSGraphFFTDescriptor", "MPSNDArrayIdentity"])
def test_a_newer_class_that_must_be_there_is_named(name: str, small: SmallLibraries, facts: Facts) -> None:
    def faults(attribute: str) -> list[str]:
        part = small.compile(ENTRIES + REFERENCE.replace("NAME", name).replace("WEAK", attribute))
        library = small.link(part, change=lambda words: [word for word in words if word != "-weak_library"])
        return class_faults(gather(library, []).classes, facts)

    (said,) = faults("")
    assert said.startswith(f"{name} came with macOS 1") and said.endswith("is not loaded where it is missing")
    assert faults("__attribute__((weak_import))") == []


def test_a_selector_and_a_class_of_none_are_named(small: SmallLibraries, declared: Declarations, facts: Facts) -> None:
    part = small.compile(
        f"{ENTRIES}\n@interface Sent\n- (void)frobnicate;\n@end\n"
        'extern "C" __attribute__((visibility("default"))) void aoti_torch_mps_send(Sent* sent) { [sent frobnicate]; }\n',
        *("-x", "objective-c++", "-fno-objc-arc"),
    )
    assert gather(small.link(part), []).selectors == {"frobnicate"}
    assert newest("frobnicate", declared, facts) == ()
    assert newest("planarTensorWithComplexTensor:name:", declared, facts) == (26, 3)
    assert class_faults({"MPSGraphFrobnicator": True}, facts) == [
        "MPSGraphFrobnicator is no class that any source knows"
    ]


def test_constants(declared: Declarations, facts: Facts, uses: Uses) -> None:
    used = {word for word in uses.words if word in declared.constants}
    assert len(used) > 70
    assert sorted(used - facts.constants.keys()) == sorted(UNCONFIRMED["constants"])
