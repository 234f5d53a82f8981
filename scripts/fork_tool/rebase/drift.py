"""`drift`: what would become of each patch on another base; nothing is changed, and no conflict stops it."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from fork_tool.common.console import count_progress
from fork_tool.common.files import write_atomically
from fork_tool.common.git import Git
from fork_tool.rebase.carried import Carried, compare
from fork_tool.rebase.targets import find_target, Target
from fork_tool.series.merge import Clash, merge_patch
from fork_tool.series.project import Project

FITS, MOVES, PARTLY, TAKEN = "fits as it is", "moves", "partly upstream's", "upstream has it"
CONFLICT, NOT_CHECKED = "conflict", "not checked"


@dataclass
class Drift:
    name: str
    state: str
    hunks: int
    carried: Carried
    clashes: list[Clash] = field(default_factory=list)
    # The patch whose conflict hides what would become of this one.
    follows: str = ""


@dataclass
class Drifts:
    base: str
    target: Target
    patches: list[Drift]

    def names(self, state: str) -> list[str]:
        return [patch.name for patch in self.patches if patch.state == state]

    def write(self, path: Path) -> None:
        write_atomically(path, (json.dumps(asdict(self), indent=1) + "\n").encode())


def find_drift(project: Project, against: str) -> Drifts:
    """Merge every patch onto the other base; those after a conflict go on from the tree with git's marks in it."""
    pin = project.pin
    checkout = project.open_checkout()
    git = checkout.git
    target = find_target(checkout, pin, against)
    layers = project.stack(git, checkout.base).layers
    found = Drifts(checkout.base, target, [])
    before, onto = checkout.base, target.commit
    marked = _Marks(git)
    with count_progress() as progress:
        task = progress.add_task("merging", total=len(layers))
        for layer in layers:
            patch, files = layer.patch, layer.patch.files()
            merge = merge_patch(git, pin, before, layer.commit, onto, files)
            commit = git.commit_tree(pin.date, merge.tree, patch.message(), (onto,))
            carried = Carried()
            if not merge.clashes:
                carried = compare(git, (before, layer.commit), (onto, commit), files)
            drift = Drift(
                patch.name, _state_of(carried), sum(len(file.hunks) for file in files), carried, merge.clashes
            )
            marked.judge(drift, [file.path for file in files], merge.tree)
            found.patches.append(drift)
            before, onto = layer.commit, commit
            progress.advance(task)
    return found


def _state_of(carried: Carried) -> str:
    if carried.dropped:
        return TAKEN
    if carried.gone:
        return PARTLY
    return MOVES if carried.moved or carried.renamed else FITS


class _Marks:
    """The conflicts so far, whose marks are in the tree that later patches are merged onto."""

    def __init__(self, git: Git):
        self._git = git
        self._by_path: dict[str, tuple[str, list[Clash]]] = {}

    def judge(self, drift: Drift, paths: list[str], tree: str) -> None:
        """Distinguish the patch's own conflicts from those that earlier patches left."""
        own = [clash for clash in drift.clashes if clash.path not in self._by_path]
        hidden = [clash.path for clash in drift.clashes if clash.path in self._by_path]
        hidden += [path for path in paths if path in self._by_path and self._changed(tree, path)]
        if own:
            drift.state = CONFLICT
            for clash in own:
                self._by_path.setdefault(clash.path, (drift.name, []))[1].append(clash)
        elif hidden:
            drift.state, drift.follows = NOT_CHECKED, self._by_path[hidden[0]][0]
            drift.clashes, drift.carried = [], Carried()
        else:
            # The conflict marks shift the lines below them.
            drift.carried.moved = [hunk for hunk in drift.carried.moved if hunk.path not in self._by_path]

    def _changed(self, tree: str, path: str) -> bool:
        """Whether the marks of a file are no longer as the conflict left them."""
        text = self._git.run("cat-file", "blob", f"{tree}:{path}", check=False).stdout.decode("utf-8", "replace")
        sides = (side for clash in self._by_path[path][1] for side in (clash.upstream, clash.patch))
        return any(clash.sentence for clash in self._by_path[path][1]) or any(
            "\n".join(["", *side, ""]) not in text for side in sides
        )
