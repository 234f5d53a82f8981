"""The checkout of PyTorch that the series is applied to, and its state."""

import os
from dataclasses import dataclass
from pathlib import Path

from fork_tool.base.pin import Pin
from fork_tool.common.errors import ForkToolError
from fork_tool.common.git import Git

BRANCH = "mps-graph"
BRANCH_REF = f"refs/heads/{BRANCH}"
BASE_REF = "refs/mpsfork/base"
# The tip that `apply` or `refresh` left: what is beyond it is work that patches/ does not have.
APPLIED_REF = "refs/mpsfork/applied"
BACKUP_REF = "refs/mpsfork/backup"
# The branch that `export --ghstack` leaves, the tip that it left, and one that it put aside.
GHSTACK_BRANCH = "mps-graph-ghstack"
GHSTACK_REF = "refs/mpsfork/ghstack"
GHSTACK_BACKUP_REF = "refs/mpsfork/ghstack-backup"
_REBASE_DIRECTORY = "mpsfork-rebase"

_UNDER_WAY = (
    ("rebase-merge", "rebase"),
    ("rebase-apply", "rebase"),
    ("MERGE_HEAD", "merge"),
    ("CHERRY_PICK_HEAD", "cherry-pick"),
    ("REVERT_HEAD", "revert"),
)


@dataclass
class Checkout:
    """An open checkout whose base is the pinned one."""

    git: Git
    base: str
    shown: str

    @property
    def branch_tip(self) -> str | None:
        return self.git.resolve(BRANCH_REF)

    @property
    def applied(self) -> str | None:
        return self.git.resolve(APPLIED_REF)

    @property
    def head(self) -> str:
        return self.git.resolve("HEAD") or ""

    @property
    def head_branch(self) -> str | None:
        return branch_of(self.git)

    @property
    def changed_files(self) -> list[str]:
        return [
            line[3:]
            for line in self.git.names(
                "status", "--porcelain", "-z", "--no-renames", "--untracked-files=no", "--ignore-submodules=all"
            )
        ]

    @property
    def new_files(self) -> list[str]:
        return self.git.names("ls-files", "-z", "--others", "--exclude-standard")

    @property
    def unrefreshed(self) -> bool:
        """Whether the branch holds commits that patches/ and overlay do not have."""
        tip = self.branch_tip
        return tip is not None and tip not in (self.base, self.applied)

    def refuse_unfinished(self) -> None:
        """Refuse a checkout in which anything is half done: a rebase of the series, git's own, or work to be committed."""
        if rebase_state_file(self.git).is_file():
            raise ForkToolError(
                "A rebase of the series is under way: `scripts/mpsfork rebase --continue` goes on with it, `--abort` gives it up."
            )
        self.refuse_dirty()

    def refuse_dirty(self) -> None:
        """Refuse a tree with uncommitted changes or a half-done rebase of git's."""
        state = Path(self.git.text("rev-parse", "--absolute-git-dir"))
        for mark, name in _UNDER_WAY:
            if (state / mark).exists():
                raise ForkToolError(
                    f"A {name} is under way in {self.shown}: finish it, or `git -C {self.shown} {name} --abort`, then run this again."
                )
        changed = self.changed_files
        if changed:
            more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
            raise ForkToolError(
                f"{self.shown} has changes that are not committed ({changed[0]}{more}): commit them (then `make refresh` keeps them) or `git -C {self.shown} stash`."
            )


def open_checkout(directory: Path, pin: Pin, shown: str) -> Checkout:
    """Open the checkout; anything but a checkout of the pinned base is refused."""
    if not directory.is_dir():
        raise ForkToolError(f"There is no checkout at {shown}: run `make fetch`.")
    if top_of(directory, shown) is None:
        raise ForkToolError(f"{shown} is not a git checkout: move it away and run `make fetch`.")
    git = Git(directory)
    return Checkout(git, find_base(git, pin, shown), shown)


def top_of(directory: Path, shown: str) -> Path | None:
    top = Git(directory).run("rev-parse", "--show-toplevel", check=False)
    if b"dubious ownership" in top.stderr:
        raise ForkToolError(
            f"{shown} belongs to another user: `git config --global --add safe.directory {directory.resolve()}` tells git to trust it."
        )
    return Path(os.fsdecode(top.stdout.strip())).resolve() if top.returncode == 0 else None


def branch_of(git: Git) -> str | None:
    """The branch that is checked out, if one is."""
    done = git.run("symbolic-ref", "--quiet", "HEAD", check=False)
    return done.stdout.decode().strip().removeprefix("refs/heads/") or None


def find_base(git: Git, pin: Pin, shown: str) -> str:
    """The commit in a checkout that is the pinned base."""
    recorded, pinned = git.resolve(BASE_REF), git.resolve(pin.commit)
    if (
        recorded
        and pinned
        and recorded != pinned
        and is_base(git, pin, recorded)
        and is_ancestor(git, recorded, pinned)
    ):
        raise ForkToolError(
            f"base.toml names two sources: upstream.commit is {pinned[:12]}, and debian.tree that of {recorded[:12]}, "
            f"which came before it. Bring base.toml back (`git checkout -- base.toml`), and let "
            f"`scripts/mpsfork rebase --onto {pinned[:12]}` move the series; if it has moved, take the table [debian] out."
        )
    for candidate in (BASE_REF, pin.commit, "HEAD"):
        commit = git.resolve(candidate)
        if commit and is_base(git, pin, commit):
            return commit
    raise ForkToolError(
        f"{shown} is at {describe_head(git)}, not at {pin.tag} ({pin.commit[:12]}): `git -C {shown} checkout {pin.tag}`, or move it away and run `make fetch`."
    )


def refuse_other_base(checkout: Checkout, pin: Pin) -> None:
    """Refuse a checkout that was last used with another base than the pinned one."""
    recorded = checkout.git.resolve(BASE_REF)
    if recorded not in (None, checkout.base):
        raise ForkToolError(
            f"The series in {checkout.shown} stood on {str(recorded)[:12]} ({BASE_REF}), and base.toml names {pin.tag} ({checkout.base[:12]}). "
            f"To move the series there, bring base.toml back and `scripts/mpsfork rebase --onto {checkout.base[:12]}`; "
            f"if patches/ was moved already, `make apply` lays it on that base."
        )


def is_base(git: Git, pin: Pin, commit: str) -> bool:
    """Whether a commit holds exactly the pinned source."""
    return commit == pin.commit or git.tree_of(commit) == pin.tarball_tree


def is_ancestor(git: Git, before: str, after: str) -> bool:
    return git.succeeds("merge-base", "--is-ancestor", before, after)


def describe_head(git: Git) -> str:
    """What is checked out, as short as a sentence needs it."""
    commit = git.resolve("HEAD")
    if commit is None:
        return "no commit"
    branch = branch_of(git)
    return f"{commit[:12]} ({branch})" if branch else commit[:12]


def rebase_directory(git: Git) -> Path:
    """Where the state of a rebase of the series is kept, in the checkout's git directory; `make clean` does not come there."""
    return Path(git.directory, git.text("rev-parse", "--git-common-dir")).resolve() / _REBASE_DIRECTORY


def rebase_state_file(git: Git) -> Path:
    """Is there while a rebase of the series was begun and not ended."""
    return rebase_directory(git) / "state.json"
