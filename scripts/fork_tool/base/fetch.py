"""`fetch`: get the base, from the user's own checkout, from GitHub or from a Debian mirror."""

import re
import subprocess
from pathlib import Path

from fork_tool.base.checkout import BASE_REF, BRANCH, branch_of, describe_head, is_base, open_checkout, top_of
from fork_tool.base.download import fetch_file, Unreachable
from fork_tool.base.mirrors import find_mirrors
from fork_tool.base.pin import WorkingCopy
from fork_tool.base.tarball import commit_tree, NEEDED_BYTES, unpack
from fork_tool.common.console import note, say
from fork_tool.common.errors import ForkToolError
from fork_tool.common.files import need_space, new_directory
from fork_tool.common.git import Git
from fork_tool.common.processes import uninterrupted

SOURCES = ("git", "debian")
# The simulator needs no submodules, and the tarball has none: it is 27 MB instead of gigabytes.
SMALL_FIRST = ("debian", "git")
_CLONE_BYTES = 6_000_000_000
_PROBE_SECONDS = 15.0


class SourceFailed(Exception):
    """One source of the base does not work here; the next may."""


def fetch(project: WorkingCopy, checkout: Path | None = None, sources: tuple[str, ...] = SOURCES) -> bool:
    """Make build/pytorch a checkout of the base; false when it was one already."""
    layout = project.layout
    layout.build.mkdir(exist_ok=True)
    if checkout is not None:
        return _use(project, checkout)
    if layout.checkout.is_symlink() and not layout.checkout.exists():
        raise ForkToolError(
            f"{layout.shown(layout.checkout)} points to {layout.checkout.readlink()}, which is gone: "
            f"`rm {layout.shown(layout.checkout)}` and run `make fetch`, or give the new place with `scripts/mpsfork fetch --checkout DIR`."
        )
    if layout.checkout.exists():
        open_checkout(layout.checkout, project.pin, layout.shown(layout.checkout))
        return False
    reasons = []
    for source in sources:
        try:
            _from_git(project) if source == "git" else _from_debian(project)
            return True
        except SourceFailed as reason:
            reasons.append(str(reason))
            if source != sources[-1]:
                note(f"{reason}; trying {sources[sources.index(source) + 1]} instead")
    raise ForkToolError(
        f"No source of PyTorch {project.pin.tag} could be reached: {'; '.join(reason.rstrip('.') for reason in reasons)}. `scripts/mpsfork fetch --checkout DIR` takes a checkout that you have."
    )


def _use(project: WorkingCopy, directory: Path) -> bool:
    layout, pin = project.layout, project.pin
    own = directory.expanduser().resolve()
    if not own.is_dir():
        raise ForkToolError(f"{directory} is not a directory: give the path of a git checkout of PyTorch {pin.tag}.")
    if top_of(own, str(directory)) != own:
        raise ForkToolError(
            f"{directory} is not the top of a git checkout: give the path of a git checkout of PyTorch {pin.tag}."
        )
    git = Git(own)
    base = git.resolve(BASE_REF if branch_of(git) == BRANCH else "HEAD")
    if base is None or not is_base(git, pin, base):
        raise ForkToolError(
            f"{directory} is at {describe_head(git)}, not at PyTorch {pin.tag} ({pin.commit[:12]}): `git -C {directory} checkout {pin.tag}` and run this again."
        )
    link = layout.checkout
    if link.exists() or link.is_symlink():
        if link.resolve() == own:
            return False
        if not link.is_symlink():
            raise ForkToolError(
                f"{layout.shown(link)} is there already and is another checkout: move it away (it may hold commits of yours), then run this again."
            )
    with uninterrupted():
        git.run("update-ref", BASE_REF, base)
        new = link.with_name(".pytorch-link")
        new.unlink(missing_ok=True)
        new.symlink_to(own)
        new.replace(link)
    return True


def _from_git(project: WorkingCopy) -> None:
    pin, layout = project.pin, project.layout
    git = Git(layout.build)
    try:
        answers = git.run("ls-remote", pin.url, "HEAD", check=False, timeout=_PROBE_SECONDS).returncode == 0
    except subprocess.TimeoutExpired:
        answers = False
    if not answers:
        raise SourceFailed(f"{re.sub(r'^.*://', '', pin.url).split('/')[0]} does not answer")
    need_space(layout.build, _CLONE_BYTES, f"A clone of PyTorch {pin.tag} with its submodules")
    with new_directory(layout.checkout) as new:
        say(f"cloning {pin.url} at {pin.tag} with its submodules; this takes a while")
        for words in (
            ("init", "--quiet"),
            ("remote", "add", "origin", pin.url),
            ("fetch", "--progress", "--no-tags", "--depth", "1", "origin", pin.commit),
            ("checkout", "--quiet", "--detach", pin.commit),
            ("submodule", "update", "--init", "--recursive", "--depth", "1", "--jobs", "4", "--progress"),
        ):
            # Not captured: git shows its own progress.
            command = ["git", "-c", "advice.detachedHead=false", "-C", str(new), *words]
            if subprocess.run(command, env=git.environment(), stdin=subprocess.DEVNULL, check=False).returncode:
                raise SourceFailed(f"the clone of {pin.url} broke off")
        Git(new).whole("update-ref", BASE_REF, pin.commit)


def _from_debian(project: WorkingCopy) -> None:
    pin, layout = project.pin, project.layout
    if pin.tarball is None:
        raise SourceFailed("base.toml names no Debian tarball")
    mirrors = find_mirrors()
    try:
        tarball = fetch_file(pin.tarball, mirrors, layout.cache)
    except Unreachable as problem:
        raise SourceFailed(str(problem)) from None
    need_space(layout.build, NEEDED_BYTES, f"Unpacking {pin.tarball.name}")
    with new_directory(layout.checkout) as new:
        say(f"unpacking {pin.tarball.name}")
        unpack(tarball, new)
        tree = commit_tree(new, pin, pin.tarball.name)
        if tree != pin.tarball_tree:
            raise ForkToolError(
                f"The unpacked {pin.tarball.name} has the git tree {tree[:12]}, not {str(pin.tarball_tree)[:12]} as base.toml says: "
                "the file system may not keep file modes or the case of names; use another one."
            )
        Git(new).whole("update-ref", BASE_REF, "refs/heads/base")
