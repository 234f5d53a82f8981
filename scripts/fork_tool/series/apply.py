"""`apply`: apply the series to the checkout, one commit per patch, on a branch of its own."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from fork_tool.base.checkout import APPLIED_REF, BACKUP_REF, BASE_REF, BRANCH, Checkout, describe_head
from fork_tool.common.console import note, say
from fork_tool.common.errors import ConflictError, ForkToolError
from fork_tool.common.files import write_atomically
from fork_tool.common.git import GitError
from fork_tool.common.processes import uninterrupted
from fork_tool.series.project import Project
from fork_tool.series.stack import Stack

# In the checkout's git directory: what the branch was last made of, and its tip.
_RECORD = "mpsfork-series"


@dataclass
class Applied:
    stack: Stack
    changed: bool

    @property
    def offsets(self) -> list[str]:
        return [f"{layer.patch.name}: {offset}" for layer in self.stack.layers for offset in layer.offsets]


def apply_series(project: Project, force: bool = False) -> Applied:
    """Make the branch hold the series and check it out; running it again changes nothing."""
    checkout = project.open_checkout()
    checkout.refuse_unfinished()
    refuse_foreign(checkout, project)
    try:
        stack = project.stack(checkout.git, checkout.base)
    except ConflictError as conflict:
        raise ConflictError(
            f"{conflict}. The checkout is as it was; edit the patch file, or the patch before it, and run `make verify` to see all."
        ) from None
    tip = checkout.branch_tip
    if checkout.head_branch == BRANCH and tip == stack.tip:
        if checkout.applied != tip:
            checkout.git.whole("update-ref", APPLIED_REF, stack.tip)
        checkout.git.whole("update-ref", BASE_REF, stack.base)
        return Applied(stack, changed=False)
    if tip != stack.tip and checkout.unrefreshed:
        if not force:
            raise ForkToolError(
                f"The branch {BRANCH} in {checkout.shown} holds commits that patches/ does not have: `make refresh` takes them over, `scripts/mpsfork apply --force` puts them aside."
            )
        checkout.git.whole("update-ref", BACKUP_REF, tip or "")
    move_checkout(checkout, stack)
    return Applied(stack, changed=True)


def bring_series(project: Project) -> None:
    """Apply the series, unless the branch has commits that patches/ lacks."""
    checkout = project.open_checkout()
    if (
        checkout.branch_tip is not None
        and checkout.head == checkout.branch_tip
        and (checkout.unrefreshed or checkout.changed_files)
    ):
        note(f"{checkout.shown} holds work that patches/ does not have; it is used as it is")
        return
    checkout.refuse_unfinished()
    # Making all commits again takes seconds, which a user's program would wait for.
    record = Path(checkout.git.text("rev-parse", "--absolute-git-dir")) / _RECORD
    inputs = f"{_digest_of_inputs(project)} {checkout.base} "
    if (
        checkout.head_branch == BRANCH
        and record.is_file()
        and record.read_text() == f"{inputs}{checkout.branch_tip}"
        and checkout.applied == checkout.branch_tip
    ):
        return
    result = apply_series(project)
    write_atomically(record, f"{inputs}{result.stack.tip}".encode())
    if result.changed:
        say(f"applied {len(result.stack.layers)} patches to {checkout.shown}")


def _digest_of_inputs(project: Project) -> str:
    """A digest of all files that the series' commits are made of, this tool included."""
    layout = project.layout
    folders = (layout.patches, layout.overlay, Path(__file__).resolve().parents[1])
    files = [layout.pin, *sorted(path for folder in folders for path in folder.rglob("*") if path.suffix != ".pyc")]
    digest = hashlib.sha256()
    for path in files:
        if path.is_file():
            digest.update(f"\0{path}\0{path.stat().st_mode:o}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def refuse_foreign(checkout: Checkout, project: Project) -> None:
    """Refuse a checkout that is at neither the base nor the branch."""
    if checkout.head_branch == BRANCH or checkout.head in (checkout.base, checkout.branch_tip, checkout.applied):
        return
    raise ForkToolError(
        f"{checkout.shown} is at {describe_head(checkout.git)}, which is neither {project.pin.tag} nor the branch {BRANCH}: "
        f"`git -C {checkout.shown} checkout --detach {checkout.base[:12]}` and run this again."
    )


def move_checkout(checkout: Checkout, stack: Stack) -> None:
    with uninterrupted():
        try:
            checkout.git.run(
                "checkout",
                "--quiet",
                "--no-overwrite-ignore",
                "--no-recurse-submodules",
                "--no-track",
                "-B",
                BRANCH,
                stack.tip,
            )
        except GitError as problem:
            lines = problem.stderr.splitlines()
            blocked = [line.strip() for line in lines if line.startswith("\t")]
            if blocked:
                raise ForkToolError(
                    f"{checkout.shown} has a file of its own where the series puts one ({', '.join(blocked[:3])}): move it away and run this again."
                ) from None
            raise
        checkout.git.run("update-ref", APPLIED_REF, stack.tip)
        checkout.git.run("update-ref", BASE_REF, stack.base)
