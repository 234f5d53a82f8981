"""Remake facts/metal_cpp.toml: what Apple's C++ headers say of Metal's and Foundation's methods, classes, structs and enums.

    python remake_metal_facts.py FOLDER_OF_WHEELS

The wheels are those of facts_requirements.txt: two versions of mlx, whose metal-cpp is that of macOS 13.3 and that of
macOS 15. What both have was there in 13.3; what only the second has is newer.
"""

from __future__ import annotations

import re
import sys
import tempfile
import zipfile
from collections.abc import Container
from pathlib import Path
from typing import Any

from apple_declarations import cindex, parse
from apple_rows import write

FACTS = Path(__file__).parent / "facts" / "metal_cpp.toml"
_FOLDER = "mlx/include/metal_cpp/"
# Headers of macOS that metal-cpp includes, as far as it needs them.
_STAND_INS = {
    "CoreFoundation/CoreFoundation.h": "typedef double CFTimeInterval; typedef const void* CFTypeRef;\n",
    "math.h": "#define INFINITY __builtin_inff()\n",
    "CoreGraphics/CGGeometry.h": "struct CGSize { double width; double height; };\n",
    "IOSurface/IOSurfaceRef.h": "typedef struct __IOSurface* IOSurfaceRef;\n",
    "TargetConditionals.h": "#define TARGET_OS_OSX 1\n#define TARGET_OS_MAC 1\n#define TARGET_OS_IPHONE 0\n",
    "dispatch/dispatch.h": "typedef struct dispatch_queue_s* dispatch_queue_t;\n"
    "typedef struct dispatch_data_s* dispatch_data_t;\n",
    "mach/mach.h": "typedef int kern_return_t; typedef unsigned task_id_token_t;\n",
    "objc/runtime.h": "#include <dispatch/dispatch.h>\n#include <mach/mach.h>\n#include <stddef.h>\n"
    "struct objc_object { void* isa; };\n"
    "typedef struct objc_selector* SEL; typedef struct objc_object* id; typedef struct objc_class* Class;\n"
    "struct objc_method_description { SEL name; char* types; };\n"
    'extern "C" { SEL sel_registerName(const char*); Class objc_lookUpClass(const char*); '
    "void* objc_getProtocol(const char*); Class object_getClass(id); }\n",
    "objc/message.h": '#include <objc/runtime.h>\nextern "C" void objc_msgSend(); extern "C" void objc_msgSend_stret(); '
    'extern "C" void objc_msgSend_fpret();\n',
}
# Pointers to these are objects of the runtime; what `dispatch` calls handles are, too.
_OBJECTS = ("objc_object", "dispatch_queue_s", "dispatch_data_s")
_NAMES = {"MTL": "MTL", "NS": "NS"}
# Enums that metal-cpp declares for itself, and Foundation otherwise.
_NOT_APPLES = {"NSStringCompareOptions"}


