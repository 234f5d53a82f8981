"""Tests in which each operator is captured and replayed: their environment, and what they counted."""

from __future__ import annotations

import json
from collections import Counter

from fork_tool.common.console import say
from fork_tool.common.files import remove
from fork_tool.series.project import Project
from fork_tool.suites.simulator import with_modules_of


def capture_mode(project: Project, environment: dict[str, str]) -> dict[str, str]:
    """The environment in which pytest captures and replays each operator; drops the counts of an earlier run."""
    report = project.layout.reports / "capture_mode"
    remove(report)
    return with_plugin(project, environment, "mps_capture_mode") | {
        "PYTORCH_TEST_MPS_CAPTURE": "1",
        "PYTORCH_TEST_MPS_CAPTURE_REPORT": str(report),
    }


def with_plugin(project: Project, environment: dict[str, str], name: str) -> dict[str, str]:
    """The environment in which pytest loads a plugin of test/upstream/captured."""
    return with_modules_of(environment, project.layout.root / "test" / "upstream" / "captured") | {
        "PYTEST_PLUGINS": name
    }


def totals_of_captured(project: Project) -> dict[str, Counter[str]]:
    """Return the outcomes of the last run's "operators" and "changed inputs", and its "refusals", counted."""
    totals: dict[str, Counter[str]] = {"operators": Counter(), "changed inputs": Counter(), "refusals": Counter()}
    for path in sorted((project.layout.reports / "capture_mode").glob("*.json")):
        for name, counts in json.loads(path.read_text()).items():
            totals[name].update(counts)
    return totals


def problem_of_captured(project: Project) -> str:
    """Print how many operators were captured and replayed, and what was refused; returns what is wrong with that."""
    totals = totals_of_captured(project)
    for name, counts in totals.items():
        say(f"{name}: " + (", ".join(f"{count:,} {outcome}" for outcome, count in counts.most_common()) or "none"))
    if not totals["operators"]["equal"]:
        return "No operator was captured: test/upstream/captured was not loaded."
    if not totals["changed inputs"]["equal"]:
        return "No operator was replayed on changed inputs."
    different = totals["operators"]["different"] + totals["changed inputs"]["different"]
    # A test that is expected to fail would hide it.
    return f"{different} replays differed from eager: look for 'gave other values' in the report." if different else ""
