"""What the simulator's headers declare, as the compiler understands it."""

import json
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clang import cindex

ROOT = Path(__file__).resolve().parents[4]
BUILD = ROOT / "build" / "simulator"
CHECKOUT = ROOT / "build" / "pytorch"
INCLUDE = ROOT / "test" / "simulator" / "include"
FRAMEWORKS = ("Foundation", "Metal", "MetalPerformanceShaders", "MetalPerformanceShadersGraph")
# Upstream's own declarations of Apple's methods.
_UPSTREAMS = CHECKOUT / "aten" / "src" / "ATen" / "native" / "mps" / "MPSGraphVenturaOps.h"
_IMPORTS = "".join(f"#import <{name}/{name}.h>\n" for name in FRAMEWORKS) + f'#import "{_UPSTREAMS}"\n'
# Of the version of the compiler of the simulator's build.
_LIBCLANG = "libclang-19.so.1"
if not cindex.Config.loaded:
    cindex.Config.set_library_file(_LIBCLANG)
# A unit of the build that sees the simulator's headers and no others of ours.
_UNIT = "tests/metal_objects.mm"


@dataclass(frozen=True)
class Method:
    """A declaration; `key` is like `-[MTLDevice name]`."""

    key: str
    owner: str
    selector: str
    types: tuple[str, ...]
    header: str


@dataclass
class Declarations:
    """All of a header's declarations, by name."""

    methods: dict[str, Method] = field(default_factory=dict)
    # The classes and protocols that one inherits from, directly.
    parents: dict[str, list[str]] = field(default_factory=dict)
    classes: set[str] = field(default_factory=set)
    superclasses: dict[str, str] = field(default_factory=dict)
    enums: dict[str, str] = field(default_factory=dict)
    # The enum of an enumerator; empty if it has no name.
    constants: dict[str, str] = field(default_factory=dict)
    structs: dict[str, str] = field(default_factory=dict)

    def ancestors(self, owner: str) -> list[str]:
        """Return the owner and everything that it inherits from, nearest first."""
        found: list[str] = []
        waiting = [owner]
        while waiting:
            name = waiting.pop(0)
            if name not in found:
                found.append(name)
                waiting += self.parents.get(name, [])
        return found


def parse(text: str, words: list[str], name: str = "declarations.mm") -> Any:
    """Return the syntax tree of a text; a text that does not compile is an error that says why."""
    unit = cindex.Index.create().parse(name, words, unsaved_files=[(name, text)])
    bad = [str(found) for found in unit.diagnostics if found.severity >= cindex.Diagnostic.Error]
    if bad:
        raise ValueError("clang does not take it: " + "\n".join(bad[:10]))
    return unit


def compiler_words(database: Path) -> list[str]:
    """Return the words with which the simulator's build compiles Objective-C++, without files."""
    entries = json.loads(database.read_text())
    entry = next(item for item in entries if item["file"].endswith(_UNIT))
    words = iter(shlex.split(entry["command"])[1:])
    kept = []
    for word in words:
        if word in ("-o", "-c"):
            next(words)
        elif word == "-Xclang":
            # Without the precompiled header, which is named by two options of the compiler proper and their values.
            following = next(words)
            kept += [] if following == "-include" or "pch" in following else [word, following]
        else:
            kept.append(word)
    return kept


def read(words: list[str], text: str = _IMPORTS, inside: Path = INCLUDE) -> Declarations:
    """Return what a text declares in files of a folder, or in itself."""
    unit = parse(text, words)
    found = Declarations()
    for cursor in unit.cursor.get_children():
        file = cursor.location.file
        if file is None:
            continue
        path = Path(file.name)
        header = path.name if path.name == "declarations.mm" else ""
        if path.is_relative_to(inside) or path == _UPSTREAMS:
            header = path.name
        if header:
            _declaration(found, cursor, header)
    return found


