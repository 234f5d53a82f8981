"""Tests in which each operator is captured and replayed: their environment, and what they counted."""

from __future__ import annotations

import json
import os
from collections import Counter

from fork_tool.common.console import say
from fork_tool.common.files import remove
from fork_tool.series.project import Project


def capture_mode(project: Project, environment: dict[str, str]) -> dict[str, str]:
    """The environment in which pytest captures and replays each operator; drops the counts of an earlier run."""
    layout = project.layout
    report = layout.reports / "capture_mode"
    remove(report)
    path = [str(layout.root / "test" / "capture_mode"), environment.get("PYTHONPATH", "")]
    return environment | {
        "PYTEST_PLUGINS": "mps_capture_mode",
        "PYTORCH_TEST_MPS_CAPTURE": "1",
        "PYTORCH_TEST_MPS_CAPTURE_REPORT": str(report),
        "PYTHONPATH": os.pathsep.join(part for part in path if part),
    }


def problem_of_captured(project: Project) -> str:
    """Print how many operators were captured and replayed, and what was refused; returns what is wrong with that."""
    totals: dict[str, Counter[str]] = {"operators": Counter(), "changed inputs": Counter(), "refusals": Counter()}
    for path in sorted((project.layout.reports / "capture_mode").glob("*.json")):
        for name, counts in json.loads(path.read_text()).items():
            totals[name].update(counts)
    for name, counts in totals.items():
        say(f"{name}: " + (", ".join(f"{count:,} {outcome}" for outcome, count in counts.most_common()) or "none"))
    if not totals["operators"]["equal"]:
        return "No operator was captured: test/capture_mode was not loaded."
    if not totals["changed inputs"]["equal"]:
        return "No operator was replayed on changed inputs."
    different = totals["operators"]["different"] + totals["changed inputs"]["different"]
    # A test that is expected to fail would hide it.
    return f"{different} replays differed from eager: look for 'gave other values' in the report." if different else ""
