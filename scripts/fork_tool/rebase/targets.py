"""The base that a user names: a tag, a commit or a branch, of the checkout or else of upstream."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from datetime import datetime, UTC

from fork_tool.base.checkout import BRANCH_REF, Checkout, is_ancestor
from fork_tool.base.pin import Pin
from fork_tool.common.console import say
from fork_tool.common.errors import ForkToolError
from fork_tool.common.git import Git

_ANSWER_SECONDS = 60.0
_WHOLE_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class Target:
    """A commit that the series is to stand on."""

    # A tag, or the first digits of a commit that has none.
    name: str
    commit: str
    # Of the commit, in UTC, as base.toml has it.
    date: str


def find_target(checkout: Checkout, pin: Pin, asked: str) -> Target:
    """What `asked` stands for; fetched when the checkout lacks it, which moves no ref."""
    git = checkout.git
    if not asked or asked.startswith("-") or re.search(r"\s", asked):
        raise ForkToolError(f"{asked!r} is no name of a base: give a tag (v2.7.0), a branch (main) or a commit.")
    commit = git.resolve(asked)
    tag = asked if commit and git.resolve(f"refs/tags/{asked}") == commit else None
    if commit is None:
        commit, tag = _fetch(checkout, pin, asked)
    tip = git.resolve(BRANCH_REF)
    if tip and commit != checkout.base and is_ancestor(git, checkout.base, commit) and is_ancestor(git, commit, tip):
        raise ForkToolError(
            f"{asked} is a commit of the series itself ({commit[:12]}): give a base, a commit of upstream's."
        )
    if commit == pin.commit:
        # The pinned commit, in a checkout that has the same source from a tarball.
        return Target(pin.tag, commit, pin.date)
    seconds = int(git.text("log", "-1", "--format=%ct", "--no-show-signature", commit))
    date = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    return Target(tag or _tag_at(git, commit) or commit[:12], commit, date)


def _tag_at(git: Git, commit: str) -> str | None:
    tags = git.text("tag", "--points-at", commit, "--sort=version:refname").splitlines()
    return tags[0] if tags else None


def _fetch(checkout: Checkout, pin: Pin, asked: str) -> tuple[str, str | None]:
    """Get the commit, and the tag's name if it is one; nothing in the checkout points to it yet."""
    git = checkout.git
    missing = f"Neither {checkout.shown} nor {pin.url} has {asked!r}: give a tag, a branch or a whole commit id of upstream's."
    if _WHOLE_COMMIT.fullmatch(asked):
        source, commit, tag = asked, asked, None
    else:
        found = _ask_upstream(git, pin, asked)
        heads, tags = f"refs/heads/{asked}", f"refs/tags/{asked}"
        if tags in found:
            source, commit, tag = tags, found.get(f"{tags}^{{}}", found[tags]), asked
        elif heads in found:
            source, commit, tag = heads, found[heads], None
        else:
            raise ForkToolError(missing)
    say(f"fetching {asked} from {pin.url}")
    # A whole history next to a tarball's single commit would be gigabytes that nothing here reads.
    whole = git.resolve(pin.commit) and git.text("rev-parse", "--is-shallow-repository") == "false"
    words = [
        *("git", "fetch", "--progress", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules"),
        *([] if whole else ["--depth", "1"]),
        *(pin.url, source),
    ]
    # Not captured: git shows its own progress.
    if subprocess.run(
        words, cwd=git.directory, env=git.environment(), stdin=subprocess.DEVNULL, check=False
    ).returncode:
        raise ForkToolError(
            missing
            if tag is None and source == asked
            else f"{asked} could not be fetched from {pin.url} (see above): check the network and run it again."
        )
    if git.resolve(commit) is None:
        raise ForkToolError(f"{asked} moved at {pin.url} while it was fetched: run it again.")
    return commit, tag


def _ask_upstream(git: Git, pin: Pin, asked: str) -> dict[str, str]:
    patterns = [f"refs/tags/{asked}", f"refs/tags/{asked}^{{}}", f"refs/heads/{asked}"]
    reached = f"{pin.url} does not answer, and the checkout has no {asked!r}: check the network, or fetch it into the checkout by hand."
    try:
        done = git.run("ls-remote", pin.url, *patterns, check=False, timeout=_ANSWER_SECONDS)
    except subprocess.TimeoutExpired:
        raise ForkToolError(reached) from None
    if done.returncode:
        raise ForkToolError(reached)
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    return {name: commit for commit, _, name in (line.partition("\t") for line in lines)}
