"""From commits to patches: what a straight line of commits on a base is as a series.

The rules, in short: a patch is a commit; a file that the base has, or an earlier patch, gives hunks; a new file goes
to the overlay with the content it has at the tip, claimed by the patch that adds it. If a later commit changes the mode
of a new file, all edits of the file move into it. A commit of which nothing is left gives no patch.
"""

from dataclasses import dataclass, field

from fork_tool.base.checkout import APPLIED_REF, BRANCH, Checkout
from fork_tool.base.pin import Pin
from fork_tool.common.errors import ForkToolError
from fork_tool.common.git import Git
from fork_tool.series.overlay import OverlayFile
from fork_tool.series.patches import check_header, name_from_title, parse_message, Patch, TITLE_MARK
from fork_tool.series.stack import build_stack, Stack

# One line of context ties a hunk to its place. With none, git would put an added line at its number
# whatever stands there; with more, patches that touch neighbouring lines would quote each other.
DIFF_OPTIONS = (
    "--unified=1",
    "--inter-hunk-context=0",
    "--no-renames",
    "--no-color",
    "--no-ext-diff",
    "--no-textconv",
    "--no-indent-heuristic",
    "--diff-algorithm=myers",
    "--src-prefix=a/",
    "--dst-prefix=b/",
    "--ignore-submodules=none",
)
_REGULAR = ("100644", "100755")


@dataclass(frozen=True)
class Change:
    """What a commit does to one path."""

    old_mode: str
    new_mode: str
    status: str
    path: str


@dataclass
class Draft:
    """A commit of the branch, or neighbouring ones of the same patch, on the way to a patch."""

    name: str | None
    title: str
    body: str
    before: str
    last: str
    hunk_paths: set[str] = field(default_factory=set)
    overlay: set[str] = field(default_factory=set)


@dataclass
class Taken:
    """A line of commits as a series."""

    patches: list[Patch]
    files: dict[str, OverlayFile]
    stack: Stack


def take_series(checkout: Checkout, pin: Pin, tip: str, taken: set[str], notes: list[str]) -> Taken:
    """The patches that give back the commits between the base and `tip`; `taken` are names that new ones can't have."""
    drafts = _drafts(checkout, tip, notes)
    _refuse_upstreams(checkout, drafts)
    _distribute(checkout, tip, drafts)
    patches = _patches(checkout.git, drafts, taken, notes)
    files = _overlay_files(checkout.git, tip, patches)
    stack = build_stack(checkout.git, pin, checkout.base, patches, lambda path, _patch: files[path])
    if checkout.git.tree_of(stack.tip) != checkout.git.tree_of(tip):
        different = checkout.git.names("diff-tree", "-r", "-z", "--name-only", stack.tip, tip)
        raise ForkToolError(
            f"The series would not give back what the branch has in {', '.join(different[:3])}; nothing was written: split the commit that touches it."
        )
    return Taken(patches, files, stack)


def _drafts(checkout: Checkout, tip: str, notes: list[str]) -> list[Draft]:
    git = checkout.git
    drafts: list[Draft] = []
    seen: set[str] = set()
    for line in git.text("rev-list", "--reverse", "--topo-order", "--parents", f"{checkout.base}..{tip}").splitlines():
        commit, *parents = line.split()
        message = git.run("log", "-1", "--format=%B", "--encoding=UTF-8", "--no-show-signature", commit).stdout.decode(
            "utf-8", "replace"
        )
        name, title, body = parse_message(message)
        what = f"commit {commit[:12]} ({title[:60]})"
        if len(parents) != 1:
            raise ForkToolError(
                f"{what[0].upper()}{what[1:]} is a merge: the series is a straight line; `git -C {checkout.shown} rebase {checkout.base[:12]}`, then refresh."
            )
        if title.startswith(("fixup! ", "squash! ", "amend! ")):
            raise ForkToolError(
                f"{what[0].upper()}{what[1:]} waits to be folded: `git -C {checkout.shown} -c sequence.editor=true rebase -i --autosquash {checkout.base[:12]}`, then refresh."
            )
        if name is not None and drafts and drafts[-1].name == name:
            drafts[-1].last = commit
            continue
        if name is not None and name in seen:
            raise ForkToolError(
                f"Two commits that are not neighbours say `Patch: {name}` (the second is {commit[:12]}): squash them, or take the line out of one."
            )
        if not title:
            raise ForkToolError(
                f"Commit {commit[:12]} has no message: give it one with `git commit --amend`, its title is the patch's title."
            )
        if not title.startswith(TITLE_MARK):
            notes.append(f"the title of {what} got the {TITLE_MARK.strip()} that every patch has.")
            title = TITLE_MARK + title.removeprefix(TITLE_MARK.strip()).lstrip()
        check_header(title, body, what)
        if name is not None:
            seen.add(name)
        drafts.append(Draft(name, title, body, parents[0], commit))
    return drafts


