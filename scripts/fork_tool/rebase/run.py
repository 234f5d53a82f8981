"""`rebase`: move the series to another base, entry by entry; pin and series are written when all of it has been moved.

Until then the checkout and this repository's files stay as they are: clean merges need no working tree, and an entry
that conflicts waits in a worktree of its own.
"""

from dataclasses import replace

from fork_tool.base.checkout import APPLIED_REF, BASE_REF, BRANCH, BRANCH_REF, Checkout
from fork_tool.base.pin import Pin
from fork_tool.common.console import note, say
from fork_tool.common.errors import ForkToolError
from fork_tool.common.files import write_atomically
from fork_tool.common.git import Git
from fork_tool.common.processes import uninterrupted
from fork_tool.rebase.carried import Carried, compare
from fork_tool.rebase.state import (
    bring_files_back,
    forget_state,
    keep_files,
    load_state,
    RebaseState,
    remove_worktree,
    resolution,
    save_state,
    show_clashes,
    wait_for_user,
)
from fork_tool.rebase.targets import find_target, rewritten_pin, Target
from fork_tool.series.apply import move_checkout, refuse_foreign
from fork_tool.series.entries import Entry
from fork_tool.series.from_commits import take_series
from fork_tool.series.merge import merge_entry
from fork_tool.series.project import Project
from fork_tool.series.stack import Layer
from fork_tool.series.write_series import earlier_claims, write_series, Written


def start(project: Project, asked: str) -> Written | None:
    """Move the series to what `asked` names; none when it stands there already."""
    checkout = project.open_checkout()
    checkout.refuse_unfinished()
    refuse_foreign(checkout, project)
    if checkout.unrefreshed:
        raise ForkToolError(
            f"The branch {BRANCH} in {checkout.shown} holds commits that patches/ does not have: `make refresh` takes them over, then rebase."
        )
    _refuse_uncommitted(project)
    target = find_target(checkout, project.pin, asked)
    if target.commit == checkout.base:
        return None
    rewritten_pin(project, target)
    stack = project.stack(checkout.git, checkout.base)
    state = RebaseState(
        asked,
        target.name,
        target.commit,
        target.date,
        base=checkout.base,
        series=stack.tip,
        head=checkout.head,
        head_branch=checkout.head_branch,
        branch_tip=checkout.branch_tip,
        applied=checkout.applied,
        base_ref=checkout.git.resolve(BASE_REF),
        tip=target.commit,
    )
    save_state(checkout.git, state)
    return _go_on(project, checkout, state, stack.layers)


def go_on(project: Project, skip: bool = False) -> Written:
    """Take the user's resolution, or leave the entry out, and go on."""
    checkout, state = _under_way(project)
    if skip and not state.stopped:
        raise ForkToolError("No entry waits for a resolution: `scripts/mpsfork rebase --continue` goes on.")
    stack = _unchanged_series(project, state)
    if state.stopped:
        layer = stack[state.done]
        if skip:
            state.told.append(f"{layer.entry.name}: dropped, as --skip said")
            _advance(checkout.git, state, state.tip)
        else:
            tree, entry = resolution(project, state, layer.entry)
            _refuse_unfit(project, checkout, state, tree, entry)
            _accept(project, checkout.git, state, stack, tree, entry, by_hand=True)
    return _go_on(project, checkout, state, stack)


def abort(project: Project) -> RebaseState:
    """Leave everything as it was before the rebase."""
    layout = project.layout
    # Not `open_checkout`: the pin may be half-way to the new base.
    git = Git(layout.checkout)
    state = _loaded(project, git)
    checkout = Checkout(git, state.base, layout.shown(layout.checkout))
    if state.writing:
        checkout.refuse_dirty()
    with uninterrupted():
        if state.writing:
            bring_files_back(git, layout)
            _bring_checkout_back(git, state)
        remove_worktree(project, git)
        forget_state(git)
    return state


def _loaded(project: Project, git: Git) -> RebaseState:
    state = load_state(git)
    if state is None:
        raise ForkToolError("No rebase is under way: `scripts/mpsfork rebase --onto REF` begins one.")
    return state


def _under_way(project: Project) -> tuple[Checkout, RebaseState]:
    layout = project.layout
    git = Git(layout.checkout)
    state = _loaded(project, git)
    checkout = Checkout(git, state.base, layout.shown(layout.checkout))
    if state.writing:
        # A run was killed while it wrote: write again, from what was there before.
        bring_files_back(git, layout)
        project.forget_pin()
    checkout.refuse_dirty()
    tip = checkout.branch_tip
    if not state.writing and (tip, checkout.head) != (state.branch_tip, state.head):
        raise ForkToolError(
            f"{checkout.shown} has moved since the rebase began ({str(tip)[:12]}, before {str(state.branch_tip)[:12]}): "
            f"bring it back, or give up with `scripts/mpsfork rebase --abort`, which leaves it as it is now."
        )
    return checkout, state


