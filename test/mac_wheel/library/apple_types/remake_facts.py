"""Remake the tables that scripts make: fetch the pinned wheels, by hash, and read them.

    python remake_facts.py

Nothing is installed. facts/frameworks.toml is not remade: its rows were read in sources that no registry carries.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import remake_metal_facts
import remake_pyobjc_facts

HERE = Path(__file__).resolve().parent
TOOLCHAIN = HERE.parents[3] / "build" / "toolchain"
# They are for macOS, whatever machine this is.
_PLATFORM = (
    *("--platform", "macosx_13_0_arm64", "--platform", "macosx_10_9_universal2", "--python-version", "3.11"),
    *("--implementation", "cp", "--abi", "cp311", "--abi", "abi3", "--abi", "none"),
)


def fetch(folder: Path) -> None:
    """Download what the two lists name; pip checks the hashes."""
    for name in ("facts_requirements.txt", "facts_requirements_newer.txt"):
        command = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--no-deps"]
        command += ["--only-binary", ":all:", *_PLATFORM, "--require-hashes", "--requirement", str(HERE / name)]
        if subprocess.run([*command, "--dest", str(folder)], check=False).returncode:
            raise SystemExit(f"pip could not download what {name} names: check the network and the package index.")


def main() -> None:
    """Fetch and read."""
    metadata = TOOLCHAIN / "apple_metadata"
    if not metadata.is_dir():
        raise SystemExit(f"{metadata} is not there: run `make setup`, then this again.")
    folder = TOOLCHAIN / "apple_facts"
    folder.mkdir(parents=True, exist_ok=True)
    fetch(folder)
    remake_metal_facts.main(folder)
    remake_pyobjc_facts.main([metadata, folder])


if __name__ == "__main__":
    main()
