"""`rebase`: move the series to another base by git's own rebase, in a worktree.

Checkout, patches and pin change when all patches have moved, and a copy of the files is kept until that is done.
"""

import json
import shutil
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from fork_tool.base.checkout import BRANCH, Checkout, rebase_directory, rebase_state_file
from fork_tool.base.pin import Pin
from fork_tool.common.console import note, say
from fork_tool.common.errors import ConflictError, ForkToolError
from fork_tool.common.files import new_directory, remove, write_atomically
from fork_tool.common.git import Git, GitError
from fork_tool.paths import Layout
from fork_tool.rebase.carried import Carried, compare, show_clashes
from fork_tool.rebase.targets import find_target, rewritten_pin, Target
from fork_tool.series.apply import apply_series, move_checkout
from fork_tool.series.from_commits import take_series
from fork_tool.series.merge import merge_patch, MERGE_SETTINGS
from fork_tool.series.patches import parse_message
from fork_tool.series.project import Project
from fork_tool.series.stack import Layer
from fork_tool.series.write_series import earlier_claims, write_series, Written

_SETTINGS = (
    *MERGE_SETTINGS,
    *("-c", "rerere.enabled=false", "-c", "rebase.updateRefs=false", "-c", "commit.gpgSign=false"),
    *("-c", "user.name=rebase", "-c", "user.email=rebase@mps-graph.invalid"),
)


@dataclass(frozen=True)
class RebaseState(Target):
    """What is moved where: the new base as it was asked for, the base and the tip of the series."""

    asked: str
    base: str
    series: str


def start(project: Project, asked: str) -> Written | None:
    """Move the series to what `asked` names; none when it stands there already."""
    checkout = project.open_checkout()
    checkout.refuse_unfinished()
    _refuse_uncommitted(project)
    stack = apply_series(project).stack
    target = find_target(checkout, project.pin, asked)
    if target.commit == checkout.base:
        return None
    rewritten_pin(project, target)
    state = RebaseState(target.name, target.commit, target.date, asked, checkout.base, stack.tip)
    rebase_directory(checkout.git).mkdir(exist_ok=True)
    write_atomically(rebase_state_file(checkout.git), json.dumps(asdict(state)).encode())
    return _go_on(project, checkout, state, stack.layers)


def go_on(project: Project, skip: bool = False) -> Written:
    """Take the user's resolution, or leave the patch out, and go on."""
    checkout, state = _under_way(project)
    if _kept(checkout.git).exists():
        # A run was killed while it wrote: write again, from what was there before.
        _bring_files_back(project, checkout.git)
    elif {checkout.branch_tip, checkout.head} != {state.series}:
        raise ForkToolError(
            f"{checkout.shown} has moved since the rebase began: `git -C {checkout.shown} checkout -B {BRANCH} {state.series[:12]}`, "
            f"or give up with `scripts/mpsfork rebase --abort`, which leaves it as it is now."
        )
    checkout.refuse_dirty()
    stack = project.stack(checkout.git, state.base)
    if stack.tip != state.series:
        raise ForkToolError(
            "patches/, aten_mps_overlay/ or base.toml were edited since the rebase began: undo that and run this again, "
            "or give up with `scripts/mpsfork rebase --abort`, which keeps the edits, and start again."
        )
    return _go_on(project, checkout, state, stack.layers, skip)


def abort(project: Project) -> RebaseState:
    """Leave everything as it was before the rebase."""
    checkout, state = _under_way(project)
    if _kept(checkout.git).exists():
        checkout.refuse_dirty()
        _bring_files_back(project, checkout.git)
        move_checkout(checkout, project.stack(checkout.git, state.base))
    _forget(project, checkout.git)
    return state


def _under_way(project: Project) -> tuple[Checkout, RebaseState]:
    layout = project.layout
    # Not `open_checkout`: the pin may be half-way to the new base.
    git = Git(layout.checkout)
    path = rebase_state_file(git)
    try:
        state = RebaseState(**json.loads(path.read_text("utf-8")))
    except FileNotFoundError:
        raise ForkToolError("No rebase is under way: `scripts/mpsfork rebase --onto REF` begins one.") from None
    except (ValueError, TypeError) as problem:
        raise ForkToolError(
            f"{path} can't be read ({problem}): remove {path.parent}, then look with `git status` and `make verify` at what the rebase left."
        ) from None
    return Checkout(git, state.base, layout.shown(layout.checkout)), state


