"""`refresh`: take the commits of the branch back into patches and overlay."""

from dataclasses import dataclass

from fork_tool.base.checkout import APPLIED_REF, BRANCH, BRANCH_REF, Checkout, describe_head, refuse_other_base
from fork_tool.common.errors import ForkToolError
from fork_tool.common.processes import uninterrupted
from fork_tool.series.from_commits import take_series
from fork_tool.series.order import SeriesFile
from fork_tool.series.patches import Patch, SUFFIX
from fork_tool.series.project import Project
from fork_tool.series.write_series import earlier_claims, refuse_unclaimed, write_series, Written


@dataclass
class Refreshed:
    patches: list[Patch]
    files: Written
    notes: list[str]


def refresh_series(project: Project, force: bool = False) -> Refreshed:
    """Rewrite patches and overlay from the branch; files that stay the same are not touched."""
    checkout = project.open_checkout()
    checkout.refuse_unfinished()
    refuse_other_base(checkout, project.pin)
    tip = _tip_of_branch(checkout)
    if not force:
        _refuse_lost_edits(project, checkout, tip)
    notes: list[str] = []
    taken = {path.stem for path in project.layout.patches.glob(f"*{SUFFIX}")}
    found = take_series(checkout, project.pin, tip, taken, notes)
    new_files = checkout.new_files
    if new_files:
        notes.append(
            f"{new_files[0]}{f' and {len(new_files) - 1} more files' if len(new_files) > 1 else ''} in {checkout.shown} belong to no commit and were not taken."
        )
    series = project.series() if project.layout.series.exists() else SeriesFile()
    claims = earlier_claims(project, series, notes)
    if not force:
        refuse_unclaimed(project, claims, found.files)
    with uninterrupted():
        done = write_series(project, series, claims, found.patches, found.files)
        if found.stack.tip != tip:
            checkout.git.run("update-ref", "-m", "mpsfork refresh", BRANCH_REF, found.stack.tip, tip)
        checkout.git.run("update-ref", APPLIED_REF, found.stack.tip)
    return Refreshed(found.patches, done, notes)


def _tip_of_branch(checkout: Checkout) -> str:
    tip = checkout.branch_tip
    if tip is None:
        raise ForkToolError(
            f"{checkout.shown} has no branch {BRANCH}: run `make apply`, commit on that branch, then refresh."
        )
    if checkout.head_branch != BRANCH:
        raise ForkToolError(
            f"{checkout.shown} is at {describe_head(checkout.git)}: `git -C {checkout.shown} checkout {BRANCH}`, then refresh."
        )
    if not checkout.git.succeeds("merge-base", "--is-ancestor", checkout.base, tip):
        raise ForkToolError(
            f"The branch {BRANCH} in {checkout.shown} no longer stands on the base: `git -C {checkout.shown} rebase {checkout.base[:12]}`, then refresh. (`scripts/mpsfork rebase --onto REF` moves the series to another base.)"
        )
    return tip


def _refuse_lost_edits(project: Project, checkout: Checkout, tip: str) -> None:
    """Refuse to write over edits in patches/ or the overlay that were never applied."""
    applied = checkout.applied or checkout.base
    try:
        current = project.stack(checkout.git, checkout.base).tip
    except ForkToolError as problem:
        raise ForkToolError(
            f"{problem} (`scripts/mpsfork refresh --force` writes the branch's state over it.)"
        ) from None
    if current in (applied, tip):
        return
    if tip in (applied, checkout.base):
        raise ForkToolError(
            "patches/ or aten_mps_overlay/ were edited since the last apply and the branch has nothing new: run `make apply` to take the edits into the checkout."
        )
    raise ForkToolError(
        f"Both the branch {BRANCH} and patches/ or aten_mps_overlay/ were edited since the last apply: "
        "put one of them aside (git stash in this repository), or `scripts/mpsfork refresh --force` to write the branch's state over the files."
    )
