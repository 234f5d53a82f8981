"""The build of the objects, as a file for ninja: it compiles what changed, and shows how far it is."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from fork_tool.mac_library.kernels import kernel_files
from fork_tool.mac_library.pin import MacPin
from fork_tool.mac_library.places import MacPlaces
from fork_tool.mac_library.sources import BINDINGS, OPERATIONS, Precompiled, TENSORS, Unit, units, words

_METAL_HEADER = "test/simulator/cmake/metal_header.py"
_SUM = "scripts/fork_tool/mac_library/sum_of_headers.py"


def object_of(places: MacPlaces, unit: Unit, python: str) -> Path:
    """Where the object of a source lies."""
    directory = places.of_python(python) if unit.of_python else places.root
    return directory / "objects" / f"{unit.object}.o"


def precompiled_of(places: MacPlaces, header: Precompiled, python: str) -> Path:
    """Where a header lies that is read once."""
    directory = places.of_python(python) if header.of_python else places.root
    return directory / "objects" / f"{header.name}.pch"


def objects(places: MacPlaces, checkout: Path, python: str) -> list[Path]:
    """All objects of the library for one version of Python."""
    return [object_of(places, unit, python) for unit in units(places, checkout)]


def ninja_text(
    places: MacPlaces,
    pin: MacPin,
    checkout: Path,
    python: str,
    headers: Path,
    interpreter: Path,
    kernels_as_source: bool,
) -> str:
    """The file; all paths are from the repository's root, where ninja runs."""
    shown = places.shown
    common, generated = words(places, pin, checkout, kernels_as_source), places.generated
    aten = checkout / "aten" / "src" / "ATen"
    kernels = kernel_files(checkout) if kernels_as_source else []
    metal_headers = [generated / "ATen" / "native" / "mps" / f"{kernel.stem}_metallib.h" for kernel in kernels]
    stamp = generated / "torchgen.stamp"
    torchgen_inputs = [
        *(path for path in sorted((aten / "templates").rglob("*")) if path.is_file()),
        *sorted((checkout / "torchgen").rglob("*.py")),
        aten / "native" / "native_functions.yaml",
        aten / "native" / "tags.yaml",
    ]
    own_headers = [headers, places.of_python(python) / "include"]
    lines = [
        *beginning(shown(places.root)),
        f"words = {' '.join(map(escaped, common))}",
        f"python_words = {' '.join(f'-I{escaped(shown(path))}' for path in own_headers)}",
        f"compiler = {cached(shown(places.compiler))}",
        f"interpreter = {escaped(shown(interpreter))}",
        *compile_rule("$compiler $words $more -x $language", "compiling $what"),
        # Not from the cache: a precompiled header holds the folder that it was made in. Its sum does not, so that the
        # objects made with it are found from another folder.
        *rule(
            "precompile",
            f"{escaped(shown(places.compiler))} $words $more -x ${{language}}-header $in -o $out -MD -MF $out.d && "
            f"$interpreter -I {_SUM} $out.d $out.sum",
            "reading $in",
        ),
        *rule(
            "torchgen",
            f"cd {shown(checkout)} && PYTHONDONTWRITEBYTECODE=1 $absolute_interpreter -m torchgen.gen --mps "
            "--per-operator-headers --generate headers sources --source-path aten/src/ATen "
            "--install_dir $generated/ATen --aoti_install_dir $generated/aoti_torch && touch $generated/torchgen.stamp",
            "generating the registrations of the operators",
        ),
        *rule(
            "metal_header",
            f"$interpreter -I {_METAL_HEADER} $in $out --include {shown(checkout)} "
            f"--include {shown(checkout / 'aten' / 'src')} --depfile $out.d",
            "wrapping $in",
            "$out.d",
        ),
        f"build {shown(stamp)} | {shown(generated / 'ATen' / 'RegisterMPS.cpp')}: torchgen | {_joined(places, torchgen_inputs)}",
        f"  absolute_interpreter = {interpreter}",
        f"  generated = {generated}",
    ]
    for kernel, header in zip(kernels, metal_headers):
        lines += [f"build {shown(header)}: metal_header {shown(kernel)} | {_METAL_HEADER}"]
    ready = f"{shown(stamp)} {_joined(places, metal_headers)}"
    for read_once in (OPERATIONS, TENSORS, BINDINGS):
        target = shown(precompiled_of(places, read_once, python))
        lines += [f"build {target} | {target}.sum: precompile {shown(checkout / read_once.header)} | {_SUM} || {ready}"]
        lines += [f"  depfile = {target}.d", "  deps = gcc", f"  language = {read_once.language}"]
        lines += ["  more = $python_words"] if read_once.of_python else []
    for unit in units(places, checkout):
        target = shown(object_of(places, unit, python))
        precompiled = shown(precompiled_of(places, unit.precompiled, python)) if unit.precompiled else ""
        before = f" | {precompiled}" if precompiled else ""
        more = f"-include-pch {precompiled} " if precompiled else ""
        lines += [f"build {target}: compile {shown(unit.source)}{before} || {ready}"]
        lines += [f"  language = {unit.language}", f"  what = {unit.object}"]
        lines += [f"  more = {more}{'$python_words' if unit.of_python else ''}"]
    lines += [f"build objects: phony {_joined(places, objects(places, checkout, python))}", "default objects", ""]
    return "\n".join(lines)


def _joined(places: MacPlaces, paths: Iterable[Path]) -> str:
    return " ".join(places.shown(path) for path in paths)


def beginning(folder: str) -> list[str]:
    """The first lines; ninja keeps what it knows in the folder."""
    return ["ninja_required_version = 1.8", f"builddir = {folder}"]


def rule(name: str, command: str, description: str, depfile: str = "") -> Iterable[str]:
    """A rule; the file of dependencies is one as compilers write it."""
    yield f"rule {name}"
    yield f"  command = {command}"
    yield f"  description = {description}"
    if depfile:
        yield f"  depfile = {depfile}"
        yield "  deps = gcc"


def compile_rule(words: str, description: str = "compiling $in") -> Iterable[str]:
    """The rule `compile`, of a compiler and its words."""
    return rule("compile", f"{words} -MD -MF $out.d -c $in -o $out", description, "$out.d")


def cached(compiler: str) -> str:
    """The compiler as a command, with the compiler's cache where there is one."""
    return f"{'ccache ' if shutil.which('ccache') else ''}{escaped(compiler)}"


def escaped(word: str) -> str:
    """A word in which ninja sees nothing of its own."""
    return word.replace("$", "$$").replace(" ", "$ ")
