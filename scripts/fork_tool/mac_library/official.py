"""The official wheel: downloaded by hash, its headers and libraries unpacked."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

from fork_tool.common.console import count_progress, say
from fork_tool.common.files import fill_once, need_space
from fork_tool.mac_library.pin import MacPin
from fork_tool.mac_library.places import MacPlaces
from fork_tool.mac_library.tools import read_library
from fork_tool.machine.package_index import fetch_pinned_wheel, PinnedWheel

_HEADERS, _LIBRARIES = "torch/include/", "torch/lib/"


def fetch_official(places: MacPlaces, pin: MacPin, python: str, cache: Path) -> Path:
    """The wheel in the cache, downloaded if it is not there; used only when its hash is right."""
    values = pin.official_wheel(python).model_dump()
    values |= {"requirement": f"torch=={pin.wheel_version}", "platform": pin.official_platform}
    wheel = PinnedWheel.model_validate(values)
    return fetch_pinned_wheel(wheel, cache, places.repository, "base.toml")


def unpack_official(places: MacPlaces, pin: MacPin, python: str, file: Path) -> Path:
    """The wheel's libraries, and its headers beside them; returns the folder `torch` that has the libraries.

    The headers are the same for all versions of Python, and so are the objects that are compiled with them.
    """
    with zipfile.ZipFile(file) as archive:
        _unpack(places, archive, _HEADERS, places.official_headers, _digest_of_headers(archive))
        _unpack(places, archive, _LIBRARIES, places.official(python), pin.official_wheel(python).sha256)
    return places.official(python) / "torch"


def _digest_of_headers(archive: zipfile.ZipFile) -> str:
    digest = hashlib.sha256()
    for entry in sorted(archive.infolist(), key=lambda entry: entry.filename):
        if entry.filename.startswith(_HEADERS):
            digest.update(f"{entry.filename} {entry.CRC:08x} {entry.file_size}\n".encode())
    return digest.hexdigest()


def _unpack(places: MacPlaces, archive: zipfile.ZipFile, part: str, into: Path, digest: str) -> None:
    def fill(new: Path) -> None:
        need_space(into, 400_000_000, f"Unpacking {part}")
        with count_progress() as progress:
            names = [name for name in archive.namelist() if name.startswith(part)]
            for name in progress.track(names, description=f"unpacking {part}"):
                archive.extract(name, new)
        say(f"unpacked {part} of the official wheel to {places.shown(into)}")

    fill_once(into, digest, fill)


def uuid_of(library: Path) -> bytes:
    """The 16 bytes by which Apple's tools know a library."""
    binary = read_library(library)
    return bytes(binary.uuid.uuid)
