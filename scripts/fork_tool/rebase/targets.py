"""The base that a user names, of the checkout or else of upstream, and what base.toml says once the series stands on it."""

import json
import re
import tomllib
from dataclasses import dataclass
from datetime import datetime, UTC
from pathlib import Path

from fork_tool.base.checkout import BRANCH_REF, Checkout, is_ancestor
from fork_tool.base.pin import Pin
from fork_tool.common.console import say
from fork_tool.common.errors import ForkToolError
from fork_tool.series.project import Project


@dataclass(frozen=True)
class Target:
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
    names = [tag] if tag else git.text("tag", "--points-at", commit, "--sort=version:refname").splitlines()
    return Target(names[0] if names else commit[:12], commit, date)


def _fetch(checkout: Checkout, pin: Pin, asked: str) -> tuple[str, str | None]:
    """Get the commit, and the tag's name if it is one, which the checkout has from then on."""
    git = checkout.git
    say(f"fetching {asked} from {pin.url}")
    # A whole history next to a tarball's single commit would be gigabytes that nothing here reads.
    whole = git.resolve(pin.commit) and git.text("rev-parse", "--is-shallow-repository") == "false"
    words = ("fetch", "--no-tags", "--no-recurse-submodules", *(() if whole else ("--depth", "1")), pin.url)
    tag = f"refs/tags/{asked}"
    if git.succeeds(*words, f"{tag}:{tag}"):
        return git.text("rev-parse", f"{tag}^{{commit}}"), asked
    done = git.run(*words, asked, check=False)
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise ForkToolError(
            f"Neither {checkout.shown} nor {pin.url} has {asked!r} ({said[0] if said else 'git says nothing'}): give a tag, a branch "
            "or a whole commit id of upstream's, or check the network."
        )
    return git.text("rev-parse", "FETCH_HEAD^{commit}"), None


def edit_pin(text: str, path: Path, values: dict[tuple[str, str], str], without: tuple[str, ...] = ()) -> str:
    """The text with these values, by (table, key), and without these tables; nothing is written."""
    wanted = tomllib.loads(text)
    for table in without:
        wanted.pop(table, None)
        text = _without(text, table)
    for (table, key), value in values.items():
        wanted[table][key] = value
        text = _with_value(text, table, key, value)
    if tomllib.loads(text) != wanted:
        raise ForkToolError(
            f"{path} is laid out in a way that can't be rewritten: put {', '.join('.'.join(name) for name in values)} "
            'on lines of their own, as `key = "value"` below the `[table]`, and run this again.'
        )
    return text


def _with_value(text: str, table: str, key: str, value: str) -> str:
    line = rf"""(^\[{re.escape(table)}\].*\n(?:(?!\[).*\n)*?{re.escape(key)}\s*=\s*)(?:"[^"]*"|'[^']*')"""
    return re.sub(line, lambda match: match[1] + json.dumps(value), text, flags=re.MULTILINE)


def _without(text: str, table: str) -> str:
    # The comment above a table belongs to it.
    return re.sub(rf"^(?:#.*\n)*\[{re.escape(table)}\].*\n(?:(?!(?:#.*\n)*\[).*\n)*", "", text, flags=re.MULTILINE)


_RELEASE = re.compile(r"v(\d+(?:\.\d+)+)")


def rewritten_pin(project: Project, target: Target) -> tuple[str, list[str]]:
    """The new text, and what the user has to look at; nothing is written."""
    pin, path = project.pin, project.layout.pin
    text = path.read_text("utf-8")
    if target.commit == pin.commit:
        return text, []
    values = {
        ("upstream", "tag"): target.name,
        ("upstream", "commit"): target.commit,
        ("upstream", "date"): target.date,
    }
    notes = []
    release = _RELEASE.fullmatch(target.name)
    if release:
        values["wheel", "version"] = release[1]
    else:
        notes.append(
            f"{target.name} is no release: base.toml still names the wheel {pin.wheel}, on which the simulator runs."
        )
    without: tuple[str, ...] = ()
    if pin.tarball:
        without = ("debian",)
        notes.append(
            f"base.toml no longer has the table [debian]: {pin.tarball.name} is not the source of {target.name}."
        )
    notes.append(
        "what base.toml says of making wheels ([mac_library]) is still that of "
        f"{pin.tag}: scripts/mac_wheel/README.md gives the reasons for its values."
    )
    return edit_pin(text, path, values, without), notes
