"""The wheel's file: how it is written from the official wheel's, and whether pip takes it for a Mac."""

import base64
import csv
import hashlib
import io
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from fork_tool.common.console import count_progress
from fork_tool.common.errors import ForkToolError
from fork_tool.common.files import need_space
from fork_tool.mac_library.pin import MacPin
from fork_tool.machine.package_index import pip_command

# The earliest date that zip can hold: the same for all entries, so that two wheels of the same content are the same.
_DATE = (1980, 1, 1, 0, 0, 0)
_EXECUTABLE, _PLAIN = 0o100755, 0o100644
_TAG = re.compile(r"^Tag: (\S+)$", re.MULTILINE)
_UNIX = 3


def wheel_name(pin: MacPin, python: str) -> str:
    """The file's name, by which pip knows where it may be installed."""
    tag = f"cp{python.replace('.', '')}"
    return f"torch-{pin.version}-{tag}-{tag}-{pin.platform}.whl"


def write_wheel(pin: MacPin, python: str, official: Path, replaced: dict[str, bytes], into: Path) -> Path:
    """Write the wheel: the official one with these files over its own; a whole file or none."""
    old, new = f"torch-{pin.wheel_version}.dist-info", f"torch-{pin.version}.dist-info"
    into.mkdir(parents=True, exist_ok=True)
    need_space(into, official.stat().st_size * 2, f"Writing {wheel_name(pin, python)}")
    path = into / wheel_name(pin, python)
    scratch = Path(tempfile.mkstemp(prefix=".wheel-", suffix=".part", dir=into)[1])
    try:
        with zipfile.ZipFile(official) as source, zipfile.ZipFile(scratch, "w") as target, count_progress() as progress:
            modes = {entry.filename: _mode_of(entry) for entry in source.infolist() if not entry.is_dir()}
            if f"{old}/METADATA" not in modes:
                raise ForkToolError(f"{official.name} has no {old}: base.toml names another release.")
            record = f"{new}/RECORD"
            names = {_renamed(name, old, new): name for name in modes if name != f"{old}/RECORD"}
            rows: list[tuple[str, str, str]] = []
            # As pip's own tools have it: what describes the wheel comes last.
            order = sorted({*names, *replaced}, key=lambda name: (name.startswith(f"{new}/"), name))
            for name in progress.track(order, description=f"writing {path.name}"):
                content = replaced.get(name)
                if content is None:
                    content = source.read(names[name])
                if name == f"{new}/METADATA":
                    content = with_version(content, pin)
                elif name == f"{new}/WHEEL":
                    content = with_tag(content, python, pin)
                _add(target, name, content, modes.get(names.get(name, ""), _mode_by_name(name)))
                rows.append((name, digest_of(content), str(len(content))))
            text = io.StringIO()
            csv.writer(text, lineterminator="\n").writerows([*rows, (record, "", "")])
            _add(target, record, text.getvalue().encode(), _PLAIN)
        scratch.chmod(0o644)
        scratch.replace(path)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise
    return path


def digest_of(content: bytes) -> str:
    """A file's hash as RECORD has it."""
    return f"sha256={base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip('=')}"


def with_version(content: bytes, pin: MacPin) -> bytes:
    head, line, rest = content.partition(f"\nVersion: {pin.wheel_version}\n".encode())
    if not line:
        raise ForkToolError(
            f"METADATA of the official wheel is not of version {pin.wheel_version}: base.toml names another release."
        )
    return head + f"\nVersion: {pin.version}\n".encode() + rest


def with_tag(content: bytes, python: str, pin: MacPin) -> bytes:
    """WHEEL with the tag of the oldest macOS that the library is for."""
    tag = f"cp{python.replace('.', '')}"
    text = content.decode()
    found = _TAG.findall(text)
    if len(found) != 1 or not found[0].startswith(f"{tag}-"):
        raise ForkToolError(
            f"The official wheel is for {', '.join(found) or 'nothing that it names'}, not for Python {python}: correct base.toml."
        )
    text = _TAG.sub(f"Tag: {tag}-{tag}-{pin.platform}", text)
    return re.sub(r"^Generator: .*$", "Generator: mpsfork", text, flags=re.MULTILINE).encode()


def _renamed(name: str, old: str, new: str) -> str:
    return f"{new}/{name.removeprefix(f'{old}/')}" if name.startswith(f"{old}/") else name


def _mode_of(entry: zipfile.ZipInfo) -> int:
    return _EXECUTABLE if (entry.external_attr >> 16) & 0o111 else _PLAIN


def _mode_by_name(name: str) -> int:
    return _EXECUTABLE if name.endswith((".dylib", ".so")) else _PLAIN


def _add(target: zipfile.ZipFile, name: str, content: bytes, mode: int) -> None:
    entry = zipfile.ZipInfo(name, _DATE)
    entry.external_attr = mode << 16
    entry.create_system = _UNIX
    target.writestr(entry, content, zipfile.ZIP_DEFLATED, 6)


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
