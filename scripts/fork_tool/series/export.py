"""`export`: the series as `git format-patch` files, or as a branch for `ghstack submit`, one commit per patch."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from fork_tool.base.checkout import Checkout, GHSTACK_BACKUP_REF, GHSTACK_BRANCH, GHSTACK_REF
from fork_tool.common.errors import ForkToolError
from fork_tool.common.files import new_directory
from fork_tool.series.part import part_of_stack
from fork_tool.series.patches import Patch
from fork_tool.series.project import Project
from fork_tool.series.stack import Stack

# git takes every bracket in front of a title for a mark of the mail's, unless it is told otherwise.
TAKEN_BY = "git am --keep-non-patch build/export/*.patch"


def export_series(project: Project, author: tuple[str, str], part: str) -> list[Path]:
    """Replace build/export by what patches and overlay give, all or a part; the checkout is only read."""
    layout = project.layout
    checkout = project.open_checkout()
    # The trailer that `refresh` needs says nothing to upstream.
    message = partial(Patch.message, trailer=False)
    stack = _stack(project, checkout, part, message, author)
    options = (
        *("--quiet", "--zero-commit", "--no-signature", "--no-cover-letter", "--no-thread", "--no-attach"),
        *("--no-to", "--no-cc", "--unified=3", "--no-renames"),
    )
    with new_directory(layout.export) as new:
        checkout.git.run("format-patch", *options, "--output-directory", str(new), f"{checkout.base}..{stack.tip}")
    return sorted(layout.export.iterdir())


def _stack(
    project: Project, checkout: Checkout, part: str, message: Callable[[Patch], str], author: tuple[str, str]
) -> Stack:
    stack = project.stack(checkout.git, checkout.base, message, author)
    if not stack.layers:
        raise ForkToolError("patches/series lists no patch: there is nothing to export.")
    return part_of_stack(project, checkout.git, stack, part, message, author) if part else stack


_TEST_PLAN = re.compile(r"^test plan:[ \t]*", re.IGNORECASE | re.MULTILINE)
_BENCHMARK = re.compile(r"\n*^benchmark:[ \t]*", re.IGNORECASE | re.MULTILINE)
# The feature request upstream that all patches are for.
ISSUE = "Part of https://github.com/pytorch/pytorch/issues/180397"


def request_message(patch: Patch) -> str:
    """Title and body of the pull request; the patch's first paragraph says why, the others say how.

    A paragraph `Benchmark: …` above the test plan becomes a section; without one the request does not mention speed.
    """
    parts = _TEST_PLAN.split(patch.body)
    if len(parts) != 2 or not parts[1].strip():
        raise ForkToolError(
            f"Patch {patch.name} has no test plan: end its body in patches/{patch.name}.patch with a paragraph "
            "“Test Plan: …”, which upstream asks for."
        )
    described, *measured = _BENCHMARK.split(parts[0], maxsplit=1)
    motivation, _, design = described.strip().partition("\n\n")
    sections = {"Motivation": f"{motivation}\n\n{ISSUE}".strip(), "Design": design}
    sections |= {"Benchmark": "".join(measured).strip(), "Test Plan": parts[1].strip()}
    body = "\n\n".join(f"### {name}\n\n{text.strip()}" for name, text in sections.items() if text)
    return f"{patch.title}\n\n{body}\n"


def leave_branch(project: Project, force: bool, author: tuple[str, str], part: str) -> Stack:
    """Make the branch in the checkout; what is checked out stays."""
    checkout = project.open_checkout()
    _refuse_checked_out(checkout)
    stack = _stack(project, checkout, part, request_message, author)
    reference = f"refs/heads/{GHSTACK_BRANCH}"
    tip, left = checkout.git.resolve(reference), checkout.git.resolve(GHSTACK_REF)
    if tip not in (None, left, stack.tip):
        # ghstack writes its own lines into the commits: without them it opens the requests a second time.
        if not force:
            raise ForkToolError(
                f"The branch {GHSTACK_BRANCH} in {checkout.shown} is not as it was left here (ghstack or a rebase has "
                "been at it): go on there, or put it aside with `scripts/mpsfork export --ghstack --force`."
            )
        checkout.git.whole("update-ref", GHSTACK_BACKUP_REF, str(tip))
    checkout.git.whole("update-ref", reference, stack.tip)
    checkout.git.whole("update-ref", GHSTACK_REF, stack.tip)
    return stack


def _refuse_checked_out(checkout: Checkout) -> None:
    lines = checkout.git.text("worktree", "list", "--porcelain").splitlines()
    if f"branch refs/heads/{GHSTACK_BRANCH}" in lines:
        raise ForkToolError(
            f"The branch {GHSTACK_BRANCH} is checked out in {checkout.shown} or a worktree of it: "
            f"`git -C {checkout.shown} checkout mps-graph` and run this again."
        )
