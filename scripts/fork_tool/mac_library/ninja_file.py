"""The build of the objects, as a file for ninja: it compiles what changed, and shows how far it is."""

import importlib
import io
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

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
    shown, generated = places.shown, places.generated
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
    file = NinjaFile(places, places.root)
    file.variable("words", words(places, pin, checkout, kernels_as_source))
    file.variable("python_words", [f"-I{shown(path)}" for path in (headers, places.of_python(python) / "include")])
    file.variable("interpreter", shown(interpreter))
    file.compile_rule(f"{cached(shown(places.compiler))} $words $more -x $language", "compiling $what")
    # Not from the cache: a precompiled header holds the folder that it was made in. Its sum does not, so that the
    # objects made with it are found from another folder.
    file.rule(
        "precompile",
        f"{shown(places.compiler)} $words $more -x ${{language}}-header $in -o $out -MD -MF $out.d && "
        f"$interpreter -I {_SUM} $out.d $out.sum",
        "reading $in",
    )
    file.rule(
        "torchgen",
        f"cd {shown(checkout)} && PYTHONDONTWRITEBYTECODE=1 {interpreter} -m torchgen.gen --mps "
        "--per-operator-headers --generate headers sources --source-path aten/src/ATen "
        f"--install_dir {generated}/ATen --aoti_install_dir {generated}/aoti_torch && touch {stamp}",
        "generating the registrations of the operators",
    )
    file.rule("metal_header", f"$interpreter -I {_METAL_HEADER} $in $out", "wrapping $in")
    registrations = generated / "ATen" / "RegisterMPS.cpp"
    file.build(stamp, "torchgen", implicit=torchgen_inputs, implicit_outputs=[registrations])
    for kernel, header in zip(kernels, metal_headers):
        file.build(header, "metal_header", [kernel], [places.repository / _METAL_HEADER])
    ready = [stamp, *metal_headers]
    for read_once in (OPERATIONS, TENSORS, BINDINGS):
        target = precompiled_of(places, read_once, python)
        file.build(
            target,
            "precompile",
            [checkout / read_once.header],
            [places.repository / _SUM],
            ready,
            [Path(f"{target}.sum")],
            depfile=f"{shown(target)}.d",
            deps="gcc",
            language=read_once.language,
            more="$python_words" if read_once.of_python else "",
        )
    for unit in units(places, checkout):
        precompiled = precompiled_of(places, unit.precompiled, python) if unit.precompiled else None
        more = f"-include-pch {shown(precompiled)} " if precompiled else ""
        file.build(
            object_of(places, unit, python),
            "compile",
            [unit.source],
            [precompiled] if precompiled else [],
            ready,
            language=unit.language,
            what=unit.object,
            more=f"{more}{'$python_words' if unit.of_python else ''}",
        )
    return file.text()


class NinjaFile:
    """A file for ninja by its own writer, with paths from the repository's root."""

    def __init__(self, places: MacPlaces, folder: Path):
        """`folder` is where ninja keeps its log."""
        sys.path.append(str(places.tools))
        self._syntax: Any = importlib.import_module("ninja.ninja_syntax")
        self._writer = self._syntax.Writer(io.StringIO(), width=1_000_000)
        self._shown = places.shown
        self.rule = self._writer.rule
        self._writer.variable("ninja_required_version", "1.8")
        self._writer.variable("builddir", places.shown(folder))

    def variable(self, name: str, value: str | list[str]) -> None:
        self._writer.variable(name, self._syntax.escape(value if isinstance(value, str) else " ".join(value)))

    def compile_rule(self, command: str, description: str = "compiling $in") -> None:
        """The rule `compile`, of a compiler and its words."""
        self.rule("compile", f"{command} -MD -MF $out.d -c $in -o $out", description, depfile="$out.d", deps="gcc")

    def build(
        self,
        output: Path,
        rule: str,
        inputs: Iterable[Path] = (),
        implicit: Iterable[Path] = (),
        order_only: Iterable[Path] = (),
        implicit_outputs: Iterable[Path] = (),
        **variables: str,
    ) -> None:
        before = [[*map(self._shown, paths)] for paths in (inputs, implicit, order_only)]
        after = [*map(self._shown, implicit_outputs)]
        given = {name: value for name, value in variables.items() if value}
        self._writer.build([self._shown(output)], rule, *before, variables=given, implicit_outputs=after)

    def text(self) -> str:
        return str(self._writer.output.getvalue())


def cached(compiler: str) -> str:
    """The compiler as a command, with the compiler's cache if there is one."""
    return f"{'ccache ' if shutil.which('ccache') else ''}{compiler}"
