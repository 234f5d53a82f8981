"""The series' Python files and headers, as they go over the official wheel's."""

from collections.abc import Callable

from fork_tool.base.checkout import Checkout
from fork_tool.common.errors import ForkToolError
from fork_tool.mac_library.pin import MacPin
from fork_tool.mac_library.places import MacPlaces

_TEMPLATE, _STUBS = "torch/_C/__init__.pyi.in", "torch/_C/__init__.pyi"
_INIT, _VERSION = "torch/__init__.py", "torch/version.py"
_EXTENSIONS = "torch/utils/cpp_extension.py"
# The headers of the backend, which the base installs by their folders.
_BACKEND_HEADERS = ("aten/src/ATen/mps/", "aten/src/ATen/native/mps/")
# C functions that the library exports and the official one does not have.
_SHIM = "torch/csrc/inductor/aoti_torch/c/shim_mps.h"
# Where the series changes what a wheel has, and where the headers go.
_ROOTS = ("torch", "aten/src/ATen", "c10")
_INCLUDE = "torch/include/"
_IMPORT = "from torch._C import *  # noqa: F403\n"
_LIBRARY = "torch_mps_graph"
# The linker takes a function from the first library that has it, so each line is put before the first of torch's.
_PLACES = {
    "    libraries.append('c10')\n": f"    if IS_MACOS:\n        libraries.append('{_LIBRARY}')\n",
    "        extra_ldflags.append('-lc10')\n": (
        # A program has no Python, and so nothing that puts the library's backend in charge.
        f"        if IS_MACOS and not is_standalone:\n            extra_ldflags.append('-l{_LIBRARY}')\n"
    ),
}

Read = Callable[[str], bytes | None]


def changed_files(places: MacPlaces, pin: MacPin, checkout: Checkout, official: Read) -> dict[str, bytes]:
    """What the wheel has otherwise than the official one, by its path in the wheel; `official` reads that one's files.

    A file that the series changes must be in the official wheel as it is in the base: else something is lost.
    """
    found: dict[str, bytes] = {}
    names = checkout.git.names("diff", "--name-only", "-z", "--no-renames", checkout.base, "--", *_ROOTS)
    untracked = checkout.git.names("ls-files", "-z", "--others", "--exclude-standard", "--", *_ROOTS)
    for name in sorted({*names, *untracked}):
        path = checkout.git.directory / name
        if name == _TEMPLATE:
            found[_STUBS] = _with_added_stubs(checkout, _required(official, _STUBS))
        elif name.endswith((".py", ".pyi")):
            if not path.is_file():
                raise ForkToolError(f"The series removes {name}, and a wheel made of the official one keeps it.")
            content = path.read_bytes()
            if content != official(name):
                _refuse_other_base(checkout, name, official(name))
                found[name] = content
        elif name.endswith(".h") and (name == _SHIM or _installed(name, official)):
            installed = _INCLUDE + name.removeprefix("aten/src/")
            if path.is_file() and path.read_bytes() != official(installed):
                _refuse_other_base(checkout, name, official(installed))
                found[installed] = path.read_bytes()
    for path in sorted((places.own / "python").rglob("*.py")):
        found[f"torch/{path.relative_to(places.own / 'python')}"] = path.read_bytes()
    text = found.get(_INIT, _required(official, _INIT)).decode()
    found[_INIT] = with_loader(text).encode()
    text = found.get(_EXTENSIONS, _required(official, _EXTENSIONS)).decode()
    found[_EXTENSIONS] = with_library(text).encode()
    found[_VERSION] = _with_version(pin, _required(official, _VERSION))
    return found


def _installed(name: str, official: Read) -> bool:
    """Whether the base's own build would put this header into the wheel."""
    return name.startswith(_BACKEND_HEADERS) or official(_INCLUDE + name.removeprefix("aten/src/")) is not None


def _required(official: Read, name: str) -> bytes:
    content = official(name)
    if content is None:
        raise ForkToolError(f"The official wheel has no {name}: base.toml names another kind of wheel.")
    return content


def _refuse_other_base(checkout: Checkout, name: str, official: bytes | None) -> None:
    base = checkout.git.run("show", f"{checkout.base}:{name}", check=False)
    before = base.stdout if base.returncode == 0 else None
    if before != official:
        raise ForkToolError(
            f"{name} of the official wheel is not the base's, which the series changes: base.toml must name wheel and source "
            "of the same release."
        )


def _with_version(pin: MacPin, content: bytes) -> bytes:
    text = content.decode()
    line = f"__version__ = '{pin.wheel_version}'\n"
    if text.count(line) != 1:
        raise ForkToolError(
            f"torch/version.py of the official wheel has no line {line.strip()}: it is another release."
        )
    return text.replace(line, f"__version__ = '{pin.version}'\n").encode()


def _with_added_stubs(checkout: Checkout, generated: bytes) -> bytes:
    """The generated stubs with the lines that the series adds to their template, each after the line that it follows."""
    changes = checkout.git.run("diff", "--unified=1", checkout.base, "--", _TEMPLATE).stdout.decode().splitlines()
    text = generated.decode()
    before, added = "", []
    for line in [*changes, "@@"]:
        if line.startswith("+") and not line.startswith("+++"):
            added.append(line[1:])
        elif line.startswith("-") and not line.startswith("---"):
            raise ForkToolError(
                f"The series changes lines of {_TEMPLATE}; only added ones can be brought into the wheel."
            )
        elif added:
            place = f"{before}\n"
            if not before or text.count(place) != 1:
                raise ForkToolError(
                    f"{_STUBS} of the official wheel has no line {before!r}, which the series' lines follow."
                )
            text = text.replace(place, place + "".join(f"{each}\n" for each in added))
            added = []
        if line.startswith(" "):
            before = line[1:]
    return text.encode()


def with_loader(text: str) -> str:
    """Returns torch/__init__.py with a line before and a line after each place where it imports `torch._C`.

    Raises ForkToolError if the file has no such place, or has the lines already.
    """
    if "_mps_graph_loader" in text:
        raise ForkToolError("torch/__init__.py calls the loader of torch.mps's graphs already: take the official file.")
    lines = text.splitlines(keepends=True)
    places = [index for index, line in enumerate(lines) if line.lstrip() == _IMPORT]
    if not places:
        raise ForkToolError("torch/__init__.py imports torch._C in no place that the loader knows: look at the base.")
    for index in reversed(places):
        indent = lines[index][: -len(lines[index].lstrip())]
        # The library must be there before torch._C: its import asks whether there is an MPS device.
        before = "from torch import _mps_graph_loader; _mps_graph_loader.take_over()  # noqa: E702\n"
        lines[index : index + 1] = [indent + before, lines[index], f"{indent}_mps_graph_loader.bind()\n"]
    return "".join(lines)


def with_library(text: str) -> str:
    """Returns torch/utils/cpp_extension.py that links extensions for macOS with the library, before torch's own.

    Raises ForkToolError if the file does not have the lines it knows, or has this already.
    """
    if _LIBRARY in text:
        raise ForkToolError("torch/utils/cpp_extension.py links with the library already: take the official file.")
    for place, added in _PLACES.items():
        if place not in text:
            raise ForkToolError(
                f"torch/utils/cpp_extension.py has no line {place.strip()!r} before which to link: look at the base."
            )
        # The first: others are for CUDA.
        text = text.replace(place, added + place, 1)
    return text
