"""The series' Python files and headers, as they go over the official wheel's."""

from __future__ import annotations

from collections.abc import Callable

from fork_tool.checkout import Checkout
from fork_tool.errors import ForkToolError
from fork_tool.extension_lines import with_library
from fork_tool.loader_lines import with_loader
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