def _refuse_uncommitted(project: Project) -> None:
    layout = project.layout
    git = Git(layout.root)
    if not git.succeeds("rev-parse", "--git-dir"):
        return
    names = [layout.shown(path) for path in (layout.pin, layout.patches, layout.overlay)]
    changed = git.names("status", "--porcelain", "-z", "--no-renames", "--", *names)
    if changed:
        raise ForkToolError(
            f"This repository has changes that are not committed ({changed[0][3:]}): commit them, so that git can "
            "bring back what the rebase rewrites, and run this again."
        )


def _go_on(
    project: Project, checkout: Checkout, state: RebaseState, layers: list[Layer], skip: bool = False
) -> Written:
    place = project.layout.rebase_checkout
    tree = Git(place)
    stopped = _stopped(tree, layers)
    words: tuple[str, ...] = ()
    if skip:
        if stopped is None:
            raise ForkToolError("No patch waits for a resolution: `scripts/mpsfork rebase --continue` goes on.")
        words = ("--skip",)
    elif stopped is not None:
        _take_resolution(project, checkout, state, tree, layers[stopped])
        words = ("--continue",)
    elif not place.exists() or tree.resolve("HEAD") in (None, state.commit):
        _remove_worktree(project, checkout.git)
        say(f"checking {state.name} out in {project.layout.shown(place)}")
        checkout.git.whole("worktree", "add", "--quiet", "--force", "--detach", str(place), state.commit)
        words = ("--onto", state.commit, state.base, state.series)
    if words:
        # Of messages nothing is asked: git would take out lines that begin with '#'.
        done = tree.run(*_SETTINGS, "rebase", *words, check=False, extra={"GIT_EDITOR": "true"})
        stopped = _stopped(tree, layers)
        if stopped is not None:
            _show_conflict(project, checkout, state, tree, layers, stopped)
        if done.returncode:
            raise GitError(("rebase",), done.stderr.decode("utf-8", "replace"))
    return _finish(project, checkout, state, layers)


def _stopped(tree: Git, layers: list[Layer]) -> int | None:
    """The number of the patch at which git's rebase waits, if it does."""
    if (
        not tree.directory.exists()
        or not Path(tree.directory, tree.text("rev-parse", "--git-path", "rebase-merge")).exists()
    ):
        return None
    commits = [layer.commit for layer in layers]
    waiting = tree.resolve("REBASE_HEAD")
    return commits.index(waiting) if waiting in commits else None


def _show_conflict(
    project: Project, checkout: Checkout, state: RebaseState, tree: Git, layers: list[Layer], number: int
) -> None:
    layer, shown = layers[number], project.layout.shown(project.layout.rebase_checkout)
    before = layers[number - 1].commit if number else state.base
    onto = tree.text("rev-parse", "HEAD")
    merge = merge_patch(checkout.git, project.pin, before, layer.commit, onto, layer.patch.files())
    show_clashes(layer.patch.name, state.name, merge.clashes)
    raise ConflictError(
        f"The patch {layer.patch.name} does not fit {state.name} (see above). In {shown}: edit the files between the marks, "
        f"`git add` them, then `scripts/mpsfork rebase --continue`; --skip drops the patch, --abort leaves all as it was."
    )


def _new_pin(project: Project, state: RebaseState) -> Pin:
    return project.pin.model_copy(update={"date": state.date, "commit": state.commit})


def _take_resolution(project: Project, checkout: Checkout, state: RebaseState, tree: Git, layer: Layer) -> None:
    """Commit what the user made of the patch, unless that is done; refuse what is not done, or no series could hold."""
    shown = project.layout.shown(project.layout.rebase_checkout)
    waiting = tree.names("diff-files", "--name-only", "-z", "--ignore-submodules=all")
    if waiting:
        raise ForkToolError(
            f"{waiting[0]} in {shown} waits to be resolved: edit it, `git -C {shown} add` it (or `git rm` it), then run this again."
        )
    said = tree.run("diff-index", "--cached", "--check", "HEAD", check=False).stdout.decode("utf-8", "replace")
    for line in said.splitlines():
        place, found, _ = line.partition(": leftover conflict marker")
        if found:
            raise ForkToolError(
                f"{place} in {shown} still has a mark of the conflict: edit it, `git -C {shown} add` it, then run this again."
            )
    head = tree.text("rev-parse", "HEAD")
    message = tree.text("log", "-1", "--format=%B", "--encoding=UTF-8", "--no-show-signature")
    committed = parse_message(message)[0] == layer.patch.name
    pin, written = _new_pin(project, state), tree.text("write-tree")
    if not committed and written == tree.tree_of(head):
        raise ForkToolError(
            f"The resolution leaves nothing of the patch {layer.patch.name}: `scripts/mpsfork rebase --skip` drops it from the series."
        )
    tip = head if committed else tree.commit_tree(pin.date, written, layer.patch.message(), (head,))
    take_series(replace(checkout, base=state.commit), pin, tip, set(), [])
    if not committed:
        tree.whole(*_SETTINGS, "commit", "--quiet", "--reuse-message", layer.commit)


