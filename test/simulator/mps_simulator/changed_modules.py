"""Lists the Python modules of torch that the checkout has and the wheel has not.

A build step: ``python changed_modules.py CHECKOUT WHEEL OUTPUT``. Comparing the
files needs no knowledge of the base or of git, and sees uncommitted edits.
"""

from __future__ import annotations

import filecmp
import json
import sys
from pathlib import Path


def changed_modules(checkout: Path, wheel: Path) -> dict[str, str]:
    """Returns module name → file for modules that are new or different.

    A directory that the wheel lacks, like examples and C++, is none of its
    packages, unless it is a package that the series adds.
    """
    changed: dict[str, str] = {}
    root = checkout / "torch"
    for source in sorted(root.rglob("*.py")):
        relative = source.relative_to(root)
        counterpart = wheel / relative
        is_package = source.name == "__init__.py"
        parts = ("torch", *relative.with_suffix("").parts)
        name = ".".join(parts[:-1] if is_package else parts)
        package = counterpart.parent.parent if is_package else counterpart.parent
        if not (package / "__init__.py").is_file():
            continue
        same = counterpart.is_file() and filecmp.cmp(source, counterpart, shallow=False)
        if not same or name == "torch.mps":
            changed[name] = str(source)
    return changed


def main() -> None:
    """Writes the list, if it is another one than before."""
    checkout, wheel, output = (Path(argument) for argument in sys.argv[1:4])
    text = json.dumps(changed_modules(checkout, wheel), indent=2) + "\n"
    if not output.exists() or output.read_text() != text:
        output.write_text(text)


if __name__ == "__main__":
    main()
