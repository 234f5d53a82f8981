"""What became of a patch's changes on another base: which moved, which upstream has by now."""

from collections import Counter
from dataclasses import dataclass, field

from fork_tool.common.console import say
from fork_tool.common.git import Git
from fork_tool.series.diffs import FileDiff, Hunk, parse_diff
from fork_tool.series.from_commits import changes_between, DIFF_OPTIONS
from fork_tool.series.merge import Clash


@dataclass(frozen=True)
class Moved:
    path: str
    hunk: int
    lines: int


@dataclass
class Carried:
    """Which hunks moved, and sentences, each of them about one file or hunk."""

    moved: list[Moved] = field(default_factory=list)
    renamed: list[str] = field(default_factory=list)
    # What the patch no longer has, in sentences that say why.
    gone: list[str] = field(default_factory=list)
    # Nothing of the patch is left.
    dropped: bool = False


@dataclass
class _Piece:
    """A run of changed lines; `number` is the hunk of the patch that it belongs to."""

    number: int
    hunk: Hunk

    @property
    def lines(self) -> Counter[bytes]:
        # Counted, not in order: git may begin an added block one line later where other lines surround it.
        return Counter(self.hunk.lines)


def compare(
    git: Git, old: tuple[str, str], new: tuple[str, str], files: list[FileDiff], by_hand: bool = False
) -> Carried:
    """What is the same, moved or gone in a new commit of a patch; both are (before, after).

    `files` is its diff. A clean merge leaves out only what upstream has; a resolution `by_hand`, anything.
    """
    carried = Carried(dropped=git.tree_of(new[0]) == git.tree_of(new[1]))
    before, after = _pieces(git, old, files), _pieces(git, new, [])
    _follow_renames(git, new[0], before, after, carried)
    for path, pieces in before.items():
        left = list(after.get(path, []))
        for piece in pieces:
            match = next((other for other in left if other.lines == piece.lines), None)
            if match:
                left.remove(match)
                offset = match.hunk.old_start - piece.hunk.old_start
                if offset:
                    carried.moved.append(Moved(path, piece.number, offset))
                piece.number = 0
        rest = sum((other.lines for other in left), Counter[bytes]())
        for piece in pieces:
            if piece.number:
                carried.gone.append(f"{path}, hunk {piece.number} {_fate(piece, rest, by_hand)}")
    _compare_new_files(git, old, new, carried, by_hand)
    # One hunk of the patch may be several runs of lines.
    carried.moved = list(dict.fromkeys(carried.moved))
    carried.gone = list(dict.fromkeys(carried.gone))
    return carried


def _fate(piece: _Piece, rest: Counter[bytes], by_hand: bool) -> str:
    kept = piece.lines & rest
    rest.subtract(kept)
    count, left = piece.lines.total(), kept.total()
    if not left:
        return _gone(by_hand)
    if by_hand:
        return f"resolved by hand: {left} of its {count} lines are as they were"
    return f"dropped in part, {left} of {count} lines are left: upstream has the others"


def _gone(by_hand: bool) -> str:
    return "dropped: upstream has it" + (", or the conflict was resolved without it" if by_hand else "")


def _pieces(git: Git, pair: tuple[str, str], files: list[FileDiff]) -> dict[str, list[_Piece]]:
    """The changed runs of lines of a commit, by file; added and deleted files are none."""
    options = ["--unified=0" if option.startswith("--unified") else option for option in DIFF_OPTIONS]
    diff = git.run("diff-tree", "-p", *options, "--diff-filter=M", *pair).stdout
    hunks = {file.path: file.hunks for file in files}
    found: dict[str, list[_Piece]] = {}
    for file in parse_diff(diff):
        pieces = found.setdefault(file.path, [])
        for index, hunk in enumerate(file.hunks, start=1):
            pieces.append(_Piece(_number_in_patch(hunk, hunks.get(file.path, [])) or index, hunk))
    return found


def _number_in_patch(piece: Hunk, hunks: list[Hunk]) -> int:
    at = piece.old_start
    for number, hunk in enumerate(hunks, start=1):
        if hunk.old_start <= at < hunk.old_start + hunk.context + hunk.removed:
            return number
    return 0


def _follow_renames(
    git: Git, base: str, before: dict[str, list[_Piece]], after: dict[str, list[_Piece]], carried: Carried
) -> None:
    """Give the pieces of a file that upstream renamed the old name, as far as a new name has changes like its own."""
    there = set(git.names("ls-tree", "-r", "-z", "--name-only", base))
    for path in [path for path in before if path not in there]:
        own = sum((piece.lines for piece in before[path]), Counter[bytes]())
        likeness = {
            other: (own & sum((piece.lines for piece in pieces), Counter[bytes]())).total()
            for other, pieces in after.items()
            if other not in before
        }
        best = max(likeness, key=lambda other: likeness[other], default="")
        if best and likeness[best]:
            after[path] = after.pop(best)
            carried.renamed.append(f"{path} is {best} there")


def _compare_new_files(git: Git, old: tuple[str, str], new: tuple[str, str], carried: Carried, by_hand: bool) -> None:
    added, now = ({c.path for c in changes_between(git, *pair) if c.status == "A"} for pair in (old, new))
    elsewhere = sorted(now - added)
    for path in sorted(added - now):
        blob = git.text("rev-parse", f"{old[1]}:{path}")
        moved = next((other for other in elsewhere if git.text("rev-parse", f"{new[1]}:{other}") == blob), None)
        if moved:
            elsewhere.remove(moved)
            carried.renamed.append(f"{path} is {moved} there, since upstream renamed its directory")
        else:
            carried.gone.append(f"{path} {_gone(by_hand)}")


# Longer sides are in the file itself.
_LINES_SHOWN = 12


def show_clashes(patch: str, base: str, clashes: list[Clash]) -> None:
    """Print each place with both sides."""
    for clash in clashes:
        hunk = f", {clash.hunk}" if clash.hunk else ""
        if clash.sentence:
            say(f"{patch}: {clash.path}: {clash.sentence}", style="bold")
            continue
        say(f"{patch}: {clash.path}, line {clash.line}{hunk}", style="bold")
        for title, lines, style in (
            ("was", clash.before, "dim"),
            (f"{base} has", clash.upstream, "cyan"),
            (f"the patch {patch} has", clash.patch, "green"),
        ):
            say(f"  {title}:")
            say(_side(lines), style=style)


def _side(lines: list[str]) -> str:
    more = len(lines) - _LINES_SHOWN
    shown = lines if more <= 0 else [*lines[:_LINES_SHOWN], f"… and {more} more lines"]
    return "\n".join(f"    {line}" for line in shown or ["(nothing)"])
