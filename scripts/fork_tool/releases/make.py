"""`test-release`: from a release's wheels to the verdict on the series there. Each step leaves what is complete."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

import click
from rich.table import Table

from fork_tool.common.console import complain, note, out, say
from fork_tool.common.errors import ForkToolError
from fork_tool.common.files import write_atomically
from fork_tool.common.processes import exclusive, run_shown
from fork_tool.mac_library.headers import found_headers, lay_headers, python_headers
from fork_tool.mac_library.libraries import further_names
from fork_tool.mac_library.pin import load_mac_pin
from fork_tool.mac_library.places import MacPlaces
from fork_tool.mac_library.symbols import python_names
from fork_tool.mac_library.tools import install_tools
from fork_tool.machine.machine import Machine, this_machine
from fork_tool.machine.package_index import fetch_pinned_wheel
from fork_tool.machine.setup import setup
from fork_tool.releases.apple import apple_findings, AppleNames, lacking_names, load_list, text_of, used_names
from fork_tool.releases.compile import compile_overlay, Compiled
from fork_tool.releases.linux import build_stand_in, install_environment, lay_python, why_not_here
from fork_tool.releases.release import load_release_pin, PIN, ReleasePin, ReleasePlaces, releases
from fork_tool.releases.symbols import Names, names_of_object, sort_names
from fork_tool.releases.tree import (
    APPLIED,
    apply_series,
    DIFFERS,
    lay_tree,
    MISFIT,
    NOT_IN_WHEEL,
    PatchVerdict,
    reader,
    release_series,
    ReleasePatch,
)
from fork_tool.releases.wheel import Facts, facts_of, unpack_wheel
from fork_tool.series.project import Project

TESTS = "test/releases/wheels"
# Which release the tests are about.
CHOSEN = "MPSFORK_RELEASE"
SIMULATOR = "libmps_simulator.so"


@dataclass(frozen=True)
class Made:
    """What was made of a release's wheels and the series, and what was found."""

    pin: ReleasePin
    places: ReleasePlaces
    patches: list[ReleasePatch]
    facts: Facts
    verdicts: list[PatchVerdict]
    compiled: list[Compiled]
    names: Names
    # What the backend uses of Apple's and the simulator does not know.
    lacking: AppleNames
    # The folder with the stand-in's libraries, if the release's Python runs on this machine; else the reason.
    stand_in: Path | None
    not_run: str
    findings: list[str]


def newest_release(project: Project) -> str:
    """The release that is meant when none is named."""
    found = releases(project.layout)
    if not found:
        raise ForkToolError(
            "There is no folder of a release in patches/releases/: bring it back with `git checkout -- patches/releases`."
        )
    return max(found, key=lambda name: [int(part) if part.isdigit() else 0 for part in name.split(".")])


def make_release(project: Project, name: str | None = None, machine: Machine | None = None) -> Made:
    """Bring all up to date, check it, and write the report."""
    with exclusive(project.layout):
        made = _make(project, name or newest_release(project), machine or this_machine())
    write_atomically(made.places.report, (json.dumps(report_of(made), indent=2) + "\n").encode())
    return made


