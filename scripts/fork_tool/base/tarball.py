"""From the source tarball to a git checkout with one commit, and files out of Debian's packages."""

import io
import lzma
import tarfile
from pathlib import Path

from fork_tool.base.pin import Pin
from fork_tool.common.console import byte_progress
from fork_tool.common.errors import ForkToolError
from fork_tool.common.git import Git

# Unpacked source and its git objects.
NEEDED_BYTES = 700_000_000
_AR = b"!<arch>\n"


def unpack(tarball: Path, directory: Path) -> None:
    """Unpack a tarball that has one directory at its top, without that directory."""
    directory.mkdir(parents=True, exist_ok=True)
    try:
        with (
            byte_progress() as progress,
            progress.open(tarball, "rb", description="unpacking") as stream,
            # Not tarfile's own "r|xz", which takes a cut file for a short one.
            lzma.open(stream) as plain,
            tarfile.open(fileobj=plain, mode="r|") as archive,
        ):
            _stay_inside(archive)
            for member in archive:
                _, slash, inside = member.name.removeprefix("./").partition("/")
                if slash and inside:
                    member.name = inside
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


def unpack_package(file: Path, into: Path, below: str) -> None:
    """Unpack what a Debian package has below a path like `./usr`: an `ar` archive of tarballs, on machines without dpkg too."""
    content, at = file.read_bytes(), len(_AR)
    while content.startswith(_AR) and at + 60 <= len(content):
        name, size = content[at : at + 16].decode(), int(content[at + 48 : at + 58])
        if name.startswith("data.tar"):
            with tarfile.open(fileobj=io.BytesIO(content[at + 60 : at + 60 + size])) as archive:
                wanted = [member for member in archive if member.name.startswith(below)]
                _stay_inside(archive)
                archive.extractall(into, wanted)
            return
        at += 60 + size + size % 2
    raise ForkToolError(f"{file} is no Debian package: delete it and run this again.")


def _stay_inside(archive: tarfile.TarFile) -> None:
    """Refuse members that lead out of the directory. Python 3.11 can from 3.11.4 on, which Debian 12 does not have."""
    if hasattr(tarfile, "data_filter"):
        archive.extraction_filter = tarfile.data_filter
