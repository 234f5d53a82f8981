"""Run by the Python of an environment that holds nothing but the wheel: is it the right one, and does it capture?

With --no-device, on a machine that builds and has no GPU, captures are left out.
"""

from __future__ import annotations

import argparse
import runpy
import sys
from pathlib import Path

import torch
import torch.mps


def main() -> None:
    """Check that the torch is the one that was built, then run torch.mps.check, which this wheel does not bring."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--version", required=True)
    parser.add_argument("--no-device", action="store_true", help="leave out what needs a GPU, and say so")
    words = parser.parse_args()
    if torch.__version__ != words.version:
        sys.exit(f"wrong: torch {torch.__version__} from {torch.__file__} was imported, not {words.version}")
    if not torch.backends.mps.is_built() or not hasattr(torch.mps, "make_graphed_callables"):
        sys.exit("wrong: torch was built without MPS or without the series: see “MPSGraph framework” in CMake's output")
    if words.no_device:
        print("not checked, since there is no device: that a capture replayed with new input gives what eager gives")
        return
    torch.mps.__path__.append(str(Path(__file__).parents[2] / "mac_wheel" / "python" / "mps"))
    sys.argv = ["torch.mps.check", "--passes", "0"]
    runpy.run_module("torch.mps.check", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
