"""The commands for this machine, the base, the series and releases."""

import re
from pathlib import Path

import click
from rich.table import Table
from rich.text import Text

from fork_tool.base import fetch as fetch_module
from fork_tool.base.checkout import BRANCH, GHSTACK_BRANCH
from fork_tool.common.console import complain, counted, hint, note, out, say
from fork_tool.common.errors import ForkToolError
from fork_tool.common.files import remove
from fork_tool.common.git import ADDRESS, AUTHOR
from fork_tool.common.processes import exclusive
from fork_tool.machine import doctor as doctor_module
from fork_tool.machine import setup as setup_module
from fork_tool.machine.machine import LACKS, LATER, OK
from fork_tool.rebase import drift as drift_module
from fork_tool.rebase import run as rebase_module
from fork_tool.rebase.carried import Moved, show_clashes
from fork_tool.series import apply as apply_module
from fork_tool.series import export as export_module
from fork_tool.series import refresh as refresh_module
from fork_tool.series import verify as verify_module
from fork_tool.series.project import Project
from fork_tool.series.stack import Layer
from fork_tool.series.write_series import Written

_STYLES = {
    OK: "green",
    LATER: "yellow",
    LACKS: "bold red",
    verify_module.APPLIES: "green",
    verify_module.FUZZ: "yellow",
    verify_module.NOT_CHECKED: "yellow",
    drift_module.FITS: "green",
    drift_module.MOVES: "green",
    drift_module.PARTLY: "cyan",
    drift_module.TAKEN: "cyan",
}
_FILE = click.Path(path_type=Path)


def _state(state: str) -> Text:
    return Text(state, style=_STYLES.get(state, "bold red"))


def _show_layers(layers: list[Layer]) -> None:
    for layer in layers:
        say(f"{layer.commit[:12]} {layer.patch.title}")


def _show_files(files: Written) -> None:
    for path in files.written:
        say(f"wrote   {path}")
    for path in files.removed:
        say(f"removed {path}")


@click.command()
@click.pass_obj
def doctor(project: Project) -> None:
    """Show missing prerequisites and how to install them."""
    findings = doctor_module.examine(project)
    table = Table("prerequisite", "state", "found", "how to fix it")
    for finding in findings:
        table.add_row(finding.name, _state(finding.state), Text(finding.detail), Text(finding.remedy))
    out.print(table)
    lacking = [finding.name for finding in findings if finding.state == LACKS]
    if lacking:
        raise ForkToolError(f"These are missing: {', '.join(lacking)}. The last column tells how to fix it.")
    say("Nothing is missing.")


@click.command()
@setup_module.YES
@click.pass_obj
def setup(project: Project) -> None:
    """Install missing packages and ObjFW, and make .venv."""
    with exclusive(project.layout):
        for done in setup_module.setup(project):
            say(done)
    say("This machine has everything it needs.")


@click.command()
@click.option("--checkout", type=_FILE, metavar="DIR", help="Use this git checkout of PyTorch instead of fetching one.")
@click.option(
    "--source",
    type=click.Choice(["auto", *fetch_module.SOURCES]),
    default="auto",
    show_default=True,
    help="Where to get PyTorch's source from.",
)
@click.pass_obj
def fetch(project: Project, checkout: Path | None, source: str) -> None:
    """Get PyTorch's source into build/pytorch."""
    sources = fetch_module.SOURCES if source == "auto" else (source,)
    with exclusive(project.layout):
        new = fetch_module.fetch(project, checkout, sources)
    place = project.layout.shown(project.layout.checkout)
    say(f"{place} {'is now' if new else 'was already'} a checkout of PyTorch {project.pin.tag}.")


@click.command()
@click.option("--checkout", is_flag=True, help="Also remove build/pytorch, with every commit in it.")
@click.pass_obj
def clean(project: Project, checkout: bool) -> None:
    """Remove all builds; keep the checkout unless --checkout is given."""
    layout = project.layout
    # The last one has the resolved conflicts of a rebase that is under way.
    kept = (layout.checkout, layout.base_checkout, layout.rebase_checkout)
    with exclusive(layout):
        for path in sorted(layout.build.iterdir()):
            if path.name != ".lock" and (checkout or path not in kept):
                remove(path)
                say(f"removed {layout.shown(path)}")


