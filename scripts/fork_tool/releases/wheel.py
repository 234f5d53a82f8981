"""The release's wheel for a Mac: what is unpacked of it, and what its libraries say: names given and taken, selectors."""

import contextlib
import json
import tempfile
import zipfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fork_tool.common.console import count_progress, say
from fork_tool.common.errors import ForkToolError
from fork_tool.common.files import fill_once, need_space, write_atomically
from fork_tool.mac_library.places import TORCH_LIBRARIES
from fork_tool.mac_library.symbols import imports_of
from fork_tool.mac_library.tools import read_library
from fork_tool.releases.release import ReleasePin, ReleasePlaces

BACKEND = "libtorch_cpu.dylib"


@dataclass(frozen=True)
class Facts:
    """All lists are sorted."""

    sha256: str
    # What torch's libraries give to others.
    exports: list[str]
    # What they take from others, by the install name of the library that has it.
    imports: dict[str, list[str]]
    # What the backend sends to objects.
    selectors: list[str]


def read_facts(libraries: Path, sha256: str) -> Facts:
    exports: set[str] = set()
    imports: dict[str, set[str]] = {}
    selectors: list[str] = []
    for name in TORCH_LIBRARIES:
        binary = read_library(libraries / name)
        exports |= {symbol.name for symbol in binary.exported_symbols}
        for each in imports_of(binary):
            imports.setdefault(each.library, set()).add(each.name)
        if name == BACKEND:
            selectors = selectors_of(binary)
    return Facts(
        sha256, sorted(exports), {library: sorted(found) for library, found in sorted(imports.items())}, selectors
    )


def selectors_of(binary: Any) -> list[str]:
    for section in binary.sections:
        if section.name == "__objc_methname":
            return sorted(name.decode() for name in bytes(section.content).split(b"\0") if name)
    return []


_HEADERS, _LIBRARIES = "torch/include/", "torch/lib/"
_ENDINGS = (".py", ".pyi")


def unpack_wheel(places: ReleasePlaces, pin: ReleasePin, file: Path) -> None:
    """Lay the wheel's headers and Python files below build/releases."""

    def fill(new: Path) -> None:
        need_space(places.root, 500_000_000, "Unpacking the wheel")
        with zipfile.ZipFile(file) as archive, count_progress() as progress:
            names = [name for name in archive.namelist() if name.startswith(_HEADERS) or name.endswith(_ENDINGS)]
            for name in progress.track(names, description=f"unpacking {file.name}"):
                archive.extract(name, new)
        say(f"unpacked {len(names)} headers and Python files of {file.name} to {places.layout.shown(places.wheel)}")

    fill_once(places.wheel, pin.wheel.sha256, fill)


def facts_of(places: ReleasePlaces, pin: ReleasePin, file: Path) -> Facts:
    """What the wheel's libraries say; they are large, read once, and not kept."""
    with contextlib.suppress(OSError, ValueError, TypeError):
        facts = Facts(**json.loads(places.facts.read_text("utf-8")))
        if facts.sha256 == pin.wheel.sha256:
            return facts
    need_space(places.root, 500_000_000, "Reading the wheel's libraries")
    say(f"reading the names in the libraries of {file.name}")
    places.root.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix=".mpsfork-libraries-", dir=places.root) as scratch,
        zipfile.ZipFile(file) as archive,
    ):
        for name in TORCH_LIBRARIES:
            try:
                archive.extract(_LIBRARIES + name, scratch)
            except KeyError:
                raise ForkToolError(
                    f"{file.name} has no {_LIBRARIES}{name}: the pin names another kind of wheel."
                ) from None
        facts = read_facts(Path(scratch) / _LIBRARIES, pin.wheel.sha256)
    write_atomically(places.facts, json.dumps(asdict(facts)).encode())
    return facts
