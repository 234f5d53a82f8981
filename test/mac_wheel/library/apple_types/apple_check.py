"""The comparison: what is declared here, what others say of it, and what is not confirmed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from apple_declarations import Declarations, Method
from apple_facts import Fact, Facts, Version

# metal-cpp's names for what every object can do.
_ALIASES = {
    "NSObject": ("NSObject", "NSReferencing", "NSCopying", "NSSecureCoding"),
    # Toll-free and mutable kinds inherit in Foundation what metal-cpp declares once.
    "NSFastEnumeration": ("NSFastEnumeration",),
}
# Any object may answer them, whatever class declares them here.
_UNIVERSAL = ("init", "new", "alloc", "copy", "retain", "release", "autorelease", "dealloc", "description")


@dataclass
class Result:
    """What came of a comparison: sentences that say what is wrong, and names that a source confirmed or none did."""

    wrong: list[str] = field(default_factory=list)
    confirmed: list[str] = field(default_factory=list)
    unconfirmed: list[str] = field(default_factory=list)


def same(ours: str, theirs: str) -> bool:
    """Whether two codes are passed and laid out alike. A pointer to something unknown is like any pointer."""
    vague = ("^v", "^{}", "^?")
    if ours != theirs and ours.startswith(("^", "*")) and theirs.startswith(("^", "*")):
        return ours in vague or theirs in vague or {ours, theirs} <= {"*", "^C", "^c"}
    return ours == theirs


def keys_of(method: Method, declared: Declarations) -> list[str]:
    """Return the keys by which the facts may know a method: of its owner, and of what its owner inherits from."""
    owners = declared.ancestors(method.owner)
    if method.selector in _UNIVERSAL or method.owner == "NSObject":
        owners = [*owners, "NSObject"]
    names = [name for owner in owners for name in _ALIASES.get(owner, (owner,))]
    return [f"{method.key[0]}[{name} {method.selector}]" for name in names]


def facts_for(method: Method, declared: Declarations, facts: Facts) -> list[Fact]:
    """Return what is known of a method."""
    return next((facts.methods[key] for key in keys_of(method, declared) if key in facts.methods), [])


def compare_methods(declared: Declarations, facts: Facts, used: set[str]) -> Result:
    """Compare the types of every declared method whose selector is in `used`."""
    result = Result()
    for method in sorted(declared.methods.values(), key=lambda item: item.key):
        if method.selector not in used:
            continue
        known = facts_for(method, declared, facts)
        for fact in known:
            if len(fact.types) != len(method.types) or not all(map(same, method.types, fact.types)):
                result.wrong.append(
                    f"{method.key} ({method.header}) is {' '.join(method.types)} here and {' '.join(fact.types)} by {fact.source}"
                )
        (result.confirmed if known else result.unconfirmed).append(method.key)
    return result


def compare_enums(declared: Declarations, facts: Facts, used: set[str]) -> Result:
    """Compare the width and sign of every declared enum or set of options that is in `used`."""
    return _compare_codes("enum", declared.enums, facts.enums, used)


def compare_structs(declared: Declarations, facts: Facts, used: set[str]) -> Result:
    """Compare the fields of every declared struct that is in `used`."""
    return _compare_codes("struct", declared.structs, facts.structs, used)


def compare_superclasses(declared: Declarations, facts: Facts) -> Result:
    """Compare what every declared class is derived from."""
    return _compare(
        declared.superclasses,
        facts.superclasses,
        lambda name, ours, theirs, source: f"{name} is derived from {ours} here and from {theirs} by {source}",
    )


def _compare_codes(kind: str, ours: dict[str, str], theirs: dict[str, dict[str, str]], used: set[str]) -> Result:
    return _compare(
        {name: code for name, code in ours.items() if name in used},
        theirs,
        lambda name, code, other, source: f"{kind} {name} is {code} here and {other} by {source}",
    )


def _compare(
    ours: dict[str, str], theirs: dict[str, dict[str, str]], sentence: Callable[[str, str, str, str], str]
) -> Result:
    result = Result()
    for name, code in sorted(ours.items()):
        known = theirs.get(name, {})
        for source, other in known.items():
            if code != other:
                result.wrong.append(sentence(name, code, other, source))
        (result.confirmed if known else result.unconfirmed).append(name)
    return result


def newest(
    selector: str, declared: Declarations, facts: Facts, of_several: Callable[[list[Version]], Version] = max
) -> Version:
    """Return the macOS that brought a selector: of several owners, the newest. Empty if that is not known."""
    found: list[Version] = []
    for method in declared.methods.values():
        if method.selector == selector:
            found += [max(fact.macos for fact in known) for known in [facts_for(method, declared, facts)] if known]
    if not found:
        found = [fact.macos for key, known in facts.methods.items() if key.endswith(f" {selector}]") for fact in known]
    return of_several(found) if found else ()