def _finish(project: Project, checkout: Checkout, state: RebaseState, layers: list[Layer]) -> Written:
    """Write pin, series and checkout; a run that is killed here can go on or be undone."""
    layout, git = project.layout, checkout.git
    moved = replace(checkout, base=state.commit)
    text, notes = rewritten_pin(project, state)
    tip = Git(layout.rebase_checkout).text("rev-parse", "HEAD")
    found = take_series(moved, _new_pin(project, state), tip, set(), [])
    told = _tell(project, state, git, layers, found.stack.layers)
    series = project.series()
    claims = earlier_claims(project, series, [])
    _keep_files(layout, git)
    move_checkout(moved, found.stack)
    written = write_series(project, series, claims, found.patches, found.files)
    if text != layout.pin.read_text("utf-8"):
        write_atomically(layout.pin, text.encode("utf-8"))
        written.written.append(layout.shown(layout.pin))
    _forget(project, git)
    for sentence in [*told, *notes]:
        note(sentence)
    return written


def _tell(project: Project, state: RebaseState, git: Git, before: list[Layer], after: list[Layer]) -> list[str]:
    """Print what became of each patch; returns what the series no longer has, in sentences."""
    commits = {layer.patch.name: layer.commit for layer in after}
    base, onto, told = state.base, state.commit, []
    for number, layer in enumerate(before, start=1):
        name, files = layer.patch.name, layer.patch.files()
        commit = commits.get(name, onto)
        by_hand = bool(merge_patch(git, project.pin, base, layer.commit, onto, files).clashes)
        carried = compare(git, (base, layer.commit), (onto, commit), files, by_hand)
        outcome, sentences = _outcome(carried, by_hand)
        say(f"{number} of {len(before)}: {name} {outcome}")
        told += [f"{name}: {sentence}" for sentence in sentences]
        base, onto = layer.commit, commit
    return told


def _outcome(carried: Carried, by_hand: bool) -> tuple[str, list[str]]:
    if carried.dropped:
        sentence = "dropped, as --skip said" if by_hand else "dropped from the series: upstream has all of it"
        return "is dropped", [sentence]
    sentences = [*carried.renamed, *carried.gone]
    if by_hand:
        return "moved, as it was resolved", sentences
    if carried.gone:
        return "moved, without what upstream has", sentences
    return "moved" if carried.moved or sentences else "fits as it is", sentences


def _kept(git: Git) -> Path:
    """A copy of pin, patches and overlay; is there while they are rewritten."""
    return rebase_directory(git) / "before"


def _keep_files(layout: Layout, git: Git) -> None:
    with new_directory(_kept(git)) as new:
        shutil.copy2(layout.pin, new / layout.pin.name)
        for directory in (layout.patches, layout.overlay):
            if directory.exists():
                shutil.copytree(directory, new / directory.name, symlinks=True)


def _bring_files_back(project: Project, git: Git) -> None:
    """Put the copies where they came from; each directory changes in one step."""
    layout, before = project.layout, _kept(git)
    for directory in (layout.patches, layout.overlay):
        if (before / directory.name).exists():
            with new_directory(directory) as new:
                shutil.copytree(before / directory.name, new, symlinks=True, dirs_exist_ok=True)
    write_atomically(layout.pin, (before / layout.pin.name).read_bytes())
    project.forget_pin()


def _remove_worktree(project: Project, git: Git) -> None:
    remove(project.layout.rebase_checkout)
    git.whole("worktree", "prune")


def _forget(project: Project, git: Git) -> None:
    """The rebase is over."""
    _remove_worktree(project, git)
    # What was kept goes first: it says that the state's rebase is being written.
    remove(_kept(git))
    remove(rebase_directory(git))