def _unchanged_series(project: Project, state: RebaseState) -> list[Layer]:
    git = Git(project.layout.checkout)
    stack = project.stack(git, state.base)
    if stack.tip != state.series:
        raise ForkToolError(
            "patches/, aten_mps_overlay/ or base.toml were edited since the rebase began: undo that and run this again, "
            "or give up with `scripts/mpsfork rebase --abort`, which keeps the edits, and start again."
        )
    return stack.layers


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


def _new_pin(project: Project, state: RebaseState) -> Pin:
    return project.pin.model_copy(update={"date": state.date, "commit": state.commit})


def _go_on(project: Project, checkout: Checkout, state: RebaseState, layers: list[Layer]) -> Written:
    git = checkout.git
    for number in range(state.done, len(layers)):
        layer = layers[number]
        before = layers[number - 1].commit if number else state.base
        files = layer.entry.files()
        merge = merge_entry(git, project.pin, before, layer.commit, state.tip, files)
        if merge.clashes:
            show_clashes(layer.entry.name, state.name, merge.clashes)
            wait_for_user(project, checkout, state, layer)
        _accept(project, git, state, layers, merge.tree, layer.entry)
    return _finish(project, checkout, state)


def _accept(
    project: Project, git: Git, state: RebaseState, layers: list[Layer], tree: str, entry: Entry, by_hand: bool = False
) -> None:
    """The entry has this tree on the new base."""
    layer = layers[state.done]
    before = layers[state.done - 1].commit if state.done else state.base
    onto = state.tip
    commit = git.commit_tree(_new_pin(project, state).date, tree, entry.message(), (onto,))
    carried = compare(git, (before, layer.commit), (onto, commit), layer.entry.files(), by_hand)
    state.told += [f"{entry.name}: {sentence}" for sentence in _sentences(carried)]
    _advance(git, state, onto if carried.dropped else commit)
    say(f"{state.done} of {len(layers)}: {entry.name} {_outcome(carried, by_hand)}")


def _advance(git: Git, state: RebaseState, tip: str) -> None:
    state.tip, state.done, state.stopped = tip, state.done + 1, False
    save_state(git, state)


def _outcome(carried: Carried, by_hand: bool) -> str:
    if carried.dropped:
        return "is in the new base as a whole"
    if by_hand:
        return "moved, as it was resolved"
    if carried.gone:
        return "moved, without what upstream has"
    return "moved" if carried.moved or carried.renamed else "fits as it is"


def _sentences(carried: Carried) -> list[str]:
    if carried.dropped:
        return ["dropped from the series: upstream has all of it"]
    return [*carried.renamed, *carried.gone]


def _refuse_unfit(project: Project, checkout: Checkout, state: RebaseState, tree: str, entry: Entry) -> None:
    """Say at once, and not at the end, that no series could hold what the user made."""
    pin = _new_pin(project, state)
    commit = checkout.git.commit_tree(pin.date, tree, entry.message(), (state.tip,))
    if tree == checkout.git.tree_of(state.tip):
        raise ForkToolError(
            f"The resolution leaves nothing of the entry {entry.name}: `scripts/mpsfork rebase --skip` drops it from the series."
        )
    take_series(replace(checkout, base=state.commit), pin, commit, set(), [])


def _finish(project: Project, checkout: Checkout, state: RebaseState) -> Written:
    """Write pin, series and checkout; a run that is killed here can go on or be undone."""
    layout, git = project.layout, checkout.git
    pin = _new_pin(project, state)
    text, notes = rewritten_pin(project, Target(state.name, state.commit, state.date))
    found = take_series(replace(checkout, base=state.commit), pin, state.tip, set(), [])
    series = project.series()
    claims = earlier_claims(project, series, [])
    keep_files(git, layout)
    state.writing = True
    save_state(git, state)
    with uninterrupted():
        move_checkout(replace(checkout, base=state.commit), found.stack)
        written = write_series(project, series, claims, found.entries, found.files)
        if text != layout.pin.read_text("utf-8"):
            write_atomically(layout.pin, text.encode("utf-8"))
            written.written.append(layout.shown(layout.pin))
        remove_worktree(project, git)
        forget_state(git)
    for sentence in [*state.told, *notes]:
        note(sentence)
    return written


def _bring_checkout_back(git: Git, state: RebaseState) -> None:
    place = ["-B", state.head_branch, state.head] if state.head_branch else ["--detach", state.head]
    git.run("checkout", "--quiet", "--no-overwrite-ignore", "--no-recurse-submodules", "--no-track", *place)
    for name, commit in ((BRANCH_REF, state.branch_tip), (APPLIED_REF, state.applied), (BASE_REF, state.base_ref)):
        git.run(*(["update-ref", name, commit] if commit else ["update-ref", "-d", name]))
