"""Headers out of Debian's packages, unpacked on any machine."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

from fork_tool.base.download import fetch_file, sha256_of
from fork_tool.base.mirrors import find_mirrors
from fork_tool.base.pin import Download
from fork_tool.common.errors import ForkToolError
from fork_tool.common.files import new_directory

_STAMP = ".mpsfork-package"
_MAGIC = b"!<arch>\n"


def unpack_headers(package: Download, cache: Path, into: Path) -> Path:
    """Download a package and unpack its `usr/include`; returns that folder."""
    stamp = into / _STAMP
    include = into / "usr" / "include"
    if stamp.is_file() and stamp.read_text() == package.sha256:
        return include
    file = fetch_file(package, find_mirrors({package.release}), cache)
    with new_directory(into) as new:
        _unpack(file, new)
        (new / _STAMP).write_text(sha256_of(file))
    return include


def _unpack(file: Path, into: Path) -> None:
    for name, content in _members(file.read_bytes(), file):
        if name.startswith("data.tar"):
            with tarfile.open(fileobj=io.BytesIO(content)) as archive:
                wanted = [member for member in archive if member.name.startswith("./usr/include")]
                archive.extractall(into, wanted, filter="data")
            return
    raise ForkToolError(f"{file} has no data in it: delete it and run this again.")


def _members(content: bytes, file: Path) -> Iterator[tuple[str, bytes]]:
    """The files of an `ar` archive."""
    if not content.startswith(_MAGIC):
        raise ForkToolError(f"{file} is no Debian package: delete it and run this again.")
    at = len(_MAGIC)
    while at + 60 <= len(content):
        name, size = content[at : at + 16].decode().strip().rstrip("/"), int(content[at + 48 : at + 58])
        yield name, content[at + 60 : at + 60 + size]
        at += 60 + size + size % 2
