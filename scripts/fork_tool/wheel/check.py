"""Run by the Python of an environment that holds nothing but the wheel: is it the right one, and does it capture?

Needs torch and the standard library alone. Each line says what was looked at; the first thing that is wrong ends it.
With --no-device, on a machine that builds and has no GPU, what needs one is named and left out.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

NAMES = ("MPSGraph", "graph", "graph_capture", "graph_replay", "make_graphed_callables")


class Wrong(Exception):
    """What is wrong with the wheel, in one sentence."""


def check_import(version: str) -> str:
    """The torch that is imported is the one that was built."""
    import torch

    if torch.__version__ != version:
        raise Wrong(f"torch {torch.__version__} from {torch.__file__} was imported, not {version}")
    return f"torch {version} is imported from {torch.__file__}"


def check_names() -> str:
    """What the series brings is there."""
    import torch

    if not torch.backends.mps.is_built():
        raise Wrong("torch was built without MPS: see “MPSGraph framework” in CMake's output")
    missing = [name for name in NAMES if not hasattr(torch.mps, name)]
    if missing:
        raise Wrong(f"torch.mps has no {', '.join(missing)}: the wheel was built without the series")
    return f"torch.mps has {', '.join(NAMES)}"


def check_capture() -> str:
    """A capture that is replayed with new input gives what eager gives."""
    import torch

    if not torch.backends.mps.is_available():
        raise Wrong(
            "torch.backends.mps.is_available() is False: a virtual machine, or a session without the GPU; "
            "--no-device (NO_DEVICE=1 of make) leaves out what needs one"
        )
    mps: Any = torch.mps
    layer = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 4)).to("mps").eval()
    inputs = [torch.randn(8, 16) for _ in range(4)]
    with torch.no_grad():
        expected = [layer(each.to("mps")).cpu() for each in inputs]
        x = inputs[0].to("mps")
        with mps.graph_capture():
            y = layer(x)
        for number, (each, value) in enumerate(zip(inputs[1:], expected[1:]), start=1):
            x.copy_(each)
            mps.graph_replay()
            difference = (y.cpu() - value).abs().max().item()
            if not difference <= 1e-5:
                raise Wrong(f"replay {number} differs from eager by {difference}")
            if torch.equal(value, expected[0]):
                raise Wrong("eager gives the same for different inputs: nothing was shown")
    return f"{len(inputs) - 1} replays with new input give what eager gives"


def main() -> int:
    """Check one thing after the other."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--version", required=True)
    parser.add_argument("--no-device", action="store_true", help="leave out what needs a GPU, and say so")
    words = parser.parse_args()
    checks: tuple[Callable[[], str], ...] = (partial(check_import, words.version), check_names)
    if not words.no_device:
        checks += (check_capture,)
    for check in checks:
        try:
            print(f"ok: {check()}", flush=True)
        except (Wrong, ImportError) as problem:
            print(f"wrong: {problem}", file=sys.stderr)
            return 1
    if words.no_device:
        print("not checked, since there is no device: that a capture replayed with new input gives what eager gives")
    return 0


if __name__ == "__main__":
    sys.exit(main())
