"""The simulator's build with a fault in it, beside the usual one, which stays as it is.

Only what a mutant changes is compiled, by the build's own commands: clang is told of the changed text of a file
(`-ivfsoverlay`), so that no file of the working copy or the checkout is touched and nothing has to be put back. The
libraries that hold the objects are linked again; all else in the directory is a link to the usual build.
"""

import json
import os
import shlex
import subprocess
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fork_tool.common.files import remove

COMPILED = (".mm", ".cpp", ".h")
_FACTS, _MODULES = "mps_simulator.json", "changed_modules.json"


class DoesNotBuild(Exception):
    """What the compiler or the linker said of a mutant."""


class MutantBuild:
    """A directory like `build`, for MPS_SIMULATOR_BUILD."""

    def __init__(self, build: Path, checkout: Path, scratch: Path):
        self._build = build
        self._checkout = checkout
        self._scratch = scratch
        self.directory = scratch / "simulator"

    def make(self, changed: Mapping[Path, Path], checkout: Path) -> None:
        """Build with the text of some files replaced, on the Python modules of a checkout; raises DoesNotBuild."""
        self._link_all(checkout)
        compiled = {real: given for real, given in changed.items() if real.suffix in COMPILED}
        if not compiled:
            return
        objects = self._objects(compiled)
        overlay = self._scratch / "overlay.json"
        overlay.write_text(json.dumps(_overlay(compiled)))
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            places = dict(zip(objects, pool.map(lambda entry: self._compile(entry, overlay), objects.values())))
        for target in dict.fromkeys(target for name in objects for target in self._targets(name)):
            self._link(target, places)

    def _link_all(self, checkout: Path) -> None:
        remove(self.directory)
        self.directory.mkdir(parents=True)
        for path in self._build.iterdir():
            if path.name not in (_FACTS, _MODULES):
                (self.directory / path.name).symlink_to(path)
        facts = json.loads((self._build / _FACTS).read_text())
        facts["checkout"] = str(checkout)
        for name in ("library", "bindings"):
            facts[name] = str(self.directory / Path(facts[name]).name)
        (self.directory / _FACTS).write_text(json.dumps(facts, indent=2))
        modules: dict[str, str] = json.loads((self._build / _MODULES).read_text())
        here = {name: str(checkout / Path(path).relative_to(self._checkout)) for name, path in modules.items()}
        (self.directory / _MODULES).write_text(json.dumps(here, indent=2))

    def _objects(self, compiled: Mapping[Path, Path]) -> dict[str, list[str]]:
        """The build's objects that read one of the files, and the command of each."""
        commands: dict[str, list[str]] = {}
        by_source: dict[str, str] = {}
        for entry in json.loads((self._build / "compile_commands.json").read_text()):
            words = shlex.split(entry["command"])
            name = words[words.index("-o") + 1]
            commands[name] = words
            by_source[entry["file"]] = name
        names: list[str] = []
        for real in compiled:
            found = [by_source[str(real)]] if str(real) in by_source else self._dependents(real)
            if not found:
                raise DoesNotBuild(f"nothing of the build is compiled from {real}")
            names += found
        for name in names:
            if name not in commands:
                raise DoesNotBuild(f"{name} is compiled from it, which would mean to compile all that uses that")
        return {name: commands[name] for name in dict.fromkeys(names)}

    def _dependents(self, header: Path) -> list[str]:
        """The objects that ninja knows to include a header."""
        found, name = [], ""
        for line in self._ninja("-t", "deps").splitlines():
            if not line.startswith(" "):
                name = line.partition(":")[0]
            elif os.path.normpath(self._build / line.strip()) == str(header):
                found.append(name)
        return found

    def _compile(self, words: list[str], overlay: Path) -> Path:
        at = words.index("-o") + 1
        place = self._scratch / "objects" / words[at].replace("/", "_")
        place.parent.mkdir(exist_ok=True)
        # A mutant is compiled once: a cache that does not know of the overlay would give the object without the fault.
        self._run([*words[:at], str(place), *words[at + 1 :], "-ivfsoverlay", str(overlay)], CCACHE_DISABLE="1")
        return place

    def _targets(self, name: str) -> list[str]:
        """The libraries and programs that an object is linked into."""
        lines = self._ninja("-t", "query", name).partition("outputs:")[2].splitlines()
        outputs = [line.strip() for line in lines]
        return [output for output in outputs if output and "-o" in self._link_command(output)]

    def _link_command(self, target: str) -> list[str]:
        lines = self._ninja("-t", "commands", "-s", target).splitlines()
        words = shlex.split(lines[-1]) if lines else []
        return [word for word in words if word not in (":", "&&")]

    def _link(self, target: str, places: Mapping[str, Path]) -> None:
        words = self._link_command(target)
        place = self.directory / target
        remove(place)
        # The linker's map is of this library, too.
        words = [word.replace(f"-Map={self._build}", f"-Map={self.directory}") for word in words]
        for word in words:
            if "-Map=" in word:
                remove(Path(word.partition("-Map=")[2]))
        self._run([str(place if word == target else places.get(word, word)) for word in words])

    def _ninja(self, *words: str) -> str:
        return subprocess.run(["ninja", *words], cwd=self._build, capture_output=True, text=True, check=True).stdout

    def _run(self, words: Iterable[str], **variables: str) -> None:
        done = subprocess.run(
            list(words),
            cwd=self._build,
            env=os.environ | variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode:
            said = [line for line in done.stdout.splitlines() if "error" in line] or done.stdout.splitlines()
            raise DoesNotBuild(said[0] if said else f"{words} ended with {done.returncode}")


def _overlay(compiled: Mapping[Path, Path]) -> dict[str, object]:
    """What clang reads instead of which file, under the file's own name."""
    return {
        "version": 0,
        "case-sensitive": "true",
        "use-external-names": False,
        "roots": [
            {"type": "file", "name": str(real), "external-contents": str(given)} for real, given in compiled.items()
        ],
    }