@click.command()
@click.option("--force", is_flag=True, help="Discard commits that are not in patches/ (kept as refs/mpsfork/backup).")
@click.pass_obj
def apply(project: Project, force: bool) -> None:
    """Apply the series to the checkout, one commit per patch."""
    with exclusive(project.layout):
        if not project.layout.checkout.exists():
            fetch_module.fetch(project)
        result = apply_module.apply_series(project, force)
    for offset in result.offsets:
        note(f"{offset}; check the new line, then run `make refresh` to update the patch")
    _show_layers(result.stack.layers)
    place = project.layout.shown(project.layout.checkout)
    say(
        f"{counted(len(result.stack.layers), 'patches')} {'applied to' if result.changed else 'already applied:'} "
        f"the branch {BRANCH} in {place}."
    )


@click.command()
@click.option("--force", is_flag=True, help="Overwrite edits of patches/ and overlay with the branch.")
@click.pass_obj
def refresh(project: Project, force: bool) -> None:
    """Take the branch's commits back into patches/ and aten_mps_overlay/."""
    with exclusive(project.layout):
        result = refresh_module.refresh_series(project, force)
    for sentence in result.notes:
        note(sentence)
    _show_files(result.files)
    changed = len(result.files.written) + len(result.files.removed)
    changes = counted(changed, "files") if changed else "no files"
    say(f"{counted(len(result.patches), 'patches')}; {changes} changed.")


@click.command()
@click.pass_obj
def verify(project: Project) -> None:
    """Check that every patch applies and keeps the rules."""
    result = verify_module.verify_series(project)
    table = Table("patch", "state", "hunks", "overlay files", "lines", "test lines")
    for verdict in result.verdicts:
        numbers = map(str, (verdict.hunks, verdict.overlay, verdict.lines, verdict.test_lines))
        table.add_row(Text(verdict.name), _state(verdict.state), *numbers)
    out.print(table)
    problems = [f"{verdict.name}: {problem}" for verdict in result.verdicts for problem in verdict.problems]
    problems += result.problems
    for problem in problems:
        complain(problem)
    for sentence in result.notes:
        note(sentence)
    for verdict in result.verdicts:
        if verdict.follows:
            note(f"{verdict.name} was not checked, because it changes code after the conflict of {verdict.follows}")
    if not result.good:
        raise ForkToolError(f"The series has {counted(len(problems), 'problems')}: see above.")
    say(f"All {len(result.verdicts)} patches apply and keep the rules.")


def _author(_context: click.Context, _parameter: click.Parameter, value: str | None) -> tuple[str, str]:
    if value is None:
        return AUTHOR, ADDRESS
    match = re.fullmatch(r"\s*([^<>\n]*[^<>\s])\s*<([^<>\s]+@[^<>\s]+)>\s*", value)
    if not match:
        raise click.BadParameter(f"{value!r} is not of the form 'Name <mail@example.org>'.")
    return match[1], match[2]


@click.command()
@click.option("--stack", "part", metavar="NAME", default="", help="Only this group, or this patch and its needs.")
@click.option("--ghstack", is_flag=True, help=f"Make the branch {GHSTACK_BRANCH} in the checkout instead of files.")
@click.option("--force", is_flag=True, help="With --ghstack: put aside a branch that was edited.")
@click.option(
    "--author",
    metavar="'NAME <MAIL>'",
    callback=_author,
    help="The author of the commits [default: this project, with an address that does not exist].",
)
@click.pass_obj
def export(project: Project, part: str, ghstack: bool, force: bool, author: tuple[str, str]) -> None:
    """Write the series as mails to build/export, or as a branch for ghstack."""
    layout = project.layout
    with exclusive(layout):
        if not ghstack:
            for path in export_module.export_series(project, author, part):
                say(layout.shown(path))
            # On standard error: the names alone are what scripts read.
            hint(f"{export_module.TAKEN_BY}  # in a clone of upstream; without --keep-non-patch git drops the [MPS]")
            return
        stack = export_module.leave_branch(project, force, author, part)
    _show_layers(stack.layers)
    shown = layout.shown(layout.checkout)
    say(f"{len(stack.layers)} commits on the branch {GHSTACK_BRANCH} in {shown}; docs/patches.md has the next step.")
    if stack.base != project.pin.commit:
        note(f"{shown} comes from the Debian tarball and has no history of upstream's; submit from a clone")


