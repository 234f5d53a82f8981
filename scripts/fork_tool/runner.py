"""`demo`, `test` and `test-mps`: run programs on the device, or on the simulator of it."""

from __future__ import annotations

from collections.abc import Iterable

from rich.table import Table

from fork_tool.console import out, say
from fork_tool.errors import ForkToolError
from fork_tool.machine import Machine, this_machine
from fork_tool.processes import run_shown
from fork_tool.project import Project
from fork_tool.reports import Count, count_junit, count_status, count_totals
from fork_tool.rings import JUNIT, Ring, RINGS, TOTALS
from fork_tool.simulator import device_command, make_ready, program_environment


def run_demo(project: Project, arguments: Iterable[str]) -> int:
    """Run the demo and return its exit status."""
    machine = this_machine()
    make_ready(project, machine)
    return run_shown(
        [*device_command(project, machine), "test/demo/run.py", *arguments],
        project.layout.root,
        program_environment(project),
    )


def run_upstream_tests(project: Project, arguments: Iterable[str]) -> int:
    """Run upstream's whole test/test_mps.py and return its exit status."""
    machine = this_machine()
    make_ready(project, machine)
    layout = project.layout
    layout.reports.mkdir(parents=True, exist_ok=True)
    if machine.is_mac:
        command = [
            str(layout.python),
            "-m",
            "pytest",
            f"--junitxml={layout.reports / 'test_mps.xml'}",
            "test_mps.py",
            *arguments,
        ]
        return run_shown(
            command,
            layout.checkout / "test",
            program_environment(project),
            where=layout.shown(layout.checkout / "test"),
        )
    command = [
        str(layout.python),
        "-m",
        "mps_simulator.run_test_mps",
        "--report",
        str(layout.reports / "test_mps.json"),
        *arguments,
    ]
    return run_shown(command, layout.root, program_environment(project))


def run_rings(project: Project, chosen: Iterable[str], rings: tuple[Ring, ...] = RINGS) -> Count:
    """Run the rings in order, all of them even after a failure, and count."""
    names = list(chosen)
    unknown = [name for name in names if name not in [ring.name for ring in rings]]
    if unknown:
        raise ForkToolError(f"There is no ring {unknown[0]!r}: the rings are {', '.join(ring.name for ring in rings)}.")
    machine = this_machine()
    make_ready(project, machine)
    selected = [ring for ring in rings if (not names or ring.name in names) and (ring.on_mac or not machine.is_mac)]
    counts = {ring.name: _run_ring(project, machine, ring) for ring in selected}
    table = Table("ring", "passed", "failed", "skipped")
    for name, count in counts.items():
        table.add_row(name, str(count.passed), str(count.failed), str(count.skipped))
    out.print(table)
    return sum(counts.values(), Count())


def _run_ring(project: Project, machine: Machine, ring: Ring) -> Count:
    layout = project.layout
    say(f"── {ring.name}", style="bold")
    if not (layout.root / ring.needs).exists():
        say(f"{ring.needs} is missing: this ring counts as failed.", style="red")
        return Count(failed=1)
    layout.reports.mkdir(parents=True, exist_ok=True)
    report = layout.reports / f"{ring.name.replace(' ', '_')}.{'json' if ring.counted == TOTALS else 'xml'}"
    report.unlink(missing_ok=True)
    words = [word.replace("{report}", str(report)) for word in ring.words]
    start = device_command(project, machine) if ring.on_device else [str(layout.python)]
    where = "" if ring.directory == "." else ring.directory
    status = run_shown([*start, *words], layout.root / ring.directory, program_environment(project), where)
    if ring.counted == JUNIT:
        return count_junit(report, status)
    return count_totals(report, status) if ring.counted == TOTALS else count_status(status)
