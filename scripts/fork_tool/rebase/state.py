"""How far a rebase has come, kept in git's directory, and the worktree in which a conflict waits for the user's hand."""

import json
import shutil
from dataclasses import asdict, dataclass, field, replace
from typing import NoReturn

from fork_tool.base.checkout import Checkout, rebase_directory, rebase_state_file
from fork_tool.common.console import say
from fork_tool.common.errors import ConflictError, ForkToolError
from fork_tool.common.files import new_directory, remove, write_atomically
from fork_tool.common.git import Git
from fork_tool.paths import Layout
from fork_tool.series.entries import check_header, Entry, parse_message
from fork_tool.series.merge import Clash, MERGE_SETTINGS
from fork_tool.series.project import Project
from fork_tool.series.stack import Layer

# What is under way must not fall to git's garbage collection.
REFS = {name: f"refs/mpsfork/rebase/{name}" for name in ("series", "onto", "tip")}


@dataclass
class RebaseState:
    """All that `--continue` and `--abort` need."""

    asked: str
    name: str
    commit: str
    date: str
    # What is to be as before when it is given up: the base, the series and where the checkout stood.
    base: str
    series: str
    head: str
    head_branch: str | None
    branch_tip: str | None
    applied: str | None
    base_ref: str | None
    tip: str = ""
    done: int = 0
    # An entry waits in the worktree for the user's hand.
    stopped: bool = False
    # The files are being rewritten: `before` in the directory has them as they were.
    writing: bool = False
    told: list[str] = field(default_factory=list)


def load_state(git: Git) -> RebaseState | None:
    """The rebase that is under way, if one is."""
    path = rebase_state_file(git)
    try:
        return RebaseState(**json.loads(path.read_text("utf-8")))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as problem:
        raise ForkToolError(
            f"{path} can't be read ({problem}): remove {path.parent}, then look with `git status` and `make verify` at what the rebase left."
        ) from None


def save_state(git: Git, state: RebaseState) -> None:
    """Write it down, and keep its commits."""
    commits = {"series": state.series, "onto": state.commit, "tip": state.tip}
    lines = [f"update {REFS[name]} {commit}\n" for name, commit in commits.items()]
    git.whole("update-ref", "--stdin", data="".join(lines).encode())
    write_atomically(rebase_state_file(git), json.dumps(asdict(state), indent=1).encode())


def forget_state(git: Git) -> None:
    """The rebase is over."""
    git.whole("update-ref", "--stdin", data="".join(f"delete {name}\n" for name in REFS.values()).encode())
    directory = rebase_directory(git)
    (directory / "state.json").unlink(missing_ok=True)
    remove(directory)


def keep_files(git: Git, layout: Layout) -> None:
    """Copy what a rebase rewrites: pin, patches and overlay."""
    with new_directory(rebase_directory(git) / "before") as new:
        shutil.copy2(layout.pin, new / layout.pin.name)
        for directory in (layout.patches, layout.overlay):
            if directory.exists():
                shutil.copytree(directory, new / directory.name, symlinks=True)


def bring_files_back(git: Git, layout: Layout) -> None:
    """Put the copies where they came from; each directory changes in one step."""
    before = rebase_directory(git) / "before"
    for directory in (layout.patches, layout.overlay):
        if (before / directory.name).exists():
            with new_directory(directory) as new:
                shutil.copytree(before / directory.name, new, symlinks=True, dirs_exist_ok=True)
    write_atomically(layout.pin, (before / layout.pin.name).read_bytes())


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
