"""Where a mutant lives: copies of the working copy's files and of the checkout's, with the fault in them."""

import shutil
from collections.abc import Mapping
from pathlib import Path

from fork_tool.common.files import remove
from fork_tool.common.git import Git
from fork_tool.paths import Layout
from fork_tool.suites.mutants.build import MutantBuild
from fork_tool.suites.mutants.patch import DoesNotApply, Mutant, mutated


class MutantPlace:
    """build/mutants: nothing outside of it is written to, so nothing has to be put back."""

    def __init__(self, layout: Layout):
        self._layout = layout
        self.scratch = layout.build / "mutants"
        # The repository's files.
        self.tree = self.scratch / "tree"
        # The checkout's files: links, but for those that a mutant changes.
        self.checkout = self.scratch / "pytorch"
        self.build = MutantBuild(layout.simulator_build, layout.checkout, self.scratch)
        self._changed: list[str] = []

    def prepare(self) -> None:
        """Copy the repository as it is, with what is not committed yet."""
        remove(self.scratch)
        for path in files_of(self._layout):
            _copy(self._layout.root / path, self.tree / path)
        inside = self.tree / self._layout.build.name
        inside.mkdir()
        (inside / self._layout.simulator_build.name).symlink_to(self.build.directory)
        (inside / self._layout.checkout.name).symlink_to(self.checkout)
        for real in (self._layout.environment, self._layout.build / "toolchain"):
            (self.tree / real.relative_to(self._layout.root)).symlink_to(real)

    def put(self, mutant: Mutant | None, unchanged: bool = False) -> None:
        """Bring in a mutant's fault, or none; `unchanged`: compile what it would, but as it is.

        Raises DoesNotApply or DoesNotBuild.
        """
        for path in self._changed:
            _copy(self._layout.root / path, self.tree / path)
        self._changed = []
        texts = mutated(mutant.files, self._read) if mutant else {}
        if unchanged:
            texts = {path: self._read(path) for path in texts}
        given: dict[Path, Path] = {}
        of_checkout: dict[str, bytes] = {}
        for path, text in texts.items():
            if (self._layout.root / path).is_file():
                (self.tree / path).write_bytes(text)
                self._changed.append(path)
                given[self._layout.root / path] = self.tree / path
            else:
                of_checkout[path] = text
                given[self._layout.checkout / path] = self.checkout / path
        _mirror(self._layout.checkout, self.checkout, of_checkout)
        self.build.make(given, self.checkout)

    def _read(self, path: str) -> bytes:
        for top in (self._layout.root, self._layout.checkout):
            if (top / path).is_file():
                return (top / path).read_bytes()
        raise DoesNotApply(f"there is no {path}")


def files_of(layout: Layout) -> list[str]:
    """What git follows in the repository, and what is new where its programs and tests are."""
    git = Git(layout.root)
    names = git.names("ls-files", "-z")
    names += git.names("ls-files", "-z", "--others", "--exclude-standard", "--", "scripts", "test")
    return sorted(name for name in names if (layout.root / name).is_file())


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, target)


def _mirror(source: Path, target: Path, texts: Mapping[str, bytes]) -> None:
    """Make `target` a directory of links to what is in `source`, but for files of other content."""
    remove(target)
    target.mkdir(parents=True)
    below: dict[str, dict[str, bytes]] = {}
    for path, text in texts.items():
        first, _, rest = path.partition("/")
        if rest:
            below.setdefault(first, {})[rest] = text
        else:
            (target / first).write_bytes(text)
    for entry in source.iterdir():
        if entry.name in below:
            _mirror(entry, target / entry.name, below[entry.name])
        elif not (target / entry.name).exists():
            (target / entry.name).symlink_to(entry)
