"""Whether each pointer to a name points into the library that the file's symbol table says."""

from collections.abc import Iterator
from pathlib import PurePosixPath

from fork_tool.mac_library.symbols import Import
from mac_code.process import Image, Process


def wrong_bindings(process: Process, image: Image, taken: list[Import]) -> Iterator[str]:
    """A sentence for each pointer that leads elsewhere.

    `taken` is what the symbol table says, which is written apart from the instructions that dyld follows.
    """
    owners = {each.name: PurePosixPath(each.library).name for each in taken}
    for bind in image.file.binds():
        wanted = owners[bind.name]
        address = process.machine.word(image.base + bind.address) - bind.addend
        found = process.owner(address)
        # What stands for macOS's own functions and data lies in no library of torch.
        right = found == wanted if wanted in _files(process) else found in ("macOS", "data", "libshim.dylib", "libunwind.dylib")
        if not right:
            yield f"{bind.name} is bound to {found}, not to {wanted or 'Python'}"


def _files(process: Process) -> set[str]:
    return {image.name for image in process.images}
