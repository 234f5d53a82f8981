"""Runs the bench as a file, which is how the simulator starts a program: see README.md next to this one."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
# A program's own directory comes first on the path, and here it holds modules, not the package.
sys.path[:] = [str(HERE.parent), *(entry for entry in sys.path if entry != str(HERE))]

from fallback_bench.cli import main  # noqa: E402

if __name__ == "__main__":
    main()