def facts_of(wheel: Path) -> dict[str, Any]:
    """Return methods by owner and selector, structs and enums, of the metal-cpp in one wheel."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder, [item for item in archive.namelist() if item.startswith(_FOLDER)])
        for path, text in _STAND_INS.items():
            (folder / "stand_ins" / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / "stand_ins" / path).write_text("#pragma once\n" + text)
        headers = folder / _FOLDER
        unit = parse(
            "#include <math.h>\n#include <Foundation/Foundation.hpp>\n#include <Metal/Metal.hpp>\n",
            ["-x", "c++", "-std=c++17", "-fblocks", "-w", f"-I{headers}", f"-I{folder / 'stand_ins'}"],
        )
        selectors = {
            framework: dict(
                re.findall(
                    r"_PRIVATE_DEF_SEL\(\s*(\w+),\s*\"([^\"]+)\"",
                    "".join(path.read_text() for path in (headers / folder_name).glob("*.hpp")),
                )
            )
            for framework, folder_name in (("MTL", "Metal"), ("NS", "Foundation"))
        }
        named = re.findall(
            r"_PRIVATE_DEF_(CLS|PRO)\(\s*(?:_MTL\w*,\s*)?(\w+)\s*\)",
            "".join(path.read_text() for path in headers.glob("*/*HeaderBridge.hpp"))
            + "".join(path.read_text() for path in (headers / "Foundation").glob("*.hpp")),
        )
        classes = {name for _kind, name in named} - {"symbol"}
        found = {**_Reader(selectors).read(unit.cursor), "classes": sorted(classes)}
        # Protocols are classes in C++, too.
        own = {name for kind, name in named if kind == "CLS"}
        found["superclasses"] = {name: parent for name, parent in found["superclasses"].items() if name in own}
        return found


class _Reader:
    def __init__(self, selectors: dict[str, dict[str, str]]) -> None:
        self.selectors = selectors
        self.methods: dict[str, str] = {}
        self.structs: dict[str, Any] = {}
        self.enums: dict[str, str] = {}
        self.superclasses: dict[str, str] = {}
        self.texts: dict[str, bytes] = {}

    def read(self, root: Any) -> dict[str, Any]:
        for space in root.get_children():
            if space.kind == cindex.CursorKind.NAMESPACE and space.spelling in _NAMES:
                self._namespace(space)
            elif space.kind == cindex.CursorKind.CXX_METHOD:
                self._definition(space)
        return {
            "methods": self.methods,
            "structs": self.structs,
            "enums": self.enums,
            "superclasses": self.superclasses,
        }

    def _namespace(self, space: Any) -> None:
        for item in space.get_children():
            if item.kind == cindex.CursorKind.ENUM_DECL and not item.is_anonymous():
                name = _NAMES[space.spelling] + item.spelling
                if name not in _NOT_APPLES:
                    self.enums[name] = self.code(item.enum_type)
            elif item.kind in (cindex.CursorKind.TYPE_ALIAS_DECL, cindex.CursorKind.TYPEDEF_DECL):
                # Sets of options are plain integers with a name.
                code = self._integer(item.underlying_typedef_type)
                if code:
                    self.enums[_NAMES[space.spelling] + item.spelling] = code
            elif (
                item.kind not in (cindex.CursorKind.STRUCT_DECL, cindex.CursorKind.CLASS_DECL)
                or not item.is_definition()
            ):
                continue
            elif parent := _superclass(item):
                self.superclasses[_NAMES[space.spelling] + item.spelling] = parent
            elif _is_plain(item):
                kind = item.type
                if any(field.is_anonymous() for field in kind.get_fields()):
                    continue
                self.structs[_NAMES[space.spelling] + item.spelling] = {
                    "size": kind.get_size(),
                    "fields": [[field.spelling, self.code(field.type)] for field in kind.get_fields()],
                }

    def _integer(self, kind: Any) -> str:
        try:
            code = self.code(kind)
        except KeyError:
            return ""
        return code if code in ("c", "C", "s", "S", "i", "I", "q", "Q") else ""

    def _text(self, path: str) -> bytes:
        if path not in self.texts:
            self.texts[path] = Path(path).read_bytes()
        return self.texts[path]

    def _definition(self, method: Any) -> None:
        owner = method.semantic_parent
        space = owner.semantic_parent.spelling
        if space not in _NAMES:
            return
        # Definitions begin with a macro, where clang finds no tokens.
        text = self._text(method.location.file.name)[method.extent.start.offset : method.extent.end.offset]
        named = set(re.findall(rb"_PRIVATE_SEL\(\s*(\w+)", text))
        arguments = list(method.get_arguments())
        types = [argument.type for argument in arguments]
        if len(named) != 1 or any("std::function" in kind.get_canonical().spelling for kind in types):
            return
        selector = self.selectors[space].get(named.pop().decode())
        if selector is None or selector.count(":") != len(types):
            return
        sign = "+" if method.is_static_method() else "-"
        codes = " ".join(map(self.code, (method.result_type, *types)))
        key = f"{sign}[{_NAMES[space]}{owner.spelling} {selector}]"
        before = self.methods.setdefault(key, codes)
        if before != codes and "?" not in (before + codes):
            # Overloads for const and not const say the same; anything else is for a person to look at.
            raise SystemExit(f"{key} is {before} and {codes}")

    def code(self, kind: Any) -> str:
        """Return the normal form of a C++ type of metal-cpp."""
        kind = kind.get_canonical()
        of = cindex.TypeKind
        if kind.kind == of.ENUM:
            return self.code(kind.get_declaration().enum_type)
        if kind.kind in (of.POINTER, of.LVALUEREFERENCE):
            return self._pointer(kind.get_pointee())
        if kind.kind in (of.CONSTANTARRAY, of.INCOMPLETEARRAY):
            if kind.kind == of.INCOMPLETEARRAY:
                return self._pointer(kind.element_type)
            return f"[{kind.element_count}{self.code(kind.element_type)}]"
        if kind.kind == of.BLOCKPOINTER:
            return "@?"
        if kind.kind == of.RECORD:
            return "{" + "".join(self.code(field.type) for field in kind.get_fields()) + "}"
        simple = {
            of.VOID: "v",
            of.BOOL: "B",
            of.FLOAT: "f",
            of.DOUBLE: "d",
            of.CHAR_S: "c",
            of.SCHAR: "c",
            of.UCHAR: "C",
            of.SHORT: "s",
            of.USHORT: "S",
            of.INT: "i",
            of.UINT: "I",
            of.LONG: "q",
            of.ULONG: "Q",
            of.LONGLONG: "q",
            of.ULONGLONG: "Q",
        }
        return simple[kind.kind]

    def _pointer(self, pointee: Any) -> str:
        of = cindex.TypeKind
        pointee = pointee.get_canonical()
        if pointee.kind == of.RECORD:
            declaration = pointee.get_declaration()
            if declaration.spelling == "objc_selector":
                return ":"
            if declaration.spelling == "objc_class":
                return "#"
            if declaration.spelling in _OBJECTS:
                return "@"
            inside = declaration.semantic_parent.spelling in _NAMES
            definition = declaration.get_definition()
            if inside and (definition is None or not _is_plain(definition)):
                return "@"
            return "^" + (self.code(pointee) if definition is not None else "{}")
        if pointee.kind in (of.CHAR_S, of.SCHAR, of.UCHAR):
            return "*"
        if pointee.kind == of.UNEXPOSED:
            # A template's argument, which is always a class.
            return "@"
        if pointee.kind == of.FUNCTIONPROTO:
            return "^?"
        return "^" + self.code(pointee)


def _superclass(record: Any) -> str:
    """The class that a class of metal-cpp stands for is derived from: its base, or what the base wraps; empty if it has none."""
    for child in record.get_children():
        if child.kind == cindex.CursorKind.CXX_BASE_SPECIFIER:
            kind = child.type.get_canonical()
            if kind.get_num_template_arguments() == 2:
                # NS::Copying<Class, Base> and its kin, where the base is NS::Object if none is given.
                kind = kind.get_template_argument_type(1).get_canonical()
            declaration = kind.get_declaration()
            space = declaration.semantic_parent.spelling if declaration.semantic_parent else ""
            if space in _NAMES:
                return f"{_NAMES[space]}{declaration.spelling}"
    return ""


def _is_plain(record: Any) -> bool:
    return not any(child.kind == cindex.CursorKind.CXX_BASE_SPECIFIER for child in record.get_children())


def main(folder: Path) -> None:
    """Write the table from the two wheels in the folder."""
    (old,) = folder.glob("mlx-0.0.10-*.whl")
    (new,) = folder.glob("mlx-0.18.1-*.whl")
    before, now = facts_of(old), facts_of(new)
    methods = {**before["methods"], **now["methods"]}
    for key in before["methods"].keys() & now["methods"].keys():
        if before["methods"][key] != now["methods"][key]:
            print(f"{key} was {before['methods'][key]} in 13.3 and is {now['methods'][key]}", file=sys.stderr)
    table: dict[str, Any] = {
        "methods": {key: f"{codes} {_since(key, before['methods'])}" for key, codes in methods.items()},
        "classes": {name: _since(name, before["classes"]) for name in now["classes"]},
        **{section: now[section] for section in ("superclasses", "structs", "enums")},
    }
    write(FACTS, "metal-cpp", table)


def _since(name: str, before: Container[str]) -> str:
    return "13.3" if name in before else "15.0"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("Name the folder of the wheels: `pip download --no-deps -r facts_requirements.txt -d FOLDER`.")
    main(Path(sys.argv[1]))