def _declaration(found: Declarations, cursor: Any, header: str) -> None:
    kinds = cindex.CursorKind
    children = list(cursor.get_children())
    if cursor.kind in (kinds.OBJC_INTERFACE_DECL, kinds.OBJC_PROTOCOL_DECL, kinds.OBJC_CATEGORY_DECL):
        owner = cursor.spelling
        if cursor.kind == kinds.OBJC_CATEGORY_DECL:
            owner = next(item.spelling for item in children if item.kind == kinds.OBJC_CLASS_REF)
        elif cursor.kind == kinds.OBJC_INTERFACE_DECL:
            found.classes.add(owner)
        parents = found.parents.setdefault(owner, [])
        for item in children:
            if item.kind in (kinds.OBJC_SUPER_CLASS_REF, kinds.OBJC_PROTOCOL_REF):
                if item.spelling not in (*parents, owner):
                    parents.append(item.spelling)
                if item.kind == kinds.OBJC_SUPER_CLASS_REF:
                    found.superclasses[owner] = item.spelling
            elif item.kind in (kinds.OBJC_INSTANCE_METHOD_DECL, kinds.OBJC_CLASS_METHOD_DECL):
                sign = "-" if item.kind == kinds.OBJC_INSTANCE_METHOD_DECL else "+"
                key = f"{sign}[{owner} {item.spelling}]"
                types = tuple(
                    code_of(kind) for kind in (item.result_type, *(each.type for each in item.get_arguments()))
                )
                found.methods[key] = Method(key, owner, item.spelling, types, header)
    elif cursor.kind == kinds.ENUM_DECL:
        name = "" if cursor.is_anonymous() else cursor.spelling
        if name and cursor.is_definition():
            found.enums[name] = code_of(cursor.enum_type)
        for item in children:
            if item.kind == kinds.ENUM_CONSTANT_DECL:
                found.constants[item.spelling] = name
    elif cursor.kind == kinds.TYPEDEF_DECL:
        kind = cursor.underlying_typedef_type.get_canonical()
        if kind.kind == cindex.TypeKind.RECORD:
            found.structs[cursor.spelling] = code_of(kind)
        elif kind.kind in _INTEGERS:
            # A set of options is a plain integer with a name.
            found.enums.setdefault(cursor.spelling, _INTEGERS[kind.kind])
    elif cursor.kind == kinds.STRUCT_DECL and cursor.spelling and cursor.is_definition():
        found.structs.setdefault(cursor.spelling, code_of(cursor.type))


_KINDS = cindex.TypeKind
_INTEGERS = {
    _KINDS.BOOL: "B",
    _KINDS.CHAR_S: "c",
    _KINDS.SCHAR: "c",
    _KINDS.UCHAR: "C",
    _KINDS.SHORT: "s",
    _KINDS.USHORT: "S",
    _KINDS.INT: "i",
    _KINDS.UINT: "I",
    _KINDS.LONG: "q",
    _KINDS.ULONG: "Q",
    _KINDS.LONGLONG: "q",
    _KINDS.ULONGLONG: "Q",
}
_OTHERS = {
    _KINDS.VOID: "v",
    _KINDS.FLOAT: "f",
    _KINDS.DOUBLE: "d",
    _KINDS.OBJCOBJECTPOINTER: "@",
    _KINDS.OBJCID: "@",
    _KINDS.OBJCSEL: ":",
    _KINDS.BLOCKPOINTER: "@?",
    _KINDS.FUNCTIONPROTO: "?",
}


def code_of(kind: Any) -> str:
    """A type as Objective-C's codes have it: what decides registers and memory, and nothing else.

    Objects are `@` whatever their class, blocks `@?`, pointers `^` and what they point to, structs `{` their fields `}`.
    """
    kind = kind.get_canonical()
    if kind.spelling == "Class":
        return "#"
    if kind.kind in _INTEGERS or kind.kind in _OTHERS:
        return _INTEGERS.get(kind.kind) or _OTHERS[kind.kind]
    if kind.kind == _KINDS.ENUM:
        return code_of(kind.get_declaration().enum_type)
    if kind.kind == _KINDS.RECORD:
        return "{" + "".join(code_of(item.type) for item in kind.get_fields()) + "}"
    if kind.kind == _KINDS.CONSTANTARRAY:
        return f"[{kind.element_count}{code_of(kind.element_type)}]"
    if kind.kind in (_KINDS.POINTER, _KINDS.INCOMPLETEARRAY):
        code = code_of(kind.get_pointee() if kind.kind == _KINDS.POINTER else kind.element_type)
        return {"c": "*", ":": ":"}.get(code, f"^{code}")
    return str(kind.spelling)