def _make(project: Project, name: str, machine: Machine) -> Made:
    layout = project.layout
    pin, places, mac = load_release_pin(layout, name), ReleasePlaces(layout, name), MacPlaces(layout.root)
    mac_pin = load_mac_pin(layout.pin)
    pin_file = layout.shown(places.own / PIN)
    patches = release_series(project, places)
    install_tools(mac, mac_pin)
    wheel = fetch_pinned_wheel(pin.wheel, layout.cache, layout.root, pin_file)
    unpack_wheel(places, pin, wheel)
    facts = facts_of(places, pin, wheel)
    verdicts, files = apply_series(patches, reader(places.wheel))
    lay_tree(places, patches, files)
    lay_headers(mac, mac_pin, layout.cache)
    headers = python_headers(mac, mac_pin, pin.wheel.python, layout.cache)
    compiled = compile_overlay(mac, mac_pin, places, pin, headers)
    objects = [names_of_object(unit.source, unit.object) for unit in compiled]
    others = {*frozenset().union(*further_names(mac).values()), *python_names(headers)}
    names = sort_names(objects, facts, patches, others)
    lacking = lacking_names(used_names(facts), layout.simulator_build / SIMULATOR)
    not_run, stand_in = why_not_here(machine, pin), None
    if not not_run:
        install_environment(places, pin, pin_file)
        lay_python(places, pin)
        found = found_headers(mac, mac_pin, pin.runnable.python, layout.cache)
        stand_in = build_stand_in(mac, places, pin, found)
    findings = [
        *(
            f"{verdict.name}: {hunk.file} {hunk.header}: {hunk.detail}"
            for verdict in verdicts
            for hunk in verdict.misfits
        ),
        *(f"{each.shown} is used in {', '.join(each.users)}, and no library defines it" for each in names.undefined),
        *apple_findings(lacking, load_list(places.apple_list), layout.shown(places.apple_list)),
    ]
    return Made(pin, places, patches, facts, verdicts, compiled, names, lacking, stand_in, not_run, findings)


def report_of(made: Made) -> dict[str, object]:
    return {
        "release": made.pin.tag,
        "wheel": made.pin.wheel.name,
        "patches": [
            {
                "name": verdict.name,
                **{state.replace(" ", "_"): verdict.count(state) for state in (APPLIED, DIFFERS, NOT_IN_WHEEL, MISFIT)},
                "overlay": verdict.overlay,
                "hunks": [asdict(hunk) for hunk in verdict.hunks],
            }
            for verdict in made.verdicts
        ],
        "compiled": [unit.source for unit in made.compiled],
        "symbols": {
            "torch": made.names.torch,
            "system": made.names.system,
            "brought_by_hunks": [asdict(each) for each in made.names.missing if each.patch],
            "undefined": [asdict(each) for each in made.names.undefined],
        },
        "simulator_lacks": {kind: sorted(names) for kind, names in made.lacking.items()},
        "python_not_run": made.not_run,
        "findings": made.findings,
    }


def show(made: Made) -> None:
    states = (APPLIED, DIFFERS, NOT_IN_WHEEL, MISFIT)
    table = Table("patch", *states, "overlay files", title=f"hunks on {made.pin.tag}")
    for verdict in made.verdicts:
        table.add_row(verdict.name, *(str(verdict.count(state) or "") for state in states), str(verdict.overlay or ""))
    table.add_section()
    totals = (sum(verdict.count(state) for verdict in made.verdicts) for state in states)
    table.add_row("all", *map(str, totals), str(sum(verdict.overlay for verdict in made.verdicts)))
    out.print(table)
    say(
        f"{len(made.compiled)} sources compile for arm64 macOS {made.pin.macos}; they take {made.names.torch} names of torch's that "
        f"its libraries have, {made.names.system} of the system's and Python's, and these, which hunks on sources define:"
    )
    for each in made.names.missing:
        if each.patch:
            say(f"  {each.shown}: {each.patch}")
    say(f"the simulator does not know, of what the backend uses: {text_of(made.lacking) or 'nothing'}")
    if made.not_run:
        note(f"the Python layer was not run: {made.not_run}")
    for finding in made.findings:
        complain(finding)
    say(f"written to {made.places.layout.shown(made.places.report)}")


@click.command("test-release", context_settings={"ignore_unknown_options": True})
@click.option("--release", metavar="NAME", help="A folder of patches/releases/ [default: the newest release there].")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def test_release(project: Project, release: str | None, arguments: tuple[str, ...]) -> int:
    """Try the series on the wheels of a newer release; arguments go to pytest."""
    with exclusive(project.layout):
        for done in setup(project):
            say(done)
    name = release or newest_release(project)
    show(make_release(project, name))
    command = [str(project.layout.python), "-m", "pytest", "-q", *(arguments or [TESTS])]
    return run_shown(command, project.layout.root, os.environ | {CHOSEN: name})