def _refuse_upstreams(checkout: Checkout, drafts: list[Draft]) -> None:
    """After a rebase by hand upstream's commits stand between the base and the patches, and none says what patch it is."""
    if not drafts or drafts[0].name is not None:
        return
    lowest = drafts[0]
    published = checkout.git.text(
        *("for-each-ref", "--count=1", "--format=%(refname:short)"),
        *("--contains", lowest.last, "refs/remotes", "refs/tags"),
    )
    if published:
        reason = f"is part of {published}"
    elif any(draft.name is not None for draft in drafts):
        reason = "stands below the patches and is none of them"
    else:
        return
    raise ForkToolError(
        f"Commit {lowest.last[:12]} ({lowest.title[:60]}) {reason}, so it may be upstream's, which can't become a patch; nothing was written. "
        f"To move the series to another base: `git -C {checkout.shown} checkout -B {BRANCH} {APPLIED_REF}`, then `scripts/mpsfork rebase --onto REF`. "
        f"If the commit is a new patch, end its message with a line `Patch: NAME`."
    )


def changes_between(git: Git, before: str, after: str) -> list[Change]:
    """What a commit does, path by path."""
    fields = git.names("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", before, after)
    found = []
    for head, path in zip(fields[::2], fields[1::2], strict=True):
        old_mode, new_mode, _old, _new, status = head.removeprefix(":").split(" ")
        found.append(Change(old_mode, new_mode, status, path))
    return found


def _distribute(checkout: Checkout, tip: str, drafts: list[Draft]) -> None:
    """Sort every changed path into the hunks or the overlay of its patch."""
    git = checkout.git
    base_paths = set(git.names("ls-tree", "-r", "-z", "--name-only", checkout.base))
    owner: dict[str, Draft] = {}
    edited: dict[str, list[Draft]] = {}
    folded: set[str] = set()
    for draft in drafts:
        for change in changes_between(git, draft.before, draft.last):
            path = change.path
            if path in base_paths:
                _refuse_unfit(change, f"commit {draft.last[:12]} ({draft.title[:60]})")
                draft.hunk_paths.add(path)
            elif change.status == "A":
                owner[path], edited[path] = draft, []
                folded.discard(path)
            elif change.status == "D":
                del owner[path]
            elif change.old_mode == change.new_mode:
                edited[path].append(draft)
            else:
                # No hunk says so: all edits since the file was added move into it.
                folded.add(path)
    for path in owner.keys() - folded:
        for draft in edited[path]:
            draft.hunk_paths.add(path)
    modes = {change.path: change.new_mode for change in changes_between(git, checkout.base, tip)}
    for path, draft in owner.items():
        if modes[path] not in _REGULAR:
            kind = {"120000": "a symbolic link", "160000": "a submodule"}.get(modes[path], "no plain file")
            raise ForkToolError(
                f"{path} on the branch {BRANCH} is {kind}: the overlay holds plain files only; commit it as one."
            )
        draft.overlay.add(path)


def _refuse_unfit(change: Change, what: str) -> None:
    verb = None
    if change.status == "D":
        verb = "deletes"
    elif change.status == "A":
        verb = "brings back"
    elif change.old_mode != change.new_mode:
        verb = "changes the mode of"
    elif change.new_mode not in _REGULAR:
        verb = "changes the link or submodule"
    if verb:
        raise ForkToolError(
            f"In {what}: it {verb} {change.path}, which upstream has; the series holds only hunks on such files: undo that part of the commit."
        )


def _patches(git: Git, drafts: list[Draft], taken: set[str], notes: list[str]) -> list[Patch]:
    names = taken | {draft.name for draft in drafts if draft.name is not None}
    patches = []
    for draft in drafts:
        diff = b""
        if draft.hunk_paths:
            diff = _diff(git, draft)
        if not diff and not draft.overlay:
            notes.append(f"commit {draft.last[:12]} ({draft.title}) leaves no change of its own; it is no patch.")
            continue
        name = draft.name
        if name is None:
            name = name_from_title(draft.title, names)
            names.add(name)
        patches.append(Patch(name, draft.title, draft.body, tuple(sorted(draft.overlay)), diff))
    return patches


def _diff(git: Git, draft: Draft) -> bytes:
    paths = [f":(literal){path}" for path in sorted(draft.hunk_paths)]
    raw = git.run("diff-tree", "-p", *DIFF_OPTIONS, draft.before, draft.last, "--", *paths).stdout
    kept = []
    for line in raw.split(b"\n"):
        # The blob ids say nothing to `git apply` and would change with every patch before this one.
        if line.startswith(b"index "):
            continue
        if line.startswith(b"Binary files "):
            name = line.decode("utf-8", "replace").split(" ")[2].removeprefix("a/")
            raise ForkToolError(
                f"In commit {draft.last[:12]} ({draft.title[:60]}): {name} is not text; the series holds only text hunks on upstream's files: undo that part."
            )
        kept.append(line)
    return b"\n".join(kept)


def _overlay_files(git: Git, tip: str, patches: list[Patch]) -> dict[str, OverlayFile]:
    files = {}
    for patch in patches:
        for path in patch.overlay:
            mode = git.text("ls-tree", tip, "--", f":(literal){path}").split(" ", 1)[0]
            content = git.run("cat-file", "blob", f"{tip}:{path}").stdout
            files[path] = OverlayFile(content, mode == "100755")
    return files
