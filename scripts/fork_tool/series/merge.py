"""One patch merged onto another tree, by git's own three-way merge, without a working tree."""

import re
from dataclasses import dataclass, field

from fork_tool.base.pin import Pin
from fork_tool.common.errors import ForkToolError
from fork_tool.common.git import Git, GitError
from fork_tool.series.diffs import FileDiff

# diff3: what both sides began with is shown between them. Overlay files follow a directory that upstream renamed.
MERGE_SETTINGS = ("-c", "merge.conflictStyle=diff3", "-c", "merge.directoryRenames=true", "-c", "merge.renames=true")
_LABEL = re.compile(rb"(<<<<<<<|\|\|\|\|\|\|\||>>>>>>>) ([^:\n]*)(?::(.*))?")


@dataclass
class Clash:
    """One place where upstream and the patch changed the same lines."""

    path: str
    line: int = 0
    upstream: list[str] = field(default_factory=list)
    before: list[str] = field(default_factory=list)
    patch: list[str] = field(default_factory=list)
    # The hunk of the patch, and what is wrong when it is no matter of lines.
    hunk: str = ""
    sentence: str = ""


@dataclass
class Merge:
    """The tree that came out; with clashes it holds git's marks at them."""

    tree: str
    clashes: list[Clash] = field(default_factory=list)


def merge_patch(git: Git, pin: Pin, before: str, commit: str, onto: str, files: list[FileDiff]) -> Merge:
    """Merge what `commit` does to `before` into `onto`; `files` are the files of that change."""
    # git merges commits: one that seems to have been made from `before` gives the three sides wanted.
    side = git.commit_tree(pin.date, git.tree_of(onto), "the new base\n", (before,))
    done = git.run(*MERGE_SETTINGS, "merge-tree", "--write-tree", "-z", "--messages", side, commit, check=False)
    if done.returncode not in (0, 1):
        said = done.stderr.decode("utf-8", "replace")
        if "usage:" in said:
            raise ForkToolError(
                "This needs git 2.38 or later, which can merge without a working tree: install a newer git."
            )
        raise GitError(("merge-tree",), said)
    tree, _, rest = done.stdout.partition(b"\0")
    merge = Merge(tree.decode())
    if done.returncode == 0:
        return merge
    informed, messages = _sections(rest)
    for path in dict.fromkeys(informed):
        merge.clashes += _clashes_in(git, merge.tree, path, side, files)
    with_lines = {clash.path for clash in merge.clashes}
    for paths, kind, text in messages:
        if kind.startswith("CONFLICT") and not (kind == "CONFLICT (contents)" and with_lines.intersection(paths)):
            sentence = text.strip().replace(side, "the new base").replace(commit, "the patch")
            merge.clashes.append(Clash(paths[0] if paths else "", sentence=sentence))
    return merge


def _sections(output: bytes) -> tuple[list[str], list[tuple[list[str], str, str]]]:
    """The paths in conflict, and the messages with their paths and kind."""
    fields = [part.decode("utf-8", "surrogateescape") for part in output.split(b"\0")]
    paths, at = [], 0
    while at < len(fields) and fields[at]:
        paths.append(fields[at].partition("\t")[2])
        at += 1
    at += 1
    messages = []
    while at < len(fields) and fields[at].isdigit():
        count = int(fields[at])
        named = fields[at + 1 : at + 1 + count]
        kind, text = fields[at + 1 + count : at + 3 + count]
        messages.append((named, kind, text))
        at += 3 + count
    return paths, messages


def _clashes_in(git: Git, tree: str, path: str, side: str, files: list[FileDiff]) -> list[Clash]:
    done = git.run("cat-file", "blob", f"{tree}:{path}", check=False)
    found: list[Clash] = []
    current: Clash | None = None
    into: list[str] = []
    for number, line in enumerate(done.stdout.split(b"\n"), start=1):
        label = _LABEL.fullmatch(line)
        text = line.decode("utf-8", "replace")
        if label and label[1] == b"<<<<<<<" and label[2] == side.encode():
            current = Clash(path, number)
            into = current.upstream
        elif current is None:
            continue
        elif label and label[1] == b"|||||||":
            into = current.before
        elif line == b"=======" and into is current.before:
            into = current.patch
        elif label and label[1] == b">>>>>>>" and into is current.patch:
            own_path = label[3].decode("utf-8", "replace") if label[3] else path
            current.hunk = _hunk_of(current, own_path, files)
            found.append(current)
            current = None
        else:
            into.append(text)
    return found


def _hunk_of(clash: Clash, path: str, files: list[FileDiff]) -> str:
    """The hunk of the patch that has most lines in common with what clashes."""
    added, removed = set(clash.patch) - set(clash.before), set(clash.before) - set(clash.patch)
    best, most = "", 0
    for file in files:
        if file.path != path:
            continue
        for number, hunk in enumerate(file.hunks, start=1):
            lines = [line.decode("utf-8", "replace") for line in hunk.lines]
            common = sum(
                (line[:1] == "+" and line[1:] in added) or (line[:1] == "-" and line[1:] in removed) for line in lines
            )
            if common > most:
                best, most = f"hunk {number} ({hunk.header})", common
    return best
