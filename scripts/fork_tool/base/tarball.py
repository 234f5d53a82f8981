"""From the source tarball to a git checkout with one commit."""

from __future__ import annotations

import io
import lzma
import tarfile
from pathlib import Path
from typing import IO

from fork_tool.base.pin import Pin
from fork_tool.common.console import byte_progress
from fork_tool.common.errors import ForkToolError
from fork_tool.common.git import Git

# Unpacked source and its git objects.
NEEDED_BYTES = 700_000_000


class _Counted(io.RawIOBase):
    """A file that tells how far it was read."""

    def __init__(self, stream: IO[bytes], report: object):
        self._stream = stream
        self._report = report

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        data = self._stream.read(len(buffer))
        buffer[: len(data)] = data
        if callable(self._report):
            self._report(len(data))
        return len(data)


def unpack(tarball: Path, directory: Path) -> None:
    """Unpack a tarball that has one directory at its top, without that directory."""
    directory.mkdir(parents=True)
    try:
        with tarball.open("rb") as stream, byte_progress() as progress:
            task = progress.add_task("unpacking", total=tarball.stat().st_size)
            counted = io.BufferedReader(_Counted(stream, lambda count: progress.advance(task, count)), 1 << 20)
            # Not tarfile's own "r|xz", which takes a cut file for a short one.
            with lzma.open(counted) as plain, tarfile.open(fileobj=plain, mode="r|") as archive:
                for member in archive:
                    _, slash, inside = member.name.removeprefix("./").partition("/")
                    if not slash or not inside:
                        continue
                    member.name = inside
                    if hasattr(tarfile, "data_filter"):
                        archive.extract(member, directory, filter="data")
                    else:
                        archive.extract(member, directory)
    except (tarfile.TarError, lzma.LZMAError, EOFError) as problem:
        raise ForkToolError(f"{tarball} could not be unpacked ({problem}): delete it and run it again.") from None


def commit_tree(directory: Path, pin: Pin, name: str) -> str:
    """Make a repository of an unpacked tree: one commit that is the same everywhere."""
    git = Git(directory)
    git.run("init", "--quiet", "--initial-branch", "base", "--template=")
    for setting, value in (("core.autocrlf", "false"), ("core.fileMode", "true"), ("gc.auto", "0")):
        git.run("config", setting, value)
    git.run("add", "--force", "--all")
    tree = git.text("write-tree")
    commit = git.commit_tree(pin.date, tree, f"PyTorch {pin.tag}, as in {name}\n", ())
    git.run("update-ref", "refs/heads/base", commit)
    return tree
