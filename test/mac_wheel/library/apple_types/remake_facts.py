"""Remake the tables that scripts make: fetch the pinned wheels, by hash, and read them.

    python remake_facts.py

Needs the simulator's build: only rows for names that the patched backend uses are kept. Nothing is installed.
facts/frameworks.toml is not remade: its rows were read in sources that no registry carries.

PyObjC 11.0 knows the SDK of macOS 15.1, 9.1.1 that of macOS 13.3. Its metadata is code, which is read here and not run.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import remake_metal_facts
from apple_encodings import value_type
from apple_rows import write

HERE = Path(__file__).resolve().parent
TOOLCHAIN = HERE.parents[3] / "build" / "toolchain"
# They are for macOS, whatever machine this is.
_PLATFORM = (
    *("--platform", "macosx_13_0_arm64", "--platform", "macosx_10_9_universal2", "--python-version", "3.11"),
    *("--implementation", "cp", "--abi", "cp311", "--abi", "abi3", "--abi", "none"),
)
FACTS = HERE / "facts" / "pyobjc.toml"
_FRAMEWORKS = ("Metal", "MetalPerformanceShaders", "MetalPerformanceShadersGraph", "Foundation")
_PREFIXES = ("MTL", "MPS", "NS")


def fetch(folder: Path) -> None:
    """Download what the two lists name; pip checks the hashes."""
    for name in ("facts_requirements.txt", "facts_requirements_newer.txt"):
        command = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--no-deps"]
        command += ["--only-binary", ":all:", *_PLATFORM, "--require-hashes", "--requirement", str(HERE / name)]
        if subprocess.run([*command, "--dest", str(folder)], check=False).returncode:
            raise SystemExit(f"pip could not download what {name} names: check the network and the package index.")


def write_pyobjc_facts(folders: list[Path]) -> None:
    """Write the table from the wheels in the folders."""
    every = sorted(wheel for folder in folders for wheel in folder.glob("pyobjc_framework_*.whl"))
    wheels = [wheel for wheel in every if "-11.0-" in wheel.name]
    before = {name for wheel in every if "-9.1.1-" in wheel.name for name in _constants(wheel)}
    constants = {name: "13.3" if name in before else "15.1" for wheel in wheels for name in _constants(wheel) | before}
    types: dict[str, dict[str, str]] = {}
    structs: dict[str, str] = {}
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            for name in sorted(archive.namelist()):
                if name.endswith("/_metadata.py") and name.split("/")[-2] in _FRAMEWORKS:
                    _read(ast.parse(archive.read(name)), types, structs)
    write(FACTS, "pyobjc", {"types": types, "structs": structs, "constants": constants})


def _constants(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        text = "".join(archive.read(name).decode() for name in archive.namelist() if name.endswith("/_metadata.py"))
    return set(re.findall(r"(?<=\$)(M(?:TL|PS)\w+)@", text))


def _read(tree: ast.Module, types: dict[str, dict[str, str]], structs: dict[str, str]) -> None:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        if called == "r":
            _method(node, types)
        elif called == "objc.createStructType":
            name = str(ast.literal_eval(node.args[0])).split(".")[-1]
            if name.startswith(_PREFIXES) and isinstance(node.args[1], ast.Constant):
                structs[name] = value_type(_text(node.args[1]).replace("Z", "B"))


def _method(node: ast.Call, types: dict[str, dict[str, str]]) -> None:
    owner, selector = _text(node.args[0]), _text(node.args[1])
    places: dict[str, str] = {}
    for key, value in zip(*_pairs(node.args[2])):
        if key == "retval":
            places["0"] = _type(value)
        elif key == "arguments":
            for at, argument in zip(*_pairs(value)):
                # Two more come before: the object and the selector.
                places[str(int(str(at)) - 1)] = _type(argument)
    known = {at: code for at, code in places.items() if code}
    if known:
        types[f"[{owner} {selector}]"] = known


def _type(node: ast.expr) -> str:
    for key, value in zip(*_pairs(node)):
        text = _text(value)
        if key == "type" and text:
            try:
                # PyObjC writes Z for BOOL, which is a byte like clang's B.
                code = value_type(text.replace("Z", "B"))
            except ValueError:
                # A qualifier alone: how it is passed, and not what.
                return ""
            # Characters, strings and small numbers have codes of PyObjC's own: nothing is said of them here.
            return "" if set(code) & set("TtUz") else code
    return ""


def _pairs(node: ast.expr) -> tuple[list[object], list[ast.expr]]:
    if not isinstance(node, ast.Dict):
        return [], []
    keys = [ast.literal_eval(key) for key in node.keys if key is not None]
    return keys, node.values


def _text(node: ast.expr) -> str:
    value = node.value if isinstance(node, ast.Constant) else ""
    return value.decode() if isinstance(value, bytes) else str(value)


def main() -> None:
    """Fetch and read."""
    metadata = TOOLCHAIN / "apple_metadata"
    if not metadata.is_dir():
        raise SystemExit(f"{metadata} is not there: run `make setup`, then this again.")
    folder = TOOLCHAIN / "apple_facts"
    folder.mkdir(parents=True, exist_ok=True)
    fetch(folder)
    remake_metal_facts.main(folder)
    write_pyobjc_facts([metadata, folder])


if __name__ == "__main__":
    main()
