"""Compare captures with eager on this device, measure times, and print a report for an issue (half a minute).

Exit status 0 if every check passed, 1 if one failed, 2 if there is no device.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch

from . import comparison, machine
from .kinds import cases
from .promises import check, PROMISES
from .text import as_text
from .timing import CONFIGURATIONS, measure

GOOD = ("equal", "kept")


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


def make_report(passes: int) -> dict[str, Any]:
    """Look at everything; progress goes to standard error."""
    began = time.monotonic()
    outcomes = []
    todo: list[Callable[[], comparison.Outcome]] = [partial(comparison.compare, case) for case in cases()]
    todo += [partial(check, promise) for promise in PROMISES]
    for number, look in enumerate(todo, start=1):
        outcome = look()
        outcomes.append(asdict(outcome))
        _say(f"[{number}/{len(todo)}] {outcome.name}: {outcome.result} {outcome.reason}".rstrip())
    times = []
    for number, name in enumerate(CONFIGURATIONS if passes else (), start=1):
        _say(f"[{number}/{len(CONFIGURATIONS)}] timing: {name}")
        times.append(measure(name, passes))
    return {
        "machine": machine.describe(),
        "backend": machine.backend(),
        "checks": outcomes,
        "bad": [each["name"] for each in outcomes if each["result"] not in GOOD],
        "times": times,
        "passes": passes,
        "seconds": round(time.monotonic() - began, 1),
    }


def main() -> int:
    """Parse the arguments, print the report and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m torch.mps.check", description=__doc__)
    parser.add_argument("--passes", type=int, default=20, help="timed passes of each kind (default: 20; 0: no times)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the report as JSON")
    options = parser.parse_args()
    if options.passes < 0:
        parser.error("--passes must not be negative")
    if not torch.backends.mps.is_available():
        _say("There is no MPS device here: a Mac with Apple silicon and macOS 13.3 or newer is needed.")
        return 2
    backend = machine.backend()
    if not backend["patched"]:
        _say(f"The patched MPS backend is not in charge of the device: {backend['reason']}.")
        return 2
    report = make_report(options.passes)
    print(as_text(report))
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")
        _say(f"The same as JSON: {options.json}")
    return 1 if report["bad"] or backend["reason"] else 0


if __name__ == "__main__":
    sys.exit(main())
