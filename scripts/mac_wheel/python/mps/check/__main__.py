"""Compare captures with eager on this device, measure times, and print a report for an issue (half a minute).

Exit status 0 if every check passed, 1 if one failed, 2 if there is no device.

With ``--profile FILE.py:FUNCTION`` it looks at a step of your own program instead: whether the CPU or the GPU is the limit.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Optional

import torch

from . import comparison, machine, profile, profile_page
from .kinds import cases
from .promises import check, PROMISES
from .text import as_text
from .timing import CONFIGURATIONS, measure

GOOD = ("equal", "differs by rounding", "kept")


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
    facts = machine.describe()
    return {
        "machine": facts,
        "known_problems": machine.known_problems(facts),
        "backend": machine.backend(),
        "checks": outcomes,
        "bad": [each["name"] for each in outcomes if each["result"] not in GOOD],
        "times": times,
        "passes": passes,
        "seconds": round(time.monotonic() - began, 1),
    }


def _profile(name: str, passes: int, report: Optional[Path], page: Optional[Path]) -> int:
    try:
        step = profile.find_step(name)
    except ValueError as error:
        _say(f"error: {error}")
        return 2
    found = profile.profile_step(step, passes)
    print(profile.as_text(found))
    if report:
        report.write_text(json.dumps(profile.as_dict(found), indent=1) + "\n")
    if page:
        page.write_text(profile_page.as_html(found, step), encoding="utf-8")
        _say(f"The timeline: {page}")
    return 0


def main() -> int:
    """Parse the arguments, print the report and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m torch.mps.check", description=__doc__)
    parser.add_argument("--passes", type=int, default=20, help="timed passes of each kind (default: 20; 0: no times)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the report as JSON")
    parser.add_argument("--profile", metavar="FILE.py:FUNCTION", help="profile a step of your program instead")
    parser.add_argument("--html", type=Path, metavar="FILE", help="with --profile: write a page with a timeline")
    options = parser.parse_args()
    if options.passes < 0 or (options.profile and options.passes == 0):
        parser.error("--passes must not be negative, and at least 1 with --profile")
    if options.html and not options.profile:
        parser.error("--html takes --profile")
    if not torch.backends.mps.is_available():
        _say("There is no MPS device here: a Mac with Apple silicon and macOS 13.3 or newer is needed.")
        return 2
    backend = machine.backend()
    if not backend["patched"]:
        _say(f"The patched MPS backend is not in charge of the device: {backend['reason']}.")
        return 2
    if options.profile:
        return _profile(options.profile, options.passes, options.json, options.html)
    report = make_report(options.passes)
    print(as_text(report))
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")
        _say(f"The same as JSON: {options.json}")
    return 1 if report["bad"] or backend["reason"] else 0


if __name__ == "__main__":
    sys.exit(main())
