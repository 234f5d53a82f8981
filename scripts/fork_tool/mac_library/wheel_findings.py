"""What is wrong with a wheel: its record, its Python files, whether pip installs it for a Mac."""

from __future__ import annotations

import csv
import io
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from fork_tool.mac_library.archive import digest_of
from fork_tool.mac_library.pin import MacPin
from fork_tool.machine.package_index import pip_command

# Templates, which are never compiled; the official wheel has them, too.
_FOLDERS_OF_TEMPLATES = ("packaged",)


def record_findings(wheel: Path) -> list[str]:
    """A sentence for each entry that RECORD does not have as it is, and for each line that names none."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/")]
        records = [name for name in names if re.fullmatch(r"[^/]+\.dist-info/RECORD", name)]
        if len(records) != 1:
            return [f"it has {len(records)} records"]
        rows = list(csv.reader(io.StringIO(archive.read(records[0]).decode())))
        problems = (
            [f"{name} is in it twice" for name in sorted({name for name in names if names.count(name) > 1})]
            if len(set(names)) < len(names)
            else []
        )
        recorded = {row[0]: row[1:] for row in rows if len(row) == 3}
        if len(recorded) != len(rows):
            problems.append("RECORD has a line twice, or one that is not of three fields")
        for name in names:
            if name == records[0]:
                continue
            if name not in recorded:
                problems.append(f"RECORD does not have {name}")
                continue
            content = archive.read(name)
            if recorded[name] != [digest_of(content), str(len(content))]:
                problems.append(f"{name} is not the file that RECORD has")
        problems += [f"RECORD has {name}, which is not in the wheel" for name in sorted(recorded.keys() - set(names))]
    return problems


def compile_findings(wheel: Path, changed: set[str] | None = None) -> list[str]:
    """A sentence for each Python file that does not compile; `changed` leaves out those of the official wheel."""
    return list(_compile_problems(wheel, changed))


def _compile_problems(wheel: Path, changed: set[str] | None) -> Iterator[str]:
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            path = PurePosixPath(name)
            if path.suffix != ".py" or (changed is not None and name not in changed):
                continue
            if any(part in _FOLDERS_OF_TEMPLATES for part in path.parts):
                continue
            try:
                compile(archive.read(name), name, "exec", dont_inherit=True)
            except (SyntaxError, ValueError) as problem:
                yield f"{name} does not compile ({problem})"


def install_findings(wheel: Path, pin: MacPin, python: str) -> list[str]:
    """What pip says when it installs the wheel in an empty folder as a Mac of the oldest macOS would."""
    with tempfile.TemporaryDirectory(prefix="mpsfork-install-") as scratch:
        target = ("--no-index", "--target", scratch, "--no-compile", "--only-binary=:all:", "--implementation", "cp")
        platform = ("--platform", pin.platform, "--python-version", python)
        command = pip_command(Path(sys.executable), [*target, *platform, str(wheel)])
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            said = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            return [f"pip does not install it for {pin.platform}: {said}"]
        folder = Path(scratch)
        wanted = (f"torch-{pin.version}.dist-info/METADATA", "torch/lib/libtorch_mps_graph.dylib", "torch/__init__.py")
        return [f"pip installs it without {name}" for name in wanted if not (folder / name).is_file()]
