"""How far a rebase of the series has come, kept in the checkout's git directory until it is done or given up."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass, field

from fork_tool.base.checkout import rebase_directory, rebase_state_file
from fork_tool.common.errors import ForkToolError
from fork_tool.common.files import new_directory, remove, write_atomically
from fork_tool.common.git import Git
from fork_tool.paths import Layout

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
