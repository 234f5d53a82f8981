"""The command `mpsfork` of `pip install -e .`: starts the launcher of the checkout that one is in.

Needs nothing but the standard library: the launcher makes an environment of its own.
"""

import os
import sys
from pathlib import Path

LAUNCHER = Path("scripts", "mpsfork")


def checkout_of(folder: Path) -> Path | None:
    """The innermost checkout of this repository that a folder lies in."""
    for place in (folder, *folder.parents):
        if (place / LAUNCHER).is_file() and (place / "base.toml").is_file():
            return place
    return None


def main() -> None:
    """Become the launcher."""
    try:
        root = checkout_of(Path.cwd())
    except FileNotFoundError:
        root = None
    if root is None:
        sys.exit(
            "error: mpsfork works on a checkout of its repository, and this folder is in none: "
            "cd to the checkout, or to any folder of it, and run it there."
        )
    launcher = str(root / LAUNCHER)
    os.execv(sys.executable, [sys.executable, launcher, *sys.argv[1:]])
