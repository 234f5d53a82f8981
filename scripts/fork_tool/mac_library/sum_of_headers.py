"""One digest of all files that a compiler's list of dependencies names, wherever they lie.

    python sum_of_headers.py LIST TARGET

It stands for a precompiled header in the compiler's cache.
"""

import hashlib
import shlex
import sys
from pathlib import Path


def main(listed: Path, target: Path) -> None:
    """Write the digest of the contents of what `listed` names to `target`."""
    _, _, dependencies = listed.read_text().partition(":")
    digest = hashlib.sha256()
    for name in shlex.split(dependencies.replace("\\\n", " ")):
        digest.update(hashlib.sha256(Path(name).read_bytes()).digest())
    target.write_text(digest.hexdigest())


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