@click.command()
@click.option("--onto", metavar="REF", help="A tag, branch or commit of the checkout or of upstream.")
@click.option("--continue", "goes_on", is_flag=True, help="Continue after you resolved a conflict.")
@click.option("--skip", is_flag=True, help="Drop the patch that conflicts, and continue.")
@click.option("--abort", is_flag=True, help="Stop, and restore the state before the move.")
@click.pass_obj
def rebase(project: Project, onto: str | None, goes_on: bool, skip: bool, abort: bool) -> None:
    """Move the series to another PyTorch; files change once all patches have moved."""
    if [onto is not None, goes_on, skip, abort].count(True) != 1:
        raise ForkToolError("Give one of --onto REF, --continue, --skip and --abort.")
    layout = project.layout
    with exclusive(layout):
        if abort:
            state = rebase_module.abort(project)
            say(f"The series is as it was, on {state.base[:12]}; nothing of {state.asked} is left.")
            return
        written = rebase_module.start(project, onto) if onto is not None else rebase_module.go_on(project, skip)
    if written is None:
        say(f"The series stands on {onto} already.")
        return
    _show_files(written)
    project.forget_pin()
    say(f"The series stands on {project.pin.tag} ({project.pin.commit[:12]}); run `make verify` and the tests.")


@click.command()
@click.option("--against", metavar="REF", required=True, help="A tag, branch or commit of the checkout or of upstream.")
@click.pass_obj
def drift(project: Project, against: str) -> None:
    """Report which patches apply to another PyTorch; changes nothing."""
    layout = project.layout
    with exclusive(layout):
        found = drift_module.find_drift(project, against)
    table = Table("patch", "state", "hunks", "moved", "dropped")
    for patch in found.patches:
        table.add_row(
            Text(patch.name),
            _state(patch.state),
            str(patch.hunks),
            _distance(patch.carried.moved),
            str(len(patch.carried.gone) or ""),
        )
    out.print(table)
    for patch in found.patches:
        for sentence in [*patch.carried.renamed, *patch.carried.gone]:
            say(f"{patch.name}: {sentence}")
        if patch.follows:
            say(f"{patch.name} was not checked, because it depends on the conflict of {patch.follows}")
        show_clashes(patch.name, found.target.name, patch.clashes)
    path = layout.reports / "drift.json"
    found.write(path)
    say(f"The report is {layout.shown(path)}.")
    conflicts, open_ones = found.names(drift_module.CONFLICT), found.names(drift_module.NOT_CHECKED)
    shown = f"{found.target.name} ({found.target.commit[:12]})"
    if conflicts:
        behind = f"; {len(open_ones)} behind them not checked" if open_ones else ""
        raise ForkToolError(
            f"{', '.join(conflicts)} {'does' if len(conflicts) == 1 else 'do'} not fit {shown}{behind}: "
            f"`scripts/mpsfork rebase --onto {against}` stops there for a resolution."
        )
    say(f"All {len(found.patches)} patches apply to {shown} or are already in it.")


def _distance(moved: list[Moved]) -> str:
    if not moved:
        return ""
    most = max((hunk.lines for hunk in moved), key=abs)
    return f"{len(moved)}, by {'' if len(moved) == 1 else 'up to '}{most:+d}"
