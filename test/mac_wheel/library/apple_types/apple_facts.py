"""What independent sources say of Apple's declarations: the tables in `facts/`, as one."""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from apple_encodings import same

Version = tuple[int, ...]
FOLDER = Path(__file__).parent / "facts"
# Kept by hand: what is not confirmed, what is overruled, and guards in another place.
LISTS = FOLDER / "lists.toml"
# The oldest macOS that the library runs on.
OLDEST = (13, 3)
# The macOS that came with a version of iOS, where a source names only that one. Apple ships both from the same sources.
_MACOS_OF_IOS: dict[Version, Version] = {
    (14, 0): (11, 0),
    (14, 2): (11, 0),
    (15, 0): (12, 0),
    (15, 2): (12, 1),
    (15, 3): (12, 2),
    (15, 4): (12, 3),
    (16, 0): (13, 0),
    (16, 1): (13, 0),
    (16, 2): (13, 1),
    (16, 3): (13, 2),
    (17, 0): (14, 0),
}


@dataclass(frozen=True)
class Fact:
    """A method's types in their normal form, the macOS that brought it, and who says so."""

    types: tuple[str, ...]
    macos: Version
    source: str


@dataclass
class Facts:
    """Everything that is known, by name; a method by its sign, owner and selector: `-[MTLDevice name]`."""

    methods: dict[str, list[Fact]] = field(default_factory=dict)
    enums: dict[str, dict[str, str]] = field(default_factory=dict)
    structs: dict[str, dict[str, str]] = field(default_factory=dict)
    classes: dict[str, tuple[Version, str]] = field(default_factory=dict)
    # By class and source.
    superclasses: dict[str, dict[str, str]] = field(default_factory=dict)
    constants: dict[str, tuple[Version, str]] = field(default_factory=dict)
    # By `[owner selector]`, the types that PyObjC tells: 0 is the result, 1 the first argument. Methods of protocols are
    # NSObject's there.
    places: dict[str, dict[int, str]] = field(default_factory=dict)

    def add(self, key: str, fact: Fact) -> None:
        """Add what one source says of a method."""
        self.methods.setdefault(key, []).append(fact)


def version(text: str) -> Version:
    """Return the macOS that `13.2` names, or that came with the iOS that `i16.3` names."""
    numbers = tuple(int(part) for part in text.removeprefix("i").split("."))
    return _MACOS_OF_IOS[numbers] if text.startswith("i") else numbers


def load() -> Facts:
    """Read the tables; a row that is not well formed is an error that names it."""
    facts = Facts()
    _load_metal(facts, json.loads((FOLDER / "metal_cpp.json").read_text()))
    _load_frameworks(facts, tomllib.loads((FOLDER / "frameworks.toml").read_text()))
    _load_pyobjc(facts, json.loads((FOLDER / "pyobjc.json").read_text()))
    overrule(facts, tomllib.loads(LISTS.read_text())["overruled"])
    return facts


def overrule(facts: Facts, rows: list[dict[str, str]]) -> None:
    """Leave out what PyObjC says of methods that metal-cpp has otherwise; a row without a difference is an error."""
    for row in rows:
        known = facts.methods.get(f"-[{row['owner']} {row['method']}]", [])
        types = next((fact.types for fact in known if fact.source == "metal-cpp"), ())
        places = facts.places.pop(f"[NSObject {row['method']}]", {})
        if not any(place < len(types) and not same(types[place], code) for place, code in places.items()):
            raise ValueError(f"{row['method']} needs no row in facts/lists.toml: metal-cpp and PyObjC do not differ")


def _load_metal(facts: Facts, table: dict[str, dict[str, dict[str, str]]]) -> None:
    for key, row in table["methods"].items():
        facts.add(key, Fact(tuple(row["types"].split()), version(row["macos"]), "metal-cpp"))
    for name, width in table["enums"].items():
        facts.enums.setdefault(name, {})["metal-cpp"] = str(width)
    for name, layout in table["structs"].items():
        fields = "".join(item[1] for item in layout["fields"])
        facts.structs.setdefault(name, {})["metal-cpp"] = "{" + fields + "}"
    for name, since in table["classes"].items():
        facts.classes[name] = (version(str(since)), "metal-cpp")
    for name, parent in table["superclasses"].items():
        facts.superclasses.setdefault(name, {})["metal-cpp"] = str(parent)


def _load_frameworks(facts: Facts, table: dict[str, dict[str, dict[str, object]]]) -> None:
    for source, enums in table["enums"].items():
        for name, code in enums.items():
            facts.enums.setdefault(name, {})[source] = str(code)
    for target, part in ((facts.classes, "classes"), (facts.constants, "constants")):
        for source, rows in table[part].items():
            for name, since in rows.items():
                target[name] = (version(str(since)), source)

    for source, parents in table["superclasses"].items():
        for parent, names in parents.items():
            assert isinstance(names, list)
            for name in names:
                facts.superclasses.setdefault(name, {})[source] = parent

    def code_of(word: str) -> str:
        return next(iter(facts.enums[word].values())) if word in facts.enums else word

    def row_of(key: str, text: object, source: str) -> Fact:
        *words, since = str(text).split()
        selector = key.rpartition(" ")[2].rstrip("]")
        if len(words) != 1 + selector.count(":"):
            raise ValueError(f"{key} is said to be {text!r}: as many arguments as colons are needed")
        return Fact(tuple(map(code_of, words)), version(since), source)

    for source, owners in table["methods"].items():
        for owner, methods in owners.items():
            assert isinstance(methods, dict)
            for name, text in methods.items():
                key = f"{name[0]}[{owner} {name[1:]}]"
                facts.add(key, row_of(key, text, source))
    for source, owners in table["properties"].items():
        for owner, properties in owners.items():
            assert isinstance(properties, dict)
            for name, text in properties.items():
                setter = f"-[{owner} set{name[0].upper()}{name[1:]}:]"
                facts.add(f"-[{owner} {name}]", row_of(f"-[{owner} {name}]", text, source))
                facts.add(setter, row_of(setter, f"v {text}", source))


def _load_pyobjc(facts: Facts, table: dict[str, dict[str, object]]) -> None:
    for name, code in table["structs"].items():
        facts.structs.setdefault(name, {})["pyobjc"] = str(code)
    for name, since in table["constants"].items():
        facts.constants.setdefault(name, (version(str(since)), "pyobjc"))
    for key, places in table["types"].items():
        assert isinstance(places, dict)
        facts.places[key] = {int(at): code for at, code in places.items()}
