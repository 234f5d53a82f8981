"""What independent sources say of Apple's declarations: the tables in `facts/`, as one."""

import tomllib
from dataclasses import dataclass, field
from pathlib import Path

Version = tuple[int, ...]
FOLDER = Path(__file__).parent / "facts"
TABLES = ("metal_cpp", "frameworks")
SOURCES = ("metal-cpp", "dotnet", "sdk-header", "runtime", "pyobjc")
# Sections whose names stand behind their value: a code, a superclass, or the macOS that brought them.
GROUPED = ("enums", "superclasses", "classes", "constants")
# The oldest macOS that the library runs on.
OLDEST = (13, 3)


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
    classes: dict[str, Version] = field(default_factory=dict)
    # By class and source.
    superclasses: dict[str, dict[str, str]] = field(default_factory=dict)
    constants: dict[str, Version] = field(default_factory=dict)


def version(text: str) -> Version:
    """Return the macOS that `13.2` names."""
    return tuple(int(part) for part in text.split("."))


def load() -> Facts:
    """Read the tables; a row that is not well formed is an error that names it."""
    facts = Facts()
    files = [tomllib.loads((FOLDER / f"{name}.toml").read_text()) for name in TABLES]
    said = [(source, table[source]) for table in files for source in SOURCES if source in table]
    for source, sections in said:
        grouped = [
            (section, name, value)
            for section in GROUPED
            for value, names in sections.get(section, {}).items()
            for name in names
        ]
        for section, name, value in grouped:
            if section in ("enums", "superclasses"):
                getattr(facts, section).setdefault(name, {})[source] = value
            else:
                getattr(facts, section).setdefault(name, version(value))
    for source, sections in said:
        for name, code in sections.get("structs", {}).items():
            facts.structs.setdefault(name, {})[source] = code
        for section in ("methods", "objects"):
            for owner, groups in sections.get(section, {}).items():
                for said, selectors in groups.items():
                    for selector in selectors:
                        key = f"{said[0]}[{owner} {selector}]"
                        objects = "@ " * (1 + selector.count(":")) if section == "objects" else ""
                        facts.methods.setdefault(key, []).append(_fact(facts, key, objects + said[1:], source))
        for owner, groups in sections.get("properties", {}).items():
            for text, names in groups.items():
                for name in names:
                    for selector, types in ((name, text), (f"set{name[0].upper()}{name[1:]}:", f"v {text}")):
                        key = f"-[{owner} {selector}]"
                        facts.methods.setdefault(key, []).append(_fact(facts, key, types, source))
    return facts


def _fact(facts: Facts, key: str, text: str, source: str) -> Fact:
    *words, since = text.split()
    if len(words) != 1 + key.count(":"):
        raise ValueError(f"{key} is said to be {text!r}: as many arguments as colons are needed")
    codes = (next(iter(facts.enums[word].values())) if word in facts.enums else word for word in words)
    return Fact(tuple(codes), version(since), source)


# Short lists that a person keeps.
_LISTS = tomllib.loads((FOLDER / "lists.toml").read_text())
# Classes and methods that the overlay defines.
CLASSES_OF_THE_BACKEND, OF_THE_BACKEND = set(_LISTS["own"]["classes"]), set(_LISTS["own"]["methods"])
# Apple's, in no header: the backend declares it, and asks whether it is there before it is sent.
ASKED_FOR = {"setEnableCommitAndContinue:"}
# The used declarations that no independent source was found for, by kind.
UNCONFIRMED: dict[str, list[str]] = _LISTS["unconfirmed"]
