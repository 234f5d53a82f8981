"""The worktree in which an entry that conflicts waits for the user's hand."""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

from fork_tool.base.checkout import Checkout
from fork_tool.common.console import say
from fork_tool.common.errors import ConflictError, ForkToolError
from fork_tool.common.files import remove
from fork_tool.common.git import Git
from fork_tool.rebase.replay import Clash, MERGE_SETTINGS
from fork_tool.rebase.state import RebaseState, save_state
from fork_tool.series.entries import check_header, Entry, parse_message
from fork_tool.series.project import Project
from fork_tool.series.stack import Layer

# Longer sides are in the file itself.
_LINES_SHOWN = 12


def show_clashes(entry: str, base: str, clashes: list[Clash]) -> None:
    """Print each place with both sides."""
    for clash in clashes:
        hunk = f", {clash.hunk}" if clash.hunk else ""
        if clash.sentence:
            say(f"{entry}: {clash.path}: {clash.sentence}", style="bold")
            continue
        say(f"{entry}: {clash.path}, line {clash.line}{hunk}", style="bold")
        for title, lines, style in (
            ("was", clash.before, "dim"),
            (f"{base} has", clash.upstream, "cyan"),
            (f"the entry {entry} has", clash.entry, "green"),
        ):
            say(f"  {title}:")
            say(_side(lines), style=style)


def _side(lines: list[str]) -> str:
    more = len(lines) - _LINES_SHOWN
    shown = lines if more <= 0 else [*lines[:_LINES_SHOWN], f"… and {more} more lines"]
    return "\n".join(f"    {line}" for line in shown or ["(nothing)"])


def wait_for_user(project: Project, checkout: Checkout, state: RebaseState, layer: Layer) -> NoReturn:
    """Leave the conflict in the worktree, as git's own cherry-pick does, and stop."""
    layout = project.layout
    shown = layout.shown(layout.rebase_checkout)
    if not layout.rebase_checkout.exists():
        say(f"checking {state.name} out in {shown}")
        checkout.git.whole("worktree", "prune")
        checkout.git.whole("worktree", "add", "--quiet", "--force", "--detach", str(layout.rebase_checkout), state.tip)
    git = Git(layout.rebase_checkout)
    git.run("cherry-pick", "--quit", check=False)
    git.whole("reset", "--quiet", "--hard", state.tip)
    git.run(*MERGE_SETTINGS, "-c", "rerere.enabled=false", *_identity(), "cherry-pick", layer.commit, check=False)
    if git.resolve("HEAD") != state.tip or not _unmerged(git):
        raise ForkToolError(
            f"git found a conflict in the entry {layer.entry.name} and then none: `scripts/mpsfork rebase --continue` tries it again."
        )
    state.stopped = True
    save_state(checkout.git, state)
    raise ConflictError(
        f"The entry {layer.entry.name} does not fit {state.name} (see above). In {shown}: edit the files between the marks, "
        f"`git add` them, then `scripts/mpsfork rebase --continue`; --skip drops the entry, --abort leaves all as it was."
    )


def _identity() -> list[str]:
    return ["-c", "user.name=rebase", "-c", "user.email=rebase@mps-graph.invalid"]


def _unmerged(git: Git) -> list[str]:
    return git.names("diff", "--name-only", "--diff-filter=U", "-z")


def resolution(project: Project, state: RebaseState, entry: Entry) -> tuple[str, Entry]:
    """The tree that the user made of the entry, and the entry with its message if that was changed."""
    layout = project.layout
    shown = layout.shown(layout.rebase_checkout)
    git = Git(layout.rebase_checkout)
    if not layout.rebase_checkout.is_dir() or git.resolve("HEAD") is None:
        state.stopped = False
        save_state(Git(layout.checkout), state)
        raise ForkToolError(
            f"{shown} is gone, and what was resolved in it: `scripts/mpsfork rebase --continue` makes it again."
        )
    unmerged = _unmerged(git)
    if unmerged:
        raise ForkToolError(
            f"{', '.join(unmerged[:3])} in {shown} waits to be resolved: edit it, `git -C {shown} add` it (or `git rm` it), then run this again."
        )
    changed = git.names("diff-files", "--name-only", "-z", "--ignore-submodules=all")
    if changed:
        raise ForkToolError(
            f"{changed[0]} in {shown} was changed and not added: `git -C {shown} add` it, or `git -C {shown} checkout -- {changed[0]}`."
        )
    _refuse_marks(git, state, shown)
    head = git.resolve("HEAD")
    if head == state.tip:
        return git.text("write-tree"), entry
    if git.resolve("HEAD~1") != state.tip:
        raise ForkToolError(
            f"{shown} is not one commit on top of {state.tip[:12]}: squash what belongs to {entry.name} into one (`git -C {shown} reset --soft {state.tip[:12]}`), then run this again."
        )
    _, title, body = parse_message(git.text("log", "-1", "--format=%B", "--encoding=UTF-8", "--no-show-signature"))
    check_header(title, body, f"commit {str(head)[:12]}")
    return git.tree_of("HEAD"), replace(entry, title=title, body=body)


def _refuse_marks(git: Git, state: RebaseState, shown: str) -> None:
    said = git.run("diff-index", "--cached", "--check", state.tip, check=False).stdout.decode("utf-8", "replace")
    marks = [line for line in said.splitlines() if line.endswith(": leftover conflict marker")]
    if marks:
        raise ForkToolError(
            f"{marks[0].removesuffix(': leftover conflict marker')} in {shown} still has a mark of the conflict: edit it, `git -C {shown} add` it, then run this again."
        )


def remove_worktree(project: Project, git: Git) -> None:
    """The worktree and what git knows of it."""
    remove(project.layout.rebase_checkout)
    git.run("worktree", "prune")
